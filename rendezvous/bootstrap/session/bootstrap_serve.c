/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the members of a bootstrap session, and the session's failure.
 *
 * One idea: an all-gather is complete when the last part has arrived; then all waiting
 * members get the same buffer. Whatever prevents that (a rank is dead, late, gone, or
 * contradicts the others) fails the session once, for all ranks, with names. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap_serve.h"
#include "bootstrap_server.h"
#include "bootstrap_text.h"
#include "core/memory/alloc.h"
#include "core/text/text.h"

/* ---- failure ----------------------------------------------------------------------- */

char *member_text(const struct server *server, int rank, char text[MEMBER_TEXT_BYTES])
{
    const struct member *member = &server->members[rank];
    char peer[BOOTSTRAP_PEER_TEXT_BYTES];
    if (!member->joined)
        snprintf(text, MEMBER_TEXT_BYTES, "rank %d", rank);
    else if (rank == 0)
        snprintf(text, MEMBER_TEXT_BYTES, "rank 0 (pid %u on %s)", member->pid,
                 member->host);
    else
        snprintf(text, MEMBER_TEXT_BYTES, "rank %d (pid %u on %s, %s)", rank, member->pid,
                 member->host, bootstrap_peer_text(&member->peer, peer));
    return text;
}

static bool can_receive_failure(const struct conn *conn)
{
    return conn->proved && !conn->failed_sent &&
           (conn->state == CONN_HEADER || conn->state == CONN_PAYLOAD ||
            conn->state == CONN_WAITING);
}

void serve_failure_send(struct server *server, struct conn *conn)
{
    if (server->failure.status == TRYST_OK || !can_receive_failure(conn))
        return;
    struct bootstrap_wire_frame frame = {.type = BOOTSTRAP_FRAME_FAILED,
                                         .status = server->failure.status,
                                         .bytes = strlen(server->failure.text)};
    conn->failed_sent = true;
    conn_write(server, conn, &frame, sizeof frame, server->failure.text,
               (size_t)frame.bytes, CONN_LINGER);
}

/* Set, after rank 0 has left, the time by which all other ranks must have left or
 * received the failure. */
static void end_set(struct server *server)
{
    bool failed = server->failure.status != TRYST_OK;
    uint64_t stay_ns = failed && server->timeout_ns > SERVER_LINGER_NS
                           ? SERVER_LINGER_NS
                           : server->timeout_ns;
    server->end_ns = clock_now_ns(server->clock) + stay_ns;
}

void serve_fail(struct server *server, tryst_status status, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;
    if (server->failure.status != TRYST_OK)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    err_set(&server->failure, status, "%s", text);
    if (server->own_left)
        end_set(server);
    for (size_t i = 0; i < server->conns_count; i++)
        serve_failure_send(server, &server->conns[i]);
}

static bool is_absent(const void *arg, int rank)
{
    return !((const struct server *)arg)->members[rank].joined;
}

static bool is_late(const void *arg, int rank)
{
    const struct member *member = &((const struct server *)arg)->members[rank];
    return member->joined && !member->gave;
}

static bool is_gone(const void *arg, int rank)
{
    return ((const struct server *)arg)->members[rank].left;
}

static bool is_present(const void *arg, int rank)
{
    return !is_absent(arg, rank);
}

/* Append the reason why connections of missing ranks may have failed. */
static void refused_add(const struct server *server, char *text, size_t capacity)
{
    if (server->accept_error)
        text_append(text, capacity, "; rank 0 could not accept connections: %s",
                    err_reason(server->accept_error));
    else if (server->refused_count)
        text_append(text, capacity, "; rank 0 refused %llu connections, the last: %s",
                    (unsigned long long)server->refused_count, server->refused);
}

bool serve_awaits_ranks(const struct server *server)
{
    return server->joined_count < server->size && server->failure.status == TRYST_OK;
}

void serve_warn(struct server *server)
{
    char present[RANKS_TEXT_BYTES], absent[RANKS_TEXT_BYTES], why[ERR_TEXT_BYTES];
    server->warned = true;
    snprintf(why, sizeof why, "arrived: %s of %d; missing: %s",
             ranks_text(server->size, is_present, server, present, NULL), server->size,
             ranks_text(server->size, is_absent, server, absent, NULL));
    refused_add(server, why, sizeof why);
    bootstrap_wait_warn(&server->wait, server->log, why);
}

static void fail_absent(struct server *server, const char *absent, uint64_t waited_ns)
{
    char seconds[SECONDS_TEXT_BYTES], refused[256] = "";
    refused_add(server, refused, sizeof refused);
    serve_fail(server, TRYST_E_BOOTSTRAP,
               "%s did not arrive at rank 0 (%s) within %s%s; see their output, and "
               "check that they got this %s and can reach it "
               "(raise TRYST_BOOTSTRAP_TIMEOUT to wait longer)",
               absent, server->address, seconds_text(waited_ns, seconds), refused,
               server->address_setting);
}

