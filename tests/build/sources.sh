#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print the path of each C, C++ and CUDA file of the tree in the current folder, sorted, for the checks of sources.
set -eu
folders=
for folder in core include topology transports commsched rendezvous collectives context pipeline tools bindings tests examples; do
    [ ! -d $folder ] || folders="$folders $folder"
done
# shellcheck disable=SC2086 # a list of folders
find -L $folders -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' \) | LC_ALL=C sort
