#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build, check and measure Tryst on a machine with an NVIDIA GPU, and print one table. The
# machine needs gcc, g++, nvcc with cuBLAS (CUDA 12.5), cmake (3.24) and ninja, and the
# folder that tests/gpu/bundle.sh made; nothing is fetched. Each part has a time limit,
# and all parts fit into ten minutes. A part that fails, or cannot run, becomes a row with
# the reason, and the others still run.
set -u
cd "$(dirname "$0")/../.." || exit 1

usage() {
    cat <<EOF
usage: tests/gpu/run.sh [--out FOLDER] [--torch] [PART…]
  FOLDER   where table.md and logs.tgz go (build/gpu-results)
  --torch  compare the training with PyTorch too (about 100 s more)
  PART     some of: $parts (all)
Exit status: 0 all that ran is as wanted, 1 something failed or fell short, 2 the command line is wrong.
EOF
}

parts="build tests copies slices kernels train ranks sanitizer"
out=build/gpu-results
wanted=
torch=
while [ $# -gt 0 ]; do
    case $1 in
    --out) out=${2:?--out wants a folder}; shift ;;
    --torch) torch=1 ;;
    --help | -h) usage; exit 0 ;;
    *) case " $parts " in *" $1 "*) wanted="$wanted $1" ;; *) usage >&2; exit 2 ;; esac ;;
    esac
    shift
done
wanted=${wanted:-$parts}
build=build/gpu
bin=$build/bin
bundle=$PWD/.gpu-bundle
mkdir -p "$out" || exit 1
table=$out/table.md
began=$EPOCHSECONDS
total_s=590
train_s=${TRYST_GPU_TRAIN_S:-30} # limit of one training
short=0 # rows that failed or fell short

# --- the table --------------------------------------------------------------------------

# row <what> <figure> <beside> <verdict>: "ok", "short", "failed: why", "not run: why", or
# a remark.
row() {
    printf '| %s | %s | %s | %s |\n' "$@" | tee -a "$table"
    case $4 in short* | failed*) short=$((short + 1)) ;; esac
}

# ratio_row <what> <figure> <unit> <beside> <unit> <least ratio wanted, or "">
ratio_row() {
    local ratio verdict
    ratio=$(awk -v a="$2" -v b="$4" 'BEGIN { if (b > 0) printf "%.3f", a / b; else print 0 }')
    verdict="ratio $ratio"
    if [ -n "$6" ]; then
        verdict=$(awk -v r="$ratio" -v w="$6" 'BEGIN { print (r >= w ? "ok" : "short") ": " r ", wanted " w }')
    fi
    row "$1" "$2 $3" "$4 $5" "$verdict"
}

# field <name> <file>: a number out of one flat line of JSON.
field() {
    sed -nE "s/.*\"$1\": *([-+0-9.eE]+).*/\1/p" "$2" | tail -n 1
}

# limit_of <seconds>: print <seconds> or the rest of the ten minutes, at least one second.
limit_of() {
    local left=$((began + total_s - EPOCHSECONDS))
    echo $((left < 1 ? 1 : left < $1 ? left : $1))
}

# bounded <seconds> <log> <command…>: return the command's status, 124 after a time-out.
bounded() {
    local limit log=$2
    limit=$(limit_of "$1")
    shift 2
    timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1 || {
        local status=$?
        [ $status -ne 124 ] || echo "its time was over ($limit s)" >>"$log"
        return $status
    }
}

why() { # <log>: print the last line, without characters that break the table
    tail -n 1 "$1" | tr '|' '/' | cut -c 1-120
}

why_not_built() { # <log>: print the first error; compilers and cmake print more after it
    {
        grep -m 1 -E ' is required|error:|fatal' "$1" || grep -m 1 -E 'Error|FAILED' "$1" || tail -n 1 "$1"
    } | tr '|' '/' | cut -c 1-120
}

# --- parts ------------------------------------------------------------------------------

# Build the programs that the parts below run, without the tests for machines without a
# GPU.
targets=(pp_bench tryst-perf gpu_copy gpu_kernels conformance_self)

build_with() { # <arch> <log> <are warnings errors? ON or OFF>
    bounded 240 "$2" cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTRYST_UCX=OFF \
        -DTRYST_OFI=OFF -DTRYST_PMIX=OFF -DTRYST_HWLOC=OFF -DTRYST_XML=OFF \
        -DTRYST_CUDA_ARCHITECTURES="$1" -DTRYST_WERROR="$3" &&
        bounded 240 "$2" cmake --build $build --target "${targets[@]}"
}

