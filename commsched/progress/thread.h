/* SPDX-License-Identifier: Apache-2.0 */
/** @file thread.h
 *  The background thread.
 */
#ifndef TRYST_COMMSCHED_PROGRESS_THREAD_H
#define TRYST_COMMSCHED_PROGRESS_THREAD_H

#include "tryst/tryst.h"

/** Start the background thread unless it runs. TRYST_E_SYSTEM, with errno, if it
 *  cannot be created. */
tryst_status progress_thread_start(tryst_ctx *ctx);
void progress_thread_stop(tryst_ctx *ctx);

#endif
