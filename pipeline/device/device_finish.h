/* SPDX-License-Identifier: Apache-2.0 */
/* The only waits of a device stage: for its lanes to come to the end of what was queued, with a
 * deadline. A row only tells whether a lane is idle.
 *
 * Called between the row's enter and leave, by one thread: opening, looking at parameters, closing. */
#ifndef PIPELINE_DEVICE_FINISH_H
#define PIPELINE_DEVICE_FINISH_H

#include "device_kernels.h"

/* As the engine's own default: longer than any queue of actions takes. */
#define DEVICE_TIMEOUT_NS (600ull * 1000 * 1000 * 1000)

/* Wait until both lanes are idle, whether their work went well or not. False: after the session's
 * timeout_ns (0: DEVICE_TIMEOUT_NS) one still is not; the session then has failed with TRYST_E_DEADLINE and a sentence that
 * names `what` was waited for. A session that has failed so is not waited for again. */
bool device_session_quiet(device_session *session, const char *what);

/* The same, and then the session's status. */
tryst_status device_session_finish(device_session *session, const char *what);

#endif
