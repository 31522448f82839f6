/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's connection to the bootstrap server: see bootstrap_client.h, and
 * bootstrap.h for its states. */
#include "bootstrap_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap_name.h"
#include "bootstrap_text.h"
#include "core/os/random.h"
#include "core/text/text.h"

/* Pause between attempts: long enough to be no load, short for the user. */
#define RETRY_FIRST_NS (10 * NS_PER_MS)
#define RETRY_MOST_NS  (250 * NS_PER_MS)
/* Time of one attempt, from connect to verdict; the server keeps an unproved connection
 * as long. */
#define ATTEMPT_NS (5 * NS_PER_S)
/* Time to connect: the kernel sends a second SYN after one second. An address that drops
 * packets, as one that the name had before, delays the next attempt no longer. */
#define CONNECT_NS (2 * NS_PER_S)
/* The server ends a request at this rank's deadline and names the missing ranks; the
 * answer may take this much longer to arrive. */
#define ANSWER_SLACK_NS (2 * NS_PER_S)

/* ---- bytes ------------------------------------------------------------------------- */

/* Read or write as much as the socket allows now. Returns the bytes moved, 0 if the call
 * would block, -1 if the connection has ended (errno 0: closed in order). */
static ssize_t socket_move(int fd, void *data, size_t bytes, bool write)
{
    ssize_t moved;
    do
        moved = write ? send(fd, data, bytes, MSG_NOSIGNAL) : recv(fd, data, bytes, 0);
    while (moved < 0 && errno == EINTR);
    if (moved > 0)
        return moved;
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (moved == 0)
        errno = 0;
    return -1;
}

/* Read or write all bytes. TRYST_E_PEER if the connection ended. */
static tryst_status bytes_move(int fd, void *data, size_t bytes, bool write,
                               const struct bootstrap_wait *wait, uint64_t until_ns)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t moved = socket_move(fd, at, bytes, write);
        if (moved < 0)
            return TRYST_E_PEER;
        at += moved;
        bytes -= (size_t)moved;
        if (moved > 0)
            continue;
        tryst_status status =
            bootstrap_wait_fd(wait, fd, write ? POLLOUT : POLLIN, until_ns);
        if (status != TRYST_OK)
            return status;
    }
    return TRYST_OK;
}

/* ---- connect and prove ------------------------------------------------------------- */

/* The state of repeated attempts. */
struct attempt {
    const struct bootstrap_params *params;
    const struct bootstrap_wait *wait;
    struct err *err;
    struct bootstrap_name name;
    const struct addrinfo *to; /* the address being tried; NULL: none, or numeric */
    uint64_t until_ns;
    char last[192]; /* reason why the last attempt failed */
};

/* Keep the reason and return TRYST_AGAIN: another attempt follows. */
static tryst_status attempt_again(struct attempt *attempt, const char *why)
{
    char to[BOOTSTRAP_PEER_TEXT_BYTES] = "";
    struct sockaddr_storage at = {0};
    if (attempt->to) {
        memcpy(&at, attempt->to->ai_addr, attempt->to->ai_addrlen);
        bootstrap_peer_text(&at, to);
    }
    snprintf(attempt->last, sizeof attempt->last, "%s%s%s", to, *to ? ": " : "", why);
    return TRYST_AGAIN;
}

static tryst_status challenge_check(struct attempt *attempt, const void *data,
                                    struct bootstrap_wire_greeting *challenge_p)
{
    const char *address = attempt->params->address;
    if (!bootstrap_greeting_decode(data, challenge_p))
        return err_set(attempt->err, TRYST_E_HANDSHAKE,
                       "the server at %s is not a Tryst bootstrap server; check %s",
                       address, attempt->params->address_setting);
    if (challenge_p->version == BOOTSTRAP_WIRE_VERSION)
        return TRYST_OK;
    return err_set(attempt->err, TRYST_E_HANDSHAKE,
                   "rank 0 at %s has bootstrap version %u, this rank %d has version %u; "
                   "run the same version of Tryst on all ranks",
                   address, challenge_p->version, attempt->params->rank,
                   BOOTSTRAP_WIRE_VERSION);
}

