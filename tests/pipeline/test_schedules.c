/* SPDX-License-Identifier: Apache-2.0 */
/* The generated schedules against the formulas of their papers: bubble, peak and order of
 * sums of the synchronous ones; versions, delays and copies of the asynchronous ones,
 * flat and as loops. No formula here reads a list that a generator shares with
 * another. */
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

enum { RANKS_MAX = 16, CHUNKS_MAX = 3 };

struct shape {
    const char *name;
    int ranks, chunks, microbatches;
    int group; /* 0: the default */
    double forward_s, backward_s;
};

static const double costs_of[][2] = {{1, 2}, {1, 1}, {3, 2}};

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Round towards minus infinity. */
static int floor_of(int n, int u)
{
    return (int)floor((double)n / u);
}

static int version_at(int n, int u)
{
    int version = floor_of(n, u);
    return version > 0 ? version : 0;
}

static tryst_program *generate(const char *schedule, const tryst_schedule_params *params)
{
    tryst_program *program = NULL;
    if (tryst_program_generate(schedule, params, &program) != TRYST_OK) {
        fail_msg("%s, %d ranks, %d micro-batches: %s", schedule, params->ranks_count,
                 params->microbatches_count, tryst_last_error());
    }
    return program;
}

static tryst_sim *simulate(const tryst_program *program, double forward_s,
                           double backward_s)
{
    tryst_action_costs costs[RANKS_MAX * CHUNKS_MAX] = {{0}};
    tryst_sim *sim = NULL;
    for (int i = 0; i < tryst_program_stages(program); i++) {
        costs[i].forward_s = forward_s;
        costs[i].backward_s = backward_s;
    }
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
    assert_int_equal(tryst_program_simulate(program, &params, &sim), TRYST_OK);
    return sim;
}

/* ---- synchronous: bubble, peak, order ---------------------------------------------- */

/* The idle time of a rank in units of a chunk's F + B. */
static double bubble_of(const struct shape *s)
{
    int p = s->ranks, v = s->chunks, m = s->microbatches;
    if (strcmp(s->name, "naive") == 0) {
        return (double)m * (p - 1);
    }
    bool chunked = strcmp(s->name, "interleaved") == 0 || strcmp(s->name, "bfs") == 0;
    return chunked && m < p ? p * v - 1 - (v - 1) * m : p - 1;
}

static int peak_of(const struct shape *s, int rank)
{
    int p = s->ranks, v = s->chunks, m = s->microbatches;
    int group = s->group > 0 ? s->group : p;
    if (strcmp(s->name, "naive") == 0) {
        return 1;
    }
    if (strcmp(s->name, "1f1b") == 0) {
        return least(p - rank, m);
    }
    if (strcmp(s->name, "dapple-b") == 0) {
        return least(least(2 * (p - rank) - 1, 2 * p - 1 - rank), m);
    }
    if (strcmp(s->name, "interleaved") == 0) {
        return least(2 * (p - rank - 1) + (v - 1) * (m < p ? m : group) + 1, m * v);
    }
    return m * v; /* gpipe, torchgpipe, bfs */
}

/* Gradients are added from micro-batch 0 on, but for two schedules, at each stage. */
static void check_order(const tryst_program *program, const char *name)
{
    bool falls = strcmp(name, "torchgpipe") == 0 || strcmp(name, "bfs") == 0;
    int m = tryst_program_microbatches(program);
    for (int stage = 0; stage < tryst_program_stages(program); stage++) {
        size_t count = 0;
        const tryst_action *actions =
            tryst_program_actions(program, tryst_program_rank_of(program, stage), &count);
        int next = 0;
        for (size_t i = 0; i < count; i++) {
            if (actions[i].stage == stage && actions[i].kind == TRYST_ACTION_BACKWARD) {
                assert_int_equal(actions[i].microbatch, falls ? m - 1 - next : next);
                next++;
            }
        }
        assert_int_equal(next, m);
    }
}

