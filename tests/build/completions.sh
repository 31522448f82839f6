#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The completions of bash offer the options, the commands and the words of values that the programs take; those of zsh are
# read by zsh, where it is installed.
set -eu
fail=0
bash_dir=$BUILD/share/bash-completion/completions
zsh_dir=$BUILD/share/zsh/site-functions
command -v bash >/dev/null || { echo "skipped: bash is not installed"; exit 77; }

# offers <words wanted> <words not wanted> <the command line; its last word is completed>
offers() {
    wanted=$1 unwanted=$2
    shift 2
    # shellcheck disable=SC2016 # for bash
    said=$(bash -c 'source "$1/$2"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "_${1//-/_}"; echo " ${COMPREPLY[*]} "' bash "$bash_dir" "$@" 2>&1)
    for word in $wanted; do
        case $said in *" $word "*) ;; *) echo "completions: '$*' offers no $word:$said"; fail=1 ;; esac
    done
    for word in $unwanted; do
        case $said in *" $word "*) echo "completions: '$*' offers $word:$said"; fail=1 ;; esac
    done
}
offers '--ranks -n --env --no-prefix --version' '--options' tryst-run -
offers '--ranks' '--env' tryst-run --r
offers '' '--ranks' tryst-run -n 2 prog --r
offers '--live --merge-traces --check' '' tryst-info --
offers 'plan verify explain' '--input' tryst-topo ''
offers 'plan' 'verify' tryst-topo p
offers '--trees-max --op' '--probe' tryst-topo plan --
offers '--probe' '--trees-max' tryst-topo --
offers 'allreduce reduce_scatter' 'ucx' tryst-topo plan --op ''
offers 'svg' 'text' tryst-topo plan --format = s
offers 'text svg' '' tryst-topo plan --format =
offers 'pingpong sched reduce_scatter' '--simulate' tryst-perf ''
offers '--simulate --gbit' '--window' tryst-perf sched --
offers '--window' '--gbit' tryst-perf bandwidth --
offers 'shm ucx ofi auto' '' tryst-perf allreduce --transport ''
offers 'bf16 u8' '' tryst-perf allreduce -d ''
for bench in pp_bench tryst-bench; do
    [ -e "$BUILD/bin/$bench" ] || continue
    offers 'schedules' '' $bench ''
    offers '1f1b gpipe pipedream-2bw' '' $bench --schedule ''
    offers 'pipedream pipedream-2bw' '1f1b' $bench schedules --trace pi
    offers '--costs --trace --microbatches -m' '--steps' $bench schedules -
    offers 'self' '' $bench --transport ''
done
for file in "$bash_dir"/*; do
    bash -n "$file" || fail=1
done
for file in "$zsh_dir"/_*; do
    ! command -v zsh >/dev/null || zsh -n "$file" || fail=1
done
exit $fail
