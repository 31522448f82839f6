/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small tensors (DATA) at their consumer.
 *
 * Idea: a small send with credit does not wait for a WANT. A posted receive takes its
 * DATA at once; otherwise the bytes are kept beside their key, under their number, until
 * the receive is posted.
 *
 * Invariant: the DATA that a peer has here without a receive is bounded by its eager
 * credit, and each DATA is answered once: a header acknowledges it, or a record reports
 * how it ended.
 */
#include "eager.h"

#include <string.h>

#include "consumer.h"
#include "core/text/hash.h"
#include "op_device.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/fault.h"
#include "rendezvous/protocol/outcome/cause.h"
#include "rendezvous/protocol/wire/wire_decode.h"

/* A DATA that is being read; a posted receive needs only `arrived`. */
struct incoming {
    struct arrived arrived;
    struct record_failure failure; /**< the payload, if there was no memory for the key */
    uint64_t seq, step;
    struct name *name;
    struct entry *entry; /**< the entry of the key in its step, or NULL */
    bool held;           /**< its receive waits for a device */
};

/* Refuse the DATA; RECORD_DONE reports the status and its origin. */
static void data_refuse(struct peer *peer, const struct incoming *incoming,
                        tryst_status status, int32_t origin_rank)
{
    peer_data_refuse(peer, incoming->arrived.number, incoming->step, status, origin_rank);
}

static void unexpected_keep(struct peer *peer, struct entry *entry,
                            const struct incoming *incoming)
{
    const struct arrived *arrived = &incoming->arrived;
    uint32_t tensor_bytes = arrived->status == TRYST_OK ? arrived->bytes : 0;
    uint64_t charge = EAGER_OVERHEAD_BYTES + tensor_bytes;
    if (peer_in(peer)->unexpected_bytes + charge > peer->rdv->set.eager_credit_bytes) {
        peer_fault(peer, PEER_FAULT_EAGER_BYTES, NULL);
        return;
    }
    struct unexpected *unexpected = pool_get(unexpected_pool(peer->rdv, arrived->bytes));
    if (!unexpected) {
        data_refuse(peer, incoming, TRYST_E_NOMEM, peer->rdv->group->roster.rank);
        return;
    }
    memset(unexpected, 0, sizeof *unexpected);
    unexpected->peer = peer;
    unexpected->queued.seq = incoming->seq;
    unexpected->number = arrived->number;
    unexpected->dtype = arrived->dtype;
    unexpected->status = arrived->status;
    unexpected->bytes = tensor_bytes;
    unexpected->shaped = arrived->shape;
    if (arrived->shape)
        unexpected->shape = *arrived->shape;
    if (arrived->status != TRYST_OK)
        unexpected->text = peer_text_keep(peer, arrived->peer_text);
    memcpy(unexpected->payload, arrived->payload, arrived->bytes);
    peer_in(peer)->unexpected_bytes += charge;
    queue_insert(&entry->unexpected, &unexpected->queued);
    list_push_back(&peer_in(peer)->unexpected, &unexpected->peer_node);
}

/* Make the entry of the key in a step that has none. NULL: no memory. */
static struct entry *unexpected_entry(struct peer *peer, struct scope *scope,
                                      const struct incoming *incoming)
{
    struct name *name = incoming->name;
    if (!scope)
        scope = scope_open_early(&peer->rdv->scopes, incoming->step);
    struct entry *entry = scope ? entry_get(scope, name->key) : NULL;
    if (entry)
        name_bind(name, entry);
    else if (scope)
        scope_drop_early(scope);
    return entry;
}

/* Replace the bytes of a DATA that waits for its receive by a failure. */
static void unexpected_fail(struct unexpected *unexpected, tryst_status status,
                            struct cause cause, struct wire_text peer_text)
{
    struct peer *peer = unexpected->peer;
    unexpected->status = status;
    cause_put_data((struct record_failure *)(void *)unexpected->payload, cause);
    peer_text_drop(peer, unexpected->text);
    unexpected->text = peer_text_keep(peer, peer_text);
}

/* Handle a DATA of a number for which one waits already: a flow may fail after its DATA
 * has left (flow_fail_late). */
static void data_again(struct unexpected *earlier, const struct incoming *incoming)
{
    const struct arrived *arrived = &incoming->arrived;
    struct peer *peer = earlier->peer;
    if (arrived->status == TRYST_OK || !arrived->shape || !earlier->shaped) {
        peer_fault(peer, PEER_FAULT_DATA_TWICE, NULL);
        return;
    }
    unexpected_fail(earlier, arrived->status,
                    cause_in_data(peer, NULL, arrived->status, arrived->payload),
                    arrived->peer_text);
    peer_data_done(peer, arrived->number);
}

/* Handle a DATA whose receive has ended, or whose number was skipped: report the failure
 * of a flow to the engine above, and drop the bytes for a skipped number. */
