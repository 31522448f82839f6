/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV form of programs: what is written, what PyTorch's files load as, that ours read
 * back equal, and what is refused. */
#include <float.h>
#include <locale.h>
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

#include <tryst/pipeline.h>

#include "actions.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static char path[256];

static tryst_program *generate(const char *schedule, int ranks, int microbatches)
{
    tryst_program *program = NULL;
    assert_int_equal(
        tryst_program_generate(schedule, SCHEDULE(ranks, microbatches), &program),
        TRYST_OK);
    return program;
}

/* Format the actions and marks of one rank: "0F0 BODY 0F1 0B0 EPILOGUE 0B1". */
static const char *rank_text(const tryst_program *program, int rank)
{
    static char line[4096];
    size_t count = 0, body, epilogue;
    const tryst_action *actions = tryst_program_actions(program, rank, &count);
    bool marked = tryst_program_loop(program, rank, &body, &epilogue);
    line[0] = '\0';
    for (size_t i = 0; i <= count; i++) {
        char action[128];
        strcat(line, marked && i == body ? " BODY" : "");
        strcat(line, marked && i == epilogue ? " EPILOGUE" : "");
        if (i < count) {
            strcat(line, " ");
            strcat(line, tryst_action_format(&actions[i], action, sizeof action));
        }
    }
    return *line ? line + 1 : line;
}

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

static tryst_program *load_path(void)
{
    tryst_program *program = NULL;
    if (tryst_program_load_csv(path, &program) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    return program;
}

static tryst_program *load(const char *content)
{
    write_file(content);
    return load_path();
}

/* Load `content`; the row of `rank` must hold `expected`. */
static void check_row(const char *content, int rank, const char *expected)
{
    tryst_program *program = load(content);
    assert_string_equal(rank_text(program, rank), expected);
    tryst_program_close(program);
}

static void check_equal(const tryst_program *a, const tryst_program *b)
{
    assert_int_equal(tryst_program_ranks(a), tryst_program_ranks(b));
    assert_int_equal(tryst_program_stages(a), tryst_program_stages(b));
    assert_int_equal(tryst_program_microbatches(a), tryst_program_microbatches(b));
    assert_int_equal(tryst_program_rate(a), tryst_program_rate(b));
    for (int rank = 0; rank < tryst_program_ranks(a); rank++) {
        char before[4096];
        snprintf(before, sizeof before, "%s", rank_text(a, rank));
        assert_string_equal(rank_text(b, rank), before);
    }
}

/* Save and load `program`, which is closed; the loaded one must be equal. */
static void check_reads_back(tryst_program *program)
{
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    tryst_program *again = load_path();
    check_equal(program, again);
    tryst_program_close(program);
    tryst_program_close(again);
}

/* ---- what is written, and read back ------------------------------------------------ */

static void test_save(void **state)
{
    tryst_program *program = generate("1f1b", 2, 3);
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    assert_string_equal(read_file(),
                        "0F0,0F1,0B0,0F2,0B1,0B2\r\n1F0,1B0,1F1,1B1,1F2,1B2\r\n");
    tryst_program_close(program);
}

/* A program of one rank and stage. */
static tryst_program *program_of(const tryst_action *actions, size_t count,
                                 int microbatches)
{
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_open(1, 1, microbatches, &program), TRYST_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(tryst_program_append(program, 0, &actions[i]), TRYST_OK);
    }
    return program;
}

#define F       TRYST_ACTION_FORWARD
#define B       TRYST_ACTION_BACKWARD
#define I       TRYST_ACTION_INPUT_GRAD
#define W       TRYST_ACTION_WEIGHT_GRAD
#define R       TRYST_ACTION_RECOMPUTE
#define UPDATE  TRYST_ACTION_UPDATE
#define PREDICT TRYST_ACTION_PREDICT

static void test_new_cells(void **state)
{
    static const tryst_action actions[] = {
        {.kind = PREDICT,
         .microbatch = -1,
         .slot = 2,
         .direction = TRYST_DIRECTION_DELTA,
         .ahead = -1.5},
        {.kind = F, .slot = 2},
        ACTION(F, 0, 1, -1),
        {.kind = R, .slot = 2},
        ACTION(B, 0, 0, 0),
        ACTION(UPDATE, 0, -1, 1),
        ACTION(R, 0, 1, -1),
        ACTION(B, 0, 1, -1),
        ACTION(UPDATE, 0, -1, 2),
    };
    tryst_program *program = program_of(actions, COUNT_OF(actions), 2);
    tryst_program_rate_set(program, 10);
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    assert_string_equal(read_file(),
                        "RATE10,0PREDICTs2d1a-1.5,0F0s2,0F1v-1,0R0s2,0B0,0UPDATE,0R1v-1,"
                        "0B1v-1,0UPDATEv2\r\n");
    check_reads_back(program);
}

