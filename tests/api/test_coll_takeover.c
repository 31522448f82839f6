/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for collectives on device memory (tryst_op_stream_wait).
 *
 * One idea: behind the wait the program does what holds the driver's lock until its
 * streams are idle, as CUDA's lazy loading does (FAKE_CUDA_LAZY). So a test hangs if any
 * call of the driver is made between the wait and the end of the collective.
 *
 * The driver is tests/support/fake_cuda, and the ranks are processes: ranks that are
 * threads would share the lock. TRYST_TEST_SEED replays a run; TRYST_TEST_ROUNDS sets the
 * rounds of each test, and TRYST_TEST_KILLS the kills. */
#include "twins.h"

#include "support/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "device_mapped.h"
#include "support/fake_cuda/fake_cuda.h"

enum { RANKS_MAX = 4, ELEMENTS_MAX = 700001, ROUNDS_MAX = 400 };
#define NS_PER_S UINT64_C(1000000000)

static uint64_t seed;

static uint64_t below(uint64_t *random, uint64_t n)
{
    return (harness_random(random) >> 8) % n;
}

static unsigned rounds(void)
{
    unsigned count = (unsigned)harness_setting("TRYST_TEST_ROUNDS", unit_cases(20));
    return count < ROUNDS_MAX ? count : ROUNDS_MAX;
}

/* ---- ranks ------------------------------------------------------------------------- */

static int ranks_try(int size, void (*main)(struct harness_rank *rank), int killed)
{
    return devices_run(size, main, devices_open, killed);
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

/* ---- another thread in the driver -------------------------------------------------- */

enum { PINNERS = 3 };

struct pinner {
    struct harness_rank *rank;
    _Atomic(bool) stop;
};

/* Pin and free: each call holds the driver's lock until all streams are idle. */
static void *pinner_main(void *arg)
{
    struct pinner *pinner = arg;
    void *pinned;
    while (!atomic_load(&pinner->stop)) {
        tryst_device *device = pinner->rank->gpu->devices[0];
        CHECK_STATUS(tryst_pinned_alloc(device, 4096, &pinned), TRYST_OK);
        tryst_pinned_free(device, pinned, 4096);
    }
    return NULL;
}

static void beside_main(struct harness_rank *rank)
{
    struct pinner pinner = {.rank = rank};
    struct job job;
    pthread_t threads[PINNERS];
    job_open(&job, rank, 3000);
    for (int i = 0; i < PINNERS; i++)
        CHECK(pthread_create(&threads[i], NULL, pinner_main, &pinner) == 0);
    for (unsigned i = 0; i < 4 * rounds(); i++) {
        tryst_step *step = harness_step(rank, i + 1);
        job_fill(&job, rank, i);
        harness_barrier(rank, rank->arg);
        if (rank->rank == (int)(i % 2))
            harness_sleep_ms(1);
        job_start(&job, step, "x");
        job_await(&job);
        fake_cuda_call(job.stream, job_read, &job);
        job_end(&job);
        harness_step_close(step);
    }
    atomic_store(&pinner.stop, true);
    for (int i = 0; i < PINNERS; i++)
        pthread_join(threads[i], NULL);
    job_close(&job);
}

/* A thread holds the driver while another one lets its stream wait. */
static void test_beside(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(2, beside_main);
}

/* ---- transfers while a stream waits ------------------------------------------------ */

/* Send to, or receive from, the other of two ranks. */
static tryst_op *transfer_start(struct harness_rank *rank, tryst_step *step, bool sends,
                                const struct room *room, uint64_t bytes)
{
    int src = sends ? rank->rank : 1 - rank->rank;
    char edge[24];
    tryst_op *op;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = room->data,
                           .count = bytes,
                           .dtype = TRYST_DTYPE_U8,
                           .memory = TRYST_MEMORY_CUDA};
    snprintf(edge, sizeof edge, "t%llu", (unsigned long long)bytes);
    struct harness_key key = harness_key(rank, src, 1 - src, edge);
    tryst_status status = sends ? tryst_send(step, key.text, &tensor, NULL, &op)
                                : tryst_recv(step, key.text, &tensor, NULL, &op);
    if (status != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    return op;
}

/* Rank 0's stream waits for a sum. Only when tensors of `bytes` bytes have gone both ways
 * does rank 1 submit its part. */
static void transfers_round(struct harness_rank *rank, uint64_t id, uint64_t bytes)
{
    tryst_step *step = harness_step(rank, id);
    struct room rooms[2];
    struct job job;
    job_open(&job, rank, 1000);
    for (int i = 0; i < 2; i++)
        rooms[i] = room_open(rank->gpu, 0, ROOM_REGION, bytes);
    job_fill(&job, rank, (int64_t)id);
    harness_barrier(rank, rank->arg);
    if (rank->rank == 0) {
        job_start(&job, step, "x");
        job_await(&job);
        fake_cuda_call(job.stream, job_read, &job);
    }
    for (int i = 0; i < 2; i++) {
        tryst_op *op =
            transfer_start(rank, step, (i == 0) == (rank->rank == 0), &rooms[i], bytes);
        harness_end(op, TRYST_OK);
    }
    if (rank->rank == 1) {
        job_start(&job, step, "x");
        job_await(&job);
        fake_cuda_call(job.stream, job_read, &job);
    }
    job_end(&job);
    harness_step_close(step);
    for (int i = 0; i < 2; i++)
        room_close(rank->gpu, &rooms[i]);
    job_close(&job);
}

static void transfers_main(struct harness_rank *rank)
{
    static const uint64_t sizes[] = {8, 4000, 100000, 3000000, 20000000};
    for (unsigned i = 0; i < COUNT_OF(sizes); i++)
        transfers_round(rank, i + 1, sizes[i]);
}

static void test_transfers(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(2, transfers_main);
}

/* ---- without a byte ---------------------------------------------------------------- */

/* The only waits of a context are for collectives that copy nothing. */
static void empty_main(struct harness_rank *rank)
{
    struct job job;
    job_open(&job, rank, 1);
    job.count = 0;
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank)
        harness_sleep_ms(20);
    job_start(&job, step, "x");
    job_await(&job);
    fake_cuda_finish(job.stream);
    harness_end(job.op, TRYST_OK);
    harness_step_close(step);
    job_close(&job);
}

