/* SPDX-License-Identifier: Apache-2.0 */
/* Output of ranks through tryst-run: complete lines, prompts, progress bars, long lines,
 * and which outputs may share a line. */
#include "support/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

/* ---- whole lines ---- */

/* True if `line` completes the last line that a rank began, of which `begun` holds the
 * earlier parts. */
static bool line_is_complete(char *begun, size_t capacity, const char *line,
                             const char *expected)
{
    strncat(begun, line, capacity - strlen(begun) - 1);
    if (strcmp(begun, expected) != 0)
        return false;
    begun[0] = '\0';
    return true;
}

/* Each rank writes its lines in pieces, and each line is printed complete with its
 * prefix. On a busy machine 100 ms may pass between two pieces: then the line is printed
 * in parts, each with the prefix. */
static void lines_are_whole_and_prefixed(void **state)
{
    struct command command;
    run_script(&command, "4", NULL,
               "i=0; while [ $i -lt 500 ]; do printf \"line $i \"; printf 'of '; "
               "echo $TRYST_RANK; i=$((i+1)); done");
    expect(&command, 0, NULL);
    int next[4] = {0}, parts = 0, rank, behind;
    char begun[4][256] = {""}, *rest = NULL;
    for (char *line = strtok_r(command.text[0], "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char expected[64];
        assert_int_equal(sscanf(line, "[%d] %n", &rank, &behind), 1);
        assert_in_range(rank, 0, 3);
        snprintf(expected, sizeof expected, "line %d of %d", next[rank], rank);
        if (line_is_complete(begun[rank], sizeof begun[rank], line + behind, expected))
            next[rank]++;
        else
            parts++;
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(next[i], 500);
    assert_true(parts < 20);
    command_free(&command);
}

static void last_line_without_newline_comes_out(void **state)
{
    struct command command;
    run_script(&command, "2", NULL,
               "echo first; printf unfinished; printf complaint >&2");
    expect(&command, 0, "[0] complaint\n");
    expect(&command, 0, "[1] complaint\n");
    assert_int_equal(lines_count(&command, "[0] unfinished"), 1);
    assert_int_equal(lines_count(&command, "[1] unfinished"), 1);
    assert_null(strstr(command.text[0], "complaint"));
    command_free(&command);
}

static void endless_lines_lose_nothing(void **state)
{
    struct command command;
    size_t letters = 0;
    run_script(&command, "2", NULL, "head -c 300000 /dev/zero | tr '\\0' x");
    expect(&command, 0, NULL);
    for (size_t i = 0; i < command.bytes[0]; i++)
        letters += command.text[0][i] == 'x';
    assert_int_equal(letters, 600000);
    command_free(&command);
}

static void without_prefix(void **state)
{
    struct command command;
    run_script(&command, "2", "--no-prefix", "echo plain; echo error >&2");
    expect(&command, 0, "error\nerror\n");
    assert_string_equal(command.text[0], "plain\nplain\n");
    command_free(&command);
}

/* ---- beginnings of lines ---- */

/* A command whose rank 0 reads the text that input_write writes. */
struct input {
    int write_fd, saved_fd;
};

static struct input input_open(void)
{
    int fds[2];
    struct input input = {.saved_fd = dup(STDIN_FILENO)};
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    dup2(fds[0], STDIN_FILENO);
    close(fds[0]);
    input.write_fd = fds[1];
    return input;
}

static void input_write(const struct input *input, const char *text)
{
    assert_int_equal(write(input->write_fd, text, strlen(text)), strlen(text));
}

static void input_close(struct input *input)
{
    close(input->write_fd);
    dup2(input->saved_fd, STDIN_FILENO);
    close(input->saved_fd);
}

/* Run `script` in `ranks` shells; each time that stdout contains the next of `wanted`,
 * rank 0 gets a line "go". The complete output must be `output`. */
static void dialogue(const char *ranks, const char *script, const char *const *wanted,
                     const char *output)
{
    struct command command;
    const char *arguments[] = {"-n", ranks, "sh", "-c", script, NULL};
    struct input input = input_open();
    command_start_joined(&command, arguments);
    for (; *wanted; wanted++) {
        command_read(&command, *wanted);
        input_write(&input, "go\n");
    }
    input_close(&input);
    command_end(&command);
    expect(&command, 0, NULL);
    assert_string_equal(command.text[0], output);
    command_free(&command);
}

static void prompts_are_shown(void **state)
{
    dialogue("1", "printf 'name? '; read name; echo hello $name",
             (const char *const[]){"[0] name? ", NULL}, "[0] name? hello go\n");
    dialogue("1", "printf 'name? '; read name; echo; echo hello $name",
             (const char *const[]){"[0] name? ", NULL}, "[0] name? \n[0] hello go\n");
    dialogue("1", "printf 'name? ' >&2; read name; printf end",
             (const char *const[]){"[0] name? ", NULL}, "[0] name? \n[0] end\n");
}

/* A terminal overwrites the text before a carriage return, including the prefix. */
static void progress_bars_are_shown(void **state)
{
    dialogue("1", "printf '10%%\\r'; read line; printf '20%%\\r'; read line; echo done",
             (const char *const[]){"[0] 10%\r", "20%\r", NULL},
             "[0] 10%\r[0] 20%\r[0] done\n");
    dialogue("1", "printf '\\r10%%'; read line; printf '\\r20%%'; read line; echo",
             (const char *const[]){"[0] 10%", "20%", NULL}, "[0] 10%\r[0] 20%\n");
    dialogue("1", "printf 'a\\r\\n\\r\\nb\\r'; read line; echo",
             (const char *const[]){"b\r", NULL}, "[0] a\r\n[0] \n[0] b\r\n");
}

/* While rank 0 is within a line, rank 1 (or the other output) writes a line. */
static void two_ranks_never_share_a_line(void **state)
{
    dialogue("2",
             "if [ $TRYST_RANK = 0 ]; then printf 'begin '; read line; echo end; "
             "else sleep 0.5; echo other; fi",
             (const char *const[]){"[1] other\n", NULL},
             "[0] begin \n[1] other\n[0] end\n");
    dialogue("2",
             "if [ $TRYST_RANK = 0 ]; then printf 'begin '; read line; echo; echo next; "
             "else sleep 0.5; echo other >&2; fi",
             (const char *const[]){"[1] other\n", NULL},
             "[0] begin \n[1] other\n[0] next\n");
    dialogue("2",
             "if [ $TRYST_RANK = 0 ]; then printf '\\r10%%'; read line; printf "
             "'\\r20%%'; read line; echo; else sleep 0.5; printf other; sleep 1; fi",
             (const char *const[]){"[1] other", "20%", NULL},
             "[0] 10%\n[1] other\n[0] 20%\n");
}

/* A process that the rank leaves holds the pipe, so the pipe is not at its end. */
static void messages_begin_a_line(void **state)
{
    struct command command;
    run_script(&command, "1", NULL, "printf oops >&2; sleep 300 & exit 3");
    expect(&command, 3, "[0] oops\ntryst-run: rank 0 (pid ");
    command_free(&command);
}

/* ---- long lines ---- */

/* A rank that pauses within a long line does not block the output of the others. */
static void pauses_hold_up_nothing(void **state)
{
    struct command command;
    const char *arguments[] = {
        "-n",
        "2",
        "sh",
        "-c",
        "if [ $TRYST_RANK = 0 ]; then head -c 200000 /dev/zero | tr '\\0' x; read line; "
        "else sleep 0.3; echo other; fi",
        NULL};
    struct input input = input_open();
    command_start(&command, arguments);
    command_read(&command, "[1] other\n");
    assert_non_null(strstr(command.text[0], "xxx\n[1] other\n"));
    input_write(&input, "go\n");
    input_close(&input);
    command_end(&command);
    expect(&command, 0, NULL);
    command_free(&command);
}

/* A rank that never ends its line does not block them either. */
static void endless_line_holds_up_nothing(void **state)
{
    enum { KEPT = 16, CHUNK = 1 << 16 };
    struct command command;
    char *text = malloc(KEPT + CHUNK + 1);
    memset(text, ' ', KEPT + 1);
    text[KEPT + 1] = '\0';
    const char *arguments[] = {
        "-n",
        "2",
        "sh",
        "-c",
        "[ $TRYST_RANK = 0 ] && exec tr '\\0' x </dev/zero; sleep 0.3; echo other",
        NULL};
    double end = command_now_s() + 40;
    command_start(&command, arguments);
    while (!strstr(text, "x\n[1] other\n")) {
        memmove(text, text + strlen(text) - KEPT, KEPT);
        ssize_t got = read(command.fds[0], text + KEPT, CHUNK);
        assert_true(got > 0 && command_now_s() < end);
        text[KEPT + got] = '\0';
    }
    free(text);
    kill(command.pid, SIGKILL);
    waitpid(command.pid, NULL, 0);
    for (int i = 0; i < 2; i++)
        close(command.fds[i]);
    command_free(&command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_whole_and_prefixed),
        cmocka_unit_test(last_line_without_newline_comes_out),
        cmocka_unit_test(endless_lines_lose_nothing),
        cmocka_unit_test(without_prefix),
        cmocka_unit_test(prompts_are_shown),
        cmocka_unit_test(progress_bars_are_shown),
        cmocka_unit_test(two_ranks_never_share_a_line),
        cmocka_unit_test(messages_begin_a_line),
        cmocka_unit_test(pauses_hold_up_nothing),
        cmocka_unit_test(endless_line_holds_up_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
