/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_SIZED_H
#define TRYST_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TRYST_SIZED_MAX 4096u

#define TRYST_SIZED_HAS(pointer, type, field) \
    ((pointer)->struct_size >= offsetof(type, field) + sizeof((pointer)->field))

static inline size_t tryst_sized_bytes(const void *sized)
{
    return *(const size_t *)sized;
}

static inline bool tryst_sized_is_set(const void *sized)
{
    size_t bytes = tryst_sized_bytes(sized);
    return bytes >= sizeof bytes && bytes <= TRYST_SIZED_MAX;
}

static inline bool tryst_sized_is_current(const void *sized, size_t bytes)
{
    return tryst_sized_bytes(sized) == bytes;
}

static inline bool tryst_sized_read(void *to, size_t to_bytes, const void *from)
{
    if (from && !tryst_sized_is_set(from))
        return false;
    size_t bytes = from ? tryst_sized_bytes(from) : 0;
    for (size_t i = to_bytes; from && i < bytes; i++)
        if (((const char *)from)[i])
            return false;
    memset(to, 0, to_bytes);
    if (from)
        memcpy(to, from, bytes < to_bytes ? bytes : to_bytes);
    *(size_t *)to = to_bytes;
    return true;
}

static inline const void *tryst_sized_view(const void *from, void *room, size_t bytes)
{
    if (from && tryst_sized_is_current(from, bytes))
        return from;
    return tryst_sized_read(room, bytes, from) ? room : NULL;
}

static inline bool tryst_sized_write(void *to, const void *from, size_t from_bytes)
{
    size_t bytes = tryst_sized_bytes(to);
    size_t common = bytes < from_bytes ? bytes : from_bytes;
    if (!tryst_sized_is_set(to))
        return false;
    memcpy((char *)to + sizeof bytes, (const char *)from + sizeof bytes,
           common - sizeof bytes);
    memset((char *)to + common, 0, bytes - common);
    return true;
}

static inline const char *tryst_sized_reason(const void *sized)
{
    if (!tryst_sized_is_set(sized))
        return "struct_size is not set; set it with sizeof";
    return "a field of a later version is set; set it to zero, or use the library that "
           "the program was built for";
}

#endif
