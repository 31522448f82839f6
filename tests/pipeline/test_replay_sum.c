/* SPDX-License-Identifier: Apache-2.0 */
/* The replay of replicated stages against chains (chain.h): one chain is a replica, and
 * their gradients are added by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/replay.h>
#include <tryst/weights.h>

#include "actions.h"
#include "chain.h"

enum { STEPS = 3, REPLICAS_MAX = 3, EACH = 2, STAGES_MAX = 2 };

static const tryst_model model = {.struct_size = sizeof(model),
                                  .kind = TRYST_MODEL_GPT,
                                  .layers = 3,
                                  .hidden = 12,
                                  .heads = 2,
                                  .seq = 9,
                                  .microbatch_size = 2,
                                  .seed = 3};

struct outcome {
    double losses[STEPS];
    char digest[TRYST_DIGEST_TEXT_BYTES];
};

static void digest_of(tryst_stage *const *stages, int count,
                      char digest[TRYST_DIGEST_TEXT_BYTES])
{
    uint64_t total = tryst_model_weights_count(&model), at = 0;
    float *weights = calloc(total, sizeof *weights);
    for (int s = 0; s < count; s++) {
        assert_int_equal(tryst_stage_weights_copy(stages[s], weights + at), TRYST_OK);
        at += stages[s]->info.weights_count;
    }
    tryst_weights_digest(weights, total, digest);
    free(weights);
}

/* ---- by hand ----------------------------------------------------------------------- */

/* The first half of each part is added from the back, r0 + (r1 + r2); the rest as
 * ((r2 + r0) + r1). */
static uint64_t half_of(uint64_t count)
{
    return count / 2;
}

static float add_by_hand(float *const *terms, int replicas, bool in_first_half,
                         uint64_t at)
{
    float sum = terms[replicas - 1][at];
    for (int i = 0; i + 1 < replicas && !in_first_half; i++) {
        sum += terms[i][at];
    }
    for (int i = replicas - 2; i >= 0 && in_first_half; i--) {
        sum = terms[i][at] + sum;
    }
    return sum;
}

static void sum_by_hand(struct chain *chains, int replicas)
{
    const tryst_stage_ops *ops = chains[0].stages[0]->ops;
    for (int32_t i = 0; i < ops->parts_count(chains[0].stages[0]); i++) {
        float *terms[REPLICAS_MAX];
        tryst_stage_part part = {.struct_size = sizeof part};
        for (int r = 0; r < replicas; r++) {
            assert_int_equal(ops->part(chains[r].stages[0], i, &part), TRYST_OK);
            terms[r] = part.gradient;
        }
        for (uint64_t at = 0; at < part.count; at++) {
            float sum = add_by_hand(terms, replicas, at < half_of(part.count), at);
            for (int r = 0; r < replicas; r++) {
                terms[r][at] = sum;
            }
        }
    }
}

static void run_by_hand(int replicas, struct outcome *o)
{
    struct chain chains[REPLICAS_MAX];
    double losses[REPLICAS_MAX * EACH];
    int all = replicas * EACH;
    for (int r = 0; r < replicas; r++) {
        chain_open(&model, 1, all, NULL, 1, &chains[r]);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int m = 0; m < all; m++) {
            struct chain *c = &chains[m / EACH];
            chain_feed(c, (uint64_t)step);
            losses[m] = chain_forward(c, m, (uint64_t)step);
            chain_backward(c, m, (uint64_t)step, CHAIN_WHOLE);
        }
        sum_by_hand(chains, replicas);
        for (int r = 0; r < replicas; r++) {
            chain_update(&chains[r]);
        }
        o->losses[step] = tryst_loss_mean(losses, all);
    }
    digest_of(chains[replicas - 1].stages, 1, o->digest);
    for (int r = 0; r < replicas; r++) {
        chain_close(&chains[r]);
    }
}

/* ---- by the replay ----------------------------------------------------------------- */

struct source {
    struct chain *chain; /* makes the windows */
    uint64_t fed_step;
    int replicas;
    bool short_order; /* leaves out the last element of each part */
    tryst_status answer;
};

static tryst_status feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target)
{
    struct source *self = arg;
    uint64_t bytes = (uint64_t)model.microbatch_size * (uint64_t)model.seq;
    if (step != self->fed_step) {
        chain_feed(self->chain, step);
        self->fed_step = step;
    }
    const uint8_t *windows = self->chain->tokens + (uint64_t)microbatch * 2 * bytes;
    if (input) {
        memcpy(input, windows, bytes);
    }
    if (target) {
        memcpy(target, windows + bytes, bytes);
    }
    return TRYST_OK;
}

