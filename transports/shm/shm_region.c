/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: this side's, which are announced to peers, and the peers', which are mapped.
 *
 * One idea: a region's descriptor goes to a peer once, over the link, with the first bulk
 * from that region; offers then name the region by id and offset. An offer that overtakes
 * the descriptor waits for the descriptor. For a region of device memory a handle is sent
 * instead. The receiver imports the handle at the first copy to a device, once for each
 * device, and keeps the import until DROP or the endpoint's end.
 * Invariant: a bit in `announced` is set exactly while REGION or DEVICE was sent to the
 * peer, and DROP was not. Only regions sealed against shrinking are mapped, and only for
 * reading.
 * What one peer's messages keep here is bounded: regions (SHM_REGIONS_MAX), descriptors
 * (SHM_DEVICE_FDS_MAX), and mapped bytes (the machine's memory and swap: a memory file is
 * allocated in full, so an honest peer cannot announce more).
 * A region that a copy reads, or a receive borrows from, is not closed: it is kept, out
 * of all lists, until its last reader has ended.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "core/os/foreign_fd.h"
#include "shm_closer.h"
#include "shm_connect.h"
#include "shm_copy.h"
#include "shm_region.h"
#include "transports/memory/closed_gates.h"
#include "transports/memory/memfd.h"
#include "transports/pair/pair_bulk.h"

static_assert(sizeof(struct memory_ipc) == sizeof(((struct shm_message *)0)->text),
              "a handle fits into a message");

#define BIT(index) (UINT64_C(1) << ((index) % 64))

/* --- announced regions --- */

/* Reserve as mem_reserve does; added items are zero. */
static bool reserve_zeroed(void *items_p, size_t *room_p, size_t need, size_t item_bytes)
{
    size_t before = *room_p;
    char *items;
    if (!mem_reserve(items_p, room_p, need, item_bytes))
        return false;
    memcpy(&items, items_p, sizeof items);
    memset(items + before * item_bytes, 0, (*room_p - before) * item_bytes);
    return true;
}

static tryst_status index_reserve(struct shm_rail *rail, uint32_t *index_p)
{
    size_t index = 0;
    while (index < rail->regions_room && rail->regions[index])
        index++;
    if (!reserve_zeroed(&rail->regions, &rail->regions_room, index + 1,
                        sizeof(struct shm_region *)))
        return TRYST_E_NOMEM;
    *index_p = (uint32_t)index;
    return TRYST_OK;
}

tryst_status shm_mem_register(struct rail *base, struct tryst_mem *mem, void **handle_p)
{
    struct shm_rail *rail = (struct shm_rail *)base;
    uint32_t index = 0;
    if (mem->fd < 0 && !mem->ops->on_device) {
        *handle_p = NULL; /* read by process_vm_readv, which needs no registration */
        return TRYST_OK;
    }
    struct shm_region *region = mem_zalloc(sizeof *region);
    if (!region)
        return TRYST_E_NOMEM;
    if (index_reserve(rail, &index) != TRYST_OK) {
        mem_free(region);
        return TRYST_E_NOMEM;
    }
    *region = (struct shm_region){.mem = mem, .id = mem->id, .index = index};
    rail->regions[index] = region;
    *handle_p = region;
    return TRYST_OK;
}

static bool is_announced(const struct shm_ep *ep, uint32_t index)
{
    return index / 64 < ep->announced_words && (ep->announced[index / 64] & BIT(index));
}

void shm_mem_unregister(struct rail *base, void *handle)
{
    struct shm_rail *rail = (struct shm_rail *)base;
    struct shm_region *region = handle;
    if (!region)
        return;
    list_for_each_safe (&rail->pair.eps, node, after) {
        struct shm_ep *ep = container_of(node, struct shm_ep, pair.node);
        if (!is_announced(ep, region->index))
            continue;
        ep->announced[region->index / 64] &= ~BIT(region->index);
        ep->device_fds_sent -= region->has_fd;
        if (ep->pair.state == PAIR_READY)
            (void)shm_send(ep, SHM_DROP, &(struct shm_message){.region = region->id}, -1);
    }
    rail->regions[region->index] = NULL;
    mem_free(region);
}

/* Send the region's handle to this peer. TRYST_E_UNSUPPORTED: the region has none, or the
 * peer has SHM_DEVICE_FDS_MAX descriptors already. */
