/* SPDX-License-Identifier: Apache-2.0 */
/* Prints one rank as text, and defines the phrases that all views share. */
#include "live_print.h"

#include <inttypes.h>
#include <string.h>

static const char *const lives[] = {"alive", "has left", "being given up", "gone"};
static const char *const links[] = {"no link", "link connecting", "linked"};
static const char *const endpoints[] = {"no endpoint", "endpoint opening", "ready",
                                        "endpoint closing", "endpoint refused"};

#define NAME_OF(names, value) \
    ((size_t)(value) < sizeof(names) / sizeof *(names) ? (names)[value] : "?")

/* ---- phrases ----------------------------------------------------------------------- */

const char *live_kind_text(const struct live_op *op)
{
    static const char *const kinds[] = {"send", "receive", "close of the step",
                                        "collective"};
    return NAME_OF(kinds, op->record.kind);
}

static const struct tryst_live_peer *peer_of(const struct live_rank *rank,
                                             const struct live_op *op)
{
    int32_t peer = op->record.peer;
    return peer >= 0 && (uint32_t)peer < rank->header.peers_count ? &rank->peers[peer]
                                                                  : NULL;
}

static const char *hold_text(const struct tryst_live_op *record)
{
    static const char *const texts[] = {
        "the consumer to take the bytes",
        "the consumer to post room for more of its bytes",
        "its turn, behind another send",
        "the consumer to take bytes that are in flight: its window is full",
        "bytes that are in flight to other peers: its interface's window is full",
        "room in the transport",
        "more of its bytes, which this rank has not reduced yet"};
    return NAME_OF(texts, record->hold);
}

const char *live_missing_text(const struct live_rank *rank, const struct live_op *op)
{
    enum { READY = 2 };
    const struct tryst_live_op *record = &op->record;
    const struct tryst_live_peer *peer = peer_of(rank, op);
    if (record->kind == TRYST_LIVE_CLOSE)
        return "the step's operations";
    if (record->kind == TRYST_LIVE_COLL)
        return peer ? "the part of its peer" : "the other ranks of its group";
    if (record->state == TRYST_LIVE_ENDING)
        return "the transport to release its buffer: the operation has failed";
    if (peer && peer->endpoint != READY)
        return "a connection to the peer";
    if (record->kind == TRYST_LIVE_RECV && record->state == TRYST_LIVE_DEFERRED)
        return "the send: the producer has no room for more announcements";
    if (record->kind == TRYST_LIVE_RECV)
        return record->done_bytes ? "the rest of the bytes"
                                  : "the send: none of its bytes have come";
    if (record->state == TRYST_LIVE_INLINE)
        return "the receive: no receive has taken its bytes";
    return record->state == TRYST_LIVE_MATCHED
               ? hold_text(record)
               : "the receive: the consumer has not posted it";
}

const struct live_op *live_behind(const struct live_rank *rank, const struct live_op *op)
{
    for (size_t i = 0; op->record.hold == TRYST_LIVE_HOLD_BEHIND && i < rank->ops_count;
         i++)
        if (rank->ops[i].record.kind == TRYST_LIVE_SEND &&
            rank->ops[i].record.key_hash == op->record.behind)
            return &rank->ops[i];
    return NULL;
}

void live_key_short(const struct live_op *op, char *text, size_t capacity)
{
    tryst_parsed_key key = {.struct_size = sizeof key};
    const char *colon = strstr(op->key, "...");
    if (op->record.kind == TRYST_LIVE_CLOSE)
        snprintf(text, capacity, "its close");
    else if (colon || tryst_key_parse(op->key, &key, NULL) != TRYST_OK)
        snprintf(text, capacity, "%.300s", op->key);
    else
        snprintf(text, capacity, "%.*s;%.*s", (int)key.edge.bytes, key.edge.data,
                 (int)key.frame_iter.bytes, key.frame_iter.data);
}

/* Write a phrase: "asleep in the kernel call futex (futex_wait_queue)". */
static void activity_text(const struct live_proc *proc, char *text, size_t capacity)
{
    char where[sizeof proc->wchan + 4] = "";
    if (proc->wchan[0] && strcmp(proc->wchan, proc->call) != 0)
        snprintf(where, sizeof where, " (%s)", proc->wchan);
    const char *sleeps = proc->state == 'R'   ? "running in"
                         : proc->state == 'D' ? "blocked (state D) in"
                                              : "asleep in";
    if (proc->call[0])
        snprintf(text, capacity, "%s the kernel call %s%s", sleeps, proc->call, where);
    else if (proc->state == 'R')
        snprintf(text, capacity, "running on a processor");
    else if (proc->state == 'S' || proc->state == 'D')
        snprintf(text, capacity, "%s the kernel%s%s", sleeps, where,
                 proc->call_refused ? " (only root may read which call)" : "");
    else
        snprintf(text, capacity, "state %c", proc->state ? proc->state : '?');
}

