/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules over two copies of the model in opposite directions, and over one copy folded
 * in waves, trained three times: by the engine over the fake libtryst (ranks are threads,
 * transfers late and out of order by TRYST_TEST_SEED), by the replay, and by a trainer
 * without a program, which adds the gradients of each direction in rising order and then
 * both sums. Weights and losses have equal bits. And faults in the programs, with the
 * checks that see them.
 *
 * Argument: "all" for all shapes; else a part of them, drawn by the seed. */
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
#include "chain.h"
#include "fake_tryst.h"
#include "pipeline/base/random.h"
#include "windows.h"

enum { STEPS = 3, RANKS_MAX = 8, LAYERS = 32 };

#ifdef __SANITIZE_THREAD__ /* slow there, and each shape runs the same code */
enum { DRAWN_ONE_IN = 32 };
#else
enum { DRAWN_ONE_IN = 8 };
#endif

static uint64_t seed = 1;
static bool all_shapes;

static const tryst_model model = {.struct_size = sizeof model,
                                  .kind = TRYST_MODEL_MLP,
                                  .layers = LAYERS,
                                  .hidden = 4,
                                  .seq = 4,
                                  .microbatch_size = 1};
static const tryst_optimizer sgd = {
    .struct_size = sizeof sgd, .kind = TRYST_OPTIMIZER_SGD, .lr = 0.05, .momentum = 0.8};

/* ---- training: the program's stages ------------------------------------------------ */

struct shape {
    const char *schedule;
    int ranks, microbatches;
    bool reference;
    bool follows; /* each step promises the next one to the engine */
    /* Micro-batch n goes up if n mod `unit` is unit / 2 or more; 0: one direction. */
    int unit;
};

struct run {
    const tryst_program *program;
    const struct shape *shape;
    struct windows windows;
    tryst_stage *stages[RANKS_MAX * LAYERS]; /* [ranks][stages] */
    double losses[STEPS];
    double *terms; /* [STEPS][micro-batches]: the engine's */
    float *weights;
    struct fake_world *world;
};

