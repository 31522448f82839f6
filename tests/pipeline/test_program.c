/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: what the generators write, what the checker refuses, and the CSV form. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include <cmocka.h>

#include <tryst/data.h>
#include <tryst/pipeline.h>

static tryst_program *generate(const char *schedule, int ranks, int microbatches)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_generate(schedule, ranks, microbatches, &program),
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

/* Backwards are in micro-batch order, the order in which gradients are added. */
static void test_accumulation_order(void **state)
{
    for (int s = 0; tryst_program_schedule_name(s); s++) {
        tryst_program *program = generate(tryst_program_schedule_name(s), 3, 7);
        for (int rank = 0; rank < 3; rank++) {
            size_t count = 0;
            const tryst_action *actions = tryst_program_actions(program, rank, &count);
            int next = 0;
            for (size_t i = 0; i < count; i++) {
                if (actions[i].kind == TRYST_ACTION_BACKWARD) {
                    assert_int_equal(actions[i].microbatch, next++);
                }
            }
            assert_int_equal(next, 7);
        }
        tryst_program_close(program);
    }
}

static void test_generator_errors(void **state)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_generate("2f2b", 2, 2, &program), TRYST_E_PROGRAM);
    assert_non_null(strstr(tryst_last_error(), "naive, gpipe, 1f1b"));
    assert_int_equal(tryst_program_generate("1f1b", 0, 2, &program), TRYST_E_INVALID);
    assert_int_equal(tryst_program_generate("1f1b", 2, 0, &program), TRYST_E_INVALID);
    assert_null(program);
}

