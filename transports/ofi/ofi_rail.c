/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail: one domain of libfabric on one interface, with one completion queue for
 * everything; the ops table and the module's entry.
 *
 * Idea: libfabric makes no callbacks. Progress reads the queue, and the context of each
 * entry identifies its operation. So events and `done` are called from ofi_rail_progress
 * only.
 * Invariant: `live` counts the operations that the fabric holds, and is at most
 * OFI_CQ_SIZE, so the queue cannot overflow.
 */
#include "ofi_rail.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ofi_bulk.h"
#include "ofi_choose.h"
#include "ofi_ep.h"
#include "ofi_fabric.h"
#include "ofi_frame.h"
#include "ofi_memory.h"
#include "transports/signal_guard.h"

#define SETTLE_NS 50000000ull
enum { ENTRIES = 32, READS_MAX = 2 };

/* ---- opening ---- */

static int queue_open(struct ofi_rail *rail)
{
    struct fi_cq_attr attr = {
        .size = OFI_CQ_SIZE, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    int rc = fi_cq_open(rail->domain, &attr, &rail->cq, NULL);
    if (rc == 0)
        return fi_control(&rail->cq->fid, FI_GETWAIT, &rail->fabric.source.fd);
    /* shm has no descriptor to wait on (FI_ENOSYS), others return FI_EINVAL */
    attr.wait_obj = FI_WAIT_NONE;
    rail->fabric.source.fd = -1;
    return fi_cq_open(rail->domain, &attr, &rail->cq, NULL);
}

static int domain_open(struct ofi_rail *rail, const char **step_p)
{
    struct fi_av_attr attr = {.type = rail->info->domain_attr->av_type};
    int rc;
    if (attr.type == FI_AV_UNSPEC)
        attr.type = FI_AV_TABLE;
    *step_p = "fi_fabric";
    rc = fi_fabric(rail->info->fabric_attr, &rail->fid_fabric, NULL);
    if (rc == 0) {
        *step_p = "fi_domain";
        rc = fi_domain(rail->fid_fabric, rail->info, &rail->domain, NULL);
    }
    if (rc == 0) {
        *step_p = "fi_av_open";
        rc = fi_av_open(rail->domain, &attr, &rail->av, NULL);
    }
    if (rc == 0) {
        *step_p = "fi_cq_open";
        rc = queue_open(rail);
    }
    return rc;
}

/* Check that the provider moves CUDA memory without CUDA's API, calls of which may wait
 * for the device, where a stream may be waiting for this library. 0 or -FI_E…: the
 * provider does not have the option (1.17), has no CUDA support (-FI_EINVAL), or copies
 * by CUDA's API (-FI_EOPNOTSUPP). */
static int device_option_set(struct fid_ep *ep)
{
    enum { CUDA_API_PERMITTED = FI_OPT_XPU_TRIGGER + 1 }; /* in the headers since 1.18 */
    bool permitted = false;
    return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, CUDA_API_PERMITTED, &permitted,
                     sizeof permitted);
}

