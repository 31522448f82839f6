/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms for tests that write programs. */
#ifndef TRYST_TESTS_PIPELINE_ACTIONS_H
#define TRYST_TESTS_PIPELINE_ACTIONS_H

#include <tryst/pipeline.h>

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

#endif
