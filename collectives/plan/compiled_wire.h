/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled plans as bytes (compiled.h has the layout). */
#ifndef TRYST_COLLECTIVES_PLAN_COMPILED_WIRE_H
#define TRYST_COLLECTIVES_PLAN_COMPILED_WIRE_H

#include "compiled.h"

/** Encode the plan. The caller frees `*bytes_p` with mem_free. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status compiled_plan_encode(const struct compiled_plan *plan, struct err *err,
                                  uint8_t **bytes_p, size_t *count_p);
/** Decode and check a plan. The bytes need not outlive the call.
 *  Returns: TRYST_E_INVALID  the bytes break a rule of compiled.h; `err` names it
 *           TRYST_E_NOMEM */
tryst_status compiled_plan_decode(const uint8_t *bytes, size_t count, struct err *err,
                                  struct compiled_plan **plan_p);
/** Return the digest of an encoded plan. */
uint64_t compiled_plan_digest(const uint8_t *bytes, size_t count);

#endif