/* Every generator's program passes the checker, and its peaks are those of the papers. */
static void test_peaks(void **state)
{
    for (int ranks = 1; ranks <= 9; ranks++) {
        for (int microbatches = 1; microbatches <= 20; microbatches++) {
            for (int s = 0; tryst_program_schedule_name(s); s++) {
                const char *schedule = tryst_program_schedule_name(s);
                tryst_program *program = generate(schedule, ranks, microbatches);
                tryst_program_peak peaks[9];
                assert_int_equal(tryst_program_check(program, NULL, peaks), TRYST_OK);
                for (int rank = 0; rank < ranks; rank++) {
                    int behind =
                        ranks - rank < microbatches ? ranks - rank : microbatches;
                    int expected = strcmp(schedule, "naive") == 0   ? 1
                                   : strcmp(schedule, "gpipe") == 0 ? microbatches
                                                                    : behind;
                    assert_int_equal(peaks[rank].activations, expected);
                    assert_int_equal(peaks[rank].versions, 1);
                }
                tryst_program_close(program);
            }
        }
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
 * one. */
static void test_replicas_pass(void **state)
{
    for (int ranks = 1; ranks <= 4; ranks++) {
        for (int replicas = 1; replicas <= 4; replicas++) {
            for (int s = 0; tryst_program_schedule_name(s); s++) {
                tryst_program *program =
                    generate(tryst_program_schedule_name(s), ranks, 5);
                tryst_program_peak one[4], all[16];
                assert_int_equal(tryst_program_check(program, NULL, one), TRYST_OK);
                program = replicate(program, replicas);
                assert_int_equal(tryst_program_check(program, NULL, all), TRYST_OK);
                for (int rank = 0; rank < ranks * replicas; rank++) {
                    assert_int_equal(all[rank].activations,
                                     one[rank % ranks].activations);
                }
                tryst_program_close(program);
            }
        }
    }
}

/* ---- checker ----------------------------------------------------------------------- */

static tryst_action_kind kind_of(const char **cursor)
{
    static const tryst_action_kind kinds[] = {
        TRYST_ACTION_UPDATE,   TRYST_ACTION_REDUCE_GRAD, TRYST_ACTION_FORWARD,
        TRYST_ACTION_BACKWARD, TRYST_ACTION_INPUT_GRAD,  TRYST_ACTION_WEIGHT_GRAD};
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
 * bars. */
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
        char *after = NULL;
        tryst_action action = {.stage = (int32_t)strtol(word, &after, 10),
                               .microbatch = -1};
        const char *cursor = after;
        action.kind = kind_of(&cursor);
        action.version = action.kind == TRYST_ACTION_UPDATE;
        if (*cursor && *cursor != 'v') {
            action.microbatch = (int32_t)strtol(cursor, &after, 10);
            cursor = after;
        }
        if (*cursor == 'v') {
            action.version = (int32_t)strtol(cursor + 1, NULL, 10);
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
        if (refused[i].marked) {
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

static void test_append_refuses_ranges(void **state)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(2, 1, 1, &program), TRYST_E_INVALID);
    assert_int_equal(tryst_program_open(2, 2, 2, &program), TRYST_OK);
    static const struct {
        int rank;
        tryst_action action;
    } rows[] = {
        {2, {TRYST_ACTION_FORWARD, 0, 0, 0}},  {-1, {TRYST_ACTION_FORWARD, 0, 0, 0}},
        {0, {TRYST_ACTION_FORWARD, 2, 0, 0}},  {0, {TRYST_ACTION_FORWARD, 0, 2, 0}},
        {0, {TRYST_ACTION_FORWARD, 0, -1, 0}}, {0, {TRYST_ACTION_UPDATE, 0, 0, 1}},
        {0, {TRYST_ACTION_NONE, 0, 0, 0}},     {0, {(tryst_action_kind)7, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(tryst_program_append(program, rows[i].rank, &rows[i].action),
                         TRYST_E_INVALID);
    }
    tryst_program_close(program);
}

/* ---- CSV --------------------------------------------------------------------------- */

static char path[256];

static void write_file(const char *content)
{
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(content, stream);
    assert_int_equal(fclose(stream), 0);
}

static const char *read_file(void)
{
    static char content[4096];
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    content[fread(content, 1, sizeof content - 1, stream)] = '\0';
    fclose(stream);
    return content;
}

static tryst_program *load(const char *content)
{
    tryst_program *program = NULL;
    write_file(content);
    if (tryst_program_load_csv(path, &program) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    return program;
}

static void test_csv_save(void **state)
{
    tryst_program *program = generate("1f1b", 2, 3);
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    assert_string_equal(read_file(),
                        "0F0,0F1,0B0,0F2,0B1,0B2\r\n1F0,1B0,1F1,1B1,1F2,1B2\r\n");
    tryst_program_close(program);
}

static void test_csv_load(void **state)
{
    /* as PyTorch writes it: CRLF, idle slots empty; and with blanks, quotes, no last
     * newline */
    tryst_program *program = load("0F0,0F1,,0I0,0I1,0W0,0W1\r\n,1F0,1F1,1B0,1B1,,\r\n");
    assert_int_equal(tryst_program_ranks(program), 2);
    assert_int_equal(tryst_program_stages(program), 2);
    assert_int_equal(tryst_program_microbatches(program), 2);
    assert_string_equal(rank_text(program, 0), "0F0 0F1 0I0 0I1 0W0 0W1 0UPDATE");
    assert_string_equal(rank_text(program, 1), "1F0 1F1 1B0 1B1 1UPDATE");
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    tryst_program_close(program);
    program = load(" 0F0 ,\"1F0\",1B0,0B0\n");
    assert_string_equal(rank_text(program, 0), "0F0 1F0 1B0 0B0 0UPDATE 1UPDATE");
    tryst_program_close(program);
}

/* An overlapping pair is loaded as its actions in order; it is saved as two cells. */
static void test_csv_pair(void **state)
{
    tryst_program *program = load("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n");
    assert_string_equal(rank_text(program, 0), "0F0 0F1 0B0 0B1 0UPDATE");
    assert_string_equal(rank_text(program, 1), "1F0 1F1 1B0 1B1 1UPDATE");
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    assert_string_equal(read_file(), "0F0,0F1,0B0,0B1\r\n1F0,1F1,1B0,1B1\r\n");
    tryst_program_close(program);
    /* two stages on a rank, separate input and weight gradients, blanks and quotes */
    program = load("0F0,1F0,\"( 0F1 ; 1I0 )OVERLAP_F_B\",1W0,1F1,1B1,0B0,0B1\n");
    assert_string_equal(rank_text(program, 0),
                        "0F0 1F0 0F1 1I0 1W0 1F1 1B1 0B0 0B1 0UPDATE 1UPDATE");
    tryst_program_close(program);
}

static void test_csv_round_trip(void **state)
{
    static const char *const programs[] = {
        "0F0 0F1 0B0 0UPDATE 0F2v1 0B1 0UPDATEv2 0B2v-1 0UPDATEv3",
        "0F0 0I0 0F1 0I1 0W0 0W1 0UPDATE",
        "0F0 0B0 0UPDATE",
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        tryst_program *saved = parse(1, 1, i == 0 ? 3 : i == 1 ? 2 : 1, programs[i]);
        assert_int_equal(tryst_program_save_csv(saved, path), TRYST_OK);
        tryst_program *loaded = NULL;
        assert_int_equal(tryst_program_load_csv(path, &loaded), TRYST_OK);
        assert_string_equal(rank_text(loaded, 0), programs[i]);
        tryst_program_close(saved);
        tryst_program_close(loaded);
    }
}

/* REDUCE_GRAD, with PyTorch's name, and the rows of replicas. */
static void test_csv_replicated(void **state)
{
    tryst_program *program = load("0F0,0F1,0B0,0B1,0REDUCE_GRAD\r\n"
                                  "1F0,1B0,1F1,1B1,1REDUCE_GRAD\r\n");
    assert_string_equal(rank_text(program, 0), "0F0 0F1 0B0 0B1 0REDUCE_GRAD 0UPDATE");
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    tryst_program *twice = NULL, *loaded = NULL;
    assert_int_equal(tryst_program_replicate(program, 2, &twice), TRYST_OK);
    assert_int_equal(tryst_program_save_csv(twice, path), TRYST_OK);
    assert_string_equal(read_file(), "0F0,0F1,0B0,0B1,0REDUCE_GRAD\r\n"
                                     "1F0,1B0,1F1,1B1,1REDUCE_GRAD\r\n"
                                     "0F2,0F3,0B2,0B3,0REDUCE_GRAD\r\n"
                                     "1F2,1B2,1F3,1B3,1REDUCE_GRAD\r\n");
    assert_int_equal(tryst_program_load_csv(path, &loaded), TRYST_OK);
    assert_int_equal(tryst_program_check(loaded, NULL, NULL), TRYST_OK);
    assert_int_equal(tryst_program_stages(loaded), 2);
    assert_int_equal(tryst_program_microbatches(loaded), 4);
    assert_string_equal(rank_text(loaded, 3), "1F2 1B2 1F3 1B3 1REDUCE_GRAD 1UPDATE");
    tryst_program_close(loaded);
    tryst_program_close(twice);
    tryst_program_close(program);
}

/* UPDATEs are left out only if loading restores them: not if a rank or a stage has no
 * UPDATE, or has them in another order. (Found by the fuzzer.) */
static void test_csv_odd_updates(void **state)
{
    static const char *const files[] = {
        "0F0\n1F0,1UPDATE\n", "0F0,0UPDATE\n1F0\n",    "0F0,1F0,1UPDATE,0UPDATE\n",
        "0F0,1F0,0UPDATE\n",  "0F0,0UPDATE,0UPDATE\n", "0F0,1F0,0UPDATE,1UPDATEv2\n",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char before[2][256] = {"", ""};
        tryst_program *program = load(files[i]);
        int ranks = tryst_program_ranks(program);
        for (int rank = 0; rank < ranks; rank++) {
            snprintf(before[rank], sizeof before[rank], "%s", rank_text(program, rank));
        }
        assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
        tryst_program_close(program);
        assert_int_equal(tryst_program_load_csv(path, &program), TRYST_OK);
        for (int rank = 0; rank < ranks; rank++) {
            assert_string_equal(rank_text(program, rank), before[rank]);
        }
        tryst_program_close(program);
    }
}

static void test_csv_refuses(void **state)
{
    static const struct {
        const char *content;
        const char *says;
    } rows[] = {
        {"0UPDATE\n", "no micro-batch"}, /* found by the fuzzer, as is the next row */
        {"1F0,1UPDATE\n", "needs at least 2 forwards, but has 1 actions"},
        {"0F0,0SEND_F0\n", "row 1 (rank 0), column 2: \"0SEND_F0\" is communication"},
        {"0F0\n1RECV_F0,1F0\n",
         "row 2 (rank 1), column 1: \"1RECV_F0\" is communication"},
        {"0UNSHARD,0F0\n", "\"0UNSHARD\" is sharding"},
        {"0F0,0REDUCE_GRAD1\n", "\"0REDUCE_GRAD1\" has something behind"},
        {"0F0\n0UPDATE,0REDUCE_GRAD\n", "2 rows (ranks), but stages only to 0"},
        {"(0F0;1B0)\n", "\"(0F0;1B0)\" opens a parenthesis"},
        {"0F0,(0F0;1B0\n", "column 2: \"(0F0;1B0\" opens a parenthesis"},
        {"(0F0;1B0)OVERLAP_X\n", "opens a parenthesis"},
        {"()OVERLAP_F_B\n", "does not begin with a stage number"},
        {"(0F0;0SEND_F0)OVERLAP_F_B\n", "\"0SEND_F0\" is communication"},
        {"((0F0;0B0)OVERLAP_F_B;0F1)OVERLAP_F_B\n", "opens a parenthesis"},
        {"0F0,X\n", "column 2: \"X\" does not begin with a stage number"},
        {"0F0,,0Q0\n", "column 3: \"0Q0\" has no known action"},
        {"0F\n", "\"0F\" has no micro-batch number"},
        {"0F0x\n", "\"0F0x\" has something behind its last number"},
        {"0F0v\n", "\"0F0v\" has no version number"},
        {"9999999F0\n", "does not begin with a stage number"},
        {"0F99999,0B0\n", "needs at least 100000 forwards, but has 2 actions"},
        {"", "no actions"},
        {"0F0,0B0\n\n", "2 rows (ranks), but stages only to 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program = NULL;
        write_file(rows[i].content);
        assert_int_equal(tryst_program_load_csv(path, &program), TRYST_E_PROGRAM);
        if (!strstr(tryst_last_error(), rows[i].says)) {
            fail_msg("\"%s\": expected \"%s\" in: %s", rows[i].content, rows[i].says,
                     tryst_last_error());
        }
        assert_null(program);
    }
    tryst_program *program = NULL;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tryst_program_load_csv(path, &program), TRYST_E_IO);
    assert_non_null(strstr(tryst_last_error(), path));
    assert_non_null(strstr(tryst_last_error(), "No such file"));
}

static int set_up_path(void **state)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/tryst-program-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int tear_down_path(void **state)
{
    unlink(path);
    return 0;
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
        cmocka_unit_test(test_accumulation_order),
        cmocka_unit_test(test_generator_errors),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_checker_accepts),
        cmocka_unit_test(test_checker_refuses),
        cmocka_unit_test(test_replicate),
        cmocka_unit_test(test_replicas_pass),
        cmocka_unit_test(test_replicate_places),
        cmocka_unit_test(test_unequal_replicas),
        cmocka_unit_test(test_checker_limits),
        cmocka_unit_test(test_grid_is_bounded),
        cmocka_unit_test(test_append_refuses_ranges),
        cmocka_unit_test_setup_teardown(test_csv_save, set_up_path, tear_down_path),
        cmocka_unit_test_setup_teardown(test_csv_load, set_up_path, tear_down_path),
        cmocka_unit_test_setup_teardown(test_csv_pair, set_up_path, tear_down_path),
        cmocka_unit_test_setup_teardown(test_csv_replicated, set_up_path, tear_down_path),
        cmocka_unit_test_setup_teardown(test_csv_round_trip, set_up_path, tear_down_path),
        cmocka_unit_test_setup_teardown(test_csv_odd_updates, set_up_path,
                                        tear_down_path),
        cmocka_unit_test_setup_teardown(test_csv_refuses, set_up_path, tear_down_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
