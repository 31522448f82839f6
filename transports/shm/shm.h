/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `shm`.
 *
 *   shm.c          the ops table, probe, rail
 *   shm_connect.c  the segment and the messages before ready
 *   shm_copy.c     reading the peer's memory: by mapping, by process_vm_readv
 *   shm_region.c   regions: announced to peers, mapped or imported from peers
 *   shm_stage.c    bulk from plain memory, copied to where peers can map it
 *   shm_closer.c   a thread that closes imports
 */
#ifndef TRYST_TRANSPORTS_SHM_SHM_H
#define TRYST_TRANSPORTS_SHM_SHM_H

#include "shm_wire.h"
#include "transports/pair/pair.h"

/** Most regions of one peer that are mapped: each costs a mapping, of which a process has
 *  65,530 by default. Further regions are read by process_vm_readv. */
#define SHM_REGIONS_MAX 4096u

/** Most descriptors of device memory that are kept for one peer: a process has 1,024
 *  descriptors by default. A sender announces no more; bulk from further regions
 *  goes through bounce buffers. */
#define SHM_DEVICE_FDS_MAX 64u

#define SHM_WHY_MAX sizeof(((struct shm_message *)0)->text)

struct shm_rail {
    struct pair_rail pair;
    uint32_t mechs_allowed;      /**< SHM_CAN_…, from TRYST_SHM_MECH */
    struct shm_region **regions; /**< by index; NULL: free */
    size_t regions_room;
    struct closer *closer;   /**< NULL until an import is first closed */
    struct shm_stage *stage; /**< NULL until a bulk first uses it */
};

/** The rail's registration of a region that has a descriptor or is on a device. */
struct shm_region {
    struct tryst_mem *mem;
    uint64_t id;
    /** Index in rail->regions, and of the region's bit in each endpoint's `announced`. */
    uint32_t index;
    bool unsharable; /**< on a device: the region has no handle for other processes */
    bool has_fd;     /**< on a device: its handle comes with a descriptor */
};

/** A region of the peer that was announced to this process. */
struct shm_mapped {
    struct list_node node; /**< ep->regions */
    uint64_t id;
    uint64_t bytes;
    void *base; /**< address here; NULL: not mappable, or on a device */
    bool device;
    bool dropped;   /**< in no list any more; freed when the last reader has ended */
    uint32_t users; /**< copies that read the region, and bulks that borrow from it */
    int fd;         /**< device: descriptor that came with the handle, or -1 */
    struct memory_ipc ipc;
    struct list imports; /**< struct shm_import */
};

/** A peer's region, imported for one device. */
struct shm_import {
    struct list_node node;
    const struct memory_ops *memory;
    int32_t device;
    void *data;
};

enum shm_step {
    SHM_START,
    SHM_WAIT,
    SHM_ANSWER,
    SHM_VERIFY,
    SHM_DONE,
    SHM_REFUSING,
    SHM_REFUSED
};

struct shm_ep {
    struct pair_ep pair;
    uint64_t nonce; /**< this side's nonce: the peer reads it here */
    uint64_t peer_nonce_address;
    size_t area_bytes;   /**< bytes of the mapping at pair.area */
    uint64_t ring_bytes; /**< responder: bytes of each ring of its segment */
    enum shm_step step;
    uint32_t in_mechs;  /**< SHM_CAN_…: how this side reads from the peer */
    uint32_t out_mechs; /**< SHM_CAN_…: how the peer reads from this side */
    char in_why[SHM_WHY_MAX];
    char out_why[SHM_WHY_MAX];
    struct list regions; /**< regions of the peer: struct shm_mapped */
    uint32_t regions_count;
    uint32_t device_fds;      /**< number of descriptors in `regions` */
    uint64_t mapped_bytes;    /**< bytes of the peer's host memory that are mapped here */
    uint32_t device_fds_sent; /**< descriptors of announced regions on devices */
    uint32_t staged;          /**< number of sends by PAIR_MECH_STAGE */
    size_t announced_words;   /**< words of `announced` */
    uint64_t *announced;      /**< bit per index: that region was announced to the peer */
};

/** Do without mechanism `bit` (SHM_CAN_…) in sends to this peer from here on: log `text`,
 *  and report it. (shm.c) */
void shm_mech_drop(struct shm_ep *ep, uint32_t bit, const char *text);

static inline struct shm_rail *shm_ep_rail(const struct shm_ep *ep)
{
    return (struct shm_rail *)ep->pair.base.rail;
}

#endif
