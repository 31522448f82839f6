/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's start, its failures on demand, devices and contexts, and its report
 * at exit. */
#include "fake_private.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
struct fake_cuda_counts fake_counts;
struct fake_device fake_devices[FAKE_DEVICES_MAX];
int fake_devices_count;
size_t fake_device_bytes;
unsigned fake_delay_us, fake_copy_mbps;
bool fake_waits;
int fake_favour;
static bool lazy;

/* --- calls: count, and failures on demand --- */

enum { NAMES_MAX = 96, NAME_BYTES = 48 };
static struct call {
    char name[NAME_BYTES];
    unsigned count;
    bool fails;
    unsigned fail_at; /* 0: always */
    CUresult result;
} calls[NAMES_MAX];

static struct call *call_find(const char *name, size_t bytes)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        if (!calls[i].name[0])
            (void)snprintf(calls[i].name, NAME_BYTES, "%.*s", (int)bytes, name);
        if (strlen(calls[i].name) == bytes && strncmp(calls[i].name, name, bytes) == 0)
            return &calls[i];
    }
    abort();
}

/* --- calls by thread --- */

/* A thread that has called the driver; kept after the thread has ended. */
struct caller {
    struct caller *next;
    pid_t thread;
    unsigned count;
};
static struct caller *callers;
static _Thread_local struct caller *caller;

static void caller_add(void)
{
    caller = calloc(1, sizeof *caller);
    if (!caller)
        abort();
    caller->thread = gettid();
    caller->next = callers;
    callers = caller;
}

/* Count a call by this thread, unless it is a call of the runtime (cudaMalloc) or an
 * operation of a stream. */
static void caller_count(const char *function)
{
    bool of_driver = strncmp(function, "cu", 2) == 0 && isupper(function[2]);
    if (of_driver && !caller)
        caller_add();
    if (of_driver)
        caller->count++;
}

unsigned fake_cuda_calls_by(pid_t thread)
{
    unsigned count = 0;
    pid_t wanted = thread ? thread : gettid();
    pthread_mutex_lock(&fake_lock);
    for (const struct caller *other = callers; other; other = other->next)
        count += other->thread == wanted ? other->count : 0;
    pthread_mutex_unlock(&fake_lock);
    return count;
}

/* --- the context's lock, with lazy loading --- */

enum { KERNELS_MAX = 512 };
static const void *kernels[KERNELS_MAX]; /* loaded */
static bool held; /* a thread holds the context's lock while it waits for the streams */

/* The functions that hold the lock until all streams are idle, first those that pin,
 * allocate or free. */
enum { MEMORY_FUNCTIONS = 6 };
static const char *const holders[] = {"cuMemAlloc",
                                      "cuMemFree",
                                      "cuMemHostAlloc",
                                      "cuMemFreeHost",
                                      "cuMemHostRegister",
                                      "cuMemHostUnregister",
                                      "cuStreamCreateWithPriority",
                                      "cuIpcOpenMemHandle",
                                      "cuMemImportFromShareableHandle",
                                      "cuMemMap"};

static bool is_holder(const char *function)
{
    size_t i = 0;
    while (i < sizeof holders / sizeof *holders && strcmp(holders[i], function) != 0)
        i++;
    return i < sizeof holders / sizeof *holders;
}

static void held_wait(void)
{
    while (held)
        pthread_cond_wait(&fake_changed, &fake_lock);
}

/* Hold the context's lock until all streams are idle. */
static void held_until_idle(void)
{
    held_wait();
    held = true;
    fake_synchronize(-1);
    held = false;
    pthread_cond_broadcast(&fake_changed);
}

static bool kernel_is_loaded(const void *kernel)
{
    int i = 0;
    while (i < KERNELS_MAX && kernels[i] && kernels[i] != kernel)
        i++;
    if (i == KERNELS_MAX)
        abort();
    bool known = kernels[i] == kernel;
    kernels[i] = kernel;
    return known;
}

void fake_cuda_load(const void *kernel)
{
    pthread_mutex_lock(&fake_lock);
    if (lazy && !kernel_is_loaded(kernel))
        held_until_idle();
    pthread_mutex_unlock(&fake_lock);
}

/* --- calls --- */

/* Work of a stream goes on while the lock is held; calls of the program do not. */
static void lock_pass(const char *function)
{
    if (strcmp(function, "copy") == 0 || strcmp(function, "kernel") == 0)
        return;
    held_wait();
    if (lazy && is_holder(function))
        held_until_idle();
}

