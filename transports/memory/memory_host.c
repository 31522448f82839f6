/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published memory ops of all kinds, and the host's, which are published from the
 * start: one device, on which every call completes at once.
 *
 * Invariant: published ops stay published. The host's streams and events are NULL, and no
 * work is ever under way.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "transports/memory/memfd.h"
#include "transports/memory/memory_ops.h"

static tryst_status host_devices(int32_t *count_p, char *text)
{
    (void)snprintf(text, MEMORY_TEXT_MAX, "this machine's memory");
    *count_p = 1;
    return TRYST_OK;
}

static tryst_status host_describe(int32_t device, tryst_device_info *info_p)
{
    if (device != 0)
        return TRYST_E_INVALID;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    (void)snprintf(info_p->name, sizeof info_p->name, "host");
    info_p->bytes = page * (uint64_t)sysconf(_SC_PHYS_PAGES);
    info_p->bytes_free = page * (uint64_t)sysconf(_SC_AVPHYS_PAGES);
    return TRYST_OK;
}

static tryst_status host_locate(const void *data, int32_t *device_p)
{
    (void)data;
    *device_p = 0;
    return TRYST_OK;
}

static const char *host_error_text(void)
{
    return "";
}

static size_t page_round(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return bytes > SIZE_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

/* Allocate a memory file and map it. If that fails, allocate plain memory, which peers
 * cannot map. */
static tryst_status host_alloc(int32_t device, size_t bytes, void **data_p, int *fd_p)
{
    size_t size = page_round(bytes ? bytes : 1);
    int fd = -1;
    (void)device;
    if (size == 0)
        return TRYST_E_NOMEM;
    (void)memfd_create_sealed("tryst-region", size, &fd);
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (data == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return TRYST_E_NOMEM;
    }
    if (fd >= 0)
        memfd_seal_writes(fd); /* peers may only read it */
    *data_p = data;
    *fd_p = fd;
    return TRYST_OK;
}

static void host_free(int32_t device, void *data, size_t bytes, int fd)
{
    (void)device;
    munmap(data, page_round(bytes ? bytes : 1));
    if (fd >= 0)
        close(fd);
}

static tryst_status host_pinned_alloc(int32_t device, size_t bytes, void **data_p)
{
    size_t size = page_round(bytes ? bytes : 1);
    (void)device;
    void *data = size ? mem_alloc_aligned((size_t)sysconf(_SC_PAGESIZE), size) : NULL;
    if (!data)
        return TRYST_E_NOMEM;
    *data_p = data;
    return TRYST_OK;
}

static void host_pinned_free(int32_t device, void *data, size_t bytes)
{
    (void)device;
    (void)bytes;
    mem_free(data);
}

static tryst_status host_pin(int32_t device, void *data, size_t bytes)
{
    (void)device;
    (void)data;
    (void)bytes;
    return TRYST_OK;
}

static void host_unpin(int32_t device, void *data, size_t bytes)
{
    (void)device;
    (void)data;
    (void)bytes;
}

static tryst_status host_stream_open(int32_t device, bool urgent, void **stream_p)
{
    (void)device;
    (void)urgent;
    *stream_p = NULL;
    return TRYST_OK;
}

static tryst_status host_event_open(int32_t device, void **event_p)
{
    (void)device;
    *event_p = NULL;
    return TRYST_OK;
}

/* Close a stream or an event. */
static void host_close(int32_t device, void *nothing)
{
    (void)device;
    (void)nothing;
}

static tryst_status host_copy_async(int32_t device, void *stream, void *dst,
                                    const void *src, size_t bytes)
{
    (void)device;
    (void)stream;
    memcpy(dst, src, bytes);
    return TRYST_OK;
}

static tryst_status host_event_record(int32_t device, void *stream, void *event)
{
    (void)device;
    (void)stream;
    (void)event;
    return TRYST_OK;
}

static tryst_status host_event_query(int32_t device, void *event)
{
    (void)device;
    (void)event;
    return TRYST_OK;
}

/* Check the word. Acquire: pairs with the release store of the word. */
static tryst_status host_stream_wait_word(int32_t device, void *stream,
                                          const uint32_t *word, uint32_t value)
{
    (void)device;
    (void)stream;
    uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    return (int32_t)(now - value) >= 0 ? TRYST_OK : TRYST_E_UNSUPPORTED;
}

/* Write the word. Release: pairs with the acquire load of its reader. */
static tryst_status host_stream_write_word(int32_t device, void *stream, uint32_t *word,
                                           uint32_t value)
{
    (void)device;
    (void)stream;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return TRYST_OK;
}

static const struct memory_ops memory_host = {
    .name = "host",
    .kind = TRYST_MEMORY_HOST,
    .struct_size = sizeof(struct memory_ops),
    .devices = host_devices,
    .describe = host_describe,
    .locate = host_locate,
    .error_text = host_error_text,
    .alloc = host_alloc,
    .free = host_free,
    .pinned_alloc = host_pinned_alloc,
    .pinned_free = host_pinned_free,
    .pin = host_pin,
    .unpin = host_unpin,
    .stream_open = host_stream_open,
    .stream_close = host_close,
    .copy_async = host_copy_async,
    .event_open = host_event_open,
    .event_close = host_close,
    .event_record = host_event_record,
    .event_query = host_event_query,
    .stream_wait = host_event_record,
    .stream_wait_word = host_stream_wait_word,
    .stream_write_word = host_stream_write_word,
};

/* ---- published memory ops ---- */

enum { KINDS = 2 };

/* Stored with release, loaded with acquire: ops that are visible are complete. */
static _Atomic(const struct memory_ops *) rows[KINDS] = {&memory_host};

const struct memory_ops *memory_ops_get(tryst_memory_kind kind)
{
    if ((unsigned)kind >= KINDS)
        return NULL;
    return atomic_load_explicit(&rows[kind], memory_order_acquire);
}

void memory_ops_set(const struct memory_ops *ops)
{
    atomic_store_explicit(&rows[ops->kind], ops, memory_order_release);
}
