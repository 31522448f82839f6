/* SPDX-License-Identifier: Apache-2.0 */
/* Generated schedules have the orders of the systems they are named after.
 *
 * PyTorch's orders are files that PyTorch wrote (orders/torch); each of them is
 * compared, a file that fits no schedule fails. Those of Megatron-LM's interleaved
 * schedule and of the runtimes of PipeDream and PipeDream-2BW are rules, written once
 * more below: which micro-batch is a rank's k-th forward or backward, and which version
 * both read. The rules were compared with the functions of these systems, run outside
 * of this repository: Megatron-LM d98e8a6, msr-fiddle/pipedream 7db6a1c (branch
 * pipedream) and d6e2538 (branch pipedream_2bw). */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>

#include <cmocka.h>

#include <tryst/pipeline.h>

#include "actions.h"

static tryst_program *generate(const char *schedule, int ranks, int microbatches)
{
    tryst_program *program = NULL;
    if (tryst_program_generate(schedule, SCHEDULE(ranks, microbatches), &program) !=
        TRYST_OK) {
        fail_msg("%s, %d ranks, %d micro-batches: %s", schedule, ranks, microbatches,
                 tryst_last_error());
    }
    return program;
}

/* Compare one action with the expected one. */
static void check_action(const char *what, int rank, size_t index,
                         const tryst_action *action, const tryst_action *expected)
{
    char is[128] = "nothing", wanted[128] = "nothing";
    if (action) {
        tryst_action_format(action, is, sizeof is);
    }
    if (expected) {
        tryst_action_format(expected, wanted, sizeof wanted);
    }
    if (strcmp(is, wanted) != 0) {
        fail_msg("%s, rank %d, action %zu: %s instead of %s", what, rank, index, is,
                 wanted);
    }
}

/* ---- PyTorch ----------------------------------------------------------------------- */

static tryst_program *load(const char *name, const char *form)
{
    char path[512];
    tryst_program *program = NULL;
    snprintf(path, sizeof path, "%s/%s.%s.csv", ORDERS_FOLDER, name, form);
    if (tryst_program_load_csv(path, &program) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    return program;
}

/* Compare two programs action by action, UPDATEs included. */
static void check_equal(const char *name, const tryst_program *a, const tryst_program *b)
{
    assert_int_equal(tryst_program_ranks(a), tryst_program_ranks(b));
    assert_int_equal(tryst_program_stages(a), tryst_program_stages(b));
    assert_int_equal(tryst_program_microbatches(a), tryst_program_microbatches(b));
    for (int rank = 0; rank < tryst_program_ranks(a); rank++) {
        size_t count_a = 0, count_b = 0;
        const tryst_action *in_a = tryst_program_actions(a, rank, &count_a);
        const tryst_action *in_b = tryst_program_actions(b, rank, &count_b);
        for (size_t i = 0; i < count_a || i < count_b; i++) {
            check_action(name, rank, i, i < count_a ? &in_a[i] : NULL,
                         i < count_b ? &in_b[i] : NULL);
        }
    }
}

/* Read "interleaved-p4-v2-m8": ranks, chunks (1 if not named) and micro-batches. False if
 * `name` has another form. */
static bool read_name(const char *name, int *ranks_p, int *chunks_p, int *microbatches_p)
{
    const char *numbers = strchr(name, '-');
    *chunks_p = 1;
    return numbers &&
           (sscanf(numbers, "-p%d-v%d-m%d", ranks_p, chunks_p, microbatches_p) == 3 ||
            sscanf(numbers, "-p%d-m%d", ranks_p, microbatches_p) == 2);
}

/* Write the schedule that makes PyTorch's order of `chunks` chunks to `text`. False if
 * the name is unknown. */
static bool schedule_of(const char *name, int chunks, char text[64])
{
    static const struct {
        const char *prefix;
        const char *schedule; /* "%d" is the number of chunks */
    } rows[] = {
        {"gpipe-", "gpipe"},
        {"1f1b-", "1f1b"},
        {"interleaved-", "interleaved:group=torch,v=%d"},
        {"bfs-", "bfs:v=%d"},
        {"zb1p-", "zb-h1:v=%d"},
        {"zbv-", "zb-v"},
        {"dualpipev-", "dualpipev"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(name, rows[i].prefix, strlen(rows[i].prefix)) == 0) {
            snprintf(text, 64, rows[i].schedule, chunks);
            return true;
        }
    }
    return false;
}

/* PyTorch's compute_only file is the generated program; its compute_comms file is the
 * same. */
static void check_torch(const char *name)
{
    int ranks, chunks, microbatches;
    char schedule[64];
    if (!read_name(name, &ranks, &chunks, &microbatches) ||
        !schedule_of(name, chunks, schedule)) {
        fail_msg("%s is the file of no known schedule", name);
    }
    tryst_program *loaded = load(name, "compute_only");
    tryst_program *comms = load(name, "compute_comms");
    if (tryst_program_check(loaded, NULL, NULL) != TRYST_OK) {
        fail_msg("%s: %s", name, tryst_last_error());
    }
    check_equal(name, comms, loaded);
    tryst_program *ours = generate(schedule, ranks, microbatches);
    check_equal(name, ours, loaded);
    tryst_program_close(ours);
    tryst_program_close(comms);
    tryst_program_close(loaded);
}

/* Call `check` for each file of PyTorch's with `suffix`; return their number. */
static int for_each_file(const char *suffix, void (*check)(const char *name))
{
    DIR *folder = opendir(ORDERS_FOLDER);
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char *end = strstr(entry->d_name, suffix);
        if (end && strcmp(end, suffix) == 0) {
            *end = '\0';
            check(entry->d_name);
            count++;
        }
    }
    closedir(folder);
    return count;
}

