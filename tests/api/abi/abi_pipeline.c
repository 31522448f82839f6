/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was built against the frozen headers of libtryst_pipeline, with the
 * libraries of the tree: stages, one of them the program's own, a program, its
 * simulation, the engine, the replay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tryst/pipeline.h>
#include <tryst/replay.h>
#include <tryst/sized.h>
#include <tryst/weights.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define OK(call) CHECK((call) == TRYST_OK)

static const tryst_layers all = {0, 2};

/* ---- a stage of the program's own: hands everything to one of the library ---------- */

typedef struct own_stage {
    tryst_stage base;
    tryst_stage *inner;
    int calls;
} own_stage;

static tryst_status own_forward(tryst_stage *base, const tryst_stage_work *given)
{
    own_stage *self = (own_stage *)base;
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof room);
    self->calls++;
    return work ? self->inner->ops->forward(self->inner, work) : TRYST_E_INVALID;
}

static tryst_status own_backward(tryst_stage *base, const tryst_stage_work *given)
{
    own_stage *self = (own_stage *)base;
    tryst_stage_work room;
    const tryst_stage_work *work = tryst_sized_view(given, &room, sizeof room);
    self->calls++;
    return work ? self->inner->ops->backward(self->inner, work) : TRYST_E_INVALID;
}

static tryst_status own_update(tryst_stage *base, const tryst_stage_update *how)
{
    own_stage *self = (own_stage *)base;
    return self->inner->ops->update(self->inner, how);
}

static void own_versions(const tryst_stage *base, uint64_t *oldest_p, uint64_t *newest_p)
{
    const own_stage *self = (const own_stage *)base;
    self->inner->ops->versions(self->inner, oldest_p, newest_p);
}

static int own_visit(tryst_stage *base, tryst_parameter_fn fn, void *arg)
{
    own_stage *self = (own_stage *)base;
    return self->inner->ops->parameter_visit(self->inner, fn, arg);
}

static void own_cost(const tryst_stage *base, tryst_stage_cost *cost_p)
{
    const own_stage *self = (const own_stage *)base;
    self->inner->ops->cost(self->inner, cost_p);
}

static void own_close(tryst_stage *base)
{
    tryst_stage_close(((own_stage *)base)->inner);
}

static const tryst_stage_ops own_ops = {.struct_size = sizeof own_ops,
                                        .name = "own",
                                        .forward = own_forward,
                                        .backward = own_backward,
                                        .update = own_update,
                                        .versions = own_versions,
                                        .parameter_visit = own_visit,
                                        .cost = own_cost,
                                        .close = own_close};

static void own_open(own_stage *self, const tryst_model *model)
{
    const tryst_optimizer optimizer = {.struct_size = sizeof optimizer,
                                       .kind = TRYST_OPTIMIZER_SGD};
    const tryst_stage_params params = {.struct_size = sizeof params,
                                       .optimizer = &optimizer};
    memset(self, 0, sizeof *self);
    OK(tryst_stage_open(model, all, &params, &self->inner));
    self->base.ops = &own_ops;
    self->base.info = self->inner->info;
    self->base.info.struct_size = sizeof self->base.info;
    self->base.info.split_backward = false;
    CHECK(self->base.info.is_first && self->base.info.is_last);
}

/* ---- the calls --------------------------------------------------------------------- */

static tryst_status feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                         uint8_t *target)
{
    const tryst_stage_info *info = arg;
    memset(input, (int)(step + (uint64_t)microbatch), info->input_count);
    memset(target, 65, info->target_count);
    return TRYST_OK;
}