# A new compiler may give new warnings: that is a row, and the build is repeated without
# -Werror.
part_build() {
    local log=$out/build.log arch
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    arch=${arch:-90}
    if build_with "$arch" "$log" ON; then
        row "build, sm_$arch, warnings are errors" "$((EPOCHSECONDS - began)) s" "" ok
    elif build_with "$arch" "$log.2" OFF; then
        row "build, sm_$arch" "$((EPOCHSECONDS - began)) s" "" \
            "failed: with warnings as errors: $(why_not_built "$log")"
    else
        row build "" "" "failed: $(why_not_built "$log.2")"
        return 1
    fi
}

part_tests() {
    local log=$out/tests.log passed failed skipped
    bounded 150 "$log" ctest --test-dir $build -L gpu --output-on-failure --timeout 120
    passed=$(grep -c ' Passed ' "$log")
    failed=$(grep -cE '\*\*\*(Failed|Timeout|Exception|Not Run)' "$log")
    skipped=$(grep -c '\*\*\*Skipped' "$log")
    if [ "$failed" -gt 0 ] || [ "$passed" -eq 0 ]; then
        row "device tests" "$passed passed" "$failed failed, $skipped skipped" "failed: $log"
    else
        row "device tests" "$passed passed" "0 failed, $skipped skipped" ok
    fi
}

# Transfers by key between two processes, 64 MiB each, beside the copies of the same run:
# a copy on the device (each byte counts once), and from and to pinned host memory.
part_copies() {
    local log=$out/copies way limit pair beside
    bounded 60 "$log.json" $bin/tests/gpu_copy 67108864 || {
        row "copies" "" "" "failed: $(why "$log.json")"
        return 1
    }
    for way in device_to_device host_to_device device_to_host; do
        row "copy of 64 MiB, ${way//_/ }" "$(field $way "$log.json") GB/s" "" "the limit"
    done
    for pair in cuda:cuda:device_to_device host:cuda:host_to_device cuda:host:device_to_host; do
        beside=${pair##*:}
        limit=$(field "$beside" "$log.json")
        if bounded 60 "$log.$beside" $bin/tryst-perf bandwidth --transport shm \
            --memory "${pair%:*}" --sizes 64M --iters 100 --json -; then
            ratio_row "two processes by key, ${pair%:*}, 64 MiB" \
                "$(awk -v b="$(field bytes_per_s "$log.$beside")" 'BEGIN { printf "%.1f", b / 1e9 }')" \
                "GB/s" "$limit" "GB/s copied" "$([ "$pair" = cuda:cuda:device_to_device ] && echo 0.9)"
        else
            row "two processes by key, ${pair%:*}" "" "" "failed: $(why "$log.$beside")"
        fi
    done
}

# The slices of 64 MiB that the receiver asks for decide how often the device is asked.
part_slices() {
    local log=$out/slices slice pair
    for pair in cuda:cuda host:cuda cuda:host; do
        for slice in 1M 4M 16M; do
            if TRYST_SLICE_BYTES=$slice bounded 15 "$log.$pair.$slice" $bin/tryst-perf bandwidth \
                --transport shm --memory $pair --sizes 64M --iters 50 --json -; then
                row "two processes by key, $pair, slices of $slice" \
                    "$(awk -v b="$(field bytes_per_s "$log.$pair.$slice")" 'BEGIN { printf "%.1f", b / 1e9 }') GB/s" "" ""
            else
                row "two processes by key, $pair, slices of $slice" "" "" "failed: $(why "$log.$pair.$slice")"
            fi
        done
    done
}

# gpu_kernels --bench prints "bench NAME FIGURE UNIT LIMIT UNIT" for each kernel.
part_kernels() {
    local log=$out/kernels.log word name figure unit limit limit_unit
    if ! bounded 90 "$log" $bin/tests/gpu_kernels --bench; then
        row kernels "" "" "failed: $(why "$log")"
        return 1
    fi
    while read -r word name figure unit limit limit_unit; do
        [ "$word" = bench ] || continue
        ratio_row "kernel $name" "$figure" "$unit" "$limit" "$limit_unit" ""
    done <"$log"
}

# The shape of GPT-2 small, trained on bytes: 12 layers of 768, 12 heads, windows of 1024;
# 4 micro-batches of 16.
shape=(--layers 12 --hidden 768 --heads 12 --seq 1024 --microbatches 4 --microbatch-size 16)

# ours <log> <ranks> <more…>: pp_bench on the GPU; its JSON is <log>. One that still runs
# after two thirds of its time is asked where it is, into <log>.stacks.
ours() {
    local log=$1 ranks=$2 pid i
    shift 2
    bounded "$train_s" "$log.txt" $bin/pp_bench -n "$ranks" --device cuda "$@" --json "$log" &
    pid=$!
    for ((i = 0; i < train_s * 20 / 3; i++)); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    ! kill -0 $pid 2>/dev/null || stacks >"$log.stacks" 2>&1
    wait $pid
}

# Print the stacks of all threads of pp_bench and their calls of the kernel.
stacks() {
    local process thread
    for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm" 2>/dev/null)" = pp_bench ] || continue
        for thread in "$process"/task/*; do
            echo "$thread $(cat "$thread/comm" "$thread/wchan" "$thread/syscall" 2>/dev/null | tr '\n' ' ')"
        done
        ! command -v cuda-gdb >/dev/null ||
            timeout --kill-after=2 8 cuda-gdb -p "${process#/proc/}" -batch -ex 'thread apply all bt 14'
    done
}

# Print the median of a run's steps, without the first three, in tokens/s.
median_tokens() { # <json> <tokens of a step>
    sed -nE 's/^ *\{?"seconds": *([0-9.e-]+).*/\1/p' "$1" | tail -n +4 | sort -g |
        awk -v t="$2" '{ s[NR] = $1 } END { if (NR) printf "%.0f", t / s[int((NR + 1) / 2)]; else print 0 }'
}