CUresult fake_begin(const char *function)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&fake_lock);
    caller_count(function);
    lock_pass(function);
    struct call *call = call_find(function, strlen(function));
    call->count++;
    if (call->fails && (call->fail_at == 0 || call->fail_at == call->count))
        result = call->result;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

unsigned fake_cuda_calls(const char *function)
{
    pthread_mutex_lock(&fake_lock);
    unsigned count = call_find(function, strlen(function))->count;
    pthread_mutex_unlock(&fake_lock);
    return count;
}

unsigned fake_cuda_memory_calls(void)
{
    unsigned count = 0;
    for (int i = 0; i < MEMORY_FUNCTIONS; i++)
        count += fake_cuda_calls(holders[i]);
    return count;
}

static void fail_set(const char *name, size_t bytes, unsigned nth, int result)
{
    struct call *call = call_find(name, bytes);
    call->fails = true;
    call->fail_at = nth ? call->count + nth : 0;
    call->result = (CUresult)result;
}

void fake_cuda_fail(const char *function, unsigned nth, int result)
{
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; !function && i < NAMES_MAX; i++)
        calls[i].fails = false;
    if (function)
        fail_set(function, strlen(function), nth, result);
    pthread_mutex_unlock(&fake_lock);
}

/* Parse "function:nth:result,…". */
static void fail_read(const char *text)
{
    while (text && *text) {
        size_t name = strcspn(text, ":,");
        unsigned nth = 0;
        int result = CUDA_ERROR_UNKNOWN;
        (void)sscanf(text + name, ":%u:%d", &nth, &result);
        fail_set(text, name, nth, result);
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

/* --- start --- */

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static int favour(const char *text)
{
    return text && strcmp(text, "urgent") == 0 ? -1 : text && strcmp(text, "idle") == 0;
}

static void device_make(struct fake_device *self, int device)
{
    self->primary.device = device;
    self->file = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (self->file < 0 || ftruncate(self->file, (off_t)fake_device_bytes) != 0)
        abort();
    self->window = mmap(NULL, fake_device_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    self->shadow = mmap(NULL, fake_device_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, self->file, 0);
    if (self->window == MAP_FAILED || self->shadow == MAP_FAILED)
        abort();
}

static void start(void)
{
    uint64_t devices = setting("FAKE_CUDA_DEVICES", 2);
    fake_devices_count = devices < FAKE_DEVICES_MAX ? (int)devices : FAKE_DEVICES_MAX;
    fake_device_bytes = setting("FAKE_CUDA_BYTES", UINT64_C(1) << 30);
    fake_delay_us = (unsigned)setting("FAKE_CUDA_DELAY_US", 0);
    fake_copy_mbps = (unsigned)setting("FAKE_CUDA_COPY_MBPS", 0);
    fake_waits = setting("FAKE_CUDA_WAITS", 0) != 0;
    fake_favour = favour(getenv("FAKE_CUDA_FAVOUR"));
    lazy = setting("FAKE_CUDA_LAZY", 0) != 0;
    for (int i = 0; i < fake_devices_count; i++)
        device_make(&fake_devices[i], i);
}

CUresult cuInit(unsigned flags)
{
    static bool started, failures_read;
    (void)flags;
    uint64_t ms = setting("FAKE_CUDA_START_MS", 0);
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (ms && nanosleep(&left, &left) != 0)
        continue;
    pthread_mutex_lock(&fake_lock);
    if (!failures_read)
        fail_read(getenv("FAKE_CUDA_FAIL"));
    failures_read = true;
    pthread_mutex_unlock(&fake_lock);
    FAKE_BEGIN(cuInit);
    pthread_mutex_lock(&fake_lock);
    if (!started)
        start();
    started = true;
    pthread_mutex_unlock(&fake_lock);
    return fake_devices_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    FAKE_BEGIN(cuDriverGetVersion);
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    static const char *const names[] = {
        [CUDA_ERROR_INVALID_VALUE] = "CUDA_ERROR_INVALID_VALUE",
        [CUDA_ERROR_OUT_OF_MEMORY] = "CUDA_ERROR_OUT_OF_MEMORY",
        [CUDA_ERROR_NO_DEVICE] = "CUDA_ERROR_NO_DEVICE"};
    const char *found =
        (size_t)error < sizeof names / sizeof *names ? names[error] : NULL;
    *name = found ? found : "CUDA_ERROR_OF_THE_FAKE";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    (void)error;
    *text = "a failure requested by FAKE_CUDA_FAIL or by the test";
    return CUDA_SUCCESS;
}

/* --- devices --- */

CUresult cuDeviceGetCount(int *count)
{
    FAKE_BEGIN(cuDeviceGetCount);
    *count = fake_devices_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    FAKE_BEGIN(cuDeviceGet);
    if (ordinal < 0 || ordinal >= fake_devices_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    FAKE_BEGIN(cuDeviceGetName);
    (void)snprintf(name, (size_t)bytes, "Fake GPU %c", 'A' + device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
    FAKE_BEGIN(cuDeviceGetPCIBusId);
    (void)snprintf(text, (size_t)bytes, "0000:%02x:00.0", (unsigned)device + 0x1b);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    FAKE_BEGIN(cuDeviceTotalMem);
    (void)device;
    *bytes = fake_device_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice device)
{
    FAKE_BEGIN(cuDeviceGetAttribute);
    (void)device;
    *value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
             : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                    : 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    FAKE_BEGIN(cuDeviceCanAccessPeer);
    *can = device != peer;
    return CUDA_SUCCESS;
}

/* --- contexts: a stack for each thread --- */

enum { STACK_MAX = 32 };
static _Thread_local struct {
    CUcontext contexts[STACK_MAX];
    int depth;
} stack;

int fake_current(void)
{
    CUcontext top = stack.depth ? stack.contexts[stack.depth - 1] : NULL;
    return top ? top->device : -1;
}

CUresult fake_usable(int *device_p)
{
    int device = fake_current();
    if (device < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device_p = device;
    pthread_mutex_lock(&fake_lock);
    CUresult sticky = fake_devices[device].sticky;
    pthread_mutex_unlock(&fake_lock);
    return sticky;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    FAKE_BEGIN(cuDevicePrimaryCtxRetain);
    *context = &fake_devices[device].primary;
    return CUDA_SUCCESS;
}

static void pushed_add(int count)
{
    pthread_mutex_lock(&fake_lock);
    fake_counts.pushed += count;
    pthread_mutex_unlock(&fake_lock);
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    FAKE_BEGIN(cuCtxPushCurrent);
    if (stack.depth == STACK_MAX)
        abort();
    stack.contexts[stack.depth++] = context;
    pushed_add(1);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    CUresult failure = fake_begin("cuCtxPopCurrent");
    if (stack.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack.contexts[--stack.depth];
    pushed_add(-1);
    return failure;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = stack.depth ? stack.contexts[stack.depth - 1] : NULL;
    return CUDA_SUCCESS;
}

/* Replace the top of the stack, as the driver does; such a context belongs to the caller,
 * so it does not count as pushed. */
CUresult cuCtxSetCurrent(CUcontext context)
{
    stack.depth -= stack.depth > 0;
    if (context)
        stack.contexts[stack.depth++] = context;
    return CUDA_SUCCESS;
}

void *fake_cuda_context(int device)
{
    static struct CUctx_st foreign[FAKE_DEVICES_MAX];
    foreign[device].device = device;
    return &foreign[device];
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    int device;
    FAKE_ENTER(cuCtxGetStreamPriorityRange, device);
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    int device;
    FAKE_ENTER(cuCtxEnablePeerAccess, device);
    return flags || peer->device == device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* --- leaks --- */

void fake_cuda_counts(struct fake_cuda_counts *counts_p)
{
    pthread_mutex_lock(&fake_lock);
    *counts_p = fake_counts;
    pthread_mutex_unlock(&fake_lock);
}

static int say(const char *what, int count)
{
    if (count)
        fprintf(stderr, "fake CUDA: %d %s left\n", count, what);
    return count != 0;
}

int fake_cuda_check(void)
{
    struct fake_cuda_counts left;
    fake_cuda_counts(&left);
    return say("allocations", left.allocations) + say("pinned allocations", left.pinned) +
           say("streams", left.streams) + say("events", left.events) +
           say("imports", left.imports) + say("handles", left.handles) +
           say("reserved ranges", left.reserved) + say("mappings", left.mapped) +
           say("pushed contexts", left.pushed);
}

__attribute__((destructor)) static void at_exit(void)
{
    if (fake_cuda_check())
        _exit(FAKE_CUDA_EXIT);
}
