/* SPDX-License-Identifier: Apache-2.0 */
/** @file coll.h
 *  Collectives: all ranks of a group reduce or spread one tensor. Library: libtryst.
 *
 *  A collective has a name. The n-th use of a name in a step meets the n-th use of that name
 *  in the same step on the other ranks, so ranks submit in any order, from any thread, mixed
 *  with sends and receives. All ranks of the group take part. Names are as edges in
 *  tryst/key.h: 1 to TRYST_COLL_NAME_MAX bytes, without ';'. Names of collectives and names of
 *  keys never collide.
 *
 *  A tensor is cut into ranges, one for each tree of the group's plan; a range climbs its tree
 *  slice by slice while each rank adds its children's slices to its own, and the result
 *  descends. Each rank adds in the plan's order and rounds after each addition, so the
 *  result has the same bits on all ranks, for every order of arrival and from run to run.
 *
 *  Rules of all collectives:
 *   - Operation, count, dtype, reduction and root are the same on all ranks. Counts or dtypes that give
 *     other sizes end the operation with TRYST_E_MISMATCH. Other differences are not detected yet:
 *     with another reduction the result is undefined; with another operation or root ranks may wait for
 *     each other until a deadline.
 *   - Tensors are in host memory. `in` NULL, or with the data of `out`, means in place: `out` then
 *     holds this rank's own term. Any other overlap of `in` and `out` is TRYST_E_INVALID.
 *   - `params` are those of a transfer: priority, TRYST_OP_BACKGROUND, deadline, callback; and
 *     `factor`, this rank's, of TRYST_REDUCE_PREMULTIPLIED_SUM. The most urgent rank does not raise the
 *     others: give each rank the same priority.
 *   - tryst_op_cancel, or the deadline, of one rank's operation ends the collective on all ranks
 *     with that cause. A rank that dies ends it with TRYST_E_PEER; tryst_error.origin_rank names the
 *     rank that died, and later collectives of the group end at once with the same cause.
 *     After a failure the contents of `out` are undefined.
 *   - Where ranks are on several hosts, the first collective starts the library's progress thread
 *     (TRYST_PROGRESS_THREAD), because each rank moves the others' bytes too. On one host a rank
 *     that makes no progress delays the others.
 */
#ifndef TRYST_COLL_H
#define TRYST_COLL_H

#include <tryst/tryst.h>

TRYST_BEGIN_DECLS

/** Longest name of a collective, in bytes without the terminator. */
#define TRYST_COLL_NAME_MAX 400

/** Reduce `in` of all ranks with `reduce` and leave the result in every rank's `out`.
 *
 *  `in` and `out` have the same dtype and count, which may be 0. The dtypes and reductions that
 *  go together are listed at tryst_reduce_op.
 *
 *  Owns:    the bytes of `in` and `out` are the library's until completion: `in` may be read
 *           meanwhile, `out` not. `name` and both structs are copied. The caller releases `*op_p`;
 *           `op_p` NULL detaches at once, as tryst_op_release does.
 *  Thread:  any. Never blocks, never returns TRYST_AGAIN.
 *  Returns: TRYST_OK             submitted; the outcome arrives with the operation
 *           TRYST_E_INVALID      name, tensors, params, or a reduction that the dtype has not
 *           TRYST_E_UNSUPPORTED  device memory
 *           TRYST_E_SYSTEM       the progress thread could not be started
 *           TRYST_E_ABORTED      `step` was aborted; tryst_step_status has the reason
 *           TRYST_E_NOMEM, TRYST_E_FORKED, TRYST_E_CONTEXT
 *  The operation ends with
 *           TRYST_OK             `out` holds the result, and is the caller's again
 *           TRYST_E_MISMATCH     ranks differ; the text has what two neighbours gave
 *           TRYST_E_PEER         a rank died: tryst_error.origin_rank
 *           TRYST_E_CANCELED, TRYST_E_DEADLINE, TRYST_E_ABORTED, TRYST_E_NOMEM, TRYST_E_CONTEXT
 */
TRYST_API tryst_status tryst_allreduce(tryst_step *step, const char *name,
                                       const tryst_tensor *in, const tryst_tensor *out,
                                       tryst_reduce_op reduce,
                                       const tryst_op_params *params, tryst_op **op_p);

/** Reduce `in` of all ranks with `reduce` into `out` of rank `root`.
 *
 *  At the root as tryst_allreduce, in place too. Elsewhere `in` is required and stays unchanged, and
 *  `out` is ignored (NULL).
 *
 *  Owns, Thread, Returns, ends: as tryst_allreduce; TRYST_E_INVALID also for a root that is not a
 *           rank of the group. The operation ends when this rank's part is done: elsewhere than
 *           at the root that does not mean that the root has the result.
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

/* ------------------------------------------------------------------------------------------- *
 *  Prepared form, for loops: checks, names and memory once; each start allocates nothing.
 * ------------------------------------------------------------------------------------------- */

/** A prepared collective. */
typedef struct tryst_coll tryst_coll;

typedef enum tryst_coll_kind {
    TRYST_COLL_INVALID = 0,
    TRYST_COLL_ALLREDUCE = 1,
    TRYST_COLL_REDUCE = 2,
    TRYST_COLL_BROADCAST = 3,
    TRYST_COLL_BARRIER = 4
} tryst_coll_kind;

/** The fixed part of a prepared collective. */
typedef struct tryst_coll_params {
    size_t struct_size;
    tryst_coll_kind kind;
    tryst_reduce_op reduce; /**< all-reduce and reduce */
    uint64_t count;         /**< elements; barrier: 0 */
    tryst_dtype dtype;      /**< barrier: 0 */
    int32_t root;           /**< reduce and broadcast */
    const char *name;       /**< copied */
} tryst_coll_params;

/** Prepare a collective of `group` that is started many times. Local: other ranks may use the prepared form
 *  or not.
 *
 *  Owns:    the caller owns `*coll_p` (tryst_coll_release).
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK, TRYST_E_INVALID, TRYST_E_UNSUPPORTED, TRYST_E_NOMEM, TRYST_E_FORKED, TRYST_E_CONTEXT
 */
TRYST_API tryst_status tryst_coll_prepare(tryst_group *group,
                                          const tryst_coll_params *coll_params,
                                          tryst_coll **coll_p);

/** Start a prepared collective in `step`: as the call of its kind with its name.
 *
 *  `in` and `out` have the prepared dtype and count. Broadcast has its tensor as `out`, `in` is NULL;
 *  a barrier has neither. Several starts may be under way, in one step or several. Each start has
 *  private memory, which later starts reuse, so a loop allocates nothing.
 *
 *  Thread, Returns, ends: as tryst_allreduce; TRYST_E_INVALID also for a step of another group.
 */
TRYST_API tryst_status tryst_coll_start(tryst_step *step, tryst_coll *coll,
                                        const tryst_tensor *in, const tryst_tensor *out,
                                        const tryst_op_params *params, tryst_op **op_p);

/** Release a prepared collective; what was started goes on. Before its group is closed. NULL is allowed.
 *  Any thread; never blocks. */
TRYST_API void tryst_coll_release(tryst_coll *coll);

TRYST_END_DECLS

#endif
