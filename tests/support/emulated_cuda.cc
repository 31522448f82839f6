/* SPDX-License-Identifier: Apache-2.0 */
/* See emulated_cuda.h. */
#include "support/emulated_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define HAS_CHANGE 1
#else
#include <ucontext.h>
#endif
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define FIBER_LEAVE(keep, bottom, bytes) \
    __sanitizer_start_switch_fiber(keep, bottom, bytes)
#define FIBER_ENTER(kept, bottom_p, bytes_p) \
    __sanitizer_finish_switch_fiber(kept, bottom_p, bytes_p)
#else
#define FIBER_LEAVE(keep, bottom, bytes) (void)(keep), (void)(bottom), (void)(bytes)
#define FIBER_ENTER(kept, bottom_p, bytes_p) \
    (void)(kept), (void)(bottom_p), (void)(bytes_p)
#endif

enum { WARP_LANES = 32, STACK_BYTES = 256 << 10, SHARED_BYTES = 227 << 10 };

/* ---- switching stacks -------------------------------------------------------------- */

#ifdef HAS_CHANGE
/* The saved state of a stack that no fiber runs on: its pointer, with the callee-saved
 * registers on top. swapcontext would do the same with a system call or two each time,
 * and switching takes most of the time. */
typedef void *stack_at;

extern "C" void emulated_change(stack_at *from, stack_at to);
asm(R"(
    .text
    .globl emulated_change
    .hidden emulated_change
    .type emulated_change, @function
emulated_change:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulated_change, . - emulated_change
)");

static void stack_change(stack_at &from, stack_at &to)
{
    emulated_change(&from, to);
}

/* Prepare a stack as if `entry` had been called and had called emulated_change first. */
static void stack_start(stack_at &to, std::vector<char> &stack, void (*entry)(void))
{
    enum { KEPT = 6 };
    const uintptr_t top = (uintptr_t)(stack.data() + stack.size()) / 16 * 16;
    uintptr_t *at = (uintptr_t *)top - 2;
    at[0] = (uintptr_t)entry;
    at[1] = 0; /* `entry` does not return */
    memset(at - KEPT, 0, KEPT * sizeof *at);
    to = at - KEPT;
}
#else
typedef ucontext_t stack_at;

static void stack_change(stack_at &from, stack_at &to)
{
    swapcontext(&from, &to);
}

static void stack_start(stack_at &to, std::vector<char> &stack, void (*entry)(void))
{
    getcontext(&to);
    to.uc_stack.ss_sp = stack.data();
    to.uc_stack.ss_size = stack.size();
    to.uc_link = nullptr;
    makecontext(&to, entry, 0);
}
#endif

/* ---- state ------------------------------------------------------------------------- */

/* The state of a thread of the running block. */
enum thread_state {
    THREAD_NEW,
    THREAD_READY,
    THREAD_AT_BARRIER,
    THREAD_AT_SHUFFLE,
    THREAD_DONE
};

struct fiber;
struct thread {
    thread_state state;
    fiber *on;         /* the fiber that holds its stack */
    unsigned shuffles; /* shuffles so far: the parity selects the slots */
};

/* A stack. A fiber runs one thread after the other, and stays with a thread that
 * waits. */
struct fiber {
    stack_at at;
    std::vector<char> stack;
    void *kept; /* saved stack of the sanitizer */
};

dim3 threadIdx, blockIdx, blockDim, gridDim;

static stack_at scheduler;
static void *scheduler_kept;
static const void *scheduler_stack;
static size_t scheduler_stack_bytes;
static std::vector<thread> all;
static std::deque<fiber> fibers;  /* all fibers */
static std::vector<fiber *> pool; /* the fibers that hold no stopped thread */
static fiber *running;
static unsigned threads, current, started; /* `started`: threads begun so far */
static size_t shared_used;
static const std::function<void()> *body;
static std::vector<float> slots[2]; /* of shuffles, one slot for each thread */
alignas(64) static float shared[SHARED_BYTES / sizeof(float)];
static int order = EMULATED_FORWARD;
static uint64_t threads_count;

void emulated_order_set(int to)
{
    order = to;
}

uint64_t emulated_threads_count(void)
{
    return threads_count;
}

float *emulated_shared(void)
{
    return shared;
}

[[noreturn]] static void complain(const char *what)
{
    fprintf(stderr, "emulated CUDA: block %u,%u,%u: %s\n", blockIdx.x, blockIdx.y,
            blockIdx.z, what);
    abort();
}

static unsigned turn(unsigned i)
{
    if (order == EMULATED_BACKWARD) {
        return threads - 1 - i;
    }
    if (order == EMULATED_ODD_FIRST) {
        const unsigned odd = threads / 2;
        return i < odd ? 2 * i + 1 : 2 * (i - odd);
    }
    return i;
}

