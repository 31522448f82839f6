/* SPDX-License-Identifier: Apache-2.0 */
/* What a probe has to measure, so that graph_fit sees each wire full. Callers: tryst/topo.h's implementation. */
#ifndef TRYST_TOPOLOGY_FIT_SCHEDULE_H
#define TRYST_TOPOLOGY_FIT_SCHEDULE_H

#include "fit.h"

struct fit_pair {
    uint32_t from, to;
};

/* Rounds of pairs whose flows run at the same time; what graph_fit wants to see. Pairs of round r are
 * pairs[first[r]] … pairs[first[r + 1] - 1]. */
struct fit_schedule {
    struct fit_pair *pairs;
    uint32_t *first;
    uint32_t rounds_count, pairs_count;
};

/** Each ordered pair once in a round in which no two share a host (`hosts`: a number for each rank; NULL: each
 *  has its own); and, for three ranks or more, once in a round where every rank sends and receives (a shared trunk
 *  shows; from five ranks on there are six more such rounds, mixed), once where its sender sends to all and once where its receiver receives from all (an
 *  interface shows). TRYST_E_NOMEM; TRYST_E_INVALID: ranks, as graph_fit. */
tryst_status fit_schedule_open(uint32_t ranks_count, const uint32_t *hosts,
                               struct err *err, struct fit_schedule *schedule_p);
void fit_schedule_close(struct fit_schedule *schedule);

#endif
