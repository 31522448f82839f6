/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: what the generators write, and what the checker refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include <cmocka.h>

#include <tryst/data.h>
#include <tryst/pipeline.h>

#include "actions.h"

static tryst_program *generate(const char *schedule, int ranks, int microbatches)
{
    tryst_program *program = NULL;
    assert_int_equal(
        tryst_program_generate(schedule, SCHEDULE(ranks, microbatches), &program),
        TRYST_OK);
    return program;
}

/* Format the actions of one rank: "0F0 0F1 0B0 …". */
static const char *rank_text(const tryst_program *program, int rank)
{
    static char line[4096];
    size_t count = 0;
    const tryst_action *actions = tryst_program_actions(program, rank, &count);
    line[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        char action[32];
        strcat(line, i ? " " : "");
        strcat(line, tryst_action_format(&actions[i], action, sizeof action));
    }
    return line;
}

/* ---- generators -------------------------------------------------------------------- */

static void test_generators(void **state)
{
    static const struct {
        const char *schedule;
        int ranks;
        int microbatches;
        int rank;
        const char *actions;
    } rows[] = {
        {"naive", 1, 1, 0, "0F0 0B0 0UPDATE"},
        {"naive", 2, 2, 1, "1F0 1B0 1F1 1B1 1UPDATE"},
        {"gpipe", 2, 3, 0, "0F0 0F1 0F2 0B0 0B1 0B2 0UPDATE"},
        {"gpipe", 3, 1, 2, "2F0 2B0 2UPDATE"},
        {"1f1b", 1, 3, 0, "0F0 0B0 0F1 0B1 0F2 0B2 0UPDATE"},
        {"1f1b", 2, 3, 0, "0F0 0F1 0B0 0F2 0B1 0B2 0UPDATE"},
        {"1f1b", 2, 3, 1, "1F0 1B0 1F1 1B1 1F2 1B2 1UPDATE"},
        {"1f1b", 4, 2, 0, "0F0 0F1 0B0 0B1 0UPDATE"},
        {"1f1b", 4, 5, 1, "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1B3 1B4 1UPDATE"},
        {"1f1b", 5, 3, 2, "2F0 2F1 2F2 2B0 2B1 2B2 2UPDATE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program =
            generate(rows[i].schedule, rows[i].ranks, rows[i].microbatches);
        assert_string_equal(rank_text(program, rows[i].rank), rows[i].actions);
        assert_int_equal(tryst_program_rank_of(program, rows[i].rank), rows[i].rank);
        tryst_program_close(program);
    }
}

/* ---- replicas ---------------------------------------------------------------------- */

static tryst_program *replicate(tryst_program *program, int replicas)
{
    tryst_program *replicated = NULL;
    assert_int_equal(tryst_program_replicate(program, replicas, &replicated), TRYST_OK);
    tryst_program_close(program);
    return replicated;
}

static void test_replicate(void **state)
{
    int32_t ranks[3] = {-7, -7, -7};
    tryst_program *program = replicate(generate("1f1b", 2, 2), 2);
    assert_int_equal(tryst_program_ranks(program), 4);
    assert_int_equal(tryst_program_stages(program), 2);
    assert_int_equal(tryst_program_microbatches(program), 4);
    assert_string_equal(rank_text(program, 0), "0F0 0F1 0B0 0B1 0REDUCE_GRAD 0UPDATE");
    assert_string_equal(rank_text(program, 3), "1F2 1B2 1F3 1B3 1REDUCE_GRAD 1UPDATE");
    assert_int_equal(tryst_program_rank_of(program, 1), 1);
    assert_int_equal(tryst_program_rank_of_microbatch(program, 1, 1), 1);
    assert_int_equal(tryst_program_rank_of_microbatch(program, 1, 2), 3);
    assert_int_equal(tryst_program_rank_of_microbatch(program, 1, 4), -1);
    assert_int_equal(tryst_program_rank_of_microbatch(program, 1, -1), -1);
    assert_int_equal(tryst_program_replicas(program, 1, ranks, 3), 2);
    assert_int_equal(ranks[0], 1);
    assert_int_equal(ranks[1], 3);
    assert_int_equal(ranks[2], -7);
    assert_int_equal(tryst_program_replicas(program, 2, NULL, 0), 0);
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    tryst_program_close(program);

    program = replicate(generate("gpipe", 2, 2), 1); /* a copy */
    assert_string_equal(rank_text(program, 1), "1F0 1F1 1B0 1B1 1UPDATE");
    tryst_program *refused = NULL;
    assert_int_equal(tryst_program_replicate(program, 0, &refused), TRYST_E_INVALID);
    assert_int_equal(tryst_program_replicate(program, INT32_MAX, &refused),
                     TRYST_E_INVALID);
    assert_int_equal(tryst_program_replicate(NULL, 2, &refused), TRYST_E_INVALID);
    assert_int_equal(tryst_program_replicate(program, 2, NULL), TRYST_E_INVALID);
    assert_null(refused);
    tryst_program_close(program);
}

/* Every generator's program passes the checker in any number of copies, with the peaks of
 * one. All are defined for some of these counts. */
static void test_replicas_pass(void **state)
{
    int passed[64] = {0};
    for (int ranks = 1; ranks <= 4; ranks++) {
        for (int replicas = 1; replicas <= 4; replicas++) {
            for (int s = 0; tryst_program_schedule(s); s++) {
                const char *name = tryst_program_schedule(s)->name;
                tryst_program *program = NULL;
                tryst_program_peak one[4], all[16];
                if (tryst_program_generate(name, SCHEDULE(ranks, 12), &program) !=
                    TRYST_OK) {
                    continue;
                }
                assert_int_equal(tryst_program_check(program, NULL, one), TRYST_OK);
                program = replicate(program, replicas);
                assert_int_equal(tryst_program_check(program, NULL, all), TRYST_OK);
                for (int rank = 0; rank < ranks * replicas; rank++) {
                    assert_int_equal(all[rank].activations,
                                     one[rank % ranks].activations);
                }
                tryst_program_close(program);
                passed[s]++;
            }
        }
    }
    for (int s = 0; tryst_program_schedule(s); s++) {
        assert_true(passed[s] > 0);
    }
}

/* ---- checker ----------------------------------------------------------------------- */

static tryst_action_kind kind_of(const char **cursor)
{
    static const tryst_action_kind kinds[] = {
        TRYST_ACTION_UPDATE,   TRYST_ACTION_REDUCE_GRAD, TRYST_ACTION_FORWARD,
        TRYST_ACTION_BACKWARD, TRYST_ACTION_INPUT_GRAD,  TRYST_ACTION_WEIGHT_GRAD,
        TRYST_ACTION_PREDICT,  TRYST_ACTION_RECOMPUTE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = tryst_action_kind_name(kinds[i]);
        if (strncmp(*cursor, name, strlen(name)) == 0) {
            *cursor += strlen(name);
            return kinds[i];
        }
    }
    fail_msg("no action in \"%s\"", *cursor);
    return TRYST_ACTION_NONE;
}

/* Parse "0F0 0B0 0UPDATE | 1F0 …": one list of actions for each rank, separated by
 * bars; "<" begins a loop's body, ">" its epilogue. */
static tryst_program *parse(int ranks, int stages, int microbatches, const char *text_p)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(ranks, stages, microbatches, &program), TRYST_OK);
    char *copy = strdup(text_p);
    int rank = 0;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        if (*word == '|') {
            rank++;
            continue;
        }
        if (*word == '<' || *word == '>') { /* begin of the body, of the epilogue */
            assert_int_equal(tryst_program_mark(program, rank,
                                                *word == '<' ? TRYST_PROGRAM_BODY
                                                             : TRYST_PROGRAM_EPILOGUE),
                             TRYST_OK);
            continue;
        }
        char *after = NULL;
        tryst_action action = {.stage = (int32_t)strtol(word, &after, 10),
                               .microbatch = -1};
        const char *cursor = after;
        action.kind = kind_of(&cursor);
        action.version = action.kind == TRYST_ACTION_UPDATE;
        if (*cursor >= '0' && *cursor <= '9') {
            action.microbatch = (int32_t)strtol(cursor, &after, 10);
            cursor = after;
        }
        if (*cursor == 'v') {
            action.version = (int32_t)strtol(cursor + 1, &after, 10);
            cursor = after;
        }
        if (*cursor == 's') {
            action.slot = (int32_t)strtol(cursor + 1, &after, 10);
            cursor = after;
        }
        if (*cursor == 'd') {
            action.direction = (int32_t)strtol(cursor + 1, &after, 10);
            action.ahead = strtod(after + 1, NULL); /* behind "a" */
        }
        assert_int_equal(tryst_program_append(program, rank, &action), TRYST_OK);
    }
    free(copy);
    return program;
}

