/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's bootstrap server: slots, accept, the poll loop and its
 * thread. See bootstrap_server.h. */
#include "bootstrap_server.h"
#include "bootstrap_admit.h"
#include "bootstrap_serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "transports/signal_guard.h"

/* The most connections accepted in one turn, so that a flood of them cannot starve the
 * members. */
#define ACCEPTS_PER_PASS 16
/* Pause of accept after descriptors ran out. */
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS)
/* A clock other than the kernel's is polled at this interval. */
#define POLL_LIMIT_MS 20
/* While ranks are missing, rank 0's name is resolved again at this interval. */
#define RENEW_NS NS_PER_S

/* ---- slots ------------------------------------------------------------------------- */

void conn_close(struct conn *conn)
{
    if (conn->state == CONN_FREE)
        return;
    close(conn->fd);
    mem_free(conn->scratch);
    *conn = (struct conn){.state = CONN_FREE, .fd = -1, .rank = -1};
}

static void unproved_drop(struct server *server, struct conn *conn)
{
    server->silent_count += conn->state == CONN_HELLO || conn->state == CONN_PROOF;
    conn_close(conn);
}

static struct conn *slot_free(struct server *server)
{
    for (size_t i = 0; i < server->conns_count; i++)
        if (server->conns[i].state == CONN_FREE)
            return &server->conns[i];
    return NULL;
}

/* Return the oldest unproved connection (NULL: none), and in *count_p the number of
 * unproved ones. */
static struct conn *unproved_oldest(struct server *server, size_t *count_p)
{
    struct conn *oldest = NULL;
    *count_p = 0;
    for (size_t i = 0; i < server->conns_count; i++) {
        struct conn *conn = &server->conns[i];
        if (conn->state == CONN_FREE || conn->proved)
            continue;
        (*count_p)++;
        if (!oldest || conn->since_ns < oldest->since_ns)
            oldest = conn;
    }
    return oldest;
}

static struct conn *conn_slot_open(struct server *server, int fd)
{
    size_t count;
    struct conn *oldest = unproved_oldest(server, &count);
    if (count >= server->unproved_max)
        unproved_drop(server, oldest);
    struct conn *conn = slot_free(server);
    if (!conn)
        return NULL;
    *conn = (struct conn){.state = CONN_HELLO,
                          .fd = fd,
                          .rank = -1,
                          .since_ns = clock_now_ns(server->clock)};
    return conn;
}

/* ---- bytes ------------------------------------------------------------------------- */

/* Send what is left, as far as the socket takes it; true if nothing is left. */
static bool conn_flush(struct conn *conn)
{
    for (;;) {
        bool in_head = conn->sent_bytes < conn->head_bytes;
        size_t skip = in_head ? 0 : conn->head_bytes;
        const uint8_t *from = in_head ? conn->head : conn->body;
        size_t end = in_head ? conn->head_bytes : conn->head_bytes + conn->body_bytes;
        if (conn->sent_bytes == end)
            return true;
        ssize_t sent =
            send(conn->fd, from + conn->sent_bytes - skip, end - conn->sent_bytes,
                 MSG_NOSIGNAL | (in_head && conn->body_bytes ? MSG_MORE : 0));
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            /* the socket is full, or the connection has ended, which the next read
             * finds */
            return false;
        conn->sent_bytes += (size_t)sent;
    }
}

static void write_finished(struct server *server, struct conn *conn)
{
    conn->state = conn->after;
    conn->head_bytes = conn->body_bytes = conn->sent_bytes = 0;
    serve_failure_send(server, conn);
}

void conn_write(struct server *server, struct conn *conn, const void *head,
                size_t head_bytes, const void *body, size_t body_bytes,
                enum conn_state after)
{
    memcpy(conn->head, head, head_bytes);
    conn->head_bytes = head_bytes;
    conn->body = body;
    conn->body_bytes = body_bytes;
    conn->sent_bytes = 0;
    conn->in_bytes = 0;
    conn->after = after;
    conn->state = CONN_WRITING;
    if (conn_flush(conn))
        write_finished(server, conn);
}

