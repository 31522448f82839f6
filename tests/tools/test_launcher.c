/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-run as seen by a user: its output, its exit, and the processes that it leaves.
 * The program under test is TRYST_TEST_RUN; most ranks are small shell scripts. This
 * binary also serves as a tool: "self N" starts itself N times. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "tools/launch/launcher.h"

/* No process reads the launcher's outputs, their pipes are full, and a rank fails: the
 * launcher ends nevertheless. */
static void reader_that_does_not_read(const char *option)
{
    struct command command;
    const char *arguments[] = {"-n",
                               "2",
                               "--grace",
                               "200ms",
                               option,
                               "sh",
                               "-c",
                               "[ $TRYST_RANK = 0 ] && { sleep 0.5; exit 9; }; "
                               "while :; do echo many errors >&2; done & "
                               "while :; do echo much output; done",
                               NULL};
    int status;
    double end = command_now_s() + 30;
    command_start(&command, arguments);
    while (waitpid(command.pid, &status, WNOHANG) == 0) {
        assert_true(command_now_s() < end);
        usleep(50000);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 9);
    command_read(&command, NULL);
    command_free(&command);
}

static void reader_that_does_not_read_holds_up_nothing(void **state)
{
    reader_that_does_not_read("--env=NOTHING=1");
    reader_that_does_not_read("--no-prefix");
}

/* ---- environment ---- */

static void ranks_get_their_places(void **state)
{
    struct command command;
    setenv("TRYST_TOKEN_FILE", "/nowhere", 1);
    setenv("TRYST_INSECURE", "1", 1);
    const char *arguments[] = {"-n",
                               "3",
                               "--env",
                               "COLOUR=blue",
                               "--env",
                               "A=b=c",
                               "sh",
                               "-c",
                               "echo $TRYST_RANK/$TRYST_SIZE $TRYST_LOCAL_RANK/"
                               "$TRYST_LOCAL_SIZE $COLOUR $A "
                               "${TRYST_TOKEN_FILE-none} ${TRYST_INSECURE-none}",
                               NULL};
    command_start(&command, arguments);
    command_end(&command);
    unsetenv("TRYST_TOKEN_FILE");
    unsetenv("TRYST_INSECURE");
    expect(&command, 0, NULL);
    assert_int_equal(lines_count(&command, "[0] 0/3 0/3 blue b=c none none"), 1);
    assert_int_equal(lines_count(&command, "[1] 1/3 1/3 blue b=c none none"), 1);
    assert_int_equal(lines_count(&command, "[2] 2/3 2/3 blue b=c none none"), 1);
    command_free(&command);
}

static void token_get(char token[33])
{
    struct command command;
    run_script(&command, "2", NULL, "echo $TRYST_TOKEN");
    expect(&command, 0, NULL);
    char again[33] = "";
    assert_int_equal(
        sscanf(command.text[0], "[%*d] %32[0-9a-f]\n[%*d] %32[0-9a-f]\n", token, again),
        2);
    assert_string_equal(token, again);
    assert_int_equal(strlen(token), 32);
    command_free(&command);
}

/* -np and -x as for mpirun; behind the program's name "-np" is the program's. */
static void habits_of_mpirun(void **state)
{
    struct command command;
    const char *arguments[] = {"-np",
                               "2",
                               "-x",
                               "COLOUR=blue",
                               "-x",
                               "PATH",
                               "-x",
                               "TRYST_TEST_NONE",
                               "sh",
                               "-c",
                               "echo $TRYST_SIZE $COLOUR $1 $2",
                               "sh",
                               "-np",
                               "3",
                               NULL};
    unsetenv("TRYST_TEST_NONE");
    command_start(&command, arguments);
    command_end(&command);
    expect(&command, 0, "tryst-run: -x TRYST_TEST_NONE: the variable is not set\n");
    assert_null(strstr(command.text[1], "PATH"));
    assert_int_equal(lines_count(&command, "[0] 2 blue -np 3"), 1);
    assert_int_equal(lines_count(&command, "[1] 2 blue -np 3"), 1);
    command_free(&command);
}

static void each_run_draws_a_token(void **state)
{
    char first[33] = "", second[33] = "";
    token_get(first);
    token_get(second);
    assert_string_not_equal(first, second);
}

