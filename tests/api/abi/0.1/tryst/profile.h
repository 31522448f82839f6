/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_PROFILE_H
#define TRYST_PROFILE_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_profile tryst_profile;

TRYST_API tryst_status tryst_profile_load(const char *path, tryst_profile **profile_p);

TRYST_API tryst_status tryst_profile_parse(const char *text, size_t bytes,
                                           const char *name, tryst_profile **profile_p);

TRYST_API tryst_status tryst_profile_merge(tryst_profile *const *profiles, uint32_t count,
                                           tryst_profile **merged_p);

TRYST_API void tryst_profile_close(tryst_profile *profile);

TRYST_API tryst_status tryst_profile_write(const tryst_profile *profile, char **text_p);

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

typedef enum tryst_profile_order {
    TRYST_PROFILE_FIFO = 0,
    TRYST_PROFILE_BUCKETS = 1,
    TRYST_PROFILE_PRIORITY = 2,
    TRYST_PROFILE_PREEMPT = 3
} tryst_profile_order;

TRYST_API const char *tryst_profile_order_name(tryst_profile_order order);

typedef struct tryst_profile_params {
    size_t struct_size;
    double bytes_per_s;
    double latency_s;
    tryst_profile_order order;
    uint64_t bucket_bytes;
    uint64_t first_bucket_bytes;
    double overhead_s;
    const uint32_t *groups;
} tryst_profile_params;

typedef struct tryst_profile_span {
    double ready_s;
    double start_s;
    double end_s;
} tryst_profile_span;

typedef struct tryst_profile_piece {
    uint32_t node;
    double from_s, to_s;
} tryst_profile_piece;

typedef struct tryst_profile_replayed {
    size_t struct_size;
    double seconds;
    const tryst_profile_span *spans;
    const tryst_profile_piece *pieces;
    uint32_t pieces_count;
} tryst_profile_replayed;

TRYST_API tryst_status tryst_profile_replay(tryst_profile *profile,
                                            const tryst_profile_params *params,
                                            tryst_profile_replayed *replayed_p);

TRYST_API tryst_status tryst_profile_bound(tryst_profile *profile,
                                           const tryst_profile_params *params,
                                           double *seconds_p);

TRYST_API tryst_status tryst_profile_fuse(tryst_profile *profile,
                                          const tryst_profile_params *params,
                                          uint32_t *groups, uint32_t *count_p);

TRYST_API tryst_status tryst_profile_tails(tryst_profile *profile,
                                           const tryst_profile_params *params,
                                           double *tails);

TRYST_END_DECLS

#endif