static size_t in_wanted(const struct conn *conn)
{
    switch (conn->state) {
    case CONN_HELLO: return sizeof(struct bootstrap_wire_greeting);
    case CONN_PROOF: return sizeof(struct bootstrap_wire_proof);
    case CONN_HEADER:
    case CONN_WAITING: return sizeof(struct bootstrap_wire_frame);
    default: return 0;
    }
}

/* Handle the message in conn->in, which is complete. */
static void conn_message_handle(struct server *server, struct conn *conn)
{
    conn->in_bytes = 0;
    switch (conn->state) {
    case CONN_HELLO: admit_hello(server, conn); break;
    case CONN_PROOF: admit_proof(server, conn); break;
    case CONN_PAYLOAD: serve_payload(server, conn); break;
    default: serve_header(server, conn); break;
    }
}

static void conn_ended(struct server *server, struct conn *conn)
{
    if (conn->rank >= 0)
        serve_ended(server, conn);
    conn_close(conn);
}

/* Read once into the buffer of the present state; the next turn reads more. */
static void conn_read(struct server *server, struct conn *conn)
{
    uint8_t waste[4096];
    bool payload = conn->state == CONN_PAYLOAD;
    size_t wanted = payload ? conn->payload_bytes : in_wanted(conn);
    uint8_t *into = payload ? conn->payload : conn->in;
    if (wanted == 0) {
        into = waste;
        wanted = sizeof waste;
        conn->in_bytes = 0;
    }
    ssize_t got = recv(conn->fd, into + conn->in_bytes, wanted - conn->in_bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        conn_ended(server, conn);
        return;
    }
    if (into == waste)
        return;
    conn->in_bytes += (size_t)got;
    if (conn->in_bytes == wanted)
        conn_message_handle(server, conn);
}

/* ---- accept ------------------------------------------------------------------------ */

static void accept_one(struct server *server, int fd, const struct sockaddr_storage *peer)
{
    int on = 1;
    struct conn *conn = conn_slot_open(server, fd);
    if (!conn) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* The socket inherits this option from the listener, unless the connection came
     * before the listener was adopted. Without the option, a connection that this end
     * closes first keeps the port for a minute. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    conn->peer = *peer;
}

