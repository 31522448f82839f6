/* SPDX-License-Identifier: Apache-2.0 */
/* Every schedule, trained three times: by the engine over the fake libtryst (ranks are
 * threads, transfers late and out of order by TRYST_TEST_SEED), by the replay, and by the
 * recurrence trainer, which has no program. Weights and losses of engine and replay have
 * equal bits, and equal bits with the trainer's where the schedule picks versions. Loops
 * and flat programs of the same updates have equal bits, too.
 *
 * Argument: "all" for all shapes; else a part of them, drawn by the seed. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/replay.h>
#include <tryst/weights.h>

#include "actions.h"
#include "fake_tryst.h"
#include "pipeline/base/random.h"
#include "quadratic_run.h"
#include "recurrence.h"
#include "windows.h"

enum { STEPS = 3, RANKS_MAX = 8, STAGES_MAX = 24 };

#define DELTA_DECAY 0.6
#define NEAR        1e-5 /* relative, where weights are predicted */

#ifdef __SANITIZE_THREAD__ /* slow there, and each shape runs the same code */
enum { DRAWN_ONE_IN = 64 };
#else
enum { DRAWN_ONE_IN = 16 };
#endif

static uint64_t seed = 1;
static bool all_shapes;

static const tryst_model model = {.struct_size = sizeof model,
                                  .kind = TRYST_MODEL_MLP,
                                  .layers = STAGES_MAX,
                                  .hidden = 4,
                                  .seq = 4,
                                  .microbatch_size = 1};
static const tryst_optimizer sgd = {
    .struct_size = sizeof sgd, .kind = TRYST_OPTIMIZER_SGD, .lr = 0.05, .momentum = 0.8};
static const tryst_optimizer adam = {
    .struct_size = sizeof adam, .kind = TRYST_OPTIMIZER_ADAM, .lr = 0.01};

struct shape {
    const char *schedule; /* with its options, without updates */
    const char *rule;
    int ranks, chunks, microbatches, every;
    int inflight;
    bool flat, reference;
};

/* ---- a run's stages and results ---------------------------------------------------- */

struct run {
    const tryst_program *program;
    const struct shape *shape;
    struct windows windows;
    int steps;
    tryst_stage *stages[STAGES_MAX];
    float *weights;
    double losses[STEPS];
    struct fake_world *world;
};

static const tryst_optimizer *optimizer_of(const struct shape *s)
{
    return strcmp(s->rule, "xpipe") == 0 ? &adam : &sgd;
}

static bool loops(const tryst_program *program)
{
    size_t body, epilogue;
    return tryst_program_loop(program, 0, &body, &epilogue);
}

static void run_open(struct run *r, const struct shape *s, const tryst_program *program)
{
    int stages = tryst_program_stages(program);
    *r = (struct run){.program = program,
                      .shape = s,
                      .windows = {&model, tryst_program_microbatches(program)},
                      .steps = s->flat ? 1 : STEPS};
    for (int i = 0; i < stages; i++) {
        tryst_layers layers;
        tryst_stage_need need = {.struct_size = sizeof need};
        assert_int_equal(tryst_program_stage_need(program, i, &need), TRYST_OK);
        const tryst_stage_params params = {.struct_size = sizeof params,
                                           .optimizer = optimizer_of(s),
                                           .versions_count = need.versions_count,
                                           .slots_count = need.slots_count,
                                           .delta_decay = need.delta ? DELTA_DECAY : 0,
                                           .reference = s->reference,
                                           .precision = TRYST_PRECISION_F32};
        assert_int_equal(tryst_model_split(&model, stages, i, &layers), TRYST_OK);
        if (tryst_stage_open(&model, layers, &params, &r->stages[i]) != TRYST_OK) {
            fail_msg("%s", tryst_last_error());
        }
    }
}

static void run_gather(struct run *r)
{
    float *next = r->weights = calloc(tryst_model_weights_count(&model), sizeof(float));
    assert_non_null(r->weights);
    for (int i = 0; i < tryst_program_stages(r->program); i++) {
        assert_int_equal(tryst_stage_weights_copy(r->stages[i], next), TRYST_OK);
        next += r->stages[i]->info.weights_count;
        tryst_stage_close(r->stages[i]);
    }
}

/* ---- the engine -------------------------------------------------------------------- */

struct run_rank {
    struct run *owner;
    int rank;
    pthread_t thread;
    tryst_status status;
    char error[512];
};

static tryst_status rank_steps(struct run_rank *self, tryst_engine *engine)
{
    struct run *owner = self->owner;
    bool has_loss =
        tryst_program_rank_of(owner->program, tryst_program_stages(owner->program) - 1) ==
        self->rank;
    tryst_status status = TRYST_OK;
    for (int step = 0; step < owner->steps && status == TRYST_OK; step++) {
        bool last = step + 1 == owner->steps && loops(owner->program);
        double loss;
        status = last ? tryst_engine_step_last(engine, (uint64_t)step, &loss)
                      : tryst_engine_step(engine, (uint64_t)step, &loss);
        if (has_loss) {
            owner->losses[step] = loss;
        }
    }
    return status == TRYST_OK ? tryst_engine_finish(engine) : status;
}

