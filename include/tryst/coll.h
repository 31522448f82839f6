/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll.h
 *  Collectives: all ranks of a group reduce, spread or exchange tensors. Library:
 *  libtryst.
 *
 *  A collective has a name. The n-th use of a name in a step meets the n-th use of that
 *  name in the same step on the other ranks, so ranks submit in any order, from any
 *  thread, mixed with sends and receives. All ranks of the group take part, or those of a
 *  subgroup. A name has 1 to TRYST_COLL_NAME_MAX bytes, any but ';' and zero; names that
 *  begin with "~tryst/" are the library's, and refused. Names of collectives and edges of
 *  keys never collide.
 *
 *  A tensor is cut into ranges, one for each tree of the group's plan. A range goes up
 *  its tree slice by slice: each rank adds its children's slices to its own and sends the
 *  sum to its parent. The result goes down the tree. Up to eight ranks of one host send
 *  small terms to each other instead, and all add them. Each rank adds in the plan's
 *  order and rounds after each addition, so the result has the same bits on all ranks,
 *  for every order of arrival and from run to run.
 *
 *  Rules of all collectives:
 *  - Operation, count, dtype, reduction and root are the same on all ranks. A difference
 *    ends the operation on every rank with TRYST_E_MISMATCH; only ranks that completed
 *    their part of a reduce or broadcast before then keep their result. A difference is
 *    not found between calls that have no transfer in common: each rank then waits until
 *    its deadline, or forever without one. This happens if ranks name different roots;
 *    for a broadcast or all-gather against a reduce or reduce-scatter (unless one of them
 *    is carried out as an all-reduce, see Costs); for all-to-all, gather or scatter
 *    against a kind that is none of these; and for gather against scatter.
 *  - An `in` that is NULL or has the data of `out` means in place: `out` then holds this
 *    rank's own term. Any other overlap of `in` and `out` is TRYST_E_INVALID.
 *  - Tensors are in host memory or on devices, on each rank as it likes. Sums are made by
 *    the host, so their bits do not depend on where the tensors are. A device tensor
 *    needs host memory of its size until the operation is complete; its bytes are copied
 *    slice by slice while others travel, by a thread of the library. `in` is not read,
 *    and `out` not written, before the tensor's `ready_event` has passed. Of a tensor in
 *    host memory `ready_event` is an event of the CUDA device `device`.
 *  - `params` are those of a transfer: priority, TRYST_OP_BACKGROUND, deadline, callback;
 *    and `factor`, this rank's, of TRYST_REDUCE_PREMULTIPLIED_SUM. Each rank's priority
 *    counts for that rank alone: give all ranks the same one. With TRYST_AUTO_PRIORITY=1
 *    a collective without a priority gets one from the recorded steps.
 *  - tryst_op_cancel, or the deadline, of one rank's operation ends the collective on all
 *    ranks with that cause. The cause travels along the tree, so ranks behind a rank that
 *    has not submitted the collective end when that rank submits it or closes the step
 *    (TRYST_E_CLOSED), or by deadlines of their own. A rank that dies ends it with
 *    TRYST_E_PEER, one that leaves the group with TRYST_E_LEFT; tryst_error.origin_rank
 *    names the rank. Later collectives with it end at once with the same cause, from when
 *    this rank has no living connection to it (tryst_peer_info.alive): reports of other
 *    ranks alone end the collective that they concern.
 *    Where a deadline passed, and on each rank that this failure reaches, the text names
 *    a neighbour in the plan's trees that has sent nothing, if there is one; so a rank
 *    that never joined is named by its neighbours. After a failure the contents of `out`
 *    are undefined. All-to-all, gather and scatter exchange blocks between pairs: a
 *    failure ends them on the ranks that still exchange a block with the rank that
 *    failed. A barrier, or an all-reduce of up to TRYST_EAGER_MAX bytes, completes on a
 *    rank that has the result, even if another rank fails later.
 *  - Where ranks are on several hosts, the first collective starts the library's
 *    progress thread (TRYST_PROGRESS_THREAD), because each rank moves the others' bytes
 *    too. On one host a rank that makes no progress delays the others.
 */
