/* SPDX-License-Identifier: Apache-2.0 */
/* A sink catches the lines or, where the default sink is tested, a datagram socket in
 * place of stderr: one datagram is one write. */
#include "support/fake_clock.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log/log.h"

struct caught {
    int count;
    tryst_log_level level;
    char line[LOG_LINE_BYTES];
};

static void catch_line(void *arg, tryst_log_level level, const char *line)
{
    struct caught *caught = arg;
    caught->count++;
    caught->level = level;
    snprintf(caught->line, sizeof caught->line, "%s", line);
    errno = EDOM; /* a sink that changes errno */
}

static void a_line_has_rank_level_and_text(void **state)
{
    struct caught caught = {0};
    struct log log = LOG_INIT;
    log.sink = catch_line;
    log.arg = &caught;
    LOG_WARN(&log, "peer %d is slow", 7);
    assert_string_equal(caught.line, "tryst: warn: peer 7 is slow");
    assert_int_equal(caught.level, TRYST_LOG_WARN);
    log.rank = 2;
    LOG_ERROR(&log, "gone");
    assert_string_equal(caught.line, "tryst: [rank 2] error: gone");
}

static void levels_choose_lines(void **state)
{
    static const struct {
        tryst_log_level level;
        int lines;
    } table[] = {{TRYST_LOG_DEFAULT, 2}, {TRYST_LOG_ERROR, 1}, {TRYST_LOG_WARN, 2},
                 {TRYST_LOG_INFO, 3},    {TRYST_LOG_DEBUG, 4}, {TRYST_LOG_TRACE, 5}};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct caught caught = {0};
        struct log log = LOG_INIT;
        log.sink = catch_line;
        log.arg = &caught;
        log.level = table[i].level;
        LOG_ERROR(&log, "x");
        LOG_WARN(&log, "x");
        LOG_INFO(&log, "x");
        LOG_DEBUG(&log, "x");
        LOG_TRACE(&log, "x");
        assert_int_equal(caught.count, table[i].lines);
        log_write(&log, TRYST_LOG_TRACE, 0, "x"); /* checks the level too */
        assert_int_equal(caught.count, table[i].lines + (table[i].lines == 5));
    }
}

static int evaluations;

static int evaluated(void)
{
    return ++evaluations;
}

static void arguments_of_a_silent_line_are_not_evaluated(void **state)
{
    struct caught caught = {0};
    struct log log = LOG_INIT;
    log.sink = catch_line;
    log.arg = &caught;
    LOG_DEBUG(&log, "%d", evaluated());
    LOG_INFO(NULL, "%d", evaluated());
    assert_int_equal(evaluations, 0);
    LOG_WARN(&log, "%d", evaluated());
    assert_int_equal(evaluations, 1);
}

static void errno_survives_and_can_be_printed(void **state)
{
    struct caught caught = {0};
    struct log log = LOG_INIT;
    log.sink = catch_line;
    log.arg = &caught;
    errno = ENOENT;
    LOG_WARN(&log, "open: %s", strerror(errno));
    assert_int_equal(errno, ENOENT);
    assert_string_equal(caught.line, "tryst: warn: open: No such file or directory");
}

static void a_long_line_is_cut_between_characters(void **state)
{
    struct caught caught = {0};
    struct log log = LOG_INIT;
    log.sink = catch_line;
    log.arg = &caught;
    char text[2 * LOG_LINE_BYTES] = "";
    for (size_t shift = 0; shift < 2; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 2 < sizeof text; i += 2)
            memcpy(text + i, "\xc3\xa9", 3); /* é */
        LOG_WARN(&log, "%s", text);
        size_t length = strlen(caught.line);
        assert_true(length < LOG_LINE_BYTES && length > LOG_LINE_BYTES - 60);
        assert_string_equal(caught.line + length - 5, "\xc3\xa9...");
    }
}

static void control_characters_cannot_forge_a_line(void **state)
{
    struct caught caught = {0};
    struct log log = LOG_INIT;
    log.sink = catch_line;
    log.arg = &caught;
    LOG_WARN(&log, "peer says \"%s\"", "x\ntryst: error: \x1b[31mforged\x7f");
    assert_null(strpbrk(caught.line, "\n\x1b\x7f"));
    assert_non_null(strstr(caught.line, "x tryst: error:  [31mforged "));
    LOG_WARN(&log, "and \xc2\x9b"
                   "31m, \xff, \xc3\xa9");
    assert_non_null(strstr(caught.line, "and   31m,  , \xc3\xa9"));
}

