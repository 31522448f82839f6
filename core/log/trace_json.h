/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_json.h
 *  A trace as JSON, for chrome://tracing and Perfetto (trace_json.c).
 */
#ifndef CORE_TRACE_JSON_H
#define CORE_TRACE_JSON_H

#include <stdio.h>

#include "trace.h"

/* How this rank's clock stands to the one that the ranks agreed on. */
struct trace_shift {
    bool known;
    int64_t by_ns;     /* added to every time */
    int64_t offset_ns; /* the agreed clock minus this rank's, as it was measured */
    uint64_t error_ns; /* and how far that may be off */
};

/* Writes this rank's events as one document, each on its line (tryst-info --merge-traces joins those of
 * several ranks). Other threads may go on recording. `shift` (may be NULL) moves all times onto the clock
 * that the ranks agreed on, and stands in the document as the process's label. TRYST_OK, or
 * TRYST_E_IO when `out` reports an error. */
tryst_status trace_write_json(struct trace *trace, FILE *out, int rank,
                              const struct trace_shift *shift);

#endif