static bool rank_has(const tryst_program *program, int rank, int stage)
{
    int32_t ranks[RANKS_MAX];
    int count = tryst_program_replicas(program, stage, ranks, RANKS_MAX);
    for (int i = 0; i < count; i++) {
        if (ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

static tryst_stage *stage_open(const struct shape *s, int stages_count, int stage)
{
    tryst_layers layers;
    tryst_stage *opened = NULL;
    const tryst_stage_params params = {.struct_size = sizeof params,
                                       .optimizer = &sgd,
                                       .versions_count = 1,
                                       .reference = s->reference,
                                       .precision = TRYST_PRECISION_F32};
    assert_int_equal(tryst_model_split(&model, stages_count, stage, &layers), TRYST_OK);
    if (tryst_stage_open(&model, layers, &params, &opened) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    return opened;
}

static void run_open(struct run *r, const struct shape *s, const tryst_program *program)
{
    int stages = tryst_program_stages(program);
    *r = (struct run){
        .program = program, .shape = s, .windows = {&model, s->microbatches}};
    r->terms = calloc((size_t)STEPS * (size_t)s->microbatches, sizeof *r->terms);
    assert_non_null(r->terms);
    for (int rank = 0; rank < s->ranks; rank++) {
        for (int i = 0; i < stages; i++) {
            if (rank_has(program, rank, i)) {
                r->stages[rank * stages + i] = stage_open(s, stages, i);
            }
        }
    }
}

/* Gather the weights of the first replicas; the others have the same. */
static void run_gather(struct run *r)
{
    int stages = tryst_program_stages(r->program);
    uint64_t total = tryst_model_weights_count(&model);
    float *next = r->weights = calloc(total, sizeof(float));
    float *other = calloc(total, sizeof *other);
    assert_true(r->weights && other);
    for (int i = 0; i < stages; i++) {
        int first = tryst_program_rank_of(r->program, i);
        uint64_t count = r->stages[first * stages + i]->info.weights_count;
        for (int rank = first; rank < r->shape->ranks; rank++) {
            tryst_stage *stage = r->stages[rank * stages + i];
            float *to = rank == first ? next : other;
            if (stage) {
                assert_int_equal(tryst_stage_weights_copy(stage, to), TRYST_OK);
                assert_memory_equal(next, to, count * sizeof *to);
                tryst_stage_close(stage);
            }
        }
        next += count;
    }
    free(other);
    free(r->terms);
}

/* ---- the engine -------------------------------------------------------------------- */

struct run_rank {
    struct run *owner;
    int rank;
    pthread_t thread;
    tryst_status status;
    char error[512];
};

/* Keep the losses that this rank has made, if it has the last stage. */
static void terms_keep(struct run *owner, int rank, int step, const double *losses)
{
    int last = tryst_program_stages(owner->program) - 1, m = owner->shape->microbatches;
    for (int n = 0; n < m; n++) {
        if (tryst_program_rank_of_microbatch(owner->program, last, n) == rank) {
            owner->terms[step * m + n] = losses[n];
        }
    }
}

static tryst_status rank_steps(struct run_rank *self, tryst_engine *engine)
{
    tryst_status status = TRYST_OK;
    for (int step = 0; step < STEPS && status == TRYST_OK; step++) {
        double loss;
        bool last = self->owner->shape->follows && step + 1 == STEPS;
        status = last ? tryst_engine_step_last(engine, (uint64_t)step, &loss)
                      : tryst_engine_step(engine, (uint64_t)step, &loss);
        if (status == TRYST_OK) {
            terms_keep(self->owner, self->rank, step, tryst_engine_losses(engine));
        }
    }
    return status == TRYST_OK ? tryst_engine_finish(engine) : status;
}

static void *rank_main(void *arg)
{
    struct run_rank *self = arg;
    struct run *owner = self->owner;
    int stages = tryst_program_stages(owner->program);
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = fake_ctx(owner->world, self->rank),
                                        .group = fake_group(owner->world, self->rank),
                                        .program = owner->program,
                                        .stages = owner->stages + self->rank * stages,
                                        .feed = windows_feed,
                                        .feed_arg = &owner->windows,
                                        .steps_follow = owner->shape->follows,
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
    struct run_rank ranks[RANKS_MAX];
    int count = r->shape->ranks;
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
    for (int step = 0; step < STEPS; step++) {
        r->losses[step] = tryst_loss_mean(r->terms + step * r->shape->microbatches,
                                          r->shape->microbatches);
    }
    run_gather(r);
}

static void replay_run(struct run *r)
{
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = r->program,
                                        .replicas = r->stages,
                                        .feed = windows_feed,
                                        .feed_arg = &r->windows,
                                        .steps_count = STEPS,
                                        .losses = r->losses};
    if (tryst_replay(&params) != TRYST_OK) {
        fail_msg("%s: %s", r->shape->schedule, tryst_last_error());
    }
    run_gather(r);
}

/* ---- a trainer without a program --------------------------------------------------- */

/* Add the gradients of the second model to those of the first, and make them equal. */
static void gradients_join(struct chain *down, struct chain *up)
{
    tryst_stage *a = down->stages[0], *b = up->stages[0];
    for (int32_t i = 0; i < a->ops->parts_count(a); i++) {
        tryst_stage_part of_a = {.struct_size = sizeof of_a};
        tryst_stage_part of_b = {.struct_size = sizeof of_b};
        assert_int_equal(a->ops->part(a, i, &of_a), TRYST_OK);
        assert_int_equal(b->ops->part(b, i, &of_b), TRYST_OK);
        float *sums = of_a.gradient, *others = of_b.gradient;
        for (uint64_t k = 0; k < of_a.count; k++) {
            sums[k] += others[k];
            others[k] = sums[k];
        }
    }
}

/* Train whole models, one for each direction, on micro-batches in rising order. */
static void train(const struct shape *s, float **weights_p, double losses[STEPS])
{
    struct windows windows = {&model, s->microbatches};
    struct chain chains[2];
    int models = s->unit > 0 ? 2 : 1;
    double *terms = calloc((size_t)s->microbatches, sizeof *terms);
    const tryst_stage_params params = {.struct_size = sizeof params,
                                       .optimizer = &sgd,
                                       .versions_count = 1,
                                       .reference = s->reference,
                                       .precision = TRYST_PRECISION_F32};
    assert_non_null(terms);
    for (int i = 0; i < models; i++) {
        chain_open_params(&model, 1, s->microbatches, &params, &chains[i]);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int n = 0; n < s->microbatches; n++) {
            struct chain *c = &chains[s->unit > 0 && n % s->unit >= s->unit / 2];
            uint64_t bytes = (uint64_t)c->model.microbatch_size * (uint64_t)c->model.seq;
            uint8_t *tokens = c->tokens + (uint64_t)n * 2 * bytes;
            windows_feed(&windows, (uint64_t)step, n, tokens, tokens + bytes);
            terms[n] = chain_forward(c, n, (uint64_t)step);
            chain_backward(c, n, (uint64_t)step, CHAIN_WHOLE);
        }
        if (models > 1) {
            gradients_join(&chains[0], &chains[1]);
        }
        for (int i = 0; i < models; i++) {
            chain_update(&chains[i]);
        }
        losses[step] = tryst_loss_mean(terms, s->microbatches);
    }
    *weights_p = calloc(tryst_model_weights_count(&model), sizeof(float));
    assert_non_null(*weights_p);
    assert_int_equal(tryst_stage_weights_copy(chains[0].stages[0], *weights_p), TRYST_OK);
    for (int i = 0; i < models; i++) {
        chain_close(&chains[i]);
    }
    free(terms);
}

/* ---- one shape --------------------------------------------------------------------- */

static bool is_equal(const struct run *a, const float *weights, const double *losses)
{
    bool same = true;
    for (int step = 0; step < STEPS; step++) {
        same = same && a->losses[step] == losses[step];
    }
    return same && memcmp(a->weights, weights,
                          tryst_model_weights_count(&model) * sizeof *weights) == 0;
}

static void expect_equal(const struct run *a, const float *weights, const double *losses,
                         const char *with)
{
    if (!is_equal(a, weights, losses)) {
        fail_msg("%s, p=%d m=%d, %s, steps %s: the engine's run differs from %s (seed "
                 "%llu)",
                 a->shape->schedule, a->shape->ranks, a->shape->microbatches,
                 a->shape->reference ? "reference" : "host",
                 a->shape->follows ? "that follow" : "alone", with,
                 (unsigned long long)seed);
    }
}

static int shapes_run;

static void check_shape(const struct shape *s)
{
    tryst_program *program = schedule_checked(s->schedule, s->ranks, s->microbatches);
    struct run engine, replay;
    float *trained;
    double losses[STEPS];
    run_open(&engine, s, program);
    run_open(&replay, s, program);
    engine_run(&engine);
    replay_run(&replay);
    train(s, &trained, losses);
    expect_equal(&engine, replay.weights, replay.losses, "the replay");
    expect_equal(&engine, trained, losses, "the trainer");
    free(engine.weights);
    free(replay.weights);
    free(trained);
    tryst_program_close(program);
    shapes_run++;
}

static bool is_drawn(void)
{
    static uint64_t draws;
    return all_shapes ||
           random_below(random_at(random_stream(seed, 2, 0), draws++), DRAWN_ONE_IN) == 0;
}

/* Run a shape, where it is drawn and the schedule is defined. */
static void try_shape(const char *schedule, int ranks, int microbatches, int unit)
{
    tryst_program *program = NULL;
    if (tryst_program_generate(schedule, SCHEDULE(ranks, microbatches), &program) !=
        TRYST_OK) {
        return;
    }
    tryst_program_close(program);
    for (int variant = 0; variant < 4; variant++) {
        const struct shape shape = {.schedule = schedule,
                                    .ranks = ranks,
                                    .microbatches = microbatches,
                                    .reference = variant % 2,
                                    .follows = variant / 2,
                                    .unit = unit};
        if (is_drawn()) {
            check_shape(&shape);
        }
    }
}

static void test_trained(void **state)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 8};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        int p = ranks[i];
        const int counts[] = {p, 2 * p - 1, 2 * p, 2 * p + 1, 4 * p};
        for (size_t k = p == 1 ? 1 : 0; k < sizeof counts / sizeof *counts; k++) {
            int m = counts[k];
            try_shape("hanayo", p, m, 0);
            try_shape("hanayo:waves=2", p, m, 0);
            try_shape("hanayo:recompute=always", p, m, 0);
            try_shape("chimera", p, m, p);
            try_shape("chimera:recompute=except_last", p, m, p);
            try_shape("dualpipe", p, m, m);
            try_shape("dualpipe:recompute=always", p, m, m);
        }
    }
    print_message("%d shapes\n", shapes_run);
    assert_true(shapes_run > 0);
}

