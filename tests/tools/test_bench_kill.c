/* SPDX-License-Identifier: Apache-2.0 */
/* A killed rank of pp_bench ends the run, and every other rank names it. It is killed at
 * a random moment of the run; or it kills itself within an action of each kind, and
 * between two steps, once the pipeline runs (faulty_bench.c).
 *
 *   test_bench_kill any|actions COUNT TRANSPORT…
 *
 * COUNT: kills over each transport, or for each kind of action */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench_run.h"
#include "support/patience.h"

static char **transports;
static int transports_count, kills_count;
static uint64_t seed;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the end of a run ------------------------------------------------------------- */

/* Sanitizers slow the run down; the promised bound is for plain builds. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KILL_MS_MAX 20000
#else
#define KILL_MS_MAX 2000
#endif

/* Return the rank that the launcher reports as killed. */
static int killed_rank(const struct run *self)
{
    const char *at = strstr(self->err, " was killed by signal 9");
    if (!at) {
        fail_msg("no message names the killed rank:\n%s", self->err);
    }
    while (at > self->err && at[-1] != '\n') {
        at--;
    }
    /* "pp_bench: rank 2 (pid …", or "pp_bench: then rank 2 …" if a survivor ended
     * first. */
    return (int)strtol(strstr(at, "rank ") + strlen("rank "), NULL, 10);
}

/* True if the error of `rank` names `dead`. */
static bool names(const struct run *self, int rank, int dead)
{
    char prefix[32];
    char name[32];
    char line[2048];
    snprintf(prefix, sizeof prefix, "pp_bench: rank %d: ", rank);
    snprintf(name, sizeof name, "rank %d", dead);
    for (const char *at = strstr(self->err, prefix); at; at = strstr(at, prefix)) {
        at += strlen(prefix);
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        if (strstr(line, name)) {
            return true;
        }
    }
    return false;
}

/* The run ended with 1, soon enough, and each rank that lived on names the dead one. */
static void expect_end(const struct run *self, const char *words, uint64_t took_ms)
{
    expect_exit(self, words, 1);
    if (took_ms > patience_ns(KILL_MS_MAX)) {
        fail_msg("pp_bench %s: took %llu ms after the kill:\n%s", words,
                 (unsigned long long)took_ms, self->err);
    }
    int dead = killed_rank(self);
    if (!strstr(self->err, ": step ")) {
        return; /* during the bootstrap only the launcher's message counts */
    }
    for (int rank = 0; rank < 4; rank++) {
        if (rank != dead && !names(self, rank, dead)) {
            fail_msg("pp_bench %s: rank %d does not name rank %d:\n%s", words, rank, dead,
                     self->err);
        }
    }
}

/* ---- at any moment ----------------------------------------------------------------- */

/* Return the parent of a process; 0 if the process is gone. */
static pid_t parent_of(pid_t pid)
{
    char path[64];
    char line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    read_into(path, line, sizeof line);
    const char *cursor = strrchr(line, ')');
    if (!cursor || strlen(cursor) < 4) {
        return 0;
    }
    return (pid_t)strtol(cursor + 3, NULL, 10); /* after ") S" */
}

/* Find the ranks that `launcher` has started: its children. */
static int find_ranks(pid_t launcher, pid_t ranks[16])
{
    int count = 0;
    DIR *processes = opendir("/proc");
    assert_non_null(processes);
    for (struct dirent *entry = readdir(processes); entry; entry = readdir(processes)) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && parent_of(pid) == launcher && count < 16) {
            ranks[count++] = pid;
        }
    }
    closedir(processes);
    return count;
}

/* Wait until four ranks run. */
static void wait_for_ranks(pid_t launcher, pid_t ranks[16])
{
    uint64_t begin_ms = now_ms();
    while (find_ranks(launcher, ranks) != 4) {
        assert_true(now_ms() - begin_ms < patience_ns(10000));
        usleep(1000);
    }
}

/* Kill one of four ranks at a random moment of a run. Return the milliseconds that the
 * end took. */
