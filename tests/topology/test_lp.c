/* SPDX-License-Identifier: Apache-2.0 */
/* The linear program of shares: its shares and its prices prove each other, so no other
 * solver is needed to check it. */
#include "support/unit.h"

#include <math.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "topology/plan/lp.h"

#define ROWS_MAX    40
#define COLUMNS_MAX 120
#define GROUPS_MAX  6
#define PIVOTS_MAX  100000
#define NEAR        1e-6

struct program {
    uint32_t rows, groups, columns;
    struct {
        uint32_t group, count, row[ROWS_MAX];
        double value[ROWS_MAX];
        bool shut;
    } column[COLUMNS_MAX];
    struct lp *lp;
};

static void program_open(struct program *program, uint32_t rows, uint32_t groups)
{
    *program = (struct program){.rows = rows, .groups = groups};
    assert_int_equal(lp_open(rows, groups, PIVOTS_MAX, &program->lp), TRYST_OK);
}

/* Add a column; `values` has an item for each row. */
static void column_put(struct program *program, uint32_t group, const double *values)
{
    uint32_t c = program->columns++, count = 0;
    for (uint32_t row = 0; row < program->rows; row++)
        if (values[row] > 0) {
            program->column[c].row[count] = row;
            program->column[c].value[count++] = values[row];
        }
    program->column[c].group = group;
    program->column[c].count = count;
    assert_int_equal(lp_column_add(program->lp, group, count, program->column[c].row,
                                   program->column[c].value),
                     TRYST_OK);
}

/* Check that the shares of each group sum to 1 and that no row takes longer than T. */
static void shares_check(const struct program *program)
{
    double load[ROWS_MAX] = {0}, sum[GROUPS_MAX] = {0}, time = lp_time(program->lp);
    for (uint32_t c = 0; c < program->columns; c++) {
        double share = lp_share(program->lp, c);
        assert_true(share >= 0 && (!program->column[c].shut || share <= NEAR));
        sum[program->column[c].group] += share;
        for (uint32_t k = 0; k < program->column[c].count; k++)
            load[program->column[c].row[k]] += share * program->column[c].value[k];
    }
    for (uint32_t g = 0; g < program->groups; g++)
        assert_true(fabs(sum[g] - 1) <= NEAR);
    for (uint32_t row = 0; row < program->rows; row++)
        assert_true(load[row] <= time * (1 + NEAR));
}

/* Check that at the prices no mix of open columns is cheaper than T. */
static void prices_check(const struct program *program)
{
    double price[ROWS_MAX], cheapest[GROUPS_MAX], sum = 0, bound = 0;
    lp_prices(program->lp, price);
    for (uint32_t row = 0; row < program->rows; row++) {
        assert_true(price[row] >= 0);
        sum += price[row];
    }
    assert_true(fabs(sum - 1) <= NEAR);
    for (uint32_t g = 0; g < program->groups; g++)
        cheapest[g] = INFINITY;
    for (uint32_t c = 0; c < program->columns; c++) {
        double cost = 0;
        for (uint32_t k = 0; k < program->column[c].count; k++)
            cost += program->column[c].value[k] * price[program->column[c].row[k]];
        if (!program->column[c].shut)
            cheapest[program->column[c].group] =
                fmin(cheapest[program->column[c].group], cost);
    }
    for (uint32_t g = 0; g < program->groups; g++)
        bound += cheapest[g];
    if (bound < lp_time(program->lp) * (1 - NEAR))
        fail_msg("T is %.12g, and the prices prove %.12g", lp_time(program->lp), bound);
}

static void solve_and_check(const struct program *program)
{
    assert_true(lp_solve(program->lp));
    shares_check(program);
    prices_check(program);
}