static void test_read_back(void **state)
{
    static const struct {
        tryst_action actions[6];
        size_t count;
        int microbatches;
    } rows[] = {
        {{ACTION(F, 0, 0, 0), ACTION(F, 0, 1, 0), ACTION(B, 0, 0, 0),
          ACTION(UPDATE, 0, -1, 1), ACTION(B, 0, 1, 1), ACTION(UPDATE, 0, -1, 2)},
         6,
         2},
        {{ACTION(F, 0, 0, 0), ACTION(I, 0, 0, 0), ACTION(W, 0, 0, 0),
          ACTION(UPDATE, 0, -1, 1)},
         4,
         1},
        {{ACTION(F, 0, 0, -1), ACTION(B, 0, 0, -2), ACTION(UPDATE, 0, -1, 1)}, 3, 1},
        {{ACTION(F, 0, 0, 0), ACTION(R, 0, 0, 0), ACTION(B, 0, 0, 0),
          ACTION(UPDATE, 0, -1, 1)},
         4,
         1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check_reads_back(
            program_of(rows[i].actions, rows[i].count, rows[i].microbatches));
    }
}

/* How far a prediction moves reads back bit for bit, whatever the host's locale. */
static void check_ahead(double ahead)
{
    const tryst_action actions[] = {
        {.kind = PREDICT, .microbatch = -1, .slot = 1, .ahead = ahead},
        {.kind = F, .slot = 1}};
    tryst_program *program = program_of(actions, COUNT_OF(actions), 1);
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    tryst_program_close(program);
    program = load_path();
    double again = tryst_program_actions(program, 0, NULL)->ahead;
    assert_memory_equal(&again, &ahead, sizeof ahead);
    tryst_program_close(program);
}

static const double reals[] = {0, 1.5, -0.1, 1.0 / 3, 7e-301, DBL_MAX, DBL_MIN, 5e-324};

static void test_reals(void **state)
{
    for (size_t i = 0; i < COUNT_OF(reals); i++) {
        check_ahead(reals[i]);
    }
}

/* Set a locale with a decimal comma, made in `folder` where the system has none. False if
 * that is impossible. */
static bool comma_set(const char *folder)
{
    char command[256];
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
        return true;
    }
    snprintf(command, sizeof command,
             "localedef -c -i de_DE -f UTF-8 %s/comma.UTF-8 2>/dev/null", folder);
    return system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
           setlocale(LC_NUMERIC, "comma.UTF-8");
}

static void test_comma(void **state)
{
    char folder[] = "/tmp/tryst-locale-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    bool comma = comma_set(folder);
    for (size_t i = 0; comma && i < COUNT_OF(reals); i++) {
        check_ahead(reals[i]);
    }
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    if (!comma) {
        print_message("no locale with a decimal comma, and localedef makes none\n");
        skip();
    }
}

/* UPDATEs are left out only if loading restores them: not if a rank or a stage has no
 * UPDATE, or has them in another order. (Found by the fuzzer.) */
static void test_odd_updates(void **state)
{
    static const char *const files[] = {
        "0F0\n1F0,1UPDATE\n", "0F0,0UPDATE\n1F0\n",    "0F0,1F0,1UPDATE,0UPDATE\n",
        "0F0,1F0,0UPDATE\n",  "0F0,0UPDATE,0UPDATE\n", "0F0,1F0,0UPDATE,1UPDATEv2\n",
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        check_reads_back(load(files[i]));
    }
}

/* ---- loops ------------------------------------------------------------------------- */

static const char looped[] = "0F0,BODY,0F1,0B0,0F2,0B1,0UPDATE,EPILOGUE,0F1,0B0,0B1,"
                             "0UPDATE\r\n"
                             "BODY,1F0,1B0,1F1,1B1,1UPDATE,EPILOGUE,1F0,1B0,1F1,1B1,"
                             "1UPDATE\r\n";

/* The micro-batches of a step are counted in the bodies: F2 is the next step's F0. */
static void test_loop(void **state)
{
    tryst_program *program = load(looped);
    assert_int_equal(tryst_program_microbatches(program), 2);
    assert_string_equal(rank_text(program, 0),
                        "0F0 BODY 0F1 0B0 0F2 0B1 0UPDATE EPILOGUE 0F1 0B0 0B1 0UPDATE");
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    assert_string_equal(read_file(), looped);
    check_reads_back(program);
}

