/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: announced to peers, mapped from peers. */
#ifndef TRYST_TRANSPORTS_SHM_SHM_REGION_H
#define TRYST_TRANSPORTS_SHM_SHM_REGION_H

#include "shm.h"

tryst_status shm_mem_register(struct rail *base, struct tryst_mem *mem, void **handle_p);
void shm_mem_unregister(struct rail *base, void *handle);
/** Get the rail's registration of the region of `bulk`. NULL: peers cannot map or import
 *  the memory. */
struct shm_region *shm_region_of(struct shm_ep *ep, const struct bulk *bulk);
/** Announce the region to this peer, unless that was done before. False: there are too
 *  many regions, or announcing it failed. */
bool shm_region_announce(struct shm_ep *ep, struct shm_region *region);
/** Handle a REGION or DEVICE message. */
void shm_region_handle(struct shm_ep *ep, const struct shm_message *message, int fd);
/** transport_ops: a region that the peer maps, and one of the peer's that is mapped here
 *  for the caller. */
tryst_status shm_mem_share(struct endpoint *base, struct tryst_mem *mem);
tryst_status shm_mem_view(struct endpoint *base, uint64_t id, const void **data_p,
                          size_t *bytes_p);
void shm_region_drop(struct shm_ep *ep, uint64_t id);
/** Find the peer's region `id`; NULL: not announced yet. */
struct shm_mapped *shm_region_find(struct shm_ep *ep, uint64_t id);
/** Get the address here of [offset, offset + bytes) of the peer's region. OK, LATER
 *  (NULL: not announced yet), DENIED (not mappable), BAD (not within the region). */
enum pair_copy shm_region_address(const struct shm_mapped *mapped, uint64_t offset,
                                  uint64_t bytes, const void **data_p);
/** pair_ops: keep the region of a borrowed bulk mapped, whatever its owner drops. */
enum pair_copy shm_lend(struct pair_ep *pair, struct bulk *bulk);
void shm_lent_back(struct pair_ep *pair, struct bulk *bulk);
void shm_regions_end(struct shm_ep *ep);
/** pair_ops: reads of device memory, imported from its owner. */
enum pair_copy shm_device_read(struct pair_ep *pair, struct pair_job *job);
bool shm_device_read_end(struct pair_ep *pair, struct pair_job *job);

#endif
