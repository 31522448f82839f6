/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of tryst_dump: every peer, and every operation that is not complete, with the
 * reason for its wait.
 *
 * Invariant: nothing is changed; the dump may run while the engine is stuck.
 */
#include "dump.h"
#include "core/text/origin.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/loss.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/progress/overdue.h"
#include "rendezvous/protocol/channel.h"
#include <inttypes.h>
#include <stdio.h>

enum { BULK_TEXT_MAX = 160 };

static int dump_ops(struct rendezvous *rdv, int fd, const struct list *ops)
{
    int count = 0;
    uint64_t now_ns = clock_now_ns(rdv->clock);
    list_for_each_safe (ops, node, after) {
        const tryst_op *op = container_of(node, tryst_op, scope_node);
        char text[OP_TEXT_MAX];
        if (op->reported)
            continue;
        op_describe(op, now_ns, text, sizeof text);
        dprintf(fd, "  %s\n", text);
        count++;
    }
    return count;
}

/* Format where the time of bulk sends to the peer went; "" if there were none. */
static void bulk_times_text(const struct peer *peer, char *text, size_t capacity)
{
    double s[LANE_STATES];
    uint64_t now_ns = clock_now_ns(peer->rdv->clock);
    for (int state = 0; state < LANE_STATES; state++)
        s[state] = (double)lane_time_ns(&peer->lane.time, state, now_ns) * 1e-9;
    *text = '\0';
    if (peer->lane.started_bytes ||
        s[LANE_HELD] + s[LANE_UNGRANTED] + s[LANE_UNREADY] > 0)
        (void)snprintf(
            text, capacity,
            "; bulk: moving %.1f s, waited %.1f s for data, %.1f s for grants, "
            "%.1f s for its turn",
            s[LANE_MOVING], s[LANE_UNREADY], s[LANE_UNGRANTED], s[LANE_HELD]);
}

static void dump_peer(int fd, const struct peer *peer)
{
    const struct path *path = &peer->lane.path;
    static const char *const lives[] = {"alive", "left", "giving up", "gone"};
    static const char *const links[] = {"no link", "connecting", "linked"};
    static const char *const eps[] = {"no endpoint", "opening", "ready",
                                      "closing",     "refused", "fabric starting"};
    char loss[PEER_LOSS_TEXT_MAX];
    char bulk[BULK_TEXT_MAX];
    bulk_times_text(peer, bulk, sizeof bulk);
    peer_loss_text(peer, "; ", loss, sizeof loss);
    dprintf(
        fd,
        "  rank %d: %s, %s, %s (%s%s%s); frames sent %" PRIu64 " acked %u read %" PRIu64
        "; wants sent %u taken %u, parked here %u; in flight %" PRIu64 " of %" PRIu64
        " bytes in slices of %" PRIu64 " (%.3g MB/s, round trip %.3g us)%s%s\n",
        peer->rank, lives[peer->life], links[peer->link.state], eps[peer->endpoint.state],
        peer->endpoint.candidates_count
            ? transport_kind_name(peer->endpoint.candidates[peer->endpoint.candidate])
            : "-",
        *peer->endpoint.mechanism ? ": " : "", peer->endpoint.mechanism,
        peer->frames.sent, peer->frames.acked, peer->frames.read,
        peer_out(peer)->wants_sent, peer_out(peer)->wants_acked,
        peer_in(peer)->parked_count, peer->lane.in_flight_bytes, path->window_bytes,
        path->slice_bytes, (double)path->bytes_per_s * 1e-6, (double)path->rtt_ns * 1e-3,
        bulk, loss);
}

void rendezvous_dump(struct rendezvous *rdv, int fd)
{
    int count = 0;
    if (!rdv->group) {
        dprintf(fd, "tryst: no group\n");
        return;
    }
    dprintf(fd, "tryst: rank %d of %d, run " ORIGIN_RUN "; peers:\n",
            rdv->group->roster.rank, rdv->group->roster.size, rdv->group->run);
    for (int i = 0; i < rdv->group->roster.size; i++)
        if (rdv->group->peers[i])
            dump_peer(fd, rdv->group->peers[i]);
        else
            dprintf(fd, "  rank %d: %s, not used yet\n", i,
                    group_has_left(rdv->group, i) ? "left" : "alive");
    dprintf(fd, "pending operations:\n");
    list_for_each_safe (&rdv->scopes.all, node, after) {
        const struct scope *scope = container_of(node, struct scope, node);
        count += dump_ops(rdv, fd, &scope->warned);
        count += dump_ops(rdv, fd, &scope->ops);
    }
    dprintf(fd, "%d operation%s pending\n", count, count == 1 ? "" : "s");
}
