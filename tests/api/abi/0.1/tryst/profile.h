/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_PROFILE_H
#define TRYST_PROFILE_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_profile tryst_profile;

TRYST_API tryst_status tryst_profile_load(const char *path, tryst_profile **profile_p);

TRYST_API void tryst_profile_close(tryst_profile *profile);

typedef struct tryst_profile_origin {
    size_t struct_size;
    uint64_t run;
    int32_t rank;
    int32_t size;
} tryst_profile_origin;

TRYST_API tryst_status tryst_profile_origin_get(const tryst_profile *profile,
                                                tryst_profile_origin *origin_p);

typedef struct tryst_profile_node {
    size_t struct_size;
    const char *name;
    bool is_operation;
    double seconds;
    uint64_t bytes;
    const uint32_t *after;
    uint32_t after_count;
    double ready_s, matched_s, first_slice_s, done_s, first_use_s;
} tryst_profile_node;

TRYST_API uint32_t tryst_profile_nodes(const tryst_profile *profile);

TRYST_API tryst_status tryst_profile_node_get(const tryst_profile *profile,
                                              uint32_t index, tryst_profile_node *node_p);

TRYST_API tryst_status tryst_period_begin(tryst_group *group);

#define TRYST_PROFILE_ACTION_MAX 255

TRYST_API tryst_status tryst_profile_action(tryst_ctx *ctx, const char *name);

TRYST_END_DECLS

#endif
