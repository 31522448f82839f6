#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a command in a new mount namespace, so that its mounts do not reach other
# namespaces.
#
#   own_mounts.sh [<options of unshare>…] -- <command>…
#
# Needs root, or permission for ordinary users to make namespaces; otherwise exit 77 with
# a line "skipped: …". With --pid among the options, /proc is that namespace's.
#
# unshare makes "/" private, for which "/" must be a mount point. In a plain chroot "/" is
# not a mount point, and no path leads to the mount that contains it. There the command
# gets a private copy of all mounts as its root: on a tmpfs over /proc, because /proc is a
# mount point, and mounts on a private mount stay there.
set -eu
PATH=$PATH:/usr/sbin:/sbin # chroot, which is not on an ordinary user's PATH
self=$(readlink -f "$0")

# In the new namespace: make the root private if it is not yet, and continue with the
# command.
inside() { # <private, or copied> <pid, or nothing> <folder> <command>…
    how=$1 pid=$2 folder=$3
    shift 3
    if [ "$how" = copied ]; then
        mount --make-rprivate /proc
        mount -t tmpfs own_mounts /proc
        mkdir /proc/root
        mount --rbind / /proc/root
        mount --make-rprivate /proc/root
        exec chroot /proc/root "$self" --inside private proc "$folder" "$@"
    fi
    [ -z "$pid" ] || mount -t proc proc /proc
    cd "$folder"
    exec "$@"
}

if [ "$1" = --inside ]; then
    shift
    inside "$@"
fi
options=--mount pid=
[ "$(id -u)" -eq 0 ] || options="--user --map-root-user $options"
while [ "$1" != -- ]; do
    [ "$1" != --pid ] || pid=proc
    options="$options $1"
    shift
done
shift
# shellcheck disable=SC2086 # a list of words
if why=$(unshare $options true 2>&1); then
    exec unshare $options "$self" --inside private "$pid" "$PWD" "$@"
elif unshare $options --propagation unchanged "$self" --inside copied "$pid" / true 2>/dev/null; then
    exec unshare $options --propagation unchanged "$self" --inside copied "$pid" "$PWD" "$@"
fi
echo "skipped: no mount namespace of its own is permitted here: $why"
exit 77
