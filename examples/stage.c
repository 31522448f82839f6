/* SPDX-License-Identifier: Apache-2.0 */
/* A stage of one's own for the pipeline engine: tryst/stage.h is its manual.
 *
 * The stage is a small layer: output = a * input + b, element by element, with an a and
 * a b for each element. One stage on each rank makes a model as deep as there are ranks.
 * It has to learn target = 64 + input / 2 (bytes, taken as numbers from 0 to 1). The
 * engine runs it under the schedule 1F1B, and makes all transfers of activations and
 * gradients between the ranks.
 *
 * Run:     tryst-run -n 3 ./stage
 * Prints:  stage: 3 ranks, 1f1b, loss 0.0210 to 0.0001 in 100 steps */
#include <stdio.h>
#include <stdlib.h>
#include <tryst/pipeline.h>
#include <tryst/sized.h>

enum { WIDTH = 64, MICROBATCHES = 8, STEPS = 100 };
static const float rate = 8.0f; /* for mean losses of WIDTH elements */

struct affine {
    tryst_stage base; /* first, so that a tryst_stage * is a struct affine * */
    uint64_t version; /* updates so far */
    float weight[2][WIDTH], gradient[2][WIDTH]; /* a and b */
};

/* End the program unless `status` is TRYST_OK. */
static void must(tryst_status status)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "stage: %s\n", tryst_last_error());
    exit(1);
}

/* Return element `i` of the input: the first stage reads bytes, the others floats. */
static float input_at(const struct affine *self, const tryst_stage_work *work, int i)
{
    if (self->base.info.is_first)
        return (float)((const uint8_t *)work->input)[i] / 255;
    return ((const float *)work->input)[i];
}

static float output_at(const struct affine *self, const tryst_stage_work *work, int i)
{
    return self->weight[0][i] * input_at(self, work, i) + self->weight[1][i];
}

/* Compute the output; of the last stage that is the mean loss of the micro-batch. */
static tryst_status affine_forward(tryst_stage *stage, const tryst_stage_work *work)
{
    const struct affine *self = (const struct affine *)stage;
    double loss = 0;
    if (work->version != self->version) /* this stage holds the newest version alone */
        return TRYST_E_INVALID;
    for (int i = 0; i < WIDTH; i++) {
        float output = output_at(self, work, i);
        if (stage->info.is_last) {
            float error = output - (float)work->target[i] / 255;
            loss += (double)(error * error) / WIDTH;
        } else {
            ((float *)work->output)[i] = output;
        }
    }
    if (stage->info.is_last)
        *(double *)work->output = loss;
    return TRYST_OK;
}

/* Compute the gradient of the input, and add the gradients of a and b. Nothing was saved
 * by forward: the input, which the engine keeps, is enough. */
static tryst_status affine_backward(tryst_stage *stage, const tryst_stage_work *work)
{
    struct affine *self = (struct affine *)stage;
    for (int i = 0; i < WIDTH; i++) {
        float gradient;
        if (stage->info.is_last)
            gradient =
                2 * (output_at(self, work, i) - (float)work->target[i] / 255) / WIDTH;
        else
            gradient = ((const float *)work->grad_output)[i];
        self->gradient[0][i] += gradient * input_at(self, work, i);
        self->gradient[1][i] += gradient;
        if (!stage->info.is_first)
            ((float *)work->grad_input)[i] = gradient * self->weight[0][i];
    }
    return TRYST_OK;
}

static tryst_status affine_update(tryst_stage *stage, const tryst_stage_update *update)
{
    struct affine *self = (struct affine *)stage;
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < WIDTH; i++) {
            self->weight[n][i] -=
                rate * self->gradient[n][i] / (float)update->microbatches;
            self->gradient[n][i] = 0;
        }
    }
    self->version++;
    return TRYST_OK;
}

static void affine_versions(const tryst_stage *stage, uint64_t *oldest_p,
                            uint64_t *newest_p)
{
    *oldest_p = *newest_p = ((const struct affine *)stage)->version;
}

/* Show both parameters to `fn`, which may save or compare them. */
static int affine_parameter_visit(tryst_stage *stage, tryst_parameter_fn fn, void *arg)
{
    struct affine *self = (struct affine *)stage;
    static const char *const names[2] = {"a", "b"};
    int result = 0;
    for (int n = 0; n < 2 && !result; n++) {
        tryst_parameter parameter = {.struct_size = sizeof parameter,
                                     .name = names[n],
                                     .layer = stage->info.layers.first,
                                     .rank = 1,
                                     .shape = {WIDTH},
                                     .dtype = TRYST_DTYPE_F32,
                                     .count = WIDTH,
                                     .value = self->weight[n],
                                     .gradient = self->gradient[n]};
        result = fn(arg, &parameter);
    }
    return result;
}