part_train() {
    local log=$out/train dtype mode tokens
    for dtype in bf16 tf32; do
        if ! ours "$log.$dtype.json" 1 --precision $dtype "${shape[@]}" --steps 20; then
            row "GPT-2-small shape, $dtype, one rank" "" "" "failed: $(why "$log.$dtype.json.txt")"
            continue
        fi
        tokens=$(median_tokens "$log.$dtype.json" $((4 * 16 * 1024)))
        row "GPT-2-small shape, $dtype, one rank" "$tokens tokens/s" "$(utilisation "$tokens")" ""
        for mode in ${torch:+eager compile}; do
            beside_torch "$log.$dtype.$mode" $dtype "$mode" "$tokens"
        done
    done
}

# Model FLOPs: 6 for each weight and token (only weights of products), and causal
# attention.
utilisation() { # <tokens a second>
    awk -v t="$1" 'BEGIN {
        weights = 12 * 12 * 768 * 768 + 256 * 768; attention = 12 * 6 * 1024 * 768
        printf "%.1f TFLOP/s of the model", t * (6 * weights + attention) / 1e12 }'
}

beside_torch() { # <log> <dtype> <eager or compile> <our tokens a second>
    local status wanted=
    [ "$2" = bf16 ] && [ "$3" = eager ] && wanted=1.0
    [ "$2" = bf16 ] && [ "$3" = compile ] && wanted=0.7
    timeout --kill-after=5 "$(limit_of 100)" python3 tests/gpu/torch_gpt.py --dtype "$2" "${shape[@]}" \
        "$([ "$3" = compile ] && echo --compile || echo --steps=10)" >"$1" 2>"$1.txt"
    status=$?
    if [ $status -eq 0 ]; then
        ratio_row "  beside PyTorch, $3" "$4" tokens/s "$(field tokens_per_s "$1")" tokens/s "$wanted"
    elif [ $status -eq 77 ]; then
        row "  beside PyTorch, $3" "" "" "not run: $(why "$1.txt")"
    else
        row "  beside PyTorch, $3" "" "" "not run: it failed: $(why "$1.txt")"
    fi
}