static void check_shape(const struct shape *s)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = s->ranks,
                                          .microbatches_count = s->microbatches,
                                          .chunks_count = s->chunks > 1 ? s->chunks : 0,
                                          .group = s->group};
    char text[64];
    bool chunked = strcmp(s->name, "interleaved") == 0 || strcmp(s->name, "bfs") == 0;
    snprintf(text, sizeof text, chunked ? "%s:v=%d" : "%s", s->name, s->chunks);
    tryst_program *program = generate(text, &params);
    tryst_program_peak peaks[RANKS_MAX];
    if (tryst_program_check(program, NULL, peaks) != TRYST_OK) {
        fail_msg("%s p=%d m=%d: %s", text, s->ranks, s->microbatches, tryst_last_error());
    }
    check_order(program, s->name);
    tryst_sim *sim = simulate(program, s->forward_s, s->backward_s);
    double pair_s = s->forward_s + s->backward_s;
    double expected = (s->microbatches * s->chunks + bubble_of(s)) * pair_s;
    if (fabs(sim->makespan_s - expected) > 1e-9 * expected) {
        fail_msg("%s p=%d m=%d group=%d F=%g B=%g: %g s instead of %g", text, s->ranks,
                 s->microbatches, s->group, s->forward_s, s->backward_s, sim->makespan_s,
                 expected);
    }
    for (int rank = 0; rank < s->ranks; rank++) {
        if (peaks[rank].activations != peak_of(s, rank)) {
            fail_msg("%s p=%d m=%d group=%d: rank %d holds %d instead of %d", text,
                     s->ranks, s->microbatches, s->group, rank, peaks[rank].activations,
                     peak_of(s, rank));
        }
        assert_int_equal(peaks[rank].versions, 1);
    }
    tryst_sim_free(sim);
    tryst_program_close(program);
}

static void each_cost(struct shape s)
{
    for (size_t i = 0; i < sizeof costs_of / sizeof *costs_of; i++) {
        s.forward_s = costs_of[i][0];
        s.backward_s = costs_of[i][1];
        check_shape(&s);
    }
}

static void test_one_chunk(void **state)
{
    static const char *const names[] = {"naive", "gpipe", "torchgpipe", "1f1b",
                                        "dapple-b"};
    for (int p = 1; p <= RANKS_MAX; p++) {
        const int counts[] = {1, p - 1, p, 2 * p + 1};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            for (size_t k = 0; k < sizeof names / sizeof *names && counts[i] > 0; k++) {
                each_cost((struct shape){names[k], p, 1, counts[i], 0, 0, 0});
            }
        }
    }
}

static void test_chunks(void **state)
{
    for (int p = 1; p <= RANKS_MAX; p++) {
        const int counts[] = {1, p - 1, p, 2 * p, 2 * p + 1};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            for (int v = 1; v <= CHUNKS_MAX && counts[i] > 0; v++) {
                int m = counts[i];
                each_cost((struct shape){"bfs", p, v, m, 0, 0, 0});
                if (m < p) {
                    each_cost((struct shape){"interleaved", p, v, m, 0, 0, 0});
                }
                for (int group = p; group <= m; group++) {
                    if (m % group == 0 || m % group >= p) {
                        each_cost((struct shape){"interleaved", p, v, m, group, 0, 0});
                    }
                }
            }
        }
    }
}

/* The paper's cap lets neighbouring ranks wait for each other; ours does not. */
static void test_dapple_cap(void **state)
{
    for (int p = 1; p <= RANKS_MAX; p++) {
        for (int cap = p; cap < 2 * p + 2; cap++) {
            char text[32];
            snprintf(text, sizeof text, "dapple-b:cap=%d", cap);
            tryst_program *program = generate(text, SCHEDULE(p, 4 * p));
            tryst_program_peak peaks[RANKS_MAX];
            assert_int_equal(tryst_program_check(program, NULL, peaks), TRYST_OK);
            tryst_sim *sim = simulate(program, 1, 2);
            assert_true(fabs(sim->makespan_s - 3.0 * (4 * p + p - 1)) < 1e-9);
            for (int rank = 0; rank < p; rank++) {
                assert_int_equal(peaks[rank].activations,
                                 least(least(2 * (p - rank) - 1, cap - rank), 4 * p));
            }
            tryst_sim_free(sim);
            tryst_program_close(program);
        }
    }
}

