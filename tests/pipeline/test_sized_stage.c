/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of other versions for libtryst_pipeline (tryst/sized.h; tests/api/test_sized.c
 * tests libtryst), and stages of the caller whose table or info has another version. */
#include "actions.h"
#include "support/sized_table.h"

#include <tryst/pipeline.h>
#include <tryst/replay.h>
#include <tryst/tryst.h>

static const tryst_layers all = {0, 2};
static const tryst_model sleeper = {
    .struct_size = sizeof sleeper, .kind = TRYST_MODEL_SLEEP, .layers = 2};
static const tryst_model small_mlp = {.struct_size = sizeof small_mlp,
                                      .kind = TRYST_MODEL_MLP,
                                      .layers = 2,
                                      .hidden = 8,
                                      .seq = 8,
                                      .microbatch_size = 1};

static struct {
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_program *program;
    tryst_stage *stage, *computes;
    tryst_engine *engine;
} at;

static _Alignas(64) char saved[1 << 20], kept[1 << 20];
static double loss;
static uint8_t bytes[4096];

/* ---- inputs ------------------------------------------------------------------------ */

static void model_fill(void *sized)
{
    *(tryst_model *)sized = sleeper;
}

static tryst_status resolve_call(void *sized)
{
    tryst_model resolved = {.struct_size = sizeof resolved};
    return tryst_model_resolve(sized, &resolved);
}

static tryst_status split_call(void *sized)
{
    tryst_layers layers;
    return tryst_model_split(sized, 1, 0, &layers);
}

static tryst_status stage_open_as(const tryst_model *model,
                                  const tryst_stage_params *params)
{
    tryst_stage *stage = NULL;
    tryst_status status = tryst_stage_open(model, all, params, &stage);
    tryst_stage_close(stage);
    return status;
}

static tryst_status stage_model_call(void *sized)
{
    return stage_open_as(sized, NULL);
}

static void stage_params_fill(void *sized)
{
    *(tryst_stage_params *)sized = (tryst_stage_params){.versions_count = 1};
}

static tryst_status stage_params_call(void *sized)
{
    return stage_open_as(&sleeper, sized);
}

static void optimizer_fill(void *sized)
{
    *(tryst_optimizer *)sized = (tryst_optimizer){.kind = TRYST_OPTIMIZER_SGD};
}

static tryst_status optimizer_call(void *sized)
{
    const tryst_model model = {.struct_size = sizeof model,
                               .kind = TRYST_MODEL_MLP,
                               .layers = 2,
                               .hidden = 8,
                               .seq = 8};
    const tryst_stage_params params = {.struct_size = sizeof params, .optimizer = sized};
    return stage_open_as(&model, &params);
}

static void work_fill(void *sized)
{
    *(tryst_stage_work *)sized = (tryst_stage_work){
        .input = bytes, .target = bytes, .output = &loss, .saved = saved, .kept = kept};
}

static tryst_status sleep_work_call(void *sized)
{
    return at.stage->ops->forward(at.stage, sized);
}

static tryst_status forward_call(void *sized)
{
    return at.computes->ops->forward(at.computes, sized);
}

static tryst_status backward_call(void *sized)
{
    return at.computes->ops->backward(at.computes, sized);
}

static tryst_status backward_weight_call(void *sized)
{
    return at.computes->ops->backward_weight(at.computes, sized);
}

/* Call a stage of each kind, which is closed again: an update changes it. */
static tryst_status stages_call(tryst_status (*call)(tryst_stage *stage,
                                                     const void *sized),
                                const void *sized)
{
    const tryst_model models[] = {sleeper, small_mlp};
    const tryst_stage_params params = {.struct_size = sizeof params, .slots_count = 1};
    tryst_status statuses[COUNT_OF(models)];
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        tryst_stage *stage = NULL;
        assert_int_equal(tryst_stage_open(&models[i], all, &params, &stage), TRYST_OK);
        statuses[i] = call(stage, sized);
        tryst_stage_close(stage);
    }
    assert_int_equal(statuses[0], statuses[1]);
    return statuses[0];
}