static int endpoint_try(struct ofi_rail *rail, struct fid_ep **ep_p)
{
    struct fid_ep *ep = NULL;
    int rc = fi_endpoint(rail->domain, rail->info, &ep, NULL);
    if (rc != 0)
        return rc;
    /* the address vector first: net cannot close an endpoint without one */
    rc = fi_ep_bind(ep, &rail->av->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(ep, &rail->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0 && ofi_info_claims_device(rail->info))
        rc = device_option_set(ep);
    if (rc == 0)
        rc = fi_enable(ep);
    if (rc != 0)
        (void)fi_close(&ep->fid);
    else
        *ep_p = ep;
    return rc;
}

/* Get the place of the port in the IP address at which an endpoint will listen. NULL: no
 * IP address. */
static in_port_t *port_of(const struct fi_info *info)
{
    if (info->src_addr && info->addr_format == FI_SOCKADDR_IN)
        return &((struct sockaddr_in *)info->src_addr)->sin_port;
    if (info->src_addr && info->addr_format == FI_SOCKADDR_IN6)
        return &((struct sockaddr_in6 *)info->src_addr)->sin6_port;
    return NULL;
}

/* Open an endpoint. If TRYST_PORT_RANGE is set, try its ports from a random one on, so
 * that ranks of one host rarely collide. */
int ofi_endpoint_open(struct ofi_rail *rail, struct fid_ep **ep_p)
{
    in_port_t *port = rail->ports_count ? port_of(rail->info) : NULL;
    uint32_t first;
    int rc = -FI_EADDRINUSE;
    if (!port)
        return endpoint_try(rail, ep_p);
    if (rail->fabric.host->random_secret(&first, sizeof first) != TRYST_OK)
        return -errno;
    for (uint32_t i = 0; rc == -FI_EADDRINUSE && i < rail->ports_count; i++) {
        *port = htons((uint16_t)(rail->port_first +
                                 (first % rail->ports_count + i) % rail->ports_count));
        rc = endpoint_try(rail, ep_p);
    }
    *port = 0;
    return rc;
}

/* Read TRYST_PORT_RANGE, which the library has checked: "first-last", or one port. */
static void ports_read(struct ofi_rail *rail)
{
    const char *text = rail->fabric.host->config(rail->fabric.host, "port_range");
    char *rest = NULL;
    unsigned long first = text ? strtoul(text, &rest, 10) : 0, last = first;
    if (first && *rest == '-')
        last = strtoul(rest + 1, NULL, 10);
    rail->port_first = (uint32_t)first;
    rail->ports_count = first && last >= first ? (uint32_t)(last - first + 1) : 0;
}

static void unposted_post(struct ofi_rail *rail)
{
    struct list todo;
    struct list_node *node;
    fabric_list_move(&todo, &rail->unposted);
    while ((node = list_pop_front(&todo)) != NULL)
        ofi_message_post(rail, container_of(node, struct ofi_packet, node));
}

static tryst_status receives_post(struct ofi_rail *rail)
{
    for (int i = 0; i < OFI_RX_COUNT; i++) {
        struct ofi_packet *packet = ofi_packet_get(rail);
        if (!packet)
            return TRYST_E_NOMEM;
        ofi_message_post(rail, packet);
    }
    return rail->live > 0 ? TRYST_OK : TRYST_E_SYSTEM;
}

static void limits_set(struct ofi_rail *rail)
{
    uint64_t format = rail->info->ep_attr->mem_tag_format;
    unsigned bits = format ? 64 - (unsigned)__builtin_clzll(format) : 64;
    rail->slot_mask = ((uint64_t)1 << (bits - OFI_TAG_BITS)) - 1;
    rail->fabric.base.tag_bits = OFI_TAG_BITS;
    rail->fabric.base.frame_max = OFI_FRAME_MAX;
    rail->fabric.base.bulk_max = rail->info->ep_attr->max_msg_size < FABRIC_BULK_MAX
                                     ? rail->info->ep_attr->max_msg_size
                                     : FABRIC_BULK_MAX;
    rail->fabric.base.posted_max = OFI_POSTED_MAX;
    rail->fabric.base.slice_bytes = ofi_info_slice_bytes(rail->info);
    rail->fabric.base.window_bytes = ofi_info_window_bytes(rail->info);
    rail->parks = ofi_info_parks(rail->info);
    rail->mr_local = rail->info->domain_attr->mr_mode & FI_MR_LOCAL;
    rail->mr_device = ofi_info_registers_device(rail->info);
    /* the fabric is open with this info, so device_option_set has succeeded */
    if (ofi_info_claims_device(rail->info))
        rail->fabric.base.memory_kinds = 1u << TRYST_MEMORY_CUDA;
}

static const struct transport_ops ofi_ops;

static struct ofi_rail *rail_new(const struct rail_params *params)
{
    struct ofi_rail *rail =
        fabric_rail_new(params, &ofi_ops, sizeof *rail, OFI_SLOTS_MAX);
    if (!rail)
        return NULL;
    rail->fabric.connect = (struct fabric_connect){OFI_CONNECT_MAGIC, OFI_WIRE_VERSION,
                                                   FABRIC_CONNECT_ADDRESS};
    rail->fabric.connect_bytes = sizeof(struct ofi_connect);
    ports_read(rail);
    list_init(&rail->packets);
    list_init(&rail->unposted);
    list_init(&rail->ops);
    list_init(&rail->stalled);
    return rail;
}

static void fid_close(struct ofi_rail *rail, struct fid *fid, const char *what)
{
    int rc = fid ? fi_close(fid) : 0;
    if (rc != 0)
        fabric_rail_log(&rail->fabric, TRYST_LOG_INFO,
                        "libfabric cannot close its %s: %s", what, fi_strerror(-rc));
}

/* Close the domain, the queue, the address vector and the fabric. All endpoints and
 * registrations must be closed. */
static void domain_close(struct ofi_rail *rail)
{
    fid_close(rail, rail->cq ? &rail->cq->fid : NULL, "completion queue");
    fid_close(rail, rail->av ? &rail->av->fid : NULL, "address vector");
    fid_close(rail, rail->domain ? &rail->domain->fid : NULL, "domain");
    fid_close(rail, rail->fid_fabric ? &rail->fid_fabric->fid : NULL, "fabric");
    rail->cq = NULL;
    rail->av = NULL;
    rail->domain = NULL;
    rail->fid_fabric = NULL;
}

static int fabric_open(struct ofi_rail *rail, const char **step_p)
{
    int rc = domain_open(rail, step_p);
    if (rc != 0)
        return rc;
    *step_p = "fi_endpoint";
    rc = ofi_endpoint_open(rail, &rail->messages);
    if (rc != 0)
        return rc;
    rail->address_bytes = sizeof rail->address;
    rc = fi_getname(&rail->messages->fid, rail->address, &rail->address_bytes);
    if (rc != 0) {
        (void)fi_close(&rail->messages->fid);
        rail->messages = NULL;
    }
    return rc;
}

/* Open the fabric for device memory, by `claims`. False: it does not open or does not
 * move such memory; then nothing is open, and rail->info is as before. */
static bool device_fabric_open(struct ofi_rail *rail, struct fi_info *claims)
{
    struct fi_info *plain = rail->info;
    const char *step = "";
    int rc;
    rail->info = claims;
    rc = fabric_open(rail, &step);
    if (rc == 0) {
        fi_freeinfo(plain);
        return true;
    }
    fabric_rail_log(&rail->fabric, TRYST_LOG_DEBUG,
                    "%s cannot move cuda memory by itself (%s: %s)",
                    claims->fabric_attr->prov_name, step, fi_strerror(-rc));
    domain_close(rail);
    rail->fabric.source.fd = -1;
    rail->info = plain;
    fi_freeinfo(claims);
    return false;
}

static tryst_status fabric_start(struct ofi_rail *rail, const struct rail_params *params)
{
    char text[TRANSPORT_TEXT_MAX] = "";
    const char *step = "";
    struct fi_info *claims = NULL;
    tryst_status status = ofi_info_choose(params, &rail->info, &claims, text);
    int rc = 0;
    if (status == TRYST_OK && !(claims && device_fabric_open(rail, claims))) {
        rc = fabric_open(rail, &step);
        if (rc != 0) {
            (void)snprintf(text, sizeof text, "%s (%s): %s", step,
                           rail->info->fabric_attr->prov_name, fi_strerror(-rc));
            status = rc == -FI_ENOMEM ? TRYST_E_NOMEM : TRYST_E_SYSTEM;
        }
    }
    if (status != TRYST_OK)
        fabric_rail_refuse(&rail->fabric, params, text);
    return status;
}

/* Give half-made connections time to be completed before their listener is closed. If a
 * connection has been accepted and has sent nothing when its listener is closed,
 * libfabric never closes it. rxm checks its connections every 10 ms. */
static void settle(struct ofi_rail *rail)
{
    const struct timespec nap = {.tv_nsec = 200000};
    uint64_t until = rail->fabric.host->now_ns(rail->fabric.host) + SETTLE_NS;
    struct fi_cq_tagged_entry entries[ENTRIES];
    struct fi_cq_err_entry error = {0};
    while (rail->fabric.host->now_ns(rail->fabric.host) < until) {
        ssize_t got = fi_cq_read(rail->cq, entries, ENTRIES);
        if (got == -FI_EAVAIL)
            (void)fi_cq_readerr(rail->cq, &error, 0);
        else if (got <= 0)
            (void)nanosleep(&nap, NULL);
    }
}

static void parked_close(struct ofi_rail *rail)
{
    while (rail->parked) {
        struct ofi_parked *parked = rail->parked;
        rail->parked = parked->next;
        (void)fi_close(&parked->ep->fid);
        rail->fabric.host->free(parked);
    }
}

static void rail_free(struct ofi_rail *rail)
{
    FABRIC_LOG_SCOPE(rail->fabric.host);
    fabric_rail_unwatch(&rail->fabric);
    if (rail->unsettled)
        settle(rail);
    parked_close(rail);
    fid_close(rail, rail->messages ? &rail->messages->fid : NULL, "endpoint");
    ofi_memory_free(rail);
    domain_close(rail);
    fi_freeinfo(rail->info);
    fabric_rail_free(&rail->fabric);
}

static tryst_status ofi_rail_open(const struct rail_params *params, struct rail **rail_p)
{
    struct ofi_rail *rail = rail_new(params);
    struct signal_guard guard;
    if (!rail)
        return TRYST_E_NOMEM;
    FABRIC_LOG_SCOPE(rail->fabric.host);
    signal_guard_begin(&guard); /* providers load libraries, and some start threads */
    tryst_status status = fabric_start(rail, params);
    (void)signal_guard_end(&guard);
    if (status == TRYST_OK) {
        limits_set(rail);
        status = receives_post(rail);
    }
    if (status != TRYST_OK) {
        rail_free(rail);
        return status;
    }
    *rail_p = &rail->fabric.base;
    return TRYST_OK;
}

static void ofi_rail_close(struct rail *base)
{
    struct ofi_rail *rail = (struct ofi_rail *)base;
    if (rail->fabric.unauthenticated)
        fabric_rail_log(&rail->fabric, TRYST_LOG_INFO,
                        "closed; %llu messages with a wrong cookie or endpoint",
                        (unsigned long long)rail->fabric.unauthenticated);
    rail_free(rail);
}

/* ---- progress ---- */

static void completed(struct ofi_rail *rail, struct ofi_work *work, int error,
                      size_t bytes)
{
    struct ofi_packet *packet = container_of(work, struct ofi_packet, work);
    rail->live--;
    switch (work->what) {
    case OFI_WHAT_RX:
        if (!error)
            ofi_message_received(rail, packet, bytes);
        ofi_message_post(rail, packet);
        break;
    case OFI_WHAT_TX: ofi_message_sent(rail, packet, error); break;
    case OFI_WHAT_RECV:
    case OFI_WHAT_SEND:
        ofi_bulk_completed(container_of(work, struct ofi_op, work), error, bytes);
        break;
    }
}

/* Handle one entry of the error queue. False: there is none. An entry without an
 * operation names no pair; the pair's operations show the effects. */
static bool cq_error_handle(struct ofi_rail *rail)
{
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(rail->cq, &entry, 0) <= 0)
        return false;
    if (entry.op_context)
        completed(rail, entry.op_context, entry.err ? entry.err : FI_EIO, entry.len);
    else
        fabric_rail_log(&rail->fabric, TRYST_LOG_INFO, "libfabric reports: %s",
                        fi_strerror(entry.err));
    return true;
}