static void *rank_main(void *arg)
{
    struct run_rank *self = arg;
    struct run *owner = self->owner;
    tryst_stage *mine[STAGES_MAX] = {0};
    for (int i = 0; i < tryst_program_stages(owner->program); i++) {
        if (tryst_program_rank_of(owner->program, i) == self->rank) {
            mine[i] = owner->stages[i];
        }
    }
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = fake_ctx(owner->world, self->rank),
                                        .group = fake_group(owner->world, self->rank),
                                        .program = owner->program,
                                        .stages = mine,
                                        .feed = windows_feed,
                                        .feed_arg = &owner->windows,
                                        .timeout_ns = 30ull * 1000000000};
    tryst_engine *engine = NULL;
    self->status = tryst_engine_open(&params, &engine);
    if (self->status == TRYST_OK) {
        self->status = rank_steps(self, engine);
    }
    if (self->status != TRYST_OK) {
        snprintf(self->error, sizeof self->error, "%s", tryst_last_error());
    }
    tryst_engine_close(engine);
    return NULL;
}

static void engine_run(struct run *r)
{
    int count = tryst_program_ranks(r->program);
    struct run_rank ranks[RANKS_MAX];
    r->world = fake_world_open(count, seed, 0);
    for (int rank = 0; rank < count; rank++) {
        ranks[rank] = (struct run_rank){.owner = r, .rank = rank};
        assert_int_equal(
            pthread_create(&ranks[rank].thread, NULL, rank_main, &ranks[rank]), 0);
    }
    for (int rank = 0; rank < count; rank++) {
        assert_int_equal(pthread_join(ranks[rank].thread, NULL), 0);
    }
    for (int rank = 0; rank < count; rank++) {
        if (ranks[rank].status != TRYST_OK) {
            fail_msg("%s, rank %d: %s", r->shape->schedule, rank, ranks[rank].error);
        }
    }
    assert_int_equal(fake_world_close(r->world), 0);
}

/* ---- the replay and the trainer ---------------------------------------------------- */

static void replay_run(struct run *r)
{
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = r->program,
                                        .stages = r->stages,
                                        .feed = windows_feed,
                                        .feed_arg = &r->windows,
                                        .steps_count = (uint64_t)r->steps,
                                        .losses = r->losses};
    if (tryst_replay(&params) != TRYST_OK) {
        fail_msg("%s: %s", r->shape->schedule, tryst_last_error());
    }
    run_gather(r);
}

/* Train by the rule; `microbatches` is what run_open found. */
static void train(const struct shape *s, int microbatches, struct recurrence_result *to,
                  double losses[STEPS])
{
    struct windows windows = {&model, microbatches};
    const struct recurrence_params params = {
        .model = &model,
        .optimizer = optimizer_of(s),
        .pipe = {.stages_count = s->ranks, .every = s->every, .inflight = s->inflight},
        .rule = recurrence_rule_find(s->rule),
        .microbatches_count = (int64_t)STEPS * s->microbatches,
        .step_microbatches = microbatches,
        .feed = windows_feed,
        .feed_arg = &windows,
        .delta_decay = DELTA_DECAY,
        .recomputes = strstr(s->schedule, "recompute=always") != NULL,
        .reference = s->reference};
    recurrence_train(&params, to);
    for (int step = 0; step < (s->flat ? 1 : STEPS); step++) {
        losses[step] = recurrence_step_loss(to, &params, step);
    }
}

/* ---- one shape --------------------------------------------------------------------- */

static void expect_equal(const struct run *a, const float *weights, const double *losses,
                         bool near, const char *with)
{
    const struct shape *s = a->shape;
    uint64_t count = tryst_model_weights_count(&model);
    double distance = recurrence_distance(a->weights, weights, count);
    bool same = near ? distance <= NEAR
                     : memcmp(a->weights, weights, count * sizeof *weights) == 0;
    for (int i = 0; i < a->steps; i++) {
        same = same && (near ? fabs(a->losses[i] - losses[i]) <= NEAR * losses[i]
                             : a->losses[i] == losses[i]);
    }
    if (!same) {
        fail_msg("%s, p=%d v=%d m=%d, %s, %s: differs from %s by %g (seed %llu)",
                 s->schedule, s->ranks, s->chunks, s->microbatches,
                 s->flat ? "flat" : "steps", s->reference ? "reference" : "host", with,
                 distance, (unsigned long long)seed);
    }
}

