/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads the module with the kernels of a memory kind. */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_MODULE_H
#define TRYST_PIPELINE_DEVICE_DEVICE_MODULE_H

#include "stage_module.h"

/** Get the kernels for `memory`. The first call loads tryst_stage_<kind>.so from the
 *  first of these folders that has it: tryst/ beside libtryst_pipeline, the folder of
 *  libtryst_pipeline, those of TRYST_MODULE_PATH or, where it is empty, the folder
 *  compiled in. A loaded module stays; after a failure the next call tries again. Any
 *  thread. Returns TRYST_OK, or, with a sentence in tryst_last_error, TRYST_E_INVALID (no
 *  module for this kind), TRYST_E_UNSUPPORTED (no such file) or TRYST_E_MODULE (found but
 *  refused). */
tryst_status device_module_kernels(tryst_memory_kind memory,
                                   const struct device_kernels **kernels_p);

#endif
