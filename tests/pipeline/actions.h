/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms for tests that write programs. */
#ifndef TRYST_TESTS_PIPELINE_ACTIONS_H
#define TRYST_TESTS_PIPELINE_ACTIONS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <tryst/pipeline.h>

#include <cmocka.h>

/** Initializer of a tryst_action that reads or makes a version. */
#define ACTION(kind_, stage_, microbatch_, version_)                     \
    {                                                                    \
        .kind = (kind_), .stage = (stage_), .microbatch = (microbatch_), \
        .version = (version_)                                            \
    }

/** The params of a generator for so many ranks and micro-batches, all else by default. */
#define SCHEDULE(ranks_, microbatches_)                                           \
    (&(const tryst_schedule_params){.struct_size = sizeof(tryst_schedule_params), \
                                    .ranks_count = (ranks_),                      \
                                    .microbatches_count = (microbatches_)})

/** Generate a schedule and check it; where that fails, fail the test. */
static inline tryst_program *schedule_checked(const char *schedule, int ranks,
                                              int microbatches)
{
    tryst_program *program = NULL;
    if (tryst_program_generate(schedule, SCHEDULE(ranks, microbatches), &program) !=
            TRYST_OK ||
        tryst_program_check(program, NULL, NULL) != TRYST_OK) {
        fail_msg("%s, %d ranks, %d micro-batches: %s", schedule, ranks, microbatches,
                 tryst_last_error());
    }
    return program;
}

#endif
