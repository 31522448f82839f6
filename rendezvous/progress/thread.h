/* SPDX-License-Identifier: Apache-2.0 */
/** @file thread.h
 *  The background thread.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_THREAD_H
#define TRYST_RENDEZVOUS_PROGRESS_THREAD_H

#include "tryst/tryst.h"

/** Start the background thread unless it runs. TRYST_E_SYSTEM, with errno, if it
 *  cannot be created. */
tryst_status progress_thread_start(tryst_ctx *ctx);
void progress_thread_stop(tryst_ctx *ctx);
/** Take the engine from the background thread for a wait: the thread that waits drives
 *  it, so an event wakes this thread and no other one before. */
void progress_thread_displace(tryst_ctx *ctx);
/** The wait is over. The background thread drives again once no wait follows. */
void progress_thread_resume(tryst_ctx *ctx);

#endif