/* ---- asynchronous: versions, delays, copies ---------------------------------------- */

struct stream {
    const char *name;
    int ranks;
    int microbatches; /* of a step */
    int every;
    int inflight; /* 0: not an option of this schedule */
};

/* The version that F or B of micro-batch n reads by the rule; -1: predicted weights. */
static int rule_of(const struct stream *s, int stage, int n, bool backward)
{
    int behind = s->ranks - 1 - stage;
    if (strcmp(s->name, "pipedream") == 0) {
        return version_at(n - behind, s->every);
    }
    if (strcmp(s->name, "pipedream-vsync") == 0) {
        return version_at(n - s->inflight + 1, s->every);
    }
    if (strcmp(s->name, "pipedream-2bw") == 0) {
        int version = n / s->every - 1;
        return version > 0 ? version : 0;
    }
    if (strcmp(s->name, "pipemare") == 0 && (!backward || behind == 0)) {
        return backward ? n / s->every : version_at(n - behind, s->every);
    }
    return -1;
}

static int copies_of(const struct stream *s, int stage)
{
    int behind = s->ranks - 1 - stage;
    if (strcmp(s->name, "pipedream") == 0) {
        return (behind + s->every - 1) / s->every + 1;
    }
    if (strcmp(s->name, "pipedream-vsync") == 0) {
        return (s->inflight - 1 + s->every - 1) / s->every + 1;
    }
    return strcmp(s->name, "pipedream-2bw") == 0 ? 2 : 1;
}

static int slots_of(const struct stream *s, int stage)
{
    if (strcmp(s->name, "pipemare") == 0) {
        return stage + 1 < s->ranks;
    }
    return strcmp(s->name, "xpipe") == 0 || strcmp(s->name, "spectrain") == 0 ? 2 : 0;
}

static void check_rules(const struct stream *s, const tryst_program *flat,
                        const char *text)
{
    for (int rank = 0; rank < s->ranks; rank++) {
        size_t count = 0;
        const tryst_action *actions = tryst_program_actions(flat, rank, &count);
        tryst_program_read *reads = calloc(count, sizeof *reads);
        assert_int_equal(tryst_program_reads(flat, rank, reads), TRYST_OK);
        for (size_t i = 0; i < count; i++) {
            bool backward = actions[i].kind == TRYST_ACTION_BACKWARD;
            if (!backward && actions[i].kind != TRYST_ACTION_FORWARD) {
                continue;
            }
            int n = actions[i].microbatch;
            int rule = rule_of(s, rank, n, backward);
            if (rule < 0 ? actions[i].slot == 0 : reads[i].version != rule) {
                fail_msg("%s p=%d u=%d: stage %d, micro-batch %d: %s reads version %d "
                         "(slot %d), by the rule %d",
                         text, s->ranks, s->every, rank, n, backward ? "B" : "F",
                         reads[i].version, actions[i].slot, rule);
            }
            /* the gradient of n changes the version ⌊n / u⌋ */
            assert_int_equal(reads[i].delay, n / s->every - reads[i].version);
        }
        free(reads);
    }
}

static bool equal_lists(const tryst_program *a, const tryst_program *b, int rank)
{
    size_t count_a = 0, count_b = 0;
    const tryst_action *of_a = tryst_program_actions(a, rank, &count_a);
    const tryst_action *of_b = tryst_program_actions(b, rank, &count_b);
    if (count_a != count_b) {
        return false;
    }
    for (size_t i = 0; i < count_a; i++) {
        char text_a[64], text_b[64];
        tryst_action_format(&of_a[i], text_a, sizeof text_a);
        tryst_action_format(&of_b[i], text_b, sizeof text_b);
        if (strcmp(text_a, text_b) != 0) {
            return false;
        }
    }
    return true;
}