static void test_checker_accepts(void **state)
{
    static const struct {
        int ranks, stages, microbatches;
        int activations0; /* peak of rank 0 */
        int versions0;
        const char *actions;
    } rows[] = {
        /* split backward: activations are held until W */
        {1, 1, 2, 2, 1, "0F0 0I0 0F1 0I1 0W0 0W1 0UPDATE"},
        /* two stages on each rank, interleaved; and placed as a V */
        {2, 4, 1, 2, 1,
         "0F0 2F0 2B0 0B0 0UPDATE 2UPDATE | 1F0 3F0 3B0 1B0 1UPDATE 3UPDATE"},
        {2, 4, 1, 2, 1,
         "0F0 3F0 3B0 0B0 0UPDATE 3UPDATE | 1F0 2F0 2B0 1B0 1UPDATE 2UPDATE"},
        /* PipeDream: an update after each backward; forward and backward read the same
         * version */
        {2, 2, 3, 2, 2,
         "0F0 0F1 0B0 0UPDATE 0F2v1 0B1v0 0UPDATEv2 0B2v1 0UPDATEv3 | "
         "1F0 1B0 1UPDATE 1F1v1 1B1v1 1UPDATEv2 1F2v2 1B2v2 1UPDATEv3"},
        /* a version from an earlier run of the program */
        {1, 1, 1, 1, 2, "0F0v-1 0B0v-1 0UPDATE"},
        /* R before B and before I; slots */
        {1, 1, 2, 2, 1, "0F0 0F1 0R1 0B1 0R0 0I0 0W0 0UPDATE"},
        {1, 1, 2, 1, 1,
         "0PREDICTs1d0a1.5 0F0s1 0PREDICTs2d1a-1 0R0s2 0B0s2 0F1s1 0B1 0UPDATE"},
        /* a loop: PipeDream */
        {2, 2, 2, 2, 2,
         "0F0 < 0F1v-1 0B0v-1 0UPDATE 0F2v1 0B1 0UPDATEv2 > "
         "0F1v-1 0B0v-1 0UPDATE 0B1 0UPDATEv2 | "
         "< 1F0 1B0 1UPDATE 1F1v1 1B1v1 1UPDATEv2 > "
         "1F0 1B0 1UPDATE 1F1v1 1B1v1 1UPDATEv2"},
        /* a body that reads older versions than a few steps have */
        {1, 1, 1, 1, 9, "< 0F0v-8 0B0v-8 0UPDATE > 0F0v-8 0B0v-8 0UPDATE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program =
            parse(rows[i].ranks, rows[i].stages, rows[i].microbatches, rows[i].actions);
        tryst_program_peak peaks[2];
        tryst_status status = tryst_program_check(program, NULL, peaks);
        if (status != TRYST_OK) {
            fail_msg("%s: %s", rows[i].actions, tryst_last_error());
        }
        assert_int_equal(peaks[0].activations, rows[i].activations0);
        assert_int_equal(peaks[0].versions, rows[i].versions0);
        tryst_program_close(program);
    }
}

/* Copies of lists with several UPDATEs, several stages on a rank, split backwards, and
 * with a REDUCE_GRAD already. */
static void test_replicate_places(void **state)
{
    static const struct {
        int stages, microbatches;
        const char *actions;
        const char *copied; /* rank 1 of two */
    } rows[] = {
        {1, 2, "0F0 0B0 0UPDATE 0F1v1 0B1v1 0UPDATEv2",
         "0F2 0B2 0REDUCE_GRAD 0UPDATE 0F3v1 0B3v1 0REDUCE_GRAD 0UPDATEv2"},
        {2, 1, "0F0 1F0 1I0 0I0 1W0 0W0 0UPDATE 1UPDATE",
         "0F1 1F1 1I1 0I1 1W1 1REDUCE_GRAD 0W1 0REDUCE_GRAD 0UPDATE 1UPDATE"},
        {1, 1, "0F0 0B0 0REDUCE_GRAD 0UPDATE", "0F1 0B1 0REDUCE_GRAD 0UPDATE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program =
            replicate(parse(1, rows[i].stages, rows[i].microbatches, rows[i].actions), 2);
        assert_string_equal(rank_text(program, 1), rows[i].copied);
        assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
        tryst_program_close(program);
    }
}

/* Replicas may have different lists: unequal numbers of copies of two stages. */
static void test_unequal_replicas(void **state)
{
    tryst_program *program = parse(3, 2, 4,
                                   "0F0 0F1 0B0 0B1 0REDUCE_GRAD 0UPDATE | "
                                   "0F2 0F3 0B2 0B3 0REDUCE_GRAD 0UPDATE | "
                                   "1F0 1B0 1F2 1B2 1F1 1B1 1F3 1B3 1UPDATE");
    if (tryst_program_check(program, NULL, NULL) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    tryst_program_close(program);
}

static const struct {
    int ranks, stages, microbatches;
    const char *actions;
    const char *says;
    const char *marked; /* beginning of the marked row of the grid */
} refused[] = {
    {1, 1, 1, "0F0 0F0 0B0 0UPDATE", "appears twice", "Step   1: [0F0]"},
    {1, 1, 1, "0F0 0B0 0W0 0UPDATE", "appears twice", "Step   2: [0W0]"},
    {1, 1, 2, "0F0 0F1 0B0 0UPDATE", "stage 0 has no backward", "Step   4: []"},
    {1, 1, 1, "0F0 0I0 0UPDATE", "no weight gradient (W) of micro-batch 0",
     "Step   3: []"},
    {2, 2, 1, "0F0 0B0 0UPDATE |", "no rank has an action of this stage", NULL},
    {2, 2, 1, "0F0 0B0 0UPDATE | 1F0 1B0 1UPDATE 0UPDATE",
     "0UPDATE follows no backward of stage 0", "Step   3:"},
    {2, 2, 1, "0F0 1B0 0B0 0UPDATE | 1F0 1UPDATE",
     "micro-batch 0 of stage 1 is already on rank 0", "Step   0:"},
    {1, 1, 1, "0B0 0F0 0UPDATE", "0B0 waits for the output of stage 0",
     "Step   0: [0B0]"},
    {1, 1, 1, "0F0 0W0 0I0 0UPDATE", "0W0 waits for the input's gradient",
     "Step   1: [0W0]"},
    /* crossed: each rank waits for a result that the other produces later */
    {2, 2, 2, "0F0 0B0 0F1 0B1 0UPDATE | 1F1 1B1 1F0 1B0 1UPDATE",
     "rank 1, position 0: 1F1 waits for the output of stage 0, micro-batch 1",
     "Step   1: [0B0]"},
    {1, 1, 1, "0F0v1 0B0 0UPDATE", "reads version 1, but the newest there is 0",
     "Step   0: [0F0v1]"},
    {1, 1, 1, "0F0 0B0", "followed by no UPDATE", "Step   2: []"},
    {1, 1, 1, "0UPDATE 0F0 0B0 0UPDATEv2", "follows no backward", "Step   0: [0UPDATE]"},
    {1, 1, 1, "0F0 0B0 0UPDATEv3", "this update makes version 1",
     "Step   2: [0UPDATEv3]"},
    {1, 1, 1, "0F0 0REDUCE_GRAD 0B0 0UPDATE", "0REDUCE_GRAD follows no backward",
     "Step   1: [0REDUCE_GRAD]"},
    {1, 1, 1, "0F0 0B0 0REDUCE_GRAD 0REDUCE_GRAD 0UPDATE", "are summed already",
     "Step   3: [0REDUCE_GRAD]"},
    {1, 1, 2, "0F0 0F1 0B0 0REDUCE_GRAD 0B1 0UPDATE",
     "0B1 comes between REDUCE_GRAD and UPDATE of stage 0", "Step   4: [0B1]"},
    {1, 1, 1, "0F0 0R0 0R0 0B0 0UPDATE", "micro-batch 0 is recomputed twice",
     "Step   2: [0R0]"},
    {1, 1, 1, "0F0 0B0 0R0 0UPDATE", "comes behind the backward", "Step   2: [0R0]"},
    {1, 1, 1, "0R0 0F0 0B0 0UPDATE", "0R0 waits for the output", "Step   0: [0R0]"},
    {1, 1, 1, "0F0 0R0v-1 0B0 0UPDATE", "reads other weights than the R",
     "Step   2: [0B0]"},
    {1, 1, 1, "0F0 0I0 0W0v-1 0UPDATE", "reads other weights than the I",
     "Step   2: [0W0v-1]"},
    {1, 1, 1, "0PREDICTs1d0a1 0F0s1 0R0s1 0PREDICTs1d0a1 0B0s1 0UPDATE",
     "reads other weights than the R", "Step   4: [0B0s1]"},
    {1, 1, 1, "0PREDICTs1d0a1 0F0s1 0I0s1 0PREDICTs1d0a1 0W0s1 0UPDATE",
     "reads other weights than the I", "Step   4: [0W0s1]"},
    {1, 1, 1, "0F0s1 0B0 0UPDATE", "reads slot 1, which no PREDICT has filled",
     "Step   0: [0F0s1]"},
    {1, 1, 1, "0PREDICTs1d0a1 0F0v-1s1 0B0 0UPDATE", "names a version beside slot 1",
     "Step   1: [0F0v-1s1]"},
    {1, 1, 1, "0PREDICTs0d0a1 0F0 0B0 0UPDATE", "fills no slot", "Step   0:"},
    {1, 1, 1, "0PREDICTs1d2a1 0F0 0B0 0UPDATE", "direction 2 is not known", "Step   0:"},
    {1, 1, 1, "0PREDICTs1d0ainf 0F0 0B0 0UPDATE", "a number that is not finite",
     "Step   0:"},
    /* loops */
    {1, 1, 1, "< 0F0 0B0 0UPDATE", "the list of rank 0 has no epilogue", NULL},
    {2, 2, 1, "0F0 0B0 0UPDATE | < 1F0 1B0 1UPDATE > 1F0 1B0 1UPDATE",
     "the list of rank 0 has no body", NULL},
    {3, 3, 1,
     "< 0F0 0B0 0UPDATE > 0F0 0B0 0UPDATE | < 1F0 1B0 1UPDATE > 1F0 1B0 1UPDATE | "
     "< 2F0 2B0 2UPDATE > 2F0 2B0 2UPDATE",
     "a loop over 3 ranks needs at least 2 micro-batches", NULL},
    {1, 1, 1, "< 0F0 0B0 0UPDATE > 0F0 0B0", "1 step of the loop: stage 0: 1 gradients",
     "Step   2:"},
    {1, 1, 1, "0F0 < 0F1 0B0 0UPDATE > 0F0 0B0 0UPDATE",
     "1 step of the loop: rank 0, position 1: 0F0 appears twice", "Step   1:"},
    {1, 1, 1, "0F0 < 0B0 0UPDATE > 0B0 0UPDATE",
     "2 steps of the loop: stage 0 has no forward", NULL},
    {1, 1, 1, "0F0 < 0F1 0B0 0UPDATE > 0B0 0UPDATE",
     "a forward of the next step on the last stage", NULL},
    {1, 1, 1, "< 0F0 0B0 > 0F0 0B0 0UPDATE",
     "adds gradients to its stage without an UPDATE", NULL},
    {1, 1, 1, "0PREDICTs1d0a1 < 0F0s1 0B0s1 0UPDATE > 0F0s1 0B0s1 0UPDATE",
     "reads a slot that no PREDICT of the body fills", NULL},
    /* rank 0 runs the next step's forward in its body, rank 1 waits for one of the body
     * after that */
    {2, 2, 1,
     "< 0F0 0B0 0UPDATE > 0F0 0B0 0UPDATE | "
     "1F0 < 1F1 1B0 1UPDATE > 1B0 1UPDATE",
     "no rank can continue", NULL},
    /* two replicas of one stage */
    {2, 1, 2, "0F0 0B0 0REDUCE_GRAD 0UPDATE | 0F1 0B1 0UPDATE",
     "follows no REDUCE_GRAD, but the stage has 2 replicas", "Step   2:"},
    {2, 1, 2, "0F0 0B0 0REDUCE_GRAD 0UPDATE | 0F1 0B1", "are followed by no UPDATE",
     "Step   2:"},
    {2, 1, 3,
     "0F0 0B0 0REDUCE_GRAD 0UPDATE | "
     "0F1 0B1 0REDUCE_GRAD 0UPDATE 0F2 0B2 0REDUCE_GRAD 0UPDATEv2",
     "stage 0 has 2 UPDATEs on rank 1, but 1 on rank 0", "Step   8:"},
    /* each replica of a stage waits for the other one's second REDUCE_GRAD */
    {2, 2, 2,
     "0F0 1F0 1B0 1REDUCE_GRAD 1UPDATE 0B0 0REDUCE_GRAD 0UPDATE | "
     "0F1 1F1 1B1 0B1 0REDUCE_GRAD 0UPDATE 1REDUCE_GRAD 1UPDATE",
     "rank 0, position 4: 1UPDATE waits for a REDUCE_GRAD of another replica; rank "
     "1, "
     "position 5: 0UPDATE waits",
     "Step   4:"},
};

static void test_checker_refuses(void **state)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tryst_program *program = parse(refused[i].ranks, refused[i].stages,
                                       refused[i].microbatches, refused[i].actions);
        assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_E_PROGRAM);
        if (!strstr(tryst_last_error(), refused[i].says)) {
            fail_msg("%s: expected \"%s\" in:\n%s", refused[i].actions, refused[i].says,
                     tryst_last_error());
        }
        const char *mark = strstr(tryst_last_error(), "<-- ERROR HERE");
        if (strchr(refused[i].actions, '<') && !refused[i].marked) {
            /* a loop: some sentences are about the lists before they are unrolled */
        } else if (refused[i].marked) {
            assert_non_null(mark);
            while (mark > tryst_last_error() && mark[-1] != '\n') {
                mark--;
            }
            if (strncmp(mark, refused[i].marked, strlen(refused[i].marked)) != 0) {
                fail_msg("%s: the mark is in the row %s", refused[i].actions,
                         tryst_last_error());
            }
        } else {
            assert_null(mark);
        }
        tryst_program_close(program);
    }
}

