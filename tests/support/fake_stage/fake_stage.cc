/* SPDX-License-Identifier: Apache-2.0 */
/* A module of device stages without a GPU: the kernels in plain C, run in the streams of
 * the fake driver (fake_cuda.h), on memory that the host cannot access. So whole
 * trainings run as on a GPU except for the kernels: the stages' lanes and events, the
 * engine's, copies between processes.
 *
 * One idea: an operation is queued with its arguments unchanged, and their addresses are
 * translated to host addresses when its turn comes; a missing dependency then shows as
 * wrong bits.
 *
 * Built as tryst_stage_cuda.so, beside links to Tryst's libraries, so that the loader
 * finds it there. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include <cuda.h>

extern "C" {
#include "pipeline/device/stage_module.h"
#include "support/fake_cuda/fake_cuda.h"
}
#include "support/attention_pointers.h"

namespace
{

struct fake_session {
    device_session base;
    CUcontext context;
};

fake_session *session_of(device_session *base)
{
    return reinterpret_cast<fake_session *>(base);
}

void fail(device_session *session, const char *what)
{
    if (session->status == TRYST_OK) {
        session->status = TRYST_E_SYSTEM;
        snprintf(session->text, sizeof session->text, "fake stage: %s failed", what);
    }
}

bool check(device_session *session, CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        fail(session, what);
    return result == CUDA_SUCCESS;
}

CUstream stream_of(const device_lane *lane)
{
    return static_cast<CUstream>(lane->stream);
}

/* Return the host address of an address of the device or of pinned memory. */
template <typename T> T *here(T *data)
{
    return static_cast<T *>(fake_cuda_reach(data));
}

void run(void *arg)
{
    auto *work = static_cast<std::function<void()> *>(arg);
    (*work)();
    delete work;
}

void queue(const device_lane *lane, std::function<void()> work)
{
    fake_cuda_call(lane->stream, run, new std::function<void()>(std::move(work)));
}

const device_kernels &plain = device_kernels_reference;

/* ---- sessions and memory ----------------------------------------------------------- */

void session_enter(device_session *base)
{
    check(base, cuCtxPushCurrent(session_of(base)->context), "cuCtxPushCurrent");
}

void session_leave(device_session *base)
{
    CUcontext context;
    check(base, cuCtxPopCurrent(&context), "cuCtxPopCurrent");
}

extern const device_kernels row;

tryst_status session_open(int32_t device, tryst_precision precision,
                          device_session **session_p, char *error, size_t capacity)
{
    auto *session = static_cast<fake_session *>(calloc(1, sizeof(fake_session)));
    device_session *base = &session->base;
    base->kernels = &row;
    base->precision = precision;
    base->dtype = device_precision_dtype(precision);
    base->wide = device_precision_wide(precision);
    base->device = device;
    if (cuInit(0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&session->context, device) != CUDA_SUCCESS) {
        snprintf(error, capacity, "the fake driver has no device %d",
                 static_cast<int>(device));
        free(session);
        return TRYST_E_UNSUPPORTED;
    }
    session_enter(base);
    for (int32_t i = 0; i < DEVICE_LANES; i++) {
        CUstream stream = nullptr;
        check(base, cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -i),
              "cuStreamCreateWithPriority");
        base->lanes[i].session = base;
        base->lanes[i].stream = stream;
        base->lanes[i].index = i;
    }
    session_leave(base);
    *session_p = base;
    return TRYST_OK;
}

tryst_status lane_idle(const device_lane *lane)
{
    const CUresult result = cuStreamQuery(stream_of(lane));
    if (result == CUDA_ERROR_NOT_READY)
        return TRYST_IN_PROGRESS;
    check(lane->session, result, "cuStreamQuery");
    return TRYST_OK;
}

void session_close(device_session *base)
{
    session_enter(base);
    for (const device_lane &lane : base->lanes)
        check(base, cuStreamDestroy(stream_of(&lane)), "cuStreamDestroy");
    session_leave(base);
    free(session_of(base));
}

tryst_status session_status(device_session *base)
{
    return base->status;
}

void memory_left(device_session *base, uint64_t *free_p, uint64_t *total_p)
{
    size_t left = 0, total = 0;
    check(base, cuMemGetInfo(&left, &total), "cuMemGetInfo");
    *free_p = left;
    *total_p = total;
}

