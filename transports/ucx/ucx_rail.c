/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail: one UCP context and one UCP worker on one interface.
 *
 * Idea: UCX's callbacks only take notes (a list of completed bulks, a list of endpoints with
 * something to say); progress reports them after UCX has returned, so the layer above may do
 * anything from an event, close included, without being inside UCX.
 * Invariant: an event or a `done` is only ever called from ucx_rail_progress; frames alone are
 * handed up from inside UCX's callback, to spare their copy.
 * Callers: the layer above, through the ops table (ucx_module.c).
 */
#include "ucx_private.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "transports/signal_guard.h"

/* Look for messages that nobody waits for every this many calls: they break the contract, so it need
 * not be at once. While endpoints connect it is at each call, since HELLO is one. */
enum { DRAIN_TURNS = 64 };

/* What a rail and a connection may take at their worst (README.md): UCX aborts the process where it
 * finds none in the midst of either. */
enum {
    RAIL_DESCRIPTORS = 32,
    PAIR_DESCRIPTORS = 6,
    SPARE_DESCRIPTORS = 10,
    PAIRS_MAX = 16
};

bool ucx_rail_has_room(const struct ucx_rail *rail)
{
    unsigned pairs = rail->opening < PAIRS_MAX ? rail->opening + 1 : PAIRS_MAX;
    return rail->host->descriptors_left(SPARE_DESCRIPTORS + pairs * PAIR_DESCRIPTORS);
}

void ucx_rail_log(const struct ucx_rail *rail, tryst_log_level level, const char *fmt,
                  ...)
{
    char text[512];
    va_list args;
    int used =
        snprintf(text, sizeof text, "ucx rail %u on %s: ", rail->base.index, rail->name);
    va_start(args, fmt);
    (void)vsnprintf(text + used, sizeof text - (size_t)used, fmt, args);
    va_end(args);
    rail->host->log(rail->host, level, text);
}

/* The descriptor became readable: progress, which the context calls next, does the work. */
static void source_ready(struct poller_source *source, uint32_t events)
{
    (void)source;
    (void)events;
}

/* Device memory goes to UCX only where it says that it knows it, and only where it moves bulk by
 * itself: what it copies lands by our hand (ucx_landing.c), which must not touch a device's. */
static uint32_t memory_kinds(const struct ucx_rail *rail)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    bool cuda = rail->direct && ucp_context_query(rail->context, &attr) == UCS_OK &&
                (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA));
    return cuda ? 1u << TRYST_MEMORY_CUDA : 0;
}

static ucs_status_t worker_open(struct ucx_rail *rail)
{
    const ucp_worker_params_t params = {
        .field_mask =
            UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT,
        /* one thread at a time, but not always the same */
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .am_alignment = 8,
    };
    ucs_status_t status = ucp_worker_create(rail->context, &params, &rail->worker);
    if (status == UCS_OK)
        status =
            ucp_worker_get_address(rail->worker, &rail->address, &rail->address_bytes);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(rail->worker, &rail->source.fd);
    return status;
}

static void worker_close(struct ucx_rail *rail)
{
    if (!rail->worker)
        return;
    if (rail->source.fn)
        rail->host->poller_remove(rail->poller, &rail->source);
    rail->source.fn = NULL;
    if (rail->address)
        ucp_worker_release_address(rail->worker, rail->address);
    rail->address = NULL;
    ucp_worker_destroy(rail->worker);
    rail->worker = NULL;
}

static void rail_free(struct ucx_rail *rail)
{
    const tryst_host *previous = ucx_log_begin(rail->host);
    worker_close(rail);
    ucx_landings_close(rail);
    if (rail->context)
        ucp_cleanup(rail->context);
    ucx_log_end(previous);
    ucx_log_close(rail);
    ep_table_end(&rail->table, rail->host);
    rail->host->free(rail);
}

static struct ucx_rail *rail_new(const struct rail_params *params)
{
    struct ucx_rail *rail = params->host->alloc(sizeof *rail);
    if (!rail)
        return NULL;
    rail->base.ops = &ucx_ops;
    rail->base.events = params->events;
    rail->base.index = params->index;
    rail->base.tag_bits = UCX_TAG_BITS;
    rail->base.frame_max = UCX_FRAME_MAX;
    rail->base.bulk_max = (uint64_t)1
                          << 46; /* no limit of UCX's: half of the address space */
    rail->base.posted_max = UCX_POSTED_MAX;
    rail->host = params->host;
    rail->poller = params->poller;
    rail->source.fd = -1;
    ep_table_init(&rail->table, params->host, UCX_SLOTS_MAX);
    rail->direct = ucx_rdma_present(params->interface_name);
    list_init(&rail->landings);
    list_init(&rail->orphans);
    list_init(&rail->work);
    list_init(&rail->done);
    (void)snprintf(rail->name, sizeof rail->name, "%s",
                   params->interface_name ? params->interface_name : "any interface");
    ucx_log_open(rail);
    return rail;
}

