/* SPDX-License-Identifier: Apache-2.0 */
/* Every refusal of libtryst_pipeline's headers sets a text in tryst_last_error: "cannot
 * do X: reason". */
#include <string.h>
#include <tryst/data.h>
#include <tryst/pipeline.h>
#include <tryst/replay.h>
#include <tryst/weights.h>
#include <unistd.h>

#include "actions.h"
#include "stage_update.h"
#include "support/unit.h"

static const tryst_layers all = {0, 2};
static const tryst_model sleeper = {
    .struct_size = sizeof sleeper, .kind = TRYST_MODEL_SLEEP, .layers = 2};
static const tryst_model mlp = {.struct_size = sizeof mlp,
                                .kind = TRYST_MODEL_MLP,
                                .layers = 2,
                                .hidden = 8,
                                .seq = 8,
                                .microbatch_size = 1};

static struct {
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_program *program; /* one rank, one stage */
    tryst_program *wide;    /* two ranks */
    tryst_stage *stage;
    tryst_stage *computes;
    tryst_engine *engine;
} at;

/* Check that the text is new, has the form, and contains `word`. */
#define REFUSED(status, expression, word)                                              \
    do {                                                                               \
        (void)tryst_last_error_set(TRYST_OK, "untouched");                             \
        const tryst_status status_ = (expression);                                     \
        if (status_ != (status) || strncmp(tryst_last_error(), "cannot ", 7) != 0 ||   \
            !strchr(tryst_last_error(), ':') || !strstr(tryst_last_error(), (word))) { \
            fail_msg("%s: %s, \"%s\"", #expression, tryst_status_name(status_),        \
                     tryst_last_error());                                              \
        }                                                                              \
    } while (0)
#define INVALID(expression, word) REFUSED(TRYST_E_INVALID, expression, word)

static int file_open(char path[256])
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, 256, "%s/tryst-refusals-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    return fd;
}

/* ---- pipeline.h -------------------------------------------------------------------- */

static void test_programs(void **state)
{
    tryst_program *program = NULL;
    const tryst_action outside = ACTION(TRYST_ACTION_FORWARD, 7, 0, 0);
    const tryst_action none = ACTION(TRYST_ACTION_FORWARD, 0, 0, 0);
    const tryst_check_params unset = {.versions_max = 1};
    const tryst_check_params few = {.struct_size = sizeof few, .activations_max = 1};
    (void)state;
    INVALID(tryst_program_open(0, 1, 1, &program), "0 ranks");
    INVALID(tryst_program_open(2, 1, 1, &program), "1 stages");
    INVALID(tryst_program_append(at.program, 0, &outside), "stage 7");
    INVALID(tryst_program_append(at.program, 3, &none), "rank 3");
    INVALID(tryst_program_generate("gpipe", SCHEDULE(0, 1), &program), "0 ranks");
    REFUSED(TRYST_E_PROGRAM, tryst_program_generate("2f2b", SCHEDULE(1, 1), &program),
            "gpipe");
    REFUSED(TRYST_E_IO, tryst_program_load_csv("/nonexistent/x", &program), "No such");
    REFUSED(TRYST_E_IO, tryst_program_save_csv(at.program, "/nonexistent/x"), "No such");
    INVALID(tryst_program_check(at.program, &unset, NULL), "struct_size");
    REFUSED(TRYST_E_PROGRAM, tryst_program_check(at.wide, &few, NULL), "<-- ERROR HERE");
    assert_null(program);
}

static void test_files(void **state)
{
    static const char *const contents[] = {"0F0,0X0\n", "\n", "0UPDATE\n", "0F0\n0B0\n",
                                           "9F9\n"};
    char path[256];
    tryst_program *program = NULL;
    int fd = file_open(path);
    (void)state;
    for (size_t i = 0; i < COUNT_OF(contents); i++) {
        size_t length = strlen(contents[i]);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, contents[i], length, 0), length);
        REFUSED(TRYST_E_PROGRAM, tryst_program_load_csv(path, &program), path);
    }
    assert_int_equal(ftruncate(fd, 4), 0); /* "9F9\n" */
    assert_int_equal(pwrite(fd, "", 1, 1), 1);
    REFUSED(TRYST_E_PROGRAM, tryst_program_load_csv(path, &program), "zero byte");
    close(fd);
    unlink(path);
    assert_null(program);
}

