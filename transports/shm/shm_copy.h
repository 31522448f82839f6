/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the peer's memory: by mapping, by process_vm_readv. */
#ifndef TRYST_TRANSPORTS_SHM_SHM_COPY_H
#define TRYST_TRANSPORTS_SHM_SHM_COPY_H

#include "shm.h"

/** True if this process can read memory of the announced pid, and that memory has the
 *  peer's nonce. `why` receives "process_vm_readv verified", or the reason. */
bool shm_read_verify(struct shm_ep *ep, char why[SHM_WHY_MAX]);
/** Check whether this process may read memory by process_vm_readv. 0 or errno. */
int shm_read_probe(void);
/** Check, after a read, that the peer lives and its grant is not revoked: PAIR_COPY_OK or
 *  PAIR_COPY_GONE. */
enum pair_copy shm_read_confirm(struct shm_ep *ep);
/** Slots of struct pair_ops. */
enum pair_copy shm_bytes_open(struct pair_ep *pair, const struct bulk *bulk, uint64_t at,
                              uint64_t bytes, void *to, const void **data_p);
enum pair_copy shm_confirm(struct pair_ep *pair, const struct bulk *bulk);

#endif