static void test_checker_limits(void **state)
{
    tryst_program *gpipe = generate("gpipe", 2, 4);
    tryst_check_params params = {.struct_size = sizeof params, .activations_max = 4};
    assert_int_equal(tryst_program_check(gpipe, &params, NULL), TRYST_OK);
    params.activations_max = 3;
    assert_int_equal(tryst_program_check(gpipe, &params, NULL), TRYST_E_PROGRAM);
    assert_non_null(strstr(tryst_last_error(), "4 saved activations, but room for 3"));
    tryst_program_close(gpipe);

    tryst_program *stale = parse(1, 1, 1, "0F0v-1 0B0v-1 0UPDATE");
    params = (tryst_check_params){.struct_size = sizeof params, .versions_max = 2};
    assert_int_equal(tryst_program_check(stale, &params, NULL), TRYST_OK);
    params.versions_max = 1;
    assert_int_equal(tryst_program_check(stale, &params, NULL), TRYST_E_PROGRAM);
    assert_non_null(
        strstr(tryst_last_error(), "of 1 kept versions the oldest there is 0"));
    tryst_program_close(stale);
}

/* For a long program the error shows the neighbourhood of the place, not thousands of
 * rows. */
static void test_grid_is_bounded(void **state)
{
    tryst_program *program = generate("1f1b", 4, 1000);
    const tryst_check_params params = {.struct_size = sizeof params,
                                       .activations_max = 3};
    assert_int_equal(tryst_program_check(program, &params, NULL), TRYST_E_PROGRAM);
    assert_non_null(strstr(tryst_last_error(), "<-- ERROR HERE"));
    assert_true(strlen(tryst_last_error()) < 8192);
    tryst_program_close(program);
}