/* Report the costs, for simulations of a schedule. */
static void affine_cost(const tryst_stage *stage, tryst_stage_cost *cost_p)
{
    tryst_stage_cost cost = {.struct_size = sizeof cost,
                             .forward_flops = 2 * WIDTH,
                             .output_bytes = stage->info.is_last ? 8 : WIDTH * 4,
                             .weights_bytes = 2 * WIDTH * 4};
    (void)tryst_sized_write(cost_p, &cost, sizeof cost); /* also for other versions */
}

static void affine_close(tryst_stage *stage)
{
    free(stage);
}

static const tryst_stage_ops affine_ops = {.struct_size = sizeof affine_ops,
                                           .name = "affine",
                                           .forward = affine_forward,
                                           .backward = affine_backward,
                                           .update = affine_update,
                                           .versions = affine_versions,
                                           .parameter_visit = affine_parameter_visit,
                                           .cost = affine_cost,
                                           .close = affine_close};

/* Open stage `index` of `count`, with weights that leave an input as it is. */
static tryst_stage *affine_open(int index, int count)
{
    struct affine *self = calloc(1, sizeof *self);
    int is_first = index == 0, is_last = index == count - 1;
    if (!self) {
        perror("stage");
        exit(1);
    }
    self->base.ops = &affine_ops;
    self->base.info =
        (tryst_stage_info){.struct_size = sizeof self->base.info,
                           .layers = {index, index + 1},
                           .is_first = is_first,
                           .is_last = is_last,
                           .input_dtype = is_first ? TRYST_DTYPE_U8 : TRYST_DTYPE_F32,
                           .output_dtype = is_last ? TRYST_DTYPE_F64 : TRYST_DTYPE_F32,
                           .input_count = WIDTH,
                           .output_count = is_last ? 1 : WIDTH,
                           .target_count = is_last ? WIDTH : 0,
                           .weights_count = 2 * WIDTH,
                           .versions_count = 1};
    for (int i = 0; i < WIDTH; i++)
        self->weight[0][i] = 1;
    return &self->base;
}

/* Provide the data of a micro-batch. First and last stage compute them by themselves. */
static tryst_status feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target)
{
    (void)arg;
    for (uint64_t i = 0; i < WIDTH; i++) {
        uint8_t byte = (uint8_t)(step * 101 + (uint64_t)microbatch * 37 + i * i * 59);
        if (input)
            ((uint8_t *)input)[i] = byte;
        if (target)
            target[i] = (uint8_t)(64 + byte / 2);
    }
    return TRYST_OK;
}

/* Train; return true unless this is the last rank, which has the loss, and it is high. */
static int train(tryst_ctx *ctx, tryst_group *group, const tryst_program *program)
{
    int me = tryst_group_rank(group), ranks = tryst_group_size(group);
    tryst_stage **stages = calloc((size_t)ranks, sizeof *stages);
    tryst_engine *engine;
    double first = 0, loss = 0;
    if (!stages) {
        perror("stage");
        exit(1);
    }
    stages[me] = affine_open(me, ranks); /* the others' entries stay NULL */
    tryst_engine_params params = {.struct_size = sizeof params,
                                  .ctx = ctx,
                                  .group = group,
                                  .program = program,
                                  .stages = stages,
                                  .feed = feed};
    must(tryst_engine_open(&params, &engine));
    for (uint64_t step = 1; step <= STEPS; step++) {
        must(tryst_engine_step(engine, step, &loss)); /* on the last rank; else NAN */
        if (step == 1)
            first = loss;
    }
    must(tryst_engine_finish(engine));
    tryst_engine_close(engine);
    tryst_stage_close(stages[me]);
    free(stages);
    if (me == ranks - 1)
        printf("stage: %d ranks, %s, loss %.4f to %.4f in %d steps\n", ranks,
               TRYST_SCHEDULE_DEFAULT, first, loss, STEPS);
    return me != ranks - 1 || loss < first / 5;
}

int main(void)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_program *program;
    must(tryst_open(NULL, &ctx));
    must(tryst_group_open(ctx, NULL, &group));
    tryst_schedule_params schedule = {.struct_size = sizeof schedule,
                                      .ranks_count = tryst_group_size(group),
                                      .microbatches_count = MICROBATCHES};
    must(tryst_program_generate(TRYST_SCHEDULE_DEFAULT, &schedule, &program));
    must(tryst_program_check(program, NULL, NULL));
    int learned = train(ctx, group, program);
    if (!learned)
        fprintf(stderr, "stage: the loss is still high\n");
    tryst_program_close(program);
    tryst_group_close(group);
    tryst_close(ctx);
    return !learned;
}
