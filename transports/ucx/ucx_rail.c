/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail: one UCP context and one UCP worker on one interface; the ops table and the
 * module's entry.
 *
 * Idea: UCX's callbacks only queue notes (a list of completed bulks, a list of endpoints
 * with events to report). Progress reports them after UCX has returned, so the layer
 * above may call any function from an event, ep_close included, without being inside UCX.
 * Invariant: events and `done` are called from ucx_rail_progress. A frame, and a `ready`
 * that a frame overtook, go up from inside UCX's callback, to save a copy.
 */
#include "ucx_rail.h"

#include <stdio.h>
#include <string.h>

#include "transports/signal_guard.h"
#include "ucx_bulk.h"
#include "ucx_config.h"
#include "ucx_ep.h"
#include "ucx_frame.h"
#include "ucx_landing.h"
#include "ucx_log.h"

/* Drain messages without a receive every this many calls: they break the contract, so
 * they may wait. While endpoints connect, drain at each call, since HELLO is such a
 * message. */
enum { DRAIN_PASSES = 64 };

/* Most descriptors that opening a rail and connecting an endpoint may take (README.md).
 * UCX aborts the process if it finds no descriptor in the middle of either. */
enum {
    RAIL_DESCRIPTORS = 32,
    PAIR_DESCRIPTORS = 6,
    SPARE_DESCRIPTORS = 10,
    PAIRS_MAX = 16
};

bool ucx_rail_has_room(const struct ucx_rail *rail)
{
    unsigned pairs = rail->opening < PAIRS_MAX ? rail->opening + 1 : PAIRS_MAX;
    return rail->fabric.host->descriptors_left(SPARE_DESCRIPTORS +
                                               pairs * PAIR_DESCRIPTORS);
}

/* Get the kinds of device memory that the rail moves: CUDA's if UCX supports it and the
 * rail is direct. On other rails the host copies bulk (ucx_landing.c), and it must not
 * touch device memory. */
static uint32_t memory_kinds(const struct ucx_rail *rail)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    bool cuda = rail->direct && ucp_context_query(rail->context, &attr) == UCS_OK &&
                (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    return cuda ? 1u << TRYST_MEMORY_CUDA : 0;
}

/* Open the worker; source.fd becomes its event descriptor. */
static ucs_status_t worker_open(struct ucx_rail *rail)
{
    const ucp_worker_params_t params = {
        .field_mask =
            UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT,
        /* one thread at a time, but not always the same one */
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .am_alignment = 8,
    };
    ucs_status_t status = ucp_worker_create(rail->context, &params, &rail->worker);
    if (status == UCS_OK)
        status =
            ucp_worker_get_address(rail->worker, &rail->address, &rail->address_bytes);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(rail->worker, &rail->fabric.source.fd);
    return status;
}

static void worker_close(struct ucx_rail *rail)
{
    if (!rail->worker)
        return;
    fabric_rail_unwatch(&rail->fabric);
    if (rail->address)
        ucp_worker_release_address(rail->worker, rail->address);
    rail->address = NULL;
    ucp_worker_destroy(rail->worker);
    rail->worker = NULL;
}

static void rail_free(struct ucx_rail *rail)
{
    FABRIC_LOG_SCOPE(rail->fabric.host);
    worker_close(rail);
    ucx_landings_close(rail);
    if (rail->context)
        ucp_cleanup(rail->context);
    ucx_log_close(rail);
    fabric_rail_free(&rail->fabric);
}

static const struct transport_ops ucx_ops;