/* The shell searches with built-ins: the pattern would be on grep's own command line. */
static void token_is_on_no_command_line(void **state)
{
    struct command command;
    run_script(
        &command, "2", NULL,
        "all=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '); "
        "case $all in *$TRYST_TOKEN*) echo exposed;; *tryst-run*) echo hidden;; esac");
    expect(&command, 0, NULL);
    assert_int_equal(lines_count(&command, "[0] hidden"), 1);
    assert_int_equal(lines_count(&command, "[1] hidden"), 1);
    command_free(&command);
}

/* Only rank 0 has the socket, which listens at the address that all ranks got. */
static void rank_0_inherits_the_socket(void **state)
{
    struct command command;
    run_script(
        &command, "2", NULL,
        "port=$(printf %04X ${TRYST_BOOTSTRAP##*:}); fd=${TRYST_BOOTSTRAP_FD-none}; "
        "inode=$(readlink /proc/$$/fd/$fd | tr -dc 0-9); "
        "echo fd ${fd} $(awk -v p=$port -v i=${inode:-no} "
        "'$10 == i && $4 == \"0A\" && $2 ~ p { print \"listens\" }' /proc/net/tcp)");
    expect(&command, 0, NULL);
    assert_non_null(strstr(command.text[0], "[0] fd "));
    assert_non_null(strstr(command.text[0], " listens\n"));
    assert_int_equal(lines_count(&command, "[1] fd none"), 1);
    command_free(&command);
}

/* An invalid range is refused; a range of one port serves one job at a time. */
static void bootstrap_obeys_the_port_range(void **state)
{
    static const struct {
        const char *setting, *said;
        int status;
    } wrong[] = {{"TRYST_PORT_RANGE=9-1", "TRYST_PORT_RANGE='9-1'", LAUNCHER_FAILED},
                 {"TRYST_PORT_RANGE=7x", "TRYST_PORT_RANGE='7x'", LAUNCHER_FAILED},
                 {"TRYST_PORT_RANGE=0-5", "must be a port", LAUNCHER_FAILED},
                 {"TRYST_PORT=70000", "TRYST_PORT='70000'", LAUNCHER_FAILED}};
    const char *wait_for_input = "echo port ${TRYST_BOOTSTRAP##*:}; read line";
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char option[64];
        struct command command;
        snprintf(option, sizeof option, "--env=%s", wrong[i].setting);
        run_script(&command, "2", option, "echo started");
        expect(&command, wrong[i].status, wrong[i].said);
        assert_null(strstr(command.text[0], "started"));
        command_free(&command);
    }
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int input[2], own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), saved = dup(0);
    char range[64], expected[64];
    assert_int_equal(bind(own, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(own, 1), 0); /* the first port of the range is taken */
    assert_int_equal(getsockname(own, (struct sockaddr *)&at, &bytes), 0);
    int port = ntohs(at.sin_port);
    snprintf(range, sizeof range, "--env=TRYST_PORT_RANGE=%d-%d", port, port);
    struct command first, second;
    run_script(&first, "1", range, "echo started");
    expect(&first, LAUNCHER_FAILED, "every port of TRYST_PORT or TRYST_PORT_RANGE");
    command_free(&first);
    close(own);

    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    dup2(input[0], 0);
    const char *arguments[] = {"-n", "1", range, "sh", "-c", wait_for_input, NULL};
    command_start(&first, arguments);
    snprintf(expected, sizeof expected, "[0] port %d\n", port);
    command_read(&first, expected);
    /* now held by the rank of the first job */
    run_script(&second, "1", range, "echo started");
    expect(&second, LAUNCHER_FAILED, "Address already in use");
    close(input[0]);
    close(input[1]);
    dup2(saved, 0);
    close(saved);
    command_end(&first);
    assert_non_null(strstr(first.text[0], expected));
    command_free(&first);
    command_free(&second);
}

/* ---- endings ---- */

