/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a key, or is refused with a position inside it. The parts of a key are the
 * text, part by part. */
#include "fuzz.h"

#include "tryst/key.h"

/* Check that `view` is the text at `at`; return where the part behind the next ';'
 * begins. */
static size_t view_check(const char *text, size_t at, tryst_view view)
{
    FUZZ_CHECK(view.data == text + at && view.bytes > 0);
    at += view.bytes;
    FUZZ_CHECK(text[at] == ';' || text[at] == '\0');
    return at + 1;
}

static void parts_check(const char *text, const tryst_parsed_key *key)
{
    size_t at = view_check(text, 0, key->src_device);
    char *end;
    FUZZ_CHECK(strtoull(text + at, &end, 16) == key->src_incarnation);
    FUZZ_CHECK(*end == ';' && end - (text + at) <= 16);
    at = (size_t)(end - text) + 1;
    at = view_check(text, at, key->dst_device);
    at = view_check(text, at, key->edge);
    at = view_check(text, at, key->frame_iter);
    FUZZ_CHECK(at == strlen(text) + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = fuzz_text(data, bytes);
    tryst_parsed_key key = {.struct_size = sizeof key};
    tryst_key_error error = {sizeof error, SIZE_MAX, NULL};
    tryst_status status = tryst_key_parse(text, &key, &error);
    FUZZ_CHECK(status == tryst_key_parse(text, &key, NULL));
    if (status == TRYST_OK) {
        FUZZ_CHECK(strlen(text) <= TRYST_KEY_MAX);
        parts_check(text, &key);
    } else {
        FUZZ_CHECK(status == TRYST_E_KEY && error.reason != NULL);
        FUZZ_CHECK(error.position <= strlen(text));
    }
    free(text);
    return 0;
}
