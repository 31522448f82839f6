/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules over two copies of the model in opposite directions, and over one copy folded
 * in waves: bubble and peak by their formulas, the counts for which they are refused, and
 * the REDUCE_GRADs of two copies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "actions.h"

enum { RANKS_MAX = 16, STAGES_MAX = 128 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* ---- formulas ---------------------------------------------------------------------- */

/* Seconds of a rank's whole F, I and W of a micro-batch. */
struct costs {
    double forward_s, input_s, weight_s;
};

static const struct costs costs_of[] = {{1, 1, 1}, {1, 1.5, 0.5}, {2, 1, 1}, {1, 1, 2}};
enum { COSTS_COUNT = sizeof costs_of / sizeof *costs_of };

/* Return the time beyond the work of a rank, which all ranks have alike. `parts` is the
 * number of stages that share a rank's work of a micro-batch. */
static double bubble_of(const tryst_program *program, const struct costs *c, int parts)
{
    tryst_action_costs costs[STAGES_MAX];
    tryst_sim *sim = NULL;
    double whole_s = c->forward_s + c->input_s + c->weight_s;
    for (int i = 0; i < tryst_program_stages(program); i++) {
        costs[i] = (tryst_action_costs){.forward_s = c->forward_s / parts,
                                        .backward_s = (c->input_s + c->weight_s) / parts,
                                        .input_grad_s = c->input_s / parts,
                                        .weight_grad_s = c->weight_s / parts};
    }
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
    assert_int_equal(tryst_program_simulate(program, &params, &sim), TRYST_OK);
    double bubble_s = sim->makespan_s - tryst_program_microbatches(program) * whole_s;
    tryst_sim_free(sim);
    return bubble_s;
}

static void expect_bubble(const char *name, const tryst_program *program,
                          const struct costs *c, int parts, double expected)
{
    double bubble_s = bubble_of(program, c, parts);
    if (fabs(bubble_s - expected) > 1e-9) {
        fail_msg("%s p=%d m=%d F=%g I=%g W=%g: a bubble of %g instead of %g", name,
                 tryst_program_ranks(program), tryst_program_microbatches(program),
                 c->forward_s, c->input_s, c->weight_s, bubble_s, expected);
    }
}

static void expect_peak(const char *name, const tryst_program *program, int rank,
                        int held, int expected)
{
    if (held != expected) {
        fail_msg("%s p=%d m=%d: rank %d holds %d instead of %d", name,
                 tryst_program_ranks(program), tryst_program_microbatches(program), rank,
                 held, expected);
    }
}

/* (D - 2)F where F = B; where B = 2F, (k + 1)(D - 2)F for k units; in general each unit
 * behind the first adds (D - 2)(B - F). */
static void check_chimera(int p, int units)
{
    tryst_program *program = schedule_checked("chimera", p, units * p);
    tryst_program_peak peaks[RANKS_MAX];
    for (int i = 0; i < COSTS_COUNT; i++) {
        const struct costs *c = &costs_of[i];
        double backward_s = c->input_s + c->weight_s;
        expect_bubble("chimera", program, c, 1,
                      (p - 2) * (backward_s + (units - 1) * (backward_s - c->forward_s)));
    }
    assert_int_equal(tryst_program_check(program, NULL, peaks), TRYST_OK);
    for (int rank = 0; rank < p; rank++) { /* D/2 + 1 at the ends, D in the middle */
        int near = least(rank, p - 1 - rank);
        expect_peak("chimera", program, rank, peaks[rank].activations, p / 2 + 1 + near);
    }
    tryst_program_close(program);
}

static void test_chimera(void **state)
{
    for (int p = 2; p <= RANKS_MAX; p += 2) {
        for (int units = 1; units <= 4; units++) {
            check_chimera(p, units);
        }
    }
}

/* (p/2 - 1)F where F = I = W, and with the costs here that have no I longer than F. With
 * the others no formula is known, so these are the simulator's values, for p = 2, 4, …,
 * 16. */
static void test_dualpipe(void **state)
{
    static const double longer[] = {0, 2, 4, 6.5, 9, 11.5, 14, 16.5};
    for (int p = 2; p <= RANKS_MAX; p += 2) {
        const int counts[] = {2 * p, 2 * p + 2, 3 * p, 4 * p};
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            tryst_program *program = schedule_checked("dualpipe", p, counts[k]);
            tryst_program_peak peaks[RANKS_MAX];
            for (int i = 0; i < COSTS_COUNT; i++) {
                const struct costs *c = &costs_of[i];
                expect_bubble("dualpipe", program, c, 1,
                              c->input_s > c->forward_s ? longer[p / 2 - 1]
                                                        : (p / 2 - 1) * c->forward_s);
            }
            assert_int_equal(tryst_program_check(program, NULL, peaks), TRYST_OK);
            for (int rank = 0; rank < p; rank++) {
                expect_peak("dualpipe", program, rank, peaks[rank].activations, p + 1);
            }
            tryst_program_close(program);
        }
    }
}