static void test_empty(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(2, empty_main);
}

/* ---- crossing waits ---------------------------------------------------------------- */

enum { CROSSING = 12, MORE = 24 };

/* How a round is laid out. */
struct crossing {
    int count;
    bool one_stream;  /* all operations are awaited in the same stream */
    bool submits_all; /* before the first wait */
};

static void crossing_round(struct harness_rank *rank, uint64_t id, struct job *jobs,
                           const struct crossing *crossing)
{
    _Atomic(uint32_t) *counters = rank->arg;
    tryst_step *step = harness_step(rank, id);
    for (int i = 0; i < crossing->count; i++)
        job_fill(&jobs[i], rank, (int64_t)id * 100 + i);
    harness_barrier(rank, counters);
    for (int pass = crossing->submits_all ? 0 : 1; pass < 2; pass++) {
        for (int i = 0; i < crossing->count; i++) {
            int at = rank->rank % 2 ? crossing->count - 1 - i : i;
            char name[16];
            snprintf(name, sizeof name, "c%d", at);
            if (pass == 0 || !crossing->submits_all)
                job_start(&jobs[at], step, name);
            if (pass == 0)
                continue;
            void *own = jobs[at].stream;
            jobs[at].stream = crossing->one_stream ? jobs[0].stream : own;
            job_await(&jobs[at]);
            fake_cuda_call(jobs[at].stream, job_read, &jobs[at]);
            jobs[at].stream = own;
        }
    }
    if (crossing->one_stream)
        fake_cuda_finish(jobs[0].stream);
    for (int i = 0; i < crossing->count; i++)
        job_end(&jobs[i]);
    harness_step_close(step);
}

