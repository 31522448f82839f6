/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the ranks as JSON: one object with everything that the pages hold. */
#include "live_json.h"
#include "live_print.h"

#include <jansson.h>

/* Convert an unsigned number of the page, since jansson's integers are signed. */
static json_int_t number(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

static const char *place_name(enum live_place place)
{
    static const char *const names[] = {"ended",  "stopped", "traced", "gathers",
                                        "closes", "waits",   "armed",  "drives",
                                        "stuck",  "outside"};
    return names[place];
}

static json_t *peer_object(const struct tryst_live_peer *peer)
{
    static const char *const lives[] = {"alive", "left", "giving up", "gone"};
    static const char *const links[] = {"none", "connecting", "up"};
    static const char *const endpoints[] = {"none", "opening", "ready", "closing",
                                            "refused"};
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, "
        "s:I, "
        "s:I}",
        "rank", peer->rank, "life", lives[peer->life & 3], "link",
        links[peer->link > 2 ? 0 : peer->link], "endpoint",
        endpoints[peer->endpoint > 4 ? 0 : peer->endpoint], "transport", peer->transport,
        "mechanism", peer->mechanism, "pid", peer->pid, "lost_to_mtu", peer->lost_to_mtu,
        "lost_from_mtu", peer->lost_from_mtu, "frames_sent", number(peer->frames_sent),
        "frames_acked", number(peer->frames_acked), "frames_read",
        number(peer->frames_read), "bytes_sent", number(peer->bytes_sent),
        "bytes_received", number(peer->bytes_received), "in_flight_bytes",
        number(peer->in_flight_bytes), "window_bytes", number(peer->window_bytes),
        "slice_bytes", number(peer->slice_bytes), "bytes_per_s",
        number(peer->bytes_per_s), "rtt_ns", number(peer->rtt_ns));
}

static json_t *op_object(const struct live_rank *rank, const struct live_op *op)
{
    const struct tryst_live_op *record = &op->record;
    const struct live_op *behind = live_behind(rank, op);
    return json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:f, s:s, s:s?, s:b, s:b}",
                     "kind", live_kind_text(op), "key", op->key, "peer", record->peer,
                     "step", number(record->step), "number", number(record->number),
                     "bytes", number(record->bytes), "done_bytes",
                     number(record->done_bytes), "age_s", op->age_s, "waits_for",
                     live_missing_text(rank, op), "behind", behind ? behind->key : NULL,
                     "slept_on", op == rank->waits_for, "torn", op->torn);
}

static json_t *rank_object(const struct live_rank *rank)
{
    const struct tryst_live_header *header = &rank->header;
    char where[512], transports[64], state[2] = {rank->proc.state, 0};
    json_t *peers = json_array();
    json_t *ops = json_array();
    live_place_text(rank, where, sizeof where);
    live_transports_text(rank, transports, sizeof transports);
    for (uint32_t i = 0; i < header->peers_count; i++)
        json_array_append_new(peers, peer_object(&rank->peers[i]));
    for (size_t i = 0; i < rank->ops_count; i++)
        json_array_append_new(ops, op_object(rank, &rank->ops[i]));
    return json_pack(
        "{s:i, s:i, s:i, s:s, s:s, s:s, s:f, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, "
        "s:s, "
        "s:b, s:o, s:o}",
        "rank", header->rank, "size", header->size, "pid", (int)rank->pid, "command",
        rank->proc.command, "version", header->version, "place", place_name(rank->place),
        "place_s", rank->place_s, "where", where, "state", state, "call", rank->proc.call,
        "wchan", rank->proc.wchan, "steps_end", number(header->steps_end), "steps_open",
        number(header->steps_open), "pending", number(header->pending), "completed",
        number(header->completed), "transports", transports, "torn", rank->torn, "peers",
        peers, "operations", ops);
}

bool live_json_print(FILE *out, const struct live_ranks *ranks, const char *sentence)
{
    json_t *items = json_array();
    for (size_t i = 0; i < ranks->count; i++)
        json_array_append_new(items, rank_object(&ranks->items[i]));
    json_t *document = json_pack("{s:o, s:s?}", "ranks", items, "sentence", sentence);
    bool good = document && json_array_size(items) == ranks->count &&
                json_dumpf(document, out, JSON_INDENT(1)) == 0;
    json_decref(document);
    fputc('\n', out);
    return good && fflush(out) == 0;
}