/* Marks at the ends of rows, in empty rows, in some of the rows, and no UPDATE
 * appended. */
static void test_marks(void **state)
{
    static const char *const files[] = {
        "0F0,BODY,0F0,0B0\r\n",
        "BODY,EPILOGUE,0F0,0B0\r\n1F0,BODY,1F0,1B0\r\n",
        "BODY,0F0,0B0,EPILOGUE\r\n1F0,1B0\r\n",
        "BODY,0F0,1F0,1B0,0B0\r\nBODY,EPILOGUE\r\n",
        "RATE7,BODY,0F0,0B0,EPILOGUE,0F0,0B0,0UPDATE\r\n",
        "BODY,0F0,0B0,EPILOGUE,0F0,0B0,0UPDATE\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        tryst_program *program = load(files[i]);
        assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
        assert_string_equal(read_file(), files[i]);
        check_reads_back(program);
    }
}

/* ---- PyTorch's files --------------------------------------------------------------- */

static void test_load(void **state)
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
    check_row(" 0F0 ,\"1F0\",1B0,0B0\n", 0, "0F0 1F0 1B0 0B0 0UPDATE 1UPDATE");
}

/* An overlapping pair is loaded as its actions in order; it is saved as two cells. */
static void test_pair(void **state)
{
    tryst_program *program = load("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n");
    assert_string_equal(rank_text(program, 0), "0F0 0F1 0B0 0B1 0UPDATE");
    assert_string_equal(rank_text(program, 1), "1F0 1F1 1B0 1B1 1UPDATE");
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
    assert_string_equal(read_file(), "0F0,0F1,0B0,0B1\r\n1F0,1F1,1B0,1B1\r\n");
    tryst_program_close(program);
    /* two stages on a rank, separate input and weight gradients, blanks and quotes */
    check_row("0F0,1F0,\"( 0F1 ; 1I0 )OVERLAP_F_B\",1W0,1F1,1B1,0B0,0B1\n", 0,
              "0F0 1F0 0F1 1I0 1W0 1F1 1B1 0B0 0B1 0UPDATE 1UPDATE");
}

/* Communication, its waits and sharding are dropped; they count for nothing. */
static void test_dropped(void **state)
{
    tryst_program *program =
        load("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0,0REDUCE_GRAD,"
             "0WAIT_REDUCE_GRAD,0RESHARD\r\n"
             "1UNSHARD,1RECV_F0,1F0,(1B0;7SEND_B9)OVERLAP_F_B,1WAIT_SEND_B0,1REDUCE_GRAD,"
             "1WAIT_REDUCE_GRAD,1RESHARD\r\n");
    assert_string_equal(rank_text(program, 0), "0F0 0B0 0UPDATE");
    assert_string_equal(rank_text(program, 1), "1F0 1B0 1UPDATE");
    assert_int_equal(tryst_program_stages(program), 2);
    assert_int_equal(tryst_program_microbatches(program), 1);
    tryst_program_close(program);
}

/* A stage on one rank has no REDUCE_GRAD, and the marks stay before the same actions. */
static void test_single_reduce(void **state)
{
    check_row("0F0,0B0,0REDUCE_GRAD,0UPDATE\n", 0, "0F0 0B0 0UPDATE");
    check_row("0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD\n", 0,
              "0F0 1F0 1B0 0B0 0UPDATE 1UPDATE");
    check_row("0REDUCE_GRAD,BODY,0F0,0B0,0REDUCE_GRAD,EPILOGUE,0F0,0B0\n", 0,
              "BODY 0F0 0B0 EPILOGUE 0F0 0B0");
    /* a stage that has nothing else is none */
    tryst_program *program = load("0F0,0F1,0B0,0B1,5REDUCE_GRAD\n");
    assert_int_equal(tryst_program_stages(program), 1);
    check_reads_back(program);
}

/* The stages of a replicated program keep theirs; an unreplicated stage beside them does
 * not. */
