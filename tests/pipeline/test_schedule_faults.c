/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in programs, and the checks that see them. Each fault is a small change of a
 * right program. The checks:
 *
 *   checker  tryst_program_check refuses the program
 *   rule     an action reads another weight version than that of the schedule's
 *            formula, or predicts by another number of updates
 *   weights  the replay's weights differ from those of the recurrence trainer
 *   digest   they differ from those of training without a pipeline, in order 0 … M-1
 *
 * The table below has, for each fault, the checks that must see it; the others must
 * not, so that each check is known by what it finds alone. */
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
#include "recurrence.h"
#include "windows.h"

enum { RANKS = 3, MICROBATCHES = 6 };

static const tryst_model model = {.struct_size = sizeof model,
                                  .kind = TRYST_MODEL_MLP,
                                  .layers = 2 * RANKS,
                                  .hidden = 8,
                                  .seq = 6,
                                  .microbatch_size = 2};
static const tryst_optimizer sgd = {
    .struct_size = sizeof sgd, .kind = TRYST_OPTIMIZER_SGD, .lr = 0.05, .momentum = 0.8};

static struct windows windows = {&model, MICROBATCHES};

/* ---- programs with one action changed ---------------------------------------------- */

struct fault;

/* Return false if the action is left out. */
typedef bool (*change_fn)(const struct fault *fault, int rank, size_t position,
                          tryst_action *action);

struct fault {
    const char *name;
    const char *schedule;
    const char *rule; /* of the trainer */
    change_fn change;
    int body_shift;                           /* moves the mark of rank 0's body */
    bool checker, rule_seen, weights, digest; /* the checks that see it */
    bool digest_applies;                      /* the right program has the digest */
};

static bool live_backward(const struct fault *fault, int rank, size_t position,
                          tryst_action *action)
{
    (void)fault, (void)position;
    if (rank == 0 && action->kind == TRYST_ACTION_BACKWARD) {
        action->version = action->microbatch; /* an UPDATE behind each backward */
    }
    return true;
}

static bool late_stash(const struct fault *fault, int rank, size_t position,
                       tryst_action *action)
{
    (void)fault, (void)position;
    if (rank == 0 && action->microbatch >= 0 && action->version > 0) {
        action->version--;
    }
    return true;
}

static bool far_slot(const struct fault *fault, int rank, size_t position,
                     tryst_action *action)
{
    (void)fault, (void)position;
    if (rank == 0 && action->kind == TRYST_ACTION_PREDICT) {
        action->ahead += 1;
    }
    return true;
}

/* Exchange the backwards of micro-batches 1 and 2. */
static bool other_order(const struct fault *fault, int rank, size_t position,
                        tryst_action *action)
{
    (void)fault, (void)rank, (void)position;
    if (action->kind == TRYST_ACTION_BACKWARD &&
        (action->microbatch == 1 || action->microbatch == 2)) {
        action->microbatch = 3 - action->microbatch;
    }
    return true;
}

static bool other_recompute(const struct fault *fault, int rank, size_t position,
                            tryst_action *action)
{
    (void)fault, (void)position;
    if (rank == 0 && action->kind == TRYST_ACTION_RECOMPUTE && action->version > 0) {
        action->version--;
    }
    return true;
}

static bool no_update(const struct fault *fault, int rank, size_t position,
                      tryst_action *action)
{
    (void)fault, (void)position;
    return rank != 1 || action->kind != TRYST_ACTION_UPDATE || action->version != 1;
}

/* Without the first UPDATE, and with the others' numbers closed up. */
static bool fewer_updates(const struct fault *fault, int rank, size_t position,
                          tryst_action *action)
{
    (void)fault, (void)position;
    if (rank != 1) {
        return true;
    }
    if (action->kind == TRYST_ACTION_UPDATE) {
        return --action->version > 0;
    }
    action->version -= action->version > 0;
    return true;
}

static bool is_weight_grad(const tryst_action *action, int microbatch)
{
    return action->kind == TRYST_ACTION_WEIGHT_GRAD && action->microbatch == microbatch;
}

