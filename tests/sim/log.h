/* SPDX-License-Identifier: Apache-2.0 */
/* What happened in a simulation, entry by entry: all that the checks look at, and what
 * makes two runs equal. Nothing in it depends on an address, on the wall clock, or on ids
 * that start at random. */
#ifndef TESTS_SIM_LOG_H
#define TESTS_SIM_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/urgency.h"

enum sim_event {
    /* Of operation `which`, at `rank`. */
    SIM_SUBMIT, /* a: is it the send, b: bytes */
    SIM_DONE,   /* a: is it the send, b: the status */
    SIM_CANCEL, /* a: is it the send */
    SIM_RAISED, /* a: is it the send, b: the priority */
    /* What engine and scheduler of `rank` say to each other of `which`, which goes to
     * `peer`. Of a collective's flow `which` is below -1: a number of the flow. */
    SIM_LANE,   /* no `which`: the lane is ready; a: its rail */
    SIM_ADD,    /* urgency; a: bytes, b: slice bytes << 32 | posted */
    SIM_POSTED, /* a: posted */
    SIM_RAISE,  /* urgency.rank */
    SIM_CREDIT, /* a: bytes */
    SIM_REMOVE,
    SIM_START,   /* a: slice */
    SIM_REFUSED, /* the transport took no slice of it now */
    /* On the wire from `rank` to `peer`. */
    SIM_SLICE, /* arrived; a: slice */
    SIM_FRAME, /* sent; a: bytes */
    /* The script. */
    SIM_SCRIPT, /* which: enum sim_action_kind, a: link or rank, b: value */
    /* Of collective `which`, at `rank`. */
    SIM_COLL_SUBMIT, /* a: bytes */
    SIM_COLL_DONE,   /* peer: the origin's rank, a: the status, b: the origin's */
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
/* A line for each entry, for people. */
void sim_log_write(const struct sim_log *log, FILE *file);

#endif