static void check_hanayo(int p, int m, int waves)
{
    char text[32];
    snprintf(text, sizeof text, "hanayo:waves=%d", waves);
    tryst_program *program = schedule_checked(text, p, m);
    tryst_program_peak peaks[RANKS_MAX];
    int groups = m < p ? 1 : m / p, largest = (m + groups - 1) / groups;
    for (int i = 0; i < COSTS_COUNT && m >= p; i++) {
        const struct costs *c = &costs_of[i];
        expect_bubble(text, program, c, 2 * waves,
                      (p - 1) * fmax(c->forward_s, c->input_s + c->weight_s) / waves);
    }
    assert_int_equal(tryst_program_check(program, NULL, peaks), TRYST_OK);
    for (int rank = 0; rank < p; rank++) {
        int ahead = 2 * (waves - 1) * largest + least(m, 2 * p - 1) + rank;
        expect_peak(text, program, rank, peaks[rank].activations,
                    least(ahead + 1, 2 * waves * m));
    }
    for (int stage = 0; stage < 2 * p * waves; stage++) { /* zigzag */
        int inside = stage % (2 * p);
        assert_int_equal(tryst_program_rank_of(program, stage),
                         least(inside, 2 * p - 1 - inside));
    }
    tryst_program_close(program);
}

static void test_hanayo(void **state)
{
    for (int p = 1; p <= RANKS_MAX; p++) {
        const int counts[] = {1, p - 1, p, p + 1, 2 * p - 1, 2 * p, 2 * p + 1, 4 * p};
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            for (int waves = 1; waves <= 3 && counts[k] > 0; waves++) {
                check_hanayo(p, counts[k], waves);
            }
        }
    }
}

/* One wave of four micro-batches over four ranks, written out. */
static void test_hanayo_unit(void **state)
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 0F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 0B0 0B1 0B2 0B3 ",
        "1F0 1F1 1F2 6F0 1F3 6F1 6B0 6F2 6B1 6F3 6B2 1B0 6B3 1B1 1B2 1B3 ",
        "2F0 2F1 5F0 2F2 5F1 2F3 5F2 5B0 5F3 5B1 2B0 5B2 2B1 5B3 2B2 2B3 ",
        "3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4B0 3B0 4B1 3B1 4B2 3B2 4B3 3B3 "};
    tryst_program *program = schedule_checked("hanayo", 4, 4);
    for (int rank = 0; rank < 4; rank++) {
        char row[256] = "", text[32];
        size_t count = 0;
        const tryst_action *actions = tryst_program_actions(program, rank, &count);
        for (size_t i = 0; i + 2 < count; i++) { /* two UPDATEs at the end */
            strcat(row, tryst_action_format(&actions[i], text, sizeof text));
            strcat(row, " ");
        }
        assert_string_equal(row, rows[rank]);
    }
    tryst_program_close(program);
}

