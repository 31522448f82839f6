/* SPDX-License-Identifier: Apache-2.0 */
/* The ABI of a device stage module: the interface between the library and a row of
 * kernels that is loaded at run time.
 *
 * A module exports one symbol, TRYST_STAGE_MODULE_ENTRY, and links no Tryst library. The
 * build computes the ABI id, TRYST_STAGE_ABI_ID, from Tryst's version and a hash of the
 * headers that make the ABI (this one, device_kernels.h, tryst/stage.h, tryst/types.h,
 * tryst/status.h); the library refuses a module with another id. Modules are never
 * unloaded. */
#ifndef TRYST_PIPELINE_DEVICE_STAGE_MODULE_H
#define TRYST_PIPELINE_DEVICE_STAGE_MODULE_H

#include "device_kernels.h"

#define TRYST_STAGE_MODULE_ENTRY "tryst_stage_module_v1"

/** Data that the library passes to a module. abi_id stays the first field in all
 *  versions. */
struct tryst_stage_host {
    const char *abi_id; /**< TRYST_STAGE_ABI_ID of the library */
};

/** The record that a module's entry returns: static data. abi_id stays the first
 *  field. */
struct tryst_stage_module {
    const char *abi_id; /**< TRYST_STAGE_ABI_ID that the module was built with */
    const struct device_kernels *kernels;
};

/** Type of the entry, which starts nothing: kernels->open is the first call that touches
 *  the device. */
typedef const struct tryst_stage_module *(*tryst_stage_module_fn)(
    const struct tryst_stage_host *host);

#endif
