/* SPDX-License-Identifier: Apache-2.0 */
/* tryst_program_check against the plain model (plain_model.h): programs of all kinds with
 * small faults, of which each is accepted by both or by none; and all that both accept
 * run to their end, on stages that hold what tryst_program_stage_need counts.
 *
 * TRYST_TEST_SEED replays a run, TRYST_TEST_COUNT sets the number of mutants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/replay.h>
#include <tryst/tryst.h>

#include "handmade.h"
#include "mutate_program.h"
#include "plain_model.h"
#include "quadratic_stage.h"

enum { TEXT_BYTES = 1 << 16, BASES_MAX = 256, STAGES_MAX = 16, LOOP_STEPS = 3 };

static char text[TEXT_BYTES];

/* ---- base programs ----------------------------------------------------------------- */

struct base {
    char name[64];
    tryst_program *program;
};

static struct base bases[BASES_MAX];
static size_t bases_count;

static void base_add(tryst_program *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void base_add(tryst_program *program, const char *format, ...)
{
    va_list args;
    assert_true(bases_count < BASES_MAX);
    va_start(args, format);
    (void)vsnprintf(bases[bases_count].name, sizeof bases->name, format, args);
    va_end(args);
    bases[bases_count++].program = program;
}

/* Add one generated program, where its counts suit the schedule. */
static void add_one(const tryst_schedule *schedule, const tryst_schedule_params *params)
{
    tryst_program *program = NULL;
    if (tryst_program_generate(schedule->name, params, &program) == TRYST_OK) {
        base_add(program, "%s p=%d v=%d recompute=%d updates=%d", schedule->name,
                 params->ranks_count, params->chunks_count, params->recompute,
                 params->updates_count);
    }
}

/* Every schedule that the library generates; the asynchronous ones as loops, and as flat
 * programs of two UPDATEs. */
static void add_generated(void)
{
    for (int i = 0; tryst_program_schedule(i); i++) {
        const tryst_schedule *schedule = tryst_program_schedule(i);
        size_t before = bases_count;
        for (int variant = 0; variant < 16; variant++) {
            const tryst_schedule_params params = {
                .struct_size = sizeof params,
                .ranks_count = variant % 2 ? 3 : 2,
                .microbatches_count = 4,
                .chunks_count = variant / 2 % 2 ? 2 : 0,
                .updates_count = variant / 4 % 2 ? 2 : 0,
                .recompute =
                    variant / 8 ? TRYST_RECOMPUTE_ALWAYS : TRYST_RECOMPUTE_NEVER};
            if (schedule->asynchronous || params.updates_count == 0) {
                add_one(schedule, &params);
            }
        }
        assert_true(bases_count > before);
    }
}

static void add_pipelines(void)
{
    static const struct {
        const char *rule;
        int every, inflight;
    } rows[] = {{"pipedream", 1, 0},       {"pipedream", 2, 0},
                {"pipedream-vsync", 1, 3}, {"pipedream-vsync", 2, 2},
                {"pipedream-2bw", 4, 0},   {"pipemare", 2, 0},
                {"xpipe", 2, 0},           {"spectrain", 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int variant = 0; variant < 4; variant++) {
            const struct handmade params = {.rule = recurrence_rule_find(rows[i].rule),
                                            .pipe = {.stages_count = 3,
                                                     .every = rows[i].every,
                                                     .inflight = rows[i].inflight},
                                            .microbatches_count = 4,
                                            .is_loop = variant / 2,
                                            .is_split = i % 2,
                                            .recomputes = variant % 2};
            base_add(handmade_pipeline(&params), "%s u=%d%s%s", rows[i].rule,
                     rows[i].every, params.is_loop ? " loop" : "",
                     params.recomputes ? " R" : "");
        }
    }
}

static const struct {
    int ranks, stages, microbatches;
    const char *text;
} good[] = {
    {1, 1, 2, "0F0 0I0 0F1 0I1 0W0 0W1 0UPDATE"},
    {2, 4, 1, "0F0 3F0 3B0 0B0 0UPDATE 3UPDATE | 1F0 2F0 2B0 1B0 1UPDATE 2UPDATE"},
    {1, 1, 1, "0F0v-1 0B0v-1 0UPDATE"},
    /* three weights for three reads */
    {1, 1, 2, "0F0 0B0 0UPDATE 0PREDICT:1 0F1 0R1s1 0I1s1 0W1s1 0UPDATEv2"},
    {2, 1, 2,
     "0F0 0B0 0REDUCE_GRAD 0UPDATE | 0PREDICT:2 0F1s2 0I1 0W1 0REDUCE_GRAD 0UPDATE"},
    {3, 2, 4,
     "0F0 0F1 0B0 0B1 0REDUCE_GRAD 0UPDATE | 0F2 0F3 0B2 0B3 0REDUCE_GRAD 0UPDATE | "
     "1F0 1B0 1F2 1B2 1F1 1B1 1F3 1B3 1UPDATE"},
};

static void add_texts(void)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        base_add(handmade_parse(good[i].ranks, good[i].stages, good[i].microbatches,
                                good[i].text),
                 "text %zu", i);
    }
}

