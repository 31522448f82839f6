/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a profile, or is refused with its name and line. What was read is written
 * and read again with the same text. */
#include "fuzz.h"

#include "commsched/profile/profile_json.h"
#include "core/memory/alloc.h"

static char *written(const struct tryst_profile *profile)
{
    struct text text = {0};
    struct err err = ERR_INIT;
    char *json;
    profile_json_write(profile, &text);
    FUZZ_CHECK(text_release(&text, &err, &json) == TRYST_OK);
    return json;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tryst_profile *profile, *again;
    struct err err = ERR_INIT;
    struct source source = {(const char *)data, bytes, "x", &err};
    tryst_status status = profile_json_read(&source, &profile);
    FUZZ_CHECK(status == TRYST_OK || status == TRYST_E_INVALID);
    if (status != TRYST_OK) {
        FUZZ_CHECK(strncmp(err.text, "x:", 2) == 0);
        return 0;
    }
    char *first = written(profile);
    source = (struct source){first, strlen(first), "x", &err};
    FUZZ_CHECK(profile_json_read(&source, &again) == TRYST_OK);
    char *second = written(again);
    FUZZ_CHECK(strcmp(first, second) == 0);
    mem_free(first);
    mem_free(second);
    profile_close(again);
    profile_close(profile);
    return 0;
}