#ifndef TRYST_COLL_H
#define TRYST_COLL_H

#include <tryst/tryst.h>

TRYST_BEGIN_DECLS

/** Longest name of a collective, in bytes without the terminator. */
#define TRYST_COLL_NAME_MAX 400

/** Reduce `in` of all ranks with `reduce` and leave the result in every rank's `out`.
 *
 *  `in` and `out` have the same dtype and count, which may be 0. tryst_reduce_op lists
 *  the dtypes and reductions that go together.
 *
 *  Owns:    the bytes of `in` and `out` are the library's until completion: `in` may be
 *           read meanwhile, `out` not. `name` and both structs are copied. The caller
 *           releases `*op_p`; `op_p` NULL detaches at once, as tryst_op_release does.
 *  Thread:  any. Never blocks, never returns TRYST_AGAIN.
 *  Returns: TRYST_OK             submitted; the outcome arrives with the operation
 *           TRYST_E_INVALID      name, tensors, params, or a reduction that the dtype
 *                                does not have
 *           TRYST_E_UNSUPPORTED, TRYST_E_MODULE
 *                                no driver for the memory of a tensor
 *           TRYST_E_SYSTEM       the progress thread, or for device tensors the thread
 *                                that copies, could not be started
 *           TRYST_E_ABORTED      `step` was aborted; tryst_step_status has the reason
 *           TRYST_E_NOMEM, TRYST_E_FORKED, TRYST_E_CONTEXT
 *  The operation ends with
 *           TRYST_OK             `out` holds the result, and is the caller's again
 *           TRYST_E_MISMATCH     ranks differ; the text has the values of two neighbours
 *           TRYST_E_PEER, TRYST_E_LEFT
 *                                a rank died or left: tryst_error.origin_rank
 *           TRYST_E_UNREACHABLE, TRYST_E_HANDSHAKE, TRYST_E_PROTOCOL
 *                                no connection between two neighbours:
 *                                tryst_error.origin_rank
 *           TRYST_E_CLOSED       a rank closed the step without its part
 *           TRYST_E_CANCELED, TRYST_E_DEADLINE, TRYST_E_ABORTED, TRYST_E_NOMEM,
 *           TRYST_E_CONTEXT
 *           TRYST_E_SYSTEM       a device failed; tryst_error.origin_rank
 */
TRYST_API tryst_status tryst_allreduce(tryst_step *step, const char *name,
                                       const tryst_tensor *in, const tryst_tensor *out,
                                       tryst_reduce_op reduce,
                                       const tryst_op_params *params, tryst_op **op_p);

/** Reduce `in` of all ranks with `reduce` into `out` of rank `root`.
 *
 *  At the root as tryst_allreduce, in place too. On the other ranks `in` is required and
 *  stays unchanged, and `out` is ignored (it may be NULL).
 *
 *  Owns, Thread, Returns, ends: as tryst_allreduce; TRYST_E_INVALID also for a root that
 *           is not a rank of the group. The operation ends when this rank's part is done;
 *           when it ends on another rank, the root may not have the result yet.
 */
TRYST_API tryst_status tryst_reduce(tryst_step *step, const char *name,
                                    const tryst_tensor *in, const tryst_tensor *out,
                                    tryst_reduce_op reduce, int root,
                                    const tryst_op_params *params, tryst_op **op_p);

/** Copy `tensor` of rank `root` to `tensor` of all other ranks.
 *
 *  Owns, Thread, Returns, ends: as tryst_reduce. At the root the bytes are only read.
 */
TRYST_API tryst_status tryst_broadcast(tryst_step *step, const char *name,
                                       const tryst_tensor *tensor, int root,
                                       const tryst_op_params *params, tryst_op **op_p);

/** Complete when every rank of the group has submitted this barrier.
 *
 *  Thread, Returns, ends: as tryst_allreduce.
 */
TRYST_API tryst_status tryst_barrier(tryst_step *step, const char *name,
                                     const tryst_op_params *params, tryst_op **op_p);

