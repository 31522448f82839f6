#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The layer ladder holds: by the compiler's list of files (layers.awk), and by the include
# paths, under which an upward, skipping or root-relative include does not compile.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

"$NINJA" -C "$BUILD" -t deps | grep -v '^ninja: ' >"$dir/deps"
awk -v source="$SOURCE" -v build="$BUILD" -f "$SOURCE/tests/build/layers.awk" "$dir/deps" || fail=1

# Print the -I options with which a file of this folder is compiled.
options() { # <folder or file>
    grep "\"command\": .* -c $SOURCE/$1[^/ ]*\.c\"" "$BUILD/compile_commands.json" | head -n 1 |
        tr ' ' '\n' | grep '^-I' || true
}

# True if some layer publishes such a header. A header that has moved would make the test
# useless.
known() {
    for header in "$SOURCE/$1" "$BUILD"/own/*/"$1" "$BUILD"/publish/*/"$1"; do
        [ ! -e "$header" ] || return 0
    done
    return 1
}

try() { # <folder> <header> <yes or no>
    known "$2" || { echo "layers: there is no header \"$2\""; fail=1; return 0; }
    options=$(options "$1")
    if [ -z "$options" ]; then # no file of the folder is compiled here, or it has moved
        ls "$SOURCE/$1"*.c >/dev/null 2>&1 || { echo "layers: no .c file in $1"; fail=1; }
        return 0
    fi
    [ "$3" = no ] || ls "$BUILD"/publish/*/"$2" >/dev/null 2>&1 || return 0 # no layer publishes the header
    echo "#include \"$2\"" >"$dir/try.c"
    # shellcheck disable=SC2086 # a list of options
    if "$CC" -std=c11 -D_GNU_SOURCE $options -fsyntax-only "$dir/try.c" 2>"$dir/said"; then
        said=yes
    else
        said=no
    fi
    [ "$said" = "$3" ] && return 0
    echo "layers: #include \"$2\" in $1 compiles: $said; expected: $3"
    cat "$dir/said"
    fail=1
}

try core/config/ core/log/log.h yes
try core/log/ core/log/trace_ring.h no
try core/memory/ core/os/clock.h no
try core/os/ core/log/log.h no
try core/text/ core/config/config.h no
try core/log/ core/config/config.h no
try core/reduce/ core/log/log.h no
try core/config/ core/net/netif.h no
try core/config/ transports/transport.h no
try core/config/ include/tryst/tryst.h no
try collectives/plan/ core/text/hash.h yes
try collectives/plan/ topology/base/graph.h no
try collectives/plan/ collectives/coll.h no
try topology/base/ core/log/log.h yes
try topology/base/ collectives/plan/plan_op.h no
try topology/sized/ collectives/plan/compiled.h yes
try topology/sized/ collectives/coll.h no
try topology/base/ topology/machine/machine.h no
try topology/formats/ topology/machine/machine.h yes
try topology/formats/ topology/machine/sysfs.h no
try topology/formats/ topology/plan/plan.h no
try topology/report/ topology/plan/plan_work.h no
try topology/topo topology/report/plan_verify.h yes
try topology/topo transports/transport.h no
try transports/ core/net/netif.h yes
try transports/ core/net/netlink.h no
try transports/ topology/base/graph.h no
try transports/ rendezvous/bootstrap/session/bootstrap.h no
try transports/ transports/link/link.h yes
try transports/ transports/link/link_private.h no
try transports/link/ core/net/netif.h yes
try transports/link/ transports/memory/memory.h no
try transports/link/ transports/transport.h no
try transports/memory/ transports/link/link.h no
try transports/memory/ transports/transport.h no
try rendezvous/bootstrap/session/ core/log/log.h yes
try rendezvous/bootstrap/session/ rendezvous/bootstrap/roster/roster.h no
try rendezvous/bootstrap/launch/ rendezvous/bootstrap/session/bootstrap.h yes
try rendezvous/bootstrap/launch/ rendezvous/bootstrap/session/bootstrap_server.h no
try rendezvous/bootstrap/roster/ transports/select.h yes
try rendezvous/bootstrap/roster/ rendezvous/op/engine.h no
try rendezvous/bootstrap/session/ rendezvous/rendezvous.h no
try rendezvous/ rendezvous/bootstrap/roster/roster.h yes
try rendezvous/ rendezvous/bootstrap/session/bootstrap_server.h no
try rendezvous/ transports/transport.h yes
try rendezvous/match/ rendezvous/op/op.h no
try rendezvous/op/ rendezvous/peer/peer.h no
try rendezvous/peer/ rendezvous/op/op.h yes
try rendezvous/peer/ rendezvous/protocol/frames.h no
try rendezvous/protocol/ rendezvous/peer/peer.h yes
try rendezvous/protocol/ rendezvous/peer/hello.h no
try rendezvous/protocol/ rendezvous/progress/submission.h no
try rendezvous/ commsched/sched/sched.h yes
try rendezvous/ commsched/sched/path.h no
try rendezvous/ commsched/profile/recorder.h no
try commsched/sched/ commsched/sched/transfer.h yes
try commsched/sched/ rendezvous/op/op.h no
try commsched/sched/ rendezvous/peer/peer.h no
try rendezvous/progress/ topology/base/graph.h no
try rendezvous/progress/ commsched/profile/recorder.h yes
try rendezvous/progress/ rendezvous/step.h no
try topology/planner/ topology/sized/compiled_make.h yes
try topology/planner/ transports/module.h no
try context/ topology/base/graph.h no
try context/ topology/planner/planner.h no
try context/ collectives/plan/planner.h yes
try context/ commsched/sched/sched.h yes
try context/ rendezvous/progress/progress.h yes
try context/ rendezvous/progress/idle.h no
try context/ rendezvous/bootstrap/launch/launch.h yes
try context/ transports/transport.h yes
try pipeline/engine/ core/log/log.h no
try pipeline/engine/ pipeline/program/program.h yes
try pipeline/engine/ pipeline/host/host.h no
try pipeline/program/ pipeline/engine/engine.h no
try pipeline/schedules/ pipeline/base/sentence.h yes
try pipeline/schedules/ pipeline/program/program.h no
try pipeline/host/ pipeline/device/device_kernels.h yes
try pipeline/device/ pipeline/host/host.h no
try pipeline/device/reference/ pipeline/device/device_kernels.h yes
try pipeline/device/reference/ pipeline/host/host.h no
try pipeline/model/ pipeline/device/device_stage.h yes
try tools/ core/log/log.h no
try tools/ transports/transport.h no
try tools/launch/ tools/standard_files.h yes
try tools/bench/pp_bench tools/launch/launcher.h yes
try tools/bench/pp_bench tools/launch/launcher_output.h no
try tools/topo/ tools/live/live.h no
try tools/info/ tools/live/live.h yes
try tools/info/ tools/launch/launcher.h no
try tools/live/ core/log/log.h no
exit $fail
