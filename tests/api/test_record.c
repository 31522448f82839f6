/* SPDX-License-Identifier: Apache-2.0 */
/* TRYST_PROFILE: a program of several ranks with planted computation, and the profile
 * that each rank writes of it. */
#include "support/unit.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <tryst/coll.h>
#include <tryst/profile.h>
#include <unistd.h>

#include "harness.h"
#include "support/child.h"

enum {
    LAYERS = 4,
    NODES_MAX = 64,
    STEPS = 6,
    COUNT = 20000,
    BACKWARD_MS = 12,
    FORWARD_MS = 9
};
enum { LINES_MAX = 8, PATH_BYTES = 128 };

/* In memory that all ranks share. */
struct shared {
    _Atomic(uint32_t) lines;
    char text[LINES_MAX][256];
    char folder[PATH_BYTES / 2];
    uint64_t runs[2]; /* of the profiles, by rank */
};
static struct shared *shared;

/* ---- a program --------------------------------------------------------------------- */

static char layer_names[LAYERS][24];

struct program {
    struct harness_rank *rank;
    float *gradients[LAYERS];
    tryst_op *ops[LAYERS];
    tryst_step *step;
    bool has_one_step; /* of the library, for all training steps */
    unsigned late_ms;  /* of the rank, in each step */
    uint64_t begin_ns, waited_ns;
    double seconds[STEPS]; /* the computation of each period */
};

static void submit(struct program *program, int layer)
{
    float *data = program->gradients[layer];
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = data,
                           .count = COUNT,
                           .dtype = TRYST_DTYPE_F32};
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)layer;
    CHECK_STATUS(tryst_allreduce(program->step, layer_names[layer], NULL, &tensor,
                                 TRYST_REDUCE_SUM, NULL, &program->ops[layer]),
                 TRYST_OK);
}

static void use(struct program *program, int layer)
{
    uint64_t begin_ns = harness_now_ns();
    harness_end(program->ops[layer], TRYST_OK);
    program->waited_ns += harness_now_ns() - begin_ns;
    for (int i = 0; i < COUNT; i++)
        CHECK(program->gradients[layer][i] == (float)(layer * program->rank->size));
}

static void step_begin(struct program *program, int number)
{
    tryst_step *before = program->step;
    if (program->has_one_step)
        CHECK_STATUS(tryst_period_begin(program->rank->group), TRYST_OK);
    if (program->has_one_step && before)
        return;
    program->step = harness_step(program->rank, (uint64_t)number + 1);
    if (before)
        harness_step_close(before);
}

/* One step: the backward pass of all layers but the last one, the forward pass, and the
 * backward pass of the last layer. */
static void step_run(struct program *program, int number)
{
    uint64_t now_ns;
    step_begin(program, number);
    harness_sleep_ms(program->late_ms);
    now_ns = harness_now_ns();
    if (number > 0)
        program->seconds[number - 1] =
            (double)(now_ns - program->begin_ns - program->waited_ns) * 1e-9;
    program->begin_ns = now_ns;
    program->waited_ns = 0;
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        submit(program, layer);
        harness_sleep_ms(layer ? BACKWARD_MS : 0);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        use(program, layer);
        harness_sleep_ms(FORWARD_MS);
    }
    harness_sleep_ms(BACKWARD_MS);
}

static void program_run(struct program *program, int steps)
{
    for (int layer = 0; layer < LAYERS; layer++)
        CHECK(program->gradients[layer] = malloc(COUNT * sizeof(float)));
    for (int number = 0; number < steps; number++)
        step_run(program, number);
    harness_step_close(program->step);
    for (int layer = 0; layer < LAYERS; layer++)
        free(program->gradients[layer]);
}

/* ---- the profile ------------------------------------------------------------------- */

static tryst_profile_node node_of(const tryst_profile *profile, uint32_t index)
{
    tryst_profile_node node = {.struct_size = sizeof node};
    CHECK_STATUS(tryst_profile_node_get(profile, index, &node), TRYST_OK);
    return node;
}

static uint32_t find(const tryst_profile *profile, const char *name)
{
    for (uint32_t i = 0; i < tryst_profile_nodes(profile); i++)
        if (strcmp(node_of(profile, i).name, name) == 0)
            return i;
    harness_fail(__FILE__, __LINE__, "the profile has no node \"%s\"", name);
}

/* True if `index` comes after `before`, perhaps by way of others. */
static bool is_after(const tryst_profile *profile, uint32_t index, uint32_t before)
{
    tryst_profile_node node = node_of(profile, index);
    for (uint32_t i = 0; i < node.after_count; i++)
        if (node.after[i] == before || is_after(profile, node.after[i], before))
            return true;
    return false;
}

