/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules with backwards in I and W against the formulas of their papers: order of
 * sums, bubble of a later step, peak. Costs F, I and W are those of a rank's stages
 * together. The bubble of a later step is (T(2n) - T(n)) / n less the costs, where T(n)
 * is the simulated time of n steps that follow one another: unlike one run's, it counts
 * what the drain of one step hides behind the next step's fill.
 *
 * Where no formula is known, split_bubbles.txt has what the simulator gave.
 *
 * Argument: "all" for all counts; "write" prints split_bubbles.txt again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "actions.h"

enum { RANKS_MAX = 16, STAGES_MAX = 3 * RANKS_MAX, NAME_BYTES = 32 };

/* F, I, W */
static const double costs_of[][3] = {{1, 1, 1}, {1, 1.5, 0.5}, {2, 1, 1}, {1, 1, 2}};
enum { COSTS = sizeof costs_of / sizeof *costs_of, EQUAL = 0, INPUT_HEAVY = 1 };

static bool all_counts;

struct cell {
    const char *schedule;
    int chunks, ranks, microbatches;
    int costs; /* an index of costs_of */
};

struct outcome {
    double bubble; /* of a later step */
    double first;  /* of one run */
    int peak;      /* chunks, of the rank that holds most */
};

static void failed(const struct cell *c, const char *what, double is, double expected)
{
    fail_msg("%s p=%d m=%d F,I,W=%g,%g,%g: %s %g instead of %g", c->schedule, c->ranks,
             c->microbatches, costs_of[c->costs][0], costs_of[c->costs][1],
             costs_of[c->costs][2], what, is, expected);
}

/* ---- simulation -------------------------------------------------------------------- */

static tryst_program *generate(const struct cell *c)
{
    tryst_program *program = NULL;
    if (tryst_program_generate(c->schedule, SCHEDULE(c->ranks, c->microbatches),
                               &program) != TRYST_OK) {
        fail_msg("%s p=%d m=%d: %s", c->schedule, c->ranks, c->microbatches,
                 tryst_last_error());
    }
    assert_int_equal(tryst_program_stages(program), c->chunks * c->ranks);
    return program;
}

static double makespan(const struct cell *c, const tryst_program *program, int steps)
{
    tryst_action_costs costs[STAGES_MAX] = {{0}};
    tryst_program *flat = NULL;
    tryst_sim *sim = NULL;
    for (int i = 0; i < tryst_program_stages(program); i++) {
        costs[i].forward_s = costs_of[c->costs][0] / c->chunks;
        costs[i].input_grad_s = costs_of[c->costs][1] / c->chunks;
        costs[i].weight_grad_s = costs_of[c->costs][2] / c->chunks;
        costs[i].backward_s = costs[i].input_grad_s + costs[i].weight_grad_s;
    }
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
    assert_int_equal(tryst_program_unroll(program, steps, &flat), TRYST_OK);
    assert_int_equal(tryst_program_simulate(flat, &params, &sim), TRYST_OK);
    double makespan_s = sim->makespan_s;
    tryst_sim_free(sim);
    tryst_program_close(flat);
    return makespan_s;
}

static double busy(const struct cell *c)
{
    const double *costs = costs_of[c->costs];
    return c->microbatches * (costs[0] + costs[1] + costs[2]);
}

static struct outcome simulate(const struct cell *c)
{
    int steps = c->ranks > 8 ? 4 : 8;
    tryst_program *program = generate(c);
    tryst_program_peak peaks[RANKS_MAX];
    struct outcome outcome = {.peak = 0};
    if (tryst_program_check(program, NULL, peaks) != TRYST_OK) {
        fail_msg("%s p=%d m=%d: %s", c->schedule, c->ranks, c->microbatches,
                 tryst_last_error());
    }
    for (int rank = 0; rank < c->ranks; rank++) {
        outcome.peak = peaks[rank].activations > outcome.peak ? peaks[rank].activations
                                                              : outcome.peak;
        assert_int_equal(peaks[rank].versions, 1);
    }
    outcome.bubble =
        (makespan(c, program, 2 * steps) - makespan(c, program, steps)) / steps - busy(c);
    outcome.first = makespan(c, program, 1) - busy(c);
    tryst_program_close(program);
    return outcome;
}

/* ---- formulas ---------------------------------------------------------------------- */

