/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for collectives on device memory (tryst_op_stream_wait).
 *
 * One idea: behind the wait the program does what holds the driver's lock until its
 * streams are idle, as CUDA's lazy loading does (FAKE_CUDA_LAZY). So a test hangs if any
 * call of the driver stands between the wait and the end of the collective.
 *
 * The driver is tests/support/fake_cuda, and the ranks are processes: ranks that are
 * threads would share the lock. TRYST_TEST_SEED replays a run; TRYST_TEST_ROUNDS sets the
 * rounds of each test, and TRYST_TEST_KILLS the kills. */
#include "twins.h"

#include "support/unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "support/fake_cuda/fake_cuda.h"

enum { RANKS_MAX = 4, COUNTERS = 4, ELEMENTS_MAX = 700001, ROUNDS_MAX = 400 };
#define NS_PER_S UINT64_C(1000000000)

static uint64_t seed;

__attribute__((unused)) static uint64_t below(uint64_t *random, uint64_t n)
{
    return (harness_random(random) >> 8) % n;
}

static unsigned rounds(void)
{
    unsigned count = (unsigned)harness_setting("TRYST_TEST_ROUNDS", unit_cases(20));
    return count < ROUNDS_MAX ? count : ROUNDS_MAX;
}

/* ---- ranks ------------------------------------------------------------------------- */

static void devices_open(struct harness_rank *rank)
{
    rank->gpu = calloc(1, sizeof *rank->gpu);
    CHECK(rank->gpu);
    gpu_open(rank, rank->gpu);
}

static int ranks_try(int size, void (*main)(struct harness_rank *rank), int killed)
{
    _Atomic(uint32_t) *counters = harness_share(COUNTERS * sizeof *counters);
    struct harness_params params = {.size = size,
                                    .main = main,
                                    .opened = devices_open,
                                    .closing = twins_close,
                                    .arg = counters,
                                    .timeout_s = 60,
                                    .killed = killed};
    int failed = harness_run(&params);
    harness_unshare(counters, COUNTERS * sizeof *counters);
    return failed;
}

static void ranks_run(int size, void (*main)(struct harness_rank *rank))
{
    assert_int_equal(ranks_try(size, main, HARNESS_NO_RANK), 0);
}

/* ---- a tensor, a stream, and a kernel behind the wait ------------------------------ */

/* This rank's tensor of int64 elements on device 0. */
struct job {
    struct gpu *gpu;
    struct room room;
    void *stream;
    tryst_op *op;
    uint64_t count;
    int64_t wanted, seen; /* each element, as expected and as a kernel has read them */
};

static void job_open(struct job *job, struct harness_rank *rank, uint64_t count)
{
    *job = (struct job){.gpu = rank->gpu, .count = count};
    job->room = room_open(rank->gpu, 0, ROOM_REGION, count * sizeof(int64_t));
    CHECK_STATUS(tryst_stream_open(rank->gpu->devices[0], false, &job->stream), TRYST_OK);
}

static void job_close(struct job *job)
{
    tryst_stream_close(job->gpu->devices[0], job->stream);
    room_close(job->gpu, &job->room);
}

/* Let each element be `value`, and expect the sum of all ranks' next. */
static void job_fill(struct job *job, const struct harness_rank *rank, int64_t value)
{
    int64_t *host = malloc(job->count * sizeof *host);
    CHECK(host);
    for (uint64_t i = 0; i < job->count; i++)
        host[i] = value + rank->rank;
    gpu_copy(job->gpu, 0, job->room.data, host, job->count * sizeof *host);
    free(host);
    job->wanted = rank->size * value + rank->size * (rank->size - 1) / 2;
}

static void job_start(struct job *job, tryst_step *step, const char *name)
{
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = job->room.data,
                           .count = job->count,
                           .dtype = TRYST_DTYPE_I64,
                           .memory = TRYST_MEMORY_CUDA};
    if (tryst_allreduce(step, name, NULL, &tensor, TRYST_REDUCE_SUM, NULL, &job->op) !=
        TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
}

static void job_await(struct job *job)
{
    if (tryst_op_stream_wait(job->op, 0, job->stream) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
}

/* Read the elements: a kernel. */
static void job_read(void *arg)
{
    struct job *job = arg;
    const int64_t *at = fake_cuda_reach(job->room.data);
    job->seen = at[0];
    for (uint64_t i = 0; i < job->count; i++)
        if (at[i] != at[0])
            job->seen = INT64_MIN;
}

/* Launch a kernel behind the wait that was never launched before. */
static void job_launch(struct job *job)
{
    static char kernels[ROUNDS_MAX];
    static unsigned next;
    fake_cuda_load(&kernels[next++ % ROUNDS_MAX]);
    fake_cuda_call(job->stream, job_read, job);
}

/* Wait for the stream alone, then for the operation. */
static void job_end(struct job *job)
{
    fake_cuda_finish(job->stream);
    CHECK_EQ(job->seen, job->wanted);
    harness_end(job->op, TRYST_OK);
}

/* Allocate, pin and free memory. */
static void memory_use(struct harness_rank *rank)
{
    void *pinned;
    struct room room = room_open(rank->gpu, 1, ROOM_REGION, 4096);
    CHECK_STATUS(tryst_pinned_alloc(rank->gpu->devices[0], 4096, &pinned), TRYST_OK);
    tryst_pinned_free(rank->gpu->devices[0], pinned, 4096);
    room_close(rank->gpu, &room);
}

/* ---- lazy loading ------------------------------------------------------------------ */

/* The last rank submits when all others are in the driver, or soon are. */
static void lazy_round(struct harness_rank *rank, struct job *job, unsigned round)
{
    _Atomic(uint32_t) *counters = rank->arg, *launching = counters + 1;
    bool is_last = rank->rank == rank->size - 1;
    tryst_step *step = harness_step(rank, round + 1);
    job_fill(job, rank, (int64_t)round * 1000 + 1);
    harness_barrier(rank, counters);
    while (is_last && atomic_load(launching) < (round + 1) * (unsigned)(rank->size - 1))
        harness_sleep_ms(1);
    if (is_last)
        harness_sleep_ms(round % 3);
    uint64_t begin_ns = harness_now_ns();
    job_start(job, step, "x");
    if (round % 2)
        harness_sleep_ms(round % 5); /* copies are in flight, or have ended */
    job_await(job);
    if (!is_last)
        atomic_fetch_add(launching, 1);
    job_launch(job);
    memory_use(rank);
    job_end(job);
    if (!harness_is_sanitized())
        CHECK(harness_now_ns() - begin_ns < NS_PER_S);
    harness_step_close(step);
}

static void lazy_main(struct harness_rank *rank)
{
    static const uint64_t counts[] = {1, 500, 30000, ELEMENTS_MAX};
    struct job jobs[COUNT_OF(counts)];
    for (unsigned i = 0; i < COUNT_OF(counts); i++)
        job_open(&jobs[i], rank, counts[i]);
    for (unsigned i = 0; i < rounds(); i++)
        lazy_round(rank, &jobs[i % COUNT_OF(counts)], i);
    for (unsigned i = 0; i < COUNT_OF(counts); i++)
        job_close(&jobs[i]);
}

static void test_lazy(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(2, lazy_main);
    ranks_run(4, lazy_main);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lazy),
    };
    seed = unit_seed();
    return HARNESS_MAIN(argc, argv, tests);
}