static void crossings_run(struct harness_rank *rank, const struct crossing *crossings,
                          unsigned count)
{
    struct job jobs[MORE];
    for (int i = 0; i < MORE; i++)
        job_open(&jobs[i], rank, i % 5 == 4 ? 100000 : 1000);
    for (unsigned i = 0; i < rounds() / 2; i++)
        crossing_round(rank, i + 1, jobs, &crossings[i % count]);
    for (int i = 0; i < MORE; i++)
        job_close(&jobs[i]);
}

static void crossing_main(struct harness_rank *rank)
{
    static const struct crossing crossings[] = {{CROSSING, false, true},
                                                {CROSSING, true, true},
                                                {CROSSING, false, false},
                                                {CROSSING, true, false}};
    crossings_run(rank, crossings, COUNT_OF(crossings));
}

/* More waits than take-overs. */
static void more_main(struct harness_rank *rank)
{
    static const struct crossing more = {MORE, true, true};
    crossings_run(rank, &more, 1);
}

static void test_crossing(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(2, crossing_main);
    ranks_run(4, crossing_main);
}

/* ---- failures ---------------------------------------------------------------------- */

enum { FAIL_RANKS = 3, QUITS = 1, CUDA_LOST = 719 };

/* Start an all-reduce of `in` to `out`, and let the stream wait. */
static tryst_op *mapped_start(tryst_step *step, const char *name, struct mapped *in,
                              struct mapped *out, void *stream, uint64_t deadline_ns)
{
    tryst_op_params params = {.struct_size = sizeof params, .deadline_ns = deadline_ns};
    tryst_tensor from = {.struct_size = sizeof from,
                         .data = (void *)in->at,
                         .count = in->bytes / sizeof(int64_t),
                         .dtype = TRYST_DTYPE_I64,
                         .memory = TRYST_MEMORY_CUDA};
    tryst_tensor to = from;
    tryst_op *op;
    to.data = (void *)out->at;
    CHECK_STATUS(tryst_allreduce(step, name, &from, &to, TRYST_REDUCE_SUM, &params, &op),
                 TRYST_OK);
    CHECK_STATUS(tryst_op_stream_wait(op, 0, stream), TRYST_OK);
    return op;
}

/* Wait for the operation, and unmap its tensors at once: a copy of them that is still to
 * come ends the process. Then the stream has ended as well. */
static tryst_status mapped_end(tryst_op *op, struct mapped *in, struct mapped *out,
                               void *stream, tryst_error *error)
{
    while (tryst_wait(op, TRYST_FOREVER) == TRYST_E_TIMEOUT)
        continue;
    mapped_close(in);
    mapped_close(out);
    tryst_status status = harness_outcome(op, error);
    fake_cuda_finish(stream);
    fake_cuda_drain();
    mapped_forget(in);
    mapped_forget(out);
    return status;
}

/* Of each two rounds, one has a cancel and one a deadline, each after a random time. In
 * each third, that rank alone submits. */
static void ends_main(struct harness_rank *rank)
{
    _Atomic(uint32_t) *counters = rank->arg, *failed = counters + 1;
    uint64_t random = seed * 16 + (uint64_t)rank->rank + 1;
    void *stream;
    CHECK_STATUS(tryst_stream_open(rank->gpu->devices[0], false, &stream), TRYST_OK);
    for (unsigned i = 0; i < 2 * rounds(); i++) {
        bool cancels = i % 2, quits = rank->rank == QUITS, submits = quits || i % 3;
        uint64_t after_ns = 1 + below(&random, NS_PER_S / 100);
        tryst_error error = {.struct_size = sizeof error};
        tryst_step *step = harness_step(rank, i + 1);
        harness_barrier(rank, counters);
        if (submits) {
            size_t bytes = (i / 2 % 4 == 3 ? 300 : ELEMENTS_MAX) * sizeof(int64_t);
            struct mapped in = mapped_open(bytes, 0), out = mapped_open(bytes, 0);
            tryst_op *op = mapped_start(step, "x", &in, &out, stream,
                                        quits && !cancels ? after_ns : 0);
            if (quits && cancels) {
                (void)tryst_wait(op, (int64_t)after_ns);
                CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
            }
            tryst_status status = mapped_end(op, &in, &out, stream, &error);
            if (status != TRYST_OK) {
                atomic_fetch_add(failed, 1);
                CHECK_STATUS(status, cancels ? TRYST_E_CANCELED : TRYST_E_DEADLINE);
                CHECK_EQ(error.origin_rank, QUITS);
            }
        }
        harness_barrier(rank, counters);
        harness_step_close(step);
    }
    harness_barrier(rank, counters);
    CHECK(atomic_load(failed) > rounds() / 4);
    tryst_stream_close(rank->gpu->devices[0], stream);
}

