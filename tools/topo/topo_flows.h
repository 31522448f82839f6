/* SPDX-License-Identifier: Apache-2.0 */
/* Flows of a probe: streams of tensors between ranks for a set time, several at once, and
 * the rate of each. */
#ifndef TRYST_TOOLS_TOPO_TOPO_FLOWS_H
#define TRYST_TOOLS_TOPO_TOPO_FLOWS_H

#include <tryst/topo.h>
#include <tryst/tryst.h>

enum {
    FLOW_BYTES = 64 << 10, /**< bytes of one tensor */
    FLOW_WINDOW = 16       /**< tensors of a flow in flight at any time */
};

struct flows {
    tryst_ctx *ctx;
    tryst_group *group;
    int rank, size;
    uint64_t step_id; /**< id of the next step */
    uint64_t flow_ns; /**< how long a round's flows run */
    /** Ranks of the flow or message that failed first; -1: none. */
    int failed_from, failed_to;
};

/** Wait until all ranks have called flows_meet. Collective. */
tryst_status flows_meet(struct flows *flows);

/** Move `bytes` from rank `from` to rank `to` as one tensor; the other ranks only open
 *  and close the step. Collective. */
tryst_status flows_move(struct flows *flows, int from, int to, void *data, size_t bytes);

/** Measure half of a round trip in ns, the median of many, at rank `a`; rank `b` replies.
 *  Both ranks call flows_ping. */
tryst_status flows_ping(struct flows *flows, int a, int b, double *latency_ns_p);

/** Run this rank's flows among the `count` flows of one round; bytes_per_s is written
 *  where `to` is this rank. Returns when all of this rank's flows have ended. */
tryst_status flows_run(struct flows *flows, tryst_probe_flow *round, int count);

#endif
