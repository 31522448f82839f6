/* SPDX-License-Identifier: Apache-2.0 */
/* The copier with its thread and its pool of shadows, over a driver without a GPU: ranges
 * of several threads against plain copies, kernels that hold events back, failures of
 * each call of the driver, a device that is lost, and that nothing is left. */
#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../transports/cuda/row.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/random.h"
#include "rendezvous/copier/copier.h"
#include "rendezvous/copier/shadows.h"
#include "transports/memory/closed_gates.h"
#include "transports/memory/memory.h"

#define MIB (UINT64_C(1) << 20)

static const struct memory_ops *row;
static struct memory_cache *cache;
static struct shadows *shadows;
static struct copier *copier;

/* A range, its memory, and how its end reaches the test's thread. */
struct job {
    struct copier_range range;
    struct shadow shadow;
    char *expected;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ended;
    uint64_t seen; /* `done` in the newest `moved` */
};

static void on_moved(struct copier_range *range)
{
    struct job *job = container_of(range, struct job, range);
    uint64_t done = atomic_load_explicit(&range->done, memory_order_acquire);
    const char *host = range->host_data;
    CHECK(done >= job->seen && !job->ended);
    if (range->way == COPIER_FETCH) /* what has been fetched is there */
        CHECK(memcmp(host + job->seen, job->expected + job->seen, done - job->seen) == 0);
    job->seen = done;
    if (!range->ended)
        return;
    pthread_mutex_lock(&job->lock);
    job->ended = true;
    pthread_cond_signal(&job->wake);
    pthread_mutex_unlock(&job->lock);
}

static char pattern[8 << 20]; /* what ranges copy, from an offset of their own on */

static void pattern_make(void)
{
    for (uint64_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (char)(i * 13 + i / 1021);
}

static void job_init(struct job *job, int32_t device, enum copier_way way, uint64_t bytes,
                     uint64_t number)
{
    int fd;
    *job = (struct job){.range = {.ops = row,
                                  .device = device,
                                  .way = way,
                                  .bytes = bytes,
                                  .urgency = {.number = number},
                                  .moved = on_moved}};
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->wake, NULL);
    job->expected = malloc(bytes + 1);
    CHECK(job->expected && row->alloc(device, bytes, &job->range.device_data, &fd) == 0);
    CHECK(shadow_get(shadows, row, device, bytes, &job->shadow) == TRYST_OK);
    memcpy(job->expected, pattern + number, bytes);
    job->range.host_data = job->shadow.data;
    if (way == COPIER_FETCH && bytes)
        fake_cuda_write(job->range.device_data, job->expected, bytes);
    job->range.limit = way == COPIER_FETCH ? bytes : 0;
}

/* Write the next `bytes` of a BRING into its shadow, and raise the limit. */
static void job_raise(struct job *job, uint64_t *limit, uint64_t bytes)
{
    memcpy((char *)job->range.host_data + *limit, job->expected + *limit, bytes);
    *limit += bytes;
    copier_raise(copier, &job->range, *limit);
}

static void job_wait(struct job *job)
{
    pthread_mutex_lock(&job->lock);
    while (!job->ended)
        pthread_cond_wait(&job->wake, &job->lock);
    pthread_mutex_unlock(&job->lock);
}

static void job_free(struct job *job)
{
    uint64_t done = atomic_load(&job->range.done);
    char *device = malloc(job->range.bytes + 1);
    CHECK(device);
    fake_cuda_read(job->range.device_data, device, done);
    CHECK(memcmp(device, job->expected, done) == 0);
    CHECK(memcmp(job->range.host_data ? job->range.host_data : "", job->expected, done) ==
          0);
    free(device);
    free(job->expected);
    shadow_put(shadows, &job->shadow);
    row->free(job->range.device, job->range.device_data, job->range.bytes, -1);
    pthread_cond_destroy(&job->wake);
    pthread_mutex_destroy(&job->lock);
}

static tryst_status parts_open(void)
{
    static struct closed_gates closed;
    closed_gates_open(&closed);
    struct copier_params params = {.closed = &closed};
    tryst_status status = memory_cache_open(NULL, NULL, &cache);
    if (status != TRYST_OK)
        return status;
    status = shadows_open(cache, NULL, 64 * MIB, &shadows);
    if (status != TRYST_OK)
        goto close_cache;
    params.shadows = shadows;
    status = copier_open(&params, &copier);
    if (status == TRYST_OK)
        return status;
    shadows_close(shadows);
close_cache:
    (void)memory_cache_close(cache);
    return status;
}