/* ------------------------------------------------------------------------------------- *
 *  Blocks: one for each rank of the group.
 *
 *  A tensor of equal blocks has the group's size times a block's elements, rank 0's block
 *  first. The forms that end in `v` take an array of counts, one for each rank, in
 *  elements; and an array of offsets into the tensor, in elements (NULL: the blocks
 *  follow one another). Both arrays are read during the call. Blocks of one tensor do not
 *  overlap, and a tensor of such blocks may be longer than its last block needs.
 *
 *  In place means: the block that both tensors have is at one address. Any other overlap
 *  of `in` and `out` is TRYST_E_INVALID.
 *
 *  Costs, for n ranks. An all-gather is one broadcast from each rank, and a
 *  reduce-scatter one reduction to each rank. They run over the plan's trees, all at the
 *  same time, so all links of the trees are in use; in an all-gather each rank receives
 *  every other block once. Where n > 4 and all blocks together have at most 128 KiB, and
 *  at most (n - 1) * 16 KiB, one all-reduce of all blocks replaces them: fewer messages,
 *  twice the bytes. All-to-all, gather and scatter send one message for each pair of
 *  ranks, without trees.
 * ------------------------------------------------------------------------------------ */

/** Concatenate the tensors `in` of all ranks in every rank's `out`, by rank.
 *
 *  `in` has the same count c on all ranks and `out` n * c elements. In place: `in` is
 *  NULL, or its data is this rank's block of `out`.
 *
 *  Owns, Thread, Returns, ends: as tryst_allreduce.
 */
TRYST_API tryst_status tryst_allgather(tryst_step *step, const char *name,
                                       const tryst_tensor *in, const tryst_tensor *out,
                                       const tryst_op_params *params, tryst_op **op_p);

/** Concatenate as tryst_allgather, with blocks of different counts. `out_counts` is the
 *  same on all ranks (a difference ends the operation with TRYST_E_MISMATCH, with equal
 *  totals too); `out_offsets` is this rank's. `in` has out_counts[rank] elements. */
TRYST_API tryst_status tryst_allgatherv(tryst_step *step, const char *name,
                                        const tryst_tensor *in, const tryst_tensor *out,
                                        const uint64_t *out_counts,
                                        const uint64_t *out_offsets,
                                        const tryst_op_params *params, tryst_op **op_p);

/** Reduce `in` of all ranks with `reduce` and leave block r of the result in `out` of
 *  rank r.
 *
 *  `out` has the same count c on all ranks and `in` n * c elements. In place: the data of
 *  `out` is this rank's block of `in`; the other blocks stay unchanged. `in` is never
 *  NULL. The result has the same bits for every order of arrival and from run to run. The
 *  order of additions is not the all-reduce's, so a floating-point sum may differ from
 *  the all-reduce's block in its last bits. A rank that adds for others needs memory for
 *  the sums: up to the bytes of `in`.
 *
 *  Owns, Thread, Returns, ends: as tryst_allreduce.
 */
TRYST_API tryst_status tryst_reduce_scatter(
    tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out,
    tryst_reduce_op reduce, const tryst_op_params *params, tryst_op **op_p);

/** Reduce as tryst_reduce_scatter, with blocks of different counts. `in_counts` is the
 *  same on all ranks and compared as in tryst_allgatherv; `in_offsets` is this rank's.
 *  `out` has in_counts[rank] elements. */
TRYST_API tryst_status tryst_reduce_scatterv(
    tryst_step *step, const char *name, const tryst_tensor *in, const uint64_t *in_counts,
    const uint64_t *in_offsets, const tryst_tensor *out, tryst_reduce_op reduce,
    const tryst_op_params *params, tryst_op **op_p);

/** Send block r of `in` to rank r, and receive into block r of `out` the block that rank
 *  r sends.
 *
 *  `in` and `out` have n * c elements, with the same c on all ranks, and do not overlap.
 *
 *  Owns, Thread, Returns, ends: as tryst_allreduce. */
TRYST_API tryst_status tryst_alltoall(tryst_step *step, const char *name,
                                      const tryst_tensor *in, const tryst_tensor *out,
                                      const tryst_op_params *params, tryst_op **op_p);

