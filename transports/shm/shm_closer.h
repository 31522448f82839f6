/* SPDX-License-Identifier: Apache-2.0 */
/* Imports are closed by a thread of their own. */
#ifndef TRANSPORTS_SHM_CLOSER_H
#define TRANSPORTS_SHM_CLOSER_H

#include "shm.h"

/* Close what was imported of a peer's region, soon; no copy reads it any more. */
void shm_imports_close(struct shm_rail *rail, struct shm_mapped *mapped);
/* With the rail: waits a little for those that are still to be closed. */
void shm_closer_end(struct shm_rail *rail);

#endif
