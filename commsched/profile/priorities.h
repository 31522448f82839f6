/* SPDX-License-Identifier: Apache-2.0 */
/** @file priorities.h
 *  Default priorities of the operations of a step, from its profile.
 *
 *  Idea: an operation is the more urgent, the more computation is left after its first
 *  use (Jackson's rule, oracle.h). Each rank drafts these times of its last period as a
 *  vector in the order of names, and the maximum over ranks makes the table of all. The
 *  owner moves the vector between ranks.
 *
 *       period ends       vectors have met       a later period begins
 *     ───── draft ─────────── arrive ───────────────── begin ─────▶ in force
 *
 *  The vector has the number of the rank's period too, so all ranks know from the maximum
 *  in which period the table comes into force: the one after the newest draft.
 *
 *  Invariant: the table in force has equal numbers on all ranks on which it is.
 */
#ifndef TRYST_COMMSCHED_PROFILE_PRIORITIES_H
#define TRYST_COMMSCHED_PROFILE_PRIORITIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draft;
struct priorities;
struct recorder;

/** Draft the priorities from the recorder's last period; `period` has begun since. A
 *  period that is not whole makes a draft that agrees with none. NULL: out of memory. */
struct draft *draft_open(struct recorder *recorder, uint64_t period);
void draft_close(struct draft *draft);
/** Return the vector, to be replaced by the maximum over all ranks, and its length. */
uint64_t *draft_vector(struct draft *draft, size_t *count_p);

/** Open without a table. NULL: out of memory. */
struct priorities *priorities_open(void);
/** NULL is allowed. */
void priorities_close(struct priorities *priorities);
/** Drop the tables: the group has ended. */
void priorities_reset(struct priorities *priorities);

/** Hand over a draft with the maximum over all ranks. Any thread. */
void priorities_arrive(struct priorities *priorities, struct draft *draft);
/** Note the begin of a period: an arrived table may come into force. Returns NULL, or why
 *  an arrived table is dropped. Any thread. */
const char *priorities_begin(struct priorities *priorities, struct recorder *recorder,
                             uint64_t period);
/** Find the priority of use `use`, from 1, of a recorder's name. Smaller is more urgent,
 *  from 0. False: there is none. Any thread. */
bool priorities_get(struct priorities *priorities, uint32_t name, uint32_t use,
                    int32_t *priority_p);

#endif
