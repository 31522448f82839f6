/* SPDX-License-Identifier: Apache-2.0 */
/* In a child, whose limit may be lowered. */
#include "support/unit.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/descriptors.h"

/* With `left` descriptors that may still be made: exactly so many are there, and stay there. */
static int child(unsigned left)
{
    enum { FIRST = 3, SOME = 1024 };
    struct rlimit limit;
    for (int fd = FIRST; fd < SOME; fd++)
        close(fd); /* of whoever called */
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
    static const unsigned lefts[] = {0, 1, 2, 20, DESCRIPTORS_ASKED_MAX - 1};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
