/* SPDX-License-Identifier: Apache-2.0 */
/** @file eager.h
 *  Small tensors (DATA) at their consumer (eager.c). A tensor without a posted receive is
 *  kept, as MPI's unexpected messages are.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_EAGER_H
#define TRYST_RENDEZVOUS_PROTOCOL_EAGER_H

#include "channel.h"
#include "rendezvous/match/table.h"
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
/** Free the DATA, and its part of channel->in.unexpected_bytes. */
void unexpected_free(struct unexpected *unexpected);

/** Handle a DATA: give it to its posted receive, or keep or refuse it. `name`: the
 *  declaration in the DATA, followed by the key; NULL: the name was declared before. */
void eager_data(struct peer *peer, const struct record_data *data,
                const struct record_name *name, const void *payload);
/** Give the kept DATA to its receive. */
void eager_deliver(tryst_op *op, struct unexpected *unexpected);
/** Drop a DATA for a CANCEL of its producer, if no receive has taken it. */
void eager_cancel(struct peer *peer, const struct record_answer *cancel);

#endif