static void data_late(struct peer *peer, struct entry *entry,
                      const struct incoming *incoming)
{
    const struct arrived *arrived = &incoming->arrived;
    const struct coll_calls *calls = &peer->rdv->coll_calls;
    char text[CAUSE_TEXT_BYTES];
    if (arrived->status != TRYST_OK && arrived->status != TRYST_E_ABORTED &&
        arrived->shape && calls->late_failure) {
        struct cause cause = cause_in_data(peer, NULL, arrived->status, arrived->payload);
        calls->late_failure(calls->arg, entry->key, incoming->step, incoming->seq, cause,
                            cause_sentence(cause, arrived->peer_text, text));
    }
    if (entry->is_sparse)
        peer_data_done(peer, arrived->number);
    else
        data_refuse(peer, incoming, TRYST_E_CANCELED, -1);
}

/* Keep a DATA without a posted receive, or refuse it with a status. */
static void unexpected_read(struct peer *peer, const struct incoming *incoming)
{
    struct rendezvous *rdv = peer->rdv;
    struct scope *scope = scope_find(&rdv->scopes, incoming->step);
    struct entry *entry = incoming->entry;
    const struct cause refusal = step_refuses(rdv, scope, incoming->step);
    struct unexpected *earlier;
    tryst_status status = refusal.status;
    if (status == TRYST_OK)
        status = incoming->name->refused;
    if (status == TRYST_OK && !entry) {
        entry = unexpected_entry(peer, scope, incoming);
        status = entry ? TRYST_OK : TRYST_E_NOMEM;
    }
    if (status != TRYST_OK)
        data_refuse(peer, incoming, status, refusal.origin_rank);
    else if (incoming->seq < entry->recv_next && !incoming->held)
        data_late(peer, entry, incoming);
    else if (!incoming->held && incoming->seq - entry->recv_next > NUMBERS_AHEAD_MAX)
        peer_fault(peer, PEER_FAULT_DATA_AHEAD, NULL);
    else if ((earlier = unexpected_find(entry, incoming->seq)) != NULL)
        data_again(earlier, incoming);
    else
        unexpected_keep(peer, entry, incoming);
}

/* Set the key that a DATA declares: that of `entry`, or else a newly prepared key.
 * Returns TRYST_OK, or the status of the refusal. */
static tryst_status key_learn(struct peer *peer, struct name *name, const char *string,
                              size_t bytes, const struct entry *entry)
{
    const struct roster *roster = &peer->rdv->group->roster;
    if (entry && entry->key->src_rank == peer->rank) {
        name->key = prepared_ref(entry->key);
        return TRYST_OK;
    }
    struct record_key named = {name->hash, string, bytes, peer->rank, roster->rank};
    return record_key_open(&peer->rdv->scopes, roster, &named, true, &name->key);
}

/* Declare a name, and link it with the key's entry in this step, if there is one. */
static struct name *name_learn(struct peer *peer, const struct record_data *data,
                               const struct record_name *declared)
{
    const struct name_terms terms = {declared->step_high, declared->seq_high,
                                     wire_name_shape(declared)};
    const char *string = (const char *)(declared + 1);
    struct name *name = name_declare(&peer_in(peer)->names, data->name,
                                     hash_keyed(string, declared->key_bytes), &terms);
    struct scope *scope = scope_find(&peer->rdv->scopes, name_step(name, data->step));
    struct entry *entry =
        scope ? entry_find(scope, name->hash, string, declared->key_bytes) : NULL;
    name->refused = (int16_t)key_learn(peer, name, string, declared->key_bytes, entry);
    if (entry && name->key)
        name_bind(name, entry);
    return name;
}

/* Return the entry of the name's key in `step`, which is not the step of the name's last
 * use, and link the name with the entry. NULL: no entry. */
__attribute__((noinline)) static struct entry *name_lead(struct peer *peer,
                                                         struct name *name, uint64_t step)
{
    struct scope *scope = scope_find(&peer->rdv->scopes, step);
    struct entry *entry = scope ? entry_known(scope, name->key) : NULL;
    if (entry)
        name_bind(name, entry);
    return entry;
}

/* Find an entry for a DATA: there was no memory for its key at the declaration. The
 * entry has the same hash, so it may be of another key; a receive that meets the DATA
 * ends with TRYST_E_NOMEM. */
static struct entry *nameless_entry(struct peer *peer, const struct name *name,
                                    uint64_t step, struct incoming *incoming)
{
    struct scope *scope = scope_find(&peer->rdv->scopes, step);
    struct arrived *arrived = &incoming->arrived;
    struct cause cause = cause_own(peer->rdv, TRYST_E_NOMEM);
    arrived->status = cause.status;
    arrived->bytes = 0;
    arrived->peer_text = (struct wire_text){NULL, 0};
    cause_put_data(&incoming->failure, cause);
    arrived->payload = &incoming->failure;
    return scope ? entry_hashed(scope, name->hash, peer->rank) : NULL;
}

/* Return the name of a DATA, declared by it or before; NULL: it was not declared, or is
 * not valid any more. */