static int bases_open(void **state)
{
    add_texts();
    add_pipelines();
    add_generated();
    return 0;
}

static int bases_close(void **state)
{
    for (size_t i = 0; i < bases_count; i++) {
        tryst_program_close(bases[i].program);
    }
    return 0;
}

/* ---- the model by itself ----------------------------------------------------------- */

/* One row for each sentence of the header. */
static const struct {
    int ranks, stages, microbatches;
    const char *text;
    const char *says;
} bad[] = {
    {1, 1, 1, "0F0 0F0 0B0 0UPDATE", "a second F"},
    {1, 1, 1, "0F0 0B0 0B0 0UPDATE", "a second B or I"},
    {1, 1, 1, "0F0 0B0 0W0 0UPDATE", "a second B or W"},
    {1, 1, 1, "0F0 0I0 0UPDATE", "no gradient"},
    {1, 1, 2, "0F0 0B0 0UPDATE", "not complete"},
    {2, 1, 2, "0F0 0F1 0B1 0REDUCE_GRAD 0UPDATE | 0B0 0REDUCE_GRAD 0UPDATE",
     "its F is on rank 0"},
    {1, 1, 1, "0B0 0F0 0UPDATE", "waits forever"},
    {1, 1, 1, "0F0 0W0 0I0 0UPDATE", "waits forever"},
    {2, 2, 1, "0F0 0B0 0UPDATE | 1B0 1F0 1UPDATE", "waits forever"},
    {1, 1, 1, "0F0 0R0 0R0 0B0 0UPDATE", "behind another R"},
    {1, 1, 1, "0F0 0B0 0R0 0UPDATE", "behind B or I"},
    {1, 1, 1, "0R0 0F0 0B0 0UPDATE", "waits forever"},
    {1, 1, 1, "0F0 0R0v-1 0B0 0UPDATE", "other weights than its R"},
    {1, 1, 1, "0PREDICT:1 0F0 0R0s1 0PREDICT:1 0B0s1 0UPDATE",
     "other weights than its R"},
    {1, 1, 1, "0F0 0I0 0W0v-1 0UPDATE", "other weights than its I"},
    {1, 1, 1, "0F0v1 0B0 0UPDATE", "the newest version is 0"},
    {1, 1, 1, "0F0s1 0B0 0UPDATE", "no PREDICT of slot 1"},
    {1, 1, 1, "0PREDICT:2 0F0s1 0B0 0UPDATE", "no PREDICT of slot 1"},
    {1, 2, 1, "1PREDICT:1 0F0s1 1F0 1B0 0B0 0UPDATE 1UPDATE", "no PREDICT of slot 1"},
    {1, 1, 1, "0F0 0B0", "gradients without UPDATE"},
    {1, 1, 1, "0F0 0B0 0UPDATEv2", "makes version 1"},
    {1, 1, 1, "0F0 0B0 0UPDATE 0UPDATEv2", "no gradient"},
    {1, 1, 1, "0F0 0REDUCE_GRAD 0B0 0UPDATE", "no gradient"},
    {1, 1, 1, "0F0 0B0 0REDUCE_GRAD 0REDUCE_GRAD 0UPDATE", "second REDUCE_GRAD"},
    {1, 1, 2, "0F0 0F1 0B0 0REDUCE_GRAD 0B1 0UPDATE", "between REDUCE_GRAD and UPDATE"},
    {2, 1, 2, "0F0 0B0 0REDUCE_GRAD 0UPDATE | 0F1 0B1 0UPDATE", "no REDUCE_GRAD before"},
    {2, 1, 3,
     "0F0 0B0 0REDUCE_GRAD 0UPDATE | "
     "0F1 0B1 0REDUCE_GRAD 0UPDATE 0F2 0B2 0REDUCE_GRAD 0UPDATEv2",
     "waits forever"},
    /* loops */
    {2, 2, 1, "[ 0F0 0B0 0UPDATE ] 0F0 0B0 0UPDATE | 1F0 1B0 1UPDATE", "no marks"},
    {3, 3, 1,
     "[ 0F0 0B0 0UPDATE ] 0F0 0B0 0UPDATE | [ 1F0 1B0 1UPDATE ] 1F0 1B0 1UPDATE | "
     "[ 2F0 2B0 2UPDATE ] 2F0 2B0 2UPDATE",
     "a loop of 1 micro-batches"},
    {1, 1, 1, "[ 0F0 0B0 0UPDATE ]", "not complete"},
    {1, 1, 1, "[ 0F0 0B0 ] 0F0 0B0 0UPDATE", "grow from body to body"},
    {1, 1, 1, "0PREDICT:1 [ 0F0s1 0B0 0UPDATE ] 0F0s1 0B0 0UPDATE", "fills no slot"},
    {1, 1, 2, "0F0 [ 0F1 0B0 0B1 0UPDATE ] 0F1 0B0 0B1 0UPDATE", "waits forever"},
    {1, 1, 2, "0F0 0B0 [ 0UPDATE 0F1 0B1 0F2 0B2 ] 0UPDATE 0F1 0B1 0UPDATEv2",
     "the last stage reaches ahead"},
};