/* A loop, unrolled to n steps, is the flat program of as many updates. */
static void check_unrolled(const struct stream *s, const tryst_program *loop,
                           const char *text)
{
    for (int steps = 1; steps <= 4; steps++) {
        tryst_program *unrolled = NULL;
        char flat_text[96];
        assert_int_equal(tryst_program_unroll(loop, steps, &unrolled), TRYST_OK);
        snprintf(flat_text, sizeof flat_text, "%s%supdates=%d", text,
                 strchr(text, ':') ? "," : ":", steps * s->microbatches / s->every);
        tryst_program *flat = generate(flat_text, SCHEDULE(s->ranks, s->microbatches));
        assert_int_equal(tryst_program_check(flat, NULL, NULL), TRYST_OK);
        for (int rank = 0; rank < s->ranks; rank++) {
            if (!equal_lists(unrolled, flat, rank)) {
                fail_msg("%s p=%d m=%d: %d steps of the loop differ from %s on rank %d",
                         text, s->ranks, s->microbatches, steps, flat_text, rank);
            }
        }
        check_rules(s, flat, flat_text);
        tryst_program_close(flat);
        tryst_program_close(unrolled);
    }
}

/* A step of the loop takes M (F + B) on every rank: no bubble. With fewer micro-batches
 * in flight than ranks it takes more. */
static void check_steady(const struct stream *s, const tryst_program *loop,
                         const char *text)
{
    tryst_program *longer = NULL, *shorter = NULL;
    assert_int_equal(tryst_program_unroll(loop, 6, &longer), TRYST_OK);
    assert_int_equal(tryst_program_unroll(loop, 5, &shorter), TRYST_OK);
    for (size_t i = 0; i < sizeof costs_of / sizeof *costs_of; i++) {
        double forward_s = costs_of[i][0], backward_s = costs_of[i][1];
        tryst_sim *a = simulate(longer, forward_s, backward_s);
        tryst_sim *b = simulate(shorter, forward_s, backward_s);
        double step_s = a->makespan_s - b->makespan_s;
        double busy_s = s->microbatches * (forward_s + backward_s);
        bool full = s->inflight == 0 || s->inflight >= s->ranks;
        if (full ? fabs(step_s - busy_s) > 1e-9 * busy_s : step_s < busy_s * 1.01) {
            fail_msg("%s p=%d m=%d F=%g B=%g: a step takes %g s, busy %g", text, s->ranks,
                     s->microbatches, forward_s, backward_s, step_s, busy_s);
        }
        tryst_sim_free(a);
        tryst_sim_free(b);
    }
    tryst_program_close(longer);
    tryst_program_close(shorter);
}

static void check_needs(const struct stream *s, const tryst_program *loop,
                        const char *text)
{
    tryst_program_peak peaks[RANKS_MAX];
    if (tryst_program_check(loop, NULL, peaks) != TRYST_OK) {
        fail_msg("%s p=%d m=%d: %s", text, s->ranks, s->microbatches, tryst_last_error());
    }
    for (int stage = 0; stage < s->ranks; stage++) {
        tryst_stage_need need = {.struct_size = sizeof need};
        int behind = s->ranks - 1 - stage;
        assert_int_equal(tryst_program_stage_need(loop, stage, &need), TRYST_OK);
        if (need.versions_count != copies_of(s, stage) ||
            need.slots_count != slots_of(s, stage)) {
            fail_msg("%s p=%d m=%d: stage %d needs %d versions, %d slots; by the rules "
                     "%d and %d",
                     text, s->ranks, s->microbatches, stage, need.versions_count,
                     need.slots_count, copies_of(s, stage), slots_of(s, stage));
        }
        if (s->inflight == 0) {
            assert_int_equal(peaks[stage].activations, behind + 1);
        }
        if (strcmp(s->name, "pipedream") == 0 || strcmp(s->name, "pipemare") == 0) {
            assert_true(fabs(need.delay - (double)behind / s->every) < 1e-12);
        }
        assert_int_equal(need.delta, strcmp(s->name, "pipemare") == 0 && behind > 0);
    }
}

static void check_stream(const struct stream *s, const char *text)
{
    tryst_program *loop = generate(text, SCHEDULE(s->ranks, s->microbatches));
    check_needs(s, loop, text);
    check_unrolled(s, loop, text);
    check_steady(s, loop, text);
    tryst_program_close(loop);
}

