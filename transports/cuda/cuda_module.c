/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda module's entry and its memory ops. It has no transport: shm, self and the
 * fabrics move device memory by these ops.
 */
#include "cuda_ipc.h"
#include "cuda_memory.h"
#include "cuda_private.h"
#include "cuda_stream.h"

#include <stdio.h>
#include <string.h>

#include "transports/module.h"

#define TEXT_OF(value)     #value
#define VERSION_OF(number) TEXT_OF(number) /* 13000 is CUDA 13.0 */

static const struct memory_ops row = {
    .name = "cuda",
    .kind = TRYST_MEMORY_CUDA,
    .struct_size = sizeof(struct memory_ops),
    .on_device = true,
    .devices = cuda_devices,
    .describe = cuda_describe,
    .locate = cuda_locate,
    .error_text = cuda_error_text,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .pinned_alloc = cuda_pinned_alloc,
    .pinned_free = cuda_pinned_free,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .copy_async = cuda_copy_async,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .event_record = cuda_event_record,
    .event_query = cuda_event_query,
    .stream_wait = cuda_stream_wait,
    .stream_wait_word = cuda_stream_wait_word,
    .stream_write_word = cuda_stream_write_word,
    .ipc_export = cuda_ipc_export,
    .ipc_import = cuda_ipc_import,
    .ipc_close = cuda_ipc_close,
};

static const struct tryst_module module = {.abi_id = TRYST_MODULE_ABI_ID,
                                           .name = "cuda",
                                           .version = "headers " VERSION_OF(CUDA_VERSION),
                                           .memory = &row};

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
    __attribute__((visibility("default")));

/* Return the module. The driver stays closed until the first call for its devices. */
const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
{
    if (strcmp(host->abi_id, module.abi_id) == 0)
        cuda_driver_name(host->config(host, "cuda_driver"));
    return &module;
}