static void test_plain_model(void **state)
{
    char why[256];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        tryst_program *program = handmade_parse(good[i].ranks, good[i].stages,
                                                good[i].microbatches, good[i].text);
        if (!plain_model_accepts(program, why, sizeof why)) {
            fail_msg("%s: %s", good[i].text, why);
        }
        tryst_program_close(program);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tryst_program *program =
            handmade_parse(bad[i].ranks, bad[i].stages, bad[i].microbatches, bad[i].text);
        if (plain_model_accepts(program, why, sizeof why)) {
            fail_msg("%s: accepted", bad[i].text);
        }
        if (!strstr(why, bad[i].says)) {
            fail_msg("%s: expected \"%s\" in \"%s\"", bad[i].text, bad[i].says, why);
        }
        assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_E_PROGRAM);
        tryst_program_close(program);
    }
}

/* An action that waits for a later body of another rank: runs of every length end, but
 * the text refuses it. */
static void test_later_body(void **state)
{
    char why[256];
    tryst_program *program =
        handmade_parse(2, 2, 2,
                       "0F0 [ 0F1 0B0 0B1 0UPDATE 0F2v1 ] 0F1 0B0 0B1 0UPDATE | "
                       "[ 1F0 1B0 1F1 1B1 1UPDATE ] 1F0 1B0 1F1 1B1 1UPDATE");
    assert_true(plain_model_accepts(program, why, sizeof why));
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    tryst_program_close(program);

    program = handmade_parse(2, 2, 2,
                             "0F0 0F1 0B0 [ 0B1 0UPDATE 0F2 0F3 0B2 ] 0B1 0UPDATE | "
                             "[ 1F0 1B0 1F1 1B1 1UPDATE ] 1F0 1B0 1F1 1B1 1UPDATE");
    assert_false(plain_model_accepts(program, why, sizeof why));
    assert_non_null(strstr(why, "needs what step 2 makes, in step 1"));
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_E_PROGRAM);
    tryst_program_close(program);
}

