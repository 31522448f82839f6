/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_DEVICE_H
#define TRYST_DEVICE_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_device tryst_device;

typedef struct tryst_device_info {
    size_t struct_size;
    tryst_memory_kind memory;
    int32_t ordinal;
    uint64_t bytes;
    uint64_t bytes_free;
    int32_t version_major;
    int32_t version_minor;
    char name[64];
    char bus_id[20];
} tryst_device_info;

TRYST_API tryst_status tryst_device_count(tryst_ctx *ctx, tryst_memory_kind memory,
                                          int32_t *count_p, char *text, size_t capacity);

TRYST_API tryst_status tryst_device_open(tryst_ctx *ctx, tryst_memory_kind memory,
                                         int32_t ordinal, tryst_device **device_p);
TRYST_API void tryst_device_close(tryst_device *device);

TRYST_API tryst_status tryst_device_describe(const tryst_device *device,
                                             tryst_device_info *info_p);

TRYST_API const char *tryst_device_error(const tryst_device *device);

TRYST_API tryst_status tryst_stream_open(const tryst_device *device, bool urgent,
                                         void **stream_p);
TRYST_API void tryst_stream_close(const tryst_device *device, void *stream);

TRYST_API tryst_status tryst_event_open(const tryst_device *device, void **event_p);
TRYST_API void tryst_event_close(const tryst_device *device, void *event);
TRYST_API tryst_status tryst_event_record(const tryst_device *device, void *stream,
                                          void *event);
TRYST_API tryst_status tryst_event_test(const tryst_device *device, void *event);
TRYST_API tryst_status tryst_stream_wait(const tryst_device *device, void *stream,
                                         void *event);

TRYST_API tryst_status tryst_copy_async(const tryst_device *device, void *stream,
                                        void *to, const void *from, size_t bytes);

TRYST_API tryst_status tryst_pinned_alloc(const tryst_device *device, size_t bytes,
                                          void **data_p);
TRYST_API void tryst_pinned_free(const tryst_device *device, void *data, size_t bytes);

TRYST_END_DECLS

#endif