tryst_status memory_alloc(device_session *, uint64_t bytes, void **data_p)
{
    CUdeviceptr data;
    if (cuMemAlloc(&data, bytes) != CUDA_SUCCESS)
        return TRYST_E_NOMEM;
    *data_p = reinterpret_cast<void *>(data);
    memset(here(*data_p), 0, bytes);
    return TRYST_OK;
}

void memory_free(device_session *base, void *data)
{
    if (data)
        check(base, cuMemFree(reinterpret_cast<CUdeviceptr>(data)), "cuMemFree");
}

tryst_status pinned_alloc(device_session *, uint64_t bytes, void **data_p)
{
    return cuMemHostAlloc(data_p, bytes,
                          CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) ==
                   CUDA_SUCCESS
               ? TRYST_OK
               : TRYST_E_NOMEM;
}

void pinned_free(device_session *base, void *data)
{
    if (data)
        check(base, cuMemFreeHost(data), "cuMemFreeHost");
}

void memory_copy(device_session *base, void *to, const void *from, uint64_t bytes)
{
    queue(&base->lanes[DEVICE_COMPUTE], [=] { memcpy(here(to), here(from), bytes); });
}

/* ---- order ------------------------------------------------------------------------- */

tryst_status event_open(device_session *base, void **event_p)
{
    CUevent event = nullptr;
    check(base, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    *event_p = event;
    return base->status;
}

void event_close(device_session *base, void *event)
{
    if (event)
        check(base, cuEventDestroy(static_cast<CUevent>(event)), "cuEventDestroy");
}

void event_record(const device_lane *lane, void *event)
{
    check(lane->session, cuEventRecord(static_cast<CUevent>(event), stream_of(lane)),
          "cuEventRecord");
}

void event_wait(const device_lane *lane, void *event)
{
    check(lane->session,
          cuStreamWaitEvent(stream_of(lane), static_cast<CUevent>(event), 0),
          "cuStreamWaitEvent");
}

/* ---- arithmetic -------------------------------------------------------------------- */

void product(const device_lane *lane, const device_product *given)
{
    queue(lane, [lane, p = *given]() mutable {
        p.a = here(p.a);
        p.b = here(p.b);
        p.bias = here(p.bias);
        p.add = here(p.add);
        p.aux = here(p.aux);
        p.d = here(p.d);
        plain.product(lane, &p);
    });
}

void column_sum(const device_lane *lane, int32_t rows, int32_t columns, const void *dy,
                void *dbias)
{
    queue(lane, [=] { plain.column_sum(lane, rows, columns, here(dy), here(dbias)); });
}

void embedding_forward(const device_lane *lane, int32_t rows, int32_t seq, int32_t hidden,
                       const uint8_t *bytes, const void *token, const void *position,
                       void *y)
{
    queue(lane, [=] {
        plain.embedding_forward(lane, rows, seq, hidden, here(bytes), here(token),
                                here(position), here(y));
    });
}

void embedding_backward(const device_lane *lane, int32_t rows, int32_t seq,
                        int32_t hidden, int32_t vocabulary, const uint8_t *bytes,
                        const void *dy, void *dtoken, void *dposition)
{
    queue(lane, [=] {
        plain.embedding_backward(lane, rows, seq, hidden, vocabulary, here(bytes),
                                 here(dy), here(dtoken), here(dposition));
    });
}

void norm_forward(const device_lane *lane, int32_t rows, int32_t width, const void *x,
                  const void *gain, const void *bias, void *y, void *mean, void *rstd)
{
    queue(lane, [=] {
        plain.norm_forward(lane, rows, width, here(x), here(gain), here(bias), here(y),
                           here(mean), here(rstd));
    });
}

void norm_backward_input(const device_lane *lane, int32_t rows, int32_t width,
                         const void *x, const void *gain, const void *mean,
                         const void *rstd, const void *dy, const void *residual, void *dx)
{
    queue(lane, [=] {
        plain.norm_backward_input(lane, rows, width, here(x), here(gain), here(mean),
                                  here(rstd), here(dy), here(residual), here(dx));
    });
}

void norm_backward_weight(const device_lane *lane, int32_t rows, int32_t width,
                          const void *x, const void *mean, const void *rstd,
                          const void *dy, void *dgain, void *dbias)
{
    queue(lane, [=] {
        plain.norm_backward_weight(lane, rows, width, here(x), here(mean), here(rstd),
                                   here(dy), here(dgain), here(dbias));
    });
}

device_attention reached(device_attention a)
{
    return attention_reached(a, [](auto *data) { return here(data); });
}

void attention_forward(const device_lane *lane, const device_attention *given)
{
    queue(lane, [lane, a = *given] {
        const device_attention there = reached(a);
        plain.attention_forward(lane, &there);
    });
}

void attention_backward(const device_lane *lane, const device_attention *given)
{
    queue(lane, [lane, a = *given] {
        const device_attention there = reached(a);
        plain.attention_backward(lane, &there);
    });
}

void gelu_backward(const device_lane *lane, uint64_t count, const void *x, const void *dy,
                   void *dx)
{
    queue(lane, [=] { plain.gelu_backward(lane, count, here(x), here(dy), here(dx)); });
}

void add(const device_lane *lane, uint64_t count, const void *a, const void *b, void *y)
{
    queue(lane, [=] { plain.add(lane, count, here(a), here(b), here(y)); });
}

void duplicate(const device_lane *lane, uint64_t count, const void *x, void *y)
{
    queue(lane, [=] { plain.duplicate(lane, count, here(x), here(y)); });
}

void cross_entropy_forward(const device_lane *lane, int32_t rows, int32_t classes,
                           const void *logits, const uint8_t *target, void *losses,
                           void *lse)
{
    queue(lane, [=] {
        plain.cross_entropy_forward(lane, rows, classes, here(logits), here(target),
                                    here(losses), here(lse));
    });
}

void cross_entropy_backward(const device_lane *lane, int32_t rows, int32_t classes,
                            double weight, const void *logits, const uint8_t *target,
                            const void *lse, void *dlogits)
{
    queue(lane, [=] {
        plain.cross_entropy_backward(lane, rows, classes, weight, here(logits),
                                     here(target), here(lse), here(dlogits));
    });
}

void loss_mean(const device_lane *lane, int32_t rows, const void *losses, double *mean)
{
    queue(lane, [=] { plain.loss_mean(lane, rows, here(losses), here(mean)); });
}

void update(const device_lane *lane, const device_update *given)
{
    queue(lane, [lane, u = *given]() mutable {
        u.from = here(u.from);
        u.to = here(u.to);
        u.rounded = here(u.rounded);
        u.gradients = here(u.gradients);
        u.first = here(u.first);
        u.second = here(u.second);
        u.delta = here(u.delta);
        plain.update(lane, &u);
    });
}

void predict(const device_lane *lane, const device_prediction *given)
{
    queue(lane, [lane, p = *given]() mutable {
        p.from = here(p.from);
        p.to = here(p.to);
        p.first = here(p.first);
        p.second = here(p.second);
        plain.predict(lane, &p);
    });
}

void round_off(const device_lane *lane, uint64_t count, const void *wide, void *y)
{
    queue(lane, [=] { plain.round(lane, count, here(wide), here(y)); });
}

device_kernels make_row()
{
    device_kernels made = plain;
    made.name = "cuda"; /* the name that the pipeline expects */
    made.memory = TRYST_MEMORY_CUDA;
    made.open = session_open;
    made.close = session_close;
    made.enter = session_enter;
    made.leave = session_leave;
    made.status = session_status;
    made.idle = lane_idle;
    made.memory_left = memory_left;
    made.alloc = memory_alloc;
    made.free = memory_free;
    made.pinned_alloc = pinned_alloc;
    made.pinned_free = pinned_free;
    made.copy = memory_copy;
    made.event_open = event_open;
    made.event_close = event_close;
    made.event_record = event_record;
    made.event_wait = event_wait;
    made.product = product;
    made.column_sum = column_sum;
    made.embedding_forward = embedding_forward;
    made.embedding_backward = embedding_backward;
    made.norm_forward = norm_forward;
    made.norm_backward_input = norm_backward_input;
    made.norm_backward_weight = norm_backward_weight;
    made.attention_forward = attention_forward;
    made.attention_backward = attention_backward;
    made.gelu_backward = gelu_backward;
    made.add = add;
    made.duplicate = duplicate;
    made.cross_entropy_forward = cross_entropy_forward;
    made.cross_entropy_backward = cross_entropy_backward;
    made.loss_mean = loss_mean;
    made.update = update;
    made.predict = predict;
    made.round = round_off;
    return made;
}

const device_kernels row = make_row();

} // namespace

extern "C" __attribute__((visibility("default"))) const tryst_stage_module *
tryst_stage_module_v1(const tryst_stage_host *)
{
    static const tryst_stage_module module = {TRYST_STAGE_ABI_ID, &row};
    return &module;
}