static void test_replicated(void **state)
{
    tryst_program *program = load("0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n");
    tryst_program *twice = NULL;
    assert_int_equal(tryst_program_replicate(program, 2, &twice), TRYST_OK);
    assert_int_equal(tryst_program_save_csv(twice, path), TRYST_OK);
    assert_string_equal(read_file(), "0F0,0F1,0B0,0B1,0REDUCE_GRAD\r\n"
                                     "1F0,1B0,1F1,1B1,1REDUCE_GRAD\r\n"
                                     "0F2,0F3,0B2,0B3,0REDUCE_GRAD\r\n"
                                     "1F2,1B2,1F3,1B3,1REDUCE_GRAD\r\n");
    tryst_program *loaded = load_path();
    assert_int_equal(tryst_program_check(loaded, NULL, NULL), TRYST_OK);
    check_equal(twice, loaded);
    tryst_program_close(loaded);
    tryst_program_close(twice);
    tryst_program_close(program);
    static const char unequal[] = "0F0,0B0,0REDUCE_GRAD\r\n"
                                  "0F1,0B1,0REDUCE_GRAD\r\n"
                                  "1F0,1F1,1B0,1B1,1REDUCE_GRAD\r\n";
    check_row(unequal, 1, "0F1 0B1 0REDUCE_GRAD 0UPDATE");
    check_row(unequal, 2, "1F0 1F1 1B0 1B1 1UPDATE");
}

/* ---- refusals ---------------------------------------------------------------------- */

static void check_refused(const char *content, const char *says)
{
    tryst_program *program = NULL;
    write_file(content);
    assert_int_equal(tryst_program_load_csv(path, &program), TRYST_E_PROGRAM);
    if (!strstr(tryst_last_error(), says)) {
        fail_msg("\"%s\": expected \"%s\" in: %s", content, says, tryst_last_error());
    }
    assert_null(program);
}

/* The order that PyTorch's Schedule1F1B prints, for 1, 2 and 3 ranks; and files beside it
 * that are not that order. */
static void test_off_by_one(void **state)
{
    static const char *const printed[] = {
        "0F1,0B0,0F2,0B1,0REDUCE_GRAD\r\n",
        "0F0,0F1,0B0,0B1\r\n1F1,1B0,1F2,1B1\r\n",
        "0F0,0F1,0B0\r\n1F0,1B0\r\n2F1,2B0\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(printed); i++) {
        check_refused(printed[i], "PyTorch's Schedule1F1B prints numbers the last rank's "
                                  "forwards from 1, so micro-batch 0 is missing there");
    }
    check_refused("0F0,0F1,0B0,0B1\r\n1F1,1B0,1F2,1B1\r\n",
                  "stage 1 has the forwards 1F1 to 1F2, but the backwards 1B0 to 1B1");
    check_row("0F1,0B0,0F0,0B1\n", 0, "0F1 0B0 0F0 0B1 0UPDATE");
    check_row("0F1,0B0,0F2,0B1,0F0,0B2\n", 0, "0F1 0B0 0F2 0B1 0F0 0B2 0UPDATE");
}

static void test_refuses_files(void **state)
{
    static const struct {
        const char *content;
        const char *says;
    } rows[] = {
        {"0UPDATE\n", "no micro-batch"}, /* found by the fuzzer, as is the next row */
        {"1F0,1UPDATE\n", "needs at least 2 forwards, but has 1 actions"},
        {"0F0\n0UPDATE,0REDUCE_GRAD\n", "2 rows (ranks), but stages only to 0"},
        {"0F99999,0B0\n", "needs at least 100000 forwards, but has 2 actions"},
        {"", "no actions"},
        {"0SEND_F0,0UNSHARD\n", "no actions"},
        {"0REDUCE_GRAD\n", "no actions"},
        {"0F0,0B0\n\n", "2 rows (ranks), but stages only to 0"},
        {"0F0,BODY,0B0\n", "no micro-batch: the bodies of the loop have no forward"},
        {"BODY,0F0,0B0,0F4\n", "row 1 (rank 0): 0F4 is in the body, but a step has 2"},
        {"BODY,0F0,0B0\n1F1,BODY,1F0,1B0\n",
         "row 2 (rank 1): 1F1 is in the prologue or the epilogue, but a step has 1"},
        {"BODY,0F0,0B0,EPILOGUE,0F1\n", "0F1 is in the prologue or the epilogue"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check_refused(rows[i].content, rows[i].says);
    }
    tryst_program *program = NULL;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tryst_program_load_csv(path, &program), TRYST_E_IO);
    assert_non_null(strstr(tryst_last_error(), path));
    assert_non_null(strstr(tryst_last_error(), "No such file"));
}