static void test_ends(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(FAIL_RANKS, ends_main);
}

static void killed_main(struct harness_rank *rank)
{
    size_t bytes = ELEMENTS_MAX * sizeof(int64_t);
    tryst_step *step = harness_step(rank, 1);
    tryst_status status = TRYST_OK;
    void *stream;
    CHECK_STATUS(tryst_stream_open(rank->gpu->devices[0], false, &stream), TRYST_OK);
    for (uint64_t i = 0; status == TRYST_OK; i++) {
        struct mapped in = mapped_open(bytes, 0), out = mapped_open(bytes, 0);
        tryst_error error = {.struct_size = sizeof error};
        char name[16];
        snprintf(name, sizeof name, "k%d", (int)i);
        tryst_op *op = mapped_start(step, name, &in, &out, stream, 0);
        if (i == seed % 4 && rank->rank == QUITS) {
            usleep((useconds_t)(seed * 977 % 9000));
            raise(SIGKILL);
        }
        status = mapped_end(op, &in, &out, stream, &error);
        if (status == TRYST_OK)
            continue;
        CHECK_STATUS(status, TRYST_E_PEER);
        CHECK_EQ(error.origin_rank, QUITS);
    }
    tryst_stream_close(rank->gpu->devices[0], stream);
    harness_step_close(step);
}

static void test_killed(void **state)
{
    unsigned kills = (unsigned)harness_setting("TRYST_TEST_KILLS", unit_cases(6));
    if (!harness_has_processes())
        skip();
    for (unsigned i = 0; i < kills; i++, seed++)
        assert_int_equal(ranks_try(FAIL_RANKS, killed_main, QUITS), 0);
}

/* Rank QUITS: call `nth` of the function fails. The collective ends on all ranks, with
 * its result or with the failure, and the next one has its result. */
static void refused_call(struct harness_rank *rank, uint64_t id, struct job *job,
                         const char *function, unsigned nth)
{
    tryst_step *step = harness_step(rank, id);
    tryst_error error = {.struct_size = sizeof error};
    job_fill(job, rank, (int64_t)id);
    harness_barrier(rank, rank->arg);
    if (rank->rank == QUITS)
        fake_cuda_fail(function, nth, 999);
    job_start(job, step, "x");
    tryst_status waits = tryst_op_stream_wait(job->op, 0, job->stream);
    CHECK(waits == TRYST_OK || waits == TRYST_E_SYSTEM);
    fake_cuda_finish(job->stream);
    tryst_status status = harness_outcome(job->op, &error);
    if (status != TRYST_OK) {
        CHECK_STATUS(status, TRYST_E_SYSTEM);
        CHECK_EQ(error.origin_rank, QUITS);
    }
    fake_cuda_fail(NULL, 0, 0);
    harness_barrier(rank, rank->arg);
    job_fill(job, rank, (int64_t)id + 7);
    job_start(job, step, "y");
    job_await(job);
    fake_cuda_call(job->stream, job_read, job);
    job_end(job);
    harness_step_close(step);
}