/* Return the action that comes after an operation. */
static uint32_t user_of(const tryst_profile *profile, uint32_t op)
{
    for (uint32_t i = 0; i < tryst_profile_nodes(profile); i++) {
        tryst_profile_node node = node_of(profile, i);
        for (uint32_t a = 0; a < node.after_count; a++)
            if (node.after[a] == op)
                return i;
    }
    harness_fail(__FILE__, __LINE__, "no action uses \"%s\"", node_of(profile, op).name);
}

static void layers_check(const tryst_profile *profile)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        uint32_t index = find(profile, layer_names[layer]);
        tryst_profile_node node = node_of(profile, index);
        uint32_t user = user_of(profile, index);
        CHECK(node.is_operation);
        CHECK_EQ(node.bytes, COUNT * sizeof(float));
        CHECK(node.ready_s >= 0 && node.first_slice_s >= node.ready_s);
        CHECK(node.matched_s > node.ready_s && node.done_s >= node.matched_s);
        CHECK(node.done_s >= node.first_slice_s && node.first_use_s >= node.done_s);
        double seconds = node_of(profile, user).seconds;
        double least = (FORWARD_MS + (layer == LAYERS - 1 ? BACKWARD_MS : 0)) * 1e-3;
        CHECK(seconds >= least && seconds < least + 0.5);
        CHECK_EQ(node.after_count, layer < LAYERS - 1);
        if (layer < LAYERS - 1) {
            CHECK(node_of(profile, node.after[0]).seconds >= BACKWARD_MS * 1e-3);
            CHECK(is_after(profile, node.after[0], find(profile, layer_names[layer])) ==
                  false);
        }
        if (layer > 0)
            CHECK(is_after(profile, user,
                           user_of(profile, find(profile, layer_names[layer - 1]))));
    }
}

/* Return the longest path of computation; a recorded node comes after those before it. */
static double path_seconds(const tryst_profile *profile)
{
    double ends_s[NODES_MAX] = {0}, last_s = 0;
    CHECK(tryst_profile_nodes(profile) <= NODES_MAX);
    for (uint32_t i = 0; i < tryst_profile_nodes(profile); i++) {
        tryst_profile_node node = node_of(profile, i);
        for (uint32_t a = 0; a < node.after_count; a++)
            ends_s[i] = fmax(ends_s[i], ends_s[node.after[a]]);
        ends_s[i] += node.seconds;
        last_s = fmax(last_s, ends_s[i]);
    }
    return last_s;
}

/* The longest path is the computation of the recorded step, which is one of the last
 * three, within 5 %: the least action is 9 %, and a rank may lose the processor between
 * two readings of the clock. */
static void path_check(const tryst_profile *profile, const struct program *program)
{
    double seconds = path_seconds(profile), nearest = 1;
    for (int i = STEPS - 4; i < STEPS - 1; i++) {
        double error = fabs(seconds - program->seconds[i]) / program->seconds[i];
        nearest = error < nearest ? error : nearest;
    }
    if (nearest > 0.05)
        harness_fail(__FILE__, __LINE__, "the path takes %.6f s, not %.6f, %.6f, %.6f",
                     seconds, program->seconds[STEPS - 4], program->seconds[STEPS - 3],
                     program->seconds[STEPS - 2]);
}

static void path_of(const struct harness_rank *rank, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/step.%d.json", shared->folder, rank->rank);
}

static void origin_check(const struct harness_rank *rank, const tryst_profile *profile)
{
    tryst_profile_origin origin = {.struct_size = sizeof origin};
    CHECK_STATUS(tryst_profile_origin_get(profile, &origin), TRYST_OK);
    CHECK(origin.run && origin.rank == rank->rank && origin.size == rank->size);
    shared->runs[rank->rank] = origin.run;
}