static uint64_t kill_any(const char *transport)
{
    char words[512];
    pid_t ranks[16];
    struct run self;
    snprintf(words, sizeof words,
             "-n 4 --transport %s --model gpt --layers 4 --hidden 32 --seq 16 --steps "
             "1000000 %s",
             transport, more_words());
    bench_start(&self, words);
    wait_for_ranks(self.pid, ranks);
    usleep((useconds_t)(draw() % 700000));
    wait_for_ranks(self.pid, ranks);
    assert_int_equal(kill(ranks[draw() % 4], SIGKILL), 0);
    uint64_t killed_ms = now_ms();
    bench_end(&self);
    uint64_t took_ms = now_ms() - killed_ms;
    expect_end(&self, words, took_ms);
    return took_ms;
}

static void test_any(void **state)
{
    for (int t = 0; t < transports_count; t++) {
        uint64_t worst_ms = 0;
        for (int i = 0; i < kills_count; i++) {
            uint64_t took_ms = kill_any(transports[t]);
            worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
        }
        printf("%s: %d killed, all ended within %llu ms\n", transports[t], kills_count,
               (unsigned long long)worst_ms);
    }
}

/* ---- within an action -------------------------------------------------------------- */

/* One rank of four kills itself: in the first or a later action of a kind in a step, at
 * the action's begin or end; or between two steps. */
static uint64_t kill_within(const char *transport, const char *moment)
{
    char words[512], fault[64];
    const char *schedule = draw() % 2 ? "zb-h1" : "zb-v";
    snprintf(words, sizeof words,
             "-n 4 --transport %s --schedule %s --layers 8 --hidden 32 --seq 16 --steps "
             "1000000 %s",
             transport, schedule, more_words());
    snprintf(fault, sizeof fault, "%s:%d:%d:%d", moment, 2 + (int)(draw() % 3),
             (int)(draw() % 4), (int)(draw() % 8));
    const struct run *self = bench_faulty(fault, words);
    uint64_t end_ms = now_ms();
    const char *died = strstr(self->err, "dies at ");
    if (!died) {
        fail_msg("%s: pp_bench %s: no rank died:\n%s", fault, words, self->err);
    }
    uint64_t took_ms = end_ms - strtoull(died + strlen("dies at "), NULL, 10);
    expect_text(self->err, words, ": step ");
    expect_end(self, words, took_ms);
    return took_ms;
}

static void test_actions(void **state)
{
    static const char *const moments[] = {"forward", "input", "weight", "update",
                                          "between"};
    for (int t = 0; t < transports_count; t++) {
        for (size_t m = 0; m < sizeof moments / sizeof *moments; m++) {
            uint64_t worst_ms = 0;
            for (int i = 0; i < kills_count; i++) {
                uint64_t took_ms = kill_within(transports[t], moments[m]);
                worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
            }
            printf("%s: %d killed (%s), all ended within %llu ms\n", transports[t],
                   kills_count, moments[m], (unsigned long long)worst_ms);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest any[] = {cmocka_unit_test(test_any)};
    const struct CMUnitTest actions[] = {cmocka_unit_test(test_actions)};
    const char *given = getenv("TRYST_TEST_SEED");
    if (argc < 4 || (strcmp(argv[1], "any") != 0 && strcmp(argv[1], "actions") != 0)) {
        fprintf(stderr, "usage: test_bench_kill any|actions COUNT TRANSPORT…\n");
        return 1;
    }
    kills_count = atoi(argv[2]);
    transports = argv + 3;
    transports_count = argc - 3;
    seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    seed = seed ? seed : 1;
    printf("seed %llu (TRYST_TEST_SEED replays it)\n", (unsigned long long)seed);
    if (!folder_open()) {
        return 1;
    }
    int failed = strcmp(argv[1], "any") == 0
                     ? cmocka_run_group_tests(any, NULL, NULL)
                     : cmocka_run_group_tests(actions, NULL, NULL);
    folder_close();
    return failed;
}