static void parts_close(void)
{
    copier_close(copier);
    shadows_close(shadows);
    CHECK(memory_cache_close(cache) == 0);
}

static int setup(void **state)
{
    CHECK(parts_open() == TRYST_OK);
    return 0;
}

static int teardown(void **state)
{
    parts_close();
    fake_cuda_drain();
    assert_int_equal(fake_cuda_check(), 0);
    return 0;
}

static int threads_count(void)
{
    DIR *dir = opendir("/proc/self/task");
    int count = -2; /* "." and ".." */
    CHECK(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Nothing exists before the first range: no thread, no stream, no pinned memory. */
static void test_nothing_before(void **state)
{
    int before = threads_count();
    struct fake_cuda_counts counts;
    struct shadow shadow;
    assert_int_equal(shadow_get(shadows, row, 0, MIB, &shadow), TRYST_OK);
    fake_cuda_counts(&counts);
    assert_int_equal(counts.pinned + counts.streams + counts.events, 0);
    assert_int_equal(threads_count(), before);
    shadow_put(shadows, &shadow);
}

static tryst_status open_and_close(void)
{
    tryst_status status = parts_open();
    if (status == TRYST_OK)
        parts_close();
    return status;
}

static void test_no_memory(void **state)
{
    parts_close();
    WALK_ALLOCATIONS(open_and_close());
    assert_int_equal(parts_open(), TRYST_OK);
}

/* A shadow is plain at first and pinned later, and both serve. */
static void test_pinned_later(void **state)
{
    struct fake_cuda_counts counts;
    for (unsigned i = 0; i < 2000; i++) {
        struct job job;
        job_init(&job, 0, COPIER_FETCH, 3 * MIB, i);
        bool is_pinned = job.shadow.mem != NULL;
        assert_int_equal(copier_add(copier, &job.range), TRYST_OK);
        job_wait(&job);
        assert_int_equal(job.range.status, TRYST_OK);
        assert_int_equal(job.range.done, 3 * MIB);
        job_free(&job);
        if (is_pinned) {
            assert_true(i > 0);
            fake_cuda_counts(&counts);
            assert_int_equal(counts.pinned, 1);
            return;
        }
    }
    fail_msg("no shadow was pinned");
}

/* ---- ready events ------------------------------------------------------------------ */

struct kernel {
    _Atomic bool may_end;
    char *output; /* on the host: the device's bytes */
    uint64_t bytes;
};

static void kernel_run(void *arg)
{
    struct kernel *kernel = arg;
    while (!atomic_load(&kernel->may_end))
        sched_yield();
    memset(kernel->output, 0x5a, kernel->bytes);
}

/* A kernel that still writes the output of a collective, then the bytes brought: these
 * win. Meanwhile other ranges of both ways go on. */
static void test_both_ways_wait(void **state)
{
    enum { BYTES = 700000 };
    for (int way = 0; way < COPIER_WAYS; way++) {
        struct job job, other;
        void *stream, *event;
        uint64_t limit = 0;
        job_init(&job, 0, (enum copier_way)way, BYTES, 3);
        struct kernel kernel = {.output = fake_cuda_reach(job.range.device_data),
                                .bytes = BYTES};
        assert_int_equal(row->stream_open(0, false, &stream), TRYST_OK);
        assert_int_equal(row->event_open(0, &event), TRYST_OK);
        fake_cuda_call(stream, kernel_run, &kernel);
        assert_int_equal(row->event_record(0, stream, event), TRYST_OK);
        job.range.ready = event;
        if (way == COPIER_FETCH)
            memset(job.expected, 0x5a, BYTES); /* the kernel's result is fetched */
        assert_int_equal(copier_add(copier, &job.range), TRYST_OK);
        if (way == COPIER_BRING)
            job_raise(&job, &limit, BYTES);
        job_init(&other, 0, COPIER_FETCH, BYTES, 4);
        assert_int_equal(copier_add(copier, &other.range), TRYST_OK);
        job_wait(&other);
        assert_int_equal(atomic_load(&job.range.done), 0);
        atomic_store(&kernel.may_end, true);
        job_wait(&job);
        fake_cuda_finish(stream);
        assert_int_equal(job.range.status, TRYST_OK);
        assert_int_equal(job.range.done, BYTES);
        row->event_close(0, event);
        row->stream_close(0, stream);
        job_free(&job);
        job_free(&other);
    }
}

/* ---- a driver that waits ----------------------------------------------------------- */

static _Atomic bool is_inside, may_leave;

/* Wait as a driver does that holds its context's lock, then copy. */
static tryst_status slow_copy(int32_t device, void *stream, void *dst, const void *src,
                              size_t bytes)
{
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_leave))
        sched_yield();
    return row->copy_async(device, stream, dst, src, bytes);
}

