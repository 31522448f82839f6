/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a simulation, entry by entry: the input of all checks. Two runs are equal if
 * their logs are. No entry depends on an address, on the wall clock, or on ids that start
 * at random. */
#ifndef TRYST_TESTS_SIM_LOG_H
#define TRYST_TESTS_SIM_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/memory/urgency.h"

enum sim_event {
    /** Of operation `which`, at `rank`. */
    SIM_SUBMIT, /**< a: is it the send, b: bytes */
    SIM_DONE,   /**< a: is it the send, b: the status */
    SIM_CANCEL, /**< a: is it the send */
    SIM_RAISED, /**< a: is it the send, b: the priority */
    /** Calls between engine and scheduler of `rank` for transfer `which` to `peer`. The
     *  flow of a collective has a number below -1 as `which`. */
    SIM_LANE,   /**< the lane is ready, without `which`; a: its rail */
    SIM_ADD,    /**< urgency; a: bytes, b: slice bytes << 32 | posted */
    SIM_POSTED, /**< a: posted slices */
    SIM_RAISE,  /**< urgency.sort_key */
    SIM_CREDIT, /**< a: bytes */
    SIM_REMOVE,
    SIM_START,   /**< a: slice */
    SIM_REFUSED, /**< the transport refused the slice for now */
    /** On the wire from `rank` to `peer`. */
    SIM_SLICE, /**< a slice has arrived; a: its number */
    SIM_FRAME, /**< a frame was sent; a: bytes */
    /** The script. */
    SIM_SCRIPT, /**< which: enum sim_action_kind, a: link or rank, b: value */
    /** Of collective `which`, at `rank`. */
    SIM_COLL_SUBMIT, /**< a: bytes */
    /** Peer: the origin's rank, a: the status, b: the origin's status. */
    SIM_COLL_DONE,
    SIM_COLL_CANCEL
};

struct sim_entry {
    uint64_t at_ns;
    enum sim_event event;
    int32_t which, rank, peer;
    uint64_t a, b;
    struct urgency urgency;
};

struct sim_log {
    struct sim_entry *entries;
    size_t count, room;
};

void sim_log_add(struct sim_log *log, const struct sim_entry *entry);
void sim_log_clear(struct sim_log *log);
uint64_t sim_log_hash(const struct sim_log *log);
/** Write a line for each entry, for people. */
void sim_log_write(const struct sim_log *log, FILE *file);

#endif
