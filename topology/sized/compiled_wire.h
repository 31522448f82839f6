/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled plans as bytes (compiled.h has the layout). Callers: commsched/context/group_plan.c; a fuzzer. */
#ifndef TRYST_TOPOLOGY_COMPILED_WIRE_H
#define TRYST_TOPOLOGY_COMPILED_WIRE_H

#include "compiled.h"

/** The caller frees `*bytes_p` with mem_free. TRYST_E_NOMEM. */
tryst_status compiled_plan_encode(const struct compiled_plan *plan, struct err *err,
                                  uint8_t **bytes_p, size_t *count_p);
/** TRYST_E_NOMEM; TRYST_E_INVALID with a sentence: something in the bytes is not as above. */
tryst_status compiled_plan_decode(const uint8_t *bytes, size_t count, struct err *err,
                                  struct compiled_plan **plan_p);
uint64_t compiled_plan_digest(const uint8_t *bytes, size_t count);

#endif
