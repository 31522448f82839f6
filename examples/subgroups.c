/* SPDX-License-Identifier: Apache-2.0 */
/* A grid of ranks: its rows and its columns as subgroups, with an all-reduce in each, as
 * tensor parallelism (rows) beside data parallelism (columns) needs them.
 *
 * Opening a subgroup sends nothing. Each member opens it with the same members in the
 * same order. Equal names in two subgroups never meet, so both sums are named "sum".
 *
 * Run:     tryst-run -n 6 ./subgroups
 * Prints:  subgroups: 2 rows of 3 ranks, sums of all rows and columns are right */
#include <stdio.h>
#include <stdlib.h>
#include <tryst/coll.h>

/* End the program unless `status` is TRYST_OK. */
static void must(tryst_status status)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "subgroups: %s\n", tryst_last_error());
    exit(1);
}

/* Return the number of rows that makes the grid of `size` ranks as square as possible. */
static int rows_of(int size)
{
    int rows = 1;
    for (int n = 1; n * n <= size; n++)
        if (size % n == 0)
            rows = n;
    return rows;
}

/* Open the subgroup of `count` ranks from `first` on, `stride` apart. */
static tryst_subgroup *subgroup_open(tryst_group *group, int first, int stride, int count)
{
    tryst_subgroup *subgroup;
    int32_t *members = malloc((size_t)count * sizeof *members);
    if (!members) {
        perror("subgroups");
        exit(1);
    }
    for (int i = 0; i < count; i++)
        members[i] = first + i * stride;
    tryst_subgroup_params params = {
        .struct_size = sizeof params, .members = members, .count = (uint32_t)count};
    must(tryst_subgroup_open(group, &params, &subgroup));
    free(members); /* copied */
    return subgroup;
}

/* Start the sum of `*value` over the subgroup's members, in place. */
static tryst_op *sum_start(tryst_step *step, const tryst_subgroup *subgroup,
                           int64_t *value)
{
    tryst_op *op;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = value,
                           .count = 1,
                           .dtype = TRYST_DTYPE_I64};
    tryst_op_params params = {.struct_size = sizeof params, .subgroup = subgroup};
    must(tryst_allreduce(step, "sum", NULL, &tensor, TRYST_REDUCE_SUM, &params, &op));
    return op;
}

/* Return the term of a rank. Powers of two, so that no wrong set of members has the sum
 * of the right one. */
static int64_t term(int rank)
{
    return (int64_t)1 << (rank % 62);
}

/* Return the sum that a subgroup should have. */
static int64_t expected(const tryst_subgroup *subgroup)
{
    int64_t sum = 0;
    for (int i = 0; i < tryst_subgroup_size(subgroup); i++)
        sum += term(tryst_subgroup_member(subgroup, i));
    return sum;
}

int main(void)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    must(tryst_open(NULL, &ctx));
    must(tryst_group_open(ctx, NULL, &group));
    int me = tryst_group_rank(group), size = tryst_group_size(group);
    int rows = rows_of(size), columns = size / rows;
    tryst_subgroup *row = subgroup_open(group, me / columns * columns, 1, columns);
    tryst_subgroup *column = subgroup_open(group, me % columns, columns, rows);

    must(tryst_step_open(group, 1, &step));
    int64_t row_sum = term(me), column_sum = term(me);
    int64_t wrong = 0; /* then: the number of wrong sums of all ranks */
    tryst_op *ops[2] = {sum_start(step, row, &row_sum),
                        sum_start(step, column, &column_sum)};
    must(tryst_wait_all(ops, 2, TRYST_FOREVER));
    wrong += row_sum != expected(row);
    wrong += column_sum != expected(column);
    tryst_op *all = sum_start(step, NULL, &wrong); /* NULL: the whole group */
    must(tryst_wait(all, TRYST_FOREVER));
    if (me == 0 && wrong)
        fprintf(stderr, "subgroups: %lld sums are wrong\n", (long long)wrong);
    else if (me == 0)
        printf("subgroups: %d rows of %d ranks, sums of all rows and columns are right\n",
               rows, columns);
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
    tryst_op_release(all);
    must(tryst_step_close(step, NULL));
    tryst_subgroup_close(row);
    tryst_subgroup_close(column);
    tryst_group_close(group);
    tryst_close(ctx);
    return wrong != 0;
}
