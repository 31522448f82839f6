/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of the CUDA kernels, compiled for the host over the emulation and launched
 * into the streams of the fake runtime: a launch copies its arguments, as on a device,
 * and translates their addresses to host addresses when its turn comes. */
#include <mutex>
#include <tuple>

extern "C" {
#include "pipeline/device/cuda/cuda_row.h"
#include "support/fake_cuda/fake_cuda.h"
}
#include "fake_runtime.h"
#include "support/attention_pointers.h"
#include "support/emulated_cuda.h"

/* ---- arguments --------------------------------------------------------------------- */

template <typename A> static A reached(A argument)
{
    return argument;
}

template <typename T> static T *reached(T *data)
{
    return static_cast<T *>(fake_cuda_reach(data));
}

static device_attention reached(device_attention a);
static device_update reached(device_update u);
static device_prediction reached(device_prediction p);

/* ---- launching --------------------------------------------------------------------- */

/* Only one block of one device can be emulated at a time. */
static std::mutex emulation;

struct queued {
    std::function<void()> run;
};

static void queued_run(void *arg, int skip)
{
    queued *self = static_cast<queued *>(arg);
    if (!skip) {
        std::lock_guard<std::mutex> alone(emulation);
        self->run();
    }
    delete self;
}

template <typename... P, typename... A>
static void launch(void *stream, void (*kernel)(P...), dim3 grid, dim3 block,
                   size_t shared_bytes, A... arguments)
{
    const unsigned grid_of[3] = {grid.x, grid.y, grid.z};
    const unsigned block_of[3] = {block.x, block.y, block.z};
    if (!fake_runtime_launch(stream, reinterpret_cast<const void *>(kernel), grid_of,
                             block_of, shared_bytes)) {
        return;
    }
    const std::tuple<P...> given(static_cast<P>(arguments)...);
    auto run = [=]() {
        const auto here =
            std::apply([](P... p) { return std::tuple<P...>(reached(p)...); }, given);
        emulated_launch(grid, block, shared_bytes, [&]() { std::apply(kernel, here); });
    };
    fake_runtime_enqueue(stream, queued_run, new queued{run});
}

#undef CUDA_LAUNCH
#define CUDA_LAUNCH(lane, what, kernel, grid, block, shared_bytes, ...)                \
    do {                                                                               \
        auto kernel_ = kernel;                                                         \
        launch((lane)->stream, kernel_, (grid), (block), (shared_bytes), __VA_ARGS__); \
        cuda_launched((lane), (what));                                                 \
    } while (0)

#undef CUDA_SHARED_BYTES
#define CUDA_SHARED_BYTES(kernel, bytes) \
    fake_runtime_allow(reinterpret_cast<const void *>(kernel), (bytes))

#include "pipeline/device/cuda/attention.cu"
#include "pipeline/device/cuda/column_sum.cu"
#include "pipeline/device/cuda/cross_entropy.cu"
#include "pipeline/device/cuda/elements.cu"
#include "pipeline/device/cuda/embedding.cu"
#include "pipeline/device/cuda/gelu.cu"
#include "pipeline/device/cuda/norm.cu"
#include "pipeline/device/cuda/predict.cu"
#include "pipeline/device/cuda/update.cu"

static device_attention reached(device_attention a)
{
    return attention_reached(a, [](auto *data) { return reached(data); });
}

static device_update reached(device_update u)
{
    u.from = reached(u.from);
    u.to = reached(u.to);
    u.gradients = reached(u.gradients);
    u.first = reached(u.first);
    u.second = reached(u.second);
    u.rounded = reached(u.rounded);
    u.delta = reached(u.delta);
    return u;
}

static device_prediction reached(device_prediction p)
{
    p.from = reached(p.from);
    p.to = reached(p.to);
    p.first = reached(p.first);
    p.second = reached(p.second);
    return p;
}
