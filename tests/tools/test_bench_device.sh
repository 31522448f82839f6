#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pp_bench on GPUs that do not exist (tests/support/fake_stage): the placement of ranks
# and its report, and the report when memory does not suffice. test_bench_device.sh
# <pp_bench>
set -eu
bench=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export FAKE_CUDA_DEVICES=4
small="--layers 4 --hidden 16 --heads 2 --seq 8 --microbatches 3 --steps 2"

# Run pp_bench and expect an exit status and words on stderr.
expect() { # <status> <words> <arguments…>
    wanted=$1
    words=$2
    shift 2
    status=0
    # shellcheck disable=SC2086 # a list of options
    timeout 200 "$bench" $small "$@" >"$dir/out" 2>"$dir/err" || status=$?
    if [ "$status" != "$wanted" ] || { [ "$words" ] && ! grep -qF -e "$words" "$dir/err"; }; then
        echo "pp_bench $small $*: exit $status instead of $wanted, or no \"$words\" in:"
        cat "$dir/err"
        exit 1
    fi
}

# Four GPUs behind one switch, with NVLinks 0-2, 2-1 and 1-3: the driver's order is not
# the best.
{
    echo '{"tryst_graph": 1, "nodes": [{"name": "switch", "kind": "pci-switch"}'
    for i in 0 1 2 3; do
        printf ', {"name": "gpu%d", "kind": "gpu", "pci": "0000:%02x:00.0"}\n' $i $((i + 27))
    done
    echo '], "links": ['
    for i in 0 1 2 3; do
        for way in "gpu$i switch" "switch gpu$i"; do
            # shellcheck disable=SC2086 # two names
            printf '{"from": "%s", "to": "%s", "kind": "pci", "bytes_per_s": [32e9, "imported"]},\n' $way
        done
    done
    comma=
    for way in "gpu0 gpu2" "gpu2 gpu0" "gpu2 gpu1" "gpu1 gpu2" "gpu1 gpu3" "gpu3 gpu1"; do
        # shellcheck disable=SC2086 # two names
        printf '%s{"from": "%s", "to": "%s", "kind": "nvlink", "width": 2, "bytes_per_s": [50e9, "imported"]}\n' \
            "$comma" $way
        comma=,
    done
    echo ']}'
} >"$dir/box.json"

expect 0 "4 ranks on devices 0 2 1 3; between neighbours 3 x NV2 400 Gbit/s; the devices' own order gives \
1 x NV2 400 Gbit/s, 2 x PIX 256 Gbit/s" -n 4 --device cuda --topology "$dir/box.json" --check
expect 0 "2 ranks on devices 0 2;" -n 2 --device cuda --topology "$dir/box.json" --transport self
expect 0 "6 ranks on devices 2 on 0, 1 on 2, 2 on 1, 1 on 3;" -n 6 --layers 6 --device cuda --topology "$dir/box.json"
expect 0 "no link between them is known" -n 2 --device cuda
expect 0 "" -n 2 --device cuda:3
grep -q "ranks on" "$dir/err" && { echo "cuda:3 was chosen, not found"; exit 1; }
expect 1 "must be below 4" -n 1 --device cuda:4
expect 2 "add --device cuda" -n 2 --topology "$dir/box.json"
expect 2 "--topology: " -n 2 --device cuda --topology "$dir/none.json"

# Memory: the stage's own, that of the data in flight, and the device's.
expect 1 "out of memory for a stage of layers 0 to 3 on cuda 0: it needs 64" -n 1 --device cuda:0 --device-memory 1M
grep -q "for each micro-batch in flight, but its limit (memory_bytes_max) is 1.00 MiB; not one of its layers would fit \
(--device-memory" "$dir/err" || { cat "$dir/err"; exit 1; }
expect 1 "no memory on device 0 for" -n 1 --device cuda:0 --device-memory 67M --microbatches 40 --schedule gpipe \
    --hidden 32
grep -q "step 1, rank 0: .* buffers there take .* of at most .* already, with [0-9]* micro-batches in flight; fewer of them" \
    "$dir/err" || { cat "$dir/err"; exit 1; }
export FAKE_CUDA_BYTES=33554432
expect 1 "of the device's 32.00 MiB are free; not one of its layers would fit" -n 1 \
    --device cuda:0