static void test_simulation(void **state)
{
    static const tryst_action_costs costs[2] = {{.forward_s = -1}};
    static const tryst_action_costs free_of_cost[2];
    tryst_sim_params params = {.costs = costs};
    tryst_sim *sim = NULL;
    tryst_program *stuck = NULL;
    const tryst_action backward = ACTION(TRYST_ACTION_BACKWARD, 0, 0, 0);
    (void)state;
    INVALID(tryst_program_simulate(at.program, &params, &sim), "struct_size");
    params.struct_size = sizeof params;
    INVALID(tryst_program_simulate(at.program, NULL, &sim), "costs is NULL");
    INVALID(tryst_program_simulate(at.program, &params, &sim), "cost of stage 0");
    params.costs = free_of_cost;
    params.cores_count = -1;
    INVALID(tryst_program_simulate(at.program, &params, &sim), "cores_count");
    params.cores_count = 0;
    assert_int_equal(tryst_program_open(1, 1, 1, &stuck), TRYST_OK);
    assert_int_equal(tryst_program_append(stuck, 0, &backward), TRYST_OK);
    REFUSED(TRYST_E_PROGRAM, tryst_program_simulate(stuck, &params, &sim), "rank 0");
    tryst_program_close(stuck);
    assert_null(sim);
}

static void test_engine(void **state)
{
    tryst_stage *none[2] = {NULL, NULL};
    tryst_engine *engine = NULL;
    tryst_engine_stats stats = {.steps_count = 0};
    tryst_engine_params params = {
        .ctx = at.ctx, .group = at.group, .program = at.program, .stages = none};
    (void)state;
    INVALID(tryst_engine_open(NULL, &engine), "params is NULL");
    INVALID(tryst_engine_open(&params, &engine), "struct_size");
    params.struct_size = sizeof params;
    INVALID(tryst_engine_open(&params, &engine), "has no stage 0");
    params.program = at.wide;
    INVALID(tryst_engine_open(&params, &engine), "the group has 1");
    assert_null(engine);
    INVALID(tryst_engine_stats_get(NULL, &stats), "NULL");
    INVALID(tryst_engine_stats_get(at.engine, NULL), "NULL");
    INVALID(tryst_engine_stats_get(at.engine, &stats), "struct_size");
    tryst_engine_cost cost = {.counts = {7}};
    INVALID(tryst_engine_cost_get(NULL, 0, &cost), "engine is NULL");
    INVALID(tryst_engine_cost_get(at.engine, 0, NULL), "NULL");
    INVALID(tryst_engine_cost_get(at.engine, 0, &cost), "struct_size");
    cost.struct_size = sizeof cost;
    INVALID(tryst_engine_cost_get(at.engine, -1, &cost), "stage -1");
    INVALID(tryst_engine_cost_get(at.engine, 1, &cost), "no such stage");
    assert_true(cost.counts[0] == 7);
}

/* ---- stage.h ----------------------------------------------------------------------- */

static void test_models(void **state)
{
    const tryst_model unset = {.kind = TRYST_MODEL_MLP};
    tryst_model model = mlp, resolved = {.seq = 0};
    tryst_layers layers;
    (void)state;
    INVALID(tryst_model_parse("mlp", &resolved), "struct_size");
    REFUSED(TRYST_E_CONFIG, tryst_model_parse("gpt2", &model), "sleep:F_ms,B_ms");
    INVALID(tryst_model_resolve(&mlp, &resolved), "struct_size");
    INVALID(tryst_model_resolve(&mlp, NULL), "NULL");
    INVALID(tryst_model_resolve(&unset, &model), "struct_size");
    INVALID(tryst_model_resolve(NULL, &model), "kind 0");
    model.seq = -1;
    INVALID(tryst_model_resolve(&model, &model), "seq");
    INVALID(tryst_model_split(&unset, 1, 0, &layers), "struct_size");
    INVALID(tryst_model_split(&mlp, 0, 0, &layers), "stage 0 of 0");
    INVALID(tryst_model_split(&mlp, 3, 0, &layers), "more layers");
    assert_int_equal(tryst_model_weights_count(&unset), 0);
}

