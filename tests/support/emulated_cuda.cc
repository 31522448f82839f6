/* SPDX-License-Identifier: Apache-2.0 */
/* See emulated_cuda.h. */
#include "support/emulated_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
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

enum { WARP_LANES = 32, STACK_BYTES = 256 << 10, SHARED_BYTES = 160 << 10 };

enum fiber_state { FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_SHUFFLE, FIBER_DONE };

struct fiber {
    ucontext_t context;
    std::vector<char> stack;
    fiber_state state;
    dim3 index;
    unsigned shuffles; /* so far: their parity says which slots are in use */
    void *kept;        /* the sanitizer's */
};

dim3 threadIdx, blockIdx, blockDim, gridDim;

static ucontext_t scheduler;
static void *scheduler_kept;
static const void *scheduler_stack;
static size_t scheduler_stack_bytes;
static std::vector<fiber> fibers;
static unsigned threads, current;
static size_t shared_used;
static const std::function<void()> *body;
static std::vector<float> slots[2]; /* of shuffles, one for each thread */
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

/* ---- fibers -------------------------------------------------------------------------------- */

static void fiber_leave(fiber_state state)
{
    fiber &self = fibers[current];
    self.state = state;
    FIBER_LEAVE(state == FIBER_DONE ? nullptr : &self.kept, scheduler_stack,
                scheduler_stack_bytes);
    swapcontext(&self.context, &scheduler);
    FIBER_ENTER(self.kept, &scheduler_stack, &scheduler_stack_bytes);
}

static void fiber_main(void)
{
    FIBER_ENTER(nullptr, &scheduler_stack, &scheduler_stack_bytes);
    (*body)();
    fiber_leave(FIBER_DONE);
}

static void fiber_start(unsigned i)
{
    fiber &self = fibers[i];
    self.stack.resize(STACK_BYTES);
    self.state = FIBER_READY;
    self.shuffles = 0;
    self.kept = nullptr;
    self.index =
        dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y));
    getcontext(&self.context);
    self.context.uc_stack.ss_sp = self.stack.data();
    self.context.uc_stack.ss_size = self.stack.size();
    self.context.uc_link = nullptr;
    makecontext(&self.context, fiber_main, 0);
}

static void fiber_run(unsigned i)
{
    current = i;
    threadIdx = fibers[i].index;
    FIBER_LEAVE(&scheduler_kept, fibers[i].stack.data(), fibers[i].stack.size());
    swapcontext(&scheduler, &fibers[i].context);
    FIBER_ENTER(scheduler_kept, nullptr, nullptr);
}

void emulated_sync(void)
{
    fiber_leave(FIBER_AT_BARRIER);
}

/* Slots of one parity are written again only behind the next shuffle, which all lanes must have
 * reached: by then all have read. */
float emulated_shuffle_xor(float value, int step)
{
    const unsigned self = current, parity = fibers[self].shuffles++ % 2;
    slots[parity][self] = value;
    fiber_leave(FIBER_AT_SHUFFLE);
    return slots[parity][self ^ (unsigned)step];
}

/* ---- blocks -------------------------------------------------------------------------------- */

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

static unsigned count_in(fiber_state state, unsigned first, unsigned last)
{
    unsigned count = 0;
    for (unsigned i = first; i < last; i++) {
        count += fibers[i].state == state;
    }
    return count;
}

static void release(unsigned first, unsigned last)
{
    for (unsigned i = first; i < last; i++) {
        fibers[i].state = FIBER_READY;
    }
}

/* Nobody is ready: whole warps at a shuffle go on, or else the whole block at its barrier. */
static bool block_release(void)
{
    bool released = false;
    for (unsigned first = 0; first < threads; first += WARP_LANES) {
        const unsigned last = first + WARP_LANES < threads ? first + WARP_LANES : threads;
        const unsigned waiting = count_in(FIBER_AT_SHUFFLE, first, last);
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
    const unsigned done = count_in(FIBER_DONE, 0, threads);
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
    /* What a kernel did not write into shared memory is no number. */
    memset(shared, 0xff, shared_used);
    for (unsigned i = 0; i < threads; i++) {
        fiber_start(i);
    }
    do {
        for (unsigned i = 0; i < threads; i++) {
            if (fibers[turn(i)].state == FIBER_READY) {
                fiber_run(turn(i));
            }
        }
    } while (block_release());
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
    if (fibers.size() < threads) {
        fibers.resize(threads);
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
