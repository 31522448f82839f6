/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of device memory: imported from peers. */
#ifndef TRANSPORTS_SHM_DEVICE_H
#define TRANSPORTS_SHM_DEVICE_H

#include "shm.h"

/* Send the region's handle to this peer. TRYST_E_UNSUPPORTED: it has none. */
tryst_status shm_device_tell(struct shm_ep *ep, struct shm_region *region);
void shm_device_take(struct shm_mapped *mapped, const struct shm_message *message,
                     int fd);
enum pair_copy shm_device_read(struct pair_ep *pair, struct pair_job *job);
bool shm_device_read_end(struct pair_ep *pair, struct pair_job *job);

#endif