static tryst_status stage_open(const tryst_model *model, tryst_stage_params params)
{
    tryst_stage *stage = NULL;
    params.struct_size = sizeof params;
    tryst_status status = tryst_stage_open(model, all, &params, &stage);
    assert_null(stage);
    return status;
}
#define STAGE(model, ...) stage_open(model, (tryst_stage_params){__VA_ARGS__})

static void test_stages(void **state)
{
    const tryst_stage_params unset = {.versions_count = 1};
    const tryst_optimizer optimizer = {.kind = TRYST_OPTIMIZER_SGD};
    const tryst_optimizer unknown = {.struct_size = sizeof unknown,
                                     .kind = (tryst_optimizer_kind)9};
    tryst_stage_params params = {.struct_size = sizeof params};
    tryst_stage_memory need = {.struct_size = sizeof need}, none = {.total_bytes = 0};
    tryst_stage *stage = NULL;
    (void)state;
    INVALID(tryst_stage_open(&mlp, all, &unset, &stage), "struct_size");
    INVALID(tryst_stage_open(NULL, all, NULL, &stage), "kind 0");
    INVALID(tryst_stage_open(&mlp, (tryst_layers){0, 9}, NULL, &stage), "layers 0 to 9");
    assert_null(stage);
    INVALID(STAGE(&mlp, .versions_count = -1), "versions_count");
    INVALID(STAGE(&mlp, .slots_count = -1), "slots_count");
    INVALID(STAGE(&mlp, .delta_decay = 1), "delta_decay");
    INVALID(STAGE(&mlp, .optimizer = &optimizer), "struct_size");
    INVALID(STAGE(&mlp, .optimizer = &unknown), "kind 9");
    INVALID(STAGE(&sleeper, .reference = true), "runs on the host");
    INVALID(STAGE(&mlp, .reference = true, .memory = TRYST_MEMORY_CUDA), "reference");
    INVALID(STAGE(&mlp, .reference = true, .precision = (tryst_precision)9), "9");
    INVALID(STAGE(&mlp, .memory = (tryst_memory_kind)99), "kind 99");
    REFUSED(TRYST_E_UNSUPPORTED, STAGE(&mlp, .recompute = true), "host stages");
    REFUSED(TRYST_E_UNSUPPORTED, STAGE(&mlp, .reference = true, .device = 3), "3");
    REFUSED(TRYST_E_NOMEM, STAGE(&mlp, .reference = true, .memory_bytes_max = 9),
            "out of memory");
    REFUSED(TRYST_E_UNSUPPORTED, tryst_stage_memory_need(&mlp, all, &params, &need),
            "device stages");
    params.reference = true;
    INVALID(tryst_stage_memory_need(&mlp, all, &params, &none), "struct_size");
    INVALID(tryst_stage_memory_need(&mlp, all, &params, NULL), "NULL");
    INVALID(tryst_stage_memory_need(&sleeper, all, &params, &need), "runs on the host");
}

/* The library's stages refuse the calls of the engine and the replay in the same form. */
static void test_works(void **state)
{
    tryst_stage *const stages[] = {at.stage, at.computes};
    double loss = 0;
    static uint8_t bytes[64];
    static _Alignas(64) char room[1 << 18];
    const tryst_stage_work unset = {.output = &loss, .kept = room};
    const tryst_stage_work stale = {.struct_size = sizeof stale,
                                    .version = 7,
                                    .input = bytes,
                                    .target = bytes,
                                    .output = &loss,
                                    .saved = room,
                                    .kept = room};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(stages); i++) {
        tryst_stage *stage = stages[i];
        INVALID(stage->ops->forward(stage, &unset), "struct_size");
        INVALID(stage->ops->backward(stage, &unset), "struct_size");
        INVALID(stage->ops->backward_weight(stage, &unset), "struct_size");
        INVALID(stage->ops->forward(stage, &stale), "version 7");
        INVALID(stage->ops->backward(stage, &stale), "version 7");
        INVALID(stage->ops->backward_weight(stage, &stale), "version 7");
        INVALID(stage->ops->update(stage, UPDATE(.microbatches = 0)), "0 micro-batches");
        INVALID(stage->ops->predict(stage, PREDICTION(.slot = 1)), "0 slots");
    }
}

/* ---- data.h, weights.h, replay.h --------------------------------------------------- */

