/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries on a group for users, keys of the group, and the engine's counters. Any thread,
 * between tryst_group_open and tryst_group_close.
 */

#include "group_info.h"
#include "core/text/refuse.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/progress/submission.h"
#include <string.h>

int tryst_group_rank(const tryst_group *group)
{
    return group ? group->roster.rank : -1;
}

int tryst_group_size(const tryst_group *group)
{
    return group ? group->roster.size : -1;
}

int tryst_group_local_rank(const tryst_group *group)
{
    return group ? group->roster.local_rank : -1;
}

int tryst_group_local_size(const tryst_group *group)
{
    return group ? group->roster.local_size : -1;
}

tryst_status tryst_key_build(const tryst_group *group, int src_rank, int dst_rank,
                             const char *edge, uint64_t frame, uint64_t iter, char *key,
                             size_t capacity)
{
    if (!group)
        return refuse_null("build a key", "group");
    if (rendezvous_usable(group->rdv) == TRYST_E_FORKED)
        return refuse_unusable("build a key", TRYST_E_FORKED);
    if (edge && *edge == KEY_RESERVED)
        return refuse(
            TRYST_E_KEY,
            "cannot build a key: the name \"%.64s\" begins with '~'; such names "
            "are reserved, choose another",
            edge);
    return key_build(&group->roster, src_rank, dst_rank, edge, frame, iter, key,
                     capacity);
}

/* Refuse a reserved key, and drop the reference. */
static tryst_status key_refuse_reserved(tryst_key *key)
{
    tryst_status status = refuse(
        TRYST_E_KEY,
        "cannot use the key: its edge begins with '~', at byte %u of %s; such names "
        "are reserved, choose another",
        key->edge, key->string);
    prepared_unref(key);
    return status;
}

tryst_status tryst_key_prepare(tryst_group *group, const char *key, tryst_key **key_p)
{
    if (!group || !key || !key_p)
        return refuse_null("prepare a key", !group ? "group" : !key ? "key" : "key_p");
    if (rendezvous_usable(group->rdv) == TRYST_E_FORKED)
        return refuse_unusable("prepare a key", TRYST_E_FORKED);
    struct err err = ERR_INIT;
    tryst_key *prepared;
    tryst_status status = keys_get(&group->rdv->scopes.keys, &group->roster, key,
                                   strnlen(key, TRYST_KEY_MAX + 1), &err, &prepared);
    if (status != TRYST_OK)
        return refuse_err(&err, status);
    if (!key_is_reserved(prepared))
        *key_p = prepared;
    else
        status = key_refuse_reserved(prepared);
    return status;
}

tryst_status tryst_key_make(tryst_group *group, int src_rank, int dst_rank,
                            const char *name, uint64_t index, tryst_key **key_p)
{
    char string[TRYST_KEY_MAX + 1];
    if (!key_p)
        return refuse_null("make a key", "key_p");
    tryst_status status =
        tryst_key_build(group, src_rank, dst_rank, name, 0, index, string, sizeof string);
    return status == TRYST_OK ? tryst_key_prepare(group, string, key_p) : status;
}

tryst_ctx *rendezvous_group_ctx(const tryst_group *group)
{
    return group->ctx;
}

/* Fill in where the time of bulk sends to the peer went. */
static void bulk_times_read(const struct peer *peer, tryst_peer_info *info)
{
    const struct lane_time *time = &peer->lane.time;
    uint64_t now_ns = clock_now_ns(peer->rdv->clock);
    info->moving_ns = lane_time_ns(time, LANE_MOVING, now_ns);
    info->held_ns = lane_time_ns(time, LANE_HELD, now_ns);
    info->ungranted_ns = lane_time_ns(time, LANE_UNGRANTED, now_ns);
    info->unready_ns = lane_time_ns(time, LANE_UNREADY, now_ns);
}

tryst_status rendezvous_group_peer(const tryst_group *group, int rank,
                                   tryst_peer_info *info_p)
{
    if (rank < 0 || rank >= group->roster.size)
        return refuse(TRYST_E_INVALID,
                      "cannot describe a peer: not a rank of the group: %d (0 to %d)",
                      rank, group->roster.size - 1);
    const struct peer *peer = group->peers[rank];
    *info_p = (tryst_peer_info){.rank = rank,
                                .alive = !group_has_left(group, rank),
                                .incarnation = group->roster.ranks[rank].incarnation,
                                .device_prefix = roster_prefix(&group->roster, rank),
                                .host = roster_host_name(&group->roster, rank),
                                .transport = "",
                                .mechanism = ""};
    if (!peer) /* not used yet */
        return TRYST_OK;
    info_p->alive = peer_is_alive(peer);
    info_p->bytes_sent = peer->bytes_sent;
    info_p->bytes_received = peer->bytes_received;
    info_p->window_bytes = peer->lane.path.window_bytes;
    bulk_times_read(peer, info_p);
    /* The transport of a peer stays known after the peer is gone. */
    if (peer->endpoint.state == PEER_EP_READY || peer->frames.sent || peer->frames.read) {
        info_p->transport =
            transport_kind_name(peer->endpoint.candidates[peer->endpoint.candidate]);
        info_p->mechanism = peer->endpoint.mechanism;
    }
    return TRYST_OK;
}

int rendezvous_counters_visit(const struct rendezvous *rdv,
                              int (*fn)(void *arg, const char *name, uint64_t value),
                              void *arg)
{
    const struct rendezvous_counters *c = &rdv->counters;
    struct link_listener_counters links = {0};
    if (rdv->listener)
        links = link_listener_counters(rdv->listener);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {{"frames_sent", c->frames_sent},
                {"frames_received", c->frames_received},
                {"frames_again", c->frames_again},
                {"records_sent", c->records_sent},
                {"records_received", c->records_received},
                {"data_eager", c->data_eager},
                {"data_inline", c->data_inline},
                {"wants_parked", c->wants_parked},
                {"wants_deferred", c->wants_deferred},
                {"offers", c->offers},
                {"bulk_bytes_sent", c->bulk_bytes_sent},
                {"bulk_bytes_received", c->bulk_bytes_received},
                {"slices_started", c->slices_started},
                {"operations", c->operations},
                {"operations_failed", c->operations_failed},
                {"peers_given_up", c->peers_given_up},
                {"mechs_dropped", c->mechs_dropped},
                {"unexpected_bulk", c->unexpected_bulk},
                {"protocol_errors", c->protocol_errors},
                {"links_refused", c->links_refused},
                {"links_silent", links.silent},
                {"links_foreign", links.foreign},
                {"links_failed", links.failed}};
    int stop = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !stop; i++)
        stop = fn(arg, rows[i].name, rows[i].value);
    return stop;
}
