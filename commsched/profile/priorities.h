/* SPDX-License-Identifier: Apache-2.0 */
/** @file priorities.h
 *  Default priorities of the operations of a period, from its profile.
 *
 *  Idea: an operation is the more urgent, the more computation is left after its first
 *  use (Jackson's rule). Each rank drafts these times of its last period as a vector in
 *  the order of names, and the maximum over ranks makes the table of all. The owner moves
 *  the vector between ranks.
 *
 *      period begins      vectors have met       a later period begins
 *     ───── draft ─────────── arrive ───────────────── begin ─────▶ in force
 *
 *  The group has a table, and each subgroup has one. Their priorities are times, so those
 *  of different tables compare.
 *
 *  The vector has the place of the rank's period too, so all ranks know from the maximum
 *  in which period the table comes into force: the one after the newest draft.
 *
 *  Invariant: the table in force is equal on all ranks where it is in force.
 */
#ifndef TRYST_COMMSCHED_PROFILE_PRIORITIES_H
#define TRYST_COMMSCHED_PROFILE_PRIORITIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder.h"

struct draft;
struct priorities;

/** The priority of an operation after which nothing is computed; each microsecond of
 *  computation makes it smaller by 1, down to 0. */
#define PRIORITY_LEAST (INT32_C(1) << 30)

/** Places of periods are counted from 1 on, and again from this + 1 on at the first call
 *  of recorder_period_begin: ranks may differ in steps before that call. */
#define PRIORITIES_AGAIN (UINT64_C(1) << 63)

/** Draft the priorities from the recorder's last period; the period with the place
 *  `begun` has begun since. `suffix` ends the names of the subgroup's operations; "":
 *  those of the whole group. A period that is not whole makes a draft that agrees with
 *  none. NULL: out of memory. */
struct draft *draft_open(struct recorder *recorder, const char *suffix, uint64_t begun);
void draft_close(struct draft *draft);
/** Return the vector, to be replaced by the maximum over all ranks, and its length. */
uint64_t *draft_vector(struct draft *draft, size_t *count_p);

/** Open without a table. NULL: out of memory. */
struct priorities *priorities_open(void);
/** NULL is allowed. */
void priorities_close(struct priorities *priorities);
/** Drop the tables, and count anew: the group has ended. */
void priorities_reset(struct priorities *priorities);

/** The most drafts of a table under way at a rank. All-reduces keep ranks within one
 *  period of each other, so there are two; more only where another rank drafts none. */
enum { PRIORITIES_DRAFTS_MAX = 4 };
/** Note that a draft begins. False: the most are under way. Any thread. */
bool priorities_draft_begin(struct priorities *priorities);
/** Note that a draft has ended. Any thread. */
void priorities_draft_end(struct priorities *priorities);
/** Hand over a draft with the maximum over all ranks. Any thread. */
void priorities_arrive(struct priorities *priorities, struct draft *draft);
/** Note an operation in the period with this number. Returns the period's place if it is
 *  newer than all before, else 0. Any thread. */
uint64_t priorities_count(struct priorities *priorities, struct recorder_period number);
/** Note the begin of a period, by its place: an arrived table may come into force.
 *  Returns NULL, or why an arrived table is dropped. Any thread. */
const char *priorities_begin(struct priorities *priorities, struct recorder *recorder,
                             uint64_t begun);
/** Find the priority of use `use`, from 1, of a recorder's name. Smaller is more urgent,
 *  from 0. False: there is none. Any thread. */
bool priorities_get(struct priorities *priorities, uint32_t name, uint32_t use,
                    int32_t *priority_p);

#endif
