/* SPDX-License-Identifier: Apache-2.0 */
/* The ABI of a device stage module: what a loadable row of kernels sees of us, and we of it.
 *
 * A module exports one symbol, TRYST_STAGE_MODULE_ENTRY, and links nothing of ours. Its ABI id is
 * our version plus a hash of the headers that make the ABI (this one, device_kernels.h,
 * tryst/stage.h, tryst/types.h, tryst/status.h), computed by the build into TRYST_STAGE_ABI_ID;
 * one that differs is refused. Modules are never unloaded. */
#ifndef PIPELINE_DEVICE_STAGE_MODULE_H
#define PIPELINE_DEVICE_STAGE_MODULE_H

#include "device_kernels.h"

#define TRYST_STAGE_MODULE_ENTRY "tryst_stage_module_v1"

/* What the library offers. The first field is where it is for ever. */
typedef struct tryst_stage_host {
    const char *abi_id; /* TRYST_STAGE_ABI_ID of the library */
} tryst_stage_host;

/* What a module gives back: static data. Its first field, too, is where it is for ever. */
typedef struct tryst_stage_module {
    const char *abi_id; /* TRYST_STAGE_ABI_ID that it was built with */
    const device_kernels *kernels;
} tryst_stage_module;

/* The entry's type. It starts nothing: the device is first touched by kernels->open. */
typedef const tryst_stage_module *(*tryst_stage_module_fn)(const tryst_stage_host *host);

#endif
