/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <errno.h>
#include <string.h>

#include "core/text/err.h"

static void it_keeps_status_and_sentence(void **state)
{
    struct err err = ERR_INIT;
    errno = EPIPE;
    assert_int_equal(err_set(&err, TRYST_E_PEER, "rank %d is gone", 3), TRYST_E_PEER);
    assert_int_equal(err.status, TRYST_E_PEER);
    assert_string_equal(err.text, "rank 3 is gone");
    assert_int_equal(errno, EPIPE);
}

static void without_a_record_only_the_status_travels(void **state)
{
    assert_int_equal(err_set(NULL, TRYST_E_NOMEM, "unread"), TRYST_E_NOMEM);
}

static void a_sentence_may_wrap_the_one_before(void **state)
{
    struct err err = ERR_INIT;
    err_set(&err, TRYST_E_IO, "disk full");
    err_set(&err, TRYST_E_CONFIG, "file x: %s", err.text);
    assert_string_equal(err.text, "file x: disk full");
}

static void a_long_sentence_is_cut_and_says_so(void **state)
{
    struct err err = ERR_INIT;
    char words[2 * ERR_TEXT_BYTES];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    err_set(&err, TRYST_E_IO, "%s", words);
    assert_int_equal(strlen(err.text), ERR_TEXT_BYTES - 1);
    assert_string_equal(err.text + ERR_TEXT_BYTES - 4, "...");
    /* crosses the end of the text */
    memcpy(words + ERR_TEXT_BYTES - 6, "\xf0\x9f\x8e\x89", 4);
    err_set(&err, TRYST_E_IO, "%s", words);
    assert_string_equal(err.text + ERR_TEXT_BYTES - 7, "w...");
}

static void a_sentence_that_just_fits_is_whole(void **state)
{
    struct err err = ERR_INIT;
    char words[ERR_TEXT_BYTES];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    err_set(&err, TRYST_E_IO, "%s", words);
    assert_string_equal(err.text, words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_status_and_sentence),
        cmocka_unit_test(without_a_record_only_the_status_travels),
        cmocka_unit_test(a_sentence_may_wrap_the_one_before),
        cmocka_unit_test(a_long_sentence_is_cut_and_says_so),
        cmocka_unit_test(a_sentence_that_just_fits_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