/* Return the processor time of checking a step of `microbatches`. */
static double check_seconds(int microbatches)
{
    struct timespec begin, end;
    tryst_program *program = generate("xpipe", 2, microbatches);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    tryst_program_close(program);
    return (double)(end.tv_sec - begin.tv_sec) +
           (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

/* The check of a long step takes linear time, also where a slot is filled at the end of
 * a body and read before: eight times as many micro-batches take eight times as long, and
 * not 64. */
static void test_long_step(void **state)
{
    double few_s = check_seconds(10000);
    assert_true(check_seconds(80000) < 24 * few_s);
}

/* The numbers of a loop's micro-batches are limited: three steps are unrolled. */
static void test_huge_step(void **state)
{
    tryst_program *program = NULL;
    const tryst_action forward = {.kind = TRYST_ACTION_FORWARD};
    assert_int_equal(tryst_program_open(1, 1, 2000000000, &program), TRYST_OK);
    assert_int_equal(tryst_program_mark(program, 0, TRYST_PROGRAM_BODY), TRYST_OK);
    assert_int_equal(tryst_program_append(program, 0, &forward), TRYST_OK);
    assert_int_equal(tryst_program_mark(program, 0, TRYST_PROGRAM_EPILOGUE), TRYST_OK);
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_E_PROGRAM);
    assert_non_null(strstr(tryst_last_error(), "can have at most 178956970"));
    tryst_program_close(program);
}

/* An error names an action in full, however many digits it has. */
static void test_long_name(void **state)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(1, 100000, 1, &program), TRYST_OK);
    for (int stage = 0; stage < 100000; stage++) {
        const tryst_action forward = {.kind = TRYST_ACTION_FORWARD, .stage = stage};
        assert_int_equal(tryst_program_append(program, 0, &forward), TRYST_OK);
    }
    for (int stage = 99999; stage >= 0; stage--) {
        const tryst_action backward = {.kind = TRYST_ACTION_BACKWARD, .stage = stage};
        assert_int_equal(tryst_program_append(program, 0, &backward), TRYST_OK);
    }
    const tryst_action predict = {.kind = TRYST_ACTION_PREDICT,
                                  .stage = 99999,
                                  .microbatch = -1,
                                  .slot = 255,
                                  .direction = -1000000000,
                                  .ahead = -1.2345678901234567e-300};
    assert_int_equal(tryst_program_append(program, 0, &predict), TRYST_OK);
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_E_PROGRAM);
    assert_non_null(strstr(tryst_last_error(), "99999PREDICTs255d-1000000000a-"
                                               "1.2345678901234568e-300: direction"));
    tryst_program_close(program);
}

