/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a stage's updates and predictions, for tests. */
#ifndef TRYST_TESTS_PIPELINE_STAGE_UPDATE_H
#define TRYST_TESTS_PIPELINE_STAGE_UPDATE_H

#include <tryst/stage.h>

/** Address of a tryst_stage_update with these fields: UPDATE(.microbatches = 2). */
#define UPDATE(...) \
    (&(const tryst_stage_update){.struct_size = sizeof(tryst_stage_update), __VA_ARGS__})

/** Address of a tryst_stage_prediction with these fields. */
#define PREDICTION(...)                                                             \
    (&(const tryst_stage_prediction){.struct_size = sizeof(tryst_stage_prediction), \
                                     __VA_ARGS__})

#endif
