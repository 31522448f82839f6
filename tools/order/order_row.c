/* SPDX-License-Identifier: Apache-2.0 */
#include "order_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two times that differ by less than this part of a step are one. */
#define ROUNDING 1e-9

static void *copied(const void *from, size_t count, size_t bytes)
{
    void *copy = calloc(count + 1, bytes);
    if (copy && count)
        memcpy(copy, from, count * bytes);
    return copy;
}

tryst_status order_row_replay(tryst_profile *profile, const tryst_profile_params *params,
                              struct order_row *row_p)
{
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    tryst_status status = tryst_profile_replay(profile, params, &replayed);
    if (status != TRYST_OK)
        return status;
    struct order_row row = {.in_buckets = params->order == TRYST_PROFILE_BUCKETS,
                            .order = params->order,
                            .seconds = replayed.seconds,
                            .pieces_count = replayed.pieces_count};
    snprintf(row.name, sizeof row.name, "%s", tryst_profile_order_name(params->order));
    row.spans =
        copied(replayed.spans, tryst_profile_nodes(profile), sizeof *replayed.spans);
    row.pieces = copied(replayed.pieces, replayed.pieces_count, sizeof *replayed.pieces);
    if (row.spans && row.pieces) {
        *row_p = row;
        return TRYST_OK;
    }
    order_row_free(&row);
    return TRYST_E_NOMEM;
}

static int by_end(const void *a, const void *b)
{
    const tryst_profile_piece *x = a, *y = b;
    if (x->to_s != y->to_s)
        return x->to_s < y->to_s ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

tryst_status order_row_measured(const char *name, const tryst_profile *profile,
                                const tryst_profile_span *spans,
                                tryst_profile_piece *pieces, uint32_t count,
                                double seconds, struct order_row *row_p)
{
    struct order_row row = {.is_measured = true, .seconds = seconds};
    row.spans = copied(spans, tryst_profile_nodes(profile), sizeof *spans);
    if (!row.spans)
        return TRYST_E_NOMEM;
    snprintf(row.name, sizeof row.name, "%s", name);
    qsort(pieces, count, sizeof *pieces, by_end);
    for (uint32_t i = 1; i < count; i++)
        pieces[i].from_s = fmax(pieces[i].from_s, pieces[i - 1].to_s);
    row.pieces = pieces;
    row.pieces_count = count;
    *row_p = row;
    return TRYST_OK;
}

void order_row_free(struct order_row *row)
{
    free(row->spans);
    free(row->pieces);
    *row = (struct order_row){.seconds = 0};
}

/* ---- lanes ------------------------------------------------------------------------- */

/* The spans that `by_start` sorts by: qsort passes no argument. */
static const tryst_profile_span *sorted_spans;

static int by_start(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const tryst_profile_span *x = &sorted_spans[i], *y = &sorted_spans[j];
    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    if (x->end_s != y->end_s)
        return x->end_s < y->end_s ? -1 : 1;
    return (i > j) - (i < j);
}

uint32_t order_lanes_assign(const tryst_profile *profile, const struct order_row *row,
                            uint32_t *lanes, uint32_t *sorted, double *ends,
                            uint32_t *lanes_count_p)
{
    uint32_t actions = 0, count = 0;
    for (uint32_t i = 0; i < tryst_profile_nodes(profile); i++)
        if (!order_node(profile, i).is_operation)
            sorted[actions++] = i;
    sorted_spans = row->spans;
    qsort(sorted, actions, sizeof *sorted, by_start);
    for (uint32_t i = 0; i < actions; i++) {
        uint32_t lane = 0, node = sorted[i];
        while (lane < count &&
               ends[lane] > row->spans[node].start_s + row->seconds * ROUNDING)
            lane++;
        if (lane == count)
            count++;
        lanes[node] = lane;
        ends[lane] = row->spans[node].end_s;
    }
    *lanes_count_p = count ? count : 1;
    return actions;
}
