/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle's sum of gradients over the replicas of a stage. */
#ifndef TRYST_PIPELINE_MODEL_REPLAY_SUM_H
#define TRYST_PIPELINE_MODEL_REPLAY_SUM_H

#include <tryst/replay.h>

/** Add the gradients of all parts of `count` replicas of `stage`, in the order that
 *  `params` describes, and write the sums to all of them. Returns TRYST_OK,
 *  TRYST_E_NOMEM, TRYST_E_INVALID (the replicas have different parts, or the order does
 *  not cover a part), or the status of params->order. */
tryst_status replay_sum(const tryst_replay_params *params, int32_t stage,
                        tryst_stage *const *replicas, int count);

#endif
