/* SPDX-License-Identifier: Apache-2.0 */
/* TRYST_AUTO_PRIORITY: after two steps, collectives end in the order in which the program
 * needs their results, which is the reverse of their submission. */
#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>
#include <tryst/coll.h>
#include <tryst/profile.h>
#include <unistd.h>

#include "harness.h"

enum { OPS = 40, COUNT = 1 << 16, STEPS = 6, PATH_BYTES = 128, LINES_MAX = 64 };
/* One of so many elements is set and checked. */
enum { STRIDE = 61 };

/* In memory that all ranks share. */
struct shared {
    char folder[PATH_BYTES / 2];
    _Atomic(uint32_t) lines;
    char text[LINES_MAX][256];
    /* Of the pairs of operations, how many in 1,000 end in the order of need. */
    uint32_t in_order[2];
};
static struct shared *shared;

struct program {
    struct harness_rank *rank;
    float (*tensors)[COUNT];
    bool user_sets;    /* give each operation the priority of its submission */
    bool wanders;      /* each step uses other names */
    bool has_one_step; /* of the library, for all training steps */
    tryst_subgroup *subgroup;
};

static void name_of(const struct program *program, int number, int op, char name[32])
{
    snprintf(name, 32, "op %d.%d", program->wanders ? number : 0, op);
}

static void step_run(const struct program *program, int number, tryst_step *step)
{
    tryst_op *ops[OPS];
    char name[32];
    int size = program->rank->size;
    float(*tensors)[COUNT] = program->tensors;
    for (int i = 0; i < OPS; i++) {
        tryst_tensor tensor = {.struct_size = sizeof tensor,
                               .data = tensors[i],
                               .count = COUNT,
                               .dtype = TRYST_DTYPE_F32};
        tryst_op_params params = {.struct_size = sizeof params,
                                  .flags = program->user_sets ? TRYST_OP_PRIORITY : 0,
                                  .priority = program->user_sets ? i : 0,
                                  .subgroup = program->subgroup};
        for (int e = 0; e < COUNT; e += STRIDE)
            tensors[i][e] = (float)(i + number);
        name_of(program, number, i, name);
        CHECK_STATUS(tryst_allreduce(step, name, NULL, &tensor, TRYST_REDUCE_SUM, &params,
                                     &ops[i]),
                     TRYST_OK);
    }
    for (int i = OPS - 1; i >= 0; i--) {
        harness_end(ops[i], TRYST_OK);
        for (int e = 0; e < COUNT; e += STRIDE)
            CHECK(tensors[i][e] == (float)((i + number) * size));
        harness_sleep_ms(1);
    }
}

