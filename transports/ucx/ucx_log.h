/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_log.h
 *  Where UCX's log lines go. */
#ifndef TRYST_TRANSPORTS_UCX_UCX_LOG_H
#define TRYST_TRANSPORTS_UCX_UCX_LOG_H

#include "ucx_private.h"

/** Begin and end the time in which lines of UCX's own thread may go to the log of the
 *  rail's context. */
void ucx_log_open(struct ucx_rail *rail);
void ucx_log_close(struct ucx_rail *rail);
/** Install the log handler, once, when the module is loaded. */
void ucx_log_setup(void);

#endif
