#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-info: each of its views, and its errors for an invalid command line or variable.
# Usage: test_info.sh <tryst-info>
set -eu
info=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

bad() { echo "tryst-info: $*"; fail=1; }
says() { # <pattern> <options…>
    pattern=$1
    shift
    "$info" "$@" >"$dir/out" || bad "'$*' ends with $?"
    grep -q -- "$pattern" "$dir/out" || bad "'$*' does not say '$pattern'"
}

unset TRYST_WINDOW_BYTES TRYST_TOKEN
says '^tryst [0-9]*\.[0-9]*\.[0-9]* '
says '^build: '
says '^  self  available'
says '^  shm '
says '^  host  available$'
says '^  cuda  '
says '^TRYST_WINDOW_BYTES=auto$' -c
says 'BYTES: .*; allowed: ' -c
# shellcheck disable=SC2016 # Markdown, not commands
says '^| `TRYST_TRANSPORT` | ENUM | `auto` | .*auto\\|self\\|shm\\|ucx\\|ofi' --markdown
# shellcheck disable=SC2016
says '^| `TRYST_TRANSPORT` |' -c --markdown
if [ "$(grep -c '^## ' "$dir/out")" -ne 8 ] || [ "$(grep -c '^|---' "$dir/out")" -ne 8 ]; then
    bad "the settings are not in 8 groups"
fi
says '^ *200  TRYST_E_PEER ' --status
says '^the peer failed$' --status
says '^Usage: tryst-info' --help
export TRYST_WINDOW_BYTES=8M TRYST_TOKEN=hush
says '^TRYST_WINDOW_BYTES=8M  (environment; default auto)$' -c
says '^TRYST_TOKEN=(set)' -c
! grep -q hush "$dir/out" || bad "-c prints the token"

refused() { # <status> <pattern> <options…>
    wanted=$1
    pattern=$2
    shift 2
    "$info" "$@" >"$dir/out" 2>"$dir/err" && status=0 || status=$?
    [ "$status" -eq "$wanted" ] || bad "'$*' ends with $status, not $wanted"
    grep -q "$pattern" "$dir/err" || bad "'$*' does not say '$pattern'"
}
refused 2 'unexpected word' extra
refused 2 'no-such' --no-such
TRYST_WINDOW_BYTES=many refused 1 'TRYST_WINDOW_BYTES' -c
exit $fail