static void torch_files(void **state)
{
    assert_int_equal(for_each_file(".compute_only.csv", check_torch), 41);
}

/* GPipe is printed as it runs; 1F1B is not, and is refused with the reason. */
static void check_printed(const char *name)
{
    char path[512];
    tryst_program *program = NULL;
    snprintf(path, sizeof path, "%s/%s.printed.csv", ORDERS_FOLDER, name);
    if (strncmp(name, "1f1b", 4) == 0) {
        assert_int_equal(tryst_program_load_csv(path, &program), TRYST_E_PROGRAM);
        assert_non_null(strstr(tryst_last_error(), "PyTorch's Schedule1F1B prints"));
        assert_null(program);
        return;
    }
    tryst_program *only = load(name, "compute_only");
    program = load(name, "printed");
    check_equal(name, program, only);
    tryst_program_close(program);
    tryst_program_close(only);
}

static void torch_printed(void **state)
{
    assert_int_equal(for_each_file(".printed.csv", check_printed), 10);
}

/* ---- rules ------------------------------------------------------------------------- */

/* A rank's list that is compared with a rule, action by action. */
struct reader {
    char what[96];
    const tryst_action *actions;
    size_t count;
    size_t at;
    int rank;
};

static struct reader reader_begin(const tryst_program *program, const char *schedule,
                                  int rank)
{
    struct reader reader = {.rank = rank};
    snprintf(reader.what, sizeof reader.what, "%s, %d ranks, %d micro-batches", schedule,
             tryst_program_ranks(program), tryst_program_microbatches(program));
    reader.actions = tryst_program_actions(program, rank, &reader.count);
    return reader;
}

/* The next action must be this one. */
static void expect(struct reader *reader, tryst_action_kind kind, int stage,
                   int microbatch, int version)
{
    const tryst_action expected = ACTION(kind, stage, microbatch, version);
    check_action(reader->what, reader->rank, reader->at,
                 reader->at < reader->count ? &reader->actions[reader->at] : NULL,
                 &expected);
    reader->at++;
}

static void expect_end(const struct reader *reader)
{
    if (reader->at < reader->count) {
        check_action(reader->what, reader->rank, reader->at, &reader->actions[reader->at],
                     NULL);
    }
}

/* ---- Megatron-LM ------------------------------------------------------------------- */

struct megatron {
    int ranks, chunks, microbatches, group;
};

/* The table of Megatron's schedule: for each group of `group` micro-batches (the last may
 * be smaller), for each chunk, for each micro-batch of the group. Fill `table` [chunks *
 * microbatches] with micro-batch and chunk. */
static void megatron_table(const struct megatron *self, int (*table)[2])
{
    for (int first = 0; first < self->microbatches; first += self->group) {
        for (int chunk = 0; chunk < self->chunks; chunk++) {
            for (int i = first; i < first + self->group && i < self->microbatches; i++) {
                (*table)[0] = i;
                (*table++)[1] = chunk;
            }
        }
    }
}

static void megatron_rank(const struct megatron *self, int (*table)[2],
                          const tryst_program *program, const char *schedule, int rank)
{
    struct reader reader = reader_begin(program, schedule, rank);
    int total = self->chunks * self->microbatches;
    int warm_up = 2 * (self->ranks - rank - 1) + (self->chunks - 1) * self->group;
    warm_up = warm_up < total ? warm_up : total;
    for (int k = 0; k < total + warm_up; k++) {
        if (k < total) {
            expect(&reader, TRYST_ACTION_FORWARD, table[k][1] * self->ranks + rank,
                   table[k][0], 0);
        }
        if (k >= warm_up) {
            int *place = table[k - warm_up];
            expect(&reader, TRYST_ACTION_BACKWARD,
                   (self->chunks - 1 - place[1]) * self->ranks + rank, place[0], 0);
        }
    }
    for (int chunk = 0; chunk < self->chunks; chunk++) {
        expect(&reader, TRYST_ACTION_UPDATE, chunk * self->ranks + rank, -1, 1);
    }
    expect_end(&reader);
}

/* Megatron refuses groups outside of [p, m], and a last one below p. */
static bool megatron_defined(const struct megatron *self)
{
    int last = self->microbatches % self->group;
    return self->group >= self->ranks && self->group <= self->microbatches &&
           (last == 0 || last >= self->ranks);
}

