/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap object in front of rank 0's server, or of the caller's all-gather: see
 * bootstrap.h.
 *
 * One idea: rank 0 too is a client of the server, so all ranks share one path; the
 * caller's all-gather differs in one function. Invariant: the all-gather of
 * bootstrap_open (versions, ranks, sizes, the cookie) is the same whatever carries it. */
#include "bootstrap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap_client.h"
#include "bootstrap_server.h"
#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "core/os/random.h"

#define TIMEOUT_DEFAULT_NS (60 * NS_PER_S)
/* A broadcast by the caller's all-gather: most bytes of each rank in one round. */
#define CALLER_PIECE_BYTES (64u << 10)

struct bootstrap {
    struct bootstrap_params params; /* strings point into this record */
    uint8_t cookie[BOOTSTRAP_COOKIE_BYTES];
    /* fd -1: not connected, or over the caller's all-gather */
    struct bootstrap_client client;
    struct server *server; /* rank 0 only */
    char address[BOOTSTRAP_ADDRESS_MAX];
    char job[BOOTSTRAP_JOB_BYTES];
    char net[BOOTSTRAP_NET_MAX];
    uint8_t token[BOOTSTRAP_TOKEN_MAX];
};

/* ---- open -------------------------------------------------------------------------- */

static struct bootstrap_wait wait_begin(const struct bootstrap *bootstrap)
{
    const struct bootstrap_params *params = &bootstrap->params;
    struct bootstrap_wait wait = {.clock = params->clock,
                                  .cancel = params->cancel,
                                  .deadline_ns = clock_now_ns(params->clock),
                                  .timeout_ns = params->timeout_ns};
    wait.deadline_ns += params->timeout_ns;
    return wait;
}

static tryst_status params_check(const struct bootstrap_params *params, struct err *err)
{
    bool server = !params->allgather;
    if (params->size < 2 || params->rank < 0 || params->rank >= params->size)
        return err_set(err, TRYST_E_INVALID,
                       "rank %d of %d: the size must be at least 2 and the rank below it",
                       params->rank, params->size);
    if (server && (!params->address || strlen(params->address) >= BOOTSTRAP_ADDRESS_MAX))
        return err_set(err, TRYST_E_CONFIG,
                       "no usable bootstrap address; set TRYST_BOOTSTRAP=host:port");
    if (server && params->token_bytes == 0 && !params->insecure)
        return err_set(err, TRYST_E_TOKEN, "no job token; set TRYST_TOKEN");
    if (params->token_bytes > BOOTSTRAP_TOKEN_MAX)
        return err_set(err, TRYST_E_TOKEN, "the job token is longer than %d bytes",
                       BOOTSTRAP_TOKEN_MAX);
    return TRYST_OK;
}

static void params_copy(struct bootstrap *bootstrap,
                        const struct bootstrap_params *params)
{
    bootstrap->params = *params;
    if (!params->address_setting)
        bootstrap->params.address_setting = BOOTSTRAP_SETTING;
    if (!params->port_setting)
        bootstrap->params.port_setting = BOOTSTRAP_SETTING;
    snprintf(bootstrap->job, sizeof bootstrap->job, "%s", params->job ? params->job : "");
    bootstrap->params.job = bootstrap->job;
    if (params->timeout_ns == 0)
        bootstrap->params.timeout_ns = TIMEOUT_DEFAULT_NS;
    if (params->timeout_ns > BOOTSTRAP_WIRE_TIMEOUT_MAX_NS)
        bootstrap->params.timeout_ns = BOOTSTRAP_WIRE_TIMEOUT_MAX_NS;
    snprintf(bootstrap->address, sizeof bootstrap->address, "%s",
             params->address ? params->address : "");
    if (params->token_bytes)
        memcpy(bootstrap->token, params->token, params->token_bytes);
    snprintf(bootstrap->net, sizeof bootstrap->net, "%s",
             params->bind_interface ? params->bind_interface : "");
    bootstrap->params.bind_interface = bootstrap->net;
    bootstrap->params.address = bootstrap->address;
    bootstrap->params.token = bootstrap->token;
    bootstrap->client.fd = -1;
}

/* Get rank 0's listeners: the given descriptor if that is a listening socket with the
 * port of the address, else new sockets. */
static tryst_status listeners_get(const struct bootstrap_params *params,
                                  const struct bootstrap_wait *wait, struct err *err,
                                  struct bootstrap_listeners *listeners_p)
{
    if (params->listen_fd >= 0 &&
        bootstrap_listener_adopt(params->listen_fd, params->address)) {
        *listeners_p =
            (struct bootstrap_listeners){.fds = {fd_move(params->listen_fd)}, .count = 1};
        return TRYST_OK;
    }
    return bootstrap_listen(params, wait, err, listeners_p);
}

/* Close the given descriptor if it is a listener for the address: the bootstrap owns such
 * a listener also after a failure. */
