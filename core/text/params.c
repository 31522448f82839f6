/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's structs, and the sentence for a refused one; see params.h. */
#include "params.h"

tryst_status params_read(void *to, size_t bytes, const void *from, const char *name,
                         struct err *err)
{
    if (tryst_sized_read(to, bytes, from))
        return TRYST_OK;
    return err_set(err, TRYST_E_INVALID, "cannot read %s: %s", name,
                   tryst_sized_reason(from));
}

tryst_status params_check_output(const void *to, const char *name, struct err *err)
{
    if (!to || tryst_sized_is_set(to))
        return TRYST_OK;
    return err_set(err, TRYST_E_INVALID, "cannot write %s: %s", name,
                   tryst_sized_reason(to));
}