void serve_overdue(struct server *server, const struct conn *conn)
{
    char ranks[RANKS_TEXT_BYTES], seconds[SECONDS_TEXT_BYTES];
    uint64_t waited_ns = conn->request.patience_ns;
    int count;
    ranks_text(server->size, is_absent, server, ranks, &count);
    if (count) {
        fail_absent(server, ranks, waited_ns);
        return;
    }
    ranks_text(server->size, is_late, server, ranks, &count);
    serve_fail(
        server, TRYST_E_BOOTSTRAP,
        "%s arrived, but did not take part in step %llu of the bootstrap within %s; "
        "%s stopped or busy elsewhere (see the output, or attach a debugger)",
        ranks, (unsigned long long)server->gather.sequence,
        seconds_text(waited_ns, seconds), count == 1 ? "it is" : "they are");
}

static void fail_protocol(struct server *server, int rank, const char *what)
{
    char text[MEMBER_TEXT_BYTES];
    serve_fail(server, TRYST_E_PROTOCOL, "%s broke the bootstrap protocol: %s",
               member_text(server, rank < 0 ? 0 : rank, text), what);
}

static void fail_nomem(struct server *server)
{
    serve_fail(server, TRYST_E_NOMEM, "rank 0 cannot serve the bootstrap: out of memory");
}

/* ---- leave ------------------------------------------------------------------------- */

static void member_leave(struct server *server, struct conn *conn)
{
    struct member *member = &server->members[conn->rank];
    if (!member->left)
        server->left_count++;
    member->left = true;
    if (conn->rank == 0) {
        server->own_left = true;
        end_set(server);
    }
    conn->failed_sent = true;
    conn->state = CONN_LINGER;
}

/* Fail the session if an all-gather needs a rank that has left: it would never end. */
static void check_left(struct server *server)
{
    char ranks[RANKS_TEXT_BYTES];
    int count;
    if (server->gather.given_count == 0 || server->left_count == 0)
        return;
    ranks_text(server->size, is_gone, server, ranks, &count);
    serve_fail(
        server, TRYST_E_BOOTSTRAP,
        "%s left the bootstrap while others still exchange; the ranks run different "
        "programs or versions",
        ranks);
}

void serve_ended(struct server *server, struct conn *conn)
{
    char text[MEMBER_TEXT_BYTES];
    if (server->members[conn->rank].left)
        return;
    serve_fail(
        server, TRYST_E_BOOTSTRAP,
        "%s closed its connection before the bootstrap ended: its process died or gave "
        "up; see its output",
        member_text(server, conn->rank, text));
    member_leave(server, conn);
}

static void abort_finish(struct server *server, struct conn *conn)
{
    char text[ERR_TEXT_BYTES], who[MEMBER_TEXT_BYTES];
    text_escape(conn->payload, conn->payload_bytes, text, sizeof text);
    member_leave(server, conn);
    serve_fail(server, bootstrap_status_decode(conn->request.status), "%s gave up: %s",
               member_text(server, conn->rank, who), text);
}

static void bye_finish(struct server *server, struct conn *conn, bool waited)
{
    char who[MEMBER_TEXT_BYTES];
    member_leave(server, conn);
    if (waited)
        serve_fail(server, TRYST_E_BOOTSTRAP,
                   "%s gave up while it waited for other ranks",
                   member_text(server, conn->rank, who));
    else
        check_left(server);
}

static void result_write(struct server *server, struct conn *conn, const void *body,
                         size_t bytes)
{
    struct bootstrap_wire_frame frame = {.type = BOOTSTRAP_FRAME_RESULT,
                                         .sequence = conn->request.sequence,
                                         .bytes = bytes};
    conn_write(server, conn, &frame, sizeof frame, body, bytes, CONN_HEADER);
}

/* ---- all-gather and broadcast ------------------------------------------------------ */

static void gather_complete(struct server *server)
{
    struct gather *gather = &server->gather;
    uint8_t *full = gather->in;
    size_t capacity = gather->in_capacity;
    gather->in = gather->out;
    gather->in_capacity = gather->out_capacity;
    gather->out = full;
    gather->out_capacity = capacity;
    gather->given_count = 0;
    gather->sequence++;
    for (int rank = 0; rank < server->size; rank++)
        server->members[rank].gave = false;
    for (size_t i = 0; i < server->conns_count; i++) {
        struct conn *conn = &server->conns[i];
        if (conn->state == CONN_WAITING)
            result_write(server, conn, full, gather->total);
    }
}