static void update_fill(void *sized)
{
    *(tryst_stage_update *)sized = (tryst_stage_update){.microbatches = 1};
}

static tryst_status stage_update(tryst_stage *stage, const void *sized)
{
    return stage->ops->update(stage, sized);
}

static tryst_status update_call(void *sized)
{
    return stages_call(stage_update, sized);
}

static tryst_status stage_update_begin(tryst_stage *stage, const void *sized)
{
    return stage->ops->update_begin(stage, sized);
}

static tryst_status update_begin_call(void *sized)
{
    return stages_call(stage_update_begin, sized);
}

static void prediction_fill(void *sized)
{
    *(tryst_stage_prediction *)sized = (tryst_stage_prediction){.slot = 1};
}

static tryst_status stage_predict(tryst_stage *stage, const void *sized)
{
    return stage->ops->predict(stage, sized);
}

static tryst_status predict_call(void *sized)
{
    return stages_call(stage_predict, sized);
}

static void check_fill(void *sized)
{
    *(tryst_check_params *)sized = (tryst_check_params){.versions_max = 9};
}

static tryst_status check_call(void *sized)
{
    return tryst_program_check(at.program, sized, NULL);
}

static void generate_fill(void *sized)
{
    *(tryst_schedule_params *)sized =
        (tryst_schedule_params){.ranks_count = 1, .microbatches_count = 1};
}

static tryst_status generate_call(void *sized)
{
    tryst_program *program = NULL;
    tryst_status status = tryst_program_generate("gpipe", sized, &program);
    tryst_program_close(program);
    return status;
}

static tryst_status need_call(void *sized)
{
    return tryst_program_stage_need(at.program, 0, sized);
}

static void sim_fill(void *sized)
{
    static const tryst_action_costs costs = {1, 1, 1, 1, 1, 1};
    *(tryst_sim_params *)sized = (tryst_sim_params){.costs = &costs};
}

static tryst_status sim_call(void *sized)
{
    tryst_sim *sim = NULL;
    tryst_status status = tryst_program_simulate(at.program, sized, &sim);
    if (sim)
        assert_int_equal(sim->struct_size, sizeof *sim);
    tryst_sim_free(sim);
    return status;
}

static void engine_fill(void *sized)
{
    *(tryst_engine_params *)sized = (tryst_engine_params){
        .ctx = at.ctx, .group = at.group, .program = at.program, .stages = &at.stage};
}

static tryst_status engine_call(void *sized)
{
    tryst_engine *engine = NULL;
    tryst_status status = tryst_engine_open(sized, &engine);
    tryst_engine_close(engine);
    return status;
}

static void replay_fill(void *sized)
{
    *(tryst_replay_params *)sized = (tryst_replay_params){
        .program = at.program, .stages = &at.stage, .losses = &loss};
}

static tryst_status replay_call(void *sized)
{
    return tryst_replay(sized);
}

static void result_fill(void *sized)
{
    *(tryst_replay_result *)sized = (tryst_replay_result){.losses = &loss};
}

static tryst_status result_call(void *sized)
{
    const tryst_replay_result other = {.struct_size = sizeof other, .losses = &loss};
    char text[256];
    return tryst_replay_equal(&sleeper, 0, 1, sized, &other, text, sizeof text) &&
                   tryst_replay_equal(&sleeper, 0, 1, &other, sized, text, sizeof text)
               ? TRYST_OK
               : TRYST_E_INVALID;
}

/* ---- outputs ----------------------------------------------------------------------- */

static tryst_status resolved_call(void *sized)
{
    return tryst_model_resolve(&sleeper, sized);
}

static tryst_status cost_call(void *sized)
{
    at.stage->ops->cost(at.stage, sized);
    at.computes->ops->cost(at.computes, sized);
    return tryst_sized_is_set(sized) ? TRYST_OK : TRYST_E_INVALID;
}

static tryst_status part_call(void *sized)
{
    return at.computes->ops->part(at.computes, 0, sized);
}

