/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport between processes of one host.
 *
 * One idea: frames go over rings in a shared segment, and the receiver of a bulk reads it
 * straight from the sender's memory. A frame costs no descriptor, no allocation, and no
 * system call unless the receiver sleeps.
 * Invariant: a mechanism that TRYST_SHM_MECH excludes is neither offered nor used. (pair/
 * has the part that shm and self share.)
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "shm_closer.h"
#include "shm_connect.h"
#include "shm_copy.h"
#include "shm_region.h"
#include "shm_stage.h"
#include "transports/memory/memfd.h"
#include "transports/pair/pair_bulk.h"

/* Up to these sizes two copies through the ring take less time than an offer and its
 * answer, with one copy from a mapping (a plain memcpy) or by a system call. Measured:
 * README.md. */
enum { INLINE_MAP_BYTES = 512, INLINE_READ_BYTES = 4096, INLINE_STAGE_BYTES = 2048 };

/* Fill in the region and the offset of the bulk, and announce the region to the peer.
 * False: no region of this rank can be read by the peer. */
static bool region_choose(struct shm_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    struct shm_region *region = shm_region_of(ep, bulk);
    if (!region || !shm_region_announce(ep, region))
        return false;
    op->region = region->id;
    op->where =
        (uint64_t)((const uint8_t *)bulk->data - (const uint8_t *)bulk->mem->data);
    return true;
}

/* True if the bulk may be staged though the peer can read it. The kernel's copy from
 * another processor's cache is slow: where the bytes are in this one's, two copies by
 * memcpy take less time. */
static bool stage_is_faster(const struct shm_ep *ep, const struct bulk *bulk)
{
    return bulk->hot && bulk->bytes > INLINE_READ_BYTES &&
           bulk->bytes <= SHM_STAGE_BLOCK_BYTES && (ep->out_mechs & SHM_CAN_MAP) &&
           (ep->out_mechs & SHM_CAN_STAGE);
}

static enum pair_mech shm_choose(struct pair_ep *pair, struct bulk *bulk)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    struct pair_op *op = pair_op_of(bulk);
    if (bulk->memory)
        return (ep->out_mechs & SHM_CAN_DEVICE) && region_choose(ep, bulk)
                   ? PAIR_MECH_DEVICE
                   : PAIR_MECH_NONE;
    if (bulk->bytes > INLINE_MAP_BYTES && (ep->out_mechs & SHM_CAN_MAP) &&
        region_choose(ep, bulk))
        return PAIR_MECH_MAP;
    if (stage_is_faster(ep, bulk) && shm_stage_choose(ep, bulk) == PAIR_MECH_STAGE)
        return PAIR_MECH_STAGE;
    if (bulk->bytes > INLINE_READ_BYTES && (ep->out_mechs & SHM_CAN_READ)) {
        op->where = (uint64_t)(uintptr_t)bulk->data;
        return PAIR_MECH_READ;
    }
    return bulk->bytes > INLINE_STAGE_BYTES && (ep->out_mechs & SHM_CAN_STAGE)
               ? shm_stage_choose(ep, bulk)
               : PAIR_MECH_RING;
}

void shm_mech_drop(struct shm_ep *ep, uint32_t bit, const char *text)
{
    const struct tryst_host *host = pair_ep_rail(&ep->pair)->host;
    ep->out_mechs &= ~bit;
    host->log(host, TRYST_LOG_INFO, text);
    ep->pair.base.rail->events->mech_dropped(&ep->pair.base);
}

static void shm_denied(struct pair_ep *pair, enum pair_mech mech)
{
    char text[TRANSPORT_TEXT_MAX];
    static const struct {
        uint32_t bit;
        const char *name;
    } mechs[] = {[PAIR_MECH_READ] = {SHM_CAN_READ, "process_vm_readv"},
                 [PAIR_MECH_MAP] = {SHM_CAN_MAP, "map"},
                 [PAIR_MECH_DEVICE] = {SHM_CAN_DEVICE, "import from the device"},
                 [PAIR_MECH_STAGE] = {SHM_CAN_STAGE, "stage"}};
    snprintf(text, sizeof text,
             "shm: rank %d cannot read this rank's memory by %s any more",
             (int)pair->params.peer_rank, mechs[mech].name);
    shm_mech_drop((struct shm_ep *)pair, mechs[mech].bit, text);
}

/* True always: readers in other processes detect by themselves that the grant is
 * revoked. */
