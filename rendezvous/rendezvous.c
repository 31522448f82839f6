/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: opened and closed; its rails and its listener. A pass is in
 * progress/pass.c.
 */
#include "rendezvous/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commsched/sched/sched.h"
#include "core/memory/alloc.h"
#include "core/os/descriptors.h"
#include "core/os/fork.h"
#include "core/os/random.h"
#include "membership.h"
#include "rendezvous/op/deadline.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/accept.h"
#include "rendezvous/peer/endpoint.h"
#include "rendezvous/peer/liveness.h"
#include "rendezvous/peer/messages.h"
#include "rendezvous/peer/tree.h"
#include "rendezvous/progress/live_gather.h"
#include "rendezvous/progress/overdue.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/protocol/closed.h"
#include "rendezvous/protocol/consumer.h"
#include "rendezvous/protocol/eager.h"
#include "rendezvous/protocol/frames.h"
#include "rendezvous/protocol/op_device.h"
#include "rendezvous/protocol/protocol.h"
#include "rendezvous/protocol/recv_run.h"
#include "rendezvous/protocol/send_run.h"
#include "rendezvous/protocol/want.h"
#include "rendezvous/protocol/wire/wire.h"
#include "step.h"
#include "stream_wait.h"

/* The most accepted connections that wait for their HELLO. */
enum { LINKS_PENDING_MAX = 64 };

/* Functions of the protocol and of steps that peer/ calls. */
static const struct peer_events peer_events = {.peer_bytes = sizeof(struct channel),
                                               .open = channel_open,
                                               .connect = channel_connect,
                                               .frame = protocol_peer_frame,
                                               .tick = protocol_peer_tick,
                                               .gone = protocol_peer_gone,
                                               .close = protocol_peer_close,
                                               .aborted = step_aborted};

/* ---- open and close ---------------------------------------------------------------- */

uint64_t rendezvous_eager_max(const struct config *config)
{
    uint64_t bytes = config_bytes(config, CONFIG_EAGER_MAX);
    return bytes < EAGER_BYTES_LIMIT ? bytes : EAGER_BYTES_LIMIT;
}

static void settings_read(struct rendezvous *rdv)
{
    const struct config *config = rdv->config;
    struct rendezvous_settings *set = &rdv->set;
    set->eager_max_bytes = rendezvous_eager_max(config);
    set->eager_credit_bytes = config_bytes(config, CONFIG_EAGER_CREDIT);
    set->slice_bytes = config_bytes(config, CONFIG_SLICE_BYTES);
    set->peer_timeout_ns = config_time_ns(config, CONFIG_PEER_TIMEOUT);
    set->connect_timeout_ns = config_time_ns(config, CONFIG_CONNECT_TIMEOUT);
    set->stall_warn_ns = config_time_ns(config, CONFIG_STALL_WARN);
    set->urgency_mask = config_enum(config, CONFIG_SCHED) == 0 ? ~0ull : 0;
    set->posted_slices = (uint32_t)config_int(config, CONFIG_POSTED_SLICES);
    set->wants_max = (uint32_t)config_int(config, CONFIG_WANTS_MAX);
    set->parked_max = (uint32_t)config_int(config, CONFIG_PARKED_MAX);
    set->early_max = (uint32_t)config_int(config, CONFIG_EARLY_MAX);
    set->frame_credits = (uint32_t)config_int(config, CONFIG_FRAME_CREDITS);
}

static tryst_status pools_open(struct rendezvous *rdv)
{
    tryst_status status = pool_open(sizeof(tryst_op), 64, &rdv->ops);
    if (status == TRYST_OK)
        status = pool_open(sizeof(struct want), _Alignof(struct want), &rdv->wants);
    if (status == TRYST_OK)
        status = pool_open(send_slice_bytes, 16, &rdv->slices);
    if (status == TRYST_OK)
        status = pool_open(sizeof(struct recv_slice), _Alignof(struct recv_slice),
                           &rdv->recv_slices);
    if (status == TRYST_OK)
        status = pool_open(sizeof(struct recv_run), _Alignof(struct recv_run),
                           &rdv->recv_runs);
    if (status == TRYST_OK)
        status = pool_open(sizeof(struct op_device), _Alignof(struct op_device),
                           &rdv->devices);
    if (status == TRYST_OK)
        status = pool_open(sizeof(tryst_step), _Alignof(tryst_step), &rdv->steps);
    for (unsigned i = 0; i < UNEXPECTED_CLASSES && status == TRYST_OK; i++)
        status = pool_open(unexpected_class_bytes(i), _Alignof(struct unexpected),
                           &rdv->unexpected[i]);
    return status;
}