static void exit_status_is_the_first_failure(void **state)
{
    struct command command;
    run_script(&command, "3", NULL, "exit 0");
    expect(&command, 0, NULL);
    assert_string_equal(command.text[1], "");
    command_free(&command);

    run_script(&command, "3", NULL, "[ $TRYST_RANK = 1 ] && exit 3; sleep 0.3; exit 5");
    expect(&command, 3, "rank 1 (pid ");
    expect(&command, 3, "exited with status 3; the 2 others may take 10 s to end");
    expect(&command, 3, "then rank 0");
    command_free(&command);

    run_script(&command, "3", NULL,
               "[ $TRYST_RANK = 2 ] && kill -KILL $$; sleep 0.3; exit 5");
    expect(&command, 128 + SIGKILL, "was killed by signal 9 (SIGKILL");
    expect(&command, 128 + SIGKILL, "rank 2 (pid ");
    command_free(&command);

    run_script(&command, "1", NULL, "ulimit -c 0; kill -SEGV $$");
    expect(&command, 128 + SIGSEGV, "rank 0 (pid ");
    expect(&command, 128 + SIGSEGV, "SIGSEGV");
    command_free(&command);
}

/* The last output of a rank comes before the line that reports its end. */
static void last_words_come_first(void **state)
{
    struct command command;
    run_script(&command, "2", NULL, "echo last words of $TRYST_RANK >&2; exit 4");
    expect(&command, 4, "[0] last words of 0");
    const char *words = strstr(command.text[1], "[0] last words of 0");
    const char *told = strstr(command.text[1], "rank 0 (pid");
    assert_true(words && told && words < told);
    command_free(&command);
}

static void programs_that_do_not_run(void **state)
{
    static const struct {
        const char *arguments[6];
        int status;
        const char *text;
    } cases[] = {
        {{"-n", "3", "no-such-program", NULL}, 127, "cannot run 'no-such-program'"},
        {{"-n", "2", "/etc/passwd", NULL}, 126, "cannot run '/etc/passwd'"},
        {{"-n", "2", NULL}, 125, "no program given"},
        {{"true", NULL}, 125, "no number of ranks"},
        {{"-n", "0", "true", NULL}, 125, "must be"},
        {{"-n", "2x", "true", NULL}, 125, "must be"},
        {{"-n", "2", "--env", "NOVALUE", "true", NULL}, 125, "not 'NOVALUE'"},
        {{"-n", "2", "--env", "TRYST_SIZE=3", "true", NULL}, 125, "'TRYST_SIZE=3'"},
        {{"-np", "2", "-x", "TRYST_SIZE=3", "true", NULL}, 125, "'TRYST_SIZE=3'"},
        {{"-np", "2x", "true", NULL}, 125, "--ranks 2x: must be"},
        {{"-n", "2", "--grace", "soon", "true", NULL}, 125, "not 'soon'"},
        {{"--wrong", NULL}, 125, "--wrong"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct command command;
        command_start(&command, cases[i].arguments);
        command_end(&command);
        expect(&command, cases[i].status, cases[i].text);
        assert_string_equal(command.text[0], "");
        command_free(&command);
    }
}

static void others_may_end_by_themselves(void **state)
{
    struct command command;
    run_script(
        &command, "3", NULL,
        "[ $TRYST_RANK = 0 ] && exit 1; trap 'echo got TERM' TERM; sleep 1; echo done");
    expect(&command, 1, NULL);
    assert_int_equal(lines_count(&command, "[1] done"), 1);
    assert_int_equal(lines_count(&command, "[2] done"), 1);
    assert_null(strstr(command.text[0], "got TERM"));
    assert_null(strstr(command.text[1], "SIGTERM"));
    command_free(&command);
}

static void after_grace_they_are_ended(void **state)
{
    struct command command;
    const char *arguments[] = {
        "-n",
        "3",
        "--grace",
        "300ms",
        "sh",
        "-c",
        "[ $TRYST_RANK = 0 ] && exit 6; "
        "if [ $TRYST_RANK = 1 ]; then trap 'echo got TERM; exit 0' TERM; "
        "else trap '' TERM; fi; while :; do sleep 0.05; done",
        NULL};
    command_start(&command, arguments);
    command_end(&command);
    expect(&command, 6, "after 0.3 s of grace: ranks 1, 2; sending SIGTERM");
    expect(&command, 6, "after SIGTERM: rank 2; sending SIGKILL");
    assert_int_equal(lines_count(&command, "[1] got TERM"), 1);
    assert_true(command.seconds < 10);
    command_free(&command);
}

/* A stopped rank does not react to TERM, and is killed. */
static void stopped_ranks_are_ended_too(void **state)
{
    struct command command;
    const char *arguments[] = {
        "-n",
        "2",
        "--grace",
        "300ms",
        "sh",
        "-c",
        "[ $TRYST_RANK = 0 ] && { sleep 0.3; exit 6; }; kill -STOP $$; "
        "sleep 100",
        NULL};
    command_start(&command, arguments);
    command_end(&command);
    expect(&command, 6, "rank 0");
    assert_true(command.seconds < 10);
    command_free(&command);
}

static void sixty_four_ranks(void **state)
{
    struct command command;
    const char *arguments[] = {"-n", "64", "/bin/true", NULL};
    command_start(&command, arguments);
    command_end(&command);
    expect(&command, 0, NULL);
    command_free(&command);
    run_script(&command, "64", NULL, "echo here");
    for (int rank = 0; rank < 64; rank++) {
        char line[32];
        snprintf(line, sizeof line, "[%d] here", rank);
        assert_int_equal(lines_count(&command, line), 1);
    }
    command_free(&command);
}

/* ---- signals ---- */

static void signals_are_passed_on(void **state)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    static const char *const names[] = {"INT", "TERM", "HUP", "USR1", "USR2"};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        struct command command;
        char script[256];
        snprintf(script, sizeof script,
                 "trap 'echo caught %s; exit 0' %s; echo ready $TRYST_RANK; "
                 "while :; do sleep 0.05; done",
                 names[i], names[i]);
        const char *arguments[] = {"-n", "2", "sh", "-c", script, NULL};
        command_start(&command, arguments);
        command_read(&command, "ready 0");
        command_read(&command, "ready 1");
        kill(command.pid, numbers[i]);
        command_end(&command);
        expect(&command, 0, NULL);
        snprintf(script, sizeof script, "[0] caught %s", names[i]);
        assert_int_equal(lines_count(&command, script), 1);
        script[1] = '1';
        assert_int_equal(lines_count(&command, script), 1);
        command_free(&command);
    }
}