/* ---- refusals, and copies of copies ------------------------------------------------ */

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        int ranks, microbatches;
        const char *says;
    } rows[] = {
        {"hanayo:waves=0", 4, 8,
         "waves=0: the value must be a whole number of 1 or more"},
        {"hanayo:v=2", 4, 8, "hanayo has no option \"v\"; it has recompute, waves"},
        {"1f1b:waves=2", 4, 8, "1f1b has no option \"waves\""},
        {"hanayo:waves=2000000000", 4, 8, "must be at most 536870911"},
        {"chimera", 5, 10, "5 is odd"},
        {"chimera", 1, 4, "1 is odd"},
        {"chimera", 4, 10, "a multiple of the 4 ranks"},
        {"chimera", 4, 2, "2 is none"},
        {"dualpipe", 3, 8, "3 is odd"},
        {"dualpipe", 4, 9, "9 is odd"},
        {"dualpipe", 4, 6, "at least 2 x 4 ranks, and are 6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program = NULL;
        assert_int_not_equal(
            tryst_program_generate(
                rows[i].text, SCHEDULE(rows[i].ranks, rows[i].microbatches), &program),
            TRYST_OK);
        assert_null(program);
        if (!strstr(tryst_last_error(), rows[i].says)) {
            fail_msg("%s: expected \"%s\" in: %s", rows[i].text, rows[i].says,
                     tryst_last_error());
        }
    }
}

/* A stage has one REDUCE_GRAD for each of its ranks, behind its last backward; copies of
 * the program have no second one. */
static void test_reductions(void **state)
{
    static const char *const names[] = {"chimera", "dualpipe"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        tryst_program *one = schedule_checked(names[k], 4, 8), *two = NULL;
        assert_int_equal(tryst_program_replicate(one, 2, &two), TRYST_OK);
        assert_int_equal(tryst_program_check(two, NULL, NULL), TRYST_OK);
        for (int stage = 0; stage < 4; stage++) {
            int32_t ranks[5] = {-1, -1, -1, -1, -1};
            assert_int_equal(tryst_program_replicas(one, stage, ranks, 5), 2);
            assert_int_equal(ranks[0], least(stage, 3 - stage));
            assert_int_equal(ranks[1], 3 - ranks[0]);
            assert_int_equal(tryst_program_replicas(two, stage, ranks, 5), 4);
        }
        for (int rank = 0; rank < 8; rank++) {
            size_t count = 0;
            int reductions = 0;
            const tryst_action *actions = tryst_program_actions(two, rank, &count);
            for (size_t i = 0; i < count; i++) {
                reductions += actions[i].kind == TRYST_ACTION_REDUCE_GRAD;
            }
            assert_int_equal(reductions, 2);
        }
        tryst_program_close(one);
        tryst_program_close(two);
    }
}

static void expect_equal_lists(const tryst_program *a, const tryst_program *b, int rank)
{
    size_t count_a = 0, count_b = 0;
    const tryst_action *of_a = tryst_program_actions(a, rank, &count_a);
    const tryst_action *of_b = tryst_program_actions(b, rank, &count_b);
    assert_int_equal(count_a, count_b);
    for (size_t i = 0; i < count_a; i++) {
        char text_a[64], text_b[64];
        assert_string_equal(tryst_action_format(&of_a[i], text_a, sizeof text_a),
                            tryst_action_format(&of_b[i], text_b, sizeof text_b));
    }
}

/* A file of two copies keeps the REDUCE_GRADs, and gets its UPDATEs back. */
static void test_file(void **state)
{
    static const char *const names[] = {"chimera", "dualpipe", "hanayo:waves=2"};
    char path[] = "/tmp/tryst-copies-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        tryst_program *program = schedule_checked(names[k], 4, 8), *loaded = NULL;
        assert_int_equal(tryst_program_save_csv(program, path), TRYST_OK);
        assert_int_equal(tryst_program_load_csv(path, &loaded), TRYST_OK);
        for (int rank = 0; rank < 4; rank++) {
            expect_equal_lists(program, loaded, rank);
        }
        tryst_program_close(program);
        tryst_program_close(loaded);
    }
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chimera), cmocka_unit_test(test_dualpipe),
        cmocka_unit_test(test_hanayo),  cmocka_unit_test(test_hanayo_unit),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
