# SPDX-License-Identifier: Apache-2.0
# Reads `ninja -t deps` and reports each include that the layer ladder forbids.
# usage: awk -v source=<repository> -v build=<build folder> -f layers.awk
#
# The include paths already prevent upward and skipping includes from compiling. A
# relative include bypasses them, but it is in the compiler's own list of files. The
# folder of a file decides: each name below is a folder, and the longest name that is a
# prefix of the file's path is the file's folder. The file may read its own folder, the
# folders listed, and include/. Of a sub-layer, which is a layer inside another one's
# folder (rendezvous/bootstrap), all but tests may read only the published headers.

BEGIN {
    may["core"] = ""
    may["core/memory"] = may["core/os"] = may["core/text"] = may["core/source"] = may["core/log"] = may["core/config"] = may["core/net"] = may["core/reduce"] = "core"
    may["collectives/plan"] = "core"
    may["topology/base"] = "core"
    may["topology/machine"] = "core topology/base"
    may["topology/formats"] = "core topology/base topology/machine"
    may["topology/routes"] = "core topology/base"
    may["topology/plan"] = "core collectives/plan topology/base topology/routes"
    may["topology/sized"] = "core collectives/plan topology/base topology/routes topology/plan"
    may["transports/planner"] = "core collectives/plan topology/planner transports/memory transports"
    may["topology/planner"] = "core collectives/plan topology/base topology/machine topology/formats topology/routes topology/plan topology/sized"
    may["topology/report"] = "core collectives/plan topology/base topology/routes topology/plan topology/sized"
    may["topology/probe"] = "core topology/base"
    may["topology/place"] = "core topology/base"
    may["topology/draw"] = "core collectives/plan topology/base topology/formats topology/routes topology/plan"
    may["topology"] = "core collectives/plan topology/base topology/machine topology/formats topology/routes topology/plan topology/sized topology/planner topology/report topology/probe topology/place topology/draw"
    transports = "transports/link transports/memory transports"
    below = "rendezvous/bootstrap rendezvous/numbers rendezvous/match rendezvous/live"
    rendezvous = below " rendezvous/op rendezvous/peer rendezvous/protocol rendezvous/progress rendezvous"
    may["transports/link"] = "core"
    may["transports/memory"] = "core"
    may["transports"] = "core " transports
    may["rendezvous/bootstrap"] = "core " transports
    may["rendezvous/numbers"] = "core"
    may["rendezvous/live"] = "core transports/memory rendezvous/match"
    may["rendezvous/match"] = "core " transports " rendezvous/bootstrap"
    may["rendezvous/op"] = "core commsched/sched " transports " " below
    may["rendezvous/peer"] = "core commsched/sched " transports " " below " rendezvous/op"
    may["rendezvous/protocol"] = "core commsched/sched " transports " " below " rendezvous/op rendezvous/peer"
    may["rendezvous"] = "core commsched/sched " transports " " rendezvous
    may["commsched/sched"] = "core"
    may["commsched/profile"] = "core"
    may["collectives"] = "core commsched/sched commsched/profile rendezvous/numbers rendezvous/match rendezvous/op rendezvous/protocol rendezvous"
    may["rendezvous/progress"] = "core commsched/sched commsched/profile " transports " " below " rendezvous/op rendezvous/peer rendezvous/protocol"
    may["context"] = "core collectives/plan " transports " " rendezvous " commsched/sched commsched/profile collectives"
    topology = "collectives/plan topology/base topology/machine topology/formats topology/routes topology/plan topology/sized topology/planner topology/report topology/probe topology/place topology/draw topology"
    may["pipeline/base"] = ""
    may["pipeline/program"] = "pipeline/base"
    may["pipeline/schedules"] = "pipeline/base"
    may["pipeline/engine"] = "pipeline/base pipeline/program"
    may["pipeline/device"] = "pipeline/base"
    may["pipeline/device/reference"] = "pipeline/base pipeline/device"
    may["pipeline/device/cuda"] = "pipeline/device"
    may["pipeline/host"] = "pipeline/base pipeline/device"
    may["pipeline/model"] = "pipeline/base pipeline/device pipeline/host"
    may["tools"] = ""
    may["tools/launch"] = "tools"
    may["tools/bench"] = "tools tools/launch"
    may["tools/order"] = "tools tools/launch"
    may["tools/perf"] = "tools tools/launch tools/order"
    may["tools/topo"] = "tools tools/launch"
    may["tools/live"] = "tools"
    may["tools/info"] = "tools tools/live"
    pipeline = "pipeline/base pipeline/program pipeline/schedules pipeline/engine pipeline/host"
    pipeline = pipeline " pipeline/device pipeline/device/reference pipeline/device/cuda pipeline/model"
    # A unit test reads its layer, and everything that its layer reads; a fuzzer any layer
    # up to rendezvous.
    may["tests"] = ""
    may["tests/build"] = "tests"
    may["tests/core"] = "tests core"
    may["tests/perf"] = "tests core"
    may["tests/topology"] = "tests tools core " topology
    may["tests/transports"] = "tests tests/transports/fault tests/transports/memory core " topology " " transports
    may["tests/transports/fault"] = "tests core transports/memory transports"
    may["tests/transports/cuda"] = "tests core " topology " " transports
    may["tests/transports/link"] = "tests core transports/link"
    may["tests/transports/memory"] = "tests core transports/memory"
    may["tests/rendezvous/bootstrap"] = "tests core " topology " " transports " rendezvous/bootstrap"
    may["tests/rendezvous"] = "tests tests/transports/fault tests/transports/memory tests/transports/cuda core " topology " " transports " commsched/sched " rendezvous
    may["tests/commsched"] = "tests core " topology " " transports " " rendezvous " commsched/sched commsched/profile collectives context"
    may["tests/collectives"] = "tests core " topology " " transports " " rendezvous " commsched/sched commsched/profile collectives context"
    may["tests/context"] = "tests core " topology " " transports " " rendezvous " commsched/sched commsched/profile collectives context"
    may["tests/api/hostile"] = "tests core " topology " " transports " commsched/sched " rendezvous
    may["tests/sim"] = "tests tests/rendezvous tests/topology core " topology " " transports " " rendezvous " commsched/sched collectives context"
    may["tests/pipeline"] = "tests core " pipeline
    may["tests/support/fake_stage"] = "tests " pipeline
    may["tests/support/fake_cudart"] = "tests " pipeline
    may["tests/gpu"] = "tests tests/pipeline " pipeline
    may["tests/fuzz"] = "tests tools tests/rendezvous tests/topology core " topology " " transports " " rendezvous " commsched/sched commsched/profile"
    may["tests/tools"] = "tests core tools/launch tools/bench tools/order tools/perf"

    # Backends do not include each other; pair/ and fabric/ are no backends, but parts
    # that two backends share.
    shares["transports/self"] = "transports/pair"
    shares["transports/shm"] = "transports/pair"
    shares["transports/ucx"] = "transports/fabric"
    shares["transports/ofi"] = "transports/fabric"

    # Headers of other folders that only some folders may read.
    only["/uc[pst]/"] = "^(transports/ucx/|tests/transports/)"
    only["/rdma/fi_[^/]*\\.h$"] = "^(transports/ofi/|tests/transports/|tests/perf/|tests/support/)"
    only["/(cblas|openblas_config|f77blas)[^/]*\\.h$"] = "^(pipeline/(host|device|model)/|tests/pipeline/)"
    only["/(cublasLt|cuda_runtime)[^/]*\\.h$"] = "^(pipeline/device/cuda/|tests/support/fake_cudart/)"
    only["/xxhash\\.h$"] = "^(core|pipeline|tests)/"
}

