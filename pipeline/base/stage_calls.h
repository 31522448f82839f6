/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the structs of update and predict, and the weights and parts that
 * calls name, for the stages of this library. So all of them refuse in the same words. If
 * a call is refused, tryst_last_error has the reason. */
#ifndef TRYST_PIPELINE_BASE_STAGE_CALLS_H
#define TRYST_PIPELINE_BASE_STAGE_CALLS_H

#include "params.h"

#include <math.h>

/** Copy the caller's `given` to `*update_p`, with the default of `rate` filled in.
 *  Returns TRYST_OK, or TRYST_E_INVALID without effect. */
static inline tryst_status stage_update_read(const tryst_stage_update *given,
                                             tryst_stage_update *update_p)
{
    tryst_stage_update update;
    tryst_status status =
        params_read_given(&update, sizeof(update), given, "tryst_stage_update");
    if (status != TRYST_OK) {
        return status;
    }
    if (update.microbatches < 1) {
        return refuse(
            TRYST_E_INVALID,
            "cannot update the weights: the step has %d micro-batches (1 or more)",
            (int)update.microbatches);
    }
    if (!isfinite(update.rate) || update.rate < 0) {
        return refuse(TRYST_E_INVALID,
                      "cannot update the weights: the rate's factor is %g; use a finite "
                      "number of 0 (for 1) or more",
                      update.rate);
    }
    update.rate = update.rate == 0 ? 1 : update.rate;
    *update_p = update;
    return TRYST_OK;
}

/** Copy the caller's `given` to `*prediction_p`, and check that a stage with `info` can
 *  make it. Returns TRYST_OK, or TRYST_E_INVALID without effect. */
static inline tryst_status stage_prediction_read(const tryst_stage_info *info,
                                                 const tryst_stage_prediction *given,
                                                 tryst_stage_prediction *prediction_p)
{
    tryst_stage_prediction p;
    tryst_status status =
        params_read_given(&p, sizeof(p), given, "tryst_stage_prediction");
    if (status != TRYST_OK) {
        return status;
    }
    if (p.slot < 1 || p.slot > info->slots_count) {
        return refuse(TRYST_E_INVALID,
                      "cannot predict weights into slot %d: the stage has %d slots, from "
                      "1 (slots_count)",
                      (int)p.slot, (int)info->slots_count);
    }
    if (!isfinite(p.ahead)) {
        return refuse(TRYST_E_INVALID,
                      "cannot predict weights %g updates ahead: use a finite number",
                      p.ahead);
    }
    if (p.direction != TRYST_DIRECTION_STEP && p.direction != TRYST_DIRECTION_DELTA) {
        return refuse(TRYST_E_INVALID,
                      "cannot predict weights: direction %d does not exist; use the "
                      "optimiser's step (0) or the mean change (1)",
                      (int)p.direction);
    }
    if (p.direction == TRYST_DIRECTION_DELTA && !info->keeps_delta) {
        return refuse(TRYST_E_INVALID,
                      "cannot predict weights by their mean change: the stage keeps "
                      "none; open it with delta_decay");
    }
    *prediction_p = p;
    return TRYST_OK;
}

/** Check that a call can read the weights of `slot` (not 0). filled[i] is true if a
 *  prediction has written slot i + 1. Returns TRYST_OK or TRYST_E_INVALID. */
static inline tryst_status stage_slot_check(const tryst_stage_info *info,
                                            const bool *filled, int32_t slot)
{
    if (slot < 1 || slot > info->slots_count) {
        return refuse(TRYST_E_INVALID,
                      "cannot compute with weight slot %d: the stage holds %d, from 1",
                      (int)slot, (int)info->slots_count);
    }
    return filled[slot - 1]
               ? TRYST_OK
               : refuse(TRYST_E_INVALID,
                        "cannot compute with weight slot %d: no prediction has filled it",
                        (int)slot);
}

/** Check that a stage with `info` and the newest weight version `newest` holds the
 *  weights that `work` reads: a slot, or a version. Returns TRYST_OK or
 *  TRYST_E_INVALID. */
static inline tryst_status stage_weights_check(const tryst_stage_info *info,
                                               const bool *filled, uint64_t newest,
                                               const tryst_stage_work *work)
{
    uint64_t held = (uint64_t)info->versions_count;
    if (work->slot != 0) {
        return stage_slot_check(info, filled, work->slot);
    }
    return work->version <= newest && work->version + held > newest
               ? TRYST_OK
               : refuse(TRYST_E_INVALID,
                        "cannot compute with weight version %llu: the stage holds %d, "
                        "the newest is %llu",
                        (unsigned long long)work->version, (int)info->versions_count,
                        (unsigned long long)newest);
}

/** Write the oldest version that a stage with `info` holds, and `newest`. */
static inline void stage_versions_set(const tryst_stage_info *info, uint64_t newest,
                                      uint64_t *oldest_p, uint64_t *newest_p)
{
    uint64_t held = (uint64_t)info->versions_count;
    *oldest_p = newest + 1 > held ? newest + 1 - held : 0;
    *newest_p = newest;
}

/** Check that `part` is one of `count`. Returns TRYST_OK or TRYST_E_INVALID. */
static inline tryst_status stage_part_check(int32_t part, int32_t count)
{
    return part >= 0 && part < count
               ? TRYST_OK
               : refuse(TRYST_E_INVALID,
                        "cannot use part %d of the stage: it has %d parts, from 0",
                        (int)part, (int)count);
}

/** Refuse a work with an invalid struct_size. */
#define refuse_work(given) \
    refuse(TRYST_E_INVALID, "cannot read tryst_stage_work: %s", tryst_sized_reason(given))

/** Refuse to update `part` a second time. */
#define refuse_part_newest(part)                                                        \
    refuse(TRYST_E_INVALID, "cannot update part %d: it has the newest version already", \
           (int)(part))

/** Refuse to `what` ("update the weights") because `part` lacks the previous update. */
#define refuse_part_behind(what, part)                                       \
    refuse(TRYST_E_INVALID,                                                  \
           "cannot %s: part %d lacks the previous update; call update_part " \
           "for it",                                                         \
           what, (int)(part))

#endif
