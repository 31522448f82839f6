/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_COLL_H
#define TRYST_COLL_H

#include <tryst/tryst.h>

TRYST_BEGIN_DECLS

#define TRYST_COLL_NAME_MAX 400

TRYST_API tryst_status tryst_allreduce(tryst_step *step, const char *name,
                                       const tryst_tensor *in, const tryst_tensor *out,
                                       tryst_reduce_op reduce,
                                       const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_reduce(tryst_step *step, const char *name,
                                    const tryst_tensor *in, const tryst_tensor *out,
                                    tryst_reduce_op reduce, int root,
                                    const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_broadcast(tryst_step *step, const char *name,
                                       const tryst_tensor *tensor, int root,
                                       const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_barrier(tryst_step *step, const char *name,
                                     const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_allgather(tryst_step *step, const char *name,
                                       const tryst_tensor *in, const tryst_tensor *out,
                                       const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_allgatherv(tryst_step *step, const char *name,
                                        const tryst_tensor *in, const tryst_tensor *out,
                                        const uint64_t *out_counts,
                                        const uint64_t *out_offsets,
                                        const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_reduce_scatter(
    tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out,
    tryst_reduce_op reduce, const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_reduce_scatterv(
    tryst_step *step, const char *name, const tryst_tensor *in, const uint64_t *in_counts,
    const uint64_t *in_offsets, const tryst_tensor *out, tryst_reduce_op reduce,
    const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_alltoall(tryst_step *step, const char *name,
                                      const tryst_tensor *in, const tryst_tensor *out,
                                      const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_alltoallv(
    tryst_step *step, const char *name, const tryst_tensor *in, const uint64_t *in_counts,
    const uint64_t *in_offsets, const tryst_tensor *out, const uint64_t *out_counts,
    const uint64_t *out_offsets, const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_gather(tryst_step *step, const char *name,
                                    const tryst_tensor *in, const tryst_tensor *out,
                                    int root, const tryst_op_params *params,
                                    tryst_op **op_p);

TRYST_API tryst_status tryst_gatherv(tryst_step *step, const char *name,
                                     const tryst_tensor *in, const tryst_tensor *out,
                                     const uint64_t *out_counts,
                                     const uint64_t *out_offsets, int root,
                                     const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_scatter(tryst_step *step, const char *name,
                                     const tryst_tensor *in, const tryst_tensor *out,
                                     int root, const tryst_op_params *params,
                                     tryst_op **op_p);

TRYST_API tryst_status tryst_scatterv(tryst_step *step, const char *name,
                                      const tryst_tensor *in, const uint64_t *in_counts,
                                      const uint64_t *in_offsets, const tryst_tensor *out,
                                      int root, const tryst_op_params *params,
                                      tryst_op **op_p);

typedef struct tryst_coll tryst_coll;

typedef enum tryst_coll_kind {
    TRYST_COLL_INVALID = 0,
    TRYST_COLL_ALLREDUCE = 1,
    TRYST_COLL_REDUCE = 2,
    TRYST_COLL_BROADCAST = 3,
    TRYST_COLL_BARRIER = 4,
    TRYST_COLL_ALLGATHER = 5,
    TRYST_COLL_REDUCE_SCATTER = 6,
    TRYST_COLL_ALLTOALL = 7,
    TRYST_COLL_GATHER = 8,
    TRYST_COLL_SCATTER = 9
} tryst_coll_kind;

typedef struct tryst_coll_params {
    size_t struct_size;
    tryst_coll_kind kind;
    tryst_reduce_op reduce;
    uint64_t count;
    tryst_dtype dtype;
    int32_t root;
    const char *name;
    const uint64_t *in_counts;
    const uint64_t *in_offsets;
    const uint64_t *out_counts;
    const uint64_t *out_offsets;
    const tryst_subgroup *subgroup;
} tryst_coll_params;

TRYST_API tryst_status tryst_coll_prepare(tryst_group *group,
                                          const tryst_coll_params *coll_params,
                                          tryst_coll **coll_p);

TRYST_API tryst_status tryst_coll_start(tryst_step *step, tryst_coll *coll,
                                        const tryst_tensor *in, const tryst_tensor *out,
                                        const tryst_op_params *params, tryst_op **op_p);

TRYST_API void tryst_coll_release(tryst_coll *coll);

typedef struct tryst_subgroup_params {
    size_t struct_size;
    uint64_t epoch;
    uint32_t count;
    const int32_t *members;
} tryst_subgroup_params;

TRYST_API tryst_status tryst_subgroup_open(tryst_group *group,
                                           const tryst_subgroup_params *subgroup_params,
                                           tryst_subgroup **subgroup_p);
TRYST_API int tryst_subgroup_rank(const tryst_subgroup *subgroup);
TRYST_API int tryst_subgroup_size(const tryst_subgroup *subgroup);
TRYST_API int tryst_subgroup_member(const tryst_subgroup *subgroup, int number);
TRYST_API void tryst_subgroup_close(tryst_subgroup *subgroup);

typedef struct tryst_coll_info {
    size_t struct_size;
    double bound_seconds;
    uint64_t planned_bytes_per_s;
    uint32_t trees;
    uint32_t slice_bytes;
} tryst_coll_info;

TRYST_API tryst_status tryst_coll_estimate(tryst_group *group,
                                           const tryst_coll_params *coll_params,
                                           tryst_coll_info *info);

TRYST_API tryst_status tryst_coll_tree(tryst_group *group,
                                       const tryst_coll_params *coll_params,
                                       uint32_t tree, bool is_up, int32_t *parents);

typedef struct tryst_coll_order {
    size_t struct_size;
    uint32_t trees;
    uint32_t reserved;
    uint64_t first;
    uint64_t count;
} tryst_coll_order;

TRYST_API tryst_status tryst_coll_order_get(tryst_group *group,
                                            const tryst_coll_params *coll_params,
                                            const tryst_subgroup_params *members,
                                            uint32_t tree, tryst_coll_order *order,
                                            int32_t *parents);

TRYST_END_DECLS

#endif
