/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that follow one another: n steps of a program as one flat program. */
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

static const int steps_counts[] = {1, 2, 3, 16};
#define STEPS_COUNTS (sizeof steps_counts / sizeof *steps_counts)

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

static tryst_program *unroll(const tryst_program *program, int steps)
{
    tryst_program *flat = NULL;
    if (tryst_program_unroll(program, steps, &flat) != TRYST_OK) {
        fail_msg("%d steps: %s", steps, tryst_last_error());
    }
    return flat;
}

static void check(const char *what, int steps, const tryst_program *program,
                  tryst_program_peak *peaks)
{
    if (tryst_program_check(program, NULL, peaks) != TRYST_OK) {
        fail_msg("%s, %d steps: %s", what, steps, tryst_last_error());
    }
}

/* ---- unrolled lists ---------------------------------------------------------------- */

/* Append actions, separated by blanks, to the list of a rank: "F0" of micro-batch 0,
 * "F0v1" that reads version 1, "S" a REDUCE_GRAD, "U1" an UPDATE to version 1. All are of
 * stage 0. */
static void append_text(tryst_program *program, int rank, const char *text_p)
{
    static const char letters[] = "?FBIWUSR";
    char copy[256];
    char *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text_p);
    for (char *word = strtok_r(copy, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        tryst_action action = {.kind =
                                   (tryst_action_kind)(strchr(letters, *word) - letters),
                               .microbatch = -1};
        char *after = word + 1;
        int32_t number = (int32_t)strtol(word + 1, &after, 10);
        if (action.kind == TRYST_ACTION_UPDATE) {
            action.version = number;
        } else if (action.kind != TRYST_ACTION_REDUCE_GRAD) {
            action.microbatch = number;
            action.version = *after == 'v' ? (int32_t)strtol(after + 1, NULL, 10) : 0;
        }
        assert_int_equal(tryst_program_append(program, rank, &action), TRYST_OK);
    }
}

static const char *rank_text(const tryst_program *program, int rank)
{
    static char line[1024];
    size_t count = 0, length = 0;
    const tryst_action *actions = tryst_program_actions(program, rank, &count);
    for (size_t i = 0; i < count; i++) {
        char action[32];
        length +=
            (size_t)snprintf(line + length, sizeof line - length, "%s%s", i ? " " : "",
                             tryst_action_format(&actions[i], action, sizeof action));
    }
    return line;
}

