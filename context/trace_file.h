/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_file.h
 *  The value of TRYST_TRACE, and the file that it may name.
 */
#ifndef TRYST_CONTEXT_TRACE_FILE_H
#define TRYST_CONTEXT_TRACE_FILE_H

#include "context.h"
#include "core/text/err.h"

/** Return `form` with the rank for each %r, for a file that each rank writes; the caller
 *  frees it. NULL: no memory. */
char *rank_path_make(const char *form, int32_t rank);

/** Read TRYST_TRACE: 1 or 0 (and their words), or a file, which also means 1. Returns
 *  TRYST_OK, or TRYST_E_CONFIG with the reason in `err`. */
tryst_status trace_setting_read(const struct config *config, struct err *err,
                                bool *records_p);

/** Write the trace to the file of TRYST_TRACE, if it names one and the context has had a
 *  group: the context closes. Without %r rank 0 alone writes. Blocks: for the file. A
 *  failure is logged. */
void trace_file_write(tryst_ctx *ctx);

#endif