/** Exchange as tryst_alltoall, with blocks of different counts. in_counts[r] of this rank
 *  is out_counts[this rank] of rank r; zero counts are compared, too. */
TRYST_API tryst_status tryst_alltoallv(
    tryst_step *step, const char *name, const tryst_tensor *in, const uint64_t *in_counts,
    const uint64_t *in_offsets, const tryst_tensor *out, const uint64_t *out_counts,
    const uint64_t *out_offsets, const tryst_op_params *params, tryst_op **op_p);

/** Concatenate the tensors `in` of all ranks in `out` of rank `root`, by rank.
 *
 *  `in` has the same count c on all ranks and `out` of the root n * c elements; on other
 *  ranks `out` is ignored (it may be NULL). In place, at the root: `in` is NULL, or its
 *  data is the root's block of `out`.
 *
 *  Owns, Thread, Returns, ends: as tryst_reduce.
 */
TRYST_API tryst_status tryst_gather(tryst_step *step, const char *name,
                                    const tryst_tensor *in, const tryst_tensor *out,
                                    int root, const tryst_op_params *params,
                                    tryst_op **op_p);

/** Concatenate as tryst_gather, with blocks of different counts: `in` has this rank's
 *  count. `out_counts` and `out_offsets` are read at the root alone. */
TRYST_API tryst_status tryst_gatherv(tryst_step *step, const char *name,
                                     const tryst_tensor *in, const tryst_tensor *out,
                                     const uint64_t *out_counts,
                                     const uint64_t *out_offsets, int root,
                                     const tryst_op_params *params, tryst_op **op_p);

/** Send block r of `in` of rank `root` to `out` of rank r.
 *
 *  `out` has the same count c on all ranks and `in` of the root n * c elements; on other
 *  ranks `in` is ignored (it may be NULL). In place, at the root: `out` is NULL, or its
 *  data is the root's block of `in`.
 *
 *  Owns, Thread, Returns, ends: as tryst_reduce.
 */
TRYST_API tryst_status tryst_scatter(tryst_step *step, const char *name,
                                     const tryst_tensor *in, const tryst_tensor *out,
                                     int root, const tryst_op_params *params,
                                     tryst_op **op_p);

/** Send as tryst_scatter, with blocks of different counts: `out` has this rank's count.
 *  `in_counts` and `in_offsets` are read at the root alone. */
TRYST_API tryst_status tryst_scatterv(tryst_step *step, const char *name,
                                      const tryst_tensor *in, const uint64_t *in_counts,
                                      const uint64_t *in_offsets, const tryst_tensor *out,
                                      int root, const tryst_op_params *params,
                                      tryst_op **op_p);

/* ------------------------------------------------------------------------------------- *
 *  Prepared form, for loops: arguments are checked and keys prepared once, and later
 *  starts reuse the memory that the first start allocates.
 * ------------------------------------------------------------------------------------ */

/** A prepared collective. */
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

/** The fixed part of a prepared collective. */
typedef struct tryst_coll_params {
    size_t struct_size;
    tryst_coll_kind kind;
    tryst_reduce_op reduce; /**< used by all-reduce, reduce and reduce-scatter */
    uint64_t count;         /**< elements of the tensor, or of a block; barrier: 0 */
    tryst_dtype dtype;      /**< barrier: 0 */
    int32_t root;           /**< used by reduce, broadcast, gather and scatter */
    const char *name;       /**< copied */
    /* Counts and offsets of blocks, as the arguments of the calls that end in `v`; counts
     * NULL: all blocks have `count` elements. Copied. */
    /** for reduce-scatter and all-to-all; for scatter at the root */
    const uint64_t *in_counts;
    /** offsets for in_counts; NULL: the blocks follow one another */
    const uint64_t *in_offsets;
    /** for all-gather and all-to-all; for gather at the root */
    const uint64_t *out_counts;
    /** offsets for out_counts; NULL: the blocks follow one another */
    const uint64_t *out_offsets;
    const tryst_subgroup *subgroup; /**< NULL: all ranks of the group */
} tryst_coll_params;