static void check_streams(int p, int m)
{
    char text[64];
    for (int u = 1; u <= m; u++) {
        if (m % u != 0) {
            continue;
        }
        snprintf(text, sizeof text, "pipedream:every=%d", u);
        check_stream(&(struct stream){"pipedream", p, m, u, 0}, text);
        snprintf(text, sizeof text, "pipemare:every=%d", u);
        check_stream(&(struct stream){"pipemare", p, m, u, 0}, text);
        snprintf(text, sizeof text, "xpipe:every=%d", u);
        check_stream(&(struct stream){"xpipe", p, m, u, 0}, text);
        for (int inflight = p > 1 ? p - 1 : 1; inflight <= p + 1; inflight++) {
            snprintf(text, sizeof text, "pipedream-vsync:every=%d,inflight=%d", u,
                     inflight);
            check_stream(&(struct stream){"pipedream-vsync", p, m, u, inflight}, text);
        }
    }
    check_stream(&(struct stream){"pipedream-2bw", p, m, m, 0}, "pipedream-2bw");
    check_stream(&(struct stream){"spectrain", p, m, 1, 0}, "spectrain");
}

/* All micro-batches and updates up to 8 ranks; beyond, one number of micro-batches. */
static void test_streams(void **state)
{
    for (int p = 1; p <= RANKS_MAX; p++) {
        const int counts[] = {p, p - 1, 2 * p + 1};
        int few = p > 8 ? 1 : 3;
        for (int i = 0; i < few; i++) {
            if (counts[i] > 0) {
                check_streams(p, counts[i]);
            }
        }
    }
}