/* ---- leftovers ---- */

/* True if the process exists; a zombie counts as gone. */
static bool is_alive(pid_t pid)
{
    char path[64], text[512] = "", state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    if (fgets(text, sizeof text, file) && strrchr(text, ')'))
        state = strrchr(text, ')')[2];
    fclose(file);
    return state != 'Z' && state != 'X';
}

/* Read the pids that the ranks printed as "pid N"; return how many. */
static size_t pids_read(const struct command *command, pid_t *pids, size_t most)
{
    size_t count = 0;
    for (const char *at = command->text[0]; count < most && (at = strstr(at, "pid "));
         at++)
        pids[count++] = (pid_t)atoi(at + 4);
    return count;
}

static void pids_expect_gone(const pid_t *pids, size_t count)
{
    double end = command_now_s() + 5;
    for (size_t i = 0; i < count; i++)
        while (is_alive(pids[i])) {
            if (command_now_s() > end)
                print_error("pid %d still exists\n", (int)pids[i]);
            assert_true(command_now_s() < end);
            usleep(10000);
        }
}

/* Ranks that ignore TERM and HUP, and a launcher that is killed. */
static void killed_launcher_leaves_nothing(void **state)
{
    static const char script[] =
        "trap '' TERM HUP INT; echo pid $$; echo ready $TRYST_RANK; exec sleep 300";
    static const char *const ready[] = {"ready 0", "ready 1", "ready 2", "ready 3"};
    for (int form = 0; form < 2; form++) {
        struct command command;
        pid_t pids[16];
        const char *plain[] = {"-n", "4", "--no-prefix", "sh", "-c", script, NULL};
        const char *prefixed[] = {"-n", "4", "sh", "-c", script, NULL};
        command_start(&command, form ? plain : prefixed);
        for (size_t i = 0; i < COUNT_OF(ready); i++)
            command_read(&command, ready[i]);
        assert_int_equal(pids_read(&command, pids, 16), 4);
        for (size_t i = 0; i < 4; i++)
            assert_true(is_alive(pids[i]));
        kill(command.pid, SIGKILL);
        waitpid(command.pid, NULL, 0);
        pids_expect_gone(pids, 4);
        for (int i = 0; i < 2; i++)
            close(command.fds[i]);
        command_free(&command);
    }
}