/* Return the bubble of zb-v; the second and the third costs are bound by rank 0. */
static double bubble_zb_v(const struct cell *c)
{
    static const double slope[COSTS] = {0, 1, 1, 0.5}, less[COSTS] = {0, 0, 0, 0.5};
    return fmax(0, slope[c->costs] * (c->ranks - 1) - less[c->costs]);
}

/* Write the bubble of a later step; false if no formula is known. */
static bool bubble_of(const struct cell *c, double *bubble_p)
{
    double forward = costs_of[c->costs][0], input = costs_of[c->costs][1];
    double filled = fmin(forward, costs_of[c->costs][2]);
    int hops = c->ranks - 1;
    if (strncmp(c->schedule, "zb-h1", 5) == 0) {
        *bubble_p = hops * (forward + input - filled) / c->chunks;
    } else if (c->microbatches < 2 * c->ranks - 1) {
        return false;
    } else if (strcmp(c->schedule, "zb-h2") == 0) {
        *bubble_p = hops * fmax(0, forward + input - 2 * filled);
    } else if (strcmp(c->schedule, "zb-v") == 0) {
        *bubble_p = bubble_zb_v(c);
    } else if (strcmp(c->schedule, "dualpipev") == 0 && c->costs != INPUT_HEAVY) {
        *bubble_p = hops * forward / 2;
    } else {
        return false;
    }
    return true;
}

static int peak_of(const struct cell *c)
{
    int p = c->ranks, rounds = c->microbatches / p;
    if (strcmp(c->schedule, "zb-h2") == 0) {
        return 2 * p - 1;
    }
    if (strcmp(c->schedule, "zb-v") == 0) {
        return 2 * p;
    }
    if (strcmp(c->schedule, "dualpipev") == 0) {
        return 2 * p + 1;
    }
    /* zb-h1: the largest group, for each chunk but one, and 1f1b's p */
    return (c->chunks - 1) * ((c->microbatches + rounds - 1) / rounds) + p;
}

static void check_formula(const struct cell *c)
{
    double bubble = 0;
    if (!bubble_of(c, &bubble)) {
        return;
    }
    struct outcome is = simulate(c);
    if (fabs(is.bubble - bubble) > 1e-9 * busy(c)) {
        failed(c, "the bubble of a later step is", is.bubble, bubble);
    }
    if (is.peak != peak_of(c)) {
        failed(c, "the peak is", is.peak, peak_of(c));
    }
    if (strcmp(c->schedule, "zb-v") == 0 && c->costs == EQUAL &&
        fabs(is.first - (c->ranks - 1) / 2.0) > 1e-9 * busy(c)) {
        failed(c, "the bubble of one run is", is.first, (c->ranks - 1) / 2.0);
    }
}

static const struct {
    const char *schedule;
    int chunks, least; /* number of micro-batches a rank, where more than 1 is needed */
} rows[] = {{"zb-h1", 1, 1}, {"zb-h1:v=2", 2, 1}, {"zb-h1:v=3", 3, 1}, {"zb-h2", 1, 1},
            {"zb-v", 2, 1},  {"dualpipev", 2, 2}, {"v-half", 2, 1},    {"v-min", 2, 1}};
enum { ROWS = sizeof rows / sizeof *rows };

static void formulas_at(int p, int m)
{
    for (int i = 0; i < ROWS; i++) {
        for (int costs = 0; costs < COSTS; costs++) {
            if (m >= rows[i].least * p) {
                check_formula(
                    &(struct cell){rows[i].schedule, rows[i].chunks, p, m, costs});
            }
        }
    }
}

static void test_formulas(void **state)
{
    int ranks_max = all_counts ? RANKS_MAX : 6;
    for (int p = 1; p <= ranks_max; p++) {
        for (int m = p; m <= 4 * p; m++) {
            if (all_counts || m == p || (m >= 2 * p - 1 && m <= 2 * p + 1) ||
                m == 4 * p) {
                formulas_at(p, m);
            }
        }
    }
}

/* ---- order ------------------------------------------------------------------------- */

/* A stage's actions of each kind take the micro-batches in rising order, W and B as one
 * kind: so all add gradients as 1f1b does. */
