#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# descriptors.sh reports calls outside FD_MAKE, whatever surrounds them, and a tool whose
# main lacks standard_files_open; it ignores names in comments and strings.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/core" "$dir/tools"
echo 'add_subdirectory(core)' >"$dir/CMakeLists.txt"
cat >"$dir/core/good.c" <<'END'
/* open(path) in a comment */ // dup(fd)
int good = FD_MAKE(socket(AF_UNIX, (int)sizeof(int), 0));
const char *text = "pipe(\" socket(";
void fine(void) { ops->open(ops); file_move(open(path, O_RDONLY)); reopen(1); }
END
sh "$SOURCE/tests/build/descriptors.sh" "$dir" || { echo "planted: descriptors.sh refuses a correct tree"; exit 1; }

cat >"$dir/core/bad.c" <<'END'
int one = FD_MAKE(socket(1, 2, 3)), two = accept4 (fd, NULL, NULL, 0);
int three = (int)syscall(SYS_pidfd_open, pid, 0), four = fcntl(fd, F_DUPFD_CLOEXEC, 0);
END
printf 'int main(void)\n{\n    return 0;\n}\n' >"$dir/tools/bad_tool.c"
if sh "$SOURCE/tests/build/descriptors.sh" "$dir" 2>"$dir/said"; then
    echo "planted: descriptors.sh accepts calls that may return 0 to 2"
    exit 1
fi
for what in accept4 SYS_pidfd_open F_DUPFD_CLOEXEC bad_tool.c; do
    grep -qF "$what" "$dir/said" || { echo "planted: descriptors.sh does not report $what"; cat "$dir/said"; exit 1; }
done
[ "$(wc -l <"$dir/said")" -eq 4 ] || { echo "planted: descriptors.sh reports more than four faults:"; cat "$dir/said"; exit 1; }
