/* SPDX-License-Identifier: Apache-2.0 */
/* The stage: bulk from plain memory, copied to where peers can map it. */
#ifndef TRYST_TRANSPORTS_SHM_SHM_STAGE_H
#define TRYST_TRANSPORTS_SHM_SHM_STAGE_H

#include "core/os/fork.h"
#include "shm.h"

/** One piece of copying fills a block. */
#define SHM_STAGE_BLOCK_BYTES TRANSPORT_PIECE_BYTES
#define SHM_STAGE_BLOCKS      64u
#define SHM_STAGE_BYTES       (SHM_STAGE_BLOCKS * SHM_STAGE_BLOCK_BYTES)
/** Half of the stage: the next bulk is copied while the peer reads this one. */
#define SHM_STAGE_BULK_MAX (SHM_STAGE_BYTES / 2)

struct shm_stage {
    struct tryst_mem mem;      /**< in no cache: `registrations` is not used */
    struct shm_region *region; /**< the rail's registration of `mem` */
    uint64_t used;             /**< bit per block */
    struct fork_handler fork;  /**< closes the descriptor in a child */
};

/** Reserve blocks for the bulk, and announce the stage to the peer.
 *
 *  PAIR_MECH_STAGE  the blocks are in bulk's op (region, where)
 *  PAIR_MECH_FULL   too few blocks in a row are free, and this peer's answers free some
 *  PAIR_MECH_RING   the stage cannot take the bulk */
enum pair_mech shm_stage_choose(struct shm_ep *ep, struct bulk *bulk);
/** pair_ops: copy bytes of a send into its blocks; free the blocks. */
void shm_stage_copy(struct pair_ep *pair, struct bulk *bulk, uint64_t bytes);
void shm_unstage(struct pair_ep *pair, struct bulk *bulk);
/** Free the rail's stage, if it has one. */
void shm_stage_close(struct shm_rail *rail);

#endif