static void program_check(struct harness_rank *rank, bool has_one_step)
{
    struct program program = {.rank = rank, .has_one_step = has_one_step};
    char path[PATH_BYTES];
    tryst_profile *profile;
    harness_open(rank);
    program_run(&program, STEPS);
    harness_close(rank);
    path_of(rank, path);
    if (tryst_profile_load(path, &profile) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    layers_check(profile);
    path_check(profile, &program);
    origin_check(rank, profile);
    tryst_profile_close(profile);
    CHECK(unlink(path) == 0);
}

static void training_main(struct harness_rank *rank)
{
    program_check(rank, false);
}

/* The same in one step of the library. */
static void one_step_training_main(struct harness_rank *rank)
{
    program_check(rank, true);
}

/* Rank 1 submits each collective 60 ms after rank 0, which therefore meets it late. */
static void late_main(struct harness_rank *rank)
{
    struct program program = {.rank = rank, .late_ms = rank->rank ? 60 : 0};
    char path[PATH_BYTES];
    tryst_profile *profile;
    harness_open(rank);
    program_run(&program, STEPS);
    harness_close(rank);
    path_of(rank, path);
    CHECK_STATUS(tryst_profile_load(path, &profile), TRYST_OK);
    for (int layer = 0; layer < LAYERS && rank->rank == 0; layer++) {
        tryst_profile_node node = node_of(profile, find(profile, layer_names[layer]));
        if (node.matched_s - node.ready_s < 0.04)
            harness_fail(__FILE__, __LINE__, "ready at %f, matched at %f", node.ready_s,
                         node.matched_s);
    }
    tryst_profile_close(profile);
    CHECK(unlink(path) == 0);
}

/* ---- runs -------------------------------------------------------------------------- */

static void log_keep(void *arg, tryst_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    uint32_t index = atomic_fetch_add(&shared->lines, 1);
    if (index < LINES_MAX)
        snprintf(shared->text[index], sizeof shared->text[index], "%s", line);
}

static int run(const char *form, void (*main)(struct harness_rank *rank))
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", shared->folder, form);
    const char *config[] = {"profile", path, NULL};
    atomic_store(&shared->lines, 0);
    return harness_run(&(struct harness_params){.size = 2,
                                                .main = main,
                                                .config = config,
                                                .timeout_s = 60,
                                                .no_group = true,
                                                .log_fn = log_keep});
}

static void line_check(const char *text)
{
    for (uint32_t i = 0; i < atomic_load(&shared->lines) && i < LINES_MAX; i++)
        if (strstr(shared->text[i], text))
            return;
    fail_msg("no line has \"%s\" (%u lines; the first: %s)", text,
             atomic_load(&shared->lines), shared->text[0]);
}

static void training(void **state)
{
    (void)state;
    assert_int_equal(run("step.%r.json", training_main), 0);
    assert_int_equal(atomic_load(&shared->lines), 0);
    assert_true(shared->runs[0] == shared->runs[1]);
    uint64_t first = shared->runs[0];
    assert_int_equal(run("step.%r.json", training_main), 0);
    assert_true(shared->runs[0] == shared->runs[1] && shared->runs[0] != first);
}

static void training_in_one_step(void **state)
{
    (void)state;
    assert_int_equal(run("step.%r.json", one_step_training_main), 0);
    assert_int_equal(atomic_load(&shared->lines), 0);
}

static void late(void **state)
{
    (void)state;
    assert_int_equal(run("step.%r.json", late_main), 0);
}

static void names_check(tryst_ctx *ctx)
{
    char name[TRYST_PROFILE_ACTION_MAX + 2];
    memset(name, 'x', sizeof name);
    name[TRYST_PROFILE_ACTION_MAX + 1] = 0;
    CHECK_STATUS(tryst_profile_action(ctx, name), TRYST_E_INVALID);
    name[TRYST_PROFILE_ACTION_MAX] = 0;
    CHECK_STATUS(tryst_profile_action(ctx, name), TRYST_OK);
    CHECK_STATUS(tryst_profile_action(ctx, ""), TRYST_E_INVALID);
    CHECK_STATUS(tryst_profile_action(ctx, "a;2"), TRYST_E_INVALID);
    CHECK_STATUS(tryst_profile_action(ctx, "action 3"), TRYST_E_INVALID);
    CHECK_STATUS(tryst_profile_action(ctx, NULL), TRYST_OK);
}

static void short_main(struct harness_rank *rank)
{
    struct program program = {.rank = rank};
    harness_open(rank);
    names_check(rank->ctx);
    program_run(&program, 2);
    harness_close(rank);
}

/* A handle that outlives the context can be tested, also where that is its first use. */
static void handle_main(struct harness_rank *rank)
{
    float data = 1;
    tryst_op *ops[2], *close;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = &data,
                           .count = 1,
                           .dtype = TRYST_DTYPE_F32};
    harness_open(rank);
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(
            tryst_allreduce(step, "a", NULL, &tensor, TRYST_REDUCE_MAX, NULL, &ops[i]),
            TRYST_OK);
        while (i == 0 && tryst_op_test(ops[0]) == TRYST_IN_PROGRESS)
            tryst_progress(rank->ctx);
    }
    CHECK_STATUS(tryst_step_close(step, &close), TRYST_OK);
    harness_close(rank);
    CHECK_STATUS(tryst_op_test(ops[0]), TRYST_OK);
    CHECK(tryst_op_test(ops[1]) != TRYST_IN_PROGRESS);
    CHECK(tryst_op_test(close) != TRYST_IN_PROGRESS);
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
    tryst_op_release(close);
}