static tryst_status device_handle_send(struct shm_ep *ep, struct shm_region *region)
{
    const struct tryst_mem *mem = region->mem;
    struct shm_message message = {.region = region->id, .bytes = mem->bytes};
    struct memory_ipc ipc;
    bool full = ep->device_fds_sent >= SHM_DEVICE_FDS_MAX;
    int fd = -1;
    if (region->unsharable || (full && region->has_fd))
        return TRYST_E_UNSUPPORTED;
    tryst_status status =
        mem->ops->ipc_export(mem->device, mem->data, mem->bytes, &ipc, &fd);
    region->unsharable = status != TRYST_OK;
    if (status != TRYST_OK)
        return status;
    region->has_fd = fd >= 0;
    memcpy(message.text, &ipc, sizeof ipc);
    status = full && region->has_fd ? TRYST_E_UNSUPPORTED
                                    : shm_send(ep, SHM_DEVICE, &message, fd);
    ep->device_fds_sent += status == TRYST_OK && region->has_fd;
    if (fd >= 0)
        close(fd);
    return status;
}

struct shm_region *shm_region_of(struct shm_ep *ep, const struct bulk *bulk)
{
    const struct tryst_host *host = pair_ep_rail(&ep->pair)->host;
    void *handle = NULL;
    if (!host || !bulk->mem || (bulk->mem->fd < 0 && !bulk->memory))
        return NULL;
    if (host->mem_handle(bulk->mem, ep->pair.base.rail, &handle) != TRYST_OK)
        return NULL;
    return handle;
}

bool shm_region_announce(struct shm_ep *ep, struct shm_region *region)
{
    if (region->index >= SHM_REGIONS_MAX)
        return false;
    if (is_announced(ep, region->index))
        return true;
    if (!reserve_zeroed(&ep->announced, &ep->announced_words, region->index / 64 + 1,
                        sizeof *ep->announced))
        return false;
    struct shm_message message = {.region = region->id, .bytes = region->mem->bytes};
    tryst_status status = region->mem->ops->on_device
                              ? device_handle_send(ep, region)
                              : shm_send(ep, SHM_REGION, &message, region->mem->fd);
    if (status != TRYST_OK)
        return false;
    ep->announced[region->index / 64] |= BIT(region->index);
    return true;
}

tryst_status shm_mem_share(struct endpoint *base, struct tryst_mem *mem)
{
    struct shm_ep *ep = (struct shm_ep *)base;
    void *handle = NULL;
    if (mem->fd < 0 || mem->ops->on_device || !(ep->out_mechs & SHM_CAN_MAP))
        return TRYST_E_UNSUPPORTED;
    tryst_status status =
        pair_ep_rail(&ep->pair)->host->mem_handle(mem, base->rail, &handle);
    if (status != TRYST_OK)
        return status;
    return shm_region_announce(ep, handle) ? TRYST_OK : TRYST_E_UNSUPPORTED;
}

/* --- regions of peers --- */

struct shm_mapped *shm_region_find(struct shm_ep *ep, uint64_t id)
{
    list_for_each_safe (&ep->regions, node, after) {
        struct shm_mapped *mapped = container_of(node, struct shm_mapped, node);
        if (mapped->id != id)
            continue;
        /* the next bulk is likely from this region again */
        if (ep->regions.head.next != node) {
            list_remove(node);
            list_push_front(&ep->regions, node);
        }
        return mapped;
    }
    return NULL;
}

static void *region_map(int fd, uint64_t bytes)
{
    if (fd < 0 || bytes == 0 || bytes > SIZE_MAX / 2 || memfd_refusal(fd, bytes))
        return NULL;
    void *base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return NULL;
    (void)madvise(base, bytes, MADV_DONTFORK);
    return base;
}

/* True if the machine's memory and swap hold `bytes` more of this peer's regions. */
static bool machine_holds(const struct shm_ep *ep, uint64_t bytes)
{
    struct sysinfo info;
    if (sysinfo(&info) != 0)
        return true;
    uint64_t limit = ((uint64_t)info.totalram + info.totalswap) * info.mem_unit;
    return bytes <= limit && ep->mapped_bytes <= limit - bytes;
}

/* Check the limits of what one peer's messages make this process keep. NULL, or the
 * fault. */
static const char *announcement_fault(struct shm_ep *ep,
                                      const struct shm_message *message, int fd)
{
    if (ep->regions_count >= SHM_REGIONS_MAX || shm_region_find(ep, message->region))
        return "the peer announces a region once more, or too many";
    if (message->type == SHM_DEVICE && fd >= 0 && ep->device_fds >= SHM_DEVICE_FDS_MAX)
        return "the peer sends too many descriptors of device memory";
    if (message->type == SHM_REGION && !machine_holds(ep, message->bytes))
        return "the peer announces more memory than this machine has";
    return NULL;
}