static void proof_fill(const struct bootstrap_params *params,
                       struct bootstrap_wire_proof *proof)
{
    *proof = (struct bootstrap_wire_proof){.rank = (uint32_t)params->rank,
                                           .size = (uint32_t)params->size,
                                           .pid = (uint32_t)getpid()};
    host_name_read("?", proof->host);
    memcpy(proof->job, params->job, strlen(params->job));
}

static tryst_status verdict_denied(struct attempt *attempt)
{
    const struct bootstrap_params *params = attempt->params;
    return err_set(attempt->err, TRYST_E_TOKEN,
                   "rank 0 at %s did not accept %s of rank %d; give all ranks the same "
                   "TRYST_TOKEN or TRYST_TOKEN_FILE (or TRYST_INSECURE=1 to all)",
                   params->address,
                   params->token_bytes ? "the token" : "the missing token", params->rank);
}

static tryst_status verdict_of_another_job(struct attempt *attempt, const char *job)
{
    const struct bootstrap_params *params = attempt->params;
    char theirs[BOOTSTRAP_JOB_TEXT_BYTES], mine[BOOTSTRAP_JOB_TEXT_BYTES];
    return err_set(attempt->err, TRYST_E_GROUP,
                   "rank 0 at %s belongs to another job: %s there, %s at this rank %d; "
                   "give each job its own port in %s (TRYST_JOB sets the job's identity, "
                   "equal on all its ranks)",
                   params->address, job_text(job, theirs), job_text(params->job, mine),
                   params->rank, params->port_setting);
}

static tryst_status verdict_check(struct attempt *attempt,
                                  const struct bootstrap_wire_proof *proof,
                                  const uint8_t *client_nonce,
                                  const uint8_t *server_nonce, const void *data)
{
    struct bootstrap_wire_verdict verdict;
    uint8_t mac[BOOTSTRAP_MAC_BYTES];
    const struct bootstrap_params *params = attempt->params;
    struct bootstrap_token token = {params->token, params->token_bytes};
    if (!bootstrap_verdict_decode(data, &verdict))
        return err_set(attempt->err, TRYST_E_PROTOCOL,
                       "rank 0 at %s sent an invalid verdict", params->address);
    if (verdict.code == BOOTSTRAP_VERDICT_DENIED)
        return verdict_denied(attempt);
    bootstrap_mac(&token, BOOTSTRAP_ROLE_SERVER, proof, &verdict, client_nonce,
                  server_nonce, mac);
    if (!bootstrap_mac_equal(mac, verdict.mac))
        return err_set(
            attempt->err, TRYST_E_TOKEN,
            "the server at %s does not have the job's token, so it is not rank 0 of "
            "this job (check %s)",
            params->address, params->address_setting);
    if (verdict.code == BOOTSTRAP_VERDICT_JOB)
        return verdict_of_another_job(attempt, verdict.job);
    if (verdict.code == BOOTSTRAP_VERDICT_AGAIN)
        return attempt_again(attempt, "its last session is still closing");
    return TRYST_OK;
}

