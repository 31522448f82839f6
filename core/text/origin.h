/* SPDX-License-Identifier: Apache-2.0 */
/** @file origin.h
 *  The origin of a file that each rank writes (a profile, a trace, a dump): the run, the
 *  rank, and the number of ranks.
 *
 *  A *run* is a group from its opening on all ranks to its close. Its number is equal on
 *  its ranks, and different in every other run (rank_run), so programs that merge files
 *  can refuse those of two runs.
 */
#ifndef TRYST_CORE_TEXT_ORIGIN_H
#define TRYST_CORE_TEXT_ORIGIN_H

#include <inttypes.h>
#include <stdint.h>

struct origin {
    uint64_t run; /**< 0: not known */
    int32_t rank; /**< -1: all ranks, merged; meaningless where the run is not known */
    int32_t size; /**< 0: not known */
};

/** The form of a run's number in files: 16 digits in quotes, since readers of JSON may
 *  round a number. */
#define ORIGIN_RUN "%016" PRIx64

#endif