/* Read up to ENTRIES entries, and add their number to *count_p. TRYST_AGAIN: the queue
 * was empty. */
static tryst_status queue_read(struct ofi_rail *rail, int *count_p)
{
    struct fi_cq_tagged_entry entries[ENTRIES];
    ssize_t got = fi_cq_read(rail->cq, entries, ENTRIES);
    if (got == -FI_EAVAIL && cq_error_handle(rail)) {
        *count_p += 1;
        return TRYST_OK;
    }
    for (ssize_t i = 0; i < got; i++)
        if (entries[i].op_context)
            completed(rail, entries[i].op_context, 0, entries[i].len);
    if (got <= 0)
        return TRYST_AGAIN;
    *count_p += (int)got;
    return TRYST_OK;
}

/* Read the queue once, or twice if the first read was full. A read that finds fewer
 * entries makes the fabric progress before it returns, which over TCP may take as long as
 * sending a megabyte. The entries of the first read must not wait for that, since the
 * window that they return would then be used late. */
static void fabric_read(struct ofi_rail *rail, int *count_p)
{
    for (int i = 0, before = 0; i < READS_MAX; i++, before = *count_p)
        if (queue_read(rail, count_p) != TRYST_OK || *count_p - before < ENTRIES)
            return;
}

int ofi_cq_drain(struct ofi_rail *rail)
{
    int count = 0;
    /* the queue holds at most OFI_CQ_SIZE entries; later ones belong to other pairs */
    for (int i = 0; i <= OFI_CQ_SIZE && queue_read(rail, &count) == TRYST_OK; i++)
        if (count > OFI_CQ_SIZE)
            break;
    return count;
}

