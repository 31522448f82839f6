/* SPDX-License-Identifier: Apache-2.0 */
/* Threads at the exit of the process. Each case is a forked child that exits while a
 * thread runs; the child's status has the result.
 *
 * TRYST_TEST_BLOCKED=1 adds the case of a thread that never ends, which takes 10 s. */
#include "support/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/os/clock.h"
#include "core/thread/thread.h"
#include "support/patience.h"

enum { GOOD = 0, FOREIGN_CODE_RUNS = 9, NOT_REGISTERED = 10, WORK_MS = 300 };

/* Threads inside foreign code: what no destructor may find. */
static _Atomic(int) inside;
static _Atomic(bool) has_stopped;

/* Options of ThreadSanitizer: threads that run at exit() are the subject here. */
__attribute__((used, visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

static void ms_sleep(unsigned ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* Where a destructor of a library would run. */
static void inside_check(void)
{
    if (inside)
        _exit(FOREIGN_CODE_RUNS);
}

static int child_run(void (*main)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (atexit(inside_check) != 0)
            _exit(NOT_REGISTERED);
        main();
        exit(GOOD);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static struct thread *thread_start(void (*run)(void *arg), void (*stop)(void *arg))
{
    static struct thread thread;
    struct thread_params params = {.run = run, .stop = stop, .name = "the test"};
    inside++;
    if (thread_open(&thread, &params) != 0)
        _exit(NOT_REGISTERED);
    return &thread;
}

static void work(void *arg)
{
    ms_sleep(WORK_MS);
    inside--;
}

static void works(void)
{
    thread_start(work, NULL);
}

static void exit_awaits_a_thread(void **state)
{
    assert_int_equal(child_run(works), GOOD);
}

/* The record is the thread's, and freed in it, as after opener_leave. */
static void work_alone(void *arg)
{
    work(arg);
    thread_leave();
    thread_leave(); /* once more does nothing */
    free(arg);
}

static void works_alone(void)
{
    struct thread *thread = malloc(sizeof *thread);
    struct thread_params params = {.run = work_alone, .arg = thread, .name = "the test"};
    inside++;
    if (!thread || thread_open(thread, &params) != 0)
        _exit(NOT_REGISTERED);
    pthread_detach(thread->id);
}

static void exit_awaits_a_detached_thread(void **state)
{
    assert_int_equal(child_run(works_alone), GOOD);
}

static void exit_here(void *arg)
{
    inside--;
    exit(GOOD);
}

static void exits_there(void)
{
    thread_start(exit_here, NULL);
    for (;;)
        pause();
}

static void a_thread_exits_itself(void **state)
{
    assert_int_equal(child_run(exits_there), GOOD);
}

static void exits_poll(void *arg)
{
    while (!thread_exits())
        ms_sleep(1);
    inside--;
}

static void polls(void)
{
    thread_start(exits_poll, NULL);
}

static void a_thread_polls_the_exit(void **state)
{
    assert_false(thread_exits());
    assert_int_equal(child_run(polls), GOOD);
}

static void stop_await(void *arg)
{
    while (!has_stopped)
        ms_sleep(1);
    inside--;
}

static void stop(void *arg)
{
    has_stopped = true;
}

static void is_stopped(void)
{
    thread_start(stop_await, stop);
}

static void exit_stops_a_thread(void **state)
{
    assert_int_equal(child_run(is_stopped), GOOD);
}

static void pthread_ends(void *arg)
{
    inside--;
    pthread_exit(NULL);
}

static void ends_by_pthread_exit(void)
{
    pthread_join(thread_start(pthread_ends, NULL)->id, NULL);
}

static void a_thread_that_calls_pthread_exit_has_ended(void **state)
{
    uint64_t begin_ns = clock_monotonic_ns();
    assert_int_equal(child_run(ends_by_pthread_exit), GOOD);
    assert_true(clock_monotonic_ns() - begin_ns < patience_ns(5 * NS_PER_S));
}

/* A library that is loaded during a start registers a handler, which would run before the
 * handler of the start. */
static void loads(void)
{
    thread_start(work, NULL);
    if (!dlopen("libresolv.so.2", RTLD_NOW) || atexit(inside_check) != 0)
        _exit(NOT_REGISTERED);
    thread_exit_watch();
}

static void exit_awaits_before_the_handlers_of_libraries(void **state)
{
    assert_int_equal(child_run(loads), GOOD);
}

static void works_at_exit(void)
{
    if (atexit(works) != 0)
        _exit(NOT_REGISTERED);
    pthread_join(thread_start(work, NULL)->id, NULL);
}

static void a_thread_of_an_exit_handler_is_awaited(void **state)
{
    assert_int_equal(child_run(works_at_exit), GOOD);
}

static void forks(void)
{
    thread_start(work, NULL);
    uint64_t begin_ns = clock_monotonic_ns();
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        inside = 0; /* the thread is the parent's */
        exit(GOOD);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
        _exit(1);
    if (clock_monotonic_ns() - begin_ns > patience_ns(5 * NS_PER_S))
        _exit(2);
}

static void a_child_awaits_no_thread_of_its_parent(void **state)
{
    assert_int_equal(child_run(forks), GOOD);
}

static void block(void *arg)
{
    for (;;)
        pause();
}

static void blocks(void)
{
    thread_start(block, NULL);
    if (dlopen("libresolv.so.2", RTLD_NOW))
        thread_exit_watch(); /* two handlers, of which one waits */
}

static void exit_goes_on_without_a_blocked_thread(void **state)
{
    uint64_t begin_ns = clock_monotonic_ns();
    if (!getenv("TRYST_TEST_BLOCKED"))
        skip();
    assert_int_equal(child_run(blocks), FOREIGN_CODE_RUNS);
    uint64_t took_ns = clock_monotonic_ns() - begin_ns;
    assert_true(took_ns > 9 * NS_PER_S && took_ns < patience_ns(15 * NS_PER_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_awaits_a_thread),
        cmocka_unit_test(exit_awaits_a_detached_thread),
        cmocka_unit_test(a_thread_exits_itself),
        cmocka_unit_test(a_thread_polls_the_exit),
        cmocka_unit_test(exit_stops_a_thread),
        cmocka_unit_test(a_thread_that_calls_pthread_exit_has_ended),
        cmocka_unit_test(exit_awaits_before_the_handlers_of_libraries),
        cmocka_unit_test(a_thread_of_an_exit_handler_is_awaited),
        cmocka_unit_test(a_child_awaits_no_thread_of_its_parent),
        cmocka_unit_test(exit_goes_on_without_a_blocked_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