static struct ucx_rail *rail_new(const struct rail_params *params)
{
    struct ucx_rail *rail =
        fabric_rail_new(params, &ucx_ops, sizeof *rail, UCX_SLOTS_MAX);
    if (!rail)
        return NULL;
    rail->fabric.base.tag_bits = UCX_TAG_BITS;
    rail->fabric.base.frame_max = UCX_FRAME_MAX;
    rail->fabric.base.bulk_max = FABRIC_BULK_MAX;
    rail->fabric.base.posted_max = UCX_POSTED_MAX;
    rail->fabric.connect = (struct fabric_connect){UCX_CONNECT_MAGIC, UCX_WIRE_VERSION,
                                                   FABRIC_CONNECT_ADDRESS};
    rail->fabric.connect_bytes = sizeof(struct ucx_connect);
    rail->direct = ucx_rdma_present(params);
    list_init(&rail->landings);
    list_init(&rail->orphans);
    ucx_log_open(rail);
    return rail;
}

static tryst_status rail_start(struct ucx_rail *rail, const struct rail_params *params)
{
    char text[TRANSPORT_TEXT_MAX] = "";
    struct signal_guard guard;
    ucs_status_t ucs_status = UCS_OK;
    tryst_status status;

    if (!rail->fabric.host->descriptors_left(RAIL_DESCRIPTORS)) {
        (void)snprintf(text, sizeof text,
                       "fewer than %d descriptors are left, and UCX aborts the process "
                       "without; raise the limit (ulimit -n)",
                       RAIL_DESCRIPTORS);
        fabric_rail_refuse(&rail->fabric, params, text);
        return TRYST_E_SYSTEM;
    }
    signal_guard_begin(&guard); /* UCX loads its own modules and starts a thread */
    status = ucx_context_open(params, rail->direct, &rail->context, text);
    if (status == TRYST_OK)
        ucs_status = worker_open(rail);
    (void)signal_guard_end(&guard);
    if (status == TRYST_OK && ucs_status == UCS_OK)
        status = ucx_frames_open(rail);
    if (status == TRYST_OK && ucs_status == UCS_OK)
        status = ucx_landings_open(rail);
    if (ucs_status != UCS_OK) {
        bool no_room =
            ucs_status == UCS_ERR_NO_MEMORY || ucs_status == UCS_ERR_NO_RESOURCE;
        (void)snprintf(text, sizeof text, "cannot open a worker: %s%s",
                       ucs_status_string(ucs_status),
                       no_room ? "; is /dev/shm full? UCX takes 4.3 MB of it here" : "");
        status = ucs_status == UCS_ERR_NO_MEMORY ? TRYST_E_NOMEM : TRYST_E_SYSTEM;
    }
    if (status != TRYST_OK)
        fabric_rail_refuse(&rail->fabric, params, text);
    return status;
}

static tryst_status ucx_rail_open(const struct rail_params *params, struct rail **rail_p)
{
    struct ucx_rail *rail = rail_new(params);
    if (!rail)
        return TRYST_E_NOMEM;
    FABRIC_LOG_SCOPE(rail->fabric.host);
    tryst_status status = rail_start(rail, params);
    if (status != TRYST_OK) {
        rail_free(rail);
        return status;
    }
    rail->fabric.base.memory_kinds = memory_kinds(rail);
    *rail_p = &rail->fabric.base;
    return TRYST_OK;
}

static void ucx_rail_close(struct rail *base)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    if (rail->drained || rail->fabric.unauthenticated)
        fabric_rail_log(&rail->fabric, TRYST_LOG_INFO,
                        "closed; %llu messages without a receive, %llu of these of "
                        "unknown senders, %llu with a wrong cookie or endpoint",
                        (unsigned long long)rail->drained,
                        (unsigned long long)rail->senderless,
                        (unsigned long long)rail->fabric.unauthenticated);
    rail_free(rail);
}

void ucx_rail_abandon(struct ucx_rail *rail)
{
    worker_close(rail);
    for (uint32_t i = 0; i < rail->fabric.table.count; i++)
        if (ep_table_at(&rail->fabric.table, i))
            ucx_ep_abandon(ep_table_at(&rail->fabric.table, i));
}

static int work_run(struct ucx_rail *rail)
{
    struct list todo;
    struct list_node *node;
    int count = 0;
    fabric_list_move(&todo, &rail->fabric.work);
    while ((node = list_pop_front(&todo)) != NULL) {
        ucx_ep_work(container_of(node, struct ucx_ep, fabric.work_node));
        count++;
    }
    return count;
}