static void check_megatron(const struct megatron *self)
{
    char schedule[64];
    int table[4 * 24][2];
    tryst_program *program = NULL;
    snprintf(schedule, sizeof schedule, "interleaved:v=%d,group=%d", self->chunks,
             self->group);
    if (!megatron_defined(self)) {
        assert_int_equal(tryst_program_generate(schedule,
                                                SCHEDULE(self->ranks, self->microbatches),
                                                &program),
                         TRYST_E_PROGRAM);
        return;
    }
    program = generate(schedule, self->ranks, self->microbatches);
    megatron_table(self, table);
    for (int rank = 0; rank < self->ranks; rank++) {
        megatron_rank(self, table, program, schedule, rank);
    }
    tryst_program_close(program);
}

/* Every group from 1 to one more than the micro-batches. */
static void megatron_orders(void **state)
{
    for (int ranks = 2; ranks <= 8; ranks++) {
        for (int chunks = 1; chunks <= 4; chunks++) {
            for (int microbatches = ranks; microbatches <= 24; microbatches++) {
                for (int group = 1; group <= microbatches + 1; group++) {
                    check_megatron(
                        &(struct megatron){ranks, chunks, microbatches, group});
                }
            }
        }
    }
}

/* Without a group Megatron's default: the number of ranks. */
static void megatron_default(void **state)
{
    tryst_program *without = generate("interleaved:v=3", 4, 8);
    tryst_program *with = generate("interleaved:v=3,group=4", 4, 8);
    check_equal("the default group", without, with);
    tryst_program_close(without);
    tryst_program_close(with);
}

/* ---- PipeDream and PipeDream-2BW --------------------------------------------------- */

/* A rank of both runtimes: `warm_up` forwards, then a forward and a backward in turn,
 * then the other backwards; behind every `every`-th backward the optimizer's step. F
 * and B of a micro-batch read the same version: that of `version`. */
static void check_stream(const tryst_program *program, const char *schedule, int rank,
                         int every, int (*version)(int n, int warm_up, int every))
{
    struct reader reader = reader_begin(program, schedule, rank);
    int count = tryst_program_microbatches(program);
    int warm_up = tryst_program_ranks(program) - 1 - rank;
    for (int n = 0; n < count + warm_up; n++) {
        int behind = n - warm_up;
        if (n < count) {
            expect(&reader, TRYST_ACTION_FORWARD, rank, n, version(n, warm_up, every));
        }
        if (behind >= 0) {
            expect(&reader, TRYST_ACTION_BACKWARD, rank, behind,
                   version(behind, warm_up, every));
        }
        if (behind >= 0 && (behind + 1) % every == 0) {
            expect(&reader, TRYST_ACTION_UPDATE, rank, -1, (behind + 1) / every);
        }
    }
    expect_end(&reader);
}

/* PipeDream keeps warm_up + 1 versions: F reads the newest, B the oldest. */
static int pipedream_version(int n, int warm_up, int every)
{
    (void)every; /* 1 */
    return n > warm_up ? n - warm_up : 0;
}

/* 2BW: of two versions, the older one. Forwards that belong to the next iteration take
 * the newer one, which is the older one there. */
static int two_buffers_version(int n, int warm_up, int every)
{
    (void)warm_up;
    return n / every > 1 ? n / every - 1 : 0;
}

static void pipedream_orders(void **state)
{
    char schedule[64];
    for (int ranks = 1; ranks <= 8; ranks++) {
        for (int updates = ranks; updates <= 3 * ranks + 3; updates++) {
            snprintf(schedule, sizeof schedule, "pipedream:updates=%d", updates);
            tryst_program *program = generate(schedule, ranks, 1);
            assert_int_equal(tryst_program_microbatches(program), updates);
            for (int rank = 0; rank < ranks; rank++) {
                check_stream(program, schedule, rank, 1, pipedream_version);
            }
            tryst_program_close(program);
        }
    }
}

static void two_buffers_orders(void **state)
{
    char schedule[64];
    for (int ranks = 1; ranks <= 8; ranks++) {
        for (int every = ranks > 1 ? ranks - 1 : 1; every <= 2 * ranks + 2; every++) {
            for (int updates = 1; updates <= 5; updates++) {
                snprintf(schedule, sizeof schedule, "pipedream-2bw:updates=%d", updates);
                tryst_program *program = generate(schedule, ranks, every);
                assert_int_equal(tryst_program_microbatches(program), updates * every);
                for (int rank = 0; rank < ranks; rank++) {
                    check_stream(program, schedule, rank, every, two_buffers_version);
                }
                tryst_program_close(program);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torch_files),      cmocka_unit_test(torch_printed),
        cmocka_unit_test(megatron_orders),  cmocka_unit_test(megatron_default),
        cmocka_unit_test(pipedream_orders), cmocka_unit_test(two_buffers_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
