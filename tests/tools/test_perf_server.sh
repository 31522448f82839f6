#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tryst-perf server here, and tryst-perf HOST there, without a launcher: the figures of both,
# the token from standard input or a file, and what goes wrong: a wrong token, nobody, a
# port in use, no host.
# Usage: test_perf_server.sh <tryst-perf>                   on this host
#        test_perf_server.sh <tryst-perf> <netlab.sh> <lab> between the lab's h0 and h1
set -u
lab=
if [ $# -eq 3 ]; then
    [ "$1" = --within ] || exec "$2" "$3" "$0" --within "$1" "$3"
    shift
    lab=$2
fi
perf=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
for name in $(compgen -e | grep -E '^(TRYST|SLURM|PMIX?|OMPI|MPI)_'); do
    unset "$name"
done

bad() { echo "server: $*"; head -n 20 "$dir"/*; fail=1; }

here() { if [ -n "$lab" ]; then "$NETLAB" on h0 "$@"; else "$@"; fi; }
there() { if [ -n "$lab" ]; then "$NETLAB" on h1 "$@"; else "$@"; fi; }

# serve <options…>: start the server on a free port; $at is the command that it prints for
# the other host, $token its token
serve() {
    for _ in 1 2 3 4 5; do
        port=$((20000 + RANDOM % 10000))
        : >"$dir/server.err" # not the lines of the server before
        here "$perf" server --port $port "$@" >"$dir/server.out" 2>"$dir/server.err" &
        server=$!
        for _ in $(seq 200); do
            grep -qE '^token(: that|, .*: [0-9a-f]{32}$)' "$dir/server.err" && break
            kill -0 $server 2>/dev/null || break
            sleep 0.05
        done
        grep -q 'in use' "$dir/server.err" || break
        wait $server
    done
    token=$(sed -n 's/^token, .*: //p' "$dir/server.err")
    at=$(sed -n 's/^on the other host: tryst-perf //p' "$dir/server.err")
}

# ends <what> <pid> <status>
ends() {
    wait "$2"
    local status=$?
    [ $status -eq "$3" ] || bad "$1: ends with $status, not $3"
}

# Its options hold for both sides, and both print the same figures.
serve bandwidth -b 8 -e 2K -f 16 -i 200 --bidirectional --csv
[ ${#token} -eq 32 ] || bad "no token of 32 digits"
there "$perf" "$at" --csv <<<"$token" >"$dir/client.out" 2>"$dir/client.err" || bad "the other side fails"
ends "the server" "$server" 0
cmp -s "$dir/server.out" "$dir/client.out" || bad "the two sides print different figures"
[ "$(cut -d, -f1 "$dir/client.out" | tr '\n' ' ')" = "size_bytes 8 128 2048 " ] || bad "not the server's sizes"
! grep -rq "$token" "$dir/server.out" "$dir/client.out" "$dir/client.err" || bad "the token is printed elsewhere"
if [ -n "$lab" ]; then
    [ $fail -eq 0 ] && echo "between two hosts, at $at:" && cat "$dir/client.out"
    exit $fail
fi

# A wrong token: the reason on that side; the server goes on, and the right one joins.
serve -s 8 -i 20
"$perf" "localhost:$port" <<<"00000000000000000000" >"$dir/client.out" 2>"$dir/client.err" && bad "a wrong token passes"
grep -q 'wrong token' "$dir/client.err" || bad "a wrong token is refused without a reason"
"$perf" localhost --port "$port" --json - <<<"$token" >"$dir/client.out" 2>"$dir/client.err" || bad "after a wrong token the right one fails"
grep -q '^{"test": "pingpong"' "$dir/client.out" || bad "the other side writes no JSON"
ends "the server after a wrong token" "$server" 0

# A port in use.
serve -s 8 -i 20
"$perf" server --port "$port" >"$dir/out" 2>"$dir/err" && bad "a port in use passes"
grep -q "cannot listen at port $port: Address already in use; give another one: --port" "$dir/err" || bad "a port in use is refused without a reason"
"$perf" "127.0.0.1:$port" <<<"$token" >"$dir/client.out" 2>"$dir/client.err" || bad "the first server is gone"
ends "the first server" "$server" 0

# Nobody comes; nobody serves; no token.
export TRYST_BOOTSTRAP_TIMEOUT=700ms
serve -s 8
ends "a server to which nobody comes" "$server" 1
grep -q 'the other host has not joined: .* within 700 ms' "$dir/server.err" || bad "a server to which nobody comes has no reason"
"$perf" "127.0.0.1:$port" <<<"$token" >"$dir/client.out" 2>"$dir/client.err" && bad "without a server it passes"
grep -q 'cannot join the server: .*Connection refused' "$dir/client.err" || bad "without a server no reason"
"$perf" 127.0.0.1 </dev/null >"$dir/client.out" 2>"$dir/client.err" && bad "without a token it passes"
grep -q 'no token' "$dir/client.err" || bad "without a token no reason"
# On a terminal: no echo of the token, and an echo again after it, also after ^C.
# typed <key> <status, of which the signal is negative>
typed() {
    python3 - "$perf" "$1" "$2" >"$dir/out" 2>&1 <<'END' || bad "the terminal after $1: $(cat "$dir/out")"
import fcntl, os, pty, sys, termios, time
master, slave = pty.openpty()
echoes = lambda: bool(termios.tcgetattr(slave)[3] & termios.ECHO)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(slave, number)
    os.execv(sys.argv[1], ["tryst-perf", "127.0.0.1:1"])
end = time.time() + 20
while echoes() and time.time() < end:
    time.sleep(0.02)
assert not echoes(), "the token is shown"
os.write(master, {"line": b"0123456789abcdef0123\n", "^C": b"\x03"}[sys.argv[2]])
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == int(sys.argv[3]), f"ends with {status}"
assert echoes(), "no echo is left"
END
}
if command -v python3 >/dev/null; then
    typed line 1
    typed ^C -2
fi
unset TRYST_BOOTSTRAP_TIMEOUT

# A token of the user's: none is drawn, and none is asked for.
(umask 077 && echo 0123456789abcdef0123 >"$dir/token")
export TRYST_TOKEN_FILE=$dir/token
serve -s 8 -i 20
[ -z "$token" ] || bad "a token is drawn beside TRYST_TOKEN_FILE"
"$perf" "127.0.0.1:$port" </dev/null >"$dir/client.out" 2>"$dir/client.err" || bad "with TRYST_TOKEN_FILE it fails"
ends "the server with TRYST_TOKEN_FILE" "$server" 0

refused() {
    "$perf" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    [ $? -eq 2 ] || bad "'$*' does not end with 2"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || bad "'$*' is not refused with one line"
}
refused server allreduce
refused server server
refused server -n 4
refused no-such-host.invalid
refused localhost:0
refused localhost:port
refused localhost -n 2
refused localhost -s 8
exit $fail
