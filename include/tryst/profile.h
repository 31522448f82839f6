/* SPDX-License-Identifier: Apache-2.0 */
/** @file profile.h
 *  Profiles: a training step as a graph with durations, how long it takes under an order
 *  of its operations, and how short it can be. Library: libtryst.
 *
 *  A *profile* is a directed acyclic graph. Its nodes are *actions* of computation, each
 *  with a duration, and *operations* (transfers, collectives), each with bytes. A node
 *  begins when all nodes that it comes after have ended. The profile of data-parallel
 *  training begins with the backward pass of one step and ends with the forward pass of
 *  the next one, so the all-reduce of a layer comes after that layer's backward and
 *  before its next forward, and the time of the profile is the period of the training.
 *
 *  A *replay* computes that time for an order of the operations. The network is one
 *  serial resource: an operation takes `overhead_s` + its bytes / `bytes_per_s` of it,
 *  and ends `latency_s` after its last byte. Actions take their duration, as in the
 *  profile.
 *
 *  The *tail* of a node is the time from its end to the end of the profile if no
 *  operation waited for another one. To serve the ready operation with the longest tail,
 *  and to interrupt it for one with a longer tail, is optimal where no operation is ready
 *  later because of another one (Jackson's rule; Horn 1974). That is so in
 *  data-parallel training. For other profiles, tryst_profile_bound is a lower bound over
 *  all orders. PACE (Bao et al., INFOCOM 2020) orders all-reduces by the same rule.
 *
 *  JSON:
 *
 *      {"tryst_profile": 2,
 *       "run": "9f86d081884c7d65", "rank": 0, "size": 4,
 *       "nodes": [{"name": "backward 1", "seconds": 0.012},
 *                 {"name": "gradient 1", "bytes": 4194304, "after": ["backward 1"]},
 *                 {"name": "backward 0", "seconds": 0.02, "after": ["backward 1"]},
 *                 {"name": "forward 1", "seconds": 0.006,
 *                  "after": ["backward 0", "gradient 1"]}]}
 *
 *  A node with "seconds" is an action, one with "bytes" an operation. Names are unique. A
 *  name in "after" may be that of a later node. An operation may have the times at which
 *  things happened in the step that was recorded, in seconds from its begin: "ready",
 *  "matched", "first_slice", "done", "first_use".
 *
 *  "run", "rank" and "size" are the origin of a recorded profile: a number that the ranks
 *  of one run share (a group from its opening to its close) and no other run has, the
 *  rank, and the number of ranks. Without "rank" it is merged of all ranks. A profile of
 *  another origin, and one of version 1, has none of the three.
 *
 *  TRYST_PROFILE=FILE records the steps of a program that uses collectives, without a
 *  change of the program, and writes the profile of one of them to FILE: by a thread of
 *  its own after the first steps and after each doubling of their number, when the group
 *  closes, and when the process calls exit. So a program that ends otherwise, such as by
 *  SIGTERM, leaves the profile of one of its steps, too. A step lasts from the first
 *  collective that is submitted in it to the first one of the next step, or from one call
 *  of tryst_period_begin to the next. Its actions are the computation of each thread
 *  between its submissions and its first uses of results, outside of the library's waits;
 *  tryst_profile_action names them.
 *
 *  Objects are plain memory: no thread, no descriptor. One thread at a time may use a
 *  profile. Why a call failed: tryst_last_error.
 */
#ifndef TRYST_PROFILE_H
#define TRYST_PROFILE_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

/** A step as a graph with durations. */
typedef struct tryst_profile tryst_profile;

/** Load a profile from the file at `path`; "-" is standard input.
 *
 *  Owns:    the caller owns `*profile_p`.
 *  Blocks:  for the reads.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_IO       the file could not be read
 *           TRYST_E_INVALID  malformed, or a cycle: tryst_last_error is
 *                            "file:line:column: reason"
 */
TRYST_API tryst_status tryst_profile_load(const char *path, tryst_profile **profile_p);

/** Load a profile from `bytes` bytes at `text`, which need no terminator; error texts
 *  have `name` as the file's. Statuses as tryst_profile_load, without TRYST_E_IO. */
TRYST_API tryst_status tryst_profile_parse(const char *text, size_t bytes,
                                           const char *name, tryst_profile **profile_p);

/** Merge the profiles of a job's ranks: of those that have an operation, the slowest one
 *  decides when it is ready and how much computation is left after it. The
 *  merged profile is one computation, as long as the longest of all, with the operations
 *  beside it, so an order or groups of it fit all ranks. Names of operations stay.
 *
 *  Where a profile has an origin, the profiles must be those of all ranks of one run, in
 *  any order.
 *
 *  Merging loses paths from one operation to another, and recorded times. Without such
 *  paths the bound is at least that of each profile, and equal to that of a single one.
 *
 *  Owns:    the caller owns `*merged_p`; `profiles` [count] stay the caller's.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or TRYST_E_INVALID: no profile, an operation that
 *           has not the same bytes in all, two runs, a rank twice, or a missing rank;
 *           tryst_last_error names the files
 */