static void test_append_refuses_ranges(void **state)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(2, 1, 1, &program), TRYST_E_INVALID);
    assert_int_equal(tryst_program_open(2, 2, 2, &program), TRYST_OK);
    static const struct {
        int rank;
        tryst_action action;
    } rows[] = {
        {2, ACTION(TRYST_ACTION_FORWARD, 0, 0, 0)},
        {-1, ACTION(TRYST_ACTION_FORWARD, 0, 0, 0)},
        {0, ACTION(TRYST_ACTION_FORWARD, 2, 0, 0)},
        {0, ACTION(TRYST_ACTION_FORWARD, 0, 2, 0)},
        {0, ACTION(TRYST_ACTION_FORWARD, 0, -1, 0)},
        {0, ACTION(TRYST_ACTION_UPDATE, 0, 0, 1)},
        {0, ACTION(TRYST_ACTION_NONE, 0, 0, 0)},
        {0, ACTION(TRYST_ACTION_KINDS, 0, 0, 0)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(tryst_program_append(program, rows[i].rank, &rows[i].action),
                         TRYST_E_INVALID);
    }
    tryst_program_close(program);
}

/* A program that the checker refuses, with a W twice, has no hang in store for a caller
 * that did not ask the checker. */
static void test_reads_unchecked(void **state)
{
    static const tryst_action_kind kinds[] = {
        TRYST_ACTION_FORWARD,     TRYST_ACTION_INPUT_GRAD, TRYST_ACTION_WEIGHT_GRAD,
        TRYST_ACTION_WEIGHT_GRAD, TRYST_ACTION_UPDATE,
    };
    enum { COUNT = sizeof kinds / sizeof *kinds };
    tryst_program_read reads[COUNT];
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(1, 1, 1, &program), TRYST_OK);
    for (int i = 0; i < COUNT; i++) {
        const tryst_action action = {.kind = kinds[i],
                                     .microbatch = i + 1 < COUNT ? 0 : -1,
                                     .version = i + 1 < COUNT ? 0 : 1};
        assert_int_equal(tryst_program_append(program, 0, &action), TRYST_OK);
    }
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_E_PROGRAM);
    assert_int_equal(tryst_program_reads(program, 0, reads), TRYST_OK);
    assert_int_equal(reads[2].delay, 0);
    tryst_program_close(program);
}

