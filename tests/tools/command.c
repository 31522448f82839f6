/* SPDX-License-Identifier: Apache-2.0 */
/* Implements command.h. */
#include "support/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

#define OUTPUT_MAX (8 << 20)

double command_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void start(struct command *command, const char *const *arguments, bool joined)
{
    const char *argv[32] = {getenv("TRYST_TEST_RUN")};
    int pipes[2][2];
    size_t count = 1;
    assert_non_null(argv[0]);
    for (; arguments[count - 1]; count++)
        argv[count] = arguments[count - 1];
    memset(command, 0, sizeof *command);
    command->began = command_now_s();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
        command->text[i] = calloc(1, OUTPUT_MAX);
    }
    command->pid = fork();
    assert_true(command->pid >= 0);
    if (command->pid == 0) {
        /* Signals that are ignored at the start of a shell cannot be trapped: a
         * background job ignores INT, a job under nohup HUP. */
        for (int number = 1; number < 32; number++)
            signal(number, SIG_DFL);
        dup2(pipes[0][1], STDOUT_FILENO);
        dup2(pipes[joined ? 0 : 1][1], STDERR_FILENO);
        execv(argv[0], (char *const *)argv);
        _exit(99);
    }
    for (int i = 0; i < 2; i++) {
        close(pipes[i][1]);
        command->fds[i] = pipes[i][0];
    }
}

void command_start(struct command *command, const char *const *arguments)
{
    start(command, arguments, false);
}

void command_start_joined(struct command *command, const char *const *arguments)
{
    start(command, arguments, true);
}

void command_read(struct command *command, const char *wanted)
{
    double end = command_now_s() + 40;
    while (command->fds[0] >= 0 || command->fds[1] >= 0) {
        struct pollfd polls[2] = {{.fd = command->fds[0], .events = POLLIN},
                                  {.fd = command->fds[1], .events = POLLIN}};
        if (wanted && strstr(command->text[0], wanted))
            return;
        assert_true(command_now_s() < end);
        poll(polls, 2, 100);
        for (int i = 0; i < 2; i++) {
            if (!polls[i].revents)
                continue;
            ssize_t got = read(command->fds[i], command->text[i] + command->bytes[i],
                               OUTPUT_MAX - 1 - command->bytes[i]);
            if (got > 0)
                command->bytes[i] += (size_t)got;
            if (got <= 0) {
                close(command->fds[i]);
                command->fds[i] = -1;
            }
        }
    }
}

void command_end(struct command *command)
{
    int status;
    command_read(command, NULL);
    assert_int_equal(waitpid(command->pid, &status, 0), command->pid);
    command->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    command->seconds = command_now_s() - command->began;
}

void command_free(struct command *command)
{
    for (int i = 0; i < 2; i++)
        free(command->text[i]);
}

void run_script(struct command *command, const char *ranks, const char *option,
                const char *script)
{
    const char *with[] = {"-n", ranks, option, "sh", "-c", script, NULL};
    const char *without[] = {"-n", ranks, "sh", "-c", script, NULL};
    command_start(command, option ? with : without);
    command_end(command);
}

void expect(const struct command *command, int status, const char *in_errors)
{
    bool said = !in_errors || strstr(command->text[1], in_errors);
    if (command->status != status || !said)
        print_error("status %d, expected %d; stderr:\n%s\n", command->status, status,
                    command->text[1]);
    assert_int_equal(command->status, status);
    assert_true(said);
}

int lines_count(const struct command *command, const char *line)
{
    int count = 0;
    size_t length = strlen(line);
    for (const char *at = command->text[0]; (at = strstr(at, line)); at += length)
        if ((at == command->text[0] || at[-1] == '\n') && at[length] == '\n')
            count++;
    return count;
}
