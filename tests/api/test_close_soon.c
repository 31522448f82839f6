/* SPDX-License-Identifier: Apache-2.0 */
/* A rank closes its group soon after its first operation towards a peer: while the link
 * connects, while a transport is tried or has just been refused, or once it is connected.
 * Each round opens two ranks anew; the close times of a run are spread evenly between 0
 * and SPAN_US after the first submission. Every operation ends, and the close returns.
 *
 * TRYST_TEST_MOMENTS: close times of each test (41: one for each millisecond). */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPAN_US = 40000, MANY = 10000, BYTES = 4096 };

struct soon {
    _Atomic(uint32_t) opened, closed;
    unsigned moments;
    int receives;   /* receives that each rank posts */
    bool one_sided; /* true: rank 1 posts nothing, and stays until rank 0 has left */
};

static void arrive(struct harness_rank *rank, _Atomic(uint32_t) *counter, unsigned round)
{
    atomic_fetch_add(counter, 1);
    while (atomic_load(counter) < (round + 1) * (uint32_t)rank->size)
        harness_sleep_ms(0);
}

/* Post receives without a send: small ones, and one that is announced at once. */
static tryst_op *receives_post(struct harness_rank *rank, tryst_step *step, int count,
                               char *data)
{
    tryst_op *last = NULL;
    for (int i = 0; i < count; i++) {
        char edge[16];
        (void)snprintf(edge, sizeof edge, "e%d", i);
        tryst_op_release(last);
        last = harness_recv(rank, step, 1 - rank->rank, edge, data, i ? 8 : BYTES);
    }
    return last;
}

/* Submit on both ranks, or on rank 0 alone, and close amid the connection that the first
 * operation has started. */
static void round_run(struct harness_rank *rank, unsigned round, unsigned pause_us)
{
    struct soon *soon = rank->arg;
    bool acts = rank->rank == 0 || !soon->one_sided;
    char *data = calloc(1, BYTES);
    CHECK(data);
    harness_open(rank);
    arrive(rank, &soon->opened, round);
    tryst_step *step = harness_step(rank, 1);
    tryst_op *op = acts ? receives_post(rank, step, soon->receives, data) : NULL;
    if (acts && pause_us)
        usleep(pause_us);
    if (!acts)
        while (atomic_load(&soon->closed) < 2 * round + 1) {
            tryst_progress(rank->ctx);
            harness_sleep_ms(0);
        }
    CHECK_STATUS(tryst_step_close(step, NULL), TRYST_OK);
    tryst_group *group = rank->group;
    tryst_group_close(group);
    if (op && tryst_op_test(op) == TRYST_IN_PROGRESS)
        harness_fail(__FILE__, __LINE__, "a receive outlives its group");
    tryst_op_release(op);
    rank->group = NULL;
    harness_close(rank);
    atomic_fetch_add(&soon->closed, 1);
    while (atomic_load(&soon->closed) < 2 * (round + 1))
        harness_sleep_ms(0);
    free(data);
}

static void soon_main(struct harness_rank *rank)
{
    const struct soon *soon = rank->arg;
    for (unsigned i = 0; i < soon->moments; i++)
        round_run(rank, i, soon->moments > 1 ? SPAN_US * i / (soon->moments - 1) : 0);
}

static void run(const struct soon *plan)
{
    struct soon *soon = harness_share(sizeof *soon);
    struct harness_params params = {.size = 2,
                                    .main = soon_main,
                                    .arg = soon,
                                    .no_group = true,
                                    .timeout_s = 20 + plan->moments};
    soon->moments = plan->moments;
    soon->receives = plan->receives;
    soon->one_sided = plan->one_sided;
    int failed = harness_run(&params);
    harness_unshare(soon, sizeof *soon);
    assert_int_equal(failed, 0);
}

static unsigned moments(unsigned otherwise)
{
    const char *text = getenv("TRYST_TEST_MOMENTS");
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void test_both(void **state)
{
    run(&(struct soon){.moments = moments(41), .receives = 1});
}

static void test_one(void **state)
{
    run(&(struct soon){.moments = moments(41), .receives = 1, .one_sided = true});
}

/* Post so many receives that the link still connects meanwhile, and close without a
 * pause. */
static void test_many(void **state)
{
    for (unsigned i = 0; i < moments(41); i += 10)
        run(&(struct soon){.moments = 1, .receives = MANY});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_many),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
