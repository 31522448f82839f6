/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_json.h
 *  A trace as JSON, for chrome://tracing and Perfetto.
 */
#ifndef TRYST_CORE_LOG_TRACE_JSON_H
#define TRYST_CORE_LOG_TRACE_JSON_H

#include <stdio.h>

#include "core/text/origin.h"
#include "trace.h"

/** Relation of this rank's clock to the clock that the ranks agreed on. */
struct trace_shift {
    bool known;
    int64_t offset_ns; /**< the agreed clock minus this rank's: added to every time */
    uint64_t error_ns; /**< largest error of `offset_ns` */
};

/** Write this rank's events as one document, one event a line (tryst-info --merge-traces
 *  joins those of all ranks). Its first line has the origin, if the run is known: member
 *  "otherData". Other threads may record meanwhile. `shift` (may be
 *  NULL) moves all times onto the clock that the ranks agreed on, and becomes the
 *  process's label in the document. Returns TRYST_OK, or TRYST_E_IO if `out` reports an
 *  error. */
tryst_status trace_write_json(struct trace *trace, FILE *out, const struct origin *origin,
                              const struct trace_shift *shift);

#endif
