/* SPDX-License-Identifier: Apache-2.0 */
/* The only waits of a device stage: until its lanes have ended their queued work, or a
 * deadline has passed. A row of kernels only reports whether a lane is idle.
 *
 * Called between the row's enter and leave, by one thread, while a stage opens, visits
 * parameters or closes. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_FINISH_H
#define TRYST_PIPELINE_DEVICE_DEVICE_FINISH_H

#include "device_kernels.h"

/** Default of timeout_ns, equal to the engine's: longer than any queue of actions
 *  takes. */
#define DEVICE_TIMEOUT_NS (600ull * 1000 * 1000 * 1000)

/** Wait until both lanes are idle, whether their work succeeded or not. False if one is
 *  not idle after the session's timeout_ns (0: DEVICE_TIMEOUT_NS). The session then fails
 *  with TRYST_E_DEADLINE and a sentence that names `what`, unless it has failed before.
 *  Once a session has failed with TRYST_E_DEADLINE, later calls poll the lanes once and
 *  do not wait. */
bool device_session_quiet(struct device_session *session, const char *what);

/** Wait as device_session_quiet does, and return the session's status. */
tryst_status device_session_finish(struct device_session *session, const char *what);

#endif