static void test_data(void **state)
{
    char path[256];
    tryst_data *data = NULL;
    uint8_t window[16];
    int fd = file_open(path);
    (void)state;
    assert_int_equal(ftruncate(fd, 20), 0);
    INVALID(tryst_data_open(path, 0, 0, &data), "seq");
    REFUSED(TRYST_E_IO, tryst_data_open("/nonexistent/x", 16, 0, &data), "No such");
    REFUSED(TRYST_E_IO, tryst_data_open("/", 16, 0, &data), "directory");
    REFUSED(TRYST_E_IO, tryst_data_open(path, 20, 0, &data), "20 bytes");
    assert_null(data);
    assert_int_equal(tryst_data_open(path, 16, 0, &data), TRYST_OK);
    assert_int_equal(ftruncate(fd, 0), 0);
    REFUSED(TRYST_E_IO, tryst_data_windows(data, 0, 0, 1, window, NULL), "shorter");
    tryst_data_close(data);
    close(fd);
    unlink(path);
}

static int stop_late(tryst_stage *stage, tryst_parameter_fn fn, void *arg)
{
    (void)stage;
    (void)fn;
    (void)arg;
    return TRYST_E_DEADLINE;
}

static void test_weights(void **state)
{
    const tryst_stage_params doubles = {.struct_size = sizeof doubles,
                                        .reference = true,
                                        .precision = TRYST_PRECISION_F64};
    const tryst_stage_ops late_ops = {.struct_size = sizeof late_ops,
                                      .parameter_visit = stop_late};
    tryst_stage late = {.ops = &late_ops, .info.struct_size = sizeof late.info};
    tryst_stage *stage = NULL;
    static float weights[1 << 16];
    uint64_t count = tryst_model_weights_count(&mlp);
    (void)state;
    assert_true(count > 0 && count < COUNT_OF(weights));
    INVALID(tryst_weights_save(NULL, weights, 1, "/dev/null"), "kind 0");
    INVALID(tryst_weights_save(&mlp, weights, 1, "/dev/null"), "not 1");
    REFUSED(TRYST_E_IO, tryst_weights_save(&mlp, weights, count, "/dev/null"), "regular");
    REFUSED(TRYST_E_IO, tryst_weights_save(&mlp, weights, count, "/nonexistent/x"),
            "No such");
    assert_int_equal(tryst_stage_open(&mlp, all, &doubles, &stage), TRYST_OK);
    REFUSED(TRYST_E_UNSUPPORTED, tryst_stage_weights_copy(stage, weights), "f64");
    tryst_stage_close(stage);
    REFUSED(TRYST_E_DEADLINE, tryst_stage_weights_copy(&late, weights), "copy");
}

static void test_replay(void **state)
{
    tryst_stage *none[2] = {NULL, NULL};
    double losses[1];
    tryst_program *stuck = NULL;
    const tryst_action backward = ACTION(TRYST_ACTION_BACKWARD, 0, 0, 0);
    tryst_replay_params params = {
        .program = at.program, .stages = none, .steps_count = 1, .losses = losses};
    (void)state;
    INVALID(tryst_replay(NULL), "params is NULL");
    INVALID(tryst_replay(&params), "struct_size");
    params.struct_size = sizeof params;
    INVALID(tryst_replay(&params), "stage 0 of 1");
    assert_int_equal(tryst_program_open(1, 1, 1, &stuck), TRYST_OK);
    assert_int_equal(tryst_program_append(stuck, 0, &backward), TRYST_OK);
    params.program = stuck;
    params.stages = &at.stage;
    REFUSED(TRYST_E_PROGRAM, tryst_replay(&params), "0B0");
    tryst_program_close(stuck);
}

/* A call that succeeds leaves the previous text. */
static void test_kept(void **state)
{
    tryst_model model = mlp;
    (void)state;
    (void)tryst_last_error_set(TRYST_OK, "untouched");
    assert_int_equal(tryst_model_resolve(&mlp, &model), TRYST_OK);
    assert_int_equal(tryst_program_check(at.wide, NULL, NULL), TRYST_OK);
    assert_string_equal(tryst_last_error(), "untouched");
}