/* ---- lists, action for action ------------------------------------------------------ */

static void assert_equal_programs(const tryst_program *a, const tryst_program *b,
                                  const char *name)
{
    static char other[TEXT_BYTES];
    handmade_format(a, text, sizeof text);
    handmade_format(b, other, sizeof other);
    if (strcmp(text, other) != 0) {
        fail_msg("%s:\n%s\n%s", name, text, other);
    }
}

static void compare_generated(const char *rule, int every, int ranks, int variant)
{
    enum { MICROBATCHES = 6 };
    bool is_vsync = strcmp(rule, "pipedream-vsync") == 0;
    const struct handmade hand = {.rule = recurrence_rule_find(rule),
                                  .pipe = {.stages_count = ranks,
                                           .every = every ? every : MICROBATCHES,
                                           .inflight = is_vsync ? (ranks + 1) / 2 : 0},
                                  .microbatches_count = MICROBATCHES,
                                  .is_loop = variant / 2,
                                  .recomputes = variant % 2};
    const tryst_schedule_params params = {
        .struct_size = sizeof params,
        .ranks_count = ranks,
        .microbatches_count = MICROBATCHES,
        .every = strcmp(rule, "spectrain") == 0 ? 0 : every,
        .inflight = hand.pipe.inflight,
        .updates_count = hand.is_loop ? 0 : MICROBATCHES / hand.pipe.every,
        .recompute = hand.recomputes ? TRYST_RECOMPUTE_ALWAYS : TRYST_RECOMPUTE_NEVER};
    tryst_program *own = handmade_pipeline(&hand), *program;
    if (tryst_program_generate(rule, &params, &program) != TRYST_OK) {
        fail_msg("%s, %d ranks: %s", rule, ranks, tryst_last_error());
    }
    assert_equal_programs(own, program, rule);
    tryst_program_close(own);
    tryst_program_close(program);
}

/* A loop of a rule, written out, is the flat pipeline of the same rule, and the library
 * writes it out in the same way. */
static void test_unrolled(void **state)
{
    for (size_t i = 0; i < bases_count; i++) {
        size_t body, epilogue;
        if (!tryst_program_loop(bases[i].program, 0, &body, &epilogue)) {
            continue;
        }
        for (int steps = 1; steps <= 4; steps++) {
            tryst_program *own = plain_model_unroll(bases[i].program, steps), *flat;
            assert_non_null(own);
            assert_int_equal(tryst_program_unroll(bases[i].program, steps, &flat),
                             TRYST_OK);
            assert_equal_programs(own, flat, bases[i].name);
            tryst_program_close(own);
            tryst_program_close(flat);
        }
    }
}

/* The library's asynchronous schedules are the pipelines of the rules, as flat programs
 * and as loops. */
static void test_generated(void **state)
{
    static const struct {
        const char *rule;
        int every; /* 0: all micro-batches of a step */
    } kinds[] = {{"pipedream", 1},       {"pipedream", 3},     {"pipedream-vsync", 1},
                 {"pipedream-vsync", 2}, {"pipedream-2bw", 0}, {"pipemare", 2},
                 {"xpipe", 3},           {"spectrain", 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (int ranks = 1; ranks <= 5; ranks++) {
            for (int variant = 0; variant < 4; variant++) {
                compare_generated(kinds[i].rule, kinds[i].every, ranks, variant);
            }
        }
    }
}

static void test_loop_is_flat(void **state)
{
    static const char *const names[] = {"pipedream", "pipedream-vsync", "pipedream-2bw",
                                        "pipemare",  "xpipe",           "spectrain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int steps = 1; steps <= 4; steps++) {
            struct handmade params = {
                .rule = recurrence_rule_find(names[i]),
                .pipe = {.stages_count = 4, .every = 2, .inflight = 3},
                .microbatches_count = 4,
                .is_loop = true};
            params.pipe.every = strcmp(names[i], "pipedream-2bw") == 0 ? 4 : 2;
            tryst_program *loop = handmade_pipeline(&params);
            tryst_program *unrolled = plain_model_unroll(loop, steps);
            params.is_loop = false;
            params.microbatches_count = 4 * steps;
            tryst_program *flat = handmade_pipeline(&params);
            assert_equal_programs(unrolled, flat, names[i]);
            tryst_program_close(loop);
            tryst_program_close(unrolled);
            tryst_program_close(flat);
        }
    }
}

