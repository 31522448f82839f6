/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of one seed: what the ranks of test_unruly do to each other.
 *
 * Idea: the plan is a function of the seed, so every rank, and the test at the end,
 * computes the allowed outcomes of each end of a pair (tests/support/outcomes.h) without
 * communication. The times are not part of the plan.
 * Steps are drawn in windows: a rank submits all its operations in the steps of a window
 * before it waits for any of them, so every wait ends. */
#ifndef TRYST_TESTS_API_UNRULY_H
#define TRYST_TESTS_API_UNRULY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/outcomes.h"

enum { UNRULY_RANKS = 4, UNRULY_STEPS = 16 };

/** The treatment of a step by a rank. */
enum unruly_manner {
    UNRULY_STAYS, /**< waits for all its operations in the step, then closes the step */
    /** closes the step early: some operations are pending, and some are never
     *  submitted */
    UNRULY_CLOSES,
    UNRULY_ABORTS, /**< aborts the step, then stays */
    UNRULY_ABORTS_AND_CLOSES,
    UNRULY_SKIPS /**< never opens the step, but opens a later one */
};

enum unruly_cancel {
    UNRULY_NO_CANCEL,
    UNRULY_CANCEL_AT_ONCE,
    UNRULY_CANCEL_LATER,
    /** Cancelled by the callback of another operation of the rank. */
    UNRULY_CANCEL_IN_CALLBACK
};

struct unruly_end {
    enum unruly_cancel cancel;
    uint64_t deadline_ns; /**< deadline of the operation; 0: none */
    bool absent;          /**< never submitted */
};

struct unruly_pair {
    int src, dst, edge; /**< several pairs of one step share a key */
    int step;           /**< index of the step in the window */
    uint64_t index;     /**< index of the pair in the run */
    uint64_t bytes;
    int32_t met; /**< outcome if both ends meet, as in outcomes.h */
    bool alloc;
    struct unruly_end send, recv;
};

struct unruly_step {
    enum unruly_manner manner[UNRULY_RANKS];
    bool aborted; /**< aborted by any rank */
};

struct unruly_plan {
    uint64_t seed;
    int steps_max;    /**< largest number of steps in a window */
    int window_pairs; /**< pairs in each window */
    uint64_t bytes_max;
};

struct unruly_window {
    uint64_t first_id; /**< id of the window's first step */
    int steps_count;
    struct unruly_step *steps;
    struct unruly_pair *pairs; /**< plan->window_pairs elements */
};

/** Allocate memory for a window; the same memory serves one window after the other. */
void unruly_window_open(const struct unruly_plan *plan, struct unruly_window *window);
void unruly_window_close(struct unruly_window *window);
void unruly_window_draw(const struct unruly_plan *plan, uint64_t number,
                        struct unruly_window *window);

/** The outcomes of both ends of a pair, in memory that all ranks share. */
enum { UNRULY_SEND, UNRULY_RECV };
struct unruly_seen {
    _Atomic(int32_t) status[2]; /**< OUTCOME_UNSEEN before the end's callback */
    _Atomic(uint32_t) submitted[2], calls[2];
};

void unruly_seen_init(struct unruly_seen *seen);
/** Return a pair in the form that support/outcomes.h judges. */
struct outcome_pair unruly_outcome(const struct unruly_window *window,
                                   const struct unruly_pair *pair,
                                   const struct unruly_seen *seen);

/** Return the facts of one end, given that the end was submitted. */
uint32_t unruly_facts(const struct unruly_window *window, const struct unruly_pair *pair,
                      bool is_send);
/** Print the pair as drawn, for people. */
void unruly_pair_print(int fd, const struct unruly_window *window,
                       const struct unruly_pair *pair);

/** The actions of a rank in a window. Their places order the actions; actions of one
 *  place are ordered by kind, then by index. */
enum unruly_action_kind {
    UNRULY_OPEN,
    UNRULY_SUBMIT,
    UNRULY_CANCEL,
    UNRULY_ABORT,
    UNRULY_CLOSE,
    UNRULY_PROGRESS,
    UNRULY_STALL
};

struct unruly_action {
    double place;
    enum unruly_action_kind kind;
    int index; /**< index of a step, or of an operation of the rank */
};

struct unruly_actions {
    uint64_t *random; /**< random state of the rank */
    /** gap: places between the openings of two steps; spread: places over which the
     *  actions of one step are spread */
    double gap, spread;
    struct unruly_action *list;
    int count, room;
};

/** Allocate memory for the actions of a window with at most `submits` operations of the
 *  rank; the same memory serves one window after the other. */
void unruly_actions_open(const struct unruly_plan *plan, int submits, uint64_t *random,
                         struct unruly_actions *actions);
void unruly_actions_close(struct unruly_actions *actions);
/** Remove all actions, and draw how far the rank runs ahead in this window. */
void unruly_actions_begin(struct unruly_actions *actions);
/** Draw a place after the opening of `step`. */
double unruly_place(const struct unruly_actions *actions, int step);
/** Add a SUBMIT of operation `index` and, if `cancels`, a CANCEL after the SUBMIT. */
void unruly_submit_add(struct unruly_actions *actions, double place, int index,
                       bool cancels);
/** Add the rank's actions on each step, PROGRESS, and STALL in `stalls` of 1000 windows;
 *  then sort the actions. */
void unruly_actions_end(struct unruly_actions *actions,
                        const struct unruly_window *window, int rank, int stalls);

/** xorshift64*: a uniform number below n; and a time between two limits whose logarithm
 *  is uniform. */
int unruly_below(uint64_t *state, int n);
double unruly_between(uint64_t *state, double least, double most);

#endif