/* While a call of the driver waits, no call of the copier or of the pool does. */
static void test_driver_waits(void **state)
{
    static struct memory_ops slow; /* used until the close */
    struct job stuck, other;
    struct shadow shadow;
    uint64_t limit = 0;
    slow = *row;
    slow.copy_async = slow_copy;
    job_init(&stuck, 0, COPIER_FETCH, MIB, 0);
    job_init(&other, 0, COPIER_BRING, MIB, 0);
    stuck.range.ops = &slow;
    assert_int_equal(copier_add(copier, &stuck.range), TRYST_OK);
    while (!atomic_load(&is_inside))
        sched_yield();
    assert_int_equal(copier_add(copier, &other.range), TRYST_OK);
    job_raise(&other, &limit, MIB / 2);
    copier_cancel(copier, &other.range);
    assert_int_equal(shadow_get(shadows, row, 0, MIB, &shadow), TRYST_OK);
    shadow_put(shadows, &shadow);
    atomic_store(&may_leave, true);
    job_wait(&stuck);
    job_wait(&other);
    assert_int_equal(stuck.range.status, TRYST_OK);
    assert_int_equal(other.range.status, TRYST_E_CANCELED);
    job_free(&stuck);
    job_free(&other);
}

/* ---- random ------------------------------------------------------------------------ */

enum { WORKERS = 3, JOBS = 40 };

/* One thread's share: adds, raises and cancels ranges in a random order. */
static void *worker(void *arg)
{
    struct random random;
    random_seed(&random, *(const uint64_t *)arg);
    for (unsigned i = 0; i < unit_cases(JOBS); i++) {
        struct job jobs[2];
        uint64_t limits[2] = {0, 0}, done;
        bool canceled[2] = {false, false};
        for (int j = 0; j < 2; j++) {
            uint64_t most = random_range(&random, 2) ? 4 * MIB : 100000;
            job_init(&jobs[j], (int32_t)random_range(&random, 2),
                     random_range(&random, 2) ? COPIER_FETCH : COPIER_BRING,
                     1 + random_range(&random, most), random_range(&random, 5));
            CHECK(copier_add(copier, &jobs[j].range) == TRYST_OK);
        }
        for (int step = 0; step < 12; step++) {
            int j = (int)random_range(&random, 2);
            if (random_range(&random, 20) == 0) {
                copier_cancel(copier, &jobs[j].range);
                canceled[j] = true;
            }
            if (jobs[j].range.way == COPIER_BRING)
                job_raise(&jobs[j], &limits[j],
                          random_range(&random, jobs[j].range.bytes - limits[j] + 1));
        }
        for (int j = 0; j < 2; j++) {
            if (jobs[j].range.way == COPIER_BRING)
                job_raise(&jobs[j], &limits[j], jobs[j].range.bytes - limits[j]);
            job_wait(&jobs[j]);
            copier_cancel(copier, &jobs[j].range); /* too late: no effect */
            done = atomic_load(&jobs[j].range.done);
            CHECK(jobs[j].range.status ==
                  (done == jobs[j].range.bytes ? TRYST_OK : TRYST_E_CANCELED));
            CHECK(canceled[j] || jobs[j].range.status == TRYST_OK);
            job_free(&jobs[j]);
        }
    }
    return NULL;
}