/* ---- faults ------------------------------------------------------------------------ */

/* Change an action of the program; return false to leave it out. `rank_p` is the rank
 * that gets it. */
typedef bool (*change_fn)(const tryst_program *right, int *rank_p, tryst_action *action);

static bool no_reduction(const tryst_program *right, int *rank_p, tryst_action *action)
{
    (void)right;
    return *rank_p != 0 || action->stage != 0 || action->kind != TRYST_ACTION_REDUCE_GRAD;
}

/* One F at the rank's stage of the other direction. */
static bool other_stage(const tryst_program *right, int *rank_p, tryst_action *action)
{
    if (*rank_p == 0 && action->kind == TRYST_ACTION_FORWARD && action->microbatch == 1) {
        action->stage = tryst_program_stages(right) - 1 - action->stage;
    }
    return true;
}

/* Micro-batches 1 and m - 1, of different directions, exchanged in all lists. */
static bool other_direction(const tryst_program *right, int *rank_p, tryst_action *action)
{
    int last = tryst_program_microbatches(right) - 1;
    (void)rank_p;
    if (action->microbatch == 1 || action->microbatch == last) {
        action->microbatch = last + 1 - action->microbatch;
    }
    return true;
}

static bool no_weight(const tryst_program *right, int *rank_p, tryst_action *action)
{
    static const tryst_program *seen;
    bool first = action->kind == TRYST_ACTION_WEIGHT_GRAD && seen != right;
    (void)rank_p;
    seen = first ? right : seen;
    return !first;
}