static tryst_program *program_of(const struct shape *s)
{
    tryst_program *program = NULL;
    char text[128];
    snprintf(text, sizeof text, "%s", s->schedule);
    if (s->flat) {
        snprintf(text, sizeof text, "%s%supdates=%d", s->schedule,
                 strchr(s->schedule, ':') ? "," : ":",
                 STEPS * s->microbatches / s->every);
    }
    if (tryst_program_generate(text, SCHEDULE(s->ranks, s->microbatches), &program) !=
            TRYST_OK ||
        tryst_program_check(program, NULL, NULL) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    return program;
}

static int shapes_run;

/* Train a shape three ways; *weights_p receives the weights, for the caller to free. */
static void check_shape(const struct shape *s, float **weights_p)
{
    tryst_program *program = program_of(s);
    struct run engine, replay;
    struct recurrence_result trained;
    double losses[STEPS];
    run_open(&engine, s, program);
    run_open(&replay, s, program);
    engine_run(&engine);
    run_gather(&engine);
    replay_run(&replay);
    train(s, engine.windows.step_microbatches, &trained, losses);
    expect_equal(&engine, replay.weights, replay.losses, false, "the replay");
    expect_equal(&engine, trained.weights, losses,
                 recurrence_rule_find(s->rule)->predicts, "the recurrence");
    free(replay.weights);
    recurrence_result_free(&trained);
    tryst_program_close(program);
    *weights_p = engine.weights;
    shapes_run++;
}

static bool is_drawn(void)
{
    static uint64_t draws;
    return all_shapes ||
           random_below(random_at(random_stream(seed, 1, 0), draws++), DRAWN_ONE_IN) == 0;
}

static void check_synchronous(struct shape s)
{
    for (int reference = 0; reference < 2; reference++) {
        float *weights;
        s.reference = reference;
        if (is_drawn()) {
            check_shape(&s, &weights);
            free(weights);
        }
    }
}

/* The loop where it is defined, and the flat program of the same updates. */
static void check_asynchronous(struct shape s)
{
    for (int reference = 0; reference < 2; reference++) {
        float *flat, *looped = NULL;
        s.reference = reference;
        if (!is_drawn()) {
            continue;
        }
        s.flat = true;
        check_shape(&s, &flat);
        s.flat = false;
        if (s.microbatches >= s.ranks - 1) {
            check_shape(&s, &looped);
            assert_memory_equal(flat, looped,
                                tryst_model_weights_count(&model) * sizeof *flat);
        }
        free(flat);
        free(looped);
    }
}

/* ---- all shapes -------------------------------------------------------------------- */

static const char *const recomputes[] = {"", "recompute=always", "recompute=except_last"};

/* Join a name and two options, either of which may be "". */
static const char *join(char text[96], const char *name, const char *a, const char *b)
{
    snprintf(text, 96, "%s%s%s%s%s", name, *a || *b ? ":" : "", a, *a && *b ? "," : "",
             b);
    return text;
}

static void shape_synchronous(int p, int m)
{
    static const char *const names[] = {"naive", "gpipe", "torchgpipe", "1f1b",
                                        "dapple-b"};
    char text[96], chunks[32];
    for (int r = 0; r < 3; r++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            bool falls = strcmp(names[i], "torchgpipe") == 0;
            check_synchronous((struct shape){join(text, names[i], recomputes[r], ""),
                                             falls ? "sync-reversed" : "sync", p, 1, m, m,
                                             0, false, false});
        }
        for (int v = 1; v <= 3; v++) {
            snprintf(chunks, sizeof chunks, "v=%d", v);
            check_synchronous((struct shape){join(text, "bfs", chunks, recomputes[r]),
                                             "sync-reversed", p, v, m, m, 0, false,
                                             false});
            snprintf(chunks, sizeof chunks, m > p ? "v=%d,group=%d" : "v=%d", v, m);
            check_synchronous(
                (struct shape){join(text, "interleaved", chunks, recomputes[r]), "sync",
                               p, v, m, m, 0, false, false});
        }
    }
}

/* Backwards in I and W, and 1f1b, all of which add in rising order. */
static void shape_split(int p, int m)
{
    static const struct {
        const char *name, *option;
        int chunks, least; /* least: micro-batches a rank */
    } rows[] = {{"1f1b", "", 1, 1},      {"zb-h1", "", 1, 1},  {"zb-h1", "v=2", 2, 1},
                {"zb-h1", "v=3", 3, 1},  {"zb-h2", "", 1, 1},  {"zb-v", "", 2, 1},
                {"dualpipev", "", 2, 2}, {"v-half", "", 2, 1}, {"v-min", "", 2, 1}};
    char text[96];
    for (int r = 0; r < 3; r++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            if (m >= rows[i].least * p) {
                check_synchronous((struct shape){
                    join(text, rows[i].name, rows[i].option, recomputes[r]), "sync", p,
                    rows[i].chunks, m, m, 0, false, false});
            }
        }
    }
}

