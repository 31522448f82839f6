/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the peer's memory: by mapping, by process_vm_readv. */
#ifndef TRANSPORTS_SHM_COPY_H
#define TRANSPORTS_SHM_COPY_H

#include "shm.h"

/* Can we read the peer's memory, and is it really the peer's? `why` says how or why not. */
bool shm_read_verify(struct shm_ep *ep, char why[SHM_WHY_MAX]);
/* Is there anything to read memory with in this process? 0 or errno. */
int shm_read_probe(void);
enum pair_copy shm_copy(struct pair_ep *pair, struct bulk *bulk, uint64_t bytes);
/* Did what we just read belong to the bulk all the time? OK or GONE. */
enum pair_copy shm_read_confirm(struct shm_ep *ep);

#endif
