/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads the module with the kernels of a memory kind. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_MODULE_H
#define TRYST_PIPELINE_DEVICE_DEVICE_MODULE_H

#include "stage_module.h"

/** Return the kernels of `memory`. The first call loads tryst_stage_<kind>.so: from the
 *  folder tryst/ beside libtryst_pipeline or beside it, else from the folder compiled in,
 *  else from TRYST_MODULE_PATH. A loaded module stays; after a failure the next call
 *  tries again. Any thread. Returns TRYST_OK; with a sentence: TRYST_E_INVALID (no such
 *  kind), TRYST_E_UNSUPPORTED (no such file), TRYST_E_MODULE (found but refused). */
tryst_status device_module_kernels(tryst_memory_kind memory,
                                   const struct device_kernels **kernels_p);

#endif
