/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_text.h
 *  Texts that a trace keeps.
 */
#ifndef TRYST_CORE_LOG_TRACE_TEXT_H
#define TRYST_CORE_LOG_TRACE_TEXT_H

struct trace;

/** Return a copy of `text` that lives until the trace closes; equal texts share one copy.
 *  Returns a fixed text instead at TRACE_TEXTS_MAX texts or without memory. A NULL trace
 *  returns `text` itself. Takes the trace's lock. */
const char *trace_text(struct trace *trace, const char *text);
/** Free all texts of a trace while no thread records. */
void trace_texts_close(struct trace *trace);

#endif