TRYST_API tryst_status tryst_profile_merge(tryst_profile *const *profiles, uint32_t count,
                                           tryst_profile **merged_p);

/** Close a profile. NULL is allowed. */
TRYST_API void tryst_profile_close(tryst_profile *profile);

/** Write the profile as JSON, which loads back to an equal profile.
 *
 *  Owns:    `*text_p`, terminated, is the caller's, for tryst_text_free (tryst/topo.h).
 *  Returns: TRYST_OK, TRYST_E_NOMEM
 */
TRYST_API tryst_status tryst_profile_write(const tryst_profile *profile, char **text_p);

/** The origin of a profile. */
typedef struct tryst_profile_origin {
    size_t struct_size;
    uint64_t run; /**< equal on the ranks of one run; 0: not known */
    int32_t rank; /**< -1: merged of all ranks, or not known */
    int32_t size; /**< number of ranks; 0: not known */
} tryst_profile_origin;

/** Fill in `*origin_p`; the caller sets its struct_size.
 *
 *  Returns: TRYST_OK, or TRYST_E_INVALID (struct_size)
 */
TRYST_API tryst_status tryst_profile_origin_get(const tryst_profile *profile,
                                                tryst_profile_origin *origin_p);

/* ------------------------------------------------------------------------------------- *
 *  Nodes
 * ------------------------------------------------------------------------------------ */

/** A node, as tryst_profile_node gives it. */
typedef struct tryst_profile_node {
    size_t struct_size;
    const char *name;
    bool is_operation;
    double seconds;        /**< action: its duration */
    uint64_t bytes;        /**< operation */
    const uint32_t *after; /**< [after_count]: the nodes that it comes after */
    uint32_t after_count;
    /** Operation: the times of the step that was recorded, in seconds from its begin;
     *  below 0: not recorded. Submitted by this rank; submitted by all ranks with which
     *  this one exchanges its slices, as this rank notices; its first slice sent or
     *  received; its end; the first wait, test or action that used its result. */
    double ready_s, matched_s, first_slice_s, done_s, first_use_s;
} tryst_profile_node;

/** Return the number of nodes; they are numbered from 0, in the file's order. */
TRYST_API uint32_t tryst_profile_nodes(const tryst_profile *profile);

/** Fill in `*node_p`; the caller sets its struct_size. Its pointers are valid until the
 *  profile is closed.
 *
 *  Returns: TRYST_OK, or TRYST_E_INVALID (no such node, struct_size)
 */
TRYST_API tryst_status tryst_profile_node_get(const tryst_profile *profile,
                                              uint32_t index, tryst_profile_node *node_p);

/** Begin a training step: with the first collective that any thread submits after this
 *  call. From the first call on, until the group closes, a step that is recorded
 *  (TRYST_PROFILE), or of which priorities are drafted (TRYST_AUTO_PRIORITY), lasts from
 *  one call to the next one, and not from one tryst_step_open to the next one. For
 *  programs that train in one step of the library, or open several in a training step.
 *
 *  Calls without a collective between them are one, so a call may come anywhere between
 *  the last collective of a training step and the first of the next one. Operations that
 *  are under way belong to the training step in which they were submitted.
 *
 *  Each rank calls this at the same place of its program. Nothing is sent, and no rank
 *  waits for another. If only some ranks call this, they record their training steps,
 *  drafts of priorities may not meet, and all operations work. Costs a test of a pointer
 *  unless TRYST_PROFILE or TRYST_AUTO_PRIORITY records.
 *
 *  Thread:  any; from a callback too. Never blocks. Collectives that another thread
 *           submits during the call belong to either step.
 *  Returns: TRYST_OK, or TRYST_E_INVALID: no group
 */
TRYST_API tryst_status tryst_period_begin(tryst_group *group);

#define TRYST_PROFILE_ACTION_MAX 255 /**< bytes of an action's name, at most */

/** Name the computation of the calling thread from here on, until the next call: its
 *  actions in a recorded step are "thread 0;NAME", "thread 0;NAME;2" and so on. NULL: no
 *  name any more, "thread 0;action 3". Costs a test of a pointer unless TRYST_PROFILE or
 *  TRYST_AUTO_PRIORITY records.
 *
 *  Thread:  any.
 *  Returns: TRYST_OK, or TRYST_E_INVALID: no context; a name that is empty, too long, has
 *           a ';', or begins with "action "
 */
TRYST_API tryst_status tryst_profile_action(tryst_ctx *ctx, const char *name);

