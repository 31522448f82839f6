/* SPDX-License-Identifier: Apache-2.0 */
/** @file eager.h
 *  Small tensors (DATA) at their consumer (eager.c). A tensor without a posted receive is
 *  kept, as MPI's unexpected messages are.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_EAGER_H
#define TRYST_RENDEZVOUS_PROTOCOL_EAGER_H

#include "channel.h"
#include "rendezvous/match/table.h"
#include "rendezvous/protocol/outcome/cause.h"
#include "rendezvous/protocol/wire/wire.h"

struct peer;

/** DATA that came before its receive; holds eager credit of the sender. */
struct unexpected {
    struct queue_node queued; /**< in entry->unexpected */
    struct list_node peer_node;
    struct peer *peer;
    uint64_t number; /**< number of the DATA in the producer's stream */
    uint8_t dtype;
    bool shaped;             /**< `shape` is valid */
    bool given_back;         /**< dropped for a CANCEL: its receive gets no bytes */
    int32_t status;          /**< the status of a failed send, else TRYST_OK */
    uint32_t bytes;          /**< size of the tensor */
    struct flow_shape shape; /**< the shape of a collective's edge */
    char *text;              /**< with `status`: its text (peer_text_keep); NULL: none */
    /** The tensor's bytes or a record_failure, with room for either. */
    _Alignas(8) uint8_t payload[];
};

/** Return the unexpected DATA with this number, or NULL. */
static inline struct unexpected *unexpected_find(struct entry *entry, uint64_t seq)
{
    struct queue_node *found = queue_find(&entry->unexpected, seq);
    return found ? container_of(found, struct unexpected, queued) : NULL;
}
/** Return the size of a payload class, with the header. */
static inline size_t unexpected_class_bytes(unsigned class)
{
    return sizeof(struct unexpected) + ((size_t)64 << class);
}
/** Return the pool for a payload: the smallest class that holds it (at most twice its
 * bytes, or 64 bytes), so the memory that a peer can use here stays near its eager
 * credit. */
static inline struct pool *unexpected_pool(struct rendezvous *rdv, uint32_t bytes)
{
    static_assert(FRAME_BYTES_MAX <= 64u << (UNEXPECTED_CLASSES - 1), "any payload");
    unsigned units = (bytes + 63) / 64;
    return rdv->unexpected[units > 1 ? 32 - __builtin_clz(units - 1) : 0];
}
/** Free the DATA, and its part of channel->in.unexpected_bytes. */
static inline void unexpected_free(struct unexpected *unexpected)
{
    peer_in(unexpected->peer)->unexpected_bytes -=
        EAGER_OVERHEAD_BYTES + unexpected->bytes;
    list_remove(&unexpected->queued.node);
    list_remove(&unexpected->peer_node);
    peer_text_drop(unexpected->peer, unexpected->text);
    pool_put(unexpected_pool(unexpected->peer->rdv, unexpected->bytes), unexpected);
}

/** Handle a DATA: give it to its posted receive, or keep or refuse it. */
void eager_data(struct peer *peer, const struct record_data *data);
/** Drop a DATA for a CANCEL of its producer, if no receive has taken it. */
void eager_cancel(struct peer *peer, const struct record_answer *cancel);

#endif