/* Read a DEVICE message. Keep the descriptor only where there is a device to import
 * for. */
static void device_handle_read(struct shm_ep *ep, struct shm_mapped *mapped,
                               const struct shm_message *message, int fd)
{
    mapped->device = true;
    memcpy(&mapped->ipc, message->text, sizeof mapped->ipc);
    if (fd < 0 || !memory_ops_get(TRYST_MEMORY_CUDA))
        return;
    mapped->fd = fd_copy(fd); /* shm_message closes the message's own */
    ep->device_fds += mapped->fd >= 0;
}

void shm_region_handle(struct shm_ep *ep, const struct shm_message *message, int fd)
{
    const char *fault = announcement_fault(ep, message, fd);
    if (fault) {
        pair_fail(&ep->pair, TRYST_E_PROTOCOL, "shm: protocol error: %s", fault);
        return;
    }
    struct shm_mapped *mapped = mem_zalloc(sizeof *mapped);
    if (!mapped) {
        pair_fail(&ep->pair, TRYST_E_NOMEM,
                  "shm: cannot add a region of the peer: out of memory");
        return;
    }
    mapped->id = message->region;
    mapped->bytes = message->bytes;
    mapped->fd = -1;
    list_init(&mapped->imports);
    if (message->type == SHM_DEVICE)
        device_handle_read(ep, mapped, message, fd);
    else
        mapped->base = region_map(fd, message->bytes);
    ep->mapped_bytes += mapped->base ? mapped->bytes : 0;
    list_push_front(&ep->regions, &mapped->node);
    ep->regions_count++;
    pair_reads_resume(&ep->pair);
}

static void mapped_free(struct shm_ep *ep, struct shm_mapped *mapped)
{
    shm_imports_close(shm_ep_rail(ep), mapped);
    foreign_fd_close(mapped->fd);
    if (mapped->base) {
        munmap(mapped->base, mapped->bytes);
        ep->mapped_bytes -= mapped->bytes;
    }
    mem_free(mapped);
}

static void mapped_drop(struct shm_ep *ep, struct shm_mapped *mapped)
{
    list_remove(&mapped->node);
    ep->regions_count--;
    ep->device_fds -= mapped->fd >= 0;
    mapped->dropped = true;
    if (!mapped->users)
        mapped_free(ep, mapped);
}

void shm_region_drop(struct shm_ep *ep, uint64_t id)
{
    struct shm_mapped *mapped = shm_region_find(ep, id);
    if (mapped)
        mapped_drop(ep, mapped);
}

enum pair_copy shm_region_address(const struct shm_mapped *mapped, uint64_t offset,
                                  uint64_t bytes, const void **data_p)
{
    if (!mapped)
        return PAIR_COPY_LATER;
    if (!mapped->base)
        return PAIR_COPY_DENIED;
    if (offset > mapped->bytes || bytes > mapped->bytes - offset)
        return PAIR_COPY_BAD;
    *data_p = (const uint8_t *)mapped->base + offset;
    return PAIR_COPY_OK;
}

tryst_status shm_mem_view(struct endpoint *base, uint64_t id, const void **data_p,
                          size_t *bytes_p)
{
    struct shm_ep *ep = (struct shm_ep *)base;
    const struct shm_mapped *mapped = shm_region_find(ep, id);
    if (!mapped)
        return ep->in_mechs & SHM_CAN_MAP ? TRYST_AGAIN : TRYST_E_UNSUPPORTED;
    if (!mapped->base)
        return TRYST_E_UNSUPPORTED;
    /* of 0 bytes: a second mapping of the same pages, beside the one that stays */
    void *view = mremap(mapped->base, 0, mapped->bytes, MREMAP_MAYMOVE);
    if (view == MAP_FAILED)
        return TRYST_E_NOMEM;
    *data_p = view;
    *bytes_p = mapped->bytes;
    return TRYST_OK;
}

enum pair_copy shm_lend(struct pair_ep *pair, struct bulk *bulk)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    struct pair_op *op = pair_op_of(bulk);
    const void *data;
    if (op->mech == PAIR_MECH_READ)
        return ep->in_mechs & SHM_CAN_READ ? PAIR_COPY_OK : PAIR_COPY_DENIED;
    struct shm_mapped *mapped = shm_region_find(ep, op->region);
    enum pair_copy found = shm_region_address(mapped, op->where, op->bytes, &data);
    if (found != PAIR_COPY_OK)
        return found;
    op->lent = mapped;
    mapped->users++;
    return PAIR_COPY_OK;
}

