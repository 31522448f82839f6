/* SPDX-License-Identifier: Apache-2.0 */
/* Training as a whole: the loss falls on English text read from a file, for each model
 * and each optimiser. The text is generated here: sentences of a licence's vocabulary,
 * drawn by a seeded generator, so that some of it can be learned (spelling, word order)
 * and some cannot (the next clause). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <tryst/data.h>

#include "chain.h"

static const char *const subjects[] = {"the licensee", "any recipient", "a covered work",
                                       "the program", "each contributor"};
static const char *const verbs[] = {"may convey", "grants", "must accompany",
                                    "does not affect", "shall preserve"};
static const char *const objects[] = {"verbatim copies", "the corresponding source",
                                      "a patent license", "these terms and conditions",
                                      "the object code"};
static const char *const ends[] = {" in any medium.\n", ", provided that you comply.\n",
                                   " without warranty.\n", ", as stated in section 7.\n"};

#define PICK(list, state) (list[((state) >> 33) % (sizeof(list) / sizeof(list[0]))])

static uint64_t next(uint64_t *state)
{
    return *state = *state * 6364136223846793005u + 1442695040888963407u;
}

static void write_text(const char *path)
{
    uint64_t state = 20261121;
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (int i = 0; i < 600; i++) {
        fprintf(out, "%s ", PICK(subjects, next(&state)));
        fprintf(out, "%s ", PICK(verbs, next(&state)));
        fprintf(out, "%s", PICK(objects, next(&state)));
        fprintf(out, "%s", PICK(ends, next(&state)));
    }
    assert_int_equal(fclose(out), 0);
}

static void feed_from_file(struct chain *c, const tryst_data *data, uint64_t step)
{
    uint64_t bytes = (uint64_t)c->model.microbatch_size * (uint64_t)c->model.seq;
    for (int m = 0; m < c->microbatches_count; m++) {
        uint8_t *input = c->tokens + (uint64_t)m * 2 * bytes;
        assert_int_equal(tryst_data_windows(data, step, (uint64_t)m,
                                            c->model.microbatch_size, input,
                                            input + bytes),
                         TRYST_OK);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Train; `first_p` and `last_p` get the loss of the first step and the mean of the last
 * 5. */
static void train(const tryst_model *model, const tryst_optimizer *optimizer,
                  int microbatches, int steps, double *first_p, double *last_p)
{
    const char *tmp = getenv("TMPDIR");
    char folder[512], path[600];
    tryst_data *data = NULL;
    struct chain c;
    snprintf(folder, sizeof(folder), "%s/tryst_train_XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/text", folder);
    write_text(path);
    chain_open(model, 2, microbatches, optimizer, 1, &c);
    assert_int_equal(tryst_data_open(path, c.model.seq, 0, &data), TRYST_OK);
    *last_p = 0;
    double begin = seconds();
    for (int step = 0; step < steps; step++) {
        feed_from_file(&c, data, (uint64_t)step);
        double loss = chain_step(&c, (uint64_t)step, CHAIN_WHOLE);
        *first_p = step == 0 ? loss : *first_p;
        *last_p += step >= steps - 5 ? loss / 5 : 0;
    }
    print_message("%s %s: loss %.4f to %.4f in %d steps, %.2f ms each\n",
                  tryst_model_kind_name(model->kind),
                  optimizer->kind == TRYST_OPTIMIZER_SGD ? "sgd" : "adam", *first_p,
                  *last_p, steps, (seconds() - begin) / steps * 1e3);
    tryst_data_close(data);
    chain_close(&c);
    unlink(path);
    rmdir(folder);
}

/* Check that the loss falls. Without learning it is ln 256 = 5.545; letter frequencies
 * alone give about 3.0. */
static void expect_fall(tryst_model_kind kind, tryst_optimizer optimizer, double below)
{
    tryst_model model = {.struct_size = sizeof(model),
                         .kind = kind,
                         .layers = 2,
                         .hidden = 32,
                         .seq = 32,
                         .microbatch_size = 4};
    double first, last;
    train(&model, &optimizer, 2, 120, &first, &last);
    assert_true(first > 5.0 && first < 6.0);
    assert_true(last < below);
}

static void test_gpt_adam(void **state)
{
    expect_fall(TRYST_MODEL_GPT,
                (tryst_optimizer){.struct_size = sizeof(tryst_optimizer),
                                  .kind = TRYST_OPTIMIZER_ADAM,
                                  .lr = 0.003},
                1.7);
}

static void test_gpt_sgd(void **state)
{
    expect_fall(TRYST_MODEL_GPT,
                (tryst_optimizer){.struct_size = sizeof(tryst_optimizer),
                                  .kind = TRYST_OPTIMIZER_SGD},
                2.1);
}

static void test_mlp_adam(void **state)
{
    expect_fall(TRYST_MODEL_MLP,
                (tryst_optimizer){.struct_size = sizeof(tryst_optimizer),
                                  .kind = TRYST_OPTIMIZER_ADAM,
                                  .lr = 0.003},
                2.2);
}

static void test_mlp_sgd(void **state)
{
    expect_fall(TRYST_MODEL_MLP,
                (tryst_optimizer){.struct_size = sizeof(tryst_optimizer),
                                  .kind = TRYST_OPTIMIZER_SGD},
                2.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt_adam),
        cmocka_unit_test(test_gpt_sgd),
        cmocka_unit_test(test_mlp_adam),
        cmocka_unit_test(test_mlp_sgd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
