/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes are a compiled plan that encodes to the bytes of a plan, or are refused with
 * an error text. */
#include "fuzz.h"

#include "collectives/plan/compiled_wire.h"
#include "core/memory/alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err err = ERR_INIT;
    struct compiled_plan *plan, *second;
    uint8_t *again;
    size_t count;
    tryst_status status = compiled_plan_decode(data, bytes, &err, &plan);
    FUZZ_CHECK(status == TRYST_OK || (status == TRYST_E_INVALID && err.text[0]));
    if (status != TRYST_OK)
        return 0;
    FUZZ_CHECK(compiled_plan_encode(plan, &err, &again, &count) == TRYST_OK);
    FUZZ_CHECK(compiled_plan_decode(again, count, &err, &second) == TRYST_OK);
    FUZZ_CHECK(count <= bytes);
    compiled_plan_close(second);
    mem_free(again);
    compiled_plan_close(plan);
    return 0;
}
