/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's structs, of any version (tryst/sized.h), and the sentence for a refused
 * one.
 *
 * One idea: only these functions and sized.h compare a struct_size. Invariant: a refusal
 * changes nothing but `err`. */
#ifndef TRYST_CORE_TEXT_PARAMS_H
#define TRYST_CORE_TEXT_PARAMS_H

#include <stddef.h>

#include "err.h"
#include "tryst/sized.h"

/** Copy the input struct `from` (NULL: all defaults) to `to`, a struct of this version
 *  with `bytes` bytes. `name` is the name of the type, for the sentence. Returns TRYST_OK
 *  or TRYST_E_INVALID. */
tryst_status params_read(void *to, size_t bytes, const void *from, const char *name,
                         struct err *err);

/** Check the struct_size of an output struct (NULL is allowed) before the call changes
 *  anything. Returns TRYST_OK or TRYST_E_INVALID. */
tryst_status params_check_output(const void *to, const char *name, struct err *err);

#endif
