/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_text.h
 *  Texts that a trace keeps (trace_text.c).
 */
#ifndef CORE_TRACE_TEXT_H
#define CORE_TRACE_TEXT_H

struct trace;

/* `text`, kept until the trace closes; each different one once, and a few words in its place
 * where there are too many or no memory is left. NULL: `text` itself. Takes the trace's lock. */
const char *trace_text(struct trace *trace, const char *text);
/* No thread may be recording. */
void trace_texts_close(struct trace *trace);

#endif