/* The numbers of updates by which weights are predicted, written out for 4 ranks. */
static void test_predictions(void **state)
{
    static const struct {
        const char *text;
        int stage;
        double forward, backward;
    } rows[] = {
        {"spectrain", 0, 3, 0},
        {"spectrain", 1, 2, 0},
        {"spectrain", 2, 2, 1},
        {"spectrain", 3, 1, 1},
        /* u = 4: (4 + 4 - r / 2 - 2) / 4 and (4 + ⌊r / 2⌋ - 1) / 4 */
        {"xpipe:every=4", 0, 2, 1}, /* 1.5, 0.75 */
        {"xpipe:every=4", 1, 1, 1}, /* 1.375, 0.75 */
        {"xpipe:every=4", 2, 1, 1}, /* 1.25, 1 */
        {"xpipe:every=4", 3, 1, 1}, /* 1.125, 1 */
        {"xpipe:every=1", 1, 3, 0}, /* 2.5, 0 */
        {"xpipe:every=2", 3, 1, 1}, /* 1.25, 1 */
        {"pipemare:every=2", 0, 0, -1.5},
        {"pipemare:every=2", 2, 0, -0.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program = generate(rows[i].text, SCHEDULE(4, 8));
        size_t count = 0, found = 0;
        const tryst_action *actions =
            tryst_program_actions(program, rows[i].stage, &count);
        bool mare = strncmp(rows[i].text, "pipemare", 8) == 0;
        for (size_t k = 0; k < count; k++) {
            if (actions[k].kind != TRYST_ACTION_PREDICT) {
                continue;
            }
            bool forward = actions[k + 1].kind == TRYST_ACTION_FORWARD;
            double expected = forward ? rows[i].forward : rows[i].backward;
            assert_int_equal(actions[k + 1].slot, actions[k].slot);
            assert_int_equal(actions[k].direction,
                             mare ? TRYST_DIRECTION_DELTA : TRYST_DIRECTION_STEP);
            if (actions[k].ahead != expected) {
                fail_msg("%s, stage %d: %s is moved by %g updates instead of %g",
                         rows[i].text, rows[i].stage, forward ? "F" : "B",
                         actions[k].ahead, expected);
            }
            found++;
        }
        assert_true(found > 0);
        tryst_program_close(program);
    }
}

/* ---- recompute --------------------------------------------------------------------- */

static bool is_backward(const tryst_action *action)
{
    return action->kind == TRYST_ACTION_BACKWARD ||
           action->kind == TRYST_ACTION_INPUT_GRAD;
}

/* R comes before the backwards that the option names, and nothing else changes. */
static void check_recompute(const char *name, int option)
{
    tryst_schedule_params params = {.struct_size = sizeof params,
                                    .ranks_count = 4,
                                    .microbatches_count = 8,
                                    .recompute = option};
    tryst_program *with = generate(name, &params);
    params.recompute = TRYST_RECOMPUTE_NEVER;
    tryst_program *without = generate(name, &params);
    assert_int_equal(tryst_program_check(with, NULL, NULL), TRYST_OK);
    for (int rank = 0; rank < 4; rank++) {
        size_t count = 0, fewer = 0, at = 0;
        const tryst_action *actions = tryst_program_actions(with, rank, &count);
        const tryst_action *plain = tryst_program_actions(without, rank, &fewer);
        int kept = 0;
        for (size_t i = 0; i < count; i++) {
            if (actions[i].kind == TRYST_ACTION_RECOMPUTE) {
                assert_true(is_backward(&actions[i + 1]));
                assert_int_equal(actions[i + 1].stage, actions[i].stage);
                assert_int_equal(actions[i + 1].microbatch, actions[i].microbatch);
                continue;
            }
            kept += is_backward(&actions[i]) &&
                    (i == 0 || actions[i - 1].kind != TRYST_ACTION_RECOMPUTE);
            assert_true(at < fewer && plain[at].kind == actions[i].kind &&
                        plain[at].microbatch == actions[i].microbatch);
            at++;
        }
        assert_int_equal(at, fewer);
        if (option == TRYST_RECOMPUTE_ALWAYS) {
            assert_int_equal(kept, 0);
        } else {
            assert_true(kept > 0);
        }
    }
    tryst_program_close(with);
    tryst_program_close(without);
}

static void test_recompute(void **state)
{
    for (int i = 0; tryst_program_schedule(i); i++) {
        check_recompute(tryst_program_schedule(i)->name, TRYST_RECOMPUTE_ALWAYS);
        check_recompute(tryst_program_schedule(i)->name, TRYST_RECOMPUTE_EXCEPT_LAST);
    }
}

/* ---- refusals ---------------------------------------------------------------------- */

static void test_refused(void **state)
{
    static const struct {
        const char *text;
        int ranks, microbatches;
        tryst_status status;
        const char *says;
    } rows[] = {
        {"2f2b", 2, 2, TRYST_E_PROGRAM, "naive, gpipe, torchgpipe, 1f1b"},
        {"1f1b:", 2, 2, TRYST_E_PROGRAM, "1f1b has no option \"\"; it has recompute"},
        {"1f1b:v=2", 2, 2, TRYST_E_PROGRAM, "1f1b has no option \"v\""},
        {"1f1b:recompute=yes", 2, 2, TRYST_E_PROGRAM,
         "recompute=yes: the value must be never or except_last or always"},
        {"1f1b:recompute=2", 2, 2, TRYST_E_PROGRAM, "must be never"},
        {"interleaved:v=0", 2, 2, TRYST_E_PROGRAM, "a whole number of 1 or more"},
        {"interleaved:v=2x", 2, 2, TRYST_E_PROGRAM, "v=2x: the value"},
        {"interleaved:v", 2, 2, TRYST_E_PROGRAM, "v=: the value"},
        {"interleaved:v=99999999999", 2, 2, TRYST_E_PROGRAM, "the value must be"},
        {"interleaved:group=all", 2, 2, TRYST_E_PROGRAM,
         "torch or a whole number of 1 or more"},
        {"interleaved:group=3", 4, 8, TRYST_E_PROGRAM, "a group must have"},
        {"interleaved:group=5", 4, 8, TRYST_E_PROGRAM, "the last group at least"},
        {"interleaved:group=9", 4, 8, TRYST_E_PROGRAM, "a group must have"},
        {"interleaved", 4, 9, TRYST_E_PROGRAM, "the last group at least"},
        {"interleaved:v=2", 4, 5, TRYST_E_PROGRAM, "; group=5 works"},
        {"interleaved:v=2", 4, 11, TRYST_E_PROGRAM, "; group=6 works"},
        {"interleaved:group=3", 4, 8, TRYST_E_PROGRAM, "; group=4 works"},
        {"interleaved:group=torch", 4, 9, TRYST_E_PROGRAM, "; group=5 works"},
        {"interleaved:group=torch", 4, 9, TRYST_E_PROGRAM, "as in PyTorch"},
        {"dapple-b:cap=3", 4, 8, TRYST_E_PROGRAM, "at least the number of ranks"},
        {"zb-h1:v=0", 2, 4, TRYST_E_PROGRAM, "a whole number of 1 or more"},
        {"zb-h1:group=2", 2, 4, TRYST_E_PROGRAM, "zb-h1 has no option \"group\""},
        {"zb-h2:v=2", 2, 4, TRYST_E_PROGRAM, "zb-h2 has no option \"v\""},
        {"zb-v:v=2", 2, 4, TRYST_E_PROGRAM, "zb-v has no option \"v\""},
        {"dualpipev", 4, 7, TRYST_E_PROGRAM, "the least: give 8"},
        {"dualpipev", 1, 1, TRYST_E_PROGRAM, "the least: give 2"},
        {"pipedream:every=3", 4, 8, TRYST_E_PROGRAM, "\"every\" must divide"},
        {"pipedream", 4, 2, TRYST_E_PROGRAM, "at least ranks - 1 micro-batches"},
        {"pipedream-2bw:updates=3", 4, 2, TRYST_E_PROGRAM, "more than two versions"},
        {"pipedream:updates=2000000000,every=2", 4, 4, TRYST_E_PROGRAM, "fewer updates"},
        {"interleaved:v=1000000000", 4, 4, TRYST_E_INVALID, "stages"},
        {"interleaved:v=65536", 1, 65536, TRYST_E_INVALID, "of all stages of a rank"},
        {"gpipe", 1, INT32_MAX, TRYST_E_INVALID, "from 1 to 536870911"},
        {"1f1b", 0, 2, TRYST_E_INVALID, "0 ranks"},
        {"1f1b", 2, 0, TRYST_E_INVALID, "0 micro-batches"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_program *program = NULL;
        assert_int_equal(
            tryst_program_generate(
                rows[i].text, SCHEDULE(rows[i].ranks, rows[i].microbatches), &program),
            rows[i].status);
        if (!strstr(tryst_last_error(), rows[i].says)) {
            fail_msg("%s: expected \"%s\" in: %s", rows[i].text, rows[i].says,
                     tryst_last_error());
        }
        assert_null(program);
    }
    const tryst_schedule_params set = {
        .struct_size = sizeof set, .ranks_count = 2, .microbatches_count = 2, .cap = 4};
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_generate("1f1b", &set, &program), TRYST_E_PROGRAM);
    assert_non_null(strstr(tryst_last_error(), "no option \"cap\""));
}

/* Numbers in the struct that no option has are refused, as in the text. */
static void test_refused_numbers(void **state)
{
    const struct {
        const char *schedule, *says;
        tryst_schedule_params params;
    } rows[] = {
        {"interleaved", "v=-3: the value must be a whole", {.chunks_count = -3}},
        {"interleaved", "group=-7: the value must be torch or a", {.group = -7}},
        {"dapple-b", "cap=-1: the value must be a whole", {.cap = -1}},
        {"1f1b", "recompute=9: the value must be never or", {.recompute = 9}},
        {"pipedream", "rate=-1: the value must be a whole", {.rate = -1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tryst_schedule_params params = rows[i].params;
        tryst_program *program = NULL;
        params.struct_size = sizeof params;
        params.ranks_count = 2;
        params.microbatches_count = 4;
        assert_int_equal(tryst_program_generate(rows[i].schedule, &params, &program),
                         TRYST_E_PROGRAM);
        assert_non_null(strstr(tryst_last_error(), rows[i].says));
        assert_null(program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_chunk),   cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_dapple_cap),  cmocka_unit_test(test_streams),
        cmocka_unit_test(test_predictions), cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_refused_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
