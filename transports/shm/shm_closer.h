/* SPDX-License-Identifier: Apache-2.0 */
/* Closes imports in a thread. */
#ifndef TRYST_TRANSPORTS_SHM_SHM_CLOSER_H
#define TRYST_TRANSPORTS_SHM_SHM_CLOSER_H

#include "shm.h"

/** Close the imports of a peer's region, which no copy reads any more, in the thread. If
 *  there is no memory or thread for that, close them in this call, which may block. */
void shm_imports_close(struct shm_rail *rail, struct shm_mapped *mapped);
/** End the thread when the rail closes. Wait up to 2 s for it; after that the thread goes
 *  on alone. */
void shm_closer_end(struct shm_rail *rail);

#endif