/* Return how many pairs in 1,000 ended in the order of need. */
static uint32_t order_read(const struct harness_rank *rank)
{
    char path[PATH_BYTES];
    double done_s[OPS] = {0};
    tryst_profile *profile;
    uint32_t ordered = 0, ops = 0;
    snprintf(path, sizeof path, "%s/%d", shared->folder, rank->rank);
    if (tryst_profile_load(path, &profile) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    for (uint32_t i = 0; i < tryst_profile_nodes(profile); i++) {
        int op;
        tryst_profile_node node = {.struct_size = sizeof node};
        CHECK_STATUS(tryst_profile_node_get(profile, i, &node), TRYST_OK);
        if (!node.is_operation)
            continue;
        CHECK(sscanf(node.name, "op 0.%d", &op) == 1);
        done_s[op] = node.done_s;
        ops++;
    }
    CHECK_EQ(ops, OPS); /* the library's own collective is not among them */
    for (int i = 0; i < OPS; i++)
        for (int j = 0; j < i; j++)
            ordered += done_s[i] <= done_s[j]; /* i is needed before j */
    tryst_profile_close(profile);
    CHECK(unlink(path) == 0);
    return ordered * 1000 / (OPS * (OPS - 1) / 2);
}

static void program_steps(struct program *program)
{
    struct harness_rank *rank = program->rank;
    tryst_step *step = NULL;
    CHECK(program->tensors = calloc(OPS, sizeof *program->tensors));
    for (int number = 0; number < STEPS; number++) {
        tryst_step *before = step;
        if (program->has_one_step)
            CHECK_STATUS(tryst_period_begin(rank->group), TRYST_OK);
        if (!program->has_one_step || !before) {
            step = harness_step(rank, (uint64_t)number + 1);
            if (before)
                harness_step_close(before);
        }
        step_run(program, number, step);
    }
    harness_step_close(step);
    free(program->tensors);
}

static void program_run(struct program *program)
{
    harness_open(program->rank);
    program_steps(program);
    harness_close(program->rank);
}

static void plain_main(struct harness_rank *rank)
{
    struct program program = {.rank = rank};
    program_run(&program);
    shared->in_order[rank->rank] = order_read(rank);
}

static void one_step_main(struct harness_rank *rank)
{
    struct program program = {.rank = rank, .has_one_step = true};
    program_run(&program);
    shared->in_order[rank->rank] = order_read(rank);
}

/* The same in a subgroup, of both ranks in the other order. */
static void subgroup_run(struct harness_rank *rank, bool has_one_step)
{
    static const int32_t members[] = {1, 0};
    struct program program = {.rank = rank, .has_one_step = has_one_step};
    const tryst_subgroup_params params = {
        .struct_size = sizeof params, .members = members, .count = 2};
    harness_open(rank);
    CHECK_STATUS(tryst_subgroup_open(rank->group, &params, &program.subgroup), TRYST_OK);
    program_steps(&program);
    tryst_subgroup_close(program.subgroup);
    harness_close(rank);
    shared->in_order[rank->rank] = order_read(rank);
}

static void subgroup_main(struct harness_rank *rank)
{
    subgroup_run(rank, false);
}

static void one_step_subgroup_main(struct harness_rank *rank)
{
    subgroup_run(rank, true);
}

static void user_main(struct harness_rank *rank)
{
    struct program program = {.rank = rank, .user_sets = true};
    program_run(&program);
    shared->in_order[rank->rank] = order_read(rank);
}

static void wandering_main(struct harness_rank *rank)
{
    struct program program = {.rank = rank, .wanders = true};
    program_run(&program);
}

/* ---- runs -------------------------------------------------------------------------- */

static void log_keep(void *arg, tryst_log_level level, const char *line)
{
    (void)arg;
    if (level > TRYST_LOG_DEBUG || !strstr(line, "AUTO_PRIORITY"))
        return;
    uint32_t index = atomic_fetch_add(&shared->lines, 1);
    if (index < LINES_MAX)
        snprintf(shared->text[index], sizeof shared->text[index], "%s", line);
}

static void run(const char *automatic, bool records, void (*main)(struct harness_rank *))
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%%r", shared->folder);
    const char *config[] = {"auto_priority", automatic,           "log_level", "debug",
                            "profile",       records ? path : "", NULL};
    atomic_store(&shared->lines, 0);
    assert_int_equal(harness_run(&(struct harness_params){.size = 2,
                                                          .main = main,
                                                          .config = config,
                                                          .timeout_s = 60,
                                                          .no_group = true,
                                                          .log_fn = log_keep}),
                     0);
    print_message("pairs in the order of need: %u and %u of 1000\n", shared->in_order[0],
                  shared->in_order[1]);
}

static void line_check(const char *text)
{
    for (uint32_t i = 0; i < atomic_load(&shared->lines) && i < LINES_MAX; i++)
        if (strstr(shared->text[i], text))
            return;
    fail_msg("no line has \"%s\" (%u lines)", text, atomic_load(&shared->lines));
}

/* Off, operations end in an order that has nothing to do with need. */
static void off(void **state)
{
    (void)state;
    run("0", true, plain_main);
    assert_in_range(shared->in_order[0], 0, 800);
}

/* The priorities come from the times of one step, which a busy machine may disturb: one
 * of three runs must be right. */
static void run_by_need(void (*main)(struct harness_rank *))
{
    for (int tries = 0; tries < 3; tries++) {
        run("1", true, main);
        if (shared->in_order[0] >= 900 && shared->in_order[1] >= 900)
            break;
    }
    assert_in_range(shared->in_order[0], 900, 1000);
    assert_in_range(shared->in_order[1], 900, 1000);
    assert_int_equal(atomic_load(&shared->lines), 0);
}

static void by_need(void **state)
{
    (void)state;
    run_by_need(plain_main);
}

static void by_need_in_subgroup(void **state)
{
    (void)state;
    run_by_need(subgroup_main);
}

/* One step of the library, in which the program begins its training steps. */
static void by_need_in_one_step(void **state)
{
    (void)state;
    run_by_need(one_step_main);
    run_by_need(one_step_subgroup_main);
}