/* ---- the default sink -------------------------------------------------------------- */

struct stderr_capture {
    int saved, reader;
};

static struct stderr_capture capture_begin(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    struct stderr_capture capture = {.saved = dup(STDERR_FILENO), .reader = pair[0]};
    dup2(pair[1], STDERR_FILENO);
    close(pair[1]);
    return capture;
}

/* Read the next write; return its length, -1 if there is none. */
static ssize_t capture_next(struct stderr_capture *capture, char *text, size_t bytes)
{
    ssize_t length = recv(capture->reader, text, bytes - 1, MSG_DONTWAIT);
    text[length < 0 ? 0 : length] = '\0';
    return length;
}

static void capture_end(struct stderr_capture *capture)
{
    dup2(capture->saved, STDERR_FILENO);
    close(capture->saved);
    close(capture->reader);
}

static void by_default_one_line_is_one_write_to_stderr(void **state)
{
    char first[256], second[256], none[256];
    struct stderr_capture capture = capture_begin();
    LOG_WARN(NULL, "number %d", 1);
    LOG_INFO(NULL, "not by default");
    LOG_ERROR(NULL, "number %d", 2);
    ssize_t lengths[] = {capture_next(&capture, first, sizeof first),
                         capture_next(&capture, second, sizeof second),
                         capture_next(&capture, none, sizeof none)};
    capture_end(&capture);
    assert_string_equal(first, "tryst: warn: number 1\n");
    assert_string_equal(second, "tryst: error: number 2\n");
    assert_int_equal(lengths[2], -1);
}

static void a_closed_stderr_does_no_harm(void **state)
{
    int saved = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    errno = 0;
    LOG_ERROR(NULL, "not printed");
    int after = errno;
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(after, 0);
}

/* ---- rate limit -------------------------------------------------------------------- */

/* Run the child: descriptor 2 is `at_record` at log_stderr_record, and `later` after
 * it. */
static int stderr_child(int at_record, int later)
{
    struct log log = LOG_INIT;
    close(STDERR_FILENO);
    if (at_record >= 0)
        dup2(at_record, STDERR_FILENO);
    log_stderr_record(&log);
    if (later >= 0)
        dup2(later, STDERR_FILENO);
    LOG_ERROR(&log, "one");
    return 0;
}

static bool line_goes_to(int at_record, int later, int reader)
{
    char text[64];
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(stderr_child(at_record, later));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status)); /* not killed by SIGPIPE */
    return read(reader, text, sizeof text) > 0;
}

static void stderr_is_what_it_was_at_the_opening(void **state)
{
    int one[2], two[2];
    char name[] = "/tmp/tryst-log-XXXXXX";
    assert_int_equal(pipe2(one, O_NONBLOCK), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, two), 0);
    int file = mkstemp(name), reader = open(name, O_RDONLY),
        append = open(name, O_WRONLY | O_APPEND);
    unlink(name);
    assert_true(line_goes_to(one[1], -1, one[0]));
    assert_true(line_goes_to(one[1], one[1], one[0]));
    assert_false(line_goes_to(-1, two[1], two[0])); /* closed at first, a socket later */
    assert_false(line_goes_to(one[1], two[1], two[0])); /* reused for another socket */
    assert_false(line_goes_to(one[1], file, reader));
    assert_true(line_goes_to(one[1], append, reader)); /* the log was rotated */
    close(one[0]);
    close(two[0]);
    assert_false(line_goes_to(one[1], -1, reader)); /* a pipe without a reader */
    assert_false(line_goes_to(two[1], -1, reader));
    const int fds[] = {one[1], two[1], file, reader, append};
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
}

/* A SIGPIPE that the program has blocked and pending must stay pending. */
static void a_pending_sigpipe_of_the_program_stays(void **state)
{
    struct stderr_capture capture = capture_begin();
    sigset_t set, mask, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, &mask);
    pthread_kill(pthread_self(), SIGPIPE);
    LOG_ERROR(NULL, "x");
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGPIPE));
    int number;
    assert_int_equal(sigwait(&set, &number), 0);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    capture_end(&capture);
}