/* Getters accept NULL. */
static void test_null(void **state)
{
    size_t count = 7;
    tryst_engine_stats stats = {.struct_size = sizeof stats, .steps_count = 7};
    (void)state;
    assert_int_equal(tryst_program_ranks(NULL), 0);
    assert_int_equal(tryst_program_stages(NULL), 0);
    assert_int_equal(tryst_program_microbatches(NULL), 0);
    assert_int_equal(tryst_program_rank_of(NULL, 0), -1);
    assert_null(tryst_program_actions(NULL, 0, &count));
    assert_int_equal(count, 0);
    assert_true(tryst_data_bytes(NULL) == 0);
    assert_string_equal(tryst_engine_error(NULL), "");
    assert_string_equal(tryst_engine_cause(NULL), "");
    assert_null(tryst_engine_losses(NULL));
    count = 7;
    assert_null(tryst_engine_spans(NULL, &count));
    assert_int_equal(count, 0);
    assert_int_equal(tryst_engine_stats_get(NULL, &stats), TRYST_E_INVALID);
    assert_true(stats.steps_count == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_generators),
        cmocka_unit_test(test_checker_accepts),
        cmocka_unit_test(test_checker_refuses),
        cmocka_unit_test(test_replicate),
        cmocka_unit_test(test_replicas_pass),
        cmocka_unit_test(test_replicate_places),
        cmocka_unit_test(test_unequal_replicas),
        cmocka_unit_test(test_checker_limits),
        cmocka_unit_test(test_grid_is_bounded),
        cmocka_unit_test(test_long_step),
        cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_huge_step),
        cmocka_unit_test(test_append_refuses_ranges),
        cmocka_unit_test(test_reads_unchecked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