static void refused_main(struct harness_rank *rank)
{
    static const char *const functions[] = {
        "cuMemcpyAsync",        "cuStreamWaitEvent",
        "cuStreamWriteValue32", "cuStreamWaitValue32",
        "cuEventRecord",        "cuEventQuery",
        "cuMemHostRegister",    "cuStreamCreateWithPriority",
        "cuMemHostAlloc",       "cuEventCreate",
        "cuStreamIsCapturing"};
    uint64_t id = 0;
    for (unsigned nth = 1; nth <= unit_cases(4); nth++)
        for (unsigned i = 0; i < COUNT_OF(functions); i++) {
            struct job job; /* a context's first wait opens what others use */
            job_open(&job, rank, nth % 2 ? 30000 : 200000);
            refused_call(rank, ++id, &job, functions[i], nth);
            job_close(&job);
        }
}

static void test_refused_calls(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(2, refused_main);
}

/* A device that is lost writes no word: the operation fails, and the streams go on. */
static void lost_main(struct harness_rank *rank)
{
    struct job job;
    tryst_error error = {.struct_size = sizeof error};
    tryst_step *step = harness_step(rank, 1);
    job_open(&job, rank, ELEMENTS_MAX);
    for (int i = 0; i < 2; i++) {
        job_fill(&job, rank, i);
        job_start(&job, step, "x");
        job_await(&job);
        fake_cuda_call(job.stream, job_read, &job);
        job_end(&job);
    }
    job_fill(&job, rank, 5);
    harness_barrier(rank, rank->arg);
    if (rank->rank == QUITS)
        fake_cuda_fail("copy", 1, CUDA_LOST);
    job_start(&job, step, "y");
    (void)tryst_op_stream_wait(job.op, 0, job.stream);
    fake_cuda_finish(job.stream);
    CHECK_STATUS(harness_outcome(job.op, &error), TRYST_E_SYSTEM);
    CHECK_EQ(error.origin_rank, QUITS);
    harness_step_close(step);
    job_close(&job);
}

static void test_lost(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(2, lost_main);
}

/* A rank stops itself in the middle of a collective, and goes on after STOPPED_S. */
enum { STOPS = 3, STOPPED_S = 3 };

static void stop_self(useconds_t after_us)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        sleep(STOPPED_S);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    usleep(after_us);
    raise(SIGSTOP);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

/* The stream goes on at the deadline, also where the operation cannot end, since the rank
 * that is stopped may still use the other one's memory. */
static void stopped_main(struct harness_rank *rank)
{
    uint64_t random = seed + 1;
    void *stream;
    CHECK_STATUS(tryst_stream_open(rank->gpu->devices[0], false, &stream), TRYST_OK);
    for (unsigned i = 0; i < STOPS; i++) {
        useconds_t after_us = (useconds_t)below(&random, 4000);
        size_t bytes = ELEMENTS_MAX * sizeof(int64_t);
        struct mapped in = mapped_open(bytes, 0), out = mapped_open(bytes, 0);
        tryst_error error = {.struct_size = sizeof error};
        tryst_step *step = harness_step(rank, i + 1);
        harness_barrier(rank, rank->arg);
        uint64_t begin_ns = harness_now_ns();
        tryst_op *op = mapped_start(step, "s", &in, &out, stream,
                                    rank->rank == QUITS ? 0 : NS_PER_S / 2);
        if (rank->rank == QUITS)
            stop_self(after_us);
        fake_cuda_finish(stream);
        if (rank->rank != QUITS)
            CHECK(harness_now_ns() - begin_ns < (STOPPED_S - 1) * NS_PER_S);
        (void)mapped_end(op, &in, &out, stream, &error);
        harness_barrier(rank, rank->arg);
        harness_step_close(step);
    }
    tryst_stream_close(rank->gpu->devices[0], stream);
}

static void test_stopped(void **state)
{
    if (!harness_has_processes())
        skip();
    ranks_run(2, stopped_main);
}

/* ---- other ways to wait ------------------------------------------------------------ */

struct waiter {
    struct job *job;
    tryst_op *inner; /* its stream waits in the callback of another operation */
    atomic_bool ended;
};

static void on_end(void *arg, tryst_op *op, tryst_status status)
{
    struct waiter *waiter = arg;
    (void)op;
    CHECK_STATUS(status, TRYST_OK);
    CHECK_STATUS(tryst_op_stream_wait(waiter->inner, 0, waiter->job->stream), TRYST_OK);
    atomic_store(&waiter->ended, true);
}