static int work_run(struct ofi_rail *rail)
{
    struct list todo;
    struct list_node *node;
    int count = 0;
    fabric_list_move(&todo, &rail->fabric.work);
    list_append(&todo, &rail->stalled);
    while ((node = list_pop_front(&todo)) != NULL)
        count += ofi_ep_work(container_of(node, struct ofi_ep, fabric.work_node));
    return count;
}

static int ofi_rail_progress(struct rail *base)
{
    struct ofi_rail *rail = (struct ofi_rail *)base;
    FABRIC_LOG_SCOPE(rail->fabric.host);
    int count = 0;
    fabric_read(rail, &count);
    if (!list_empty(&rail->unposted))
        unposted_post(rail);
    if (!list_empty(&rail->fabric.done))
        count += fabric_bulk_report(&rail->fabric);
    if (rail->watch_at_ns)
        ofi_bulk_watch(rail);
    if (!list_empty(&rail->fabric.work) || !list_empty(&rail->stalled))
        count += work_run(rail);
    return count;
}

static tryst_status ofi_rail_arm(struct rail *base)
{
    struct ofi_rail *rail = (struct ofi_rail *)base;
    struct fid *fids[1] = {&rail->cq->fid};
    if (fabric_rail_is_due(&rail->fabric))
        return TRYST_AGAIN;
    if (rail->fabric.source.fd < 0)
        return TRYST_E_UNSUPPORTED;
    FABRIC_LOG_SCOPE(rail->fabric.host);
    int rc = fi_trywait(rail->fid_fabric, fids, 1);
    if (rc == -FI_EAGAIN)
        return TRYST_AGAIN;
    /* no event reports room in the fabric: try again soon */
    if (rc != 0 || !list_empty(&rail->stalled) || !list_empty(&rail->unposted))
        return TRYST_E_UNSUPPORTED;
    return TRYST_OK;
}

