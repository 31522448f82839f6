/* SPDX-License-Identifier: Apache-2.0 */
/* Each test forks, and the child reports its result in its exit status. */
#include "support/unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/os/fork.h"

static int child_status(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_child_counts_one_more_than_its_parent(void **state)
{
    uint64_t generation = fork_generation();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (fork_generation() != generation + 1)
            _exit(1);
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(fork_generation() == generation + 2 ? 0 : 2);
        int status;
        waitpid(grandchild, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
    }
    assert_int_equal(child_status(child), 0);
    assert_int_equal(fork_generation(), generation);
}

static void close_it(void *arg)
{
    close(*(int *)arg);
}

static void a_handler_closes_in_the_child_alone(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct fork_handler handler = {.child = close_it, .arg = &fds[1]};
    assert_int_equal(fork_handler_add(&handler), TRYST_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(write(fds[1], "x", 1) == 1); /* 0: closed */
    assert_int_equal(child_status(child), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    fork_handler_remove(&handler);
    fork_handler_remove(&handler);
    close(fds[0]);
    close(fds[1]);
}

static void count_it(void *arg)
{
    ++*(int *)arg;
}

static void handlers_run_once_each_until_removed(void **state)
{
    static int first_calls, second_calls;
    struct fork_handler first = {.child = count_it, .arg = &first_calls};
    struct fork_handler second = {.child = count_it, .arg = &second_calls};
    assert_int_equal(fork_handler_add(&first), TRYST_OK);
    assert_int_equal(fork_handler_add(&second), TRYST_OK);
    fork_handler_remove(&first);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fork_handler_remove(&second); /* allowed in the child */
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(first_calls * 10 + second_calls);
        int status;
        waitpid(grandchild, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
    assert_int_equal(child_status(child), 1);
    fork_handler_remove(&second);
    assert_int_equal(first_calls + second_calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_counts_one_more_than_its_parent),
        cmocka_unit_test(a_handler_closes_in_the_child_alone),
        cmocka_unit_test(handlers_run_once_each_until_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