static bool no_weight_grad(const struct fault *fault, int rank, size_t position,
                           tryst_action *action)
{
    (void)fault, (void)position;
    return rank != 1 || !is_weight_grad(action, 2);
}

/* Exchange I and W, which follow each other on rank 0. */
static bool early_weight_grad(const struct fault *fault, int rank, size_t position,
                              tryst_action *action)
{
    (void)fault, (void)position;
    if (rank == 0 && action->microbatch == 2) {
        if (action->kind == TRYST_ACTION_INPUT_GRAD) {
            action->kind = TRYST_ACTION_WEIGHT_GRAD;
        } else if (action->kind == TRYST_ACTION_WEIGHT_GRAD) {
            action->kind = TRYST_ACTION_INPUT_GRAD;
        }
    }
    return true;
}

/* The W of the last micro-batch once more, instead of that of the one before it. */
static bool other_weight_grad(const struct fault *fault, int rank, size_t position,
                              tryst_action *action)
{
    (void)fault, (void)position;
    if (rank == RANKS - 1 && is_weight_grad(action, MICROBATCHES - 2)) {
        action->microbatch = MICROBATCHES - 1;
    }
    return true;
}

/* Exchange the W of the last two micro-batches, which are behind all I. */
static bool exchanged_weight_grads(const struct fault *fault, int rank, size_t position,
                                   tryst_action *action)
{
    (void)fault, (void)position;
    if (rank == RANKS - 1 && action->kind == TRYST_ACTION_WEIGHT_GRAD &&
        action->microbatch >= MICROBATCHES - 2) {
        action->microbatch = 2 * MICROBATCHES - 3 - action->microbatch;
    }
    return true;
}

static bool nothing(const struct fault *fault, int rank, size_t position,
                    tryst_action *action)
{
    (void)fault, (void)rank, (void)position, (void)action;
    return true;
}

static const struct fault faults[] = {
    {"B reads live weights", "pipedream:updates=6", "pipedream", live_backward, 0, false,
     true, true, false, false},
    {"a stash one version late", "pipedream:updates=6", "pipedream", late_stash, 0, false,
     true, true, false, false},
    {"a slot one update off", "spectrain:updates=6", "spectrain", far_slot, 0, false,
     true, true, false, false},
    {"sum in another order", "gpipe", "sync", other_order, 0, false, false, true, true,
     true},
    {"R reads another version", "pipedream:updates=6,recompute=always", "pipedream",
     other_recompute, 0, true, false, false, false, false},
    {"a mark moved by one", "pipedream", "pipedream", nothing, 1, true, false, false,
     false, false},
    {"an UPDATE left out", "pipedream:updates=6", "pipedream", no_update, 0, true, false,
     false, false, false},
    {"an UPDATE left out, numbers closed up", "pipedream:updates=6", "pipedream",
     fewer_updates, 0, false, true, true, false, false},
    {"zb-h1: W left out", "zb-h1", "sync", no_weight_grad, 0, true, false, false, false,
     true},
    {"zb-v: W left out", "zb-v", "sync", no_weight_grad, 0, true, false, false, false,
     true},
    {"zb-h1: W before its I", "zb-h1", "sync", early_weight_grad, 0, true, false, false,
     false, true},
    {"zb-v: W before its I", "zb-v", "sync", early_weight_grad, 0, true, false, false,
     false, true},
    {"zb-h1: W of another micro-batch", "zb-h1", "sync", other_weight_grad, 0, true,
     false, false, false, true},
    {"zb-v: W of another micro-batch", "zb-v", "sync", other_weight_grad, 0, true, false,
     false, false, true},
    {"zb-h1: W in another order", "zb-h1", "sync", exchanged_weight_grads, 0, false,
     false, true, true, true},
    {"zb-v: W in another order", "zb-v", "sync", exchanged_weight_grads, 0, false, false,
     true, true, true},
};