# Return the path without ".." parts: "a/b/../c.h" is "a/c.h".
function plain(path) {
    while (match(path, /[^\/.][^\/]*\/\.\.\//))
        path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
    return path
}

# "own/core/core/log/log.h" and "publish/core/core/log/log.h" are links to core/log/log.h.
# `tree` is the link tree that was used, or "". Under ccache's base_dir the compiler
# prints "../../core/log/log.h", relative to the build folder.
function place(path, parts) {
    tree = ""
    if (path ~ /^\.\.\//) path = plain(build "/" path)
    if (substr(path, 1, length(build) + 1) == build "/") path = substr(path, length(build) + 2)
    else if (substr(path, 1, length(source) + 1) == source "/") return substr(path, length(source) + 2)
    if (path ~ /^\//) return ""
    if (path ~ /^(own|publish)\//) {
        split(path, parts, "/")
        tree = parts[1]
        gsub(/_/, "/", parts[2])
        sub(/^(own|publish)\/[^\/]*\//, "", path)
        # Else a relative include left the layer's link tree.
        if (index(path, parts[2] "/") != 1) return "../" path
    }
    return path
}

function folder(path, name, best) {
    best = ""
    for (name in may)
        if ((path == name || index(path, name "/") == 1) && length(name) > length(best)) best = name
    return best
}

# Return the folder of a backend, "transports/shm"; "" for files outside of backends, or
# in a sub-layer.
function backend(path) {
    if (folder(path) ~ /^transports\//) return ""
    return match(path, /^transports\/[^\/]+\//) ? substr(path, 1, RLENGTH - 1) : ""
}

function complain(reader, read, why) {
    printf "%s includes %s: %s\n", reader, read, why
    failed = 1
}

function check(reader, path, read, from, to, pattern, list) {
    read = place(path)
    if (read == "") {
        for (pattern in only)
            if (path ~ pattern && reader !~ only[pattern])
                complain(reader, path, "only " only[pattern] " may")
        return
    }
    if (index(read, "include/") == 1) return
    from = folder(reader)
    to = folder(read)
    if (tree == "publish" || from ~ /^tests/) sub(/^core\/.*/, "core", to) # a part's headers are its layer's
    if (to == "") {
        complain(reader, read, "it is in no layer")
        return
    }
    if (backend(read) != "" && backend(reader) != "" && backend(read) != backend(reader) &&
        backend(read) != shares[backend(reader)]) {
        complain(reader, read, "a backend must not know another one")
        return
    }
    if (to == from) return
    list = " " may[from] " "
    if (index(list, " " to " ") == 0) {
        complain(reader, read, from " may include " (may[from] == "" ? "nothing else" : may[from]))
        return
    }
    if (to ~ /\// && from !~ /^tests/ && tree != "publish")
        complain(reader, read, "it is private to " to)
    if (backend(read) != "" && from !~ /^tests/)
        complain(reader, read, "it is private to " backend(read))
}

/^[^ ]/ { reader = ""; object = $1; next }
NF == 0 { next }
{
    if (reader == "") {
        # The source comes first.
        reader = place($1)
        if (folder(reader) == "" && reader != "") complain(object, reader, "it is in no layer")
        if (reader != "") readers++
        next
    }
    check(reader, $1)
}
END {
    if (!readers) {
        print "ninja -t deps lists no source of ours"
        failed = 1
    } else if (!failed) printf "%d sources include what they may\n", readers
    exit failed
}
