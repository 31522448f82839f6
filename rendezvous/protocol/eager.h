/* SPDX-License-Identifier: Apache-2.0 */
/** @file eager.h
 *  Small tensors (DATA) at their consumer (eager.c): those that found no receive are kept, as MPI's
 *  unexpected messages.
 */
#ifndef RENDEZVOUS_EAGER_H
#define RENDEZVOUS_EAGER_H

#include "rendezvous/match/table.h"
#include "rendezvous/protocol/wire/wire.h"

struct peer;

/** DATA that came before its receive; holds the sender's eager credit. */
struct unexpected {
    struct queue_node queued; /**< in entry->unexpected */
    struct list_node peer_node;
    struct peer *peer;
    uint64_t number; /**< in the producer's stream */
    uint8_t dtype;
    bool shaped;     /**< `shape` counts */
    bool given_back; /**< to its producer: the receive of its number gets none of it */
    int32_t status;  /**< why it has no bytes, or TRYST_OK */
    uint32_t bytes;  /**< of the tensor */
    struct flow_shape shape; /**< of a collective's edge */
    /** The tensor's bytes or a record_failure, with room for either. */
    _Alignas(8) uint8_t payload[];
};

/** The one with this number, or NULL. */
static inline struct unexpected *unexpected_find(struct entry *entry, uint64_t seq)
{
    struct queue_node *found = queue_find(&entry->unexpected, seq);
    return found ? container_of(found, struct unexpected, queued) : NULL;
}
/** Of a class of payloads, with its header. */
static inline size_t unexpected_class_bytes(unsigned class)
{
    return sizeof(struct unexpected) + ((size_t)64 << class);
}
void unexpected_free(struct unexpected *unexpected);

/** A tensor in a frame: for the receive of its number, or kept for it. `name`: what it declares, or
 *  NULL; its key follows. */
void eager_data(struct peer *peer, const struct record_data *data,
                const struct record_name *name, const void *payload);
/** The receive takes what came before it. */
void eager_take(tryst_op *op, struct unexpected *unexpected);
/** The producer gives up this DATA: if no receive has taken it, none will get its bytes. */
void eager_cancel(struct peer *peer, const struct record_answer *cancel);

#endif