static tryst_program *generate(const char *schedule)
{
    tryst_program *program = NULL;
    if (tryst_program_generate(schedule, SCHEDULE(RANKS, MICROBATCHES), &program) !=
        TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    return program;
}

/* Copy a program with the fault's change. */
static tryst_program *plant(const struct fault *fault, const tryst_program *right)
{
    tryst_program *wrong = NULL;
    assert_int_equal(tryst_program_open(RANKS, tryst_program_stages(right),
                                        tryst_program_microbatches(right), &wrong),
                     TRYST_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        size_t count = 0, body, epilogue;
        const tryst_action *actions = tryst_program_actions(right, rank, &count);
        bool looped = tryst_program_loop(right, rank, &body, &epilogue);
        body += rank == 0 ? (size_t)fault->body_shift : 0;
        for (size_t i = 0; i <= count; i++) {
            if (looped && i == body) {
                assert_int_equal(tryst_program_mark(wrong, rank, TRYST_PROGRAM_BODY),
                                 TRYST_OK);
            }
            if (looped && i == epilogue) {
                assert_int_equal(tryst_program_mark(wrong, rank, TRYST_PROGRAM_EPILOGUE),
                                 TRYST_OK);
            }
            tryst_action action = i < count ? actions[i] : (tryst_action){0};
            if (i < count && fault->change(fault, rank, i, &action)) {
                assert_int_equal(tryst_program_append(wrong, rank, &action), TRYST_OK);
            }
        }
    }
    return wrong;
}

/* ---- the checks -------------------------------------------------------------------- */

static float *replayed(const tryst_program *program)
{
    int stages = tryst_program_stages(program);
    tryst_stage *all[2 * RANKS] = {0};
    double losses[1];
    for (int i = 0; i < stages; i++) {
        tryst_layers layers;
        tryst_stage_need need = {.struct_size = sizeof need};
        assert_int_equal(tryst_program_stage_need(program, i, &need), TRYST_OK);
        const tryst_stage_params params = {.struct_size = sizeof params,
                                           .optimizer = &sgd,
                                           .versions_count = need.versions_count,
                                           .slots_count = need.slots_count};
        assert_int_equal(tryst_model_split(&model, stages, i, &layers), TRYST_OK);
        assert_int_equal(tryst_stage_open(&model, layers, &params, &all[i]), TRYST_OK);
    }
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = program,
                                        .stages = all,
                                        .feed = windows_feed,
                                        .feed_arg = &windows,
                                        .steps_count = 1,
                                        .losses = losses};
    if (tryst_replay(&params) != TRYST_OK) {
        fail_msg("%s", tryst_last_error());
    }
    float *weights = calloc(tryst_model_weights_count(&model), sizeof *weights);
    float *next = weights;
    assert_non_null(weights);
    for (int i = 0; i < stages; i++) {
        assert_int_equal(tryst_stage_weights_copy(all[i], next), TRYST_OK);
        next += all[i]->info.weights_count;
        tryst_stage_close(all[i]);
    }
    return weights;
}

static float *trained(const char *rule, int stages, int every)
{
    const struct recurrence_params params = {
        .model = &model,
        .optimizer = &sgd,
        .pipe = {.stages_count = stages, .every = every},
        .rule = recurrence_rule_find(rule),
        .microbatches_count = MICROBATCHES,
        .step_microbatches = MICROBATCHES,
        .feed = windows_feed,
        .feed_arg = &windows};
    struct recurrence_result result;
    recurrence_train(&params, &result);
    free(result.losses);
    return result.weights;
}

static bool weights_equal(const float *a, const float *b, const char *rule)
{
    uint64_t count = tryst_model_weights_count(&model);
    return recurrence_rule_find(rule)->predicts ? recurrence_distance(a, b, count) <= 1e-5
                                                : memcmp(a, b, count * sizeof *a) == 0;
}