static tryst_status rail_start(struct ucx_rail *rail, const struct rail_params *params)
{
    char text[TRANSPORT_TEXT_MAX] = "";
    struct signal_guard guard;
    ucs_status_t ucs_status = UCS_OK;
    tryst_status status;

    if (!rail->host->descriptors_left(RAIL_DESCRIPTORS)) {
        ucx_rail_log(rail, TRYST_LOG_WARN,
                     "not opened: UCX aborts the process when it runs out of "
                     "descriptors, and fewer than %d are left (raise the limit, "
                     "ulimit -n)",
                     RAIL_DESCRIPTORS);
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
        (void)snprintf(text, sizeof text, "worker: %s%s", ucs_status_string(ucs_status),
                       no_room ? "; is /dev/shm full? UCX takes 4.3 MB of it here" : "");
        status = ucs_status == UCS_ERR_NO_MEMORY ? TRYST_E_NOMEM : TRYST_E_SYSTEM;
    }
    if (status != TRYST_OK)
        ucx_rail_log(rail, TRYST_LOG_WARN, "cannot open: %s", text);
    return status;
}

tryst_status ucx_rail_open(const struct rail_params *params, struct rail **rail_p)
{
    const tryst_host *previous;
    struct ucx_rail *rail = rail_new(params);
    tryst_status status;
    if (!rail)
        return TRYST_E_NOMEM;
    previous = ucx_log_begin(rail->host);
    status = rail_start(rail, params);
    ucx_log_end(previous);
    if (status != TRYST_OK)
        goto fail;
    rail->base.memory_kinds = memory_kinds(rail);
    rail->source.events = EPOLLIN;
    rail->source.fn = source_ready;
    status = rail->host->poller_add(rail->poller, &rail->source);
    if (status != TRYST_OK) {
        rail->source.fn = NULL;
        goto fail;
    }
    *rail_p = &rail->base;
    return TRYST_OK;
fail:
    rail_free(rail);
    return status;
}

void ucx_rail_close(struct rail *base)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    if (rail->drained || rail->strangers)
        ucx_rail_log(rail, TRYST_LOG_INFO,
                     "closed; %llu messages without a receive, %llu with "
                     "a wrong cookie or endpoint",
                     (unsigned long long)rail->drained,
                     (unsigned long long)rail->strangers);
    rail_free(rail);
}

void ucx_rail_abandon(struct ucx_rail *rail)
{
    worker_close(rail);
    for (uint32_t i = 0; i < rail->table.count; i++)
        if (ep_table_at(&rail->table, i))
            ucx_ep_abandon(ep_table_at(&rail->table, i));
}

static int work_run(struct ucx_rail *rail)
{
    struct list todo;
    struct list_node *node;
    int count = 0;
    list_init(&todo);
    list_append(&todo, &rail->work); /* what is added meanwhile waits for the next call */
    while ((node = list_pop_front(&todo)) != NULL) {
        ucx_ep_work(container_of(node, struct ucx_ep, work_node));
        count++;
    }
    return count;
}

int ucx_rail_progress(struct rail *base)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    const tryst_host *previous = ucx_log_begin(rail->host);
    /* UCX bounds it: some dozen packets per transport */
    int count = rail->worker ? (int)ucp_worker_progress(rail->worker) : 0;
    if (++rail->turns >= DRAIN_TURNS || (rail->opening && rail->worker)) {
        rail->turns = 0;
        count += ucx_bulk_drain(rail);
    }
    if (!list_empty(&rail->done))
        count += ucx_bulk_report(rail);
    if (!list_empty(&rail->work))
        count += work_run(rail);
    ucx_log_end(previous);
    return count;
}

tryst_status ucx_rail_arm(struct rail *base)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    const tryst_host *previous;
    ucs_status_t status;
    if (!list_empty(&rail->work) || !list_empty(&rail->done))
        return TRYST_AGAIN;
    if (!rail->worker)
        return TRYST_OK; /* nothing will ever come */
    previous = ucx_log_begin(rail->host);
    status = ucx_bulk_drain(rail) ? UCS_ERR_BUSY : ucp_worker_arm(rail->worker);
    ucx_log_end(previous);
    if (status == UCS_OK)
        return TRYST_OK;
    return status == UCS_ERR_BUSY ? TRYST_AGAIN : TRYST_E_UNSUPPORTED;
}

tryst_status ucx_mem_register(struct rail *base, struct tryst_mem *mem, void **handle_p)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = mem->data,
        .length = mem->bytes,
        .memory_type = mem->ops->on_device ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
    };
    const tryst_host *previous = ucx_log_begin(rail->host);
    ucp_mem_h handle = NULL;
    ucs_status_t status = ucp_mem_map(rail->context, &params, &handle);
    ucx_log_end(previous);
    if (status != UCS_OK)
        return status == UCS_ERR_NO_MEMORY ? TRYST_E_NOMEM : TRYST_E_SYSTEM;
    *handle_p = handle;
    return TRYST_OK;
}

void ucx_mem_unregister(struct rail *base, void *handle)
{
    struct ucx_rail *rail = (struct ucx_rail *)base;
    const tryst_host *previous = ucx_log_begin(rail->host);
    (void)ucp_mem_unmap(rail->context, handle);
    ucx_log_end(previous);
}
