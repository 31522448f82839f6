/* SPDX-License-Identifier: Apache-2.0 */
/* Flows of a probe: streams of tensors between ranks for a set time, some at once, and how fast each was. */
#ifndef TRYST_TOOLS_TOPO_FLOWS_H
#define TRYST_TOOLS_TOPO_FLOWS_H

#include <tryst/topo.h>
#include <tryst/tryst.h>

enum {
    FLOW_BYTES = 64 << 10, /* of one tensor */
    FLOW_WINDOW = 16       /* tensors of a flow under way at any time */
};

struct flows {
    tryst_ctx *ctx;
    tryst_group *group;
    int rank, size;
    uint64_t step_id;           /* the next one's */
    uint64_t flow_ns;           /* how long a round's flows run */
    int failed_from, failed_to; /* of the flow or message that failed first; -1: none */
};

/* All ranks have come here. */
tryst_status flows_meet(struct flows *flows);

/* `bytes` from rank `from` to rank `to`, as one tensor; the other ranks pass by. Collective. */
tryst_status flows_move(struct flows *flows, int from, int to, void *data, size_t bytes);

/* Half of a round trip in ns, median of many, at the lower rank of the pair; the other one answers. */
tryst_status flows_ping(struct flows *flows, int a, int b, double *latency_ns_p);

/* Run the flows of one round, those of this rank at least; where `to` is this rank, bytes_per_s is written.
 * Ends when all of this rank's have. */
tryst_status flows_run(struct flows *flows, tryst_probe_flow *round, int count);

#endif