/* ---- the module ---- */

static tryst_status ofi_probe(const struct tryst_host *host, char *text)
{
    FABRIC_LOG_SCOPE(host);
    return ofi_info_describe(text);
}

static const struct transport_ops ofi_ops = {
    .name = "ofi",
    .struct_size = sizeof(struct transport_ops),
    .probe = ofi_probe,
    .rail_open = ofi_rail_open,
    .rail_attach = fabric_rail_attach,
    .rail_close = ofi_rail_close,
    .progress = ofi_rail_progress,
    .arm = ofi_rail_arm,
    .ep_open = ofi_ep_open,
    .ep_message = ofi_ep_message,
    .ep_close = ofi_ep_close,
    .frame_begin = ofi_frame_begin,
    .frame_commit = ofi_frame_commit,
    .bulk_recv = ofi_bulk_recv,
    .bulk_send = ofi_bulk_send,
    .bulk_cancel = ofi_bulk_cancel,
    .mem_register = ofi_mem_register,
    .mem_unregister = ofi_mem_unregister,
};

static char version[16];

static struct tryst_module module = {
    .abi_id = TRYST_MODULE_ABI_ID, .name = "ofi", .version = version, .ops = &ofi_ops};

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
    __attribute__((visibility("default")));

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
{
    uint32_t found = fi_version();
    (void)snprintf(version, sizeof version, "%u.%u", FI_MAJOR(found), FI_MINOR(found));
    if (strcmp(host->abi_id, module.abi_id) == 0)
        ofi_log_setup();
    return &module;
}
