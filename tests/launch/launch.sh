#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run four ranks under one launcher: `launched` (three times: join, pass a number around)
# and pp_bench --check. Exit status 77: skipped, with the reason.
# usage: launch.sh LAUNCHER LAUNCHED PP_BENCH|none yes|no
#        LAUNCHER: openmpi|openmpi_without_pmix|hydra|torchrun|tryst_run|slurm
#        yes: this build has PMIx
# shellcheck disable=SC2016 # text in single quotes is for the ranks' shells
set -u
launcher=$1 launched=$2 bench=$3 pmix=$4
here=$(dirname "$(readlink -f "$0")")
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "launch: $*"; cat "$out"; exit 1; }
have() { command -v "$1" >/dev/null || skip "no $1 here (apt-get install $2)"; }

# Remove the variables of the launcher under which the test itself runs.
for name in $(compgen -e | grep -E '^(TRYST|SLURM|PMIX?|OMPI|MPI)_|^(MASTER_(ADDR|PORT)|(LOCAL_)?(RANK|WORLD_SIZE))$'); do
    case $name in TRYST_TEST_*) ;; *) unset "$name" ;; esac
done
dir=$(mktemp -d)
out=$dir/out
trap 'rm -rf "$dir"' EXIT

# Print a port that is unused, with the next one unused too, and outside the kernel's
# range.
port() {
    local first number
    read -r first _ </proc/sys/net/ipv4/ip_local_port_range
    [ "$first" -gt 12000 ] || first=32768
    while :; do
        number=$((10240 + (RANDOM * 32768 + RANDOM) % (first - 10242)))
        cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
            grep -qiE ":($(printf '%04X|%04X' $number $((number + 1)))) " || { echo $number; return; }
    done
}

ranks_meet() { # <word of tryst_launch_find> <command that starts 4 of the program at its end…>
    local word=$1 rank
    shift
    timeout 200 "$@" "$launched" >"$out" 2>&1 || fail "'$*' ends with $?"
    for rank in 0 1 2 3; do
        [ "$(grep -c "rank $rank of 4, local $rank of 4, by $word\$" "$out")" -eq 3 ] ||
            fail "rank $rank has not met the others three times"
    done
}
trains() { # <the same command>
    [ "$bench" != none ] || return 0
    timeout 200 "$@" "$bench" --check --steps 2 >"$out" 2>&1 || fail "'$*' ends with $?"
    grep -q 'bitwise equal' "$out" || fail "pp_bench has not checked"
}
# Check that rank 0 serves at the ports that it may use, as its log at level info reports.
serves_at() { # <pattern>
    grep -qE "info: .*rank 0 serves at $1" "$out" || fail "rank 0 does not serve at $1"
}

# Print the command of docs/launch.md for a launcher, without its program, as words.
documented() { # <first word>
    sed -n "/^<!-- test: launch -->/,/^\`\`\`\$/s/^\($1 .*\) \.\/train.*/\1/p" "$here/../../docs/launch.md"
}
from_docs() { # <first word>: into the array `line`
    read -r -a line <<<"$(documented "$1")"
    [ ${#line[@]} -gt 1 ] || fail "docs/launch.md has no line that begins with $1"
}

token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
from_docs mpirun
ompi=(mpirun.openmpi --oversubscribe "${line[@]:1}")
[ "$(id -u)" -ne 0 ] || ompi+=(--allow-run-as-root)

case $launcher in
openmpi)
    have mpirun.openmpi openmpi-bin
    [ "$pmix" = yes ] || skip "this build has no PMIx (apt-get install libpmix-dev)"
    ranks_meet pmix "${ompi[@]}"
    trains "${ompi[@]}"
    # the line for several machines, both of them this one
    several=$(sed -n '/^<!-- test: machines -->/,/^```$/s/^mpirun \(.*\) \.\/train.*/\1/p' "$here/../../docs/launch.md")
    read -r -a line <<<"${several/a:4,b:4/localhost:8}"
    [ "${line[*]}" = "-np 8 --host localhost:8" ] || fail "docs/launch.md has no mpirun for several machines"
    timeout 200 "${ompi[0]}" "${ompi[@]:4}" "${line[@]}" "$launched" >"$out" 2>&1 || fail "mpirun --host ends with $?"
    for rank in 0 1 2 3 4 5 6 7; do
        [ "$(grep -c "rank $rank of 8, local $rank of 8, by pmix\$" "$out")" -eq 3 ] || fail "rank $rank of 8 has not met the others"
    done
    # the size comes from PMIx alone; and a port that a firewall admits
    at=$(port)
    TRYST_PORT_RANGE=$at-$((at + 1)) TRYST_TRANSPORT=shm TRYST_LOG_LEVEL=info TRYST_NET=lo \
        ranks_meet pmix "${ompi[@]}" sh -c 'unset OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE
            [ "$PMIX_RANK" = 0 ] || unset TRYST_PORT_RANGE; exec "$1"' sh
    serves_at "127.0.0.1:($at|$((at + 1)))\$"
    # The error must name rank 0 when it does not come (rank 0's bootstrap server names
    # the others). mpirun ends rank 0 when the first of the others has failed, which may
    # take long on a busy machine.
    TRYST_BOOTSTRAP_TIMEOUT=500ms timeout 200 "${ompi[@]}" sh -c '
        [ "$PMIX_RANK" != 0 ] || exec sleep 40; exec "$1"' sh "$launched" >"$out" 2>&1 &&
        fail "the job succeeded without rank 0"
    grep -q 'rank 0 has published no address' "$out" || fail "no error names rank 0"
    ;;
openmpi_without_pmix)
    have mpirun.openmpi openmpi-bin
    TRYST_BOOTSTRAP=127.0.0.1:$(port) TRYST_TOKEN=$token \
        ranks_meet openmpi "${ompi[@]}" sh -c 'unset PMIX_RANK PMIX_NAMESPACE; exec "$1"' sh
    ;;
