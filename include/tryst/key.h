/* SPDX-License-Identifier: Apache-2.0 */
/** @file key.h
 *  Keys: the names under which a send and a receive meet. Library: libtryst.
 *
 *  The form is TensorFlow's (framework/rendezvous.h, Rendezvous::CreateKey):
 *
 *      src_device;src_incarnation;dst_device;edge_name;frame_id:iter_id
 *      /job:worker/replica:0/task:1/device:CPU:0;00ab…;
 *          /job:worker/replica:0/task:2/device:CPU:0;act3;0:7   (one line)
 *
 *  The device prefix of `src_device` names the producing rank, that of `dst_device` the
 *  consuming one; prefixes are compared by whole path components. The step is not part of
 *  the key.
 *
 *  An edge is one or more bytes, any but ';' and zero: spaces, '/' and UTF-8 are allowed,
 *  and no byte has a meaning. The longest edge is the one with which the whole key has
 *  TRYST_KEY_MAX bytes. Edges that begin with '~' are the library's: a user's key has
 *  none.
 */
#ifndef TRYST_KEY_H
#define TRYST_KEY_H

#include <tryst/types.h>

TRYST_BEGIN_DECLS

/** A run of characters inside the caller's string; not terminated. */
typedef struct tryst_view {
    const char *data;
    size_t bytes;
} tryst_view;

/** A parsed key. All views point into the string that was parsed. */
typedef struct tryst_parsed_key {
    size_t struct_size;
    tryst_view src_device;
    uint64_t src_incarnation;
    tryst_view dst_device;
    tryst_view edge;
    tryst_view frame_iter; /**< opaque: compared bytewise, never interpreted */
} tryst_parsed_key;

/** Where and why a key does not parse. `reason` is a static string. */
typedef struct tryst_key_error {
    size_t struct_size;
    size_t position; /**< byte offset of the first character that is wrong */
    const char *reason;
} tryst_key_error;

/** Longest key, in bytes without the terminator. */
#define TRYST_KEY_MAX 1023

/** Parse `key` (a terminated string).
 *
 *  Allocates nothing; views live as long as the caller's string. The grammar is
 *  TensorFlow's but stricter: 1 to 16 hexadecimal digits of incarnation, no empty device,
 *  no empty edge, exactly five parts, numbers of a device up to 2147483647. Legacy device
 *  names such as "/cpu:0" parse, and so do the library's own keys.
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK         `*parsed_p` is filled
 *           TRYST_E_KEY      `*error_p` (if not NULL) gives place and reason
 *           TRYST_E_INVALID  the struct_size of an output is not set
 */
TRYST_API tryst_status tryst_key_parse(const char *key, tryst_parsed_key *parsed_p,
                                       tryst_key_error *error_p);

/** Write the canonical key for `edge` from rank `src_rank` to rank `dst_rank` of `group`.
 *
 *  Devices are the ranks' registered prefixes plus "/device:CPU:0", the incarnation is
 *  that of the source. At most `capacity` bytes including the terminator are written.
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK         `key` holds the terminated key
 *           TRYST_E_INVALID  a rank is out of range, `edge` is empty or holds ';', a
 *                            prefix does not end with its task, the key is longer than
 *                            TRYST_KEY_MAX (never where the edge and both prefixes have
 *                            less than 256 bytes each), or `capacity` is too small
 *                            (TRYST_KEY_MAX + 1 always suffices)
 *           TRYST_E_KEY      `edge` begins with '~'
 *           TRYST_E_FORKED
 */
TRYST_API tryst_status tryst_key_build(const tryst_group *group, int src_rank,
                                       int dst_rank, const char *edge, uint64_t frame,
                                       uint64_t iter, char *key, size_t capacity);

/** Make a prepared key from two ranks and a name; `index` distinguishes the keys of one
 *  name (a micro-batch, a layer). The key equals the one that tryst_key_build writes with
 *  `name` as edge, frame 0 and `index` as iteration, at both ends.
 *
 *  Owns:    the caller owns `*key_p`, for tryst_key_release; `name` is copied.
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK
 *           TRYST_E_INVALID  a NULL, a rank out of range, `name` is empty, holds ';' or
 *                            makes the key longer than TRYST_KEY_MAX (a name of 255 bytes
 *                            always fits)
 *           TRYST_E_KEY      `name` begins with '~'
 *           TRYST_E_NOMEM, TRYST_E_FORKED */
TRYST_API tryst_status tryst_key_make(tryst_group *group, int src_rank, int dst_rank,
                                      const char *name, uint64_t index,
                                      tryst_key **key_p);

/** Parse, check and hash `key` once, for use in many steps of `group`.
 *
 *  Owns:    the caller owns `*key_p` and releases it by tryst_key_release; operations
 *           keep what they need, so it may be released while they are pending.
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK
 *           TRYST_E_KEY    does not parse, names no rank of the group, or has an edge
 *                          that begins with '~'
 *           TRYST_E_NOMEM, TRYST_E_FORKED
 */
TRYST_API tryst_status tryst_key_prepare(tryst_group *group, const char *key,
                                         tryst_key **key_p);

/** Return the prepared key's string, valid until the key is released. "" for NULL. */
TRYST_API const char *tryst_key_string(const tryst_key *key);

/** Release a prepared key. NULL is allowed. */
TRYST_API void tryst_key_release(tryst_key *key);

TRYST_END_DECLS

#endif