/* Three steps of lists without marks, the last rank's written out. */
static void test_flat_lists(void **state)
{
    static const struct {
        int microbatches;
        const char *lists[2]; /* of rank 0 and rank 1; NULL: one rank */
        const char *unrolled;
    } rows[] = {
        {1, {"F0 B0 U1"}, "0F0 0B0 0UPDATE 0F1v1 0B1v1 0UPDATEv2 0F2v2 0B2v2 0UPDATEv3"},
        {2,
         {"F0 F1 I0 I1 W0 W1 U1"},
         "0F0 0F1 0I0 0I1 0W0 0W1 0UPDATE 0F2v1 0F3v1 0I2v1 0I3v1 0W2v1 0W3v1 0UPDATEv2 "
         "0F4v2 0F5v2 0I4v2 0I5v2 0W4v2 0W5v2 0UPDATEv3"},
        /* two UPDATEs a step, the first with weights of the step before */
        {2,
         {"F0v-1 B0v-1 U1 F1v1 B1v1 U2"},
         "0F0 0B0 0UPDATE 0F1v1 0B1v1 0UPDATEv2 0F2v1 0B2v1 0UPDATEv3 0F3v3 0B3v3 "
         "0UPDATEv4 0F4v3 0B4v3 0UPDATEv5 0F5v5 0B5v5 0UPDATEv6"},
        /* replicas with unequal shares */
        {3,
         {"F0 B0 F1 B1 S U1", "F2 R2 B2 S U1"},
         "0F2 0R2 0B2 0REDUCE_GRAD 0UPDATE 0F5v1 0R5v1 0B5v1 0REDUCE_GRAD 0UPDATEv2 "
         "0F8v2 0R8v2 0B8v2 0REDUCE_GRAD 0UPDATEv3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int ranks = rows[i].lists[1] ? 2 : 1;
        tryst_program *program = NULL;
        assert_int_equal(tryst_program_open(ranks, 1, rows[i].microbatches, &program),
                         TRYST_OK);
        for (int rank = 0; rank < ranks; rank++) {
            append_text(program, rank, rows[i].lists[rank]);
        }
        check("a step", 1, program, NULL);
        tryst_program *flat = unroll(program, 3);
        assert_int_equal(tryst_program_microbatches(flat), 3 * rows[i].microbatches);
        assert_string_equal(rank_text(flat, ranks - 1), rows[i].unrolled);
        check(rows[i].lists[0], 3, flat, NULL);
        tryst_program_close(flat);
        tryst_program_close(program);
    }
}

/* n steps have n times the actions of one, pass the checker, and hold no more
 * activations than one step does, since a list without marks ends with its UPDATEs. */
static void check_steps(const char *what, const tryst_program *program)
{
    int ranks = tryst_program_ranks(program);
    tryst_program_peak one[16], peaks[16];
    size_t body, epilogue;
    bool looped = tryst_program_loop(program, 0, &body, &epilogue);
    assert_true(ranks <= 16);
    check(what, 1, program, one);
    for (size_t k = 0; k < STEPS_COUNTS; k++) {
        int steps = steps_counts[k];
        tryst_program *flat = unroll(program, steps);
        check(what, steps, flat, peaks);
        assert_int_equal(tryst_program_microbatches(flat),
                         steps * tryst_program_microbatches(program));
        for (int rank = 0; rank < ranks && !looped; rank++) {
            size_t count = 0, count_flat = 0;
            (void)tryst_program_actions(program, rank, &count);
            (void)tryst_program_actions(flat, rank, &count_flat);
            assert_int_equal(count_flat, (size_t)steps * count);
            assert_int_equal(peaks[rank].activations, one[rank].activations);
        }
        tryst_program_close(flat);
    }
}

static void check_replicated(const char *schedule, const tryst_program *program,
                             int replicas)
{
    tryst_program *copies = NULL;
    assert_int_equal(tryst_program_replicate(program, replicas, &copies), TRYST_OK);
    check_steps(schedule, copies);
    tryst_program_close(copies);
}

static void check_generated(const char *schedule, int ranks, int microbatches,
                            int replicas)
{
    tryst_program *program = generate(schedule, ranks, microbatches);
    check_replicated(schedule, program, replicas);
    tryst_program_close(program);
}

/* Return whether the schedule is defined for the counts. */
static bool check_defined(const char *schedule, int ranks, int microbatches, int replicas)
{
    tryst_program *program = NULL;
    if (tryst_program_generate(schedule, SCHEDULE(ranks, microbatches), &program) !=
        TRYST_OK) {
        return false;
    }
    check_replicated(schedule, program, replicas);
    tryst_program_close(program);
    return true;
}

/* Every schedule, loops too, one and two copies of each, where it is defined: of two
 * ranks or four it is. */
static void test_schedules(void **state)
{
    (void)state;
    for (int i = 0; tryst_program_schedule(i); i++) {
        const char *name = tryst_program_schedule(i)->name;
        for (int ranks = 1; ranks <= 4; ranks++) {
            bool once = check_defined(name, ranks, 2 * ranks, 1);
            bool twice = check_defined(name, ranks, 12, 2);
            assert_true((once && twice) || ranks % 2 != 0);
        }
    }
    check_generated("pipedream:updates=3", 3, 3, 2);
    check_generated("pipedream-2bw:updates=3,recompute=always", 3, 6, 1);
    check_generated("xpipe:updates=4,rate=5", 3, 3, 1);
}

/* Every order that PyTorch wrote, split backwards and stages in a V among them. */
static void test_torch_orders(void **state)
{
    (void)state;
    int files = 0;
    DIR *folder = opendir(ORDERS_FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char path[512];
        tryst_program *program = NULL;
        snprintf(path, sizeof path, "%s/%s", ORDERS_FOLDER, entry->d_name);
        if (!strstr(entry->d_name, ".csv") ||
            tryst_program_load_csv(path, &program) != TRYST_OK) {
            continue; /* 1F1B as printed is refused: test_schedule_orders.c */
        }
        check_steps(entry->d_name, program);
        tryst_program_close(program);
        files++;
    }
    closedir(folder);
    assert_true(files >= 60);
}

static void test_refuses(void **state)
{
    (void)state;
    tryst_program *program = generate("1f1b", 2, 4), *flat = NULL;
    assert_int_equal(tryst_program_unroll(program, 0, &flat), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "to 0 steps"));
    assert_int_equal(tryst_program_unroll(program, INT32_MAX, &flat), TRYST_E_INVALID);
    assert_int_equal(tryst_program_unroll(NULL, 1, &flat), TRYST_E_INVALID);
    assert_int_equal(tryst_program_unroll(program, 1, NULL), TRYST_E_INVALID);
    assert_null(flat);
    tryst_program_close(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_lists),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_torch_orders),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
