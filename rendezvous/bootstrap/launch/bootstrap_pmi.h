/* SPDX-License-Identifier: Apache-2.0 */
/* One text from rank 0 to all others through PMI-1, which MPICH's mpiexec.hydra provides.
 *
 * One idea: the launcher gives each process one end of a socket pair (PMI_FD), on which
 * each request line gets one answer line. An MPI in the same process uses the same
 * descriptor: so between two calls no answer is outstanding, `init` is repeated, and
 * `finalize` is not sent before the process exits. (Measured with Hydra 4.0.2: a second
 * init is answered like the first; finalize closes the socket, so that a later MPI_Init
 * fails; and the first process that exits without finalize, after any request, ends all
 * others.) Invariant: no read without a deadline, and none beyond the newline of the
 * answer. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_BOOTSTRAP_PMI_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_BOOTSTRAP_PMI_H

#include <stdbool.h>
#include <stdint.h>

#include "core/log/log.h"
#include "core/text/err.h"
#include "rendezvous/bootstrap/launch/bootstrap_pmix.h"

/** Publish `published` as rank 0's text, or, if it is NULL, get the text that rank 0
 *  publishes; `text_p` gets the text in either case. `fd` is PMI_FD; it stays open and
 *  stays the launcher's. Blocks, at most `timeout_ns`, until all processes that the
 *  launcher has started have called this (PMI's barrier). A wait of BOOTSTRAP_WARN_NS is
 *  logged. After a failure the descriptor may hold a late answer, so later calls fail.
 *  No other thread may use MPI_Init, MPI_Finalize or MPI_Comm_spawn meanwhile; all ranks
 *  call this before MPI_Init, or all after it.
 *  If this process exits while the descriptor is open, finalize is sent then: unless the
 *  call failed, so that the launcher ends all processes. A process forked meanwhile,
 *  _exit and exec send none. So the launcher does not notice an MPI without MPI_Finalize.
 *  TRYST_E_BOOTSTRAP: `fd` is not a Unix socket; the launcher refuses a request, or its
 *  answer is invalid or late; rank 0 has published nothing. */
tryst_status bootstrap_pmi_meet(int fd, const char *published, uint64_t timeout_ns,
                                const struct log *log, struct err *err,
                                char text_p[BOOTSTRAP_PMIX_TEXT_BYTES]);

/** Get the text from memory; false: no earlier bootstrap_pmi_meet of this process has
 *  succeeded. All sessions of a process have the same address and token, so that a later
 *  session needs no barrier. */
bool bootstrap_pmi_cached(char text_p[BOOTSTRAP_PMIX_TEXT_BYTES]);

#endif
