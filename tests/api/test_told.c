/* SPDX-License-Identifier: Apache-2.0 */
/* A failure of tryst_open or tryst_group_open is described in tryst_last_error; the log
 * and stderr stay empty. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tryst/tryst.h>

struct lines {
    int count;
    char last[1024];
};

static void line_record(void *arg, tryst_log_level level, const char *line)
{
    struct lines *lines = arg;
    lines->count += level == TRYST_LOG_ERROR;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

/* Read what `fn` writes to stderr. */
static void stderr_of(void (*fn)(void), char *text, size_t capacity)
{
    int kept = dup(STDERR_FILENO), ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(kept >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    fn();
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    close(ends[1]);
    ssize_t bytes = read(ends[0], text, capacity - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    close(ends[0]);
}

static void open_plainly(void)
{
    tryst_ctx *ctx;
    assert_int_equal(tryst_open(NULL, &ctx), TRYST_E_CONFIG);
}

static void test_open(void **state)
{
    char text[2048];
    tryst_ctx *ctx;
    struct lines lines = {0};
    tryst_open_params params = {
        .struct_size = sizeof params, .log_fn = line_record, .log_arg = &lines};
    assert_int_equal(setenv("TRYST_WINDOW_BYTES", "many", 1), 0);
    stderr_of(open_plainly, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(tryst_open(&params, &ctx), TRYST_E_CONFIG);
    assert_int_equal(lines.count, 0);
    assert_non_null(strstr(tryst_last_error(), "TRYST_WINDOW_BYTES"));
    assert_int_equal(unsetenv("TRYST_WINDOW_BYTES"), 0);
}

static void test_group(void **state)
{
    tryst_ctx *ctx;
    tryst_group *group;
    struct lines lines = {0};
    tryst_open_params open = {
        .struct_size = sizeof open, .log_fn = line_record, .log_arg = &lines};
    tryst_group_params params = {.struct_size = sizeof params, .device_prefix = "x"};
    assert_int_equal(tryst_open(&open, &ctx), TRYST_OK);
    assert_int_equal(tryst_group_open(ctx, &params, &group), TRYST_E_GROUP);
    assert_int_equal(lines.count, 0);
    assert_non_null(strstr(tryst_last_error(), "device prefix: \"x\""));
    tryst_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_open),
                                       cmocka_unit_test(test_group)};
    return cmocka_run_group_tests_name("told", tests, NULL, NULL);
}
