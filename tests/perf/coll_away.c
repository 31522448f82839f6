/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job that computes for 2 ms after each all-reduce of 8 bytes, without
 * calls. Rank 0 prints the median time that it spends in the all-reduce, in us
 * (coll_away.sh). The argument is the number of all-reduces. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tryst/coll.h>
#include <tryst/tryst.h>

enum { COMPUTE_NS = 2000000, WARM_UP = 10, COUNT_MAX = 100000 };

static void check(tryst_status status)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "coll_away: %s\n", tryst_last_error());
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void allreduce(tryst_step *step, int64_t *value)
{
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = value,
                           .count = 1,
                           .dtype = TRYST_DTYPE_I64};
    tryst_op *op;
    check(tryst_allreduce(step, "x", NULL, &tensor, TRYST_REDUCE_MAX, NULL, &op));
    check(tryst_wait(op, -1));
    tryst_op_release(op);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static uint64_t waits[COUNT_MAX];
    long count = argc > 1 ? atol(argv[1]) : 200;
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    int64_t value = 1;
    if (count < 1 || count > COUNT_MAX)
        return 2;
    check(tryst_open(NULL, &ctx));
    check(tryst_group_open(ctx, NULL, &group));
    check(tryst_step_open(group, 1, &step));
    for (long i = -WARM_UP; i < count; i++) {
        uint64_t begin_ns = now_ns();
        allreduce(step, &value);
        uint64_t end_ns = now_ns();
        if (i >= 0)
            waits[i] = end_ns - begin_ns;
        while (now_ns() < end_ns + COMPUTE_NS)
            continue;
    }
    qsort(waits, (size_t)count, sizeof *waits, compare);
    if (tryst_group_rank(group) == 0)
        printf("%.2f\n", (double)waits[count / 2] / 1e3);
    check(tryst_step_close(step, NULL));
    tryst_group_close(group);
    tryst_close(ctx);
    return 0;
}