static tryst_status memory_call(void *sized)
{
    const tryst_model model = {
        .struct_size = sizeof model, .kind = TRYST_MODEL_MLP, .layers = 2};
    const tryst_stage_params params = {.struct_size = sizeof params, .reference = true};
    return tryst_stage_memory_need(&model, all, &params, sized);
}

static tryst_status stats_call(void *sized)
{
    return tryst_engine_stats_get(at.engine, sized);
}

static tryst_status engine_cost_call(void *sized)
{
    return tryst_engine_cost_get(at.engine, 0, sized);
}

static void test_structs(void **state)
{
    static const struct sized_row rows[] = {
        SIZED_INPUT(tryst_model, layers, model_fill, resolve_call, TRYST_OK),
        SIZED_INPUT(tryst_model, layers, model_fill, split_call, TRYST_OK),
        SIZED_INPUT(tryst_model, layers, model_fill, stage_model_call, TRYST_OK),
        SIZED_INPUT(tryst_stage_params, struct_size, stage_params_fill, stage_params_call,
                    TRYST_OK),
        SIZED_INPUT(tryst_optimizer, struct_size, optimizer_fill, optimizer_call,
                    TRYST_OK),
        SIZED_INPUT(tryst_stage_work, output, work_fill, sleep_work_call, TRYST_OK),
        SIZED_INPUT(tryst_stage_work, saved, work_fill, forward_call, TRYST_OK),
        SIZED_INPUT(tryst_stage_work, saved, work_fill, backward_call, TRYST_OK),
        SIZED_INPUT(tryst_stage_work, kept, work_fill, backward_weight_call, TRYST_OK),
        SIZED_INPUT(tryst_stage_update, microbatches, update_fill, update_call, TRYST_OK),
        SIZED_INPUT(tryst_stage_update, microbatches, update_fill, update_begin_call,
                    TRYST_OK),
        SIZED_INPUT(tryst_stage_prediction, slot, prediction_fill, predict_call,
                    TRYST_OK),
        SIZED_INPUT(tryst_check_params, struct_size, check_fill, check_call, TRYST_OK),
        SIZED_INPUT(tryst_schedule_params, microbatches_count, generate_fill,
                    generate_call, TRYST_OK),
        SIZED_INPUT(tryst_sim_params, costs, sim_fill, sim_call, TRYST_OK),
        SIZED_INPUT(tryst_engine_params, stages, engine_fill, engine_call, TRYST_OK),
        SIZED_INPUT(tryst_replay_params, stages, replay_fill, replay_call, TRYST_OK),
        SIZED_INPUT(tryst_replay_result, losses, result_fill, result_call, TRYST_OK),
        SIZED_OUTPUT(tryst_model, resolved_call, TRYST_OK),
        SIZED_OUTPUT(tryst_stage_need, need_call, TRYST_OK),
        SIZED_OUTPUT(tryst_stage_cost, cost_call, TRYST_OK),
        SIZED_OUTPUT(tryst_stage_memory, memory_call, TRYST_OK),
        SIZED_OUTPUT(tryst_stage_part, part_call, TRYST_OK),
        SIZED_OUTPUT(tryst_engine_stats, stats_call, TRYST_OK),
        SIZED_OUTPUT(tryst_engine_cost, engine_cost_call, TRYST_OK),
    };
    (void)state;
    sized_check(rows, COUNT_OF(rows));
}

/* tryst_model_parse sets some fields of a struct that the caller has initialised. */
static void test_parse(void **state)
{
    tryst_model model = {.struct_size = sizeof model, .layers = 3};
    tryst_model unset = {.layers = 3};
    (void)state;
    assert_int_equal(tryst_model_parse("sleep:1,2", &model), TRYST_OK);
    assert_int_equal(model.kind, TRYST_MODEL_SLEEP);
    assert_int_equal(model.layers, 3);
    assert_int_equal(model.sleep_backward_ns, 2000000);
    assert_int_equal(tryst_model_parse("gpt", &unset), TRYST_E_INVALID);
    assert_string_equal(tryst_last_error(),
                        "cannot read tryst_model: struct_size is not set; set it "
                        "with sizeof");
    assert_int_equal(unset.kind, 0);
    model.struct_size = offsetof(tryst_model, kind) + sizeof model.kind;
    model.sleep_backward_ns = 5;
    assert_int_equal(tryst_model_parse("sleep:1,2", &model), TRYST_OK);
    assert_int_equal(model.sleep_backward_ns, 5); /* not part of the struct */
}

