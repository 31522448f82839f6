/* SPDX-License-Identifier: Apache-2.0 */
/* Closes imports in a thread. */
#ifndef TRYST_TRANSPORTS_SHM_SHM_CLOSER_H
#define TRYST_TRANSPORTS_SHM_SHM_CLOSER_H

#include "shm.h"

/** Close the imports of a peer's region, soon; no copy reads them any more. */
void shm_imports_close(struct shm_rail *rail, struct shm_mapped *mapped);
/** End with the rail: wait up to 2 s for imports that are still to be closed. */
void shm_closer_end(struct shm_rail *rail);

#endif