static void plan(const tryst_program *program)
{
    const tryst_check_params check = {.struct_size = sizeof check, .versions_max = 2};
    const tryst_action_costs costs = {1, 2, 1, 1, 0, 0};
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = &costs};
    tryst_program_peak peak;
    tryst_sim *sim;
    size_t count;
    OK(tryst_program_check(program, &check, &peak));
    CHECK(peak.activations == 2 && tryst_program_actions(program, 0, &count) &&
          count == 5);
    OK(tryst_program_simulate(program, &params, &sim));
    CHECK(sim->struct_size >= sizeof *sim && sim->makespan_s == 6 &&
          sim->ranks_count == 1);
    CHECK(sim->events[0][0].end_s == 1 && sim->ranks[0].busy_s == 6);
    tryst_sim_free(sim);
}

static double train(tryst_ctx *ctx, tryst_group *group, const tryst_program *program,
                    own_stage *stage)
{
    tryst_stage *stages[] = {&stage->base};
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = ctx,
                                        .group = group,
                                        .program = program,
                                        .stages = stages,
                                        .feed = feed,
                                        .feed_arg = &stage->base.info};
    struct {
        tryst_engine_stats sized;
        unsigned char behind[64];
    } stats;
    tryst_engine *engine;
    double loss = 0;
    size_t spans;
    memset(&stats, 0x5a, sizeof stats);
    stats.sized.struct_size = sizeof stats.sized;
    OK(tryst_engine_open(&params, &engine));
    OK(tryst_engine_step(engine, 1, &loss));
    OK(tryst_engine_finish(engine));
    OK(tryst_engine_stats_get(engine, &stats.sized));
    CHECK(stats.sized.steps_count == 1 && stats.behind[0] == 0x5a);
    CHECK(stats.sized.action_counts[TRYST_ACTION_FORWARD] == 2);
    CHECK(tryst_engine_spans(engine, &spans) && spans >= 5);
    tryst_engine_close(engine);
    CHECK(stage->calls == 4);
    return loss;
}

static void compare(const tryst_model *model, const tryst_program *program, double loss)
{
    own_stage stage;
    tryst_stage *stages[] = {&stage.base};
    double again = 0;
    const tryst_replay_params params = {.struct_size = sizeof params,
                                        .program = program,
                                        .stages = stages,
                                        .feed = feed,
                                        .feed_arg = &stage.base.info,
                                        .first_step = 1,
                                        .steps_count = 1,
                                        .losses = &again};
    const tryst_replay_result run = {.struct_size = sizeof run, .losses = &loss};
    const tryst_replay_result replay = {.struct_size = sizeof replay, .losses = &again};
    char text[256];
    own_open(&stage, model);
    OK(tryst_replay(&params));
    CHECK(tryst_replay_equal(model, 1, 1, &run, &replay, text, sizeof text));
    tryst_stage_close(&stage.base);
}

int main(void)
{
    tryst_model model = {.struct_size = sizeof model, .layers = 2, .hidden = 8, .seq = 8};
    tryst_stage_cost cost = {.struct_size = sizeof cost};
    tryst_stage_memory need = {.struct_size = sizeof need};
    const tryst_stage_params reference = {.struct_size = sizeof reference,
                                          .reference = true};
    own_stage stage;
    tryst_program *program;
    tryst_ctx *ctx;
    tryst_group *group;
    const tryst_schedule_params one_rank = {
        .struct_size = sizeof one_rank, .ranks_count = 1, .microbatches_count = 2};
    OK(tryst_model_parse("mlp", &model));
    OK(tryst_model_resolve(&model, &model));
    OK(tryst_stage_memory_need(&model, all, &reference, &need));
    CHECK(need.total_bytes > need.weights_bytes && tryst_model_weights_count(&model) > 0);
    own_open(&stage, &model);
    stage.base.ops->cost(&stage.base, &cost);
    CHECK(cost.forward_flops > 0);
    OK(tryst_program_generate("gpipe", &one_rank, &program));
    plan(program);
    OK(tryst_open(NULL, &ctx));
    OK(tryst_group_open(ctx, NULL, &group));
    compare(&model, program, train(ctx, group, program, &stage));
    tryst_group_close(group);
    tryst_close(ctx);
    tryst_program_close(program);
    tryst_stage_close(&stage.base);
    return 0;
}