hydra)
    have mpiexec.hydra mpich
    from_docs mpiexec.hydra
    ranks_meet hydra "${line[@]}"
    trains "${line[@]}"
    timeout 200 mpiexec.hydra -n 1 "$launched" >"$out" 2>&1 || fail "one rank ends with $?"
    [ "$(grep -c 'rank 0 of 1, .* by hydra$' "$out")" -eq 3 ] || fail "one rank has not run"
    # Hydra ends all ranks when one ends that has used PMI without its finalize.
    TRYST_TEST_STAY_MS=700 ranks_meet hydra "${line[@]}"
    grep -q 'rank 0 is the last' "$out" || fail "rank 0 ended with the others"
    # as on two hosts: two of Hydra's proxies, each of which has half of the ranks; the
    # names of the hosts are not resolved
    printf '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\nexec sh -c "$*"\n' >"$dir/remote"
    chmod +x "$dir/remote"
    TRYST_NET=lo timeout 200 mpiexec.hydra -launcher ssh -launcher-exec "$dir/remote" \
        -localhost 127.0.0.1 -hosts host1,host2 -ppn 2 -n 4 "$launched" >"$out" 2>&1 || fail "two proxies: $?"
    [ "$(grep -c 'rank [0-3] of 4, .* by hydra$' "$out")" -eq 12 ] || fail "ranks of two proxies have not met"
    # an MPI in the same program
    if command -v mpicc.mpich >/dev/null; then
        mpicc.mpich -I "$here/../../include" "$here/launched_mpi.c" "$TRYST_TEST_LIBRARY" \
            -Wl,-rpath,"$(dirname "$TRYST_TEST_LIBRARY")" -o "$dir/launched_mpi" >"$out" 2>&1 || fail "mpicc ends with $?"
        for order in first later; do
            timeout 200 "${line[@]}" "$dir/launched_mpi" $order >"$out" 2>&1 || fail "MPI_Init $order: $?"
            [ "$(grep -c 'rank [0-3] of 4 by both$' "$out")" -eq 4 ] || fail "MPI_Init $order: not all ranks are done"
        done
    fi
    # by hand; PMI_FD is not used then
    TRYST_TOKEN=$token ranks_meet hydra mpiexec.hydra -genv TRYST_BOOTSTRAP "127.0.0.1:$(port)" -n 4 \
        sh -c 'PMI_FD=none exec "$1"' sh
    # The first rank that fails ends the others, and Hydra drops output that it has not
    # passed on. So the ranks write their output to a file.
    refused() { # <a command of the ranks' shells> <pattern>
        : >"$out"
        timeout 200 mpiexec.hydra -n 4 sh -c "$1"'; exec "$1" >>"$2" 2>&1' sh "$launched" "$out" >/dev/null 2>&1 &&
            fail "the job succeeded after '$1'"
        grep -q "$2" "$out" || fail "no error has '$2'"
    }
    refused 'unset PMI_FD' 'TRYST_BOOTSTRAP is missing'
    refused 'export PMI_FD=0' "PMI_FD is not the launcher's socket"
    TRYST_BOOTSTRAP_TIMEOUT=500ms refused '[ "$PMI_RANK" != 0 ] || exec sleep 40' 'not all processes have opened'
    ;;
torchrun)
    # torchrun's variables, set by four shells: installing torchrun takes a gigabyte
    export MASTER_ADDR=127.0.0.1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 TRYST_TOKEN=$token TRYST_LOG_LEVEL=info
    MASTER_PORT=$(port)
    export MASTER_PORT
    four() {
        local rank status=0 pids=()
        for rank in 0 1 2 3; do
            RANK=$rank LOCAL_RANK=$rank "$@" &
            pids+=($!)
        done
        for rank in "${pids[@]}"; do wait "$rank" || status=1; done
        return $status
    }
    export -f four
    ranks_meet torchrun bash -c 'four "$@"' bash
    serves_at "127.0.0.1:$((MASTER_PORT + 1)) \\(MASTER_ADDR, MASTER_PORT\\+1\\)"
    # level info has the transport to each rank, and what the collectives are planned for
    grep -qE 'rank 1\] info: reached rank 2 on .* over shm: ' "$out" || fail "no line names the transport"
    grep -q 'rank 1\] info: collectives are planned for ' "$out" || fail "no line names the plan"
    trains bash -c 'four "$@"' bash
    ;;
tryst_run)
    at=$(port)
    from_docs tryst-run
    line=("$TRYST_TEST_RUN" "${line[@]:1}" --no-prefix)
    TRYST_PORT_RANGE=$at-$((at + 40)) ranks_meet tryst "${line[@]}"
    # tryst-run wins over another launcher around it
    if command -v mpirun.openmpi >/dev/null; then
        ranks_meet tryst "${ompi[@]/%4/1}" "${line[@]}"
    fi
    ;;
slurm)
    [ "$pmix" = yes ] || skip "this build has no PMIx (apt-get install libpmix-dev)"
    from_docs srun
    slurm=("$here/slurm.sh" "${line[@]}" --overcommit)
    timeout 200 "${slurm[@]}" true >"$out" 2>&1 || { status=$?; cat "$out"; exit $status; }
    ranks_meet pmix "${slurm[@]}"
    trains "${slurm[@]}"
    TRYST_BOOTSTRAP=127.0.0.1:$(port) TRYST_TOKEN=$token \
        ranks_meet slurm "$here/slurm.sh" srun --mpi=none --overcommit -n 4
    ;;
*) fail "not a launcher: '$launcher'" ;;
esac