static void check_order(const struct cell *c)
{
    tryst_program *program = generate(c);
    for (int stage = 0; stage < tryst_program_stages(program); stage++) {
        size_t count = 0;
        const tryst_action *actions =
            tryst_program_actions(program, tryst_program_rank_of(program, stage), &count);
        int forwards = 0, sums = 0;
        for (size_t i = 0; i < count; i++) {
            if (actions[i].stage != stage) {
                continue;
            }
            if (actions[i].kind == TRYST_ACTION_FORWARD) {
                assert_int_equal(actions[i].microbatch, forwards++);
            } else if (actions[i].kind == TRYST_ACTION_BACKWARD ||
                       actions[i].kind == TRYST_ACTION_WEIGHT_GRAD) {
                assert_int_equal(actions[i].microbatch, sums++);
            }
        }
        assert_int_equal(forwards, c->microbatches);
        assert_int_equal(sums, c->microbatches);
    }
    assert_int_equal(tryst_program_check(program, NULL, NULL), TRYST_OK);
    tryst_program_close(program);
}

static void test_order(void **state)
{
    for (int p = 1; p <= 8; p++) {
        for (int m = 1; m <= 4 * p + 1; m++) {
            for (int i = 0; i < ROWS; i++) {
                if (rows[i].least == 1 || m >= rows[i].least * p) {
                    check_order(
                        &(struct cell){rows[i].schedule, rows[i].chunks, p, m, EQUAL});
                }
            }
        }
    }
}

/* ---- cells without a formula ------------------------------------------------------- */

typedef void (*cell_fn)(FILE *file, const struct cell *c);

static void each_unknown_at(FILE *file, int p, int m, cell_fn fn)
{
    for (int i = 0; i < ROWS; i++) {
        for (int costs = 0; costs < COSTS; costs++) {
            const struct cell c = {rows[i].schedule, rows[i].chunks, p, m, costs};
            double unused;
            if (m >= rows[i].least * p && !bubble_of(&c, &unused)) {
                fn(file, &c);
            }
        }
    }
}

static void each_unknown(FILE *file, cell_fn fn)
{
    static const int ranks[] = {2, 3, 4, 5, 8, 16};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        const int p = ranks[i], counts[] = {p, 2 * p - 1, 2 * p, 4 * p};
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            each_unknown_at(file, p, counts[k], fn);
        }
    }
}

static void cell_write(FILE *file, const struct cell *c)
{
    const double *costs = costs_of[c->costs];
    struct outcome is = simulate(c);
    fprintf(file, "%s %d %d %g,%g,%g %.9g %.9g %d\n", c->schedule, c->ranks,
            c->microbatches, costs[0], costs[1], costs[2], is.bubble, is.first, is.peak);
}

static void cell_compare(FILE *file, const struct cell *c)
{
    char name[NAME_BYTES];
    int p, m;
    double costs[3];
    struct outcome expected;
    assert_int_equal(fscanf(file, "%31s %d %d %lf,%lf,%lf %lf %lf %d", name, &p, &m,
                            &costs[0], &costs[1], &costs[2], &expected.bubble,
                            &expected.first, &expected.peak),
                     9);
    assert_string_equal(name, c->schedule);
    assert_true(p == c->ranks && m == c->microbatches);
    assert_memory_equal(costs, costs_of[c->costs], sizeof costs);
    if (!all_counts && p > 5) {
        return;
    }
    struct outcome is = simulate(c);
    if (fabs(is.bubble - expected.bubble) > 1e-6) {
        failed(c, "the bubble of a later step is", is.bubble, expected.bubble);
    }
    if (fabs(is.first - expected.first) > 1e-6) {
        failed(c, "the bubble of one run is", is.first, expected.first);
    }
    if (is.peak != expected.peak) {
        failed(c, "the peak is", is.peak, expected.peak);
    }
}

#define TITLE                                                           \
    "# schedule, ranks, micro-batches, F,I,W, bubble of a later step, " \
    "bubble of one run, peak in chunks; written by test_schedule_split.c\n"

static void test_unknown(void **state)
{
    char title[sizeof TITLE + 1], rest[2];
    FILE *file = fopen(SPLIT_BUBBLES, "r");
    assert_non_null(file);
    assert_non_null(fgets(title, sizeof title, file));
    assert_string_equal(title, TITLE);
    each_unknown(file, cell_compare);
    assert_int_equal(fscanf(file, "%1s", rest), EOF);
    fclose(file);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_unknown),
    };
    if (argc > 1 && strcmp(argv[1], "write") == 0) {
        fputs(TITLE, stdout);
        each_unknown(stdout, cell_write);
        return 0;
    }
    all_counts = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