/* Each W of rank 0 in place of its I, and the other way round. */
static bool weight_first(const tryst_program *right, int *rank_p, tryst_action *action)
{
    (void)right;
    if (*rank_p == 0 && action->kind == TRYST_ACTION_INPUT_GRAD) {
        action->kind = TRYST_ACTION_WEIGHT_GRAD;
    } else if (*rank_p == 0 && action->kind == TRYST_ACTION_WEIGHT_GRAD) {
        action->kind = TRYST_ACTION_INPUT_GRAD;
    }
    return true;
}

static bool other_weight(const tryst_program *right, int *rank_p, tryst_action *action)
{
    (void)right;
    if (*rank_p == 0 && action->kind == TRYST_ACTION_WEIGHT_GRAD) {
        action->microbatch = 0;
    }
    return true;
}

static const struct fault {
    const char *name, *schedule;
    change_fn change;
    bool checker, weights; /* the checks that see it: tryst_program_check; the trainer */
    const char *says;      /* in the checker's sentence */
} faults[] = {
    {"a REDUCE_GRAD left out", "chimera", no_reduction, true, false, "REDUCE_GRAD"},
    {"a REDUCE_GRAD left out", "dualpipe", no_reduction, true, false, "REDUCE_GRAD"},
    {"F of the other direction's stage", "chimera", other_stage, true, false,
     "must be on one rank"},
    {"F of the other direction's stage", "dualpipe", other_stage, true, false,
     "must be on one rank"},
    {"micro-batches of the wrong direction", "chimera", other_direction, false, true, ""},
    {"micro-batches of the wrong direction", "dualpipe", other_direction, false, true,
     ""},
    {"a W left out", "dualpipe", no_weight, true, false, ""},
    {"W before its I", "dualpipe", weight_first, true, false, ""},
    {"W of another micro-batch", "dualpipe", other_weight, true, false, "0W0"},
};