/* ------------------------------------------------------------------------------------- *
 *  Replay
 * ------------------------------------------------------------------------------------ */

/** Orders of the operations.
 *
 *   FIFO      the one that was ready first, each without interruption
 *   BUCKETS   as FIFO, after operations have been joined, in the order in which they are
 *             ready, into buckets of at least `bucket_bytes`; and no action that needs an
 *             operation begins before all buckets have ended (the gradients of PyTorch's
 *             DistributedDataParallel)
 *   PRIORITY  the one with the longest tail, each without interruption
 *   PREEMPT   the one with the longest tail, which interrupts others
 */
typedef enum tryst_profile_order {
    TRYST_PROFILE_FIFO = 0,
    TRYST_PROFILE_BUCKETS = 1,
    TRYST_PROFILE_PRIORITY = 2,
    TRYST_PROFILE_PREEMPT = 3
} tryst_profile_order;

/** Return "fifo", "buckets", "priority", "preempt"; NULL for another value. */
TRYST_API const char *tryst_profile_order_name(tryst_profile_order order);

/** A zero field means its default (in brackets). */
typedef struct tryst_profile_params {
    size_t struct_size;
    double bytes_per_s; /**< of operations that follow one another; required */
    double latency_s;   /**< from an operation's last byte to its end */
    tryst_profile_order order;
    uint64_t bucket_bytes;       /**< BUCKETS [25 MiB] */
    uint64_t first_bucket_bytes; /**< BUCKETS [1 MiB] */
    double overhead_s; /**< of the network's time for each operation, beside its bytes */
    /** [nodes]: operations of one group are joined and move as one. A group is any number
     *  below the number of nodes; those of actions are ignored. NULL: each operation
     *  alone or, for BUCKETS, the buckets. */
    const uint32_t *groups;
} tryst_profile_params;

/** When a node ran, in seconds from the begin of the profile. */
typedef struct tryst_profile_span {
    double ready_s; /**< all nodes that it comes after have ended */
    double start_s; /**< it begins, or its first byte is on the network */
    double end_s;
} tryst_profile_span;

/** A time in which the network serves an operation (of a bucket: its first one). */
typedef struct tryst_profile_piece {
    uint32_t node;
    double from_s, to_s;
} tryst_profile_piece;

/** The outcome of a replay. */
typedef struct tryst_profile_replayed {
    size_t struct_size;
    double seconds;                    /**< the time of the profile */
    const tryst_profile_span *spans;   /**< [nodes] */
    const tryst_profile_piece *pieces; /**< [pieces_count], in the order of time */
    uint32_t pieces_count;
} tryst_profile_replayed;

/** Replay the profile and fill in `*replayed_p`; the caller sets its struct_size. Its
 *  arrays are valid until the next replay of this profile, or its close.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_INVALID  `params`: a rate that is not above 0, a latency or overhead
 *                            below 0, an unknown order, a time that is not finite; or
 *                            operations are joined of which one comes after another
 */
TRYST_API tryst_status tryst_profile_replay(tryst_profile *profile,
                                            const tryst_profile_params *params,
                                            tryst_profile_replayed *replayed_p);

/** Compute a lower bound of the time of the profile over all orders, for the rate and the
 *  latency of `params`. It equals the time under TRYST_PROFILE_PREEMPT if no path leads
 *  from one operation to another.
 *
 *  Returns: as tryst_profile_replay
 */
TRYST_API tryst_status tryst_profile_bound(tryst_profile *profile,
                                           const tryst_profile_params *params,
                                           double *seconds_p);

/** Choose operations to join, for networks where each costs `overhead_s`: write the group
 *  of each operation to `groups` [nodes] (of actions UINT32_MAX), in the form of
 *  params.groups, and the number of groups to `*count_p`. Operations of a group are
 *  neighbours in the order in which they are ready.
 *
 *  With these groups and the order PREEMPT, no partition of the operations makes the time
 *  shorter if no path leads from one operation to another, and the one that is ready
 *  later has the longer tail, as the gradients of a chain of layers. Else the time is not
 *  longer than with each operation alone, but not always the shortest. `params`' order
 *  and groups are ignored.
 *
 *  Returns: as tryst_profile_replay
 */
TRYST_API tryst_status tryst_profile_fuse(tryst_profile *profile,
                                          const tryst_profile_params *params,
                                          uint32_t *groups, uint32_t *count_p);

/** Write the tail of each node, in seconds, to `tails` [nodes], for the rate and the
 *  latency of `params`. The longer the tail of an operation, the more urgent it is.
 *
 *  Returns: as tryst_profile_replay
 */
TRYST_API tryst_status tryst_profile_tails(tryst_profile *profile,
                                           const tryst_profile_params *params,
                                           double *tails);

TRYST_END_DECLS

#endif