# Ranks that share the GPU: every schedule bit by bit against the replay, then what
# sharing costs.
part_ranks() {
    local log=$out/ranks ranks schedule small one four
    small=(--layers 4 --hidden 256 --heads 4 --seq 256 --microbatches 8 --microbatch-size 4 --steps 6)
    for ranks in 1 2 4; do
        for schedule in naive gpipe 1f1b; do
            if ours "$log.$ranks.$schedule.json" $ranks "${small[@]}" --schedule $schedule --check; then
                row "$schedule on $ranks ranks of one GPU, --check" \
                    "$(field tokens_per_s "$log.$ranks.$schedule.json") tokens/s" "bitwise" ok
            else
                row "$schedule on $ranks ranks of one GPU, --check" "" "" \
                    "failed: $(why "$log.$ranks.$schedule.json.txt")"
            fi
        done
    done
    if ours "$log.one.json" 1 "${shape[@]}" --steps 12 && ours "$log.four.json" 4 "${shape[@]}" --steps 12; then
        one=$(median_tokens "$log.one.json" $((4 * 16 * 1024)))
        four=$(median_tokens "$log.four.json" $((4 * 16 * 1024)))
        # The driver lets the processes on one GPU take turns: a report, not a target.
        ratio_row "four ranks on one GPU beside one, 1f1b" "$four" tokens/s "$one" tokens/s ""
        row "  exposed communication, most of four ranks" "$(sed -nE \
            's/.*"exposed_communication_s": *([0-9.e-]+).*/\1/p' "$log.four.json" | sort -g | tail -n 1) s" \
            "11 steps" ""
    else
        row "four ranks on one GPU beside one" "" "" "failed: $(cat "$log".{one,four}.json.txt | tail -n 1)"
    fi
}

part_sanitizer() {
    local log=$out/sanitizer tool
    command -v compute-sanitizer >/dev/null ||
        { row compute-sanitizer "" "" "not run: it is not on the PATH"; return; }
    for tool in memcheck racecheck; do
        if bounded 100 "$log.$tool" compute-sanitizer --tool $tool --error-exitcode 9 $bin/tests/gpu_kernels; then
            row "compute-sanitizer $tool on every kernel" "0 errors" "" ok
        elif grep -qiE 'not supported|device not' "$log.$tool"; then
            row "compute-sanitizer $tool" "" "" "not run: this machine refuses it: $(why "$log.$tool")"
        else
            row "compute-sanitizer $tool" "" "" "failed: $(why "$log.$tool")"
        fi
    done
}

# --- all of it --------------------------------------------------------------------------

use_bundle() {
    local lib=$bundle/lib/x86_64-linux-gnu
    [ -d "$bundle" ] || return 0 # the system's libraries are used instead
    export PATH=$bundle/bin:$PATH
    export LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export PKG_CONFIG=$bundle/bin/pkg-config PKG_CONFIG_LIBDIR=$lib/pkgconfig
    export CMAKE_PREFIX_PATH=$bundle
}

# Programs find the libraries and modules of this build, not those of an installed Tryst.
use_build() {
    unset TRYST_MODULE_PATH
    [ -z "${LD_LIBRARY_PATH:-}" ] || export LD_LIBRARY_PATH=$PWD/$build/lib:$LD_LIBRARY_PATH
}

head_of_table() {
    {
        printf '%s, %s; driver and chip: %s; %s; %s\n\n' "$(date -u +%Y-%m-%d)" "$(uname -sr)" \
            "$(nvidia-smi --query-gpu=driver_version,name --format=csv,noheader | head -n 1)" \
            "$(nvcc --version | sed -nE 's/.*release ([0-9.]+).*/CUDA \1/p')" "$(gcc --version | head -n 1)"
        printf '| what | measured | beside | |\n|---|---|---|---|\n'
    } | tee "$table"
}

# Whatever ends this script, the logs are in one archive.
trap 'tar czf "$out/logs.tgz" -C "$out" --exclude=logs.tgz . 2>/dev/null' EXIT
trap 'exit 1' TERM INT

# The toolkit may be installed but not on the PATH; its nvcc needs g++ beside gcc.
command -v nvcc >/dev/null || PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
for tool in gcc g++ nvcc cmake ninja nvidia-smi; do
    command -v $tool >/dev/null || {
        echo "run: no $tool here; this needs gcc, g++, nvcc with cuBLAS, cmake (3.24), ninja and a driver" >&2
        exit 77
    }
done
use_bundle
use_build
head_of_table
for part in $parts; do
    case " $wanted " in *" $part "*) "part_$part" || [ "$part" != build ] || break ;; esac
done
echo
echo "$((EPOCHSECONDS - began)) s; $short rows failed or fell short; logs and table.md in $out"
[ $short -eq 0 ]
