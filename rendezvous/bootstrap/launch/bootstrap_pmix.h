/* SPDX-License-Identifier: Apache-2.0 */
/* One sentence from rank 0 to all others through PMIx, which Open MPI, Slurm and PRRTE speak.
 *
 * One idea: libpmix is loaded when a launcher's variables show that there is a PMIx server,
 * used once, and let go; nothing of ours links it. All of it happens in a thread of its own,
 * since none of its calls knows a deadline.
 * Invariant: signal dispositions, and the caller's mask, are as they were; the thread has
 * ended, unless the launcher's server has stopped answering.
 * Callers: bootstrap_env.c. Compiled only where pmix.h was found (TRYST_HAVE_PMIX). */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_PMIX_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text/err.h"

#define BOOTSTRAP_PMIX_TEXT_BYTES 1536

/* With `tell` (rank 0): publish it. Without: wait for what rank 0 publishes. `text_p` gets the text
 * in either case, `size_p` the number of ranks of the job.
 * TRYST_E_BOOTSTRAP (PMIx failed, or the time is over), TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status bootstrap_pmix_meet(const char *tell, uint64_t timeout_ns, struct err *err,
                                 char text_p[BOOTSTRAP_PMIX_TEXT_BYTES], int *size_p);

/* The same from memory, once a meeting of this process has ended well. A process asks once: what
 * is published after a client has come again is not seen by all (PMIx 4.2, shared memory). So
 * rank 0 serves at the same address, and the token is the same, in all sessions of a process. */
bool bootstrap_pmix_heard(char text_p[BOOTSTRAP_PMIX_TEXT_BYTES], int *size_p);

/* Whether PMIx's library loads. False adds ", but …" to what `text` is. */
bool bootstrap_pmix_usable(char *text, size_t capacity);

#endif
