/* SPDX-License-Identifier: Apache-2.0 */
/* tryst/device.h through the public API: the host's handle completes everything at once,
 * a device that does not exist is refused with a reason, and a handle outlives its
 * context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/device.h>
#include <tryst/tryst.h>

static int setup(void **state)
{
    tryst_ctx *ctx = NULL;
    int status = tryst_open(NULL, &ctx) == TRYST_OK ? 0 : -1;
    *state = ctx;
    return status;
}

static int teardown(void **state)
{
    tryst_close(*state);
    return 0;
}

static void test_host(void **state)
{
    tryst_device *device = NULL;
    tryst_device_info info = {.struct_size = sizeof info};
    void *stream = &info, *event = &info, *pinned = NULL;
    char text[160] = "";
    int32_t count = 0;
    assert_int_equal(
        tryst_device_count(*state, TRYST_MEMORY_HOST, &count, text, sizeof text),
        TRYST_OK);
    assert_int_equal(count, 1);
    assert_true(*text != '\0');
    assert_int_equal(tryst_device_open(*state, TRYST_MEMORY_HOST, 0, &device), TRYST_OK);
    assert_int_equal(tryst_device_describe(device, &info), TRYST_OK);
    assert_int_equal(info.memory, TRYST_MEMORY_HOST);
    assert_int_equal(info.struct_size, sizeof info);
    assert_int_equal(tryst_stream_open(device, true, &stream), TRYST_OK);
    assert_int_equal(tryst_event_open(device, &event), TRYST_OK);
    assert_null(stream);
    assert_null(event);
    assert_int_equal(tryst_pinned_alloc(device, 100, &pinned), TRYST_OK);
    assert_int_equal(tryst_stream_wait(device, stream, event), TRYST_OK);
    assert_int_equal(tryst_copy_async(device, stream, pinned, "there", 6), TRYST_OK);
    assert_string_equal(pinned, "there");
    assert_int_equal(tryst_event_record(device, stream, event), TRYST_OK);
    assert_int_equal(tryst_event_test(device, event), TRYST_OK);
    tryst_pinned_free(device, pinned, 100);
    tryst_event_close(device, event);
    tryst_stream_close(device, stream);
    tryst_device_close(device);
}

static void test_refused(void **state)
{
    tryst_device *device = NULL;
    char error[160] = "";
    int32_t count = 7;
    assert_int_equal(tryst_device_open(*state, TRYST_MEMORY_HOST, 1, &device),
                     TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "cannot open device 1"));
    assert_int_equal(tryst_device_open(*state, TRYST_MEMORY_HOST, -1, &device),
                     TRYST_E_INVALID);
    assert_int_equal(
        tryst_device_count(*state, (tryst_memory_kind)99, &count, error, sizeof error),
        TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(error, "99"));
    assert_int_equal(tryst_device_count(NULL, TRYST_MEMORY_HOST, &count, NULL, 0),
                     TRYST_E_INVALID);
    assert_int_equal(tryst_device_open(*state, TRYST_MEMORY_HOST, 0, NULL),
                     TRYST_E_INVALID);
    assert_null(device);
    tryst_device_close(NULL);
}

static void test_outlives_context(void **state)
{
    tryst_ctx *ctx = NULL;
    tryst_device *device = NULL;
    void *pinned = NULL;
    (void)state;
    assert_int_equal(tryst_open(NULL, &ctx), TRYST_OK);
    assert_int_equal(tryst_device_open(ctx, TRYST_MEMORY_HOST, 0, &device), TRYST_OK);
    tryst_close(ctx);
    assert_int_equal(tryst_pinned_alloc(device, 1, &pinned), TRYST_OK);
    tryst_pinned_free(device, pinned, 1);
    tryst_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_host, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test(test_outlives_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
