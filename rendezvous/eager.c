/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DATA that comes ahead of any WANT, at its consumer.
 *
 * Idea: a small send with credit does not wait to be asked. A receive that is posted takes it at once;
 * else it is kept beside its key, under its number, until the receive comes.
 * Invariant: what a peer has here without a receive is bounded by the eager credit that it was given, and
 * each such DATA is answered once, by the DONE of the receive that took it or by a refusal.
 */
#include <string.h>

#include "core/alloc.h"
#include "engine.h"
#include "op_device.h"
#include "peer.h"

static void data_refuse(struct peer *peer, uint64_t id, tryst_status status,
                        int32_t origin_rank)
{
    peer_answer(peer, &(struct answer){id, status, origin_rank, RECORD_DONE, false});
}

static void data_keep(struct peer *peer, struct entry *entry,
                      const struct record_data *data, const void *payload)
{
    uint64_t charge = EAGER_OVERHEAD_BYTES + data->payload_bytes;
    if (peer->early_bytes + charge > peer->rdv->set.eager_credit_bytes) {
        peer_give_up(peer, TRYST_E_PROTOCOL, "it sent more than its credit allows");
        return;
    }
    struct early *early = mem_alloc(sizeof *early + data->payload_bytes);
    if (!early) {
        data_refuse(peer, data->id, TRYST_E_NOMEM, peer->rdv->group->roster.rank);
        return;
    }
    memset(early, 0, sizeof *early);
    early->peer = peer;
    early->entry = entry;
    early->seq = data->seq;
    early->id = data->id;
    early->dtype = data->dtype;
    early->status = data->header.status;
    early->bytes = data->payload_bytes;
    memcpy(early->payload, payload, data->payload_bytes);
    peer->early_bytes += charge;
    entry_early_insert(entry, early);
    list_push_back(&peer->early_list, &early->peer_node);
}

/** The entry of DATA, made if need be and if it names its key. */
static struct entry *data_entry(struct peer *peer, struct scope *scope,
                                const struct record_data *data, const char *key,
                                tryst_status *status_p)
{
    struct record_key named = {data->key_hash, key, data->key_bytes, peer->rank,
                               peer->rdv->group->roster.rank};
    struct entry *entry = data->key_bytes
                              ? entry_take(scope, &named, true, status_p)
                              : entry_known(scope, data->key_hash, peer->rank);
    if (entry)
        entry->known = true;
    return entry;
}

/** No receive is posted for it: keep it until one is, or say why not. */
static void data_early(struct peer *peer, struct scope *scope,
                       const struct record_data *data, const char *key,
                       const void *payload, bool held)
{
    struct rendezvous *rdv = peer->rdv;
    int32_t origin_rank;
    tryst_status status = step_refuses(rdv, scope, data->step, &origin_rank);
    struct entry *entry = NULL;
    if (status == TRYST_OK) {
        if (!scope && data->key_bytes)
            scope = scope_open_early(rdv, data->step);
        status = TRYST_E_NOMEM; /* also when the DATA that named its key met with that */
        if (scope)
            entry = data_entry(peer, scope, data, key, &status);
    }
    if (!entry) {
        if (scope)
            scope_drop_early(scope);
        data_refuse(peer, data->id, status, origin_rank);
    } else if (data->seq < entry->recv_next && !held)
        data_refuse(peer, data->id, TRYST_E_CANCELED, origin_rank);
    else if (entry_early_find(entry, data->seq))
        peer_give_up(peer, TRYST_E_PROTOCOL, "it sent one tensor twice");
    else
        data_keep(peer, entry, data, payload);
}

/** A receive that is posted takes it in any case, also when its step is being closed or aborted:
 *  the producer answers no WANT whose DATA is under way. So it does when there was no memory for the
 *  DATA that named the key, but its bytes may then be another key's: it ends with TRYST_E_NOMEM. */
void eager_data(struct peer *peer, const struct record_data *data, const char *key,
                const void *payload)
{
    struct scope *scope = scope_find(peer->rdv, data->step);
    struct entry *entry = NULL;
    struct record_data nameless;
    if (scope && data->key_bytes)
        entry = entry_find(scope, data->key_hash, key, data->key_bytes);
    else if (scope)
        entry = entry_known(scope, data->key_hash, peer->rank);
    if (entry && data->key_bytes)
        entry->known =
            true; /* also if this DATA is refused: the next names the hash alone */
    if (scope && !entry && !data->key_bytes) {
        entry = entry_hashed(scope, data->key_hash, peer->rank);
        nameless = *data;
        nameless.header.status = TRYST_E_NOMEM;
        nameless.payload_bytes = 0;
        data = &nameless;
    }
    tryst_op *op = entry ? entry_recv_find(entry, data->seq) : NULL;
    if (op && op->peer == peer && op->state != OP_TAKEN && op->state != OP_ENDING) {
        if (op_device_is_held(op)) {
            data_early(peer, scope, data, key, payload, true);
            return;
        }
        consumer_take(op, data, payload);
    } else
        data_early(peer, scope, data, key, payload, false);
}

/** What came before its receive. */
void eager_take(tryst_op *op, struct early *early)
{
    struct record_data data = {.header.status = early->status,
                               .id = early->id,
                               .payload_bytes = early->bytes,
                               .dtype = early->dtype};
    consumer_take(op, &data, early->payload);
    early_free(early);
}

void eager_cancel(struct peer *peer, const struct record_answer *cancel)
{
    uint64_t id = cancel->id;
    list_for_each_safe (&peer->early_list, node, after) {
        struct early *early = container_of(node, struct early, peer_node);
        if (early->id != id || early->given_back)
            continue;
        early->given_back = true;
        early->status = cancel->header.status;
        peer_answer(peer,
                    &(struct answer){id, TRYST_E_CANCELED, peer->rdv->group->roster.rank,
                                     RECORD_CANCELED, false});
        return;
    }
    /* Else it was taken, and DONE is on its way: too late. */
}