/* Allocate room for all parts. */
static bool gather_room(struct gather *gather, size_t bytes)
{
    gather->total = bytes;
    if (bytes <= gather->in_capacity)
        return true;
    uint8_t *more = mem_resize(gather->in, bytes);
    if (!more)
        return false;
    gather->in = more;
    gather->in_capacity = bytes;
    return true;
}

static const char *step_name(uint32_t type)
{
    return type == BOOTSTRAP_FRAME_GATHER ? "an all-gather" : "a broadcast";
}

/* Choose where the rank's part is stored, when its header has come. `gave` is set when
 * the part is complete. */
static void gather_header(struct server *server, struct conn *conn)
{
    struct gather *gather = &server->gather;
    const struct bootstrap_wire_frame *request = &conn->request;
    bool all_give = request->type == BOOTSTRAP_FRAME_GATHER;
    bool gives = all_give || conn->rank == 0;
    if (request->sequence != gather->sequence || server->members[conn->rank].gave ||
        (!gives && request->bytes)) {
        fail_protocol(server, conn->rank,
                      "an all-gather with a wrong number, or a broadcast not of rank 0");
        return;
    }
    if (gather->first_rank < 0) {
        gather->type = request->type;
        gather->bytes = (size_t)request->bytes;
        gather->first_rank = conn->rank;
    }
    if (request->type != gather->type || (all_give && request->bytes != gather->bytes)) {
        serve_fail(server, TRYST_E_GROUP,
                   "rank %d gives %llu bytes to step %llu of the bootstrap, %s, rank %d "
                   "gives %zu, "
                   "%s; run the same program and version on all ranks",
                   conn->rank, (unsigned long long)request->bytes,
                   (unsigned long long)gather->sequence, step_name(request->type),
                   gather->first_rank, gather->bytes, step_name(gather->type));
        return;
    }
    if (!gives)
        return;
    size_t parts = all_give ? (size_t)server->size : 1, bytes = (size_t)request->bytes;
    if (!gather_room(gather, parts * bytes))
        fail_nomem(server);
    else if (bytes)
        conn->payload = gather->in + (size_t)conn->rank * bytes;
}

static void gather_finish(struct server *server, struct conn *conn)
{
    struct gather *gather = &server->gather;
    server->members[conn->rank].gave = true;
    gather->given_count++;
    conn->state = CONN_WAITING;
    conn->wait_end_ns = clock_now_ns(server->clock) + conn->request.timeout_ns;
    check_left(server);
    if (server->failure.status != TRYST_OK)
        return;
    if (gather->given_count < server->size)
        return;
    gather->first_rank = -1;
    gather_complete(server);
}

/* ---- requests ---------------------------------------------------------------------- */

static void scratch_header(struct server *server, struct conn *conn)
{
    conn->scratch = mem_alloc((size_t)conn->request.bytes);
    conn->payload = conn->scratch;
    if (!conn->scratch)
        fail_nomem(server);
}

static void request_begin(struct server *server, struct conn *conn)
{
    conn->payload_bytes = (size_t)conn->request.bytes;
    conn->payload = NULL;
    if (conn->request.type != BOOTSTRAP_FRAME_ABORT)
        gather_header(server, conn);
    else if (conn->payload_bytes)
        scratch_header(server, conn);
    if (server->failure.status != TRYST_OK && !conn->payload)
        return; /* the failure was sent already */
    conn->state = CONN_PAYLOAD;
    if (conn->payload_bytes == 0)
        serve_payload(server, conn);
}

void serve_header(struct server *server, struct conn *conn)
{
    bool waited = conn->state == CONN_WAITING;
    struct bootstrap_wire_frame frame;
    bool known = bootstrap_request_decode(conn->in, (uint32_t)server->size, &frame);
    bool leaves =
        frame.type == BOOTSTRAP_FRAME_BYE || frame.type == BOOTSTRAP_FRAME_ABORT;
    if (!known || (waited && !leaves)) {
        fail_protocol(server, conn->rank,
                      known ? "a request before the reply to its last"
                            : "an unknown or oversized request");
        return;
    }
    if (frame.type == BOOTSTRAP_FRAME_BYE) {
        bye_finish(server, conn, waited);
        return;
    }
    conn->request = frame;
    request_begin(server, conn);
}

void serve_payload(struct server *server, struct conn *conn)
{
    uint8_t *scratch = conn->scratch;
    conn->scratch = NULL;
    if (conn->request.type != BOOTSTRAP_FRAME_ABORT)
        gather_finish(server, conn);
    else
        abort_finish(server, conn);
    mem_free(scratch);
}
