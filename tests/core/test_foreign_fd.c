/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that block at their last close: the caller goes on at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/foreign_fd.h"
#include "support/descriptors.h"
#include "support/lingering.h"

static int fds_before, live_before;

static int setup(void **state)
{
    (void)state;
    assert_true(foreign_fds_wait(10 * NS_PER_S));
    fds_before = descriptors_open();
    live_before = (int)alloc_live_count();
    return 0;
}

static void nothing_left(void)
{
    assert_true(foreign_fds_wait(10 * NS_PER_S));
    assert_int_equal(descriptors_open(), fds_before);
    assert_int_equal(alloc_live_count(), live_before);
}

/* Closed by the caller: the number is free at once. */
static void test_memory_file(void **state)
{
    (void)state;
    foreign_fd_close(memfd_create("test", MFD_CLOEXEC));
    assert_int_equal(descriptors_open(), fds_before);
    foreign_fd_close(-1);
    foreign_fd_close(-2);
    nothing_left();
}

/* SO_LINGER is switched off: nothing waits for the peer, which does not read. */
static void test_socket(void **state)
{
    struct lingering socket = lingering_make();
    (void)state;
    errno = 77;
    foreign_fd_close(socket.fd);
    assert_int_equal(errno, 77);
    assert_true(foreign_fds_wait(LINGER_S / 2 * NS_PER_S));
    close(socket.other);
    nothing_left();
}

/* A close that blocks whatever its option: the call has returned while the close still
 * blocks, and the descriptors behind it wait. */
static void test_wrapped(void **state)
{
    struct lingering socket = lingering_make();
    (void)state;
    foreign_fd_close(lingering_wrap(socket));
    foreign_fd_close(open("/dev/null", O_RDONLY | O_CLOEXEC));
    foreign_fd_close_later(memfd_create("test", MFD_CLOEXEC));
    assert_false(foreign_fds_wait(0));
    close(socket.other);
    nothing_left();
}

/* Without memory the caller closes, still without lingering. */
static void test_no_memory(void **state)
{
    struct lingering socket = lingering_make();
    uint64_t start_ns = clock_monotonic_ns();
    (void)state;
    alloc_fail_at(1);
    foreign_fd_close(socket.fd);
    assert_true(alloc_fail_off());
    assert_true(clock_monotonic_ns() - start_ns < LINGER_S / 2 * NS_PER_S);
    close(socket.other);
    nothing_left();
}

/* A child starts anew: the parent's thread, and what blocks it, are not the child's. */
static void test_fork(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* TSan refuses threads in the child of a process with threads */
#endif
    struct lingering socket = lingering_make();
    int exited;
    foreign_fd_close(lingering_wrap(socket));
    assert_false(foreign_fds_wait(0));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        foreign_fd_close(open("/dev/null", O_RDONLY | O_CLOEXEC));
        _exit(foreign_fds_wait(LINGER_S / 2 * NS_PER_S) ? 0 : 1);
    }
    close(socket.other);
    assert_int_equal(waitpid(pid, &exited, 0), pid);
    assert_int_equal(exited, 0);
    nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memory_file, setup),
        cmocka_unit_test_setup(test_socket, setup),
        cmocka_unit_test_setup(test_wrapped, setup),
        cmocka_unit_test_setup(test_no_memory, setup),
        cmocka_unit_test_setup(test_fork, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
