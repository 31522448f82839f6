/* SPDX-License-Identifier: Apache-2.0 */
/** @file profile.h
 *  Profiles: a training step as a graph with durations. Library: libtryst.
 *
 *  A *profile* is a directed acyclic graph. Its nodes are *actions* of computation, each
 *  with a duration, and *operations* (transfers, collectives), each with bytes. A node
 *  begins when all nodes that it comes after have ended. The profile of data-parallel
 *  training begins with the backward pass of one step and ends with the forward pass of
 *  the next one, so the all-reduce of a layer comes after that layer's backward and
 *  before its next forward, and the time of the profile is the period of the training.
 *  tryst-perf sched compares that time under orders of the operations with the optimum.
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

/** Close a profile. NULL is allowed. */
TRYST_API void tryst_profile_close(tryst_profile *profile);

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

TRYST_END_DECLS

#endif