static inline struct name *data_name(struct peer *peer, const struct record_data *data,
                                     const struct record_name *declared)
{
    return __builtin_expect(declared != NULL, 0)
               ? name_learn(peer, data, declared)
               : name_find(&peer_in(peer)->names, data->name);
}

/* Return the entry of a DATA in its step, or NULL. */
static inline struct entry *data_entry(struct peer *peer, const struct record_data *data,
                                       bool declares, struct name *name,
                                       struct incoming *incoming)
{
    if (__builtin_expect(name_leads(name, data->step), 1))
        return name->entry;
    uint64_t step = name_step(name, data->step);
    if (name->key)
        return name_lead(peer, name, step);
    return declares ? NULL : nameless_entry(peer, name, step, incoming);
}

/* Return the posted receive for a DATA, or NULL. */
static inline tryst_op *data_receive(const struct peer *peer, struct entry *entry,
                                     uint64_t seq)
{
    tryst_op *op = entry ? op_find(&entry->recvs, seq) : NULL;
    bool takes =
        op && op->peer == peer && op->state != OP_TAKEN && op->state != OP_ENDING;
    return takes ? op : NULL;
}

/* True if the bytes of the DATA had to come as bulk. (Smaller DATA for a receive of bulk
 * is the user's mistake at one end: a mismatch. Failed DATA has no bytes.) */
static bool data_is_too_large(const tryst_op *op, const struct arrived *arrived)
{
    return arrived->status == TRYST_OK && arrived->bytes > op->rdv->set.eager_max_bytes;
}

/* Give the DATA its number, and answer KEPT for the oldest number that is not done, if
 * WINDOW is exceeded. False: the peer has sent more DATA than may be unacknowledged. */
static bool data_number(struct peer *peer, uint64_t *number_p)
{
    struct stream_in *in = &peer_in(peer)->stream;
    if (!stream_in_count_data(in, number_p))
        return false;
    if (__builtin_expect(stream_in_overdue(in), 0))
        peer_answer(peer, &(struct answer){.id = stream_in_pass(in),
                                           .type = RECORD_KEPT,
                                           .origin_rank = -1});
    return true;
}

/* Handle a DATA. A posted receive always takes its DATA, also when its step is being
 * closed or aborted: the producer does not answer a WANT while its DATA is in flight. */
void eager_data(struct peer *peer, const struct record_data *data)
{
    const struct record_name *declared = wire_data_name(data);
    const void *payload = wire_data_payload(data);
    struct name *name = data_name(peer, data, declared);
    /* Set field by field: zeroing it first takes a tenth of the time of this path. */
    struct incoming incoming;
    struct arrived *arrived = &incoming.arrived;
    if (!name || !data_number(peer, &arrived->number)) {
        peer_fault(peer, name ? PEER_FAULT_EAGER_COUNT : PEER_FAULT_DATA_NAME, NULL);
        return;
    }
    arrived->payload = payload;
    arrived->status = data->header.status;
    arrived->bytes = data->payload_bytes;
    arrived->dtype = data->dtype;
    arrived->shape = name->shaped ? &name->shape : NULL;
    if (__builtin_expect(arrived->status != TRYST_OK, 0)) {
        arrived->peer_text = wire_failure_text(payload, arrived->bytes);
        arrived->bytes = sizeof(struct record_failure);
    }
    uint64_t seq = name->seq_base + data->seq;
    struct entry *entry = data_entry(peer, data, declared, name, &incoming);
    tryst_op *op = data_receive(peer, entry, seq);
    bool held = op && op_device_is_held(op);
    if (!op || held) {
        incoming.seq = seq;
        incoming.step = name_step(name, data->step);
        incoming.name = name;
        incoming.entry = entry;
        incoming.held = held;
        unexpected_read(peer, &incoming);
    } else if (op->done_upto) {
        peer_fault(peer, PEER_FAULT_DATA_AFTER_BULK, NULL);
    } else if (__builtin_expect(op->run != NULL, 0) && data_is_too_large(op, arrived)) {
        peer_fault(peer, PEER_FAULT_DATA_LARGE, NULL);
    } else {
        consumer_deliver(op, arrived);
    }
}

void eager_cancel(struct peer *peer, const struct record_answer *cancel)
{
    list_for_each_safe (&peer_in(peer)->unexpected, node, after) {
        struct unexpected *unexpected = container_of(node, struct unexpected, peer_node);
        if (unexpected->number != cancel->id || unexpected->given_back)
            continue;
        unexpected->given_back = true;
        unexpected_fail(unexpected, cancel->header.status,
                        cause_in_answer(peer, NULL, cancel), wire_answer_text(cancel));
        peer_answer(peer, &(struct answer){.id = cancel->id,
                                           .status = TRYST_E_CANCELED,
                                           .origin_rank = peer->rdv->group->roster.rank,
                                           .type = RECORD_CANCELED});
        return;
    }
    /* Else a receive has taken it, and the acknowledgement is in flight: too late. */
}