/* Few distinct values make many ties; zeros leave many rows free. */
static void column_draw(struct program *program, struct random *random, uint32_t group)
{
    double values[ROWS_MAX] = {0}, slow = random_range(random, 8) ? 1 : 100;
    bool equal = random_range(random, 2);
    for (uint32_t row = 0; row < program->rows; row++)
        if (random_range(random, 3))
            values[row] = equal ? 1 : slow * (double)(1 + random_range(random, 4)) / 4;
    values[random_range(random, program->rows)] = 1;
    column_put(program, group, values);
}

static void column_shut(struct program *program, uint32_t c, bool shut)
{
    program->column[c].shut = shut;
    lp_column_shut(program->lp, c, shut);
}

static void shares_and_prices_prove_each_other(void **state)
{
    static struct program program;
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 500; round++) {
        program_open(&program, 1 + (uint32_t)random_range(&random, ROWS_MAX),
                     1 + (uint32_t)random_range(&random, GROUPS_MAX));
        for (uint32_t g = 0; g < program.groups; g++)
            column_draw(&program, &random, g); /* is never shut */
        while (program.columns < COLUMNS_MAX) {
            uint32_t more = 1 + (uint32_t)random_range(&random, 30);
            for (; more > 0 && program.columns < COLUMNS_MAX; more--)
                column_draw(&program, &random,
                            (uint32_t)random_range(&random, program.groups));
            solve_and_check(&program);
            for (uint32_t c = program.groups; c < program.columns; c++)
                if (random_range(&random, 4) == 0)
                    column_shut(&program, c, !program.column[c].shut);
            solve_and_check(&program);
        }
        lp_close(program.lp);
    }
}

/* Two paths, one twice as fast, and a third that shares the slow path's link. */
static void shares_by_hand(void **state)
{
    struct program program;
    program_open(&program, 2, 1);
    column_put(&program, 0, (double[]){1, 0});
    column_put(&program, 0, (double[]){0, 0.5});
    column_put(&program, 0, (double[]){2, 0});
    solve_and_check(&program);
    assert_true(fabs(lp_time(program.lp) - 1.0 / 3) < NEAR);
    assert_true(fabs(lp_share(program.lp, 0) - 1.0 / 3) < NEAR);
    column_shut(&program, 0, true);
    solve_and_check(&program);
    assert_true(fabs(lp_time(program.lp) - 0.4) < NEAR);
    column_shut(&program, 0, false);
    solve_and_check(&program);
    assert_true(fabs(lp_time(program.lp) - 1.0 / 3) < NEAR);
    lp_close(program.lp);
}

static void a_group_needs_a_column(void **state)
{
    struct program program;
    program_open(&program, 1, 2);
    column_put(&program, 0, (double[]){1});
    assert_false(lp_solve(program.lp));
    column_put(&program, 1, (double[]){1});
    solve_and_check(&program);
    lp_close(program.lp);
}

static void pivots_are_limited(void **state)
{
    static struct program program;
    struct random random;
    random_seed(&random, 1);
    program = (struct program){.rows = ROWS_MAX, .groups = 1};
    assert_int_equal(lp_open(ROWS_MAX, 1, 3, &program.lp), TRYST_OK);
    while (program.columns < COLUMNS_MAX)
        column_draw(&program, &random, 0);
    assert_false(lp_solve(program.lp));
    shares_check(&program);
    lp_close(program.lp);
}

static tryst_status open_and_close(void)
{
    struct lp *lp;
    uint32_t row = 0;
    double value = 1;
    tryst_status status = lp_open(1, 1, 10, &lp);
    if (status)
        return status;
    status = lp_column_add(lp, 0, 1, &row, &value);
    if (!status)
        assert_true(lp_solve(lp));
    lp_close(lp);
    return status;
}

static void no_memory_is_said(void **state)
{
    WALK_ALLOCATIONS(open_and_close());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_and_prices_prove_each_other),
        cmocka_unit_test(shares_by_hand),
        cmocka_unit_test(a_group_needs_a_column),
        cmocka_unit_test(pivots_are_limited),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