tryst_status rendezvous_open(const struct rendezvous_params *params, struct err *err,
                             struct rendezvous **rdv_p)
{
    struct rendezvous *rdv = mem_zalloc(sizeof *rdv);
    uint64_t start;
    if (!rdv)
        return err_set(err, TRYST_E_NOMEM, "cannot open the context: out of memory");
    rdv->ctx = params->ctx;
    rdv->rail_open = params->rail_open;
    rdv->device_start = params->device_start;
    rdv->config = params->config;
    rdv->log = params->log;
    rdv->clock = params->clock;
    rdv->poller = params->poller;
    rdv->trace = params->trace;
    rdv->recorder = params->recorder;
    rdv->sched = params->sched;
    rdv->coll_calls = params->coll_calls;
    rdv->op_events = &protocol_op_events;
    rdv->peer_events = &peer_events;
    rdv->host = params->host;
    rdv->memory = params->memory;
    rdv->fork_generation = fork_generation();
    rdv->ids.mask = (1ull << 48) - 1;
    mpsc_init(&rdv->submissions);
    tryst_status status = scopes_init(&rdv->scopes);
    list_init(&rdv->completed);
    list_init(&rdv->flush);
    list_init(&rdv->idle_peers);
    list_init(&rdv->unannounced_peers);
    list_init(&rdv->hello_links);
    list_init(&rdv->device_loads);
    hash_table_init(&rdv->ids.table);
    settings_read(rdv);
    gates_open(&rdv->gates);
    bounce_init(&rdv->bounce, &protocol_bounce_events, rdv, rdv->host, rdv->memory,
                config_bytes(rdv->config, CONFIG_STAGE_BYTES));
    rdv->bounce.slots.closed = &rdv->gates.closed;
    if (status != TRYST_OK || pools_open(rdv) != TRYST_OK) {
        rendezvous_close(rdv);
        return err_set(err, TRYST_E_NOMEM,
                       "cannot open the context's pools: out of memory");
    }
    if (random_secret(&start, sizeof start) != TRYST_OK) {
        err_set(err, TRYST_E_SYSTEM, "cannot get random bytes: %s", err_reason(errno));
        rendezvous_close(rdv);
        return TRYST_E_SYSTEM;
    }
    rdv->ids.next = 1 + (start & (rdv->ids.mask >> 1));
    rdv->ids.clear_end = rdv->ids.mask + 1;
    *rdv_p = rdv;
    return TRYST_OK;
}

void rendezvous_host_fill(struct rendezvous *rdv, struct tryst_host *host)
{
    host->closed = &rdv->gates.closed;
    host->copies = &rdv->bounce.copies;
}

void rendezvous_close(struct rendezvous *rdv)
{
    size_t held = rdv->ops ? pool_in_use(rdv->ops) : 0;
    hash_table_close(&rdv->ids.table);
    scopes_close(&rdv->scopes);
    bounce_end(&rdv->bounce);
    gates_close(&rdv->gates, rdv->log);
    mem_free(rdv->deadlines.items);
    rdv->deadlines.items = NULL;
    pool_close(rdv->wants);
    pool_close(rdv->slices);
    rdv->wants = rdv->slices = NULL;
    if (!held) {
        engine_free(rdv);
        return;
    }
    /* Handles stay readable: the release of the last one frees the rest. */
    LOG_INFO(rdv->log, "%zu operation%s not released before tryst_close", held,
             held == 1 ? " was" : "s were");
    rdv->log = NULL;
    rdv->coll_calls.used = NULL;
    /* relaxed: no call of this context is under way. */
    atomic_store_explicit(&rdv->orphans, held, memory_order_relaxed);
}

/* ---- rails and listener ------------------------------------------------------------ */

const struct rail_events *const rendezvous_rail_events = &peer_rail_events;
tryst_status (*const rendezvous_slice_start)(struct transfer *) = transfer_start;
const uint32_t rendezvous_wire_version = WIRE_VERSION;

void rendezvous_rail_add(struct rendezvous *rdv, int kind, uint32_t nic,
                         struct rail *rail)
{
    uint32_t at = rdv->rails_count++;
    assert(at < RAILS_MAX);
    rdv->rails[at].rail = rail;
    rdv->rails[at].kind = (uint32_t)kind;
    rdv->rails[at].nic = nic;
    if (rdv->live)
        live_transport(rdv->live, kind);
    uint64_t mask = rail->tag_bits >= 64 ? UINT64_MAX : (1ull << rail->tag_bits) - 1;
    rdv->ids.mask &= mask;
    if (rdv->ids.clear_end > rdv->ids.mask + 1)
        rdv->ids.clear_end = rdv->ids.mask + 1;
}

void rendezvous_rail_opened(struct rendezvous *rdv, int kind, uint32_t nic,
                            tryst_status status, const char *text)
{
    if (!rdv->group)
        return;
    list_for_each_safe (&rdv->group->met, node, after)
        peer_ep_rail_opened(container_of(node, struct peer, node), kind, nic, status,
                            text);
}

void rendezvous_device_started(struct rendezvous *rdv, tryst_memory_kind kind,
                               tryst_status status, const char *text)
{
    op_devices_started(rdv, kind, status, text);
    if (rdv->coll_calls.device_started)
        rdv->coll_calls.device_started(rdv->coll_calls.arg, status);
}

void rendezvous_rails_forget(struct rendezvous *rdv)
{
    rdv->rails_count = 0;
    rdv->bounce_listed = false;
}

static void link_accepted(void *arg, struct link *link)
{
    peer_link_accept(arg, link);
}

tryst_status rendezvous_listen(struct rendezvous *rdv, const struct link_tcp *tcp,
                               struct link_address *address_p)
{
    rdv->scopes_here = reach_scopes_of(tcp);
    return link_listen(rdv->poller, rdv->log, tcp, LINKS_PENDING_MAX, link_accepted, rdv,
                       &rdv->listener, address_p);
}

void rendezvous_listen_stop(struct rendezvous *rdv)
{
    link_listener_close(rdv->listener);
    rdv->listener = NULL;
}
