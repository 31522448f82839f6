/* SPDX-License-Identifier: Apache-2.0 */
/* tryst_last_error: one text for each thread, of any length up to 64 KiB. */
#include "core/text/refuse.h"

#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "tryst/tryst.h"

static void test_sentences(void **state)
{
    (void)state;
    assert_string_equal(tryst_last_error(), "");
    errno = ENOENT;
    assert_int_equal(refuse(TRYST_E_IO, "cannot read %s: %d", "it", 7), TRYST_E_IO);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(tryst_last_error(), "cannot read it: 7");
    /* The text may be an argument of the text that replaces it. */
    (void)refuse(TRYST_E_IO, "again: %s", tryst_last_error());
    assert_string_equal(tryst_last_error(), "again: cannot read it: 7");
    assert_int_equal(refuse_null("send", "tensor"), TRYST_E_INVALID);
    assert_string_equal(tryst_last_error(), "cannot send: tensor is NULL");
    assert_int_equal(refuse_nomem("send"), TRYST_E_NOMEM);
    struct err err = ERR_INIT;
    assert_int_equal(refuse_err(&err, TRYST_E_PEER), TRYST_E_PEER);
    assert_string_equal(tryst_last_error(), tryst_status_str(TRYST_E_PEER));
}

static char grid[200000];

static void *elsewhere(void *arg)
{
    (void)arg;
    assert_string_equal(tryst_last_error(), "");
    (void)refuse(TRYST_E_PROGRAM, "%s", grid);
    assert_int_equal(strlen(tryst_last_error()), 65535);
    return NULL;
}

static void test_long(void **state)
{
    pthread_t thread;
    size_t before = alloc_live_bytes();
    (void)state;
    memset(grid, 'x', sizeof grid - 1);
    (void)refuse(TRYST_E_PROGRAM, "here");
    assert_int_equal(pthread_create(&thread, NULL, elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(tryst_last_error(), "here");
    /* the end of the thread freed its text */
    assert_int_equal(alloc_live_bytes(), before);
    grid[5000] = '\0';
    (void)refuse(TRYST_E_PROGRAM, "%s", grid);
    assert_string_equal(tryst_last_error(), grid);
    (void)refuse(TRYST_E_PROGRAM, "%sy", tryst_last_error());
    assert_int_equal(strlen(tryst_last_error()), 5001);
    (void)refuse(TRYST_E_PROGRAM, "short");
    assert_string_equal(tryst_last_error(), "short");
    assert_int_equal(alloc_live_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
