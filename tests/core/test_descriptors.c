/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in a child process, where the limit of descriptors can be lowered. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/os/descriptors.h"
#include "core/os/fd.h"

/* Lower the limit so that `left` descriptors remain. descriptors_left must find exactly
 * those, and use none of them. */
static int child(unsigned left)
{
    enum { FIRST = 3, SOME = 1024 };
    struct rlimit limit;
    for (int fd = FIRST; fd < SOME; fd++)
        close(fd); /* inherited descriptors */
    int lowest = dup(0);
    close(lowest);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    limit.rlim_cur = (rlim_t)lowest + left;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    for (unsigned turn = 0; turn < 3; turn++) {
        if (!descriptors_left(left) || !descriptors_left(0))
            return 3;
        if (descriptors_left(left + 1))
            return 4;
    }
    return dup(0) == lowest || left == 0 ? 0 : 5;
}

static void test_left(void **state)
{
    static const unsigned lefts[] = {0, 1, 2, 20, DESCRIPTORS_COUNT_MAX - 1};
    for (size_t i = 0; i < sizeof lefts / sizeof *lefts; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(lefts[i]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* ---- never 0, 1 or 2 --------------------------------------------------------------- */

static int makes_high(void)
{
    int pair[2], fds[3];
    for (int fd = 0; fd < FD_FIRST; fd++)
        close(fd);
    fds[0] = FD_MAKE(open("/dev/null", O_WRONLY));
    fds[1] = FD_MAKE(socket(AF_UNIX, SOCK_STREAM, 0));
    fds[2] = fd_copy(fds[0]);
    FILE *file = fd_file_open("/dev/null", "re");
    if (fd_socketpair(AF_UNIX, SOCK_STREAM, pair) != 0 || !file)
        return 1;
    if (fds[0] < FD_FIRST || fds[1] < FD_FIRST || fds[2] < FD_FIRST ||
        pair[0] < FD_FIRST || pair[1] < FD_FIRST || fileno(file) < FD_FIRST)
        return 2;
    for (int fd = 0; fd < FD_FIRST; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return 3; /* a placeholder is left */
    int low = open("/dev/null", O_WRONLY), moved = fd_move(low);
    if (low != 0 || moved < FD_FIRST || fcntl(low, F_GETFD) >= 0)
        return 4;
    errno = 0;
    return FD_MAKE(open("/nowhere/at/all", O_RDONLY)) == -1 && errno == ENOENT ? 0 : 5;
}

static int holds(void)
{
    close(2);
    descriptors_low_refresh();
    if (fcntl(2, F_GETFD) >= 0)
        return 1; /* nothing requires a placeholder */
    descriptors_low_hold();
    descriptors_low_hold();
    if (write(2, "x", 1) >= 0 || errno != EBADF || FD_MAKE(dup(0)) < FD_FIRST)
        return 2;
    descriptors_low_release();
    if (dup(0) == 2)
        return 3; /* one holder is left */
    close(2);
    descriptors_low_refresh();
    if (dup(0) == 2)
        return 4;
    descriptors_low_release();
    if (dup(0) != 2)
        return 5;
    close(2);
    descriptors_low_hold();
    int file = open("/dev/null", O_WRONLY);
    dup2(file, 2); /* from now on descriptor 2 belongs to the program */
    descriptors_low_release();
    return write(2, "x", 1) == 1 ? 0 : 6;
}

static void in_child(int (*fn)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(fn());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_never_low(void **state)
{
    in_child(makes_high);
}

static void test_held_for_others(void **state)
{
    in_child(holds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left),
                                       cmocka_unit_test(test_never_low),
                                       cmocka_unit_test(test_held_for_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
