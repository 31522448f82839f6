/* SPDX-License-Identifier: Apache-2.0 */
/* The loader of device stage modules: no module, modules that must be refused, one good
 * module; each failure has a text, and the process's signal handling is unchanged. The
 * compiled-in folder has a module of another installation, with another ABI. */
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include "pipeline/device/device_module.h"
#include "support/unit.h"

/* Load with TRYST_MODULE_PATH set to one folder of FAKE_MODULES. */
static tryst_status load_from(const char *folder, const struct device_kernels **kernels_p)
{
    char path[1024];
    snprintf(path, sizeof(path), "/nowhere:%s/%s", FAKE_MODULES, folder);
    setenv("TRYST_MODULE_PATH", path, 1);
    (void)tryst_last_error_set(TRYST_OK, "%s", "");
    return device_module_kernels(TRYST_MEMORY_CUDA, kernels_p);
}

static void check_refused(const char *folder, tryst_status status, const char *word)
{
    const struct device_kernels *kernels = NULL;
    assert_int_equal(load_from(folder, &kernels), status);
    if (!strstr(tryst_last_error(), word)) {
        fail_msg("\"%s\" does not contain \"%s\"", tryst_last_error(), word);
    }
    assert_null(kernels);
}

static void test_refused(void **state)
{
    check_refused("none", TRYST_E_UNSUPPORTED, "TRYST_MODULE_PATH");
    check_refused("other_abi", TRYST_E_MODULE, "0.0.0-other");
    check_refused("no_record", TRYST_E_MODULE, "no record");
    check_refused("other_kind", TRYST_E_MODULE, "memory kind 0");
}

static void test_compiled_in(void **state)
{
    const struct device_kernels *kernels = NULL;
    setenv("TRYST_MODULE_PATH", "", 1);
    assert_int_equal(device_module_kernels(TRYST_MEMORY_CUDA, &kernels), TRYST_E_MODULE);
    assert_non_null(strstr(tryst_last_error(), FAKE_MODULES "/other_abi/"));
}

/* A file that is not a module. */
static void test_broken(void **state)
{
    const char *folder = FAKE_MODULES "/broken";
    const char *file = FAKE_MODULES "/broken/tryst_stage_cuda.so";
    (void)mkdir(folder, 0777);
    FILE *out = fopen(file, "we");
    assert_non_null(out);
    fputs("not an object\n", out);
    assert_int_equal(fclose(out), 0);
    check_refused("broken", TRYST_E_MODULE, file);
    assert_int_equal(unlink(file), 0);
}

static void test_good(void **state)
{
    struct sigaction before, after;
    const struct device_kernels *kernels = NULL, *again = NULL;
    assert_int_equal(sigaction(SIGUSR2, NULL, &before), 0);
    assert_int_equal(load_from("good", &kernels), TRYST_OK);
    assert_string_equal(kernels->name, "fake");
    assert_int_equal(sigaction(SIGUSR2, NULL, &after), 0);
    assert_true(before.sa_handler == after.sa_handler);
    /* The module is kept: the path has no effect any more. */
    assert_int_equal(load_from("none", &again), TRYST_OK);
    assert_ptr_equal(again, kernels);
    assert_int_equal(device_module_kernels((tryst_memory_kind)9, &again),
                     TRYST_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_compiled_in),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
