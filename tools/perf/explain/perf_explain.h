/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_explain.h
 *  --explain: where the time of each edge of a collective went. An edge is a rank that
 *  sends to another rank.
 *
 *  Idea: each rank reads tryst_group_peer of all others before and after the measured
 *  operations; the differences are its edges. In a table each rank has as many entries as
 *  the rank with the most edges needs; a rank fills its own entries and leaves zeros in
 *  all others. The sum of these tables over the ranks has all edges. The caller does the
 *  two reductions:
 *
 *      perf_explain_begin                 before the first measured operation
 *      perf_explain_end                   after the last one; own_count is known
 *      (the greatest own_count of all ranks)
 *      perf_explain_table                 edges has count entries
 *      (the sum of edges, count * PERF_EDGE_NUMBERS numbers)
 *      perf_explain_sort                  edges is the result
 *
 *  Invariant: the times of an edge are by the clock of its sender. */
#ifndef TRYST_TOOLS_PERF_EXPLAIN_PERF_EXPLAIN_H
#define TRYST_TOOLS_PERF_EXPLAIN_PERF_EXPLAIN_H

#include <stdint.h>
#include <stdio.h>
#include <tryst/tryst.h>

/** Numbers of 64 bits alone, so that an all-reduce sums them. */
struct perf_edge {
    uint64_t from, to; /**< ranks */
    uint64_t bytes;    /**< sent; 0: the entry is unused */
    uint64_t spent_ns; /**< measured time; what the times below leave of it is idle */
    uint64_t moving_ns, ungranted_ns, unready_ns, held_ns; /**< as in tryst_peer_info */
};
enum { PERF_EDGE_NUMBERS = sizeof(struct perf_edge) / sizeof(uint64_t) };

struct perf_explain {
    tryst_ctx *ctx;
    tryst_group *group;
    struct perf_edge *own; /**< the edges of this rank */
    uint64_t own_count;
    struct perf_edge *edges;
    uint64_t count;
};

/** Read the counters of all peers of the group. perf_explain_close frees the edges, also
 *  after a failure.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, a status of tryst_group_peer */
tryst_status perf_explain_begin(struct perf_explain *explain_p, tryst_ctx *ctx,
                                tryst_group *group);
/** Read the counters again, and keep the edges on which this rank has sent bytes.
 *  Returns: TRYST_OK, a status of tryst_group_peer */
tryst_status perf_explain_end(struct perf_explain *explain);
/** Allocate the table of `width` entries for each rank, with this rank's edges.
 *  Returns: TRYST_OK, TRYST_E_NOMEM */
tryst_status perf_explain_table(struct perf_explain *explain, uint64_t width);
/** Remove unused entries, and put the busiest edges first. */
void perf_explain_sort(struct perf_explain *explain);
/** Free the edges, if there are any. */
void perf_explain_close(struct perf_explain *explain);

/** Print the edges of `operations` operations as a table. */
void perf_explain_print(const struct perf_explain *explain, uint64_t operations);
/** Write the edges as a member of a JSON object, with a comma before it. */
void perf_explain_json(FILE *file, const struct perf_explain *explain);

#endif