/* Priorities of the user, which follow the submission, win. */
static void user_wins(void **state)
{
    (void)state;
    run("1", true, user_main);
    assert_in_range(shared->in_order[0], 0, 500);
}

/* No two steps have the same operations: a debug line has the reason. */
static void steps_differ(void **state)
{
    (void)state;
    run("1", false, wandering_main);
    line_check("the last two steps have different collectives");
}

/* ---- ranks that differ ------------------------------------------------------------- */

enum { LONE_STEPS = 4 };

static void differing_main(struct harness_rank *rank)
{
    static const char *const names[2][2] = {{"a", "b"}, {"b", "a"}};
    tryst_step *step = NULL;
    float data[3] = {1, 2, 3};
    harness_open(rank);
    for (int number = 0; number < LONE_STEPS; number++) {
        tryst_step *before = step;
        tryst_op *ops[3] = {NULL};
        int count = number % 2 && rank->rank ? 3 : 2;
        step = harness_step(rank, (uint64_t)number + 1);
        if (before)
            harness_step_close(before);
        for (int i = 0; i < count; i++) {
            tryst_tensor tensor = {.struct_size = sizeof tensor,
                                   .data = &data[i],
                                   .count = 1,
                                   .dtype = TRYST_DTYPE_F32};
            CHECK_STATUS(tryst_allreduce(step, i < 2 ? names[rank->rank][i] : "extra",
                                         NULL, &tensor, TRYST_REDUCE_MAX, NULL, &ops[i]),
                         TRYST_OK);
        }
        CHECK_STATUS(tryst_wait_all(ops, 2, TRYST_FOREVER), TRYST_OK);
        for (int i = 0; i < count; i++)
            tryst_op_release(ops[i]);
        harness_sleep_ms(3);
    }
    harness_step_close(step);
    harness_close(rank);
}

/* Rank 1 has one collective more in every other step. The common ones work. */
static void ranks_differ(void **state)
{
    (void)state;
    run("1", false, differing_main);
    line_check("the ranks' last steps have different collectives");
}

/* ---- ranks of which one begins no training steps ----------------------------------- */

enum { BEGINS = 20 };

/* Begin a training step before each all-reduce, or none. */
static void begins_run(struct harness_rank *rank, bool begins)
{
    float data = 0;
    tryst_op *op;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = &data,
                           .count = 1,
                           .dtype = TRYST_DTYPE_F32};
    harness_open(rank);
    tryst_step *step = harness_step(rank, 1);
    for (int number = 1; number <= BEGINS; number++) {
        data = (float)(number * (rank->rank + 1));
        if (begins)
            CHECK_STATUS(tryst_period_begin(rank->group), TRYST_OK);
        CHECK_STATUS(
            tryst_allreduce(step, "a", NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op),
            TRYST_OK);
        harness_end(op, TRYST_OK);
        CHECK(data == (float)(3 * number));
    }
    harness_step_close(step);
    harness_close(rank);
}

static void lone_begins_main(struct harness_rank *rank)
{
    begins_run(rank, rank->rank == 0);
}

static void all_begin_main(struct harness_rank *rank)
{
    begins_run(rank, true);
}

/* Drafts of rank 0 meet none: it makes no more after some, all its collectives work, and
 * the step closes. Drafts of all ranks end, so there is always room for the next. */
static void one_rank_begins(void **state)
{
    (void)state;
    run("1", false, lone_begins_main);
    line_check("earlier drafts wait for other ranks");
    run("1", false, all_begin_main);
    assert_int_equal(atomic_load(&shared->lines), 0);
}

static int setup(void **state)
{
    (void)state;
    shared = harness_share(sizeof *shared);
    snprintf(shared->folder, sizeof shared->folder, "/tmp/tryst-priority-XXXXXX");
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
        cmocka_unit_test_setup_teardown(off, setup, teardown),
        cmocka_unit_test_setup_teardown(by_need, setup, teardown),
        cmocka_unit_test_setup_teardown(by_need_in_subgroup, setup, teardown),
        cmocka_unit_test_setup_teardown(by_need_in_one_step, setup, teardown),
        cmocka_unit_test_setup_teardown(user_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_differ, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_differ, setup, teardown),
        cmocka_unit_test_setup_teardown(one_rank_begins, setup, teardown),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