/* ---- running ----------------------------------------------------------------------- */

static void run_simulator(const tryst_program *flat)
{
    tryst_action_costs costs[STAGES_MAX];
    for (int s = 0; s < STAGES_MAX; s++) {
        costs[s] = (tryst_action_costs){1, 2, 1, 1, 0.5, 0.5};
    }
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
    tryst_sim *sim = NULL;
    if (tryst_program_simulate(flat, &params, &sim) != TRYST_OK) {
        fail_msg("the simulator stops: %s\n%s", tryst_last_error(),
                 handmade_format(flat, text, sizeof text));
    }
    tryst_sim_free(sim);
}

static bool is_replicated(const tryst_program *program)
{
    bool replicated = false;
    for (int s = 0; s < tryst_program_stages(program); s++) {
        replicated |= tryst_program_replicas(program, s, NULL, 0) > 1;
    }
    return replicated;
}

/* Replay a program on stages that hold what tryst_program_stage_need counts, less `fewer`
 * versions on each stage with more than `fewer`. */
static tryst_status run_replay(const tryst_program *program, int steps, int fewer)
{
    tryst_stage *stages[STAGES_MAX];
    int stages_count = tryst_program_stages(program);
    double losses[LOOP_STEPS];
    for (int s = 0; s < stages_count; s++) {
        tryst_stage_need need = {.struct_size = sizeof need};
        assert_int_equal(tryst_program_stage_need(program, s, &need), TRYST_OK);
        const struct quadratic_params params = {
            .stage = s,
            .stages_count = stages_count,
            .curvature = 1,
            .lr = 0.1,
            .weight = 1,
            .versions_count =
                need.versions_count > fewer ? need.versions_count - fewer : 1,
            .slots_count = need.slots_count,
            .delta_decay = need.delta ? 0.5 : 0};
        stages[s] = quadratic_stage_open(&params);
    }
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = program,
                                        .stages = stages,
                                        .steps_count = (uint64_t)steps,
                                        .losses = losses};
    tryst_status status = tryst_replay(&params);
    for (int s = 0; s < stages_count; s++) {
        tryst_stage_close(stages[s]);
    }
    return status;
}

/* Compare what the checker and the plain model count of the ranks' memory. */
static void compare_peaks(const tryst_program *program)
{
    tryst_program_peak peaks[STAGES_MAX];
    assert_int_equal(tryst_program_check(program, NULL, peaks), TRYST_OK);
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        const tryst_program_peak own = plain_model_peak(program, rank);
        if (own.activations != peaks[rank].activations ||
            own.versions != peaks[rank].versions) {
            fail_msg("rank %d: %d activations and %d versions, but the checker counts %d "
                     "and %d\n%s",
                     rank, own.activations, own.versions, peaks[rank].activations,
                     peaks[rank].versions, handmade_format(program, text, sizeof text));
        }
    }
}

/* Run a program that both accept to its end: a loop as it is, and its three steps written
 * out. */
static void run_accepted(const tryst_program *program)
{
    size_t body, epilogue;
    bool loops = tryst_program_loop(program, 0, &body, &epilogue);
    tryst_program *flat = plain_model_unroll(program, loops ? LOOP_STEPS : 1);
    compare_peaks(program);
    run_simulator(flat);
    if (!is_replicated(program)) {
        if (run_replay(flat, 1, 0) != TRYST_OK ||
            run_replay(program, LOOP_STEPS, 0) != TRYST_OK) {
            fail_msg("the replay stops: %s\n%s", tryst_last_error(),
                     handmade_format(program, text, sizeof text));
        }
    }
    tryst_program_close(flat);
}

