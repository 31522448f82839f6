/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_text.h
 *  Texts that a trace keeps.
 */
#ifndef TRYST_CORE_LOG_TRACE_TEXT_H
#define TRYST_CORE_LOG_TRACE_TEXT_H

struct trace;

/** Return a copy of `text` that lives until the trace closes; equal texts share one copy.
 *  If the trace has TRACE_TEXTS_MAX texts already, or without memory, returns a fixed
 *  text with the reason; if `trace` is NULL, `text` itself. Takes the trace's lock. */
const char *trace_text(struct trace *trace, const char *text);
/** Free all texts of a trace. No thread may record in it any more. */
void trace_texts_close(struct trace *trace);

#endif
