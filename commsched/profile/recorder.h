/* SPDX-License-Identifier: Apache-2.0 */
/** @file recorder.h
 *  Records the steps of a running program as profiles, without a line of its code.
 *
 *  Idea: the program computes when its threads are not inside waits of the library. So
 *  the recorder needs three events of each thread: the submission of an operation, its
 *  first use, and the begin and end of waits. Names of the computation are optional.
 *  README.md has the rules.
 *
 *  A new period begins with the first submission in a step that is newer than all before.
 *  Once the program has called recorder_period_begin, it begins with the first submission
 *  after each such call, and not with steps. The last three whole periods are kept, and
 *  the memory of all is bounded (period.h).
 *
 *  Thread: any, but for open and close. Never blocks but for a mutex that is held for
 *  some ten nanoseconds.
 *  Failures: none is reported to the program. A period without memory, or with too many
 *  operations, is not kept.
 */
#ifndef TRYST_COMMSCHED_PROFILE_RECORDER_H
#define TRYST_COMMSCHED_PROFILE_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/os/clock.h"
#include "core/text/err.h"
#include "core/text/origin.h"

struct recorder;
struct tryst_profile;

/** Open a recorder; `clock` NULL: the machine's. NULL: out of memory. */
struct recorder *recorder_open(const struct clock *clock);
/** Close it. NULL is allowed. One thread. */
void recorder_close(struct recorder *recorder);
/** Set the origin of the profiles that recorder_profile makes. */
void recorder_origin_set(struct recorder *recorder, const struct origin *origin);
/** Call `fn` at each end of a period from now on, with the number of periods that have
 *  ended since the last reset. In a submission, under a lock: `fn` only posts. NULL: no
 *  call any more, once this function has returned. */
void recorder_watch(struct recorder *recorder, void (*fn)(void *arg, uint64_t count),
                    void *arg);
/** Forget all that was recorded: the group has ended. Names stay. */
void recorder_reset(struct recorder *recorder);

/** Return the number of a name, for submissions. The text has no ';' before a digit,
 *  which is how the profile numbers the uses of a name. Out of memory, or too many names:
 *  a number with which submissions make the period not whole. */
uint32_t recorder_name(struct recorder *recorder, const char *text);

/** The number of a period: the calls of recorder_period_begin before it and, before the
 *  first one, its step. */
struct recorder_period {
    uint64_t begins;
    uint64_t step; /**< 0 where `begins` is not */
};

/** True if a period with the number `one` is newer than one with the number `other`. */
static inline bool recorder_period_is_newer(struct recorder_period one,
                                            struct recorder_period other)
{
    return one.begins != other.begins ? one.begins > other.begins : one.step > other.step;
}

/** Begin a period with the next submission of any thread; until the reset, steps begin
 *  none any more. Calls without a submission between them are one. */
void recorder_period_begin(struct recorder *recorder);

struct recorder_submission {
    uint32_t name; /**< of recorder_name */
    uint64_t step, bytes;
    bool by_callback; /**< a callback of an operation submits */
    uint64_t cause;   /**< that operation; 0: it was not recorded */
};

/** The place of a submission in its period. */
struct recorder_submitted {
    uint64_t op;  /**< its number for the calls below; 0: it is not recorded */
    uint32_t use; /**< the n-th of its name in the period, from 1 on */
    struct recorder_period period; /**< its number; older steps have older numbers */
};

/** Record that the calling thread submits an operation. */
struct recorder_submitted recorder_submit(struct recorder *recorder,
                                          const struct recorder_submission *submission);
/** Return the present time, for recorder_done. */
uint64_t recorder_now(const struct recorder *recorder);
/** Record that an operation has ended now, and times before; 0: not known. */
void recorder_done(struct recorder *recorder, uint64_t op, uint64_t matched_at,
                   uint64_t first_slice_at);
/** Record the first use of an operation; later ones change nothing. `by_callback`: in a
 *  callback, which counts as a use by the thread that submitted the operation, unless a
 *  thread waits for the operation or tests it later: that use counts instead. */
void recorder_use(struct recorder *recorder, uint64_t op, bool by_callback);
/** Record that all operations of a step are used that were not used before: the program
 *  has waited for the close of the step. */
void recorder_use_step(struct recorder *recorder, uint64_t step, bool by_callback);
/** Record that the computation of the calling thread is called `text` from here on; NULL:
 *  it has no name. A text that finds no memory counts as none. */
void recorder_action(struct recorder *recorder, const char *text);
/** Record that the calling thread begins to wait inside the library, or ends to. */
void recorder_wait_begin(struct recorder *recorder);
void recorder_wait_end(struct recorder *recorder);

/** Return the profile of the period that ended last. NULL: it is not whole, or no
 *  memory. */
struct tryst_profile *recorder_profile_last(struct recorder *recorder);
/** True if the two periods that ended last have the same operations in the same order. */
bool recorder_is_steady(struct recorder *recorder);

/** Make the profile of the recorded step: of the last three periods, of those that have
 *  the same operations, the one with the median time. So neither a first step that
 *  allocates nor a single disturbed one counts. TRYST_OK; TRYST_E_INVALID: there is no
 *  whole period, `err` has the reason; TRYST_E_NOMEM. */
tryst_status recorder_profile(struct recorder *recorder, struct err *err,
                              struct tryst_profile **profile_p);

#endif