/* ---- stages of the caller ---------------------------------------------------------- */

struct later_ops {
    tryst_stage_ops known;
    void (*later)(void);
};

static void later(void)
{
}

static tryst_status own_stage(const tryst_stage_ops *ops, size_t info_bytes)
{
    struct {
        tryst_stage base;
        char later[16];
    } own = {.base = *at.stage};
    tryst_stage *stages[] = {&own.base};
    tryst_engine_params params;
    tryst_replay_params replay;
    own.base.ops = ops;
    own.base.info.struct_size = info_bytes;
    engine_fill(&params);
    replay_fill(&replay);
    params.struct_size = sizeof params;
    params.stages = stages;
    replay.struct_size = sizeof replay;
    replay.stages = stages;
    tryst_status status = engine_call(&params);
    assert_int_equal(tryst_replay(&replay), status);
    return status;
}

static void test_own_stage(void **state)
{
    struct later_ops ops = {.known = *at.stage->ops};
    size_t info = sizeof at.stage->info;
    (void)state;
    assert_int_equal(own_stage(&ops.known, info), TRYST_OK);
    ops.known.struct_size = sizeof ops;
    assert_int_equal(own_stage(&ops.known, info + 16), TRYST_OK);
    ops.later = later;
    assert_int_equal(own_stage(&ops.known, info), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "a later version is set"));
    ops.known.struct_size = 0;
    assert_int_equal(own_stage(&ops.known, info), TRYST_E_INVALID);
    /* shorter than in version 0.1 */
    ops.known.struct_size = offsetof(tryst_stage_ops, error);
    assert_int_equal(own_stage(&ops.known, info), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "tryst_stage_ops is too small"));
    assert_int_equal(own_stage(at.stage->ops, 0), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "tryst_stage_info is too small"));
}

static int parameter_seen(void *arg, const tryst_parameter *parameter)
{
    *(int *)arg += 1;
    assert_int_equal(parameter->struct_size, sizeof *parameter);
    return 0;
}

static void test_callbacks(void **state)
{
    int count = 0;
    (void)state;
    assert_int_equal(
        at.computes->ops->parameter_visit(at.computes, parameter_seen, &count), 0);
    assert_true(count > 4);
}

/* The library's own structs have the size of these headers. */
static void test_given(void **state)
{
    const tryst_schedule *schedule = tryst_program_schedule(0);
    assert_int_equal(schedule->struct_size, sizeof *schedule);
}

/* ---- setup ------------------------------------------------------------------------- */

static int setup(void **state)
{
    tryst_engine_params params;
    (void)state;
    setenv("TRYST_SIZE", "1", 1);
    assert_int_equal(tryst_open(NULL, &at.ctx), TRYST_OK);
    assert_int_equal(tryst_group_open(at.ctx, NULL, &at.group), TRYST_OK);
    assert_int_equal(tryst_program_generate("gpipe", SCHEDULE(1, 1), &at.program),
                     TRYST_OK);
    assert_int_equal(tryst_stage_open(&sleeper, all, NULL, &at.stage), TRYST_OK);
    assert_int_equal(tryst_stage_open(&small_mlp, all, NULL, &at.computes), TRYST_OK);
    assert_true(at.computes->info.saved_bytes <= sizeof saved);
    assert_true(at.computes->info.kept_bytes <= sizeof kept);
    engine_fill(&params);
    params.struct_size = sizeof params;
    assert_int_equal(tryst_engine_open(&params, &at.engine), TRYST_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tryst_engine_close(at.engine);
    tryst_stage_close(at.computes);
    tryst_stage_close(at.stage);
    tryst_program_close(at.program);
    tryst_group_close(at.group);
    tryst_close(at.ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structs),   cmocka_unit_test(test_parse),
        cmocka_unit_test(test_own_stage), cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_given),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