static int ucx_rail_progress(struct rail *base)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    FABRIC_LOG_SCOPE(rail->fabric.host);
    /* UCX bounds the work of this call: some dozen packets per transport */
    int count = rail->worker ? (int)ucp_worker_progress(rail->worker) : 0;
    if (++rail->turns >= DRAIN_PASSES || (rail->opening && rail->worker)) {
        rail->turns = 0;
        count += ucx_bulk_drain(rail);
    }
    if (!list_empty(&rail->fabric.done))
        count += fabric_bulk_report(&rail->fabric);
    if (!list_empty(&rail->fabric.work))
        count += work_run(rail);
    return count;
}

static tryst_status ucx_rail_arm(struct rail *base)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    if (fabric_rail_is_due(&rail->fabric))
        return TRYST_AGAIN;
    if (!rail->worker)
        return TRYST_OK; /* no event can come any more */
    FABRIC_LOG_SCOPE(rail->fabric.host);
    if (ucx_bulk_drain_is_due(rail)) {
        rail->turns = DRAIN_PASSES; /* the next progress drains */
        return TRYST_AGAIN;
    }
    ucs_status_t status = ucp_worker_arm(rail->worker);
    if (status == UCS_OK)
        return TRYST_OK;
    return status == UCS_ERR_BUSY ? TRYST_AGAIN : TRYST_E_UNSUPPORTED;
}

static tryst_status ucx_mem_register(struct rail *base, struct tryst_mem *mem,
                                     void **handle_p)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = mem->data,
        .length = mem->bytes,
        .memory_type = mem->ops->on_device ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
    };
    FABRIC_LOG_SCOPE(rail->fabric.host);
    ucp_mem_h handle = NULL;
    ucs_status_t status = ucp_mem_map(rail->context, &params, &handle);
    if (status != UCS_OK)
        return status == UCS_ERR_NO_MEMORY ? TRYST_E_NOMEM : TRYST_E_SYSTEM;
    *handle_p = handle;
    return TRYST_OK;
}

static void ucx_mem_unregister(struct rail *base, void *handle)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    FABRIC_LOG_SCOPE(rail->fabric.host);
    (void)ucp_mem_unmap(rail->context, handle);
}

/* ---- the module ---- */

static tryst_status ucx_probe(const struct tryst_host *host, char *text)
{
    unsigned major, minor, release;
    (void)host;
    ucp_get_version(&major, &minor, &release);
    (void)snprintf(text, TRANSPORT_TEXT_MAX, "UCX %u.%u.%u, built for %u.%u", major,
                   minor, release, UCP_API_MAJOR, UCP_API_MINOR);
    return TRYST_OK;
}

static const struct transport_ops ucx_ops = {
    .name = "ucx",
    .struct_size = sizeof(struct transport_ops),
    .probe = ucx_probe,
    .rail_open = ucx_rail_open,
    .rail_attach = fabric_rail_attach,
    .rail_close = ucx_rail_close,
    .progress = ucx_rail_progress,
    .arm = ucx_rail_arm,
    .ep_open = ucx_ep_open,
    .ep_message = ucx_ep_message,
    .ep_close = ucx_ep_close,
    .frame_begin = ucx_frame_begin,
    .frame_commit = ucx_frame_commit,
    .bulk_recv = ucx_bulk_recv,
    .bulk_send = ucx_bulk_send,
    .bulk_cancel = ucx_bulk_cancel,
    .mem_register = ucx_mem_register,
    .mem_unregister = ucx_mem_unregister,
};

static struct tryst_module module = {
    .abi_id = TRYST_MODULE_ABI_ID, .name = "ucx", .ops = &ucx_ops};

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
    __attribute__((visibility("default")));

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
{
    module.version = ucp_get_version_string();
    if (strcmp(host->abi_id, module.abi_id) == 0)
        ucx_log_setup();
    return &module;
}