/* ---- fibers ------------------------------------------------------------------------ */

/* Stop the thread and switch to the scheduler; return when the thread is resumed. */
static void thread_stop(thread_state state)
{
    fiber *self = running;
    all[current].state = state;
    all[current].on = self;
    FIBER_LEAVE(&self->kept, scheduler_stack, scheduler_stack_bytes);
    stack_change(self->at, scheduler);
    FIBER_ENTER(self->kept, &scheduler_stack, &scheduler_stack_bytes);
}

static void thread_enter(unsigned i)
{
    current = i;
    threadIdx =
        dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y));
}

/* Run threads that have not begun until none is left; then return to the pool. */
static void fiber_main(void)
{
    FIBER_ENTER(nullptr, &scheduler_stack, &scheduler_stack_bytes);
    for (;;) {
        while (started < threads) {
            thread_enter(turn(started++));
            (*body)();
            all[current].state = THREAD_DONE;
        }
        fiber *self = running;
        pool.push_back(self);
        FIBER_LEAVE(&self->kept, scheduler_stack, scheduler_stack_bytes);
        stack_change(self->at, scheduler);
        FIBER_ENTER(self->kept, &scheduler_stack, &scheduler_stack_bytes);
    }
}

static fiber *fiber_get(void)
{
    if (!pool.empty()) {
        fiber *self = pool.back();
        pool.pop_back();
        return self;
    }
    fibers.emplace_back();
    fiber *self = &fibers.back();
    self->stack.resize(STACK_BYTES);
    stack_start(self->at, self->stack, fiber_main);
    return self;
}

static void fiber_run(fiber *self)
{
    running = self;
    FIBER_LEAVE(&scheduler_kept, self->stack.data(), self->stack.size());
    stack_change(scheduler, self->at);
    FIBER_ENTER(scheduler_kept, nullptr, nullptr);
}

void emulated_sync(void)
{
    thread_stop(THREAD_AT_BARRIER);
}

/* Slots of one parity are written again only after the next shuffle, which all lanes have
 * then reached: all have read by then. */
float emulated_shuffle_xor(float value, int step)
{
    const unsigned self = current, parity = all[self].shuffles++ % 2;
    slots[parity][self] = value;
    thread_stop(THREAD_AT_SHUFFLE);
    return slots[parity][self ^ (unsigned)step];
}

/* ---- blocks ------------------------------------------------------------------------ */

static unsigned count_in(thread_state state, unsigned first, unsigned last)
{
    unsigned count = 0;
    for (unsigned i = first; i < last; i++) {
        count += all[i].state == state;
    }
    return count;
}

static void release(unsigned first, unsigned last)
{
    for (unsigned i = first; i < last; i++) {
        all[i].state = THREAD_READY;
    }
}

/* Without a ready thread, release whole warps at a shuffle, or else the whole block at
 * its barrier. */
static bool block_release(void)
{
    bool released = false;
    for (unsigned first = 0; first < threads; first += WARP_LANES) {
        const unsigned last = first + WARP_LANES < threads ? first + WARP_LANES : threads;
        const unsigned waiting = count_in(THREAD_AT_SHUFFLE, first, last);
        if (waiting == last - first) {
            release(first, last);
            released = true;
        } else if (waiting > 0) {
            complain("not all lanes of a warp come to a shuffle");
        }
    }
    if (released) {
        return true;
    }
    const unsigned done = count_in(THREAD_DONE, 0, threads);
    if (done == threads) {
        return false;
    }
    if (done > 0) {
        complain("a thread has returned where others wait at a barrier");
    }
    release(0, threads);
    return true;
}

static void block_run(void)
{
    /* Shared memory that a kernel did not write reads as NaN. */
    memset(shared, 0xff, shared_used);
    all.assign(threads, thread{THREAD_NEW, nullptr, 0});
    for (started = 0; started < threads;) {
        fiber_run(fiber_get());
    }
    while (block_release()) {
        for (unsigned i = 0; i < threads; i++) {
            if (all[turn(i)].state == THREAD_READY) {
                thread_enter(turn(i));
                fiber_run(all[current].on);
            }
        }
    }
    threads_count += threads;
}

void emulated_launch(dim3 grid, dim3 block, size_t shared_bytes,
                     const std::function<void()> &thread)
{
    gridDim = grid;
    blockDim = block;
    body = &thread;
    threads = block.x * block.y * block.z;
    shared_used = shared_bytes;
    if (shared_bytes > SHARED_BYTES || threads > 1024) {
        complain("no device has a block of this size");
    }
    slots[0].resize(threads);
    slots[1].resize(threads);
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++) {
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
                block_run();
            }
        }
    }
}