/** Prepare a collective of `group` that is started many times. Local: other ranks may use
 *  the prepared form or not.
 *
 *  Owns:    the caller owns `*coll_p` (tryst_coll_release).
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK, TRYST_E_INVALID, TRYST_E_UNSUPPORTED, TRYST_E_NOMEM,
 *           TRYST_E_FORKED, TRYST_E_CONTEXT
 */
TRYST_API tryst_status tryst_coll_prepare(tryst_group *group,
                                          const tryst_coll_params *coll_params,
                                          tryst_coll **coll_p);

/** Start a prepared collective in `step`: as the call of its kind with its name.
 *
 *  `in` and `out` are those of the call, with the prepared dtype and counts. A broadcast
 *  has its tensor as `out`, and `in` is NULL; a barrier has neither. Several starts may
 *  be under way, in one step or several. The first start allocates, and so does each
 *  start that raises the number of starts under way to a new maximum; these may return
 *  TRYST_E_NOMEM. All other starts reuse that memory.
 *
 *  Thread, Returns, ends: as tryst_allreduce; TRYST_E_INVALID also for a step of another
 *           group. */
TRYST_API tryst_status tryst_coll_start(tryst_step *step, tryst_coll *coll,
                                        const tryst_tensor *in, const tryst_tensor *out,
                                        const tryst_op_params *params, tryst_op **op_p);

/** Release a prepared collective before its group is closed; started operations go on.
 *  NULL is allowed. Any thread; never blocks. */
TRYST_API void tryst_coll_release(tryst_coll *coll);

/* ------------------------------------------------------------------------------------- *
 *  Subgroups: collectives of some ranks, such as the replicas of a pipeline stage.
 *
 *  A subgroup is a view of its group: members in an order, an epoch, and a plan. It uses
 *  the group's peers and steps. Members are numbered 0 to count-1, and `root` is such a
 *  number; errors name ranks of the group. Every member opens the subgroup with the same
 *  members in the same order and the same epoch. Other members, another order or another
 *  epoch make another subgroup, and equal names in two subgroups, or in a subgroup and
 *  its group, never meet. A member's death fails the collectives of the subgroups that it
 *  is in; those of other subgroups go on.
 *
 *  Each member derives the subgroup's plan from the group's, so opening a subgroup sends
 *  nothing: a member's parent is its nearest ancestor among the members.
 *  tryst_coll_estimate has no bound for a subgroup.
 * ------------------------------------------------------------------------------------ */

typedef struct tryst_subgroup_params {
    size_t struct_size;
    uint64_t epoch; /**< distinguishes subgroups of the same members; any number */
    uint32_t count; /**< number of members, from 1 to the size of the group */
    const int32_t *members; /**< ranks of the group, each at most once; copied */
} tryst_subgroup_params;

/** Open the subgroup of `group` that `subgroup_params` describes; this rank is a member.
 *
 *  Owns:    the caller owns `*subgroup_p` (tryst_subgroup_close), before the group is
 *           closed.
 *  Thread:  any. Never blocks; local.
 *  Returns: TRYST_OK, TRYST_E_INVALID (members), TRYST_E_NOMEM, TRYST_E_FORKED,
 *           TRYST_E_CONTEXT
 */
TRYST_API tryst_status tryst_subgroup_open(tryst_group *group,
                                           const tryst_subgroup_params *subgroup_params,
                                           tryst_subgroup **subgroup_p);
/** Return this rank's number in the subgroup. Any thread. */
TRYST_API int tryst_subgroup_rank(const tryst_subgroup *subgroup);
/** Return the number of members. Any thread. */
TRYST_API int tryst_subgroup_size(const tryst_subgroup *subgroup);
/** Return the rank in the group of member `number`, or -1 outside [0, members). Any
 *  thread. */
TRYST_API int tryst_subgroup_member(const tryst_subgroup *subgroup, int number);
/** Close a subgroup; operations that were started or prepared with it go on. NULL is
 *  allowed. Any thread; never blocks. */
TRYST_API void tryst_subgroup_close(tryst_subgroup *subgroup);

/* ------------------------------------------------------------------------------------- *
 *  How a collective is carried out, and its shortest possible time.
 * ------------------------------------------------------------------------------------ */