static void handles(void **state)
{
    (void)state;
    assert_int_equal(run("one", handle_main), 0);
}

static void one_step_main(struct harness_rank *rank)
{
    struct program program = {.rank = rank};
    harness_open(rank);
    program_run(&program, 1);
    harness_close(rank);
}

/* Without %r rank 0 alone writes. */
static void one_file(void **state)
{
    char path[PATH_BYTES];
    (void)state;
    assert_int_equal(run("one.json", short_main), 0);
    assert_int_equal(atomic_load(&shared->lines), 0);
    snprintf(path, sizeof path, "%s/one.json", shared->folder);
    assert_int_equal(unlink(path), 0);
}

/* Neither a file that cannot be written nor a program without a whole step is an error.
 */
static void warnings(void **state)
{
    (void)state;
    assert_int_equal(run("no/folder/%r", short_main), 0);
    line_check("/no/folder/0: No such file or directory; set TRYST_PROFILE");
    line_check("/no/folder/1: No such file or directory; set TRYST_PROFILE");
    assert_int_equal(atomic_load(&shared->lines), 2);
    assert_int_equal(run("one", one_step_main), 0);
    line_check("no whole step was recorded");
    assert_int_equal(atomic_load(&shared->lines), 1);
}

/* ---- programs that end without a close --------------------------------------------- */

/* A rank by itself that has a whole step, and neither closes its group nor its context.
 */
static void unclosed_run(const char *path)
{
    tryst_config *config;
    tryst_ctx *ctx;
    struct harness_rank rank = {.size = 1};
    CHECK_STATUS(tryst_config_open(&config), TRYST_OK);
    CHECK_STATUS(tryst_config_set(config, "profile", path), TRYST_OK);
    tryst_open_params params = {.struct_size = sizeof params, .config = config};
    CHECK_STATUS(tryst_open(&params, &ctx), TRYST_OK);
    tryst_config_close(config);
    tryst_group_params group = {.struct_size = sizeof group, .rank = 0, .size = 1};
    CHECK_STATUS(tryst_group_open(ctx, &group, &rank.group), TRYST_OK);
    struct program program = {.rank = &rank};
    rank.ctx = ctx;
    program_run(&program, 2);
}

/* Check the file of a whole step that a process has left, and remove it. */
static void left_check(const char *path)
{
    tryst_profile *profile;
    tryst_profile_origin origin = {.struct_size = sizeof origin};
    if (tryst_profile_load(path, &profile) != TRYST_OK)
        fail_msg("%s", tryst_last_error());
    find(profile, layer_names[0]);
    assert_int_equal(tryst_profile_origin_get(profile, &origin), TRYST_OK);
    assert_true(origin.run && origin.rank == 0 && origin.size == 1);
    tryst_profile_close(profile);
    assert_int_equal(unlink(path), 0);
}

/* Start a program that ends by exit, or by a signal once it has left a file. */
static void ended_by(const char *path, int signal)
{
    int status;
    pid_t pid = child_fork();
    if (pid == 0) {
        unclosed_run(path);
        if (!signal)
            exit(0);
        for (;;)
            pause();
    }
    for (int i = 0; signal && i < 10000 && access(path, F_OK) != 0; i++)
        harness_sleep_ms(1);
    if (signal)
        kill(pid, signal);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                     signal);
    left_check(path);
}

/* The profile of a whole step is there however the program ends. */
static void ends(void **state)
{
    char path[PATH_BYTES];
    (void)state;
    snprintf(path, sizeof path, "%s/left", shared->folder);
    ended_by(path, 0);
    ended_by(path, SIGTERM);
    ended_by(path, SIGKILL);
}

static int setup(void **state)
{
    (void)state;
    for (int layer = 0; layer < LAYERS; layer++)
        snprintf(layer_names[layer], sizeof layer_names[layer], "gradient %d", layer);
    shared = harness_share(sizeof *shared);
    snprintf(shared->folder, sizeof shared->folder, "/tmp/tryst-record-XXXXXX");
    return mkdtemp(shared->folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    int failed = rmdir(shared->folder);
    harness_unshare(shared, sizeof *shared);
    return failed;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(training, setup, teardown),
        cmocka_unit_test_setup_teardown(training_in_one_step, setup, teardown),
        cmocka_unit_test_setup_teardown(late, setup, teardown),
        cmocka_unit_test_setup_teardown(one_file, setup, teardown),
        cmocka_unit_test_setup_teardown(warnings, setup, teardown),
        cmocka_unit_test_setup_teardown(handles, setup, teardown),
        cmocka_unit_test_setup_teardown(ends, setup, teardown),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