static void shape_asynchronous(int p, int m)
{
    char text[96], every[48];
    for (int u = 1; u <= m; u++) {
        if (m % u != 0) {
            continue;
        }
        snprintf(every, sizeof every, "every=%d", u);
        for (int r = 0; r < 2; r++) {
            check_asynchronous(
                (struct shape){join(text, "pipedream", every, recomputes[r]), "pipedream",
                               p, 1, m, u, 0, false, false});
        }
        check_asynchronous((struct shape){join(text, "pipemare", every, ""), "pipemare",
                                          p, 1, m, u, 0, false, false});
        check_asynchronous((struct shape){join(text, "xpipe", every, ""), "xpipe", p, 1,
                                          m, u, 0, false, false});
        for (int inflight = 1; inflight <= p + 1; inflight++) {
            snprintf(every, sizeof every, "every=%d,inflight=%d", u, inflight);
            check_asynchronous((struct shape){join(text, "pipedream-vsync", every, ""),
                                              "pipedream-vsync", p, 1, m, u, inflight,
                                              false, false});
        }
    }
    if (m >= p - 1) {
        check_asynchronous((struct shape){"pipedream-2bw", "pipedream-2bw", p, 1, m, m, 0,
                                          false, false});
    }
    check_asynchronous(
        (struct shape){"spectrain", "spectrain", p, 1, m, 1, 0, false, false});
}

/* ---- known answers ----------------------------------------------------------------- */

enum { DELAYS = QUADRATIC_DELAYS };

/* Train stages of one weight each by the engine, with `factor` times their limits. Return
 * how many of the weights of delay `first` and above become smaller. */
static int falling(double factor, bool rate, int first)
{
    const struct shape shape = {.schedule = "pipedream"};
    char text[64];
    int smaller = 0;
    snprintf(text, sizeof text, "pipedream:updates=%d%s", QUADRATIC_UPDATES,
             rate ? ",rate=50000" : "");
    tryst_program *program = NULL;
    assert_int_equal(tryst_program_generate(text, SCHEDULE(DELAYS, 1), &program),
                     TRYST_OK);
    struct run r = {.program = program, .shape = &shape, .steps = 1};
    quadratic_stages_open(factor, r.stages);
    engine_run(&r);
    for (int s = 0; s < DELAYS; s++) {
        double growth = quadratic_growth(r.stages[s]);
        if (DELAYS - 1 - s >= first) {
            assert_true(growth < 0.01 || growth > 100);
            smaller += growth < 0.01;
        }
        tryst_stage_close(r.stages[s]);
    }
    tryst_program_close(program);
    return smaller;
}

/* Every delay from 0 to 7: stable just below the limit, unstable just above it; and
 * lower rates at the beginning save a run that diverges without them. */
static void test_known_answers(void **state)
{
    assert_int_equal(falling(0.98, false, 0), DELAYS);
    assert_int_equal(falling(1.02, false, 0), 0);
    assert_int_equal(falling(1.1, false, 2), 0);
    assert_int_equal(falling(1.1, true, 2), DELAYS - 2);
}

/* ---- all shapes, drawn or each ----------------------------------------------------- */

static void each_shape(void (*check)(int p, int m))
{
    static const int ranks[] = {1, 2, 3, 4, 5, 8};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        int p = ranks[i];
        const int counts[] = {1, p - 1, p, 2 * p + 1};
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            bool repeated = k > 0 && counts[k] <= counts[k - 1] && counts[k] <= 1;
            if (counts[k] > 0 && !repeated) {
                check(p, counts[k]);
            }
        }
    }
}

static void test_synchronous(void **state)
{
    shapes_run = 0;
    each_shape(shape_synchronous);
    print_message("%d shapes\n", shapes_run);
    assert_true(shapes_run > 0);
}

static void test_split(void **state)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 8};
    shapes_run = 0;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        int p = ranks[i];
        const int counts[] = {p, 2 * p - 1, 2 * p, 2 * p + 1, 4 * p};
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            if (k == 0 || counts[k] > counts[k - 1]) {
                shape_split(p, counts[k]);
            }
        }
    }
    print_message("%d shapes\n", shapes_run);
    assert_true(shapes_run > 0);
}

static void test_asynchronous(void **state)
{
    shapes_run = 0;
    each_shape(shape_asynchronous);
    print_message("%d shapes\n", shapes_run);
    assert_true(shapes_run > 0);
}

int main(int argc, char **argv)
{
    const char *text = getenv("TRYST_TEST_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synchronous),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_asynchronous),
        cmocka_unit_test(test_known_answers),
    };
    seed = text ? strtoull(text, NULL, 0) : seed;
    all_shapes = argc > 1 && strcmp(argv[1], "all") == 0;
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
