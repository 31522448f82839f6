/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a profile, or is refused with its name and line. What was read is written
 * and read again with the same text, and its replays are not below the bound. */
#include "fuzz.h"

#include <math.h>

#include "tryst/profile.h"
#include "tryst/topo.h"
#include "tryst/tryst.h"

static void text_check(const tryst_profile *profile)
{
    tryst_profile *again;
    char *first, *second;
    FUZZ_CHECK(tryst_profile_write(profile, &first) == TRYST_OK);
    FUZZ_CHECK(tryst_profile_parse(first, strlen(first), "x", &again) == TRYST_OK);
    FUZZ_CHECK(tryst_profile_write(again, &second) == TRYST_OK);
    FUZZ_CHECK(strcmp(first, second) == 0);
    tryst_profile_close(again);
    tryst_text_free(first);
    tryst_text_free(second);
}

static void orders_check(tryst_profile *profile)
{
    tryst_profile_params params = {
        .struct_size = sizeof params, .bytes_per_s = 1e6, .latency_s = 1e-3};
    double bound;
    FUZZ_CHECK(tryst_profile_bound(profile, &params, &bound) == TRYST_OK);
    for (int i = TRYST_PROFILE_FIFO; i <= TRYST_PROFILE_PREEMPT; i++) {
        tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
        params.order = (tryst_profile_order)i;
        tryst_status status = tryst_profile_replay(profile, &params, &replayed);
        if (status == TRYST_E_INVALID && params.order == TRYST_PROFILE_BUCKETS)
            continue; /* an operation comes after another one */
        FUZZ_CHECK(status == TRYST_OK);
        FUZZ_CHECK(isfinite(replayed.seconds));
        FUZZ_CHECK(replayed.seconds >= bound * (1 - 1e-9));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    tryst_profile *profile;
    tryst_status status = tryst_profile_parse((const char *)data, bytes, "x", &profile);
    FUZZ_CHECK(status == TRYST_OK || status == TRYST_E_INVALID);
    if (status != TRYST_OK) {
        FUZZ_CHECK(strncmp(tryst_last_error(), "x:", 2) == 0);
        return 0;
    }
    text_check(profile);
    orders_check(profile);
    tryst_profile_close(profile);
    return 0;
}