static void reads_of(const tryst_program *program, int rank, int32_t *version_p,
                     double *ahead_p, size_t *count_p)
{
    size_t count = 0, found = 0;
    const tryst_action *actions = tryst_program_actions(program, rank, &count);
    tryst_program_read *reads = calloc(count + 1, sizeof *reads);
    assert_int_equal(tryst_program_reads(program, rank, reads), TRYST_OK);
    for (size_t i = 0; i < count; i++) {
        if (actions[i].kind != TRYST_ACTION_UPDATE) {
            version_p[found] = reads[i].version;
            ahead_p[found++] = actions[i].ahead;
        }
    }
    *count_p = found;
    free(reads);
}

/* True if both programs read the same weights. The right one is the formula's
 * (pipeline_schedules). */
static bool same_reads(const tryst_program *a, const tryst_program *b)
{
    enum { MOST = 64 };
    for (int rank = 0; rank < RANKS; rank++) {
        int32_t version_a[MOST], version_b[MOST];
        double ahead_a[MOST], ahead_b[MOST];
        size_t count_a, count_b;
        reads_of(a, rank, version_a, ahead_a, &count_a);
        reads_of(b, rank, version_b, ahead_b, &count_b);
        if (count_a != count_b ||
            memcmp(version_a, version_b, count_a * sizeof *version_a) != 0 ||
            memcmp(ahead_a, ahead_b, count_a * sizeof *ahead_a) != 0) {
            return false;
        }
    }
    return true;
}

static bool is_looped(const tryst_program *program)
{
    size_t body, epilogue;
    return tryst_program_loop(program, 0, &body, &epilogue);
}

static void expect(const struct fault *fault, const char *check, bool seen, bool expected)
{
    if (seen != expected) {
        fail_msg("%s: the check by %s %s it", fault->name, check,
                 seen ? "sees" : "does not see");
    }
}

/* Compare the weights of a program that runs with the trainer's and with the digest. */
static void check_weights(const struct fault *fault, const tryst_program *right,
                          const tryst_program *wrong)
{
    bool sync = strcmp(fault->rule, "sync") == 0;
    float *good = replayed(right), *bad = replayed(wrong);
    float *model_weights = trained(fault->rule, RANKS, sync ? MICROBATCHES : 1);
    float *alone = trained("sync", 1, MICROBATCHES);
    assert_true(weights_equal(good, model_weights, fault->rule));
    expect(fault, "weights", !weights_equal(bad, model_weights, fault->rule),
           fault->weights);
    if (fault->digest_applies) {
        assert_true(weights_equal(good, alone, "sync"));
        expect(fault, "digest", !weights_equal(bad, alone, "sync"), fault->digest);
    }
    free(good);
    free(bad);
    free(model_weights);
    free(alone);
}

static const char *mark(bool applies, bool seen)
{
    return !applies ? "-" : seen ? "seen" : "no";
}

static void check_fault(const struct fault *fault)
{
    tryst_program *right = generate(fault->schedule);
    tryst_program *wrong = plant(fault, right);
    assert_int_equal(tryst_program_check(right, NULL, NULL), TRYST_OK);
    bool runs = tryst_program_check(wrong, NULL, NULL) == TRYST_OK;
    bool has_reads = runs && !is_looped(right); /* as tryst_program_reads demands */
    expect(fault, "checker", !runs, fault->checker);
    if (has_reads) {
        expect(fault, "rule", !same_reads(right, wrong), fault->rule_seen);
    }
    if (runs) {
        check_weights(fault, right, wrong);
    }
    assert_true(fault->checker || fault->rule_seen || fault->weights || fault->digest);
    print_message("%-40s %8s %6s %8s %7s\n", fault->name, mark(true, fault->checker),
                  mark(has_reads, fault->rule_seen), mark(runs, fault->weights),
                  mark(runs && fault->digest_applies, fault->digest));
    tryst_program_close(right);
    tryst_program_close(wrong);
}

static void test_faults(void **state)
{
    print_message("%-40s %8s %6s %8s %7s\n", "fault", "checker", "rule", "weights",
                  "digest");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        check_fault(&faults[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
