/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small tensors (DATA), at their consumer.
 *
 * Idea: a small send with credit does not wait to be asked. A receive that is posted takes its DATA at
 * once; else the bytes are kept beside their key, under their number, until the receive comes.
 * Invariant: what a peer has here without a receive is bounded by the eager credit that it was given, and
 * each DATA is answered once: a header says that it is done, or a record how it ended.
 * Callers: records.c (DATA, CANCEL), consumer.c (a receive finds what came before it).
 */
#include <string.h>

#include "core/alloc.h"
#include "engine.h"
#include "names.h"
#include "op_device.h"
#include "peer.h"

/** DATA that found no receive: an unexpected message, as MPI has it. */
struct unexpected {
    struct arrived arrived;
    uint64_t seq;
    struct name *name;
    const struct record_name *declared; /**< what it declares; NULL: nothing */
    bool held;                          /**< its receive waits for a device */
};

static void unexpected_keep(struct peer *peer, struct entry *entry,
                            const struct unexpected *unexpected)
{
    const struct arrived *arrived = &unexpected->arrived;
    uint64_t charge = EAGER_OVERHEAD_BYTES + arrived->bytes;
    if (peer->early_bytes + charge > peer->rdv->set.eager_credit_bytes) {
        peer_give_up(peer, TRYST_E_PROTOCOL, "it sent more than its credit allows");
        return;
    }
    struct early *early = mem_alloc(sizeof *early + arrived->bytes);
    if (!early) {
        peer_data_refuse(peer, arrived->number, TRYST_E_NOMEM,
                         peer->rdv->group->roster.rank);
        return;
    }
    memset(early, 0, sizeof *early);
    early->peer = peer;
    early->entry = entry;
    early->seq = unexpected->seq;
    early->number = arrived->number;
    early->dtype = arrived->dtype;
    early->status = arrived->status;
    early->bytes = arrived->bytes;
    memcpy(early->payload, arrived->payload, arrived->bytes);
    peer->early_bytes += charge;
    entry_early_insert(entry, early);
    list_push_back(&peer->early_list, &early->peer_node);
}

/** The entry of the key that DATA declares, made if need be. NULL with *status_p. */
static struct entry *declared_entry(struct peer *peer, struct scope *scope,
                                    const struct unexpected *unexpected,
                                    tryst_status *status_p)
{
    const struct record_name *declared = unexpected->declared;
    struct record_key named = {declared->key_hash, (const char *)(declared + 1),
                               declared->key_bytes, peer->rank,
                               peer->rdv->group->roster.rank};
    if (!scope)
        scope = scope_open_early(peer->rdv, declared->step);
    *status_p = TRYST_E_NOMEM;
    struct entry *entry = scope ? entry_take(scope, &named, true, status_p) : NULL;
    if (entry)
        name_bind(unexpected->name, entry);
    else if (scope)
        scope_drop_early(scope);
    return entry;
}

/** No receive is posted for it: keep it until one is, or say why not. */
static void unexpected_read(struct peer *peer, const struct unexpected *unexpected)
{
    struct rendezvous *rdv = peer->rdv;
    struct scope *scope = scope_find(rdv, unexpected->name->step);
    struct entry *entry = unexpected->name->entry;
    int32_t origin_rank;
    tryst_status status = step_refuses(rdv, scope, unexpected->name->step, &origin_rank);
    if (status == TRYST_OK && !entry) {
        status = TRYST_E_NOMEM; /* as the DATA that declared its key met with */
        if (unexpected->declared)
            entry = declared_entry(peer, scope, unexpected, &status);
    }
    if (status != TRYST_OK)
        peer_data_refuse(peer, unexpected->arrived.number, status, origin_rank);
    else if (unexpected->seq < entry->recv_next && !unexpected->held)
        peer_data_refuse(peer, unexpected->arrived.number, TRYST_E_CANCELED, origin_rank);
    else if (entry_early_find(entry, unexpected->seq))
        peer_give_up(peer, TRYST_E_PROTOCOL, "it sent one tensor twice");
    else
        unexpected_keep(peer, entry, unexpected);
}