/* A signal to the launcher's process group does not reach the ranks. */
static void killed_group_leaves_nothing(void **state)
{
    struct command command;
    pid_t pids[8];
    const char *arguments[] = {
        "-n", "2", "sh", "-c", "echo pid $$; echo ready $TRYST_RANK; exec sleep 300",
        NULL};
    command_start(&command, arguments);
    /* harmless whether or not the launcher has forked yet */
    setpgid(command.pid, command.pid);
    command_read(&command, "ready 0");
    command_read(&command, "ready 1");
    assert_int_equal(pids_read(&command, pids, 8), 2);
    kill(command.pid, SIGKILL);
    kill(-command.pid, SIGKILL);
    waitpid(command.pid, NULL, 0);
    pids_expect_gone(pids, 2);
    for (int i = 0; i < 2; i++)
        close(command.fds[i]);
    command_free(&command);
}

/* A rank ends and leaves a process that holds its pipe: the launcher does not wait for
 * that process. */
static void leftovers_of_ended_ranks_go(void **state)
{
    struct command command;
    pid_t pids[2];
    run_script(&command, "2", NULL, "sleep 300 & echo pid $!");
    expect(&command, 0, NULL);
    assert_true(command.seconds < 10);
    assert_int_equal(pids_read(&command, pids, 2), 2);
    pids_expect_gone(pids, 2);
    command_free(&command);
}

/* ---- the library form ---- */

static int print_and_end(void *arg, int rank)
{
    printf("%s %d of %s\n", (const char *)arg, rank, getenv("TRYST_SIZE"));
    return rank == 1 ? 4 : 0;
}

static void function_instead_of_program(void **state)
{
    struct launcher_params params = {.name = "test",
                                     .ranks = 3,
                                     .main_fn = print_and_end,
                                     .arg = "function",
                                     .grace_ns = LAUNCHER_GRACE_NS};
    sigset_t before, after;
    struct sigaction pipe_before, pipe_after;
    sigprocmask(SIG_SETMASK, NULL, &before);
    sigaction(SIGPIPE, NULL, &pipe_before);
    assert_int_equal(launcher_run(&params), 4);
    sigprocmask(SIG_SETMASK, NULL, &after);
    sigaction(SIGPIPE, NULL, &pipe_after);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    assert_true(pipe_before.sa_handler == pipe_after.sa_handler);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    assert_int_equal(errno, ECHILD);
}

/* The caller ignores SIGCHLD, with which no death would be seen. */
static void ignored_deaths_are_seen(void **state)
{
    const struct launcher_params params = {.name = "test",
                                           .ranks = 2,
                                           .main_fn = print_and_end,
                                           .arg = "function",
                                           .grace_ns = LAUNCHER_GRACE_NS};
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        signal(SIGCHLD, SIG_IGN);
        status = launcher_run(&params);
        bool kept = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
        _exit(kept ? status : 99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_that_does_not_read_holds_up_nothing),
        cmocka_unit_test(ranks_get_their_places),
        cmocka_unit_test(habits_of_mpirun),
        cmocka_unit_test(each_run_draws_a_token),
        cmocka_unit_test(token_is_on_no_command_line),
        cmocka_unit_test(rank_0_inherits_the_socket),
        cmocka_unit_test(bootstrap_obeys_the_port_range),
        cmocka_unit_test(exit_status_is_the_first_failure),
        cmocka_unit_test(last_words_come_first),
        cmocka_unit_test(programs_that_do_not_run),
        cmocka_unit_test(others_may_end_by_themselves),
        cmocka_unit_test(after_grace_they_are_ended),
        cmocka_unit_test(stopped_ranks_are_ended_too),
        cmocka_unit_test(sixty_four_ranks),
        cmocka_unit_test(signals_are_passed_on),
        cmocka_unit_test(killed_launcher_leaves_nothing),
        cmocka_unit_test(killed_group_leaves_nothing),
        cmocka_unit_test(leftovers_of_ended_ranks_go),
        cmocka_unit_test(function_instead_of_program),
        cmocka_unit_test(ignored_deaths_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
