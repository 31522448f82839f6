/* SPDX-License-Identifier: Apache-2.0 */
/* Separates a rank that waits from one that works, by two samples.
 *
 * Idea: the pages of two ranks are read one after the other, so in a fast job each page
 * can hold a wait for the other rank that has ended meanwhile. Operations that are the
 * same in two samples were pending on all ranks at one time. */
#include "live_compare.h"

static const struct live_rank *rank_same(const struct live_ranks *ranks,
                                         const struct live_rank *rank)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].pid == rank->pid &&
            ranks->items[i].header.session == rank->header.session &&
            ranks->items[i].header.rank == rank->header.rank)
            return &ranks->items[i];
    return NULL;
}

static bool op_same(const struct tryst_live_op *a, const struct tryst_live_op *b)
{
    return a->kind == b->kind && a->peer == b->peer && a->step == b->step &&
           a->number == b->number && a->key_hash == b->key_hash &&
           a->since_ns == b->since_ns && a->done_bytes == b->done_bytes;
}

static bool op_was_there(const struct live_rank *before, const struct live_op *op)
{
    for (size_t i = 0; before && i < before->ops_count; i++)
        if (op_same(&before->ops[i].record, &op->record))
            return true;
    return false;
}

void live_compare(const struct live_ranks *first, struct live_ranks *ranks,
                  double apart_s)
{
    ranks->compared = true;
    ranks->apart_s = apart_s;
    for (size_t i = 0; i < ranks->count; i++) {
        struct live_rank *rank = &ranks->items[i];
        const struct live_rank *before = rank_same(first, rank);
        rank->compared = true;
        rank->idle = before && before->header.completed == rank->header.completed &&
                     (apart_s < LIVE_COMPARE_TICKS_S ||
                      before->header.seen_ns != rank->header.seen_ns);
        for (size_t j = 0; j < rank->ops_count; j++)
            rank->ops[j].stood = op_was_there(before, &rank->ops[j]);
    }
}

bool live_sleeps(const struct live_rank *rank)
{
    return rank->place == LIVE_WAITS && rank->waits_for &&
           rank->waits_for->record.kind != TRYST_LIVE_CLOSE;
}

static const struct live_op *oldest_find(const struct live_rank *rank)
{
    for (size_t i = 0; i < rank->ops_count; i++)
        if (rank->ops[i].record.kind != TRYST_LIVE_CLOSE)
            return &rank->ops[i];
    return NULL;
}

static bool has_stood(const struct live_rank *rank, const struct live_op *op)
{
    return !rank->compared || op->stood;
}

/* Return the collective that takes the place of `op`, which names no rank. */
static const struct live_op *named_find(const struct live_rank *rank,
                                        const struct live_op *op)
{
    for (size_t i = 0; i < rank->ops_count; i++) {
        const struct live_op *other = &rank->ops[i];
        if (other->record.kind == TRYST_LIVE_COLL && other->record.peer >= 0 &&
            has_stood(rank, other))
            return other;
    }
    return op;
}

const struct live_op *live_blocker(const struct live_rank *rank)
{
    bool polls = rank->place == LIVE_WAITS || rank->place == LIVE_ARMED ||
                 rank->place == LIVE_DRIVES;
    const struct live_op *op = rank->waits_for;
    bool is_one = op && op->record.kind != TRYST_LIVE_CLOSE;
    if (!polls || (!is_one && rank->compared && !rank->idle))
        return NULL;
    if (!is_one)
        op = oldest_find(rank);
    if (!op || !has_stood(rank, op))
        return NULL;
    bool is_unnamed = op->record.kind == TRYST_LIVE_COLL && op->record.peer < 0;
    return is_unnamed ? named_find(rank, op) : op;
}