static void listener_drop(const struct bootstrap_params *params)
{
    if (params->listen_fd >= 0 &&
        bootstrap_listener_adopt(params->listen_fd, params->address))
        close(params->listen_fd);
}

static tryst_status serve(struct bootstrap *bootstrap, const struct bootstrap_wait *wait,
                          struct err *err)
{
    struct bootstrap_listeners listeners;
    int pair[2];
    tryst_status status = listeners_get(&bootstrap->params, wait, err, &listeners);
    if (status != TRYST_OK)
        return status;
    if (fd_socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, pair) != 0) {
        bootstrap_listeners_close(&listeners);
        return err_set(err, TRYST_E_SYSTEM, "cannot create a socket pair: %s",
                       err_reason(errno));
    }
    status =
        server_start(&bootstrap->params, &listeners, pair[0], err, &bootstrap->server);
    if (status == TRYST_OK)
        bootstrap_client_adopt(&bootstrap->client, pair[1]);
    else
        close(pair[1]);
    return status;
}

static tryst_status connect_all(struct bootstrap *bootstrap,
                                const struct bootstrap_wait *wait, struct err *err)
{
    if (bootstrap->params.allgather)
        return TRYST_OK;
    tryst_status status = bootstrap_auth_init(err);
    if (status != TRYST_OK) {
        listener_drop(&bootstrap->params);
        return status;
    }
    if (bootstrap->params.rank == 0)
        return serve(bootstrap, wait, err);
    return bootstrap_client_open(&bootstrap->client, &bootstrap->params, wait, err);
}

/* ---- the first all-gather ---------------------------------------------------------- */

static tryst_status allgather_until(struct bootstrap *bootstrap, const void *mine,
                                    size_t bytes, void *all,
                                    const struct bootstrap_wait *wait, struct err *err);

static tryst_status member_check(const struct bootstrap_wire_member *member, int rank,
                                 int size, struct err *err)
{
    if (member->magic != BOOTSTRAP_WIRE_MAGIC ||
        member->version != BOOTSTRAP_WIRE_VERSION)
        return err_set(
            err, TRYST_E_HANDSHAKE,
            "rank %d has bootstrap version %u, this rank has %u; run the same version "
            "of Tryst on all ranks",
            rank, member->version, BOOTSTRAP_WIRE_VERSION);
    if (member->size != (uint32_t)size)
        return err_set(err, TRYST_E_GROUP,
                       "rank %d belongs to a job of %u ranks, this rank to one of %d",
                       rank, member->size, size);
    if (member->rank != (uint32_t)rank)
        return err_set(
            err, TRYST_E_GROUP,
            "the all-gather has rank %u in the place of rank %d: two processes claim "
            "one rank, or the caller's all-gather is not in rank order",
            member->rank, rank);
    return TRYST_OK;
}

/* Check that versions, ranks and sizes agree, and take rank 0's cookie. */
static tryst_status members_meet(struct bootstrap *bootstrap,
                                 const struct bootstrap_wait *wait, struct err *err)
{
    int size = bootstrap->params.size;
    struct bootstrap_wire_member mine = {.magic = BOOTSTRAP_WIRE_MAGIC,
                                         .version = BOOTSTRAP_WIRE_VERSION,
                                         .rank = (uint32_t)bootstrap->params.rank,
                                         .size = (uint32_t)size};
    struct bootstrap_wire_member *all = mem_zalloc_array((size_t)size, sizeof *all);
    if (!all)
        return err_set(err, TRYST_E_NOMEM, "cannot open the bootstrap: out of memory");
    tryst_status status = TRYST_OK;
    if (mine.rank == 0)
        status = random_secret(mine.cookie, sizeof mine.cookie);
    if (status != TRYST_OK)
        err_set(err, status, "cannot get random bytes: %s", strerror(errno));
    if (status == TRYST_OK)
        status = allgather_until(bootstrap, &mine, sizeof mine, all, wait, err);
    for (int rank = 0; rank < size && status == TRYST_OK; rank++)
        status = member_check(&all[rank], rank, size, err);
    if (status == TRYST_OK)
        memcpy(bootstrap->cookie, all[0].cookie, sizeof bootstrap->cookie);
    bootstrap_wipe(all, (size_t)size * sizeof *all);
    mem_free(all);
    return status;
}

tryst_status bootstrap_open(const struct bootstrap_params *params, struct err *err,
                            struct bootstrap **bootstrap_p)
{
    struct err why = ERR_INIT;
    tryst_status status = params_check(params, err);
    struct bootstrap *bootstrap =
        status == TRYST_OK ? mem_zalloc(sizeof *bootstrap) : NULL;
    if (!bootstrap) {
        listener_drop(params);
        return status == TRYST_OK ? err_set(err, TRYST_E_NOMEM,
                                            "cannot open the bootstrap: out of memory")
                                  : status;
    }
    params_copy(bootstrap, params);
    struct bootstrap_wait wait = wait_begin(bootstrap);
    status = connect_all(bootstrap, &wait, &why);
    if (status == TRYST_OK)
        status = members_meet(bootstrap, &wait, &why);
    if (status == TRYST_OK) {
        *bootstrap_p = bootstrap;
        return status;
    }
    bootstrap_close(bootstrap, &why);
    return err_set(err, status, "%s", why.text);
}

