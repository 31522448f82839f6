/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of callers, of any version (tryst/sized.h), with the sentence for those that
 * are refused. */
#ifndef PIPELINE_PARAMS_H
#define PIPELINE_PARAMS_H

#include "fail.h"

#include <tryst/sized.h>
#include <tryst/stage.h>

/* Copy the input struct `from` (NULL: all defaults) to `to`, this version's of `bytes`
 * bytes. `name` is the type's, for the sentence. */
static inline tryst_status params_read(void *to, size_t bytes, const void *from,
                                       const char *name, char *error,
                                       size_t error_capacity)
{
    if (tryst_sized_read(to, bytes, from)) {
        return TRYST_OK;
    }
    fail_text(TRYST_E_INVALID, error, error_capacity, "cannot read %s: %s", name,
              tryst_sized_reason(from));
    return TRYST_E_INVALID;
}

/* The same for params that name the buffer of their own error. */
#define PARAMS_READ_OWN(to, from, type)                              \
    params_read((to), sizeof(type), (from), #type,                   \
                PARAMS_HAS_ERROR(from, type) ? (from)->error : NULL, \
                PARAMS_HAS_ERROR(from, type) ? (from)->error_capacity : 0)
#define PARAMS_HAS_ERROR(from, type) \
    ((from) && tryst_sized_is_set(from) && TRYST_SIZED_HAS(from, type, error_capacity))

/* Why the table or the info of a stage, perhaps a caller's own, cannot be used; NULL
 * where both can. */
static inline const char *params_stage_reason(const tryst_stage *stage)
{
    tryst_stage_ops ops;
    tryst_stage_info info;
    if (!TRYST_SIZED_HAS(stage->ops, tryst_stage_ops, error))
        return "the struct_size of its tryst_stage_ops is not set: set it with sizeof";
    if (!TRYST_SIZED_HAS(&stage->info, tryst_stage_info, device))
        return "the struct_size of its tryst_stage_info is not set: set it with sizeof";
    if (!tryst_sized_read(&ops, sizeof ops, stage->ops))
        return tryst_sized_reason(stage->ops);
    return tryst_sized_read(&info, sizeof info, &stage->info)
               ? NULL
               : tryst_sized_reason(&stage->info);
}

#endif
