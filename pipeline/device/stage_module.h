/* SPDX-License-Identifier: Apache-2.0 */
/* The ABI of a device stage module: the interface between a loadable row of kernels and
 * the library.
 *
 * A module exports one symbol, TRYST_STAGE_MODULE_ENTRY, and links no Tryst library. Its
 * ABI id is our version plus a hash of the headers that make the ABI (this one,
 * device_kernels.h, tryst/stage.h, tryst/types.h, tryst/status.h), computed by the build
 * into TRYST_STAGE_ABI_ID; a module with another id is refused. Modules are never
 * unloaded. */
#ifndef TRYST_PIPELINE_DEVICE_STAGE_MODULE_H
#define TRYST_PIPELINE_DEVICE_STAGE_MODULE_H

#include "device_kernels.h"

#define TRYST_STAGE_MODULE_ENTRY "tryst_stage_module_v1"

/** Data that the library gives to a module. The first field never moves. */
struct tryst_stage_host {
    const char *abi_id; /**< TRYST_STAGE_ABI_ID of the library */
};

/** A module's record: static data. Its first field never moves either. */
struct tryst_stage_module {
    const char *abi_id; /**< TRYST_STAGE_ABI_ID that the module was built with */
    const struct device_kernels *kernels;
};

/** Type of the entry, which starts nothing: kernels->open is the first call that touches
 *  the device. */
typedef const struct tryst_stage_module *(*tryst_stage_module_fn)(
    const struct tryst_stage_host *host);

#endif
