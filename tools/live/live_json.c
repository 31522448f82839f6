/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the ranks as JSON: one object with everything that the pages hold. */
#include "live_json.h"
#include "live_print.h"
#include "tools/json.h"

/* Readers of JSON have signed integers of 64 bits; a torn page may exceed them. */
static void number_print(FILE *out, const char *name, uint64_t value)
{
    fprintf(out, ", \"%s\": %lld", name,
            value > INT64_MAX ? INT64_MAX : (long long)value);
}

static void flag_print(FILE *out, const char *name, bool value)
{
    fprintf(out, ", \"%s\": %s", name, value ? "true" : "false");
}

static const char *place_name(enum live_place place)
{
    static const char *const names[] = {"ended",  "stopped", "traced", "gathers",
                                        "closes", "waits",   "armed",  "drives",
                                        "stuck",  "outside"};
    return names[place];
}

static void peer_print(FILE *out, const struct tryst_live_peer *peer)
{
    static const char *const lives[] = {"alive", "left", "giving up", "gone"};
    static const char *const links[] = {"none", "connecting", "up"};
    static const char *const endpoints[] = {"none", "opening", "ready", "closing",
                                            "refused"};
    fprintf(out,
            "{\"rank\": %d, \"life\": \"%s\", \"link\": \"%s\", \"endpoint\": \"%s\"",
            peer->rank, lives[peer->life & 3], links[peer->link > 2 ? 0 : peer->link],
            endpoints[peer->endpoint > 4 ? 0 : peer->endpoint]);
    tool_json_member(out, "transport", peer->transport);
    tool_json_member(out, "mechanism", peer->mechanism);
    fprintf(out, ", \"pid\": %d, \"lost_to_mtu\": %d, \"lost_from_mtu\": %d", peer->pid,
            (int)peer->lost_to_mtu, (int)peer->lost_from_mtu);
    number_print(out, "frames_sent", peer->frames_sent);
    number_print(out, "frames_acked", peer->frames_acked);
    number_print(out, "frames_read", peer->frames_read);
    number_print(out, "bytes_sent", peer->bytes_sent);
    number_print(out, "bytes_received", peer->bytes_received);
    number_print(out, "in_flight_bytes", peer->in_flight_bytes);
    number_print(out, "window_bytes", peer->window_bytes);
    number_print(out, "slice_bytes", peer->slice_bytes);
    number_print(out, "bytes_per_s", peer->bytes_per_s);
    number_print(out, "rtt_ns", peer->rtt_ns);
    fputc('}', out);
}

static void op_print(FILE *out, const struct live_rank *rank, const struct live_op *op)
{
    const struct tryst_live_op *record = &op->record;
    const struct live_op *behind = live_behind(rank, op);
    fprintf(out, "{\"peer\": %d", record->peer);
    tool_json_member(out, "kind", live_kind_text(op));
    tool_json_member(out, "key", op->key);
    number_print(out, "step", record->step);
    number_print(out, "number", record->number);
    number_print(out, "bytes", record->bytes);
    number_print(out, "done_bytes", record->done_bytes);
    tool_json_number(out, "age_s", op->age_s);
    tool_json_member(out, "waits_for", live_missing_text(rank, op));
    tool_json_member(out, "behind", behind ? behind->key : NULL);
    flag_print(out, "slept_on", op == rank->waits_for);
    flag_print(out, "torn", op->torn);
    fputc('}', out);
}

static void rank_print(FILE *out, const struct live_rank *rank)
{
    const struct tryst_live_header *header = &rank->header;
    char where[512], transports[64], state[2] = {rank->proc.state, 0};
    live_place_text(rank, where, sizeof where);
    live_transports_text(rank, transports, sizeof transports);
    fprintf(out, "{\"rank\": %d, \"size\": %d, \"pid\": %d", header->rank, header->size,
            (int)rank->pid);
    tool_json_member(out, "command", rank->proc.command);
    tool_json_member(out, "version", header->version);
    tool_json_member(out, "place", place_name(rank->place));
    tool_json_number(out, "place_s", rank->place_s);
    tool_json_member(out, "where", where);
    tool_json_member(out, "state", state);
    tool_json_member(out, "call", rank->proc.call);
    tool_json_member(out, "wchan", rank->proc.wchan);
    number_print(out, "steps_end", header->steps_end);
    number_print(out, "steps_open", header->steps_open);
    number_print(out, "pending", header->pending);
    number_print(out, "completed", header->completed);
    tool_json_member(out, "transports", transports);
    flag_print(out, "torn", rank->torn);
    fprintf(out, ",\n  \"peers\": [");
    for (uint32_t i = 0; i < header->peers_count; i++) {
        fprintf(out, i ? ",\n   " : "\n   ");
        peer_print(out, &rank->peers[i]);
    }
    fprintf(out, "],\n  \"operations\": [");
    for (size_t i = 0; i < rank->ops_count; i++) {
        fprintf(out, i ? ",\n   " : "\n   ");
        op_print(out, rank, &rank->ops[i]);
    }
    fprintf(out, "]}");
}

bool live_json_print(FILE *out, const struct live_ranks *ranks, const char *sentence)
{
    fprintf(out, "{\"ranks\": [");
    for (size_t i = 0; i < ranks->count; i++) {
        fprintf(out, i ? ",\n " : "\n ");
        rank_print(out, &ranks->items[i]);
    }
    fprintf(out, "]");
    tool_json_member(out, "sentence", sentence);
    fprintf(out, "\n}\n");
    return fflush(out) == 0 && !ferror(out);
}
