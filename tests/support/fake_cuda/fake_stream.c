/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's streams, each a thread with a queue, and its events. */
#include "fake_private.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct work {
    struct work *next;
    enum { COPY, CALL, RECORD, WAIT_EVENT, WAIT_WORD, WRITE_WORD } what;
    void (*call)(void *arg);
    void *arg;
    uintptr_t to, from;
    bool to_known, from_known; /* the address had a range when the copy was queued */
    size_t bytes;
    CUevent event;
    uint64_t record; /* the event's count to wait for */
    uint32_t *word;
    uint32_t value;
    uint64_t queued_ns;
};

struct CUstream_st {
    struct CUstream_st *next; /* in the list of all streams */
    int device, priority;
    struct work *first, **last;
    bool busy, closed;
    bool is_captured; /* fake_cuda_capture */
    bool waits;       /* the operation that it executes is a wait */
    /* The time when its last operation ended. A copy ends when its time is over, however
     * late this thread runs, so queued copies keep the rate. */
    uint64_t clock_ns;
};

struct CUevent_st {
    int references;
    uint64_t recorded, passed; /* counts */
};

static CUstream streams;

unsigned fake_random(unsigned limit)
{
    static _Thread_local uint64_t state;
    if (state == 0)
        state = (uint64_t)(uintptr_t)&state ^ (uint64_t)time(NULL);
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return limit ? (unsigned)(state >> 33) % limit : 0;
}

