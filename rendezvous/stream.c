/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's end of a stream of small tensors; see stream.h for the idea and the invariants.
 * Callers: records.c (headers), producer.c (records about single numbers), peer.c.
 */
#include "stream.h"

#include "core/alloc.h"

tryst_status stream_out_open(struct stream_out *out)
{
    out->ring = mem_zalloc(sizeof *out->ring);
    if (!out->ring)
        return TRYST_E_NOMEM;
    for (unsigned i = 0; i < STREAM_LATE_LISTS; i++)
        list_init(&out->ring->late[i]);
    return TRYST_OK;
}

void stream_out_close(struct stream_out *out)
{
    mem_free(out->ring);
    out->ring = NULL;
}

static tryst_op **place_of(const struct stream_out *out, uint64_t number)
{
    return &out->ring->sends[number & (STREAM_RING - 1)];
}

static struct list *late_of(const struct stream_out *out, uint64_t number)
{
    return &out->ring->late[number % STREAM_LATE_LISTS];
}

/* ---- headers ------------------------------------------------------------------------------ */

bool stream_out_check(const struct stream_out *out, uint32_t base, uint64_t mask)
{
    uint64_t under_way = out->next - out->acked;
    uint64_t news = (uint32_t)(base - (uint32_t)out->acked);
    if (news > under_way)
        return false;
    uint64_t behind = under_way - news; /* base itself, and those behind it */
    unsigned bits = mask ? 64u - (unsigned)__builtin_clzll(mask) : 0;
    return !bits || bits < behind;
}

static inline void number_acked(struct stream_out *out, uint64_t number,
                                void (*done)(tryst_op *op))
{
    tryst_op **place = place_of(out, number);
    tryst_op *op = *place;
    *place = NULL;
    if (op)
        done(op);
}

void stream_out_acked(struct stream_out *out, uint32_t base, uint64_t mask,
                      void (*done)(tryst_op *op))
{
    uint32_t news = base - (uint32_t)out->acked;
    uint64_t old = news < 64 ? out->mask >> news : 0; /* bits that were said before */
    out->mask = mask;
    for (; news; news--)
        number_acked(out, out->acked++, done);
    for (uint64_t bits = mask & ~old; bits; bits &= bits - 1)
        number_acked(out, out->acked + 1 + (uint64_t)__builtin_ctzll(bits), done);
}

/* ---- single numbers ----------------------------------------------------------------------- */

static tryst_op *late_find(const struct stream_out *out, uint64_t number)
{
    list_for_each_safe (late_of(out, number), node, after) {
        tryst_op *op = container_of(node, tryst_op, queue_node);
        if (op->number == number)
            return op;
    }
    return NULL;
}

static bool is_in_ring(const struct stream_out *out, uint64_t number)
{
    return number < out->next && number >= out->acked && *place_of(out, number);
}

tryst_op *stream_out_find(const struct stream_out *out, uint64_t number)
{
    if (!out->ring)
        return NULL;
    return is_in_ring(out, number) ? *place_of(out, number) : late_find(out, number);
}

bool stream_out_keep(struct stream_out *out, uint64_t number)
{
    if (!out->ring || !is_in_ring(out, number))
        return false;
    tryst_op *op = *place_of(out, number);
    *place_of(out, number) = NULL;
    list_push_back(late_of(out, number), &op->queue_node);
    return true;
}

tryst_op *stream_out_take(struct stream_out *out, uint64_t number)
{
    tryst_op *op = stream_out_find(out, number);
    if (op && !list_remove(&op->queue_node))
        *place_of(out, number) = NULL;
    return op;
}
