/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module loader and the host table, with modules built for the test (fake_module.c)
 * in the folder that TRYST_MODULE_PATH names. The compiled-in folder is that of another
 * installation: modules of another ABI.
 */
#include "core/config/config.h"
#include "core/log/log.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "transports/module_load.h"
#include "transports/signal_guard.h"

// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static char log_lines[4096];

static void log_sink(void *arg, tryst_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    if (strlen(log_lines) + strlen(line) + 2 > sizeof log_lines)
        return; /* full: the first lines are the important ones */
    strcat(log_lines, line);
    strcat(log_lines, "\n");
}

static struct log test_log = LOG_INIT;
static struct config *config;
static struct tryst_host host;

static int setup(void **state)
{
    test_log.sink = log_sink;
    assert_non_null(getenv("TRYST_TEST_MODULES"));
    assert_int_equal(config_open_defaults(&config), TRYST_OK);
    assert_int_equal(
        config_set(config, "module_path", getenv("TRYST_TEST_MODULES"), NULL), TRYST_OK);
    module_host_init(&host, config, &test_log);
    log_lines[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    config_close(config);
    return 0;
}

static void finds_by_path_and_keeps(void **state)
{
    char text[TRANSPORT_TEXT_MAX] = "";
    const struct transport_ops *ops = NULL, *again = NULL;
    assert_int_equal(module_load(&host, "fake", &ops, text), TRYST_OK);
    assert_string_equal(ops->name, "fake");
    assert_non_null(strstr(text, "fake 1.2"));
    /* a loaded module is found even where no path leads to it any more */
    assert_int_equal(config_set(config, "module_path", "/nowhere", NULL), TRYST_OK);
    assert_int_equal(module_load(&host, "fake", &again, text), TRYST_OK);
    const struct planner_ops *planner;
    assert_int_equal(module_load_planner(&host, "fake", &planner, text),
                     TRYST_E_UNSUPPORTED);
    assert_string_equal(text, "module fake has no planner");
    assert_ptr_equal(ops, again);
    assert_string_equal(log_lines, "");
}

static void threads_of_a_load_block_signals(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    assert_int_equal(module_load(&host, "fake", &ops, text), TRYST_OK);
    assert_int_equal(ops->probe(&host, text), TRYST_OK);
}

static void handler(int signum)
{
    (void)signum;
}

/* The constructor of fake2 has not run yet, so this load is the one that changes
 * dispositions. */
static void signals_are_as_before(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    struct sigaction mine = {.sa_handler = handler, .sa_flags = SA_RESTART}, old, now;
    struct sigaction segv_before; /* cmocka's handlers */
    stack_t stack_before, stack_after;
    sigset_t mask_before = {0}, mask_after = {0}; /* the kernel fills in 8 bytes */
    assert_int_equal(sigaction(SIGHUP, &mine, &old), 0);
    assert_int_equal(sigaction(SIGSEGV, NULL, &segv_before), 0);
    assert_int_equal(sigaltstack(NULL, &stack_before), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    assert_int_equal(module_load(&host, "fake2", &ops, text), TRYST_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    assert_int_equal(sigaltstack(NULL, &stack_after), 0);
    assert_int_equal(sigaction(SIGHUP, &old, &now), 0);
    assert_ptr_equal(now.sa_handler, handler);
    assert_int_equal(now.sa_flags & SA_RESTART, SA_RESTART);
    assert_int_equal(sigaction(SIGSEGV, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, segv_before.sa_handler);
    assert_ptr_equal(stack_before.ss_sp, stack_after.ss_sp);
    assert_memory_equal(&mask_before, &mask_after, sizeof mask_before);
}

static void long_name_is_refused(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    assert_int_equal(module_load(&host, "a_name_of_thirty_two_characters_", &ops, text),
                     TRYST_E_MODULE);
    assert_null(ops);
    assert_non_null(strstr(text, "a_name_of_thirty_two_characters_"));
    assert_non_null(strstr(text, "31 characters at most"));
    /* One character less: there is no such module. */
    assert_int_equal(module_load(&host, "a_name_of_thirty_one_characters", &ops, text),
                     TRYST_E_UNSUPPORTED);
}

static void other_abi_is_refused(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    assert_int_equal(module_load(&host, "fakeold", &ops, text), TRYST_E_MODULE);
    assert_null(ops);
    assert_non_null(strstr(text, "0.0.0-other"));
    assert_non_null(strstr(text, host.abi_id));
    assert_non_null(strstr(log_lines, "tryst_fakeold.so refused"));
}

static void wrong_name_is_refused(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    assert_int_equal(module_load(&host, "fakename", &ops, text), TRYST_E_MODULE);
    assert_non_null(strstr(text, "names another module: somebody"));
}

static void memory_and_no_transport(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    const struct memory_ops *memory = NULL;
    assert_int_equal(module_load_memory(&host, "fakememory", &memory, text), TRYST_OK);
    assert_string_equal(memory->name, "fakememory");
    assert_int_equal(module_load(&host, "fakememory", &ops, text), TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(text, "no transport"));
    memory = NULL;
    assert_int_equal(module_load_memory(&host, "fake", &memory, text),
                     TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(text, "no kind of memory"));
    assert_int_equal(module_load_memory(&host, "fakesmall", &memory, text),
                     TRYST_E_MODULE);
    assert_non_null(strstr(text, "0 and 8 bytes"));
    assert_null(memory);
}

static void without_entry_is_refused(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    assert_int_equal(module_load(&host, "fakenone", &ops, text), TRYST_E_MODULE);
    assert_non_null(strstr(text, TRYST_MODULE_ENTRY));
}

static void cannot_start_is_refused(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    assert_int_equal(module_load(&host, "fakenull", &ops, text), TRYST_E_MODULE);
    assert_non_null(strstr(log_lines, "warn: fakenull"));
}

static void missing_says_where_it_looked(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    assert_int_equal(module_load(&host, "absent", &ops, text), TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(text, "tryst_absent.so"));
    assert_non_null(strstr(text, "TRYST_MODULE_PATH"));
    assert_string_equal(log_lines, "");
}

static void path_replaces_the_compiled_in_folder(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    const struct transport_ops *ops = NULL;
    assert_int_equal(module_load(&host, "fakethere", &ops, text), TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(text, "(TRYST_MODULE_PATH)"));
    assert_int_equal(config_set(config, "module_path", "", NULL), TRYST_OK);
    assert_int_equal(module_load(&host, "fakethere", &ops, text), TRYST_E_MODULE);
    assert_non_null(strstr(text, "0.0.0-other"));
    assert_int_equal(module_load(&host, "absent", &ops, text), TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(text, "; set TRYST_MODULE_PATH to its folder"));
}

static void host_handler(int signum)
{
    (void)signum;
}

/* The host program may install handlers while a fabric starts in another thread: they
 * stay. Handlers installed by a library that was loaded meanwhile are restored (tested by
 * signals_are_put_back). */
static void guard_keeps_the_hosts_handlers(void **state)
{
    struct signal_guard guard;
    struct sigaction now;
    (void)state;
    signal_guard_begin(&guard);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, host_handler);
    assert_int_equal(signal_guard_end(&guard), 0);
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_IGN);
    assert_int_equal(sigaction(SIGUSR2, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, host_handler);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
}

static uint64_t stopped_clock(void *arg)
{
    (void)arg;
    return 42;
}

static void host_table(void **state)
{
    const struct clock clock = {stopped_clock, NULL};
    void *memory = host.alloc(64);
    for (size_t i = 0; i < offsetof(struct tryst_host, closed) / sizeof(void *); i++)
        assert_non_null(((void **)&host)[i]);  /* every slot is set */
    assert_true(!host.closed && !host.copies); /* until a context has gates */
    assert_int_equal(host.abi_version, TRYST_MODULE_ABI_VERSION);
    assert_memory_equal(memory, (char[64]){0}, 64);
    host.free(memory);
    memory = host.alloc_aligned(4096, 100);
    assert_int_equal((uintptr_t)memory % 4096, 0);
    host.free(memory);
    host.log(&host, TRYST_LOG_WARN, "100% sure");
    assert_non_null(strstr(log_lines, "100% sure"));
    assert_int_equal(config_set(config, "connect_timeout", "2s", NULL), TRYST_OK);
    assert_string_equal(host.config(&host, "connect_timeout"), "2s");
    assert_int_equal(host.config_number(&host, "connect_timeout"), 2000000000);
    assert_int_equal(host.config_number(&host, "no_such"), 0);
    assert_null(host.config(&host, "no_such"));
    test_log.clock = &clock;
    assert_int_equal(host.now_ns(&host), 42);
    test_log.clock = NULL;
    uint64_t secrets[2] = {0, 0};
    assert_int_equal(host.random_secret(&secrets[0], sizeof secrets[0]), TRYST_OK);
    assert_int_equal(host.random_secret(&secrets[1], sizeof secrets[1]), TRYST_OK);
    assert_true(secrets[0] != 0 && secrets[0] != secrets[1]);
    assert_true(host.descriptors_left(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_by_path_and_keeps, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_of_a_load_block_signals, setup, teardown),
        cmocka_unit_test_setup_teardown(signals_are_as_before, setup, teardown),
        cmocka_unit_test_setup_teardown(long_name_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(other_abi_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_name_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_and_no_transport, setup, teardown),
        cmocka_unit_test_setup_teardown(without_entry_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(cannot_start_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_says_where_it_looked, setup, teardown),
        cmocka_unit_test_setup_teardown(path_replaces_the_compiled_in_folder, setup,
                                        teardown),
        cmocka_unit_test(guard_keeps_the_hosts_handlers),
        cmocka_unit_test_setup_teardown(host_table, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