static void nap_us(unsigned us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000L};
    if (us)
        (void)nanosleep(&time, NULL);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t time_ns)
{
    struct timespec time = {(time_t)(time_ns / 1000000000), (long)(time_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        continue;
}

/* --- execution; under the lock on entry and on return --- */

/* When each copy engine is free. A device has one for copies to it, and one for copies
 * from it, to and from the host. */
static uint64_t engines_free_ns[FAKE_DEVICES_MAX][2];

/* Return the device of an address, or -1: host memory. */
static int device_of(uintptr_t address)
{
    const struct range *range = fake_range_find(address);
    return range ? range->device : -1;
}

/* Reserve the copy's engine, at `ready_ns` or as soon as the engine is free. Return when
 * the copy ends; 0: the copy takes no time. */
static uint64_t engine_take(const struct work *work, uint64_t ready_ns)
{
    int to = device_of(work->to), from = device_of(work->from);
    if (!fake_copy_mbps || (to < 0) == (from < 0))
        return 0;
    uint64_t *free_ns = &engines_free_ns[to < 0 ? from : to][to < 0];
    *free_ns = *free_ns > ready_ns ? *free_ns : ready_ns;
    return *free_ns += work->bytes * UINT64_C(1000) / fake_copy_mbps;
}

static void bytes_move(const struct work *work, size_t at, size_t bytes)
{
    char *to = fake_reach(work->to, work->bytes);
    const char *from = fake_reach(work->from, work->bytes);
    bool is_gone = (work->to_known && !fake_range_find(work->to)) ||
                   (work->from_known && !fake_range_find(work->from));
    if (!to || !from || is_gone) {
        fprintf(stderr, "fake CUDA: a copy of %zu bytes touches memory that is gone\n",
                work->bytes);
        abort();
    }
    pthread_mutex_unlock(&fake_lock);
    memmove(to + at, from + at, bytes);
    pthread_mutex_lock(&fake_lock);
}

/* A copy that takes time moves half of its bytes at its begin, the rest at its end. */
static void copy_do(const struct work *work, CUstream stream)
{
    pthread_mutex_unlock(&fake_lock);
    CUresult result = fake_begin("copy");
    pthread_mutex_lock(&fake_lock);
    if (result != CUDA_SUCCESS) {
        fake_devices[stream->device].sticky = result;
        return;
    }
    uint64_t end_ns = engine_take(work, stream->clock_ns);
    size_t half = end_ns ? work->bytes / 2 : work->bytes;
    bytes_move(work, 0, half);
    stream->clock_ns = end_ns ? end_ns : now_ns();
    if (!end_ns)
        return;
    pthread_mutex_unlock(&fake_lock);
    sleep_until(end_ns);
    pthread_mutex_lock(&fake_lock);
    bytes_move(work, half, work->bytes - half);
}

/* Acquire: pairs with the release of the thread that writes the word. */
static void word_wait(const struct work *work)
{
    pthread_mutex_unlock(&fake_lock);
    while ((int32_t)(__atomic_load_n(work->word, __ATOMIC_ACQUIRE) - work->value) < 0)
        nap_us(20);
    pthread_mutex_lock(&fake_lock);
}

/* A device in error writes no more. Release: pairs with the acquire of the thread that
 * reads the word. */
static void word_write(const struct work *work, int device)
{
    if (fake_devices[device].sticky == CUDA_SUCCESS)
        __atomic_store_n(work->word, work->value, __ATOMIC_RELEASE);
}

static void event_drop(CUevent event)
{
    if (--event->references == 0)
        free(event);
}

static void work_do(const struct work *work, CUstream stream)
{
    switch (work->what) {
    case COPY: copy_do(work, stream); return;
    case CALL:
        pthread_mutex_unlock(&fake_lock);
        work->call(work->arg);
        pthread_mutex_lock(&fake_lock);
        break;
    case RECORD:
        if (work->event->passed < work->record)
            work->event->passed = work->record;
        event_drop(work->event);
        return;
    case WAIT_EVENT:
        while (work->event->passed < work->record)
            pthread_cond_wait(&fake_changed, &fake_lock);
        event_drop(work->event);
        break;
    case WAIT_WORD: word_wait(work); break;
    case WRITE_WORD: word_write(work, stream->device); return;
    }
    stream->clock_ns = now_ns();
}

/* --- streams --- */

static bool is_wait(const struct work *work)
{
    return work->what == WAIT_WORD ||
           (work->what == WAIT_EVENT && work->event->passed < work->record);
}

/* True if the stream holds an operation that need not wait. */
static bool stream_can_go_on(const struct CUstream_st *stream)
{
    return stream->busy ? !stream->waits : stream->first && !is_wait(stream->first);
}

/* True if this stream must wait for another, under the order of FAKE_CUDA_FAVOUR. */
static bool stream_yields(const struct CUstream_st *self)
{
    for (CUstream stream = streams; stream && fake_favour; stream = stream->next) {
        if (fake_favour * (stream->priority - self->priority) > 0 &&
            stream_can_go_on(stream))
            return true;
    }
    return false;
}

static void stream_unlink(CUstream stream)
{
    CUstream *at = &streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
}

static void *stream_run(void *arg)
{
    CUstream stream = arg;
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        while (!stream->first && !stream->closed)
            pthread_cond_wait(&fake_changed, &fake_lock);
        struct work *work = stream->first;
        if (!work)
            break;
        if (stream_yields(stream)) {
            pthread_cond_wait(&fake_changed, &fake_lock);
            stream->clock_ns = now_ns();
            continue;
        }
        stream->first = work->next;
        if (!work->next)
            stream->last = &stream->first;
        stream->busy = true;
        stream->waits = is_wait(work);
        pthread_mutex_unlock(&fake_lock);
        unsigned delay_us = fake_random(fake_delay_us + 1);
        nap_us(delay_us);
        pthread_mutex_lock(&fake_lock);
        if (stream->clock_ns < work->queued_ns)
            stream->clock_ns = work->queued_ns;
        stream->clock_ns += delay_us * UINT64_C(1000);
        work_do(work, stream);
        free(work);
        stream->busy = stream->waits = false;
        pthread_cond_broadcast(&fake_changed);
    }
    stream_unlink(stream);
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
    free(stream);
    return NULL;
}

/* Under the lock. */
static CUstream stream_make(int device, int priority)
{
    pthread_t thread;
    sigset_t all, mask;
    CUstream stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    stream->device = device;
    stream->priority = priority;
    stream->last = &stream->first;
    stream->next = streams;
    streams = stream;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
    if (pthread_create(&thread, NULL, stream_run, stream) != 0)
        abort();
    (void)pthread_detach(thread);
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return stream;
}

void fake_synchronize(int device)
{
    for (CUstream stream = streams; stream;) {
        bool idle = !stream->first && !stream->busy;
        if (idle || (device >= 0 && stream->device != device)) {
            stream = stream->next;
            continue;
        }
        pthread_cond_wait(&fake_changed, &fake_lock);
        stream = streams; /* restart: any stream may have been destroyed meanwhile */
    }
}

void fake_cuda_drain(void)
{
    pthread_mutex_lock(&fake_lock);
    fake_synchronize(-1);
    pthread_mutex_unlock(&fake_lock);
}

int fake_cuda_stream_priority(void *stream)
{
    return ((CUstream)stream)->priority;
}

/* Queue a copy of `model`. NULL and the two special handles of the driver mean the
 * default stream of the current context. */
static void stream_add(CUstream stream, int device, const struct work *model)
{
    struct work *work = malloc(sizeof *work);
    if (!work)
        abort();
    *work = *model;
    work->next = NULL;
    work->queued_ns = now_ns();
    if ((uintptr_t)stream <= 2) {
        if (!fake_devices[device].default_stream)
            fake_devices[device].default_stream = stream_make(device, 0);
        stream = fake_devices[device].default_stream;
    }
    *stream->last = work;
    stream->last = &work->next;
    pthread_cond_broadcast(&fake_changed);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    int device;
    FAKE_ENTER(cuStreamCreateWithPriority, device);
    if (flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    *stream = stream_make(device, priority);
    fake_counts.streams++;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    CUresult failure = fake_begin("cuStreamDestroy");
    if (fake_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    stream->closed = true;
    fake_counts.streams--;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
    return failure;
}

CUresult cuStreamQuery(CUstream stream)
{
    int device;
    FAKE_ENTER(cuStreamQuery, device);
    pthread_mutex_lock(&fake_lock);
    bool idle = !stream->first && !stream->busy;
    pthread_mutex_unlock(&fake_lock);
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    int device;
    struct work work = {.what = COPY, .to = to, .from = from, .bytes = bytes};
    FAKE_ENTER(cuMemcpyAsync, device);
    pthread_mutex_lock(&fake_lock);
    bool good = fake_reach(to, bytes) && fake_reach(from, bytes);
    work.to_known = fake_range_find(to);
    work.from_known = fake_range_find(from);
    if (good && bytes)
        stream_add(stream, device, &work);
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void fake_cuda_call(void *stream, void (*fn)(void *arg), void *arg)
{
    const struct work work = {.what = CALL, .call = fn, .arg = arg};
    pthread_mutex_lock(&fake_lock);
    stream_add(stream, fake_current(), &work);
    pthread_mutex_unlock(&fake_lock);
}

void fake_cuda_finish(void *stream)
{
    const struct CUstream_st *self = stream;
    pthread_mutex_lock(&fake_lock);
    while (self->first || self->busy)
        pthread_cond_wait(&fake_changed, &fake_lock);
    pthread_mutex_unlock(&fake_lock);
}

void *fake_cuda_reach(const void *data)
{
    pthread_mutex_lock(&fake_lock);
    char *reached = fake_reach((uintptr_t)data, 1);
    pthread_mutex_unlock(&fake_lock);
    return reached ? reached : (void *)(uintptr_t)data;
}

/* --- words in pinned memory --- */

/* Queue `model`, which waits for the word at `address` or writes it. */
static CUresult word_add(CUstream stream, int device, CUdeviceptr address,
                         const struct work *model)
{
    struct work work = *model;
    work.word = (uint32_t *)(uintptr_t)address;
    pthread_mutex_lock(&fake_lock);
    const struct range *range = fake_range_find(address);
    bool good = range && range->device < 0 && address % sizeof *work.word == 0;
    if (good)
        stream_add(stream, device, &work);
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr word, cuuint32_t value,
                             unsigned flags)
{
    int device;
    FAKE_ENTER(cuStreamWaitValue32, device);
    if (flags != CU_STREAM_WAIT_VALUE_GEQ)
        return CUDA_ERROR_INVALID_VALUE;
    const struct work wait = {.what = WAIT_WORD, .value = value};
    return word_add(stream, device, word, &wait);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr word, cuuint32_t value,
                              unsigned flags)
{
    int device;
    FAKE_ENTER(cuStreamWriteValue32, device);
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT)
        return CUDA_ERROR_INVALID_VALUE;
    const struct work write = {.what = WRITE_WORD, .value = value};
    return word_add(stream, device, word, &write);
}

void fake_cuda_capture(void *stream, bool begins)
{
    pthread_mutex_lock(&fake_lock);
    ((CUstream)stream)->is_captured = begins;
    pthread_mutex_unlock(&fake_lock);
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    int device;
    FAKE_ENTER(cuStreamIsCapturing, device);
    bool is_default = (uintptr_t)stream <= 2;
    pthread_mutex_lock(&fake_lock);
    *status = !is_default && stream->is_captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                 : CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* The two kernels: one waits for a word, one writes it. */
static int module_marker, wait_marker, write_marker;

CUresult cuModuleLoadData(CUmodule *module, const void *text)
{
    int device;
    FAKE_ENTER(cuModuleLoadData, device);
    if (!strstr(text, ".visible .entry tryst_wait_word(") ||
        !strstr(text, ".visible .entry tryst_write_word("))
        return CUDA_ERROR_INVALID_PTX;
    *module = (CUmodule)&module_marker;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    int device;
    FAKE_ENTER(cuModuleGetFunction, device);
    bool waits = strcmp(name, "tryst_wait_word") == 0;
    if (module != (CUmodule)&module_marker ||
        (!waits && strcmp(name, "tryst_write_word") != 0))
        return CUDA_ERROR_NOT_FOUND;
    *function = (CUfunction)(waits ? &wait_marker : &write_marker);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                        unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared, CUstream stream,
                        void **arguments, void **extra)
{
    int device;
    FAKE_ENTER(cuLaunchKernel, device);
    bool writes = function == (CUfunction)&write_marker;
    if ((!writes && function != (CUfunction)&wait_marker) || shared || extra ||
        grid_x * grid_y * grid_z * block_x * block_y * block_z != 1)
        return CUDA_ERROR_INVALID_VALUE;
    const struct work work = {.what = writes ? WRITE_WORD : WAIT_WORD,
                              .value = *(uint32_t *)arguments[1]};
    return word_add(stream, device, *(CUdeviceptr *)arguments[0], &work);
}

/* --- events --- */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    int device;
    FAKE_ENTER(cuEventCreate, device);
    (void)flags;
    CUevent made = calloc(1, sizeof *made);
    if (!made)
        abort();
    made->references = 1;
    pthread_mutex_lock(&fake_lock);
    fake_counts.events++;
    pthread_mutex_unlock(&fake_lock);
    *event = made;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    CUresult failure = fake_begin("cuEventDestroy");
    if (fake_current() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    fake_counts.events--;
    event_drop(event);
    pthread_mutex_unlock(&fake_lock);
    return failure;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    int device;
    FAKE_ENTER(cuEventRecord, device);
    pthread_mutex_lock(&fake_lock);
    struct work work = {.what = RECORD, .event = event, .record = ++event->recorded};
    event->references++;
    stream_add(stream, device, &work);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    int device;
    FAKE_ENTER(cuEventQuery, device);
    pthread_mutex_lock(&fake_lock);
    bool passed = event->passed == event->recorded;
    pthread_mutex_unlock(&fake_lock);
    return passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    int device;
    FAKE_ENTER(cuStreamWaitEvent, device);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    struct work work = {.what = WAIT_EVENT, .event = event, .record = event->recorded};
    event->references++;
    stream_add(stream, device, &work);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}