static void test_refuses_cells(void **state)
{
    static const struct {
        const char *content;
        const char *says;
    } rows[] = {
        {"0F0,0REDUCE_GRAD1\n", "\"0REDUCE_GRAD1\" has something behind"},
        {"0F0,0SEND_F\n", "column 2: \"0SEND_F\" has no micro-batch number"},
        {"0F0,0SEND_F0x\n", "\"0SEND_F0x\" has something behind"},
        {"0F0\n1UNSHARD1,1F0\n",
         "row 2 (rank 1), column 1: \"1UNSHARD1\" has something behind"},
        {"0F0,SEND_F0\n", "\"SEND_F0\" does not begin with a stage number"},
        {"(0F0;1B0)\n", "\"(0F0;1B0)\" opens a parenthesis"},
        {"0F0,(0F0;1B0\n", "column 2: \"(0F0;1B0\" opens a parenthesis"},
        {"(0F0;1B0)OVERLAP_X\n", "opens a parenthesis"},
        {"()OVERLAP_F_B\n", "does not begin with a stage number"},
        {"(BODY;0F0)OVERLAP_F_B\n", "\"BODY\" does not begin with a stage number"},
        {"((0F0;0B0)OVERLAP_F_B;0F1)OVERLAP_F_B\n", "opens a parenthesis"},
        {"0F0,X\n", "column 2: \"X\" does not begin with a stage number"},
        {"0F0,,0Q0\n", "column 3: \"0Q0\" has no known action"},
        {"0F\n", "\"0F\" has no micro-batch number"},
        {"0R\n", "\"0R\" has no micro-batch number"},
        {"0F0x\n", "\"0F0x\" has something behind its last number"},
        {"0F0v\n", "\"0F0v\" has no version number"},
        {"0F0s\n", "\"0F0s\" has no slot number"},
        {"0F0s0\n", "\"0F0s0\" has no slot number, from 1 to 255,"},
        {"0F0s256\n", "\"0F0s256\" has no slot number"},
        {"0PREDICTs256d0a1\n", "is not of the form"},
        {"0F0s-1\n", "\"0F0s-1\" has no slot number"},
        {"0UPDATEs1\n", "\"0UPDATEs1\" has something behind"},
        {"9999999F0\n", "does not begin with a stage number"},
        {"0PREDICT\n", "\"0PREDICT\" is not of the form"},
        {"0PREDICTs0d0a1\n", "is not of the form"},
        {"0PREDICTs1a1\n", "is not of the form"},
        {"0PREDICTs1d0\n", "is not of the form"},
        {"0PREDICTs1d0a\n", "is not of the form"},
        {"0PREDICTs1d0anan\n", "is not of the form"},
        {"0PREDICTs1d0ainf\n", "is not of the form"},
        {"0PREDICTs1d0a0x1\n", "is not of the form"},
        {"0PREDICTs1d0a1x\n", "has something behind its last number"},
        {"0PREDICTs1d0a1e999\n", "is not of the form"},
        {"0PREDICTs1d0a1.5.2\n", "is not of the form"},
        {"0PREDICTs1d0a--1\n", "is not of the form"},
        {"0PREDICTs1d0a 1\n", "is not of the form"},
        {"BODY,BODY,0F0\n", "column 2: \"BODY\" has another place"},
        {"EPILOGUE,0F0\n", "column 1: \"EPILOGUE\" has another place"},
        {"BODY,EPILOGUE,EPILOGUE,0F0\n", "column 3: \"EPILOGUE\" has another place"},
        {"BODY,EPILOGUE,BODY,0F0\n", "column 3: \"BODY\" has another place"},
        {"BODY1,0F0\n", "\"BODY1\" has something behind"},
        {"0F0,RATE1\n", "column 2: \"RATE1\" has another place"},
        {"BODY,RATE1,0F0\n", "column 2: \"RATE1\" has another place"},
        {"RATE1,RATE2,0F0\n", "column 2: \"RATE2\" has another place"},
        {"0F0\nRATE1,1F0\n", "row 2 (rank 1), column 1: \"RATE1\" has another place"},
        {"RATE0,0F0\n", "\"RATE0\" has no number of updates, from 1"},
        {"RATE,0F0\n", "\"RATE\" has no number of updates"},
        {"RATE2147483648,0F0\n", "has no number of updates"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check_refused(rows[i].content, rows[i].says);
    }
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_path, tear_down_path)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_save),          TEST(test_new_cells),  TEST(test_read_back),
        TEST(test_reals),         TEST(test_comma),      TEST(test_odd_updates),
        TEST(test_loop),          TEST(test_marks),      TEST(test_load),
        TEST(test_pair),          TEST(test_dropped),    TEST(test_single_reduce),
        TEST(test_replicated),    TEST(test_off_by_one), TEST(test_refuses_files),
        TEST(test_refuses_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