static tryst_status order(void *arg, int32_t stage, const tryst_coll_params *sum,
                          uint32_t tree, tryst_coll_order *order_p, int32_t *parents)
{
    const struct source *self = arg;
    (void)stage;
    uint64_t half = half_of(sum->count);
    assert_int_equal(sum->kind, TRYST_COLL_ALLREDUCE);
    order_p->trees = 2;
    order_p->first = tree == 0 ? 0 : half;
    order_p->count = tree == 0 ? half : sum->count - half - self->short_order;
    for (int r = 0; r < self->replicas; r++) {
        int root = tree == 0 ? 0 : self->replicas - 1;
        parents[r] = r == root ? -1 : tree == 0 ? r - 1 : root;
    }
    return self->answer;
}

static tryst_program *replicated(const char *schedule, int stages, int replicas)
{
    tryst_program *one = NULL, *all = NULL;
    assert_int_equal(tryst_program_generate(schedule, SCHEDULE(stages, EACH), &one),
                     TRYST_OK);
    assert_int_equal(tryst_program_replicate(one, replicas, &all), TRYST_OK);
    assert_int_equal(tryst_program_check(all, NULL, NULL), TRYST_OK);
    tryst_program_close(one);
    return all;
}

static tryst_status run_replay(const char *schedule, int stages, struct source *source,
                               bool in_order, struct outcome *o)
{
    int replicas = source->replicas;
    tryst_program *program = replicated(schedule, stages, replicas);
    tryst_stage *table[REPLICAS_MAX * STAGES_MAX * STAGES_MAX] = {0};
    struct chain chains[REPLICAS_MAX];
    for (int r = 0; r < replicas; r++) {
        chain_open(&model, stages, replicas * EACH, NULL, 1, &chains[r]);
        for (int s = 0; s < stages; s++) { /* stage s of replica r is on rank r*p + s */
            table[(r * stages + s) * stages + s] = chains[r].stages[s];
        }
    }
    source->chain = &chains[0];
    source->fed_step = UINT64_MAX;
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = program,
                                        .replicas = table,
                                        .feed = feed,
                                        .feed_arg = source,
                                        .order = in_order ? order : NULL,
                                        .order_arg = source,
                                        .steps_count = STEPS,
                                        .losses = o->losses};
    tryst_status status = tryst_replay(&params);
    for (int r = 0; r < replicas; r++) {
        char digest[TRYST_DIGEST_TEXT_BYTES];
        digest_of(chains[r].stages, stages, digest);
        if (r > 0 && status == TRYST_OK) {
            assert_string_equal(digest, o->digest); /* all replicas agree */
        }
        memcpy(o->digest, digest, sizeof digest);
        chain_close(&chains[r]);
    }
    tryst_program_close(program);
    return status;
}

static void test_equal(void **state)
{
    static const char *const schedules[] = {"naive", "gpipe", "1f1b"};
    for (int replicas = 1; replicas <= REPLICAS_MAX; replicas++) {
        struct outcome expected, got;
        run_by_hand(replicas, &expected);
        for (int i = 0; i < 6; i++) {
            struct source source = {.replicas = replicas};
            assert_int_equal(run_replay(schedules[i % 3], 1 + i / 3, &source, true, &got),
                             TRYST_OK);
            assert_memory_equal(got.losses, expected.losses, sizeof got.losses);
            assert_string_equal(got.digest, expected.digest);
        }
        /* another order gives other bits, where there is another order */
        struct source source = {.replicas = replicas};
        assert_int_equal(run_replay("1f1b", 2, &source, false, &got), TRYST_OK);
        assert_int_equal(strcmp(got.digest, expected.digest) == 0, replicas < 3);
    }
}

static void test_refuses(void **state)
{
    struct outcome o;
    struct source source = {.replicas = 2, .answer = TRYST_E_IO};
    assert_int_equal(run_replay("1f1b", 2, &source, true, &o), TRYST_E_IO);
    source = (struct source){.replicas = 2, .short_order = true};
    assert_int_equal(run_replay("1f1b", 2, &source, true, &o), TRYST_E_INVALID);

    tryst_program *program = replicated("1f1b", 1, 2);
    struct chain c;
    chain_open(&model, 1, 2 * EACH, NULL, 1, &c);
    tryst_stage *table[2] = {c.stages[0], NULL};
    double losses[1];
    tryst_replay_params params = {.struct_size = sizeof params,
                                  .program = program,
                                  .stages = c.stages,
                                  .feed = feed,
                                  .feed_arg = &source,
                                  .steps_count = 1,
                                  .losses = losses};
    assert_int_equal(tryst_replay(&params), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "stage 0 has 2 replicas"));
    params.replicas = table;
    assert_int_equal(tryst_replay(&params), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "stage 0 of 1 is missing"));
    chain_close(&c);
    tryst_program_close(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