static bool shm_quiet(struct pair_ep *pair)
{
    (void)pair;
    return true;
}

static const struct pair_ops shm_pair_ops = {
    .rail_bytes = sizeof(struct shm_rail),
    .ep_bytes = sizeof(struct shm_ep),
    .connect = shm_connect,
    .choose = shm_choose,
    .denied = shm_denied,
    .open = shm_bytes_open,
    .confirm = shm_confirm,
    .lend = shm_lend,
    .lent_back = shm_lent_back,
    .stage = shm_stage_copy,
    .unstage = shm_unstage,
    .device_read = shm_device_read,
    .device_read_end = shm_device_read_end,
    .quiet = shm_quiet,
    .detach = shm_detach,
};

static tryst_status shm_probe(const struct tryst_host *host, char *text)
{
    char reason[64];
    int fd = -1, error = shm_read_probe();
    (void)host;
    if (memfd_create_sealed("tryst-probe", 4096, &fd) != TRYST_OK) {
        snprintf(text, TRANSPORT_TEXT_MAX,
                 "cannot create a memory file (memfd_create): %s",
                 strerror_r(errno, reason, sizeof reason));
        return TRYST_E_UNSUPPORTED;
    }
    close(fd);
    if (error)
        snprintf(text, TRANSPORT_TEXT_MAX,
                 "map, stage, ring (no cma: process_vm_readv: %s)",
                 strerror_r(error, reason, sizeof reason));
    else
        snprintf(text, TRANSPORT_TEXT_MAX, "map, cma (process_vm_readv), stage, ring");
    return TRYST_OK;
}

static tryst_status shm_ep_open(struct rail *rail, const struct ep_params *params,
                                struct endpoint **ep_p)
{
    struct endpoint *base;
    tryst_status status = pair_ep_open(rail, params, &base);
    if (status != TRYST_OK)
        return status;
    struct shm_ep *ep = (struct shm_ep *)base;
    ep->nonce = params->nonce;
    list_init(&ep->regions);
    *ep_p = base;
    return TRYST_OK;
}

static void shm_rail_close(struct rail *base)
{
    shm_closer_end((struct shm_rail *)base);
    shm_stage_close((struct shm_rail *)base);
    mem_free(((struct shm_rail *)base)->regions);
    pair_rail_close(base);
}

static tryst_status shm_rail_open(const struct rail_params *params, struct rail **rail_p);

const struct transport_ops transport_shm = {
    .name = "shm",
    .struct_size = sizeof(struct transport_ops),
    .probe = shm_probe,
    .rail_open = shm_rail_open,
    .rail_close = shm_rail_close,
    .progress = pair_progress,
    .arm = pair_arm,
    .ep_open = shm_ep_open,
    .ep_message = shm_message,
    .ep_close = pair_ep_close,
    .frame_begin = pair_frame_begin,
    .frame_commit = pair_frame_commit,
    .bulk_recv = pair_bulk_recv,
    .bulk_send = pair_bulk_send,
    .bulk_cancel = pair_bulk_cancel,
    .bulk_read = pair_bulk_read,
    .bulk_return = pair_bulk_return,
    .mem_register = shm_mem_register,
    .mem_unregister = shm_mem_unregister,
    .mem_share = shm_mem_share,
    .mem_view = shm_mem_view,
};

/* Get the allowed mechanisms from TRYST_SHM_MECH, an index in
 * "auto|map|cma|stage|ring": each mechanism excludes those before it in this list. */
static uint32_t mechs_allowed(const struct tryst_host *host)
{
    static const uint32_t all =
        SHM_CAN_MAP | SHM_CAN_READ | SHM_CAN_DEVICE | SHM_CAN_STAGE;
    static const uint32_t allowed[] = {all, all, SHM_CAN_READ | SHM_CAN_STAGE,
                                       SHM_CAN_STAGE, 0};
    uint64_t mech = host->config_number(host, "shm_mech");
    return mech < 5 ? allowed[mech] : 0;
}

static tryst_status shm_rail_open(const struct rail_params *params, struct rail **rail_p)
{
    tryst_status status = pair_rail_open(params, &transport_shm, &shm_pair_ops, rail_p);
    if (status != TRYST_OK)
        return status;
    (*rail_p)->takes_fds = true;
    ((struct shm_rail *)*rail_p)->mechs_allowed = mechs_allowed(params->host);
    return TRYST_OK;
}
