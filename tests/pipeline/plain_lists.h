/* SPDX-License-Identifier: Apache-2.0 */
/* A program as flat lists, for plain_model.c: the actions of each rank in the order in
 * which a run of so many steps executes them, with micro-batches and weight versions
 * counted over the whole run. Reads the program through its public getters alone. */
#ifndef TRYST_TESTS_PIPELINE_PLAIN_LISTS_H
#define TRYST_TESTS_PIPELINE_PLAIN_LISTS_H

#include <tryst/pipeline.h>

struct plain_entry {
    tryst_action action;
    int step; /**< the step that runs it, from 1; the prologue is in step 1 */
};

struct plain_list {
    struct plain_entry *entries;
    size_t count;
};

struct plain_lists {
    int ranks_count;
    int stages_count;
    int microbatches_count; /**< of all steps */
    struct plain_list *lists;
};

/** True if a rank of the program has marks. */
bool plain_is_loop(const tryst_program *program);

/** Write a run of `steps` steps (at least 1) as flat lists; fail the test without memory.
 *
 *  A loop runs prologue, body, …, body, epilogue; another program runs its whole list in
 *  each step. Step k adds (k - 1) × M to its micro-batches, and the number of the rank's
 *  earlier UPDATEs of the stage to its versions. If `clamps`, versions below 0 become 0:
 *  the version that the first step finds is read then. */
void plain_lists_open(const tryst_program *program, int steps, bool clamps,
                      struct plain_lists *lists_p);
void plain_lists_close(struct plain_lists *lists);

/** True for F, B, I, W and R, the actions of one micro-batch. */
bool plain_has_microbatch(const tryst_action *action);

#endif
