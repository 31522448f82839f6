/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the callers' structs, of any version (tryst/sized.h). If a struct is refused,
 * tryst_last_error has the reason. */
#ifndef TRYST_PIPELINE_BASE_PARAMS_H
#define TRYST_PIPELINE_BASE_PARAMS_H

#include "refuse.h"

#include <tryst/sized.h>
#include <tryst/stage.h>
#include <tryst/tryst.h>

/** Copy the input struct `from` (NULL: all defaults) to `to`, a struct of this version
 *  with `bytes` bytes. `name` is the type's name, for tryst_last_error. Returns TRYST_OK
 *  or TRYST_E_INVALID. */
static inline tryst_status params_read(void *to, size_t bytes, const void *from,
                                       const char *name)
{
    if (tryst_sized_read(to, bytes, from)) {
        return TRYST_OK;
    }
    (void)refuse(TRYST_E_INVALID, "cannot read %s: %s", name, tryst_sized_reason(from));
    return TRYST_E_INVALID;
}

/** Copy the input struct `from` as params_read does, but refuse NULL. */
static inline tryst_status params_read_given(void *to, size_t bytes, const void *from,
                                             const char *name)
{
    if (from) {
        return params_read(to, bytes, from, name);
    }
    (void)refuse(TRYST_E_INVALID, "cannot read %s: params is NULL", name);
    return TRYST_E_INVALID;
}

/** True if the caller's output struct `to` can be written: it is not NULL, and its
 *  struct_size is valid. Otherwise tryst_last_error gives the reason. */
static inline bool params_writable(const void *to, const char *name)
{
    if (to && tryst_sized_is_set(to)) {
        return true;
    }
    (void)refuse(TRYST_E_INVALID, "cannot write %s: %s", name,
                 to ? tryst_sized_reason(to) : "it is NULL");
    return false;
}

/** Return the reason why the ops table or the info of `stage`, which may be a caller's
 *  own kind of stage, cannot be used; NULL if both are valid. */
static inline const char *params_stage_reason(const tryst_stage *stage)
{
    tryst_stage_ops ops;
    tryst_stage_info info;
    if (!TRYST_SIZED_HAS(stage->ops, tryst_stage_ops, error))
        return "the struct_size of its tryst_stage_ops is too small; set it with sizeof";
    if (!TRYST_SIZED_HAS(&stage->info, tryst_stage_info, device))
        return "the struct_size of its tryst_stage_info is too small; set it with sizeof";
    if (!tryst_sized_read(&ops, sizeof ops, stage->ops))
        return tryst_sized_reason(stage->ops);
    return tryst_sized_read(&info, sizeof info, &stage->info)
               ? NULL
               : tryst_sized_reason(&stage->info);
}

#endif