/** Result of tryst_coll_estimate. */
typedef struct tryst_coll_info {
    size_t struct_size;
    /** Lower bound: no trees over these links are faster. The bound is the bytes of the
     *  tensor divided by the highest rate that the plan's certificate leaves possible.
     *  The links are those of TRYST_TOPOLOGY or, if that is unset, the NICs of the ranks'
     *  machines and the memory within each machine. Only payload counts; the network's
     *  headers take more time (TCP over Ethernet: 1514 / 1448). 0: unknown. That is so
     *  where the links' rates are assumed (TRYST_TOPOLOGY is unset, and all links are
     *  alike or no NIC has a rate), in subgroups, and for other kinds than all-reduce. */
    double bound_seconds;
    /** Planned rate for tensors of this size, once slices move on all levels of the
     *  trees. 0: unknown, where bound_seconds is. */
    uint64_t planned_bytes_per_s;
    /** Number of trees; each carries a part of the tensor, which may be empty. For
     *  all-gather and reduce-scatter the number of trees of one block; 0 for all-to-all,
     *  gather and scatter, which have none. */
    uint32_t trees;
    uint32_t slice_bytes; /**< size of the slices of the largest part */
} tryst_coll_info;

/** Describe how `group` carries out the collective of `coll_params`; the name may be
 *  NULL.
 *
 *  Local: no other rank takes part. For an all-gather or reduce-scatter the trees of one
 *  block of `count` elements are described, as if no all-reduce replaced them (Costs).
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK, TRYST_E_INVALID, TRYST_E_NOMEM, TRYST_E_FORKED, TRYST_E_CONTEXT
 */
TRYST_API tryst_status tryst_coll_estimate(tryst_group *group,
                                           const tryst_coll_params *coll_params,
                                           tryst_coll_info *info);

/** Read tree `tree`, from 0, of the same collective: `parents[r]` becomes the rank to
 *  which rank r sends its sums (`is_up`), or from which rank r receives the result; -1 at
 *  the root.
 *
 *  `parents` has room for every rank of the group. The tree is rooted at `root` of
 *  `coll_params`, which for all-gather and reduce-scatter is the rank of the block;
 *  all-reduce and barrier have the plan's root. Local.
 *
 *  Thread:  any. Never blocks.
 *  Returns: as tryst_coll_estimate; TRYST_E_INVALID also for a tree that does not
 *           exist */
TRYST_API tryst_status tryst_coll_tree(tryst_group *group,
                                       const tryst_coll_params *coll_params,
                                       uint32_t tree, bool is_up, int32_t *parents);

/** Result of tryst_coll_order_get. */
typedef struct tryst_coll_order {
    size_t struct_size;
    uint32_t trees; /**< number of trees of the all-reduce */
    uint32_t reserved;
    /** Elements of the tensor that the tree carries: `count` from `first` on. The ranges
     *  of all trees together are the tensor. */
    uint64_t first;
    uint64_t count;
} tryst_coll_order;

/** Read in which order tree `tree`, from 0, of an all-reduce of a subgroup adds.
 *
 *  `parents[m]` becomes the number of the member to which member m sends its sum; -1 at
 *  the root; it has room for every member. A member begins with its own term and adds the
 *  sums of its children in the order of their numbers, rounding after each. The root's
 *  sum is the result. So a process that has all terms can compute the same bits.
 *
 *  `members` describes the subgroup as for tryst_subgroup_open, but this rank need not be
 *  a member. `coll_params` is that of the all-reduce; its name and its subgroup are
 *  ignored. Local.
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK, TRYST_E_INVALID (arguments; a tree that does not exist),
 *           TRYST_E_UNSUPPORTED (another kind), TRYST_E_NOMEM, TRYST_E_FORKED,
 *           TRYST_E_CONTEXT
 */
TRYST_API tryst_status tryst_coll_order_get(tryst_group *group,
                                            const tryst_coll_params *coll_params,
                                            const tryst_subgroup_params *members,
                                            uint32_t tree, tryst_coll_order *order,
                                            int32_t *parents);

TRYST_END_DECLS

#endif