static void step_text(const struct live_rank *rank, char *text, size_t capacity)
{
    if (rank->header.steps_end)
        snprintf(text, capacity, "its newest step is %" PRIu64 "%s",
                 rank->header.steps_end - 1,
                 rank->header.steps_open ? "" : ", which it has closed");
    else
        snprintf(text, capacity, "it has opened no step yet");
}

void live_place_text(const struct live_rank *rank, char *text, size_t capacity)
{
    char activity[192], step[96];
    int pid = (int)rank->pid;
    activity_text(&rank->proc, activity, sizeof activity);
    step_text(rank, step, sizeof step);
    switch (rank->place) {
    case LIVE_ENDED:
        snprintf(text, capacity, "has ended: process %d is a zombie", pid);
        break;
    case LIVE_STOPPED:
        snprintf(text, capacity,
                 "is stopped (by a signal, about %.1f s ago; kill -CONT %d lets "
                 "it continue), %s",
                 rank->place_s, pid, step);
        break;
    case LIVE_TRACED:
        snprintf(text, capacity, "is held by a debugger (process %d), %s",
                 rank->proc.tracer, step);
        break;
    case LIVE_GATHERS:
        snprintf(text, capacity,
                 "has waited %.1f s in tryst_group_open for the ranks to come together",
                 rank->place_s);
        break;
    case LIVE_CLOSES: snprintf(text, capacity, "is in tryst_group_close"); break;
    case LIVE_WAITS:
        if (rank->waits_for)
            snprintf(text, capacity, "waits inside the library, %s", step);
        else /* the progress thread sleeps on no single operation */
            snprintf(text, capacity,
                     "sleeps inside the library, ready for any event, and its first "
                     "thread is %s; %s",
                     activity, step);
        break;
    case LIVE_ARMED:
        snprintf(text, capacity, "sleeps in its event loop (tryst_arm), %s", step);
        break;
    case LIVE_DRIVES:
        snprintf(text, capacity, "was in the library just now (%s), %s", activity, step);
        break;
    case LIVE_STUCK:
        snprintf(text, capacity,
                 "is inside the library and has given no sign of life for %.1f s, %s; %s",
                 rank->place_s, activity, step);
        break;
    case LIVE_OUTSIDE:
        snprintf(text, capacity, "has been outside the library for %.1f s, %s; %s",
                 rank->place_s, activity, step);
        break;
    }
}

void live_transports_text(const struct live_rank *rank, char *text, size_t capacity)
{
    static const char *const names[] = {"self", "shm", "ucx", "ofi"};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (rank->header.transports >> i & 1 && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s",
                                     used ? " " : "", names[i]);
}

/* ---- a rank ------------------------------------------------------------------------ */

static bool peer_is_used(const struct tryst_live_peer *peer)
{
    return peer->life || peer->link || peer->endpoint || peer->frames_sent ||
           peer->frames_read;
}

/* Print window, slice, rate and round trip, and end the line. */
static void path_print(FILE *out, const struct tryst_live_peer *peer)
{
    if (peer->window_bytes)
        fprintf(out, " of %" PRIu64 ", slices of %" PRIu64, peer->window_bytes,
                peer->slice_bytes);
    if (peer->bytes_per_s)
        fprintf(out, " (%.1f MB/s, round trip %.1f us)", (double)peer->bytes_per_s * 1e-6,
                (double)peer->rtt_ns * 1e-3);
    fputc('\n', out);
}

void live_loss_text(int rank, const struct tryst_live_peer *peer, char *text,
                    size_t capacity)
{
    char to[64] = "", from[64] = "";
    if (peer->lost_to_mtu)
        snprintf(to, sizeof to, "%u bytes from rank %d to rank %d", peer->lost_to_mtu,
                 rank, peer->rank);
    if (peer->lost_from_mtu)
        snprintf(from, sizeof from, "%u bytes from rank %d to rank %d",
                 peer->lost_from_mtu, peer->rank, rank);
    snprintf(text, capacity,
             "packets of %s%s%s are lost on the way, those of 1280 arrive: give the "
             "interfaces the MTU of the network between (tryst-info --check HOST)",
             to, *to && *from ? " and of " : "", from);
}