/* Exchange HELLO to VERDICT on a new connection. */
static tryst_status handshake(struct attempt *attempt, int fd)
{
    struct bootstrap_wire_greeting hello = {.magic = BOOTSTRAP_WIRE_MAGIC,
                                            .version = BOOTSTRAP_WIRE_VERSION};
    struct bootstrap_wire_greeting challenge;
    struct bootstrap_wire_proof proof;
    struct bootstrap_token token = {attempt->params->token, attempt->params->token_bytes};
    uint8_t answer[sizeof challenge], verdict[sizeof(struct bootstrap_wire_verdict)];
    const struct bootstrap_wait *wait = attempt->wait;
    uint64_t until_ns = attempt->until_ns;
    if (random_secret(hello.nonce, sizeof hello.nonce) != TRYST_OK)
        return err_set(attempt->err, TRYST_E_SYSTEM, "cannot get random bytes: %s",
                       strerror(errno));

    tryst_status status = bytes_move(fd, &hello, sizeof hello, true, wait, until_ns);
    if (status == TRYST_OK)
        status = bytes_move(fd, answer, sizeof answer, false, wait, until_ns);
    if (status != TRYST_OK)
        return status == TRYST_E_CANCELED
                   ? status
                   : attempt_again(attempt,
                                   "rank 0 accepted the connection but did not answer");
    status = challenge_check(attempt, answer, &challenge);
    if (status != TRYST_OK)
        return status;

    proof_fill(attempt->params, &proof);
    bootstrap_mac(&token, BOOTSTRAP_ROLE_CLIENT, &proof, NULL, hello.nonce,
                  challenge.nonce, proof.mac);
    status = bytes_move(fd, &proof, sizeof proof, true, wait, until_ns);
    if (status == TRYST_OK)
        status = bytes_move(fd, verdict, sizeof verdict, false, wait, until_ns);
    if (status != TRYST_OK)
        return status == TRYST_E_CANCELED
                   ? status
                   : attempt_again(
                         attempt,
                         "rank 0 closed the connection before checking the token");
    return verdict_check(attempt, &proof, hello.nonce, challenge.nonce, verdict);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Return the time for an attempt at the first of these addresses, so that each gets a
 * share of what is left. */
static uint64_t share_ns(const struct attempt *attempt, const struct addrinfo *found,
                         uint64_t now_ns)
{
    uint64_t left_ns = attempt->wait->deadline_ns - now_ns, count = 0;
    if (now_ns >= attempt->wait->deadline_ns)
        return 0;
    for (; found; found = found->ai_next)
        count++;
    return earlier(ATTEMPT_NS, left_ns / count);
}

static tryst_status attempt_one(struct attempt *attempt, const struct addrinfo *to,
                                int *fd_p)
{
    int error = 0;
    uint64_t now_ns = clock_now_ns(attempt->wait->clock);
    uint64_t most_ns = share_ns(attempt, to, now_ns);
    attempt->until_ns = now_ns + most_ns;
    attempt->to = attempt->name.is_numeric ? NULL : to;
    int fd = bootstrap_connect(attempt->wait, to, now_ns + earlier(most_ns, CONNECT_NS),
                               &error);
    if (fd < 0)
        return error == ECANCELED ? TRYST_E_CANCELED
                                  : attempt_again(attempt, err_reason(error));
    tryst_status status = handshake(attempt, fd);
    if (status == TRYST_OK)
        *fd_p = fd;
    else
        close(fd);
    return status;
}

/* Resolve the name, and make one attempt at each of its addresses. */
static tryst_status attempt_all(struct attempt *attempt, int *fd_p)
{
    uint64_t now_ns = clock_now_ns(attempt->wait->clock);
    tryst_status status =
        bootstrap_name_poll(&attempt->name, attempt->wait, now_ns + ATTEMPT_NS);
    attempt->to = NULL;
    if (status == TRYST_AGAIN)
        return attempt_again(attempt, attempt->name.why);
    if (status != TRYST_OK)
        return status;
    for (struct addrinfo *to = attempt->name.found; to; to = to->ai_next) {
        status = attempt_one(attempt, to, fd_p);
        if (status != TRYST_AGAIN ||
            clock_now_ns(attempt->wait->clock) >= attempt->wait->deadline_ns)
            return status;
    }
    return TRYST_AGAIN;
}

static void attempt_warn(const struct attempt *attempt, bool *warned)
{
    char why[ERR_TEXT_BYTES];
    if (*warned || !bootstrap_wait_is_long(attempt->wait))
        return;
    *warned = true;
    snprintf(why, sizeof why, "rank %d has not reached rank 0 at %s (%s)",
             attempt->params->rank, attempt->params->address, attempt->last);
    bootstrap_wait_warn(attempt->wait, attempt->params->log, why);
}

static tryst_status too_late(const struct attempt *attempt, struct err *err)
{
    char seconds[SECONDS_TEXT_BYTES];
    return err_set(
        err, TRYST_E_BOOTSTRAP,
        "rank %d: rank 0 was not reached at %s within %s (%s); check that rank 0 runs, "
        "%s and the firewall, or raise TRYST_BOOTSTRAP_TIMEOUT",
        attempt->params->rank, attempt->params->address,
        seconds_text(attempt->params->timeout_ns, seconds), attempt->last,
        attempt->params->address_setting);
}

static tryst_status attempts_make(struct attempt *attempt, int *fd_p)
{
    uint64_t pause_ns = RETRY_FIRST_NS;
    bool warned = false;
    for (;;) {
        tryst_status status = attempt_all(attempt, fd_p);
        if (status != TRYST_AGAIN)
            return status;
        uint64_t now_ns = clock_now_ns(attempt->wait->clock);
        if (now_ns >= attempt->wait->deadline_ns)
            return too_late(attempt, attempt->err);
        attempt_warn(attempt, &warned);
        status = bootstrap_wait_fd(attempt->wait, -1, 0, now_ns + pause_ns);
        if (status == TRYST_E_CANCELED)
            return status;
        pause_ns = earlier(2 * pause_ns, RETRY_MOST_NS);
    }
}

tryst_status bootstrap_client_open(struct bootstrap_client *client,
                                   const struct bootstrap_params *params,
                                   const struct bootstrap_wait *wait, struct err *err)
{
    struct attempt attempt = {
        .params = params, .wait = wait, .err = err, .last = "no answer"};
    tryst_status status = bootstrap_name_open(params->address, err, &attempt.name);
    if (status != TRYST_OK)
        return status;
    *client = (struct bootstrap_client){.fd = -1};
    snprintf(client->server, sizeof client->server, "%s", params->address);
    status = attempts_make(&attempt, &client->fd);
    bootstrap_name_close(&attempt.name);
    if (status == TRYST_E_CANCELED)
        err_set(err, status, "the bootstrap of rank %d was cancelled", params->rank);
    return status;
}

void bootstrap_client_adopt(struct bootstrap_client *client, int fd)
{
    *client = (struct bootstrap_client){.fd = fd, .server = "this process"};
}

/* ---- requests ---------------------------------------------------------------------- */

/* A request that is being sent while its reply may already arrive: if the session fails,
 * the server sends FAILED in the middle of a large request. */
struct exchange {
    struct bootstrap_client *client;
    const struct bootstrap_wait *wait;
    struct err *err;
    struct {
        const void *data;
        size_t bytes;
    } out[2];
    size_t out_part;
};

static tryst_status exchange_died(struct exchange *exchange)
{
    return err_set(
        exchange->err, TRYST_E_BOOTSTRAP,
        "rank 0 (%s) closed the bootstrap connection: its process died or gave up; "
        "see its output",
        exchange->client->server);
}

static tryst_status exchange_waited(struct exchange *exchange, tryst_status status)
{
    if (status == TRYST_E_CANCELED)
        return err_set(exchange->err, status, "the bootstrap was cancelled");
    if (status == TRYST_E_TIMEOUT)
        return err_set(
            exchange->err, TRYST_E_BOOTSTRAP,
            "rank 0 (%s) accepted the connection but does not answer any more; check "
            "whether its process is stopped",
            exchange->client->server);
    if (status == TRYST_E_PEER)
        return exchange_died(exchange);
    return err_set(exchange->err, status, "cannot wait for rank 0: %s", strerror(errno));
}

/* Send the request until all of it is sent, or a reply begins to arrive. TRYST_OK also if
 * the connection has ended: the server's last message is read next. */
static tryst_status exchange_send(struct exchange *exchange)
{
    int fd = exchange->client->fd;
    while (exchange->out_part < 2) {
        size_t bytes = exchange->out[exchange->out_part].bytes;
        ssize_t moved =
            bytes ? socket_move(fd, (void *)exchange->out[exchange->out_part].data, bytes,
                                true)
                  : 0;
        if (moved < 0)
            return TRYST_OK;
        exchange->out[exchange->out_part].data =
            (const char *)exchange->out[exchange->out_part].data + moved;
        exchange->out[exchange->out_part].bytes -= (size_t)moved;
        if ((size_t)moved == bytes) {
            exchange->out_part++;
            continue;
        }
        if (moved > 0)
            continue;
        tryst_status status =
            bootstrap_wait_fd(exchange->wait, fd, POLLOUT | POLLIN, UINT64_MAX);
        if (status != TRYST_OK)
            return status;
        char peek;
        if (recv(fd, &peek, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
            return TRYST_OK;
    }
    return TRYST_OK;
}

static tryst_status exchange_read(struct exchange *exchange, void *data, size_t bytes)
{
    tryst_status status =
        bytes_move(exchange->client->fd, data, bytes, false, exchange->wait, UINT64_MAX);
    return status == TRYST_OK ? status : exchange_waited(exchange, status);
}

static tryst_status failure_read(struct exchange *exchange,
                                 const struct bootstrap_wire_frame *frame)
{
    char data[ERR_TEXT_BYTES], text[ERR_TEXT_BYTES];
    tryst_status status = exchange_read(exchange, data, (size_t)frame->bytes);
    if (status != TRYST_OK)
        return status;
    text_escape(data, (size_t)frame->bytes, text, sizeof text);
    return err_set(exchange->err, bootstrap_status_decode(frame->status), "%s", text);
}

static tryst_status reply_read(struct exchange *exchange,
                               const struct bootstrap_request *request, uint64_t sequence)
{
    uint8_t data[sizeof(struct bootstrap_wire_frame)];
    struct bootstrap_wire_frame frame;
    tryst_status status = exchange_read(exchange, data, sizeof data);
    if (status != TRYST_OK)
        return status;
    bool known = bootstrap_reply_decode(data, request->result_bytes, &frame);
    if (known && frame.type == BOOTSTRAP_FRAME_FAILED)
        return failure_read(exchange, &frame);
    if (!known || frame.sequence != sequence)
        return err_set(exchange->err, TRYST_E_PROTOCOL,
                       "rank 0 (%s) sent a reply that does not fit the request",
                       exchange->client->server);
    return exchange_read(exchange, request->result, request->result_bytes);
}

tryst_status bootstrap_client_request(struct bootstrap_client *client,
                                      const struct bootstrap_request *request,
                                      const struct bootstrap_wait *wait, struct err *err)
{
    uint64_t now_ns = clock_now_ns(wait->clock);
    struct bootstrap_wire_frame frame = {
        .type = request->type,
        .sequence = client->gathers_count,
        .timeout_ns = wait->deadline_ns > now_ns ? wait->deadline_ns - now_ns : 0,
        .patience_ns = wait->timeout_ns,
        .bytes = request->body_bytes};
    struct bootstrap_wait longer = *wait;
    longer.deadline_ns += ANSWER_SLACK_NS;
    struct exchange exchange = {
        .client = client,
        .wait = &longer,
        .err = err,
        .out = {{&frame, sizeof frame}, {request->body, request->body_bytes}}};
    tryst_status status = exchange_send(&exchange);
    client->midway = exchange.out_part < 2;
    if (status != TRYST_OK)
        return exchange_waited(&exchange, status);
    client->gathers_count++;
    return reply_read(&exchange, request, frame.sequence);
}

/* ---- leave ------------------------------------------------------------------------- */

void bootstrap_client_leave(struct bootstrap_client *client, const struct err *why)
{
    struct {
        struct bootstrap_wire_frame frame;
        char text[ERR_TEXT_BYTES];
    } message = {.frame = {.type = BOOTSTRAP_FRAME_BYE}};
    if (why) {
        message.frame.type = BOOTSTRAP_FRAME_ABORT;
        message.frame.status = why->status;
        message.frame.bytes = strnlen(why->text, BOOTSTRAP_WIRE_TEXT_MAX);
        memcpy(message.text, why->text, (size_t)message.frame.bytes);
    }
    /* An idle socket has room for the message; without room no orderly leave is
     * possible. */
    size_t bytes = sizeof message.frame + (size_t)message.frame.bytes;
    if (!client->midway && send(client->fd, &message, bytes, MSG_NOSIGNAL) < 0)
        client->midway = true;
    shutdown(client->fd, SHUT_WR);
}

void bootstrap_client_close(struct bootstrap_client *client, const struct err *why)
{
    bootstrap_client_leave(client, why);
    close(client->fd);
    client->fd = -1;
}
