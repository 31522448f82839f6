#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs.sh reports a file, names, a section and links that lead nowhere.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for name in "$SOURCE"/*; do
    case ${name##*/} in
    docs | build | tools | collectives) ;;
    *) ln -s "$name" "$dir/" ;;
    esac
done
cp -R "$SOURCE/collectives" "$dir/"
echo 'A step of a slice (gone_step.c).' >>"$dir/collectives/README.md"
mkdir "$dir/docs" "$dir/tools"
cp "$SOURCE"/docs/*.md "$SOURCE"/docs/*.svg "$dir/docs/"
printf '[a](gone_page.md) [b](hangs.md#gone-section)\n' >>"$dir/docs/launch.md"
echo '/* docs/design.md, "A section of no page" */' >"$dir/tools/cites.c"
# shellcheck disable=SC2016 # backquotes of Markdown
echo 'See `gone_file.c` and `gone_function`.' >>"$dir/docs/design.md"

# shellcheck disable=SC2016
echo 'See `tryst_gone_call`, and `TRYST_GONE_SETTING`.' >>"$dir/docs/priorities.md"

if sh "$SOURCE/tests/build/docs.sh" "$dir" 2>"$dir/said"; then
    echo "planted: docs.sh accepts names that do not exist"
    exit 1
fi
for what in gone_file.c gone_function gone_step.c 'A section of no page' gone_page.md '#gone-section' tryst_gone_call \
    TRYST_GONE_SETTING; do
    grep -qF "$what" "$dir/said" || { echo "planted: docs.sh does not report $what"; cat "$dir/said"; exit 1; }
done
[ "$(wc -l <"$dir/said")" -eq 8 ] || { echo "planted: docs.sh reports more than eight faults:"; cat "$dir/said"; exit 1; }
