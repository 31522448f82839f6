/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank with one rail of a module (MODULE_NAME) and one endpoint, for tests: the link
 * is a socket pair of packets, so two ranks can share a thread or be two processes.
 */
#ifndef TRYST_TESTS_TRANSPORTS_MODULE_RANK_H
#define TRYST_TESTS_TRANSPORTS_MODULE_RANK_H

#include "core/config/config.h"
#include "core/log/log.h"
#include "core/os/clock.h"
#include "core/os/poller.h"
#include "transports/module_load.h"
#include "transports/rail_start.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct module_rank {
    struct config *config;
    struct log log;
    struct tryst_host host;
    struct poller poller;
    struct rail *rail;
    struct endpoint *ep;
    int link; /**< to the other rank; -1 for loopback */
    int ready, failed, closed, unexpected, frames; /**< number of events of each kind */
    tryst_status ready_status, failed_status;
    char text[TRANSPORT_TEXT_MAX];
    uint64_t unexpected_tag;
    size_t unexpected_bytes;
    void (*on_frame)(struct module_rank *rank, const void *data, size_t bytes);
    void *arg;
    char log_text[8192];
};

static void rank_log(void *arg, tryst_log_level level, const char *line)
{
    struct module_rank *rank = arg;
    (void)level;
    if (strlen(rank->log_text) + strlen(line) + 2 > sizeof rank->log_text)
        return; /* full: the first lines are the important ones */
    strcat(rank->log_text, line);
    strcat(rank->log_text, "\n");
}

static void rank_on_frame(struct endpoint *ep, const void *data, size_t bytes)
{
    struct module_rank *rank = ep->arg;
    rank->frames++;
    if (rank->on_frame)
        rank->on_frame(rank, data, bytes);
}

static void rank_on_ready(struct endpoint *ep, tryst_status status, const char *text)
{
    struct module_rank *rank = ep->arg;
    rank->ready++;
    rank->ready_status = status;
    snprintf(rank->text, sizeof rank->text, "%s", text);
}

static void rank_on_failed(struct endpoint *ep, tryst_status status, const char *text)
{
    struct module_rank *rank = ep->arg;
    rank->failed++;
    rank->failed_status = status;
    snprintf(rank->text, sizeof rank->text, "%s", text);
}

static void rank_on_unexpected(struct endpoint *ep, uint64_t tag, size_t bytes)
{
    struct module_rank *rank = ep->arg;
    rank->unexpected++;
    rank->unexpected_tag = tag;
    rank->unexpected_bytes = bytes;
}

static void rank_on_closed(struct endpoint *ep)
{
    struct module_rank *rank = ep->arg;
    rank->closed++;
    rank->ep = NULL;
}

static tryst_status rank_connect_send(struct endpoint *ep, const void *data, size_t bytes,
                                      int fd)
{
    struct module_rank *rank = ep->arg;
    (void)fd;
    return send(rank->link, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes ? TRYST_OK
                                                                         : TRYST_E_PEER;
}

static void rank_doorbell(struct endpoint *ep)
{
    (void)ep;
}

static const struct rail_events rank_events = {
    rank_on_frame,      rank_on_ready,  rank_on_failed,    rank_doorbell,
    rank_on_unexpected, rank_on_closed, rank_connect_send, rank_doorbell};

/** Return the module's ops, or NULL with the reason in `text`. */
static inline const struct transport_ops *rank_module(struct module_rank *rank,
                                                      char *text)
{
    const struct transport_ops *ops = NULL;
    return module_load(&rank->host, MODULE_NAME, &ops, text) == TRYST_OK ? ops : NULL;
}

static inline tryst_status rank_start(struct module_rank *rank)
{
    memset(rank, 0, sizeof *rank);
    rank->link = -1;
    rank->log = (struct log)LOG_INIT;
    rank->log.sink = rank_log;
    rank->log.arg = rank;
    if (config_open(&rank->log, NULL, &rank->config) != TRYST_OK ||
        poller_open(&rank->poller) != TRYST_OK)
        return TRYST_E_SYSTEM;
    module_host_init(&rank->host, rank->config, &rank->log);
    return TRYST_OK;
}

static inline tryst_status rank_rail_open_at(struct module_rank *rank,
                                             const char *interface_name,
                                             const struct sockaddr *address, bool own_shm)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = rank_module(rank, text);
    struct rail_params params = {.host = &rank->host,
                                 .events = &rank_events,
                                 .poller = &rank->poller,
                                 .interface_name = interface_name,
                                 .interface_address = address,
                                 .own_shm_allowed = own_shm};
    tryst_status status = ops ? rail_start(ops, &params, &rank->rail) : TRYST_E_MODULE;
    if (status == TRYST_OK)
        rank->rail->ops = ops;
    return status;
}

static inline tryst_status rank_rail_open(struct module_rank *rank,
                                          const char *interface_name, bool own_shm)
{
    return rank_rail_open_at(rank, interface_name, NULL, own_shm);
}

static inline tryst_status rank_ep_open(struct module_rank *rank, int me, int link,
                                        uint64_t cookie)
{
    struct ep_params params = {.arg = rank,
                               .peer_rank = 1 - me,
                               .local_rank = me,
                               .initiator = me == 0,
                               .loopback = link < 0,
                               .same_host = true,
                               .peer_pidfd = -1,
                               .cookie = cookie};
    rank->link = link;
    return rank->rail->ops->ep_open(rank->rail, &params, &rank->ep);
}

static inline tryst_status rank_no_random(void *secret_p, size_t bytes)
{
    (void)secret_p;
    (void)bytes;
    errno = ENOSYS;
    return TRYST_E_SYSTEM;
}

/** Refuse the rank's rail random bytes for the id of an endpoint. True if no endpoint is
 *  opened, and the reason is logged. */
static inline bool rank_needs_secret(struct module_rank *rank)
{
    rank->host.random_secret = rank_no_random;
    return rank_ep_open(rank, 0, -1, 5) == TRYST_E_SYSTEM && !rank->ep &&
           strstr(rank->log_text, "no random bytes for the secret") &&
           strstr(rank->log_text, strerror(ENOSYS));
}

/** Run one turn: the link, then the fabric. Return the number of the fabric's events. */
static inline int rank_progress(struct module_rank *rank)
{
    char message[4352];
    ssize_t bytes;
    while (rank->link >= 0 && rank->ep &&
           (bytes = recv(rank->link, message, sizeof message, MSG_DONTWAIT)) > 0)
        rank->rail->ops->ep_message(rank->ep, message, (size_t)bytes, -1);
    return rank->rail->ops->progress(rank->rail);
}

static inline void rank_stop(struct module_rank *rank)
{
    if (rank->rail)
        rank->rail->ops->rail_close(rank->rail);
    poller_close(&rank->poller);
    config_close(rank->config);
    rank->rail = NULL;
}

#endif