static void test_random(void **state)
{
    uint64_t seed = unit_seed(), seeds[WORKERS];
    pthread_t threads[WORKERS];
    for (uint64_t i = 0; i < WORKERS; i++) {
        seeds[i] = seed + i;
        CHECK(pthread_create(&threads[i], NULL, worker, &seeds[i]) == 0);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- failures ---------------------------------------------------------------------- */

/* A fetch and a bring, with new streams. Returns the number that failed. */
static int fails_run(const char *function, unsigned nth)
{
    struct job jobs[COPIER_WAYS];
    int failed = 0;
    uint64_t limit = 0;
    for (int way = 0; way < COPIER_WAYS; way++)
        job_init(&jobs[way], 0, (enum copier_way)way, 3 * MIB / 2, 0);
    fake_cuda_fail(function, nth, CUDA_ERROR_UNKNOWN);
    for (int way = 0; way < COPIER_WAYS; way++)
        CHECK(copier_add(copier, &jobs[way].range) == TRYST_OK);
    job_raise(&jobs[COPIER_BRING], &limit, 3 * MIB / 2);
    for (int way = 0; way < COPIER_WAYS; way++)
        job_wait(&jobs[way]);
    fake_cuda_fail(NULL, 0, 0);
    for (int way = 0; way < COPIER_WAYS; way++) {
        const struct copier_range *range = &jobs[way].range;
        CHECK((range->status == TRYST_OK) == (range->text[0] == '\0'));
        CHECK(range->status != TRYST_OK || range->done == range->bytes);
        failed += range->status != TRYST_OK;
        fake_cuda_drain(); /* a copy may outlive an event that failed */
        job_free(&jobs[way]);
    }
    return failed;
}

static void test_each_call_fails(void **state)
{
    /* {function, ranges that fail when one call does, and when all do} */
    static const struct {
        const char *function;
        int once, always;
    } rows[] = {{"cuStreamCreateWithPriority", 1, 2},
                {"cuEventCreate", 1, 2},
                {"cuMemcpyAsync", 1, 2},
                {"cuEventRecord", 0, 2},
                {"cuEventQuery", 0, 2},
                {"cuMemHostRegister", 0, 0},
                {"cuMemHostUnregister", 0, 0}};
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        for (unsigned nth = 0; nth <= 2; nth++) {
            parts_close();
            CHECK(parts_open() == TRYST_OK);
            int failed = fails_run(rows[i].function, nth);
            if (failed != (nth ? rows[i].once : rows[i].always))
                fail_msg("%s %u: %d ranges failed", rows[i].function, nth, failed);
            assert_int_equal(fails_run(NULL, 0), 0); /* the copier goes on */
        }
    }
}

/* A copy fails, and so its device is lost: the device's ranges end, those of other
 * devices go on. (The last test, since the device stays in error.) */
static void test_lost_device(void **state)
{
    struct job lost, good;
    job_init(&lost, 1, COPIER_FETCH, 3 * MIB, 0);
    job_init(&good, 0, COPIER_FETCH, 3 * MIB, 0);
    fake_cuda_fail("copy", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(copier_add(copier, &lost.range), TRYST_OK);
    job_wait(&lost);
    fake_cuda_fail(NULL, 0, 0);
    assert_int_equal(copier_add(copier, &good.range), TRYST_OK);
    job_wait(&good);
    assert_int_equal(lost.range.status, TRYST_E_SYSTEM);
    assert_non_null(strstr(lost.range.text, "(700)"));
    assert_int_equal(good.range.status, TRYST_OK);
    job_free(&good);
    job_free(&lost);
}

/* ---- the process exits ------------------------------------------------------------- */

/* Exit with one range that waits for bytes, and one that waits for a kernel. */
static void child_run(void)
{
    static struct kernel kernel;
    struct job starved, held;
    void *stream;
    row = row_get();
    CHECK(parts_open() == TRYST_OK);
    job_init(&starved, 0, COPIER_BRING, MIB, 0);
    job_init(&held, 0, COPIER_FETCH, MIB, 0);
    CHECK(row->stream_open(0, false, &stream) == TRYST_OK);
    CHECK(row->event_open(0, &held.range.ready) == TRYST_OK);
    fake_cuda_call(stream, kernel_run, &kernel);
    CHECK(row->event_record(0, stream, held.range.ready) == TRYST_OK);
    CHECK(copier_add(copier, &starved.range) == TRYST_OK);
    CHECK(copier_add(copier, &held.range) == TRYST_OK);
    exit(0);
}

/* The exit waits for no range. (The driver then reports what was not closed.) */
static void exit_check(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(freopen("/dev/null", "w", stderr));
        alarm(20);
        child_run();
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == FAKE_CUDA_EXIT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    pattern_make();
    exit_check(); /* first: a child may use the driver only if its parent has not */
    row = row_get();
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_before),  TEST(test_no_memory),    TEST(test_pinned_later),
        TEST(test_both_ways_wait),  TEST(test_driver_waits), TEST(test_random),
        TEST(test_each_call_fails), TEST(test_lost_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