static void a_limit_lets_one_through_and_counts_the_rest(void **state)
{
    struct caught caught = {0};
    struct clock_fake fake;
    struct log_limit limit = {0};
    struct log log = LOG_INIT;
    clock_fake_init(&fake, 0);
    log.sink = catch_line;
    log.arg = &caught;
    log.clock = &fake.clock;
    for (int i = 0; i < 10; i++)
        LOG_WARN_LIMITED(&log, &limit, NS_PER_S, "drop %d", i);
    assert_int_equal(caught.count, 1);
    assert_string_equal(caught.line, "tryst: warn: drop 0");
    clock_fake_advance(&fake, NS_PER_S - 1);
    LOG_WARN_LIMITED(&log, &limit, NS_PER_S, "too early");
    assert_int_equal(caught.count, 1);
    clock_fake_advance(&fake, 1);
    LOG_WARN_LIMITED(&log, &limit, NS_PER_S, "drop");
    assert_string_equal(caught.line, "tryst: warn: drop (and 10 similar lines)");
    clock_fake_advance(&fake, NS_PER_S);
    LOG_WARN_LIMITED(&log, &limit, NS_PER_S, "drop");
    assert_string_equal(caught.line, "tryst: warn: drop");
}

static void a_line_below_the_level_uses_up_no_limit(void **state)
{
    struct caught caught = {0};
    struct log_limit limit = {0};
    struct log log = LOG_INIT;
    log.sink = catch_line;
    log.arg = &caught;
    LOG_LIMITED(&log, TRYST_LOG_INFO, &limit, NS_PER_S, "%d", evaluated());
    assert_int_equal(limit.next_ns, 0);
    LOG_WARN_LIMITED(&log, &limit, NS_PER_S, "first");
    assert_string_equal(caught.line, "tryst: warn: first");
}

static void for_ever_is_once(void **state)
{
    struct caught caught = {0};
    struct clock_fake fake;
    struct log_limit limit = {0};
    struct log log = LOG_INIT;
    clock_fake_init(&fake, 1000);
    log.sink = catch_line;
    log.arg = &caught;
    log.clock = &fake.clock;
    for (int i = 0; i < 5; i++) {
        LOG_WARN_LIMITED(&log, &limit, UINT64_MAX, "once");
        clock_fake_advance(&fake, UINT64_MAX / 8);
    }
    assert_int_equal(caught.count, 1);
}

enum { THREADS = 4, TRIES = 5000 };

struct contest {
    struct log_limit limit;
    struct clock_fake fake;
    _Atomic uint64_t passed, left_out;
};

static void *contend(void *arg)
{
    struct contest *contest = arg;
    for (int i = 0; i < TRIES; i++) {
        uint64_t left_out;
        if (log_limit_pass(&contest->limit, &contest->fake.clock, NS_PER_S, &left_out)) {
            contest->passed++;
            contest->left_out += left_out;
        }
        if (i % 1000 == 999)
            clock_fake_advance(&contest->fake, NS_PER_S / 2);
    }
    return NULL;
}

static void threads_share_a_limit_and_nothing_goes_uncounted(void **state)
{
    struct contest contest = {.passed = 0};
    pthread_t threads[THREADS];
    clock_fake_init(&contest.fake, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contend, &contest), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t left_out = 0;
    clock_fake_advance(&contest.fake, NS_PER_S);
    assert_true(log_limit_pass(&contest.limit, &contest.fake.clock, NS_PER_S, &left_out));
    assert_int_equal(contest.passed + contest.left_out + left_out, THREADS * TRIES);
    /* The clock advances by half an interval 20 times. */
    assert_in_range(contest.passed, 1, 1 + THREADS * (TRIES / 1000) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_rank_level_and_text),
        cmocka_unit_test(levels_choose_lines),
        cmocka_unit_test(arguments_of_a_silent_line_are_not_evaluated),
        cmocka_unit_test(errno_survives_and_can_be_printed),
        cmocka_unit_test(a_long_line_is_cut_between_characters),
        cmocka_unit_test(control_characters_cannot_forge_a_line),
        cmocka_unit_test(by_default_one_line_is_one_write_to_stderr),
        cmocka_unit_test(a_closed_stderr_does_no_harm),
        cmocka_unit_test(stderr_is_what_it_was_at_the_opening),
        cmocka_unit_test(a_pending_sigpipe_of_the_program_stays),
        cmocka_unit_test(a_limit_lets_one_through_and_counts_the_rest),
        cmocka_unit_test(a_line_below_the_level_uses_up_no_limit),
        cmocka_unit_test(for_ever_is_once),
        cmocka_unit_test(threads_share_a_limit_and_nothing_goes_uncounted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
