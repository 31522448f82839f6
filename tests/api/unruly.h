/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of test_unruly do to each other: the plan of one seed.
 *
 * Idea: the plan is a function of the seed, so every rank, and the test after them, knows what each end
 * of a pair may say (tests/support/outcomes.h) without asking. When things happen is not part of it.
 * Steps come in windows: a rank submits all that it has in the steps of a window, and waits for
 * nothing before that; so whatever ranks wait for comes, or ends. */
#ifndef TRYST_TESTS_API_UNRULY_H
#define TRYST_TESTS_API_UNRULY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/outcomes.h"

enum { UNRULY_RANKS = 4, UNRULY_STEPS = 16 };

/* How a rank treats a step. */
enum unruly_manner {
    UNRULY_STAYS,  /* waits for all that it has in the step, then closes it */
    UNRULY_CLOSES, /* early: some of it is pending then, some never submitted */
    UNRULY_ABORTS, /* then stays */
    UNRULY_ABORTS_AND_CLOSES,
    UNRULY_SKIPS /* never opens it, but a later one */
};

enum unruly_cancel {
    UNRULY_NO_CANCEL,
    UNRULY_CANCEL_AT_ONCE,
    UNRULY_CANCEL_LATER,
    UNRULY_CANCEL_IN_CALLBACK /* of another operation of the rank */
};

struct unruly_end {
    enum unruly_cancel cancel;
    uint64_t deadline_ns; /* 0: none */
    bool absent;          /* is not submitted at all */
};

struct unruly_pair {
    int src, dst, edge; /* several pairs of one step share a key */
    int step;           /* of the window */
    uint64_t index;     /* of the run */
    uint64_t bytes;
    int32_t met; /* see outcomes.h */
    bool alloc;
    struct unruly_end send, recv;
};

struct unruly_step {
    enum unruly_manner manner[UNRULY_RANKS];
    bool aborted; /* by any rank */
};

struct unruly_plan {
    uint64_t seed;
    int steps_max;    /* of a window */
    int window_pairs; /* of each */
    uint64_t bytes_max;
};

struct unruly_window {
    uint64_t first_id; /* of its first step */
    int steps_count;
    struct unruly_step *steps;
    struct unruly_pair *pairs; /* plan->window_pairs */
};

/* Room for one window after the other. */
void unruly_window_open(const struct unruly_plan *plan, struct unruly_window *window);
void unruly_window_close(struct unruly_window *window);
void unruly_window_draw(const struct unruly_plan *plan, uint64_t number,
                        struct unruly_window *window);

/* What both ends of a pair saw, in memory that all ranks share. */
enum { UNRULY_SEND, UNRULY_RECV };
struct unruly_seen {
    _Atomic(int32_t) status[2]; /* OUTCOME_UNSEEN before its callback */
    _Atomic(uint32_t) submitted[2], calls[2];
};

void unruly_seen_init(struct unruly_seen *seen);
/* What support/outcomes.h judges. */
struct outcome_pair unruly_outcome(const struct unruly_window *window,
                                   const struct unruly_pair *pair,
                                   const struct unruly_seen *seen);

/* The facts of one end, given that it was submitted. */
uint32_t unruly_facts(const struct unruly_window *window, const struct unruly_pair *pair,
                      bool is_send);
/* For people: the pair as drawn. */
void unruly_pair_print(int fd, const struct unruly_window *window,
                       const struct unruly_pair *pair);

/* What a rank does in a window. The places order the actions; those of one place come by kind, then by index. */
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
    int index; /* of a step or of what the rank submits */
};

struct unruly_actions {
    uint64_t *random;   /* of the rank */
    double gap, spread; /* between the opening of two steps; of what is done in one */
    struct unruly_action *list;
    int count, room;
};

/* Make room for one window after the other, of at most `submits` operations of the rank. */
void unruly_actions_open(const struct unruly_plan *plan, int submits, uint64_t *random,
                         struct unruly_actions *actions);
void unruly_actions_close(struct unruly_actions *actions);
/* Drop all actions, and draw how far the rank runs ahead in this window. */
void unruly_actions_begin(struct unruly_actions *actions);
/* Draw a place after the opening of `step`. */
double unruly_place(const struct unruly_actions *actions, int step);
/* Add SUBMIT of the operation `index`, and CANCEL after it where `cancels`. */
void unruly_submit_add(struct unruly_actions *actions, double place, int index,
                       bool cancels);
/* Add what `rank` does with each step, PROGRESS, and in `stalls` of 1000 windows STALL; then sort. */
void unruly_actions_end(struct unruly_actions *actions,
                        const struct unruly_window *window, int rank, int stalls);

/* xorshift64*, uniform below n; and a time, with as many short ones as long ones of each length. */
int unruly_below(uint64_t *state, int n);
double unruly_between(uint64_t *state, double least, double most);

#endif