/* Note that a reader of the region has ended. */
static void mapped_put(struct shm_ep *ep, struct shm_mapped *mapped)
{
    if (--mapped->users == 0 && mapped->dropped)
        mapped_free(ep, mapped);
}

void shm_lent_back(struct pair_ep *pair, struct bulk *bulk)
{
    mapped_put((struct shm_ep *)pair, pair_op_of(bulk)->lent);
}

void shm_regions_end(struct shm_ep *ep)
{
    struct list_node *node;
    while ((node = list_first(&ep->regions)))
        mapped_drop(ep, container_of(node, struct shm_mapped, node));
    mem_free(ep->announced);
    ep->announced = NULL;
    ep->announced_words = 0;
}

/* --- regions of peers, on a device --- */

/* True if the import holds the whole region, by the driver's length of the allocation:
 * the length that the peer announced may be wrong. */
static bool import_is_whole(const struct shm_import *import,
                            const struct shm_mapped *mapped)
{
    int32_t device;
    return mapped->bytes > 0 &&
           import->memory->locate((const char *)import->data + mapped->bytes - 1,
                                  &device) == TRYST_OK;
}

static struct shm_import *import_make(struct shm_mapped *mapped,
                                      const struct memory_ops *memory, int32_t device)
{
    const struct memory_ipc *ipc = &mapped->ipc;
    if (ipc->offset > ipc->bytes || mapped->bytes > ipc->bytes - ipc->offset)
        return NULL;
    struct shm_import *import = mem_zalloc(sizeof *import);
    if (!import)
        return NULL;
    import->memory = memory;
    import->device = device;
    if (memory->ipc_import(device, ipc, mapped->fd, &import->data) != TRYST_OK) {
        mem_free(import);
        return NULL;
    }
    if (!import_is_whole(import, mapped)) {
        memory->ipc_close(device, import->data, ipc);
        mem_free(import);
        return NULL;
    }
    list_push_front(&mapped->imports, &import->node);
    return import;
}

static struct shm_import *import_find(struct shm_mapped *mapped,
                                      const struct memory_ops *memory, int32_t device)
{
    list_for_each_safe (&mapped->imports, node, after) {
        struct shm_import *import = container_of(node, struct shm_import, node);
        if (import->memory == memory && import->device == device)
            return import;
    }
    return NULL;
}

/* Get the import of the job's device, opened now if it is missing. While a gate is closed
 * it cannot be: the bulk then moves through slots. */
static enum pair_copy import_get(struct shm_mapped *mapped, const struct pair_job *job,
                                 const struct tryst_host *host,
                                 const struct shm_import **import_p)
{
    *import_p = import_find(mapped, job->copy.memory, job->copy.device);
    if (*import_p)
        return PAIR_COPY_OK;
    if (!pinning_begin(host->closed))
        return PAIR_COPY_RETRY;
    *import_p = import_make(mapped, job->copy.memory, job->copy.device);
    pinning_end(host->closed);
    return *import_p ? PAIR_COPY_OK : PAIR_COPY_DENIED;
}

enum pair_copy shm_device_read(struct pair_ep *pair, struct pair_job *job)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    const struct pair_op *op = pair_op_of(job->bulk);
    if (!(ep->in_mechs & SHM_CAN_DEVICE))
        return PAIR_COPY_DENIED;
    struct shm_mapped *mapped = shm_region_find(ep, op->region);
    if (!mapped)
        return PAIR_COPY_LATER;
    if (!mapped->device || op->where > mapped->bytes ||
        op->bytes > mapped->bytes - op->where)
        return PAIR_COPY_BAD;
    const struct shm_import *import;
    enum pair_copy got = import_get(mapped, job, pair_ep_rail(pair)->host, &import);
    if (got != PAIR_COPY_OK)
        return got;
    job->copy.src = (const char *)import->data + op->where;
    job->region = mapped;
    mapped->users++;
    copies_start(pair_ep_rail(pair)->copies, &job->copy);
    return PAIR_COPY_OK;
}

bool shm_device_read_end(struct pair_ep *pair, struct pair_job *job)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    mapped_put(ep, job->region);
    return shm_read_confirm(ep) == PAIR_COPY_OK;
}
