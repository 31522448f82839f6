/* SPDX-License-Identifier: Apache-2.0 */
/** @file sized.h
 *  Structs that grow: one rule for all of Tryst's headers. Header-only; for libtryst,
 *  libtryst_pipeline, and stages of the caller's own (tryst/stage.h).
 *
 *  A struct of Tryst begins with `size_t struct_size`. Later versions append fields and
 *  never move one, so programs and libraries of different versions work together:
 *
 *   input     The caller sets struct_size to sizeof. The library takes a shorter struct
 *             (a program of an earlier version) as if the missing fields were zero, and a
 *             longer one (of a later version) if the fields that this library does not
 *             have are zero. Anything else is TRYST_E_INVALID, as is a size below
 *             sizeof(size_t) or above TRYST_SIZED_MAX.
 *   output    The caller sets struct_size to sizeof before the call. The library writes
 *             that many bytes at most, zeroes fields of a later version, and leaves
 *             struct_size unchanged. A size outside the same two bounds is
 *             TRYST_E_INVALID.
 *   callback  The library sets struct_size in structs that it gives to callbacks, and in
 *             structs that it allocates: a field of a later header exists if
 *             TRYST_SIZED_HAS is true.
 *
 *  Tables of functions (tryst_stage_ops) and tryst_stage_info, which a caller's struct
 *  contains, are inputs with a higher lower bound: they have at least all fields of
 *  version 0.1.
 *
 *  Structs without struct_size never change: tryst_view, tryst_layers, tryst_stage, and
 *  the elements of arrays (tryst_action, tryst_span, tryst_place_pair, …). The structs of
 *  tryst/live.h have a layout number.
 */
#ifndef TRYST_SIZED_H
#define TRYST_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/** The largest accepted struct_size: a larger value is one that was never set. */
#define TRYST_SIZED_MAX 4096u

/** True if `*pointer`, a `type`, is long enough to hold `field`. */
#define TRYST_SIZED_HAS(pointer, type, field) \
    ((pointer)->struct_size >= offsetof(type, field) + sizeof((pointer)->field))

/** Return the struct_size of `sized`, its first member. */
static inline size_t tryst_sized_bytes(const void *sized)
{
    return *(const size_t *)sized;
}

/** True if `sized` has a struct_size within the bounds. */
static inline bool tryst_sized_is_set(const void *sized)
{
    size_t bytes = tryst_sized_bytes(sized);
    return bytes >= sizeof bytes && bytes <= TRYST_SIZED_MAX;
}

/** True if the struct_size of `sized` is this version's, `bytes`: nothing to convert. */
static inline bool tryst_sized_is_current(const void *sized, size_t bytes)
{
    return tryst_sized_bytes(sized) == bytes;
}

/** Copy an input struct of any version to `to`, a struct of this version with `to_bytes`
 *  bytes. Missing fields become zero (`from` NULL: all fields). Returns false, and
 *  changes nothing, if struct_size is out of bounds or a field of a later version is not
 *  zero. */
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

/** Return `from` itself if its struct_size is this version's, `bytes`; else a copy in
 *  `room`, as by tryst_sized_read. NULL where tryst_sized_read refuses. */
static inline const void *tryst_sized_view(const void *from, void *room, size_t bytes)
{
    if (from && tryst_sized_is_current(from, bytes))
        return from;
    return tryst_sized_read(room, bytes, from) ? room : NULL;
}

/** Copy `from`, a struct of this version with `from_bytes` bytes, to an output struct of
 *  any version. Returns false, and changes nothing, for a struct_size out of bounds. */
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

/** Return the reason why tryst_sized_read or tryst_sized_write refused `sized`.
 *  Static. */
static inline const char *tryst_sized_reason(const void *sized)
{
    if (!tryst_sized_is_set(sized))
        return "struct_size is not set; set it with sizeof";
    return "a field of a later version is set; set it to zero, or use the library that "
           "the program was built for";
}

#endif
