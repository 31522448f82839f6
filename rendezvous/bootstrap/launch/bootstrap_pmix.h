/* SPDX-License-Identifier: Apache-2.0 */
/* One text from rank 0 to all others through PMIx, which Open MPI, Slurm and PRRTE
 * provide.
 *
 * One idea: libpmix is loaded when a launcher's variables show that there is a PMIx
 * server, and used once; nothing links it. All of it happens in a separate thread, since
 * none of its calls takes a deadline. Invariant: signal dispositions and the caller's
 * mask are restored; the thread has ended, unless the launcher's server has stopped
 * answering.
 *
 * Compiled only where pmix.h was found (TRYST_HAVE_PMIX). */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_BOOTSTRAP_PMIX_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_BOOTSTRAP_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/log/log.h"
#include "core/text/err.h"

#define BOOTSTRAP_PMIX_TEXT_BYTES 1536

/** Publish `published` as rank 0's text, or, if it is NULL, wait for the text that rank 0
 *  publishes. `text_p` gets the text in either case, `size_p` the number of the job's
 *  ranks. A wait of BOOTSTRAP_WARN_NS is logged.
 *  TRYST_E_BOOTSTRAP (PMIx failed, or the time is over), TRYST_E_NOMEM,
 *  TRYST_E_SYSTEM. */
tryst_status bootstrap_pmix_meet(const char *published, uint64_t timeout_ns,
                                 const struct log *log, struct err *err,
                                 char text_p[BOOTSTRAP_PMIX_TEXT_BYTES], int *size_p);

/** Get text and size from memory; false: no earlier bootstrap_pmix_meet of this process
 *  has succeeded. A process uses PMIx once, because what a client publishes after a
 *  second PMIx_Init does not reach all (PMIx 4.2, shared memory). So all sessions of a
 *  process have the same address of rank 0 and the same token. */
bool bootstrap_pmix_cached(char text_p[BOOTSTRAP_PMIX_TEXT_BYTES], int *size_p);

/** True if PMIx's library loads, or if there is no memory to try. If it does not load,
 *  write ", but " and the reason to `text`. */
bool bootstrap_pmix_usable(char *text, size_t capacity);

#endif
