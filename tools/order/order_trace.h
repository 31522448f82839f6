/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_trace.h
 *  Steps as a trace in Chrome's JSON, for Perfetto (ui.perfetto.dev). */
#ifndef TRYST_TOOLS_ORDER_ORDER_TRACE_H
#define TRYST_TOOLS_ORDER_ORDER_TRACE_H

#include "order_draw.h"

/** Write all rows to the trace file of `job`, each as a process. Returns the exit status,
 *  after a message on stderr if it is not 0. */
int order_trace(const struct order_job *job, const struct order_rows *rows);

#endif
