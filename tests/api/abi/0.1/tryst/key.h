/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_KEY_H
#define TRYST_KEY_H

#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_view {
    const char *data;
    size_t bytes;
} tryst_view;

typedef struct tryst_parsed_key {
    size_t struct_size;
    tryst_view src_device;
    uint64_t src_incarnation;
    tryst_view dst_device;
    tryst_view edge;
    tryst_view frame_iter;
} tryst_parsed_key;

typedef struct tryst_key_error {
    size_t struct_size;
    size_t position;
    const char *reason;
} tryst_key_error;

#define TRYST_KEY_MAX 1023

TRYST_API tryst_status tryst_key_parse(const char *key, tryst_parsed_key *parsed_p,
                                       tryst_key_error *error_p);

TRYST_API tryst_status tryst_key_build(const tryst_group *group, int src_rank,
                                       int dst_rank, const char *edge, uint64_t frame,
                                       uint64_t iter, char *key, size_t capacity);

TRYST_API tryst_status tryst_key_make(tryst_group *group, int src_rank, int dst_rank,
                                      const char *name, uint64_t index,
                                      tryst_key **key_p);

TRYST_API tryst_status tryst_key_prepare(tryst_group *group, const char *key,
                                         tryst_key **key_p);

TRYST_API const char *tryst_key_string(const tryst_key *key);

TRYST_API void tryst_key_release(tryst_key *key);

TRYST_END_DECLS

#endif