static void peers_print(FILE *out, const struct live_rank *rank)
{
    const struct tryst_live_header *header = &rank->header;
    char text[320];
    int unused = 0;
    fprintf(out, "  peers:\n");
    for (uint32_t i = 0; i < header->peers_count; i++) {
        const struct tryst_live_peer *peer = &rank->peers[i];
        if (!peer_is_used(peer)) {
            unused += peer->rank != header->rank;
            continue;
        }
        fprintf(out, "    rank %d%s: %s, %s, %s%s%s", peer->rank,
                peer->rank == header->rank ? " (itself)" : "", NAME_OF(lives, peer->life),
                peer->rank == header->rank ? "no link needed"
                                           : NAME_OF(links, peer->link),
                NAME_OF(endpoints, peer->endpoint), peer->transport[0] ? " over " : "",
                peer->transport);
        if (peer->mechanism[0])
            fprintf(out, " (%s)", peer->mechanism);
        if (peer->pid)
            fprintf(out, ", pid %d", peer->pid);
        fprintf(out,
                "; frames sent %" PRIu64 ", acknowledged %" PRIu64 ", read %" PRIu64
                "; bytes sent %" PRIu64 ", received %" PRIu64 ", in flight %" PRIu64,
                peer->frames_sent, peer->frames_acked, peer->frames_read,
                peer->bytes_sent, peer->bytes_received, peer->in_flight_bytes);
        path_print(out, peer);
        if (peer->lost_to_mtu || peer->lost_from_mtu) {
            live_loss_text(header->rank, peer, text, sizeof text);
            fprintf(out, "      %s\n", text);
        }
    }
    if (unused)
        fprintf(out, "    %d other rank%s not used so far\n", unused,
                unused == 1 ? "" : "s");
    if (header->peers_count < (uint32_t)header->size)
        fprintf(out, "    and %u more, for which the page has no room\n",
                (uint32_t)header->size - header->peers_count);
}

static void op_print(FILE *out, const struct live_rank *rank, const struct live_op *op)
{
    const struct tryst_live_op *record = &op->record;
    fprintf(out, "    %9.1f s  %s", op->age_s, live_kind_text(op));
    if (record->kind == TRYST_LIVE_CLOSE)
        fprintf(out, " %" PRIu64, record->step);
    else if (record->kind == TRYST_LIVE_COLL)
        fprintf(out, ": %s (step %" PRIu64 ", %" PRIu64 " bytes)", op->key, record->step,
                record->bytes);
    else
        fprintf(out,
                " %s rank %d: %s (step %" PRIu64 ", number %" PRIu64 ", %" PRIu64
                " bytes)",
                record->kind == TRYST_LIVE_SEND ? "to" : "from", record->peer, op->key,
                record->step, record->number, record->bytes);
    if (record->kind == TRYST_LIVE_COLL && peer_of(rank, op))
        fprintf(out, "; waits for the part of rank %d", record->peer);
    else
        fprintf(out, "; waits for %s", live_missing_text(rank, op));
    if (live_behind(rank, op))
        fprintf(out, ": %s", live_behind(rank, op)->key);
    if (record->done_bytes)
        fprintf(out, "; %" PRIu64 " bytes have moved", record->done_bytes);
    fprintf(out, "%s%s\n",
            op == rank->waits_for ? "; the thread sleeps on this operation" : "",
            op->torn ? "; the process ended while it wrote this line, which may be wrong"
                     : "");
}

static void ops_print(FILE *out, const struct live_rank *rank)
{
    if (!rank->ops_count) {
        fprintf(out, "  no operation waits\n");
        return;
    }
    fprintf(out, "  operations that wait, oldest first:\n");
    for (size_t i = 0; i < rank->ops_count; i++)
        op_print(out, rank, &rank->ops[i]);
    if (rank->header.pending > rank->ops_count)
        fprintf(out, "    and %" PRIu64 " more\n",
                rank->header.pending - rank->ops_count);
}

void live_print_rank(FILE *out, const struct live_rank *rank)
{
    const struct tryst_live_header *header = &rank->header;
    char text[512], transports[64];
    live_place_text(rank, text, sizeof text);
    live_transports_text(rank, transports, sizeof transports);
    fprintf(out, "rank %d of %d: %s, pid %d, library %s\n", header->rank, header->size,
            rank->proc.command, (int)rank->pid, header->version);
    fprintf(out, "  it %s\n", text);
    fprintf(out,
            "  steps open: %" PRIu64 "; operations: %" PRIu64 " completed; transports: "
            "%s\n",
            header->steps_open, header->completed,
            transports[0] ? transports : "none yet");
    if (rank->torn)
        fprintf(out,
                "  the page was being written when the process was stopped or killed: "
                "one line of it may be wrong\n");
    peers_print(out, rank);
    ops_print(out, rank);
}
