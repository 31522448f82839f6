/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of a probe, chosen so that each wire is full in some round. */
#ifndef TRYST_TOPOLOGY_PROBE_FIT_SCHEDULE_H
#define TRYST_TOPOLOGY_PROBE_FIT_SCHEDULE_H

#include "fit.h"

struct fit_pair {
    uint32_t from, to;
};

/** Rounds of pairs: the flows of one round run at the same time. Pairs of round r are
 *  pairs[first[r]] … pairs[first[r + 1] - 1]. */
struct fit_schedule {
    struct fit_pair *pairs;
    uint32_t *first;
    uint32_t rounds_count, pairs_count;
};

/** Make the schedule. `hosts` has a host number for each rank; NULL: no two ranks share a
 *  host. Each ordered pair is in one round in which no two pairs share a host. With three
 *  ranks or more, each pair is also in one round
 *   - where every rank sends and receives, which shows shared trunks (from five ranks on
 *     there are six more such rounds, of random permutations),
 *   - where its sender sends to all ranks, which shows the sender's interface,
 *   - where its receiver receives from all ranks, which shows the receiver's.
 *  Returns: TRYST_E_INVALID  fewer than 2 ranks or more than FIT_RANKS_MAX
 *           TRYST_E_NOMEM */
tryst_status fit_schedule_open(uint32_t ranks_count, const uint32_t *hosts,
                               struct err *err, struct fit_schedule *schedule_p);
void fit_schedule_close(struct fit_schedule *schedule);

#endif
