/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver detects each error that it exists to detect, and waits where a driver
 * may wait. Each case is a process. */
#include <cuda.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "support/child.h"
#include "support/fake_cuda/fake_cuda.h"
#include "support/patience.h"
#include "support/unit.h"

/* In a case: end the process unless `condition` holds. */
#define REQUIRE(condition)                                                 \
    ((condition) ? (void)0                                                 \
                 : (printf("%s:%d: %s\n", __FILE__, __LINE__, #condition), \
                    fflush(stdout), _exit(2)))

static CUcontext context;

static CUdeviceptr begin(size_t bytes)
{
    CUdeviceptr data = 0;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent(context) ||
        (bytes && cuMemAlloc(&data, bytes)))
        _exit(2);
    return data;
}

static void end(CUdeviceptr data)
{
    if ((data && cuMemFree(data)) || cuCtxPopCurrent(&context))
        _exit(2);
}

/* Return how a child that runs `body` ended: its exit code, or 128 plus its signal. */
static int outcome(void (*body)(void))
{
    int status = 0;
    pid_t pid = child_fork();
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an exit code */
        signal(SIGABRT, SIG_DFL);
        (void)freopen("/dev/null", "w", stderr);
        body();
        exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void tidy(void)
{
    char bytes[4] = "abc";
    CUstream stream;
    CUevent event;
    CUdeviceptr data = begin(100);
    if (cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) ||
        cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) ||
        cuMemcpyAsync(data, (CUdeviceptr)bytes, 4, stream) ||
        cuEventRecord(event, stream))
        _exit(2);
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        sched_yield();
    memset(bytes, 0, 4);
    fake_cuda_read((void *)data, bytes, 4);
    if (strcmp(bytes, "abc") != 0 || cuEventDestroy(event) || cuStreamDestroy(stream))
        _exit(2);
    end(data);
}

static void touch(void)
{
    *(volatile char *)begin(100) = 1;
}

static void leave_allocation(void)
{
    (void)begin(100);
    end(0);
}

static void leave_context(void)
{
    (void)begin(0);
}

static void leave_stream(void)
{
    CUstream stream;
    (void)begin(0);
    (void)cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
    end(0);
}

static void beyond(void)
{
    static char bytes[200];
    CUdeviceptr data = begin(100);
    if (cuMemcpyAsync(data, (CUdeviceptr)bytes, 101, NULL) != CUDA_ERROR_INVALID_VALUE ||
        cuMemcpyAsync(data + 512, (CUdeviceptr)bytes, 1, NULL) !=
            CUDA_ERROR_INVALID_VALUE)
        _exit(2);
    end(data);
}

static CUdeviceptr mapped_open(size_t bytes)
{
    struct CUmemLocation_st here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemAllocationProp prop = {.location = here};
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    REQUIRE(!cuMemCreate(&handle, bytes, &prop, 0));
    REQUIRE(!cuMemAddressReserve(&at, bytes, 0, 0, 0));
    REQUIRE(!cuMemMap(at, bytes, 0, handle, 0));
    REQUIRE(!cuMemSetAccess(at, bytes, &access, 1));
    return at;
}

