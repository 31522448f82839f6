/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage: bulk from plain memory, copied to where peers can map it.
 *
 * One idea: a peer that may not read this process (Yama's ptrace_scope 1, a seccomp
 * filter) maps one memory file of this rank, read-only and once, and reads bulk there
 * that this rank has copied into blocks of the file. The file is a region like any other;
 * an offer from it is PAIR_MECH_MAP.
 * Invariant: blocks are in use from shm_stage_choose until shm_unstage, which follows the
 * peer's answer or the end of the endpoint. After that end the peer's reads do not count,
 * so the blocks may be used for another peer.
 *
 * One stage serves all peers of the rail, so its memory is bounded whatever their number.
 * A peer could read there what other peers are sent, as it could in a region from which
 * several peers are sent: ranks of one session are not protected from each other.
 *
 * A send waits for blocks (PAIR_MECH_FULL) only while its own peer's answers will free
 * some; otherwise it goes through the ring at once. So no peer that is stopped delays the
 * sends to another.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "shm_region.h"
#include "shm_stage.h"
#include "transports/memory/memfd.h"

static_assert(SHM_STAGE_BLOCKS == 64, "a bit of shm_stage.used for each block");

/* --- the memory file --- */

/* Runs in a forked child. The mapping does not reach the child (MADV_DONTFORK). */
static void stage_forked(void *arg)
{
    struct shm_stage *stage = arg;
    if (stage->mem.fd >= 0)
        close(stage->mem.fd);
    stage->mem.fd = -1;
}

/* False: errno has the reason. */
static bool file_map(struct tryst_mem *mem)
{
    if (memfd_create_sealed("tryst-stage", mem->bytes, &mem->fd) != TRYST_OK)
        return false;
    void *data = mmap(NULL, mem->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd, 0);
    if (data == MAP_FAILED)
        return false;
    mem->data = data;
    memfd_seal_writes(mem->fd); /* peers may only read it */
    (void)madvise(data, mem->bytes, MADV_DONTFORK);
    return true;
}

static bool stage_fill(struct shm_rail *rail, struct shm_stage *stage)
{
    void *region = NULL;
    /* Regions of the context's cache have ids from 1 on. */
    stage->mem = (struct tryst_mem){.ops = memory_ops_get(TRYST_MEMORY_HOST),
                                    .bytes = SHM_STAGE_BYTES,
                                    .fd = -1,
                                    .id = 0};
    stage->fork = (struct fork_handler){.child = stage_forked, .arg = stage};
    errno = ENOMEM;
    if (fork_handler_add(&stage->fork) != TRYST_OK || !file_map(&stage->mem))
        return false;
    errno = ENOMEM;
    if (shm_mem_register(&rail->pair.base, &stage->mem, &region) != TRYST_OK)
        return false;
    stage->region = region;
    return true;
}

/* Make the rail's stage. NULL: errno has the reason. */
static struct shm_stage *stage_make(struct shm_rail *rail)
{
    errno = ENOMEM;
    rail->stage = mem_zalloc(sizeof *rail->stage);
    if (rail->stage && !stage_fill(rail, rail->stage)) {
        int reason = errno;
        shm_stage_close(rail);
        errno = reason;
    }
    return rail->stage;
}

void shm_stage_close(struct shm_rail *rail)
{
    struct shm_stage *stage = rail->stage;
    if (!stage)
        return;
    fork_handler_remove(&stage->fork);
    shm_mem_unregister(&rail->pair.base, stage->region);
    if (stage->mem.data)
        munmap(stage->mem.data, stage->mem.bytes);
    if (stage->mem.fd >= 0)
        close(stage->mem.fd);
    mem_free(stage);
    rail->stage = NULL;
}

/* Get the rail's stage, made at its first use. NULL: this endpoint does without one. */
static struct shm_stage *stage_get(struct shm_ep *ep)
{
    struct shm_rail *rail = shm_ep_rail(ep);
    char reason[64], text[TRANSPORT_TEXT_MAX];
    if (rail->stage || stage_make(rail))
        return rail->stage;
    snprintf(text, sizeof text,
             "shm: cannot make %u MiB of memory for bulk to rank %d, which goes %s: %s",
             (unsigned)(SHM_STAGE_BYTES >> 20), (int)ep->pair.params.peer_rank,
             ep->out_mechs & SHM_CAN_READ ? "by process_vm_readv" : "through the ring",
             strerror_r(errno, reason, sizeof reason));
    shm_mech_drop(ep, SHM_CAN_STAGE, text);
    return NULL;
}

/* --- blocks --- */

/* The number of blocks of `bytes` bytes, at most SHM_STAGE_BULK_MAX. */
static unsigned blocks_of(uint64_t bytes)
{
    return (unsigned)((bytes + SHM_STAGE_BLOCK_BYTES - 1) / SHM_STAGE_BLOCK_BYTES);
}

/* The bits of `count` (1 to 63) blocks from `first` on. */
static uint64_t blocks_mask(unsigned first, unsigned count)
{
    return ((UINT64_C(1) << count) - 1) << first;
}

/* Find the first `count` free blocks in a row. SHM_STAGE_BLOCKS: there are none. The
 * lowest blocks are used most, so they stay in the cache. */
static unsigned blocks_find(uint64_t used, unsigned count)
{
    uint64_t starts = ~used;
    for (unsigned i = 1; i < count; i++)
        starts &= ~used >> i; /* shifts in zeros: no row goes beyond the end */
    return starts ? (unsigned)__builtin_ctzll(starts) : SHM_STAGE_BLOCKS;
}

enum pair_mech shm_stage_choose(struct shm_ep *ep, struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    if (bulk->bytes > SHM_STAGE_BULK_MAX)
        return PAIR_MECH_RING;
    struct shm_stage *stage = stage_get(ep);
    if (!stage || !shm_region_announce(ep, stage->region))
        return PAIR_MECH_RING;
    unsigned count = blocks_of(bulk->bytes), first = blocks_find(stage->used, count);
    if (first == SHM_STAGE_BLOCKS)
        return ep->staged ? PAIR_MECH_FULL : PAIR_MECH_RING;
    stage->used |= blocks_mask(first, count);
    ep->staged++;
    op->region = stage->region->id;
    op->where = first * SHM_STAGE_BLOCK_BYTES;
    return PAIR_MECH_STAGE;
}

void shm_stage_copy(struct pair_ep *pair, struct bulk *bulk, uint64_t bytes)
{
    const struct pair_op *op = pair_op_of(bulk);
    struct shm_ep *ep = (struct shm_ep *)pair;
    memcpy((uint8_t *)shm_ep_rail(ep)->stage->mem.data + op->where + op->moved,
           (const uint8_t *)bulk->data + op->moved, bytes);
}

void shm_unstage(struct pair_ep *pair, struct bulk *bulk)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    unsigned first = (unsigned)(pair_op_of(bulk)->where / SHM_STAGE_BLOCK_BYTES);
    shm_ep_rail(ep)->stage->used &= ~blocks_mask(first, blocks_of(bulk->bytes));
    ep->staged--;
}