/** The name of DATA, with its entry if there is one. NULL: it was never declared. */
static struct name *data_name(struct peer *peer, const struct record_data *data,
                              const struct record_name *declared)
{
    if (!declared)
        return name_find(peer->names, data->name);
    struct name *name =
        name_declare(peer->names, data->name, declared->step, declared->key_hash);
    struct scope *scope = scope_find(peer->rdv, declared->step);
    struct entry *entry =
        scope ? entry_find(scope, declared->key_hash, (const char *)(declared + 1),
                           declared->key_bytes)
              : NULL;
    if (entry && entry->key->src_rank == peer->rank)
        name_bind(name, entry);
    return name;
}

/** An entry for DATA whose key was declared when there was no memory for it: of its hash, so it may be
 *  another key's, and a receive that meets it ends with TRYST_E_NOMEM. */
static struct entry *nameless_entry(struct peer *peer, const struct name *name,
                                    struct arrived *arrived)
{
    struct scope *scope = scope_find(peer->rdv, name->step);
    arrived->status = TRYST_E_NOMEM;
    arrived->bytes = 0;
    return scope ? entry_hashed(scope, name->hash, peer->rank) : NULL;
}

/** The receive for it, if one is posted. */
static tryst_op *data_receive(struct peer *peer, struct unexpected *unexpected)
{
    struct entry *entry = unexpected->name->entry;
    if (!entry && !unexpected->declared)
        entry = nameless_entry(peer, unexpected->name, &unexpected->arrived);
    tryst_op *op = entry ? entry_recv_find(entry, unexpected->seq) : NULL;
    bool takes =
        op && op->peer == peer && op->state != OP_TAKEN && op->state != OP_ENDING;
    return takes ? op : NULL;
}

/** It has its number; the oldest that is not done may be passed by that. */
static bool data_number(struct peer *peer, uint64_t *number_p)
{
    struct stream_in *in = &peer->in;
    if (!stream_in_take(in, number_p))
        return false;
    if (__builtin_expect(stream_in_overdue(in), 0))
        peer_answer(peer, &(struct answer){.id = stream_in_pass(in),
                                           .type = RECORD_KEPT,
                                           .origin_rank = -1});
    return true;
}

/** A receive that is posted takes it in any case, also when its step is being closed or aborted: the
 *  producer answers no WANT whose DATA is under way. */
void eager_data(struct peer *peer, const struct record_data *data,
                const struct record_name *declared, const void *payload)
{
    struct unexpected
        unexpected; /* field by field: zeroing it first is a tenth of the way */
    unexpected.arrived.payload = payload;
    unexpected.arrived.status = data->header.status;
    unexpected.arrived.bytes = data->payload_bytes;
    unexpected.arrived.dtype = data->dtype;
    unexpected.seq = data->seq;
    unexpected.declared = declared;
    unexpected.name = data_name(peer, data, declared);
    if (!unexpected.name || !data_number(peer, &unexpected.arrived.number)) {
        peer_give_up(peer, TRYST_E_PROTOCOL,
                     unexpected.name ? "it sent more than its credit allows"
                                     : "it sent DATA of a key that it has not named");
        return;
    }
    tryst_op *op = data_receive(peer, &unexpected);
    unexpected.held = op && op_device_is_held(op);
    if (!op || unexpected.held)
        unexpected_read(peer, &unexpected);
    else if (op->done_upto)
        peer_give_up(peer, TRYST_E_PROTOCOL, "it sent DATA behind bulk");
    else
        consumer_take(op, &unexpected.arrived);
}

/** What came before its receive. */
void eager_take(tryst_op *op, struct early *early)
{
    struct arrived arrived = {.number = early->number,
                              .status = early->status,
                              .bytes = early->bytes,
                              .dtype = early->dtype,
                              .payload = early->payload};
    consumer_take(op, &arrived);
    early_free(early);
}

void eager_cancel(struct peer *peer, const struct record_answer *cancel)
{
    list_for_each_safe (&peer->early_list, node, after) {
        struct early *early = container_of(node, struct early, peer_node);
        if (early->number != cancel->id || early->given_back)
            continue;
        early->given_back = true;
        early->status = cancel->header.status;
        peer_answer(peer, &(struct answer){.id = cancel->id,
                                           .status = TRYST_E_CANCELED,
                                           .origin_rank = peer->rdv->group->roster.rank,
                                           .type = RECORD_CANCELED});
        return;
    }
    /* Else it was taken, and that is on its way: too late. */
}