static uint32_t *word_open(void)
{
    void *word;
    REQUIRE(
        !cuMemHostAlloc(&word, 8, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    return word;
}

/* Close the import while a copy from it waits in its stream. */
static void copy_from_gone(void)
{
    static char bytes[100];
    (void)begin(0);
    CUdeviceptr at = mapped_open(4096);
    uint32_t *word = word_open();
    if (cuStreamWaitValue32(NULL, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_GEQ) ||
        cuMemcpyAsync((CUdeviceptr)bytes, at, 100, NULL) || cuMemUnmap(at, 4096) ||
        cuMemAddressFree(at, 4096))
        _exit(2);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    fake_cuda_drain();
}

static void fails_in_turn(void)
{
    CUdeviceptr data = begin(0);
    fake_cuda_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY);
    if (cuMemAlloc(&data, 8) || cuMemFree(data) ||
        cuMemAlloc(&data, 8) != CUDA_ERROR_OUT_OF_MEMORY || cuMemAlloc(&data, 8))
        _exit(2);
    if (fake_cuda_calls("cuMemAlloc") != 3)
        _exit(2);
    end(data);
}

static void fails_by_environment(void)
{
    CUdeviceptr data;
    setenv("FAKE_CUDA_FAIL", "cuMemFree:7,cuMemAlloc:1:2", 1);
    (void)begin(0);
    if (cuMemAlloc(&data, 8) != CUDA_ERROR_OUT_OF_MEMORY)
        _exit(2);
    end(0);
}

/* ---- copies that take time --------------------------------------------------------- */

static CUstream stream_open(void)
{
    CUstream stream;
    REQUIRE(!cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

/* Queue a copy in a new stream; return an event behind it. */
static CUevent copy_begin(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUevent event;
    CUstream stream = stream_open();
    REQUIRE(!cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    REQUIRE(!cuMemcpyAsync(to, from, bytes, stream) && !cuEventRecord(event, stream));
    REQUIRE(!cuStreamDestroy(stream));
    return event;
}

static void copy_await(CUevent event)
{
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        sched_yield();
    REQUIRE(!cuEventDestroy(event));
}

/* Read a byte that a copy may be writing. */
__attribute__((no_sanitize("thread"))) static char peek(const volatile char *data)
{
    return *data;
}

enum { MB = 1000000 };
static char first[10 * MB], second[10 * MB];

static void copies_take_turns(void)
{
    setenv("FAKE_CUDA_COPY_MBPS", "20", 1);
    CUdeviceptr data = begin(4 * MB);
    for (int back = 0; back < 2; back++) {
        uint64_t start_ns = patience_now_ns();
        CUevent events[2];
        for (int i = 0; i < 2; i++) {
            CUdeviceptr device = data + (CUdeviceptr)i * 2 * MB,
                        host = (CUdeviceptr)first;
            events[i] = back ? copy_begin(host + (CUdeviceptr)i * MB, device, MB)
                             : copy_begin(device, host, MB);
        }
        copy_await(events[0]);
        copy_await(events[1]);
        REQUIRE(patience_now_ns() - start_ns >= 100 * UINT64_C(1000000)); /* 2 MB */
    }
    end(data);
}

/* While a copy to the device takes ten seconds, copies back and within the device go on;
 * of a copy back, the first half arrives long before the rest. */
static void copies_overlap(void)
{
    setenv("FAKE_CUDA_COPY_MBPS", "1", 1);
    CUdeviceptr data = begin(20 * MB);
    memset(first, 1, sizeof first);
    fake_cuda_write((void *)data, first, sizeof first);
    CUevent there = copy_begin(data + 10 * MB, (CUdeviceptr)first, 10 * MB);
    copy_await(copy_begin(data + 5 * MB, data, 5 * MB));
    copy_await(copy_begin((CUdeviceptr)second, data, MB / 100));
    REQUIRE(second[0] == 1 && second[MB / 100 - 1] == 1);
    CUevent back = copy_begin((CUdeviceptr)second, data, 10 * MB);
    while (peek(&second[5 * MB - 1]) == 0)
        sched_yield();
    REQUIRE(peek(&second[5 * MB]) == 0);
    REQUIRE(cuEventQuery(back) == CUDA_ERROR_NOT_READY);
    REQUIRE(cuEventQuery(there) == CUDA_ERROR_NOT_READY);
    _exit(0); /* earlier than the copies */
}

/* Unmap the source in the middle of a copy. */
static void copy_while_it_goes(void)
{
    setenv("FAKE_CUDA_COPY_MBPS", "4", 1);
    (void)begin(0);
    CUdeviceptr data = mapped_open(4 * MB);
    memset(first, 1, sizeof first);
    fake_cuda_write((void *)data, first, 4 * MB);
    CUevent back = copy_begin((CUdeviceptr)second, data, 4 * MB);
    while (peek(&second[2 * MB - 1]) == 0)
        sched_yield();
    REQUIRE(!cuMemUnmap(data, 4 * MB));
    copy_await(back);
}

/* ---- calls counted by thread ------------------------------------------------------- */

static void *caller_run(void *arg)
{
    CUdeviceptr data;
    const char *name;
    REQUIRE(fake_cuda_calls_by(0) == 0);
    REQUIRE(cuMemFree(0) == CUDA_ERROR_INVALID_CONTEXT); /* counts, too */
    REQUIRE(!cuCtxPushCurrent(context) && !cuMemAlloc(&data, MB));
    copy_await(copy_begin(data, (CUdeviceptr)first, MB));
    REQUIRE(!cuMemFree(data) && !cuCtxPopCurrent(&context));
    REQUIRE(!cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &name));
    *(pid_t *)arg = gettid();
    return NULL;
}

/* Operations of a stream are no calls. */
static void stream_calls_none(void *arg)
{
    (void)arg;
    REQUIRE(fake_cuda_calls_by(0) == 0);
}

static void calls_by_thread(void)
{
    pthread_t thread;
    pid_t number;
    (void)begin(0);
    unsigned mine = fake_cuda_calls_by(0), memory = fake_cuda_memory_calls();
    unsigned queries = fake_cuda_calls("cuEventQuery");
    REQUIRE(mine == 3 && fake_cuda_calls_by(gettid()) == 3);
    REQUIRE(!pthread_create(&thread, NULL, caller_run, &number));
    REQUIRE(!pthread_join(thread, NULL));
    queries = fake_cuda_calls("cuEventQuery") - queries;
    /* five calls there, and five of copy_begin, queries and one of copy_await */
    REQUIRE(fake_cuda_calls_by(number) == 11 + queries);
    REQUIRE(fake_cuda_calls_by(0) == mine && fake_cuda_calls_by(1) == 0);
    REQUIRE(fake_cuda_memory_calls() == memory + 3);
    fake_cuda_fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE(cuMemHostAlloc(NULL, 8, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE(fake_cuda_memory_calls() == memory + 4 && fake_cuda_calls_by(0) == mine + 1);
    REQUIRE(!cuMemcpyAsync((CUdeviceptr)first, (CUdeviceptr)second, MB, NULL));
    fake_cuda_call(NULL, stream_calls_none, NULL);
    fake_cuda_drain();
    end(0);
}

/* ---- words ------------------------------------------------------------------------- */

/* A stream writes the word behind a copy that takes time; another waits for the word. */
static void write_word(void)
{
    setenv("FAKE_CUDA_COPY_MBPS", "20", 1);
    CUdeviceptr data = begin(MB);
    uint32_t *word = word_open();
    CUdeviceptr at = (CUdeviceptr)word;
    CUstream writer = stream_open(), waiter = stream_open();
    memset(first, 1, MB);
    fake_cuda_write((void *)data, first, MB);
    REQUIRE(!cuStreamWaitValue32(waiter, at, 6, CU_STREAM_WAIT_VALUE_GEQ));
    REQUIRE(!cuMemcpyAsync((CUdeviceptr)second, data, MB, writer));
    REQUIRE(!cuStreamWriteValue32(writer, at, 7, CU_STREAM_WRITE_VALUE_DEFAULT));
    REQUIRE(cuStreamQuery(waiter) == CUDA_ERROR_NOT_READY);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 7)
        sched_yield();
    REQUIRE(memcmp(first, second, MB) == 0);
    fake_cuda_finish(waiter);
    REQUIRE(
        cuStreamWriteValue32(writer, at, 8, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) ==
        CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuStreamWriteValue32(writer, at + 1, 8, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(cuStreamWriteValue32(writer, (CUdeviceptr)first, 8, 0) ==
            CUDA_ERROR_INVALID_VALUE);
    /* behind a copy that fails */
    REQUIRE(!cuStreamWaitValue32(writer, at, 8, CU_STREAM_WAIT_VALUE_GEQ));
    REQUIRE(!cuMemcpyAsync((CUdeviceptr)second, data, MB, writer));
    REQUIRE(!cuStreamWriteValue32(writer, at, 9, 0));
    fake_cuda_fail("copy", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    __atomic_store_n(word, 8, __ATOMIC_RELEASE);
    fake_cuda_drain();
    REQUIRE(*word == 8);
    REQUIRE(!cuStreamDestroy(writer) && !cuStreamDestroy(waiter) && !cuMemFreeHost(word));
    end(data);
}

static void write_word_resolved(void)
{
    void *function;
    CUdriverProcAddressQueryResult how;
    (void)begin(0);
    REQUIRE(!cuGetProcAddress("cuStreamWriteValue32", &function, 11070,
                              CU_GET_PROC_ADDRESS_LEGACY_STREAM, &how));
    REQUIRE(function == (void *)(uintptr_t)cuStreamWriteValue32);
    setenv("FAKE_CUDA_LACKS", "cuStreamWriteValue32", 1);
    REQUIRE(cuGetProcAddress("cuStreamWriteValue32", &function, 11070,
                             CU_GET_PROC_ADDRESS_LEGACY_STREAM, &how));
    end(0);
}

/* ---- calls that hold the context's lock -------------------------------------------- */

static CUdeviceptr lazy_data;
static void *lazy_pinned;

static void lazy_alloc(void)
{
    REQUIRE(!cuMemAlloc(&lazy_data, 8));
}

static void lazy_free(void)
{
    REQUIRE(!cuMemFree(lazy_data));
}

static void lazy_pin(void)
{
    lazy_pinned = word_open();
}

static void lazy_unpin(void)
{
    REQUIRE(!cuMemFreeHost(lazy_pinned));
}

static void lazy_stream_open(void)
{
    (void)stream_open();
}

/* The imports fail, after they have waited. */
static void lazy_ipc_open(void)
{
    REQUIRE(cuIpcOpenMemHandle(&lazy_data, (CUipcMemHandle){{0}}, 0));
}

static void lazy_import(void)
{
    CUmemGenericAllocationHandle handle;
    REQUIRE(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)-1,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

static void lazy_map(void)
{
    REQUIRE(cuMemMap(0, 8, 1, 0, 0));
}

static void lazy_event_open(void)
{
    CUevent event;
    REQUIRE(!cuEventCreate(&event, 0));
}

/* A thread that makes a call. */
struct lazy_thread {
    void (*call)(void);
    _Atomic(pid_t) number;
    atomic_bool done;
    pthread_t thread;
};

static void *lazy_run(void *arg)
{
    struct lazy_thread *self = arg;
    atomic_store(&self->number, gettid());
    REQUIRE(!cuCtxPushCurrent(context));
    self->call();
    atomic_store(&self->done, true);
    return NULL;
}

/* Start a thread; return when it has begun `calls` calls. */
static void lazy_start(struct lazy_thread *self, unsigned calls)
{
    REQUIRE(!pthread_create(&self->thread, NULL, lazy_run, self));
    while (!atomic_load(&self->number) || fake_cuda_calls_by(self->number) < calls)
        sched_yield();
}

/* The call of the case, and whether another call waits for it. */
static void (*lazy_call)(void);
static bool lazy_holds;

/* True if a thread's call ends soon. One that is expected to wait gets little time. */
static bool lazy_ends(const struct lazy_thread *self)
{
    struct patience patience = patience_begin();
    uint64_t most_ns = (lazy_holds ? 20 : 10000) * UINT64_C(1000000);
    while (!atomic_load(&self->done) && patience_spent_ns(&patience) < most_ns)
        sched_yield();
    return atomic_load(&self->done);
}

/* While a stream waits for the program, one thread makes the call of the case, and then
 * another thread makes a call. */
static void eager(void)
{
    struct lazy_thread holder = {.call = lazy_call}, other = {.call = lazy_event_open};
    lazy_data = begin(8);
    lazy_pin();
    uint32_t *word = word_open();
    REQUIRE(!cuStreamWaitValue32(stream_open(), (CUdeviceptr)word, 1,
                                 CU_STREAM_WAIT_VALUE_GEQ));
    lazy_start(&holder, 2);
    lazy_start(&other, 1);
    REQUIRE(lazy_ends(&other) == !lazy_holds);
    REQUIRE(!lazy_holds || !atomic_load(&holder.done));
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    pthread_join(holder.thread, NULL);
    pthread_join(other.thread, NULL);
    _exit(0);
}

static void lazy(void)
{
    setenv("FAKE_CUDA_LAZY", "1", 1);
    eager();
}

static void test_lazy(void **state)
{
    static void (*const holders[])(void) = {lazy_alloc,  lazy_free,        lazy_pin,
                                            lazy_unpin,  lazy_stream_open, lazy_ipc_open,
                                            lazy_import, lazy_map};
    for (size_t i = 0; i < sizeof holders / sizeof *holders; i++) {
        lazy_call = holders[i];
        lazy_holds = true;
        assert_int_equal(outcome(lazy), 0);
        lazy_holds = false;
        assert_int_equal(outcome(eager), 0);
    }
    lazy_call = lazy_event_open;
    assert_int_equal(outcome(lazy), 0);
}

static void test_tidy(void **state)
{
    assert_int_equal(outcome(tidy), 0);
    assert_int_equal(outcome(beyond), 0);
    assert_int_equal(outcome(fails_in_turn), 0);
    assert_int_equal(outcome(fails_by_environment), 0);
    assert_int_equal(outcome(calls_by_thread), 0);
    assert_int_equal(outcome(write_word), 0);
    assert_int_equal(outcome(write_word_resolved), 0);
}

static void test_untidy(void **state)
{
    assert_int_equal(outcome(touch), 128 + SIGSEGV);
    assert_int_equal(outcome(leave_allocation), FAKE_CUDA_EXIT);
    assert_int_equal(outcome(leave_context), FAKE_CUDA_EXIT);
    assert_int_equal(outcome(leave_stream), FAKE_CUDA_EXIT);
    assert_int_equal(outcome(copy_from_gone), 128 + SIGABRT);
    assert_int_equal(outcome(copy_while_it_goes), 128 + SIGABRT);
}

static void test_rate(void **state)
{
    assert_int_equal(outcome(copies_take_turns), 0);
    assert_int_equal(outcome(copies_overlap), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tidy), cmocka_unit_test(test_untidy),
        cmocka_unit_test(test_rate), cmocka_unit_test(test_lazy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
