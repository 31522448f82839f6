/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads the module of a memory kind's kernels. */
#ifndef PIPELINE_DEVICE_MODULE_H
#define PIPELINE_DEVICE_MODULE_H

#include "stage_module.h"

/* The kernels of `memory`, loading tryst_stage_<kind>.so when they are first asked for: from the
 * folder tryst/ beside libtryst_pipeline or beside it, else from the folder compiled in, else from
 * TRYST_MODULE_PATH. What was loaded stays; a failure is tried anew by the next call. Any thread.
 * TRYST_OK; with a sentence: TRYST_E_INVALID (no such kind), TRYST_E_UNSUPPORTED (no such file),
 * TRYST_E_MODULE (found but refused). */
tryst_status device_module_kernels(tryst_memory_kind memory,
                                   const device_kernels **kernels_p);

#endif
