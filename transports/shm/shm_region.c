/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions that peers map: ours, announced; theirs, mapped.
 *
 * One idea: a region's descriptor goes to a peer once, with the first bulk from it, over the link;
 * offers then name it by id and offset. An offer may overtake the descriptor and waits for it.
 * Invariant: a bit in `announced` is set exactly while the peer was sent REGION and not DROP;
 * nothing is mapped that is not sealed against shrinking, and only to be read.
 * Callers: memory/memory.c (registration), shm.c (choose), shm_copy.c, shm_connect.c.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "core/alloc.h"
#include "shm_closer.h"
#include "shm_connect.h"
#include "shm_device.h"
#include "shm_region.h"
#include "transports/memory/memfd.h"

#define BIT(index) (UINT64_C(1) << ((index) % 64))

/* --- ours --- */

static tryst_status index_reserve(struct shm_rail *rail, uint32_t *index_p)
{
    uint32_t index = 0;
    while (index < rail->regions_room && rail->regions[index])
        index++;
    if (index == rail->regions_room) {
        uint32_t room = index ? 2 * index : 16;
        struct shm_region **regions =
            mem_resize(rail->regions, room * sizeof *rail->regions);
        if (!regions)
            return TRYST_E_NOMEM;
        for (uint32_t i = index; i < room; i++)
            regions[i] = NULL;
        rail->regions = regions;
        rail->regions_room = room;
    }
    *index_p = index;
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
        if (ep->pair.state == PAIR_READY)
            (void)shm_tell(ep, SHM_DROP, &(struct shm_message){.region = region->id}, -1);
    }
    rail->regions[region->index] = NULL;
    mem_free(region);
}

static bool announced_reserve(struct shm_ep *ep, uint32_t index)
{
    uint32_t words = index / 64 + 1;
    if (words <= ep->announced_words)
        return true;
    uint64_t *announced = mem_resize(ep->announced, words * sizeof *announced);
    if (!announced)
        return false;
    for (uint32_t i = ep->announced_words; i < words; i++)
        announced[i] = 0;
    ep->announced = announced;
    ep->announced_words = words;
    return true;
}

struct shm_region *shm_region_announce(struct shm_ep *ep, const struct bulk *bulk)
{
    const tryst_host *host = pair_ep_rail(&ep->pair)->host;
    void *handle = NULL;
    if (!host || !bulk->mem || (bulk->mem->fd < 0 && !bulk->memory))
        return NULL;
    if (host->mem_handle(bulk->mem, ep->pair.base.rail, &handle) != TRYST_OK)
        return NULL;
    struct shm_region *region = handle;
    if (!region || region->index >= SHM_REGIONS_MAX)
        return NULL;
    if (is_announced(ep, region->index))
        return region;
    if (!announced_reserve(ep, region->index))
        return NULL;
    struct shm_message message = {.region = region->id, .bytes = region->mem->bytes};
    tryst_status status = bulk->memory
                              ? shm_device_tell(ep, region)
                              : shm_tell(ep, SHM_REGION, &message, region->mem->fd);
    if (status != TRYST_OK)
        return NULL;
    ep->announced[region->index / 64] |= BIT(region->index);
    return region;
}

/* --- theirs --- */

struct shm_mapped *shm_mapped_find(struct shm_ep *ep, uint64_t id)
{
    list_for_each_safe (&ep->regions, node, after) {
        struct shm_mapped *mapped = container_of(node, struct shm_mapped, node);
        if (mapped->id != id)
            continue;
        if (ep->regions.head.next != node) { /* the next bulk is likely from here again */
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

void shm_region_take(struct shm_ep *ep, const struct shm_message *message, int fd)
{
    if (ep->regions_count >= SHM_REGIONS_MAX || shm_mapped_find(ep, message->region)) {
        pair_fail(&ep->pair, TRYST_E_PROTOCOL,
                  "shm: the peer announces a region once more");
        return;
    }
    struct shm_mapped *mapped = mem_zalloc(sizeof *mapped);
    if (!mapped) {
        pair_fail(&ep->pair, TRYST_E_NOMEM,
                  "shm: no memory to note a region of the peer");
        return;
    }
    mapped->id = message->region;
    mapped->bytes = message->bytes;
    mapped->fd = -1;
    list_init(&mapped->imports);
    if (message->type == SHM_DEVICE)
        shm_device_take(mapped, message, fd);
    else
        mapped->base = region_map(fd, message->bytes);
    list_push_front(&ep->regions, &mapped->node);
    ep->regions_count++;
    list_append(&pair_ep_rail(&ep->pair)->reads, &ep->pair.waiting);
}

void shm_mapped_free(struct shm_ep *ep, struct shm_mapped *mapped)
{
    shm_imports_close(shm_ep_rail(ep), mapped);
    if (mapped->fd >= 0)
        close(mapped->fd);
    if (mapped->base)
        munmap(mapped->base, mapped->bytes);
    mem_free(mapped);
}

static void mapped_drop(struct shm_ep *ep, struct shm_mapped *mapped)
{
    list_remove(&mapped->node);
    ep->regions_count--;
    mapped->dropped = true;
    if (!mapped->users)
        shm_mapped_free(ep, mapped);
}

void shm_region_drop(struct shm_ep *ep, uint64_t id)
{
    struct shm_mapped *mapped = shm_mapped_find(ep, id);
    if (mapped)
        mapped_drop(ep, mapped);
}

enum pair_copy shm_region_address(struct shm_ep *ep, uint64_t id, uint64_t offset,
                                  uint64_t bytes, const void **data_p)
{
    const struct shm_mapped *mapped = shm_mapped_find(ep, id);
    if (!mapped)
        return PAIR_COPY_LATER;
    if (!mapped->base)
        return PAIR_COPY_DENIED;
    if (offset > mapped->bytes || bytes > mapped->bytes - offset)
        return PAIR_COPY_BAD;
    *data_p = (const uint8_t *)mapped->base + offset;
    return PAIR_COPY_OK;
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
