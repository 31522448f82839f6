/* SPDX-License-Identifier: Apache-2.0 */
/* A stage that computes wrongly once: faults that a check of a training must find; or
 * that ends its process.
 *
 * One idea: the table of an open stage is replaced by a copy in which some calls spoil
 * what they are given. One stage of a process at a time, in a program in which a stage
 * runs the forwards of a step in the order of the micro-batches. */
#ifndef TRYST_TESTS_SUPPORT_FAULTY_STAGE_H
#define TRYST_TESTS_SUPPORT_FAULTY_STAGE_H

#include <tryst/stage.h>

enum stage_fault {
    STAGE_FAULT_NONE,
    STAGE_FAULT_SWAP,  /**< micro-batch 1 gets the activations of micro-batch 0 */
    STAGE_FAULT_STALE, /**< the first forward reads the version before the newest */
    STAGE_FAULT_DROP,  /**< the first micro-batch's gradient is not added */
    STAGE_FAULT_LOSE,  /**< this replica's gradient is left out of the sum */
    STAGE_FAULT_TWICE, /**< that gradient is added twice */
    /* The process ends in a call of this kind: the one with number `call`, or the first;
     * at its begin if `call` is even, at its end if it is odd. */
    STAGE_FAULT_DIE_FORWARD,
    STAGE_FAULT_DIE_INPUT,
    STAGE_FAULT_DIE_WEIGHT,
    STAGE_FAULT_DIE_UPDATE
};

/** Let the calls of `stage` in step `step`, counted from 0, have the fault. */
void faulty_stage_arm(tryst_stage *stage, enum stage_fault fault, uint64_t step,
                      int call);
/** Say on stderr when the process dies ("dies at N ms", CLOCK_MONOTONIC), and kill it. */
void faulty_stage_die(void);

#endif
