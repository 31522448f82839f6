/* SPDX-License-Identifier: Apache-2.0 */
/* Without a usable driver, cuda reports the reason in one sentence, and host memory
 * works. */
#include <sched.h>
#include <string.h>

#include "row.h"

static void test_says_why(void **state)
{
    const struct memory_ops *row = NULL;
    const char *wanted = getenv("TRYST_TEST_SAYS");
    char text[TRANSPORT_TEXT_MAX] = "";
    assert_non_null(wanted);
    for (int i = 0; i < 2; i++) { /* the second try gives the same result */
        assert_int_equal(row_load(&row, text), TRYST_E_UNSUPPORTED);
        if (!strstr(text, wanted))
            fail_msg("'%s' does not contain '%s'", text, wanted);
    }
    assert_null(row);
    assert_null(memory_ops_get(TRYST_MEMORY_CUDA));
    assert_non_null(memory_ops_get(TRYST_MEMORY_HOST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_says_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