/* In a callback, by a gate; then a further wait of the same operation. */
static void callback_wait(struct harness_rank *rank, tryst_step *step, struct job *job)
{
    struct waiter waiter = {.job = job};
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = on_end, .arg = &waiter};
    tryst_op *barrier;
    job_fill(job, rank, 3);
    job_start(job, step, "callback");
    waiter.inner = job->op;
    CHECK_STATUS(tryst_barrier(step, "b", &params, &barrier), TRYST_OK);
    harness_end(barrier, TRYST_OK);
    CHECK(atomic_load(&waiter.ended));
    job_await(job);
    fake_cuda_call(job->stream, job_read, job);
    job_end(job);
}

/* Several streams, also of another device; and a wait after the end. */
static void many_wait(struct harness_rank *rank, tryst_step *step, struct job *job)
{
    struct job others[3];
    job_fill(job, rank, 11);
    job_start(job, step, "many");
    for (int i = 0; i < 3; i++) {
        others[i] = *job;
        CHECK_STATUS(
            tryst_stream_open(rank->gpu->devices[i % 2], false, &others[i].stream),
            TRYST_OK);
        CHECK_STATUS(tryst_op_stream_wait(job->op, i % 2, others[i].stream), TRYST_OK);
        fake_cuda_call(others[i].stream, job_read, &others[i]);
    }
    for (int i = 0; i < 3; i++) {
        fake_cuda_finish(others[i].stream);
        CHECK_EQ(others[i].seen, job->wanted);
    }
    while (tryst_wait(job->op, TRYST_FOREVER) != TRYST_OK)
        continue;
    job_await(job);
    fake_cuda_call(job->stream, job_read, job);
    job_end(job);
    for (int i = 0; i < 3; i++)
        tryst_stream_close(rank->gpu->devices[i % 2], others[i].stream);
}

/* A stream that is being captured is refused, and the operation goes on. */
static void capture_wait(struct harness_rank *rank, tryst_step *step, struct job *job)
{
    job_fill(job, rank, 23);
    job_start(job, step, "capture");
    fake_cuda_capture(job->stream, true);
    tryst_status status = tryst_op_stream_wait(job->op, 0, job->stream);
    if (tryst_op_test(job->op) == TRYST_IN_PROGRESS)
        CHECK_STATUS(status, TRYST_E_UNSUPPORTED);
    fake_cuda_capture(job->stream, false);
    harness_barrier(rank, (_Atomic(uint32_t) *)rank->arg + 2);
    while (tryst_wait(job->op, TRYST_FOREVER) != TRYST_OK)
        continue;
    fake_cuda_call(job->stream, job_read, job);
    job_end(job);
}

static void ways_main(struct harness_rank *rank)
{
    struct job job;
    job_open(&job, rank, 50000);
    for (uint64_t id = 1; id <= 5; id++) {
        tryst_step *step = harness_step(rank, id);
        callback_wait(rank, step, &job);
        many_wait(rank, step, &job);
        if (id > 1) /* the peer may not have submitted */
            capture_wait(rank, step, &job);
        harness_step_close(step);
    }
    job_close(&job);
}

static void test_ways(void **state)
{
    if (!harness_has_processes())
        skip();
    setenv("FAKE_CUDA_LAZY", "0", 1); /* with it, gates may hang */
    ranks_run(2, more_main);
    ranks_run(2, ways_main);
    setenv("TRYST_SHADOW_BYTES", "0", 1); /* nothing can be pinned: by gates */
    ranks_run(2, ways_main);
    unsetenv("TRYST_SHADOW_BYTES");
    setenv("FAKE_CUDA_LAZY", "1", 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lazy),      cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_ends),      cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),   cmocka_unit_test(test_refused_calls),
        cmocka_unit_test(test_lost),      cmocka_unit_test(test_ways),
        cmocka_unit_test(test_transfers), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_beside),
    };
    seed = unit_seed();
    return HARNESS_MAIN(argc, argv, tests);
}