enum { FAULT_RANKS = 4, FAULT_MICROBATCHES = 8 };

static tryst_program *plant(const struct fault *fault, const tryst_program *right)
{
    tryst_program *wrong = NULL;
    assert_int_equal(tryst_program_open(FAULT_RANKS, tryst_program_stages(right),
                                        FAULT_MICROBATCHES, &wrong),
                     TRYST_OK);
    for (int rank = 0; rank < FAULT_RANKS; rank++) {
        size_t count = 0;
        const tryst_action *actions = tryst_program_actions(right, rank, &count);
        for (size_t i = 0; i < count; i++) {
            tryst_action action = actions[i];
            int to = rank;
            if (fault->change(right, &to, &action)) {
                assert_int_equal(tryst_program_append(wrong, to, &action), TRYST_OK);
            }
        }
    }
    return wrong;
}

/* True if the replay of a program has the trainer's weights. */
static bool is_trained(const struct fault *fault, const tryst_program *program)
{
    bool chimera = strcmp(fault->schedule, "chimera") == 0;
    const struct shape shape = {.schedule = fault->schedule,
                                .ranks = FAULT_RANKS,
                                .microbatches = FAULT_MICROBATCHES,
                                .unit = chimera ? FAULT_RANKS : FAULT_MICROBATCHES};
    struct run run;
    float *trained;
    double losses[STEPS];
    run_open(&run, &shape, program);
    replay_run(&run);
    train(&shape, &trained, losses);
    bool equal = is_equal(&run, trained, losses);
    free(run.weights);
    free(trained);
    return equal;
}

static void check_fault(const struct fault *fault)
{
    tryst_program *right =
        schedule_checked(fault->schedule, FAULT_RANKS, FAULT_MICROBATCHES);
    tryst_program *wrong = plant(fault, right);
    bool refused = tryst_program_check(wrong, NULL, NULL) != TRYST_OK;
    if (refused != fault->checker || !strstr(tryst_last_error(), fault->says)) {
        fail_msg("%s, %s: the checker %s it: %s", fault->name, fault->schedule,
                 refused ? "refuses" : "accepts", tryst_last_error());
    }
    assert_true(is_trained(fault, right));
    bool differs = !refused && !is_trained(fault, wrong);
    if (differs != fault->weights) {
        fail_msg("%s, %s: the weights are %s", fault->name, fault->schedule,
                 differs ? "others" : "the trainer's");
    }
    print_message("%-37s %-8s  checker %s  weights %s\n", fault->name, fault->schedule,
                  refused ? "seen" : "no",
                  refused   ? "-"
                  : differs ? "seen"
                            : "no");
    tryst_program_close(right);
    tryst_program_close(wrong);
}

static void test_faults(void **state)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        check_fault(&faults[i]);
    }
}

int main(int argc, char **argv)
{
    const char *text = getenv("TRYST_TEST_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_trained),
    };
    seed = text ? strtoull(text, NULL, 0) : seed;
    all_shapes = argc > 1 && strcmp(argv[1], "all") == 0;
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
