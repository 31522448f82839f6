/* SPDX-License-Identifier: Apache-2.0 */
/* The segment, and the connect messages. */
#ifndef TRYST_TRANSPORTS_SHM_SHM_CONNECT_H
#define TRYST_TRANSPORTS_SHM_SHM_CONNECT_H

#include "shm.h"

void shm_connect(struct pair_ep *pair);
void shm_message(struct endpoint *base, const void *data, size_t bytes, int fd);
void shm_detach(struct pair_ep *pair);
/** Send a message of `type` and, if fd >= 0, a copy of that descriptor. Version, cookie
 *  and nonce are filled in; the other fields come from `model` (NULL: zero). */
tryst_status shm_send(struct shm_ep *ep, enum shm_type type,
                      const struct shm_message *model, int fd);

#endif