static int setup(void **state)
{
    (void)state;
    setenv("TRYST_SIZE", "1", 1);
    assert_int_equal(tryst_open(NULL, &at.ctx), TRYST_OK);
    assert_int_equal(tryst_group_open(at.ctx, NULL, &at.group), TRYST_OK);
    assert_int_equal(tryst_program_generate("gpipe", SCHEDULE(1, 1), &at.program),
                     TRYST_OK);
    assert_int_equal(tryst_program_generate("gpipe", SCHEDULE(2, 2), &at.wide), TRYST_OK);
    assert_int_equal(tryst_stage_open(&sleeper, all, NULL, &at.stage), TRYST_OK);
    assert_int_equal(tryst_stage_open(&mlp, all, NULL, &at.computes), TRYST_OK);
    const tryst_engine_params params = {.struct_size = sizeof params,
                                        .ctx = at.ctx,
                                        .group = at.group,
                                        .program = at.program,
                                        .stages = &at.stage};
    assert_int_equal(tryst_engine_open(&params, &at.engine), TRYST_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tryst_engine_close(at.engine);
    tryst_stage_close(at.computes);
    tryst_stage_close(at.stage);
    tryst_program_close(at.wide);
    tryst_program_close(at.program);
    tryst_group_close(at.group);
    tryst_close(at.ctx);
    return 0;
}

/* A NULL handle, and a NULL argument that a call needs: the rule of tryst.h. */
static void test_nulls(void **state)
{
    const tryst_action action = ACTION(TRYST_ACTION_FORWARD, 0, 0, 0);
    tryst_program *program = NULL;
    tryst_model model = {.struct_size = sizeof model};
    size_t count = 7;
    float weight;
    (void)state;
    INVALID(tryst_program_append(NULL, 0, &action), "program is NULL");
    INVALID(tryst_program_append(at.program, 0, NULL), "action is NULL");
    INVALID(tryst_program_generate(NULL, SCHEDULE(1, 1), &program), "schedule is NULL");
    INVALID(tryst_program_generate("gpipe", SCHEDULE(1, 1), NULL), "program_p is NULL");
    INVALID(tryst_program_save_csv(NULL, "/dev/null"), "program is NULL");
    INVALID(tryst_program_save_csv(at.program, NULL), "path is NULL");
    INVALID(tryst_program_check(NULL, NULL, NULL), "program is NULL");
    INVALID(tryst_engine_step(NULL, 0, NULL), "engine is NULL");
    INVALID(tryst_engine_step_last(NULL, 0, NULL), "engine is NULL");
    INVALID(tryst_engine_finish(NULL), "engine is NULL");
    INVALID(tryst_stage_weights_copy(NULL, &weight), "stage is NULL");
    INVALID(tryst_stage_weights_copy(at.stage, NULL), "weights is NULL");
    INVALID(tryst_model_parse(NULL, &model), "text is NULL");
    INVALID(tryst_model_parse("gpt", NULL), "model is NULL");
    assert_string_equal(tryst_action_format(NULL, NULL, 0), "");
    assert_null(tryst_program_actions(NULL, 0, &count));
    assert_int_equal(count, 0);
    assert_null(tryst_program_actions(NULL, 0, NULL));
    assert_null(tryst_engine_spans(NULL, NULL));
    assert_int_equal(tryst_data_offset(NULL, 0, 0, 0), 0);
    tryst_engine_stats_reset(NULL);
    tryst_engine_abort(NULL, TRYST_E_ABORTED, NULL);
}

/* A digest returns nothing, so a refusal is its error text alone. */
static void test_digest_nulls(void **state)
{
    char digest[TRYST_DIGEST_TEXT_BYTES] = "old";
    float weight = 1;
    tryst_weights_digest(&weight, 1, NULL);
    assert_string_equal(tryst_last_error(), "cannot digest weights: digest is NULL");
    tryst_weights_digest(NULL, 1, digest);
    assert_string_equal(tryst_last_error(), "cannot digest weights: weights is NULL");
    assert_string_equal(digest, "");
    tryst_weights_digest(NULL, 0, digest);
    assert_string_equal(digest, "99aa06d3014798d86001c324468d497f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),     cmocka_unit_test(test_files),
        cmocka_unit_test(test_simulation),   cmocka_unit_test(test_engine),
        cmocka_unit_test(test_models),       cmocka_unit_test(test_stages),
        cmocka_unit_test(test_works),        cmocka_unit_test(test_data),
        cmocka_unit_test(test_weights),      cmocka_unit_test(test_replay),
        cmocka_unit_test(test_kept),         cmocka_unit_test(test_nulls),
        cmocka_unit_test(test_digest_nulls),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