static void test_bases(void **state)
{
    char why[256];
    for (size_t i = 0; i < bases_count; i++) {
        const tryst_program *program = bases[i].program;
        if (!plain_model_accepts(program, why, sizeof why)) {
            fail_msg("%s: %s\n%s", bases[i].name, why,
                     handmade_format(program, text, sizeof text));
        }
        if (tryst_program_check(program, NULL, NULL) != TRYST_OK) {
            fail_msg("%s: %s", bases[i].name, tryst_last_error());
        }
        run_accepted(program);
    }
}

/* With one version less, a stage cannot run. */
static void test_versions_needed(void **state)
{
    int refused = 0;
    for (size_t i = 0; i < bases_count; i++) {
        const tryst_program *program = bases[i].program;
        int most = 0;
        for (int s = 0; s < tryst_program_stages(program); s++) {
            tryst_stage_need need = {.struct_size = sizeof need};
            assert_int_equal(tryst_program_stage_need(program, s, &need), TRYST_OK);
            most = need.versions_count > most ? need.versions_count : most;
        }
        if (most > 1 && !is_replicated(program)) {
            if (run_replay(program, LOOP_STEPS, 1) == TRYST_OK) {
                fail_msg("%s runs with a version less than %d", bases[i].name, most);
            }
            refused++;
        }
    }
    assert_true(refused > 0);
}

/* ---- mutants ----------------------------------------------------------------------- */

static uint64_t number_of(const char *name, uint64_t preset)
{
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 10) : preset;
}

struct tally {
    uint64_t mutants, accepted, disagreements;
};

static void try_mutant(const struct base *base, uint64_t seed, struct tally *tally)
{
    enum { SHOWN = 20 };
    char why[256];
    tryst_program *mutant = mutate_program(base->program, seed, seed % 3 == 0 ? 2 : 1);
    if (!mutant) {
        return;
    }
    bool accepts = tryst_program_check(mutant, NULL, NULL) == TRYST_OK;
    tally->mutants++;
    if (plain_model_accepts(mutant, why, sizeof why) != accepts) {
        const char *sentence = accepts ? why : tryst_last_error();
        if (tally->disagreements++ < SHOWN) {
            print_message("%s, seed %llu: only the %s accepts, but: %.*s\n  %s\n",
                          base->name, (unsigned long long)seed,
                          accepts ? "checker" : "plain model",
                          (int)strcspn(sentence, "\n"), sentence,
                          handmade_format(mutant, text, sizeof text));
        }
    } else if (accepts) {
        tally->accepted++;
        run_accepted(mutant);
    }
    tryst_program_close(mutant);
}

static void test_mutants(void **state)
{
    uint64_t seed = number_of("TRYST_TEST_SEED", 1);
    uint64_t count = number_of("TRYST_TEST_COUNT", 10000);
    struct tally tally = {0};
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; tally.mutants < count; i++) {
        try_mutant(&bases[i % bases_count], seed * 1000003 + i, &tally);
    }
    print_message("%llu mutants of %zu programs, %llu accepted\n",
                  (unsigned long long)tally.mutants, bases_count,
                  (unsigned long long)tally.accepted);
    assert_int_equal(tally.disagreements, 0);
    /* Both outcomes are tried often enough. */
    assert_true(tally.accepted * 20 > tally.mutants);
    assert_true(tally.accepted * 2 < tally.mutants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_model),     cmocka_unit_test(test_later_body),
        cmocka_unit_test(test_bases),           cmocka_unit_test(test_unrolled),
        cmocka_unit_test(test_loop_is_flat),    cmocka_unit_test(test_generated),
        cmocka_unit_test(test_versions_needed), cmocka_unit_test(test_mutants),
    };
    return cmocka_run_group_tests(tests, bases_open, bases_close);
}