/* ---- use --------------------------------------------------------------------------- */

static tryst_status allgather_caller(struct bootstrap *bootstrap, const void *mine,
                                     size_t bytes, void *all, struct err *err)
{
    const struct bootstrap_params *params = &bootstrap->params;
    int result = params->allgather(params->allgather_arg, mine, all, bytes);
    if (result == 0)
        return TRYST_OK;
    return err_set(err, TRYST_E_BOOTSTRAP,
                   "the caller's all-gather of %zu bytes failed with %d on rank %d",
                   bytes, result, params->rank);
}

static tryst_status allgather_until(struct bootstrap *bootstrap, const void *mine,
                                    size_t bytes, void *all,
                                    const struct bootstrap_wait *wait, struct err *err)
{
    struct bootstrap_request request = {.type = BOOTSTRAP_FRAME_GATHER,
                                        .body = mine,
                                        .body_bytes = bytes,
                                        .result = all,
                                        .result_bytes =
                                            bytes * (size_t)bootstrap->params.size};
    if (bytes > BOOTSTRAP_GATHER_MAX / (size_t)bootstrap->params.size)
        return err_set(
            err, TRYST_E_INVALID,
            "an all-gather of %zu bytes per rank is too large for the bootstrap", bytes);
    return bootstrap->params.allgather
               ? allgather_caller(bootstrap, mine, bytes, all, err)
               : bootstrap_client_request(&bootstrap->client, &request, wait, err);
}

tryst_status bootstrap_allgather(struct bootstrap *bootstrap, const void *mine,
                                 size_t bytes, void *all, struct err *err)
{
    struct bootstrap_wait wait = wait_begin(bootstrap);
    return allgather_until(bootstrap, mine, bytes, all, &wait, err);
}

/* Broadcast by rounds of the caller's all-gather, in which only rank 0's part counts. */
static tryst_status broadcast_caller(struct bootstrap *bootstrap, uint8_t *data,
                                     size_t bytes, struct err *err)
{
    size_t size = (size_t)bootstrap->params.size;
    size_t most = BOOTSTRAP_GATHER_MAX / size;
    most = most < CALLER_PIECE_BYTES ? most : CALLER_PIECE_BYTES;
    uint8_t *all = mem_alloc(size * most);
    if (!all)
        return err_set(err, TRYST_E_NOMEM, "cannot broadcast: out of memory");
    tryst_status status = TRYST_OK;
    for (size_t at = 0; at < bytes && status == TRYST_OK; at += most) {
        size_t piece = bytes - at < most ? bytes - at : most;
        status = allgather_caller(bootstrap, data + at, piece, all, err);
        if (status == TRYST_OK)
            memcpy(data + at, all, piece);
    }
    mem_free(all);
    return status;
}

tryst_status bootstrap_broadcast(struct bootstrap *bootstrap, void *data, size_t bytes,
                                 struct err *err)
{
    tryst_status status = TRYST_OK;
    bool gives = bootstrap->params.rank == 0;
    if (bootstrap->params.allgather)
        return broadcast_caller(bootstrap, data, bytes, err);
    for (size_t at = 0; at < bytes && status == TRYST_OK; at += BOOTSTRAP_GATHER_MAX) {
        uint8_t *piece = (uint8_t *)data + at;
        struct bootstrap_wait wait = wait_begin(bootstrap);
        size_t left = bytes - at;
        size_t count = left < BOOTSTRAP_GATHER_MAX ? left : BOOTSTRAP_GATHER_MAX;
        struct bootstrap_request request = {.type = BOOTSTRAP_FRAME_BROADCAST,
                                            .body = piece,
                                            .body_bytes = gives ? count : 0,
                                            .result = piece,
                                            .result_bytes = count};
        status = bootstrap_client_request(&bootstrap->client, &request, &wait, err);
    }
    return status;
}

const uint8_t *bootstrap_cookie(const struct bootstrap *bootstrap)
{
    return bootstrap->cookie;
}

/* ---- close ------------------------------------------------------------------------- */

void bootstrap_close(struct bootstrap *bootstrap, const struct err *why)
{
    if (!bootstrap)
        return;
    if (bootstrap->server) {
        bootstrap_client_leave(&bootstrap->client, why);
        server_join(bootstrap->server);
        close(bootstrap->client.fd);
    } else if (bootstrap->client.fd >= 0) {
        bootstrap_client_close(&bootstrap->client, why);
    }
    bootstrap_wipe(bootstrap, sizeof *bootstrap);
    mem_free(bootstrap);
}
