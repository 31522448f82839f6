#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No descriptor of the product is ever 0, 1 or 2 (core/os/fd.h): a call that creates a
# descriptor is inside FD_MAKE or file_move, or in the two headers that define them. Tools
# keep the three numbers open: each main begins with standard_files_open.
# usage: tests/build/descriptors.sh [SOURCE]
set -eu
cd "${1:-$SOURCE}"
folders=$(sed -n 's/^ *add_subdirectory(\([^ )]*\).*/\1/p' CMakeLists.txt | grep -vxE 'tests|tools')
fail=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# recvmsg is left out: link.c moves descriptors that it receives; netlink passes none.
allowed='core/os/fd.h pipeline/base/file.h transports/link/link.c:recvmsg core/net/netlink.c:recvmsg'

# shellcheck disable=SC2086 # a list of folders
find $folders -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cc' | sort |
    while IFS= read -r file; do
        awk -v file="$file" -v allowed="$allowed" '
        # Remove comments and strings, and the arguments of FD_MAKE(…) and file_move(…).
        function code(text,    out, at, two, end) {
            while (match(text, /\/\*|\/\/|"/)) {
                out = out substr(text, 1, RSTART - 1)
                two = substr(text, RSTART, 2)
                text = substr(text, RSTART + (two ~ /^"/ ? 1 : 2))
                end = two == "/*" ? "[*]/" : two == "//" ? "\n" : "\""
                if (two ~ /^"/)
                    while (match(text, /\\.|"/) && substr(text, RSTART, 1) == "\\")
                        text = substr(text, RSTART + 2)
                if (!match(text, end)) return out
                out = out (two == "//" ? "\n" : " ")
                text = substr(text, RSTART + RLENGTH)
            }
            return out text
        }
        function unwrapped(text,    out, i, depth, c) {
            while (match(text, /(FD_MAKE|file_move)[ \n]*\(/)) {
                out = out substr(text, 1, RSTART - 1)
                text = substr(text, RSTART + RLENGTH)
                depth = 1
                for (i = 1; depth && i <= length(text); i++) {
                    c = substr(text, i, 1)
                    depth += (c == "(") - (c == ")")
                }
                text = substr(text, i)
            }
            return out text
        }
        BEGIN {
            makers = "socket|socketpair|accept4|epoll_create1?|eventfd|timerfd_create|signalfd|memfd_create" \
                "|inotify_init1?|open|open64|openat|openat2|creat|shm_open|mq_open|dup|dup2|dup3|pipe|pipe2" \
                "|mkstemp|mkostemp|fopen|freopen|tmpfile|opendir|popen|recvmsg|recvmmsg|userfaultfd" \
                "|perf_event_open|io_uring_setup|posix_openpt"
            calls = "(^|[^A-Za-z0-9_>.])(" makers ")[ \n]*\\("
            numbers = "SYS_(pidfd_open|pidfd_getfd|memfd_create|openat2?|open|dup|eventfd2|userfaultfd)|F_DUPFD(_CLOEXEC)?"
        }
        { text = text $0 "\n" }
        END {
            if (index(" " allowed " ", " " file " ")) exit 0
            text = unwrapped(code(text))
            while (match(text, calls "|" numbers)) {
                name = substr(text, RSTART, RLENGTH)
                gsub(/[^A-Za-z0-9_]/, "", name)
                text = substr(text, RSTART + RLENGTH)
                if (index(" " allowed " ", " " file ":" name " ")) continue
                print "descriptors: " file ": " name " may give 0, 1 or 2: put it into FD_MAKE (core/os/fd.h) or file_move"
                bad = 1
            }
            exit bad
        }' "$file" || echo bad
    done >"$said"
if [ -s "$said" ]; then
    grep -v '^bad$' "$said" >&2
    fail=1
fi

grep -rlE '^int main\(' tools --include='*.c' | while IFS= read -r file; do
    sed -n '/^int main(/,/^}/p' "$file" | sed -n 1,6p | grep -q 'standard_files_open();' ||
        echo "descriptors: $file: main does not begin with standard_files_open"
done >"$said"
[ ! -s "$said" ] || { cat "$said" >&2; fail=1; }
exit $fail