static void accept_some(struct server *server, int listener)
{
    for (int i = 0; i < ACCEPTS_PER_PASS; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t bytes = sizeof peer;
        int fd = FD_MAKE(accept4(listener, (struct sockaddr *)&peer, &bytes,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd >= 0) {
            accept_one(server, fd, &peer);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            size_t count;
            server->accept_error = errno;
            struct conn *oldest = unproved_oldest(server, &count);
            if (oldest)
                unproved_drop(server, oldest);
            server->accept_pause_ns = clock_now_ns(server->clock) + ACCEPT_PAUSE_NS;
        }
        return;
    }
}

/* ---- the loop ---------------------------------------------------------------------- */

static void drop_overdue(struct server *server, uint64_t now_ns)
{
    for (size_t i = 0; i < server->conns_count; i++) {
        struct conn *conn = &server->conns[i];
        if (conn->state == CONN_FREE)
            continue;
        if (!conn->proved &&
            clock_since_ns(conn->since_ns, now_ns) >= SERVER_HANDSHAKE_NS)
            unproved_drop(server, conn);
        if (conn->state == CONN_WAITING && now_ns >= conn->wait_end_ns)
            serve_overdue(server, conn);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_end_ns(const struct server *server)
{
    uint64_t next = server->own_left ? server->end_ns : UINT64_MAX;
    if (server->accept_pause_ns)
        next = earlier(next, server->accept_pause_ns);
    if (serve_awaits_ranks(server)) {
        next = earlier(next, server->renew_ns);
        if (!server->warned)
            next = earlier(next, bootstrap_warn_ns(&server->wait));
    }
    for (size_t i = 0; i < server->conns_count; i++) {
        const struct conn *conn = &server->conns[i];
        if (conn->state == CONN_FREE)
            continue;
        if (!conn->proved)
            next = earlier(next, conn->since_ns + SERVER_HANDSHAKE_NS);
        if (conn->state == CONN_WAITING)
            next = earlier(next, conn->wait_end_ns);
    }
    return next;
}

static int poll_ms(const struct server *server, uint64_t now_ns)
{
    uint64_t end_ns = next_end_ns(server);
    uint64_t left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
    uint64_t most = server->clock ? POLL_LIMIT_MS : 60 * 1000;
    return (int)earlier((left_ns + NS_PER_MS - 1) / NS_PER_MS, most);
}

/* Fill `polls`: listeners first, then one entry per open connection; return the count. */
static size_t polls_fill(struct server *server, uint64_t now_ns)
{
    size_t count = 0;
    if (now_ns >= server->accept_pause_ns)
        server->accept_pause_ns = 0;
    for (size_t i = 0; i < server->listeners.count; i++)
        server->polls[count++] =
            (struct pollfd){.fd = server->accept_pause_ns ? -1 : server->listeners.fds[i],
                            .events = POLLIN};
    for (size_t i = 0; i < server->conns_count; i++) {
        const struct conn *conn = &server->conns[i];
        if (conn->state == CONN_FREE)
            continue;
        server->poll_conns[count] = i;
        server->polls[count++] = (struct pollfd){
            .fd = conn->fd, .events = conn->state == CONN_WRITING ? POLLOUT : POLLIN};
    }
    return count;
}

static void conn_event(struct server *server, struct conn *conn, short events)
{
    if (conn->state == CONN_WRITING) {
        if (events & (POLLERR | POLLHUP))
            conn_ended(server, conn);
        else if (conn_flush(conn))
            write_finished(server, conn);
        return;
    }
    conn_read(server, conn);
}

/* Handle the events. A connection may be closed while others are handled; its slot is
 * taken again only by accepts, which come last. */
static void polls_handle(struct server *server, size_t count)
{
    for (size_t i = server->listeners.count; i < count; i++) {
        struct conn *conn = &server->conns[server->poll_conns[i]];
        if (server->polls[i].revents == 0)
            continue;
        if (conn->state != CONN_FREE)
            conn_event(server, conn, server->polls[i].revents);
    }
    for (size_t i = 0; i < server->listeners.count; i++)
        if (server->polls[i].revents)
            accept_some(server, server->listeners.fds[i]);
}

static bool members_gone(const struct server *server)
{
    for (size_t i = 0; i < server->conns_count; i++)
        if (server->conns[i].proved && server->conns[i].rank != 0)
            return false;
    return true;
}

/* True if the server has ended. After a failure the server stays until end_ns for ranks
 * that have not joined, so that they receive the failure too. */
static bool server_ended(const struct server *server, uint64_t now_ns)
{
    if (!server->own_left)
        return false;
    if (now_ns >= server->end_ns)
        return true;
    if (server->failure.status != TRYST_OK)
        return server->joined_count == server->size && members_gone(server);
    return server->left_count == server->size;
}

static void missing_await(struct server *server, uint64_t now_ns)
{
    if (!server->warned && bootstrap_wait_is_long(&server->wait))
        serve_warn(server);
    if (now_ns < server->renew_ns)
        return;
    bootstrap_listeners_renew(&server->listeners, &server->wait);
    server->renew_ns = now_ns + RENEW_NS;
}

bool server_progress(struct server *server, bool wait)
{
    uint64_t now_ns = clock_now_ns(server->clock);
    drop_overdue(server, now_ns);
    if (serve_awaits_ranks(server))
        missing_await(server, now_ns);
    if (server_ended(server, now_ns))
        return false;
    size_t count = polls_fill(server, now_ns);
    int ready = poll(server->polls, count, wait ? poll_ms(server, now_ns) : 0);
    if (ready > 0)
        polls_handle(server, count);
    return true;
}

static void *server_run(void *arg)
{
    struct server *server = arg;
    pthread_setname_np(pthread_self(), "tryst-boot");
    while (server_progress(server, true))
        continue;
    return NULL;
}

/* ---- open and close ---------------------------------------------------------------- */

void server_close(struct server *server)
{
    for (size_t i = 0; server->conns && i < server->conns_count; i++)
        conn_close(&server->conns[i]);
    bootstrap_listeners_close(&server->listeners);
    mem_free(server->gather.in);
    mem_free(server->gather.out);
    mem_free(server->members);
    mem_free(server->poll_conns);
    mem_free(server->polls);
    mem_free(server->conns);
    mem_free(server);
}

/* Allocate all memory that unproved peers can ever occupy. */
static tryst_status slots_make(struct server *server, int own_fd)
{
    size_t size = (size_t)server->size;
    server->unproved_max = SERVER_UNPROVED_EXTRA + size;
    size_t count = server->unproved_max + size + 1;
    size_t polls = count + BOOTSTRAP_LISTENERS_MAX;
    server->conns = mem_zalloc_array(count, sizeof *server->conns);
    server->polls = mem_zalloc_array(polls, sizeof *server->polls);
    server->poll_conns = mem_zalloc_array(polls, sizeof *server->poll_conns);
    server->members = mem_zalloc_array(size, sizeof *server->members);
    if (!server->conns || !server->polls || !server->poll_conns || !server->members)
        return TRYST_E_NOMEM;
    server->conns_count = count;
    for (size_t i = 0; i < count; i++)
        server->conns[i] = (struct conn){.state = CONN_FREE, .fd = -1, .rank = -1};
    struct conn *own = conn_slot_open(server, own_fd);
    admit_own(server, own);
    return TRYST_OK;
}

/* Start the thread with all signals blocked: signals belong to the application. */
static int thread_start(struct server *server)
{
    sigset_t mask;
    signal_mask_begin(&mask);
    int error = pthread_create(&server->thread, NULL, server_run, server);
    signal_mask_end(&mask);
    return error;
}

tryst_status server_open(const struct bootstrap_params *params,
                         const struct bootstrap_listeners *listeners, int own_fd,
                         struct err *err, struct server **server_p)
{
    struct server *server = mem_zalloc(sizeof *server);
    if (!server) {
        struct bootstrap_listeners all = *listeners;
        bootstrap_listeners_close(&all);
        close(own_fd);
        err_set(err, TRYST_E_NOMEM, "cannot start the bootstrap server: out of memory");
        return TRYST_E_NOMEM;
    }
    server->size = params->size;
    server->timeout_ns = params->timeout_ns;
    server->token = (struct bootstrap_token){params->token, params->token_bytes};
    snprintf(server->job, sizeof server->job, "%s", params->job ? params->job : "");
    server->log = params->log;
    server->clock = params->clock;
    server->listeners = *listeners;
    snprintf(server->address, sizeof server->address, "%s",
             params->address ? params->address : "at its inherited socket");
    server->address_setting =
        params->address_setting ? params->address_setting : BOOTSTRAP_SETTING;
    server->wait = (struct bootstrap_wait){.clock = params->clock,
                                           .deadline_ns = clock_now_ns(params->clock) +
                                                          params->timeout_ns,
                                           .timeout_ns = params->timeout_ns};
    server->renew_ns = clock_now_ns(params->clock) + RENEW_NS;
    server->gather.first_rank = -1;
    tryst_status status = slots_make(server, own_fd);
    if (status != TRYST_OK) {
        if (!server->conns_count)
            close(own_fd);
        server_close(server);
        err_set(err, status, "cannot start the bootstrap server: out of memory");
        return status;
    }
    *server_p = server;
    return TRYST_OK;
}

tryst_status server_start(const struct bootstrap_params *params,
                          const struct bootstrap_listeners *listeners, int own_fd,
                          struct err *err, struct server **server_p)
{
    struct server *server = NULL;
    tryst_status status = server_open(params, listeners, own_fd, err, &server);
    if (status != TRYST_OK)
        return status;
    int error = thread_start(server);
    if (error) {
        server_close(server);
        return err_set(err, TRYST_E_SYSTEM,
                       "cannot start the bootstrap server's thread: %s", strerror(error));
    }
    *server_p = server;
    return TRYST_OK;
}

/* Log the connections beyond the first, which was logged when it came. */
static void unauthenticated_log(const struct server *server)
{
    if (server->refused_count + server->silent_count > 1)
        LOG_WARN(server->log,
                 "bootstrap: refused %llu connections (the last: %s), and dropped %llu "
                 "that sent no proof in time",
                 (unsigned long long)server->refused_count,
                 server->refused_count ? server->refused : "none",
                 (unsigned long long)server->silent_count);
}

void server_join(struct server *server)
{
    pthread_join(server->thread, NULL);
    unauthenticated_log(server);
    server_close(server);
}
