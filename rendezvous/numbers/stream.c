/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer's end of a stream of small tensors; see stream.h for the idea and the
 * invariants.
 */
#include "rendezvous/numbers/stream.h"

#include "core/memory/alloc.h"

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

static struct stream_send **place_of(const struct stream_out *out, uint64_t number)
{
    return &out->ring->sends[number & (STREAM_RING - 1)];
}

static struct list *late_of(const struct stream_out *out, uint64_t number)
{
    return &out->ring->late[number % STREAM_LATE_LISTS];
}

/* ---- headers ----------------------------------------------------------------------- */

bool stream_out_check(const struct stream_out *out, uint32_t base, uint64_t mask)
{
    uint64_t under_way = out->next - out->acked;
    uint64_t news = (uint32_t)(base - (uint32_t)out->acked);
    if (news > under_way)
        return false;
    uint64_t behind = under_way - news; /* base itself, and the numbers behind base */
    unsigned bits = mask ? 64u - (unsigned)__builtin_clzll(mask) : 0;
    return !bits || bits < behind;
}

static inline void number_acked(struct stream_out *out, uint64_t number,
                                void (*done)(struct stream_send *send))
{
    struct stream_send **place = place_of(out, number);
    struct stream_send *send = *place;
    *place = NULL;
    if (send)
        done(send);
}

void stream_out_acked(struct stream_out *out, uint32_t base, uint64_t mask,
                      void (*done)(struct stream_send *send))
{
    uint32_t news = base - (uint32_t)out->acked;
    uint64_t old = news < 64 ? out->mask >> news : 0; /* bits of earlier headers */
    out->mask = mask;
    for (; news; news--)
        number_acked(out, out->acked++, done);
    for (uint64_t bits = mask & ~old; bits; bits &= bits - 1)
        number_acked(out, out->acked + 1 + (uint64_t)__builtin_ctzll(bits), done);
}

/* ---- single numbers ---------------------------------------------------------------- */

static struct stream_send *late_find(const struct stream_out *out, uint64_t number)
{
    list_for_each_safe (late_of(out, number), node, after) {
        struct stream_send *send = container_of(node, struct stream_send, late_node);
        if (send->number == number)
            return send;
    }
    return NULL;
}

static bool is_in_ring(const struct stream_out *out, uint64_t number)
{
    return number < out->next && number >= out->acked && *place_of(out, number);
}

struct stream_send *stream_out_find(const struct stream_out *out, uint64_t number)
{
    if (!out->ring)
        return NULL;
    return is_in_ring(out, number) ? *place_of(out, number) : late_find(out, number);
}

bool stream_out_keep(struct stream_out *out, uint64_t number)
{
    if (!out->ring || !is_in_ring(out, number))
        return false;
    struct stream_send *send = *place_of(out, number);
    *place_of(out, number) = NULL;
    list_push_back(late_of(out, number), &send->late_node);
    return true;
}

struct stream_send *stream_out_remove(struct stream_out *out, uint64_t number)
{
    struct stream_send *send = stream_out_find(out, number);
    if (send && !list_remove(&send->late_node))
        *place_of(out, number) = NULL;
    return send;
}
