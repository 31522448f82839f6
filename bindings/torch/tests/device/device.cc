/* SPDX-License-Identifier: Apache-2.0 */
/* A device of PyTorch (PrivateUse1) over the CUDA driver of tests/support/fake_cuda.
 *
 * One idea: memory, streams and events are the driver's, as on a GPU, and all operators
 * are the CPU's. A copy is queued in the current stream and runs there, so results arrive
 * later than the call; an operator copies its inputs to the CPU, runs there, and queues
 * the copy of its result. The host cannot touch the memory, so what reads a tensor
 * without the driver, or after its end, ends the process. */
extern "C" {
#include "support/fake_cuda/fake_cuda.h"
}

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Event.h>
#include <cuda.h>
#include <mutex>
#include <torch/extension.h>
#include <torch/library.h>
#include <unistd.h>

namespace
{

constexpr c10::DeviceType type = c10::DeviceType::PrivateUse1;
constexpr int devices_max = 8;
constexpr size_t pool_size = 4; /* streams of each device behind its default stream */

void check(CUresult result, const char *what)
{
    TORCH_CHECK(result == CUDA_SUCCESS, "the fake device cannot ", what, ": CUresult ",
                int(result));
}

/* No call of the driver: ranks are forks, and their parent may not use it. */
int devices_count()
{
    const char *text = getenv("FAKE_CUDA_DEVICES");
    return text && *text ? atoi(text) : 2;
}

/* --- contexts and streams --- */

struct Device {
    CUcontext context;
    std::vector<CUstream> streams; /* by id; 0 is the default stream */
};

std::mutex mutex; /* guards the streams */
std::array<Device, devices_max> devices;
thread_local int device_now = 0;
thread_local std::array<c10::StreamId, devices_max> stream_now{};

/* The context of a device in the calling thread. */
class Current
{
  public:
    explicit Current(int device)
    {
        static std::once_flag started;
        std::call_once(started, [] {
            check(cuInit(0), "start");
            for (int i = 0; i < devices_count(); i++)
                check(cuDevicePrimaryCtxRetain(&devices[i].context, i), "start");
        });
        check(cuCtxPushCurrent(devices[device].context), "enter a context");
    }
    ~Current()
    {
        CUcontext own;
        (void)cuCtxPopCurrent(&own);
    }
};

/* Return the id of a new stream. */
c10::StreamId stream_make(int device)
{
    Current current(device);
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<CUstream> &streams = devices[device].streams;
    streams.emplace_back();
    check(cuStreamCreateWithPriority(&streams.back(), CU_STREAM_NON_BLOCKING, 0),
          "make a stream");
    return c10::StreamId(streams.size() - 1);
}

CUstream stream_of(int device, c10::StreamId id)
{
    for (;;) {
        {
            std::lock_guard<std::mutex> lock(mutex);
            if (size_t(id) < devices[device].streams.size())
                return devices[device].streams[id];
        }
        (void)stream_make(device);
    }
}

CUstream stream_of(const c10::Stream &stream)
{
    return stream_of(stream.device_index(), stream.id());
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override
    {
        return ::type;
    }
    c10::Device exchangeDevice(c10::Device device) const override
    {
        c10::Device before = getDevice();
        setDevice(device);
        return before;
    }
    c10::Device getDevice() const override
    {
        return c10::Device(::type, c10::DeviceIndex(device_now));
    }
    void setDevice(c10::Device device) const override
    {
        device_now = device.has_index() ? device.index() : device_now;
    }
    void uncheckedSetDevice(c10::Device device) const noexcept override
    {
        device_now = device.index();
    }
    static c10::Stream stream(c10::Device device, c10::StreamId id)
    {
        c10::DeviceIndex index = device.has_index() ? device.index() : device_now;
        return c10::Stream(c10::Stream::UNSAFE, c10::Device(::type, index), id);
    }
    c10::Stream getStream(c10::Device device) const override
    {
        return stream(device,
                      stream_now[device.has_index() ? device.index() : device_now]);
    }
    c10::Stream getDefaultStream(c10::Device device) const override
    {
        return stream(device, 0);
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override
    {
        static std::atomic<size_t> next{0};
        return stream(device, c10::StreamId(1 + next++ % pool_size));
    }
    c10::Stream getNewStream(c10::Device device, int) const override
    {
        int index = device.has_index() ? device.index() : device_now;
        (void)stream_of(index, pool_size); /* ids up to here are the pool's */
        return stream(device, stream_make(index));
    }
    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        c10::Stream before = getStream(stream.device());
        stream_now[stream.device_index()] = stream.id();
        return before;
    }
    void *getStreamNativeHandle(const c10::Stream stream) const override
    {
        return stream_of(stream);
    }
    c10::DeviceIndex deviceCount() const noexcept override
    {
        return c10::DeviceIndex(devices_count());
    }

    void record(void **event, const c10::Stream &stream, const c10::DeviceIndex,
                const c10::EventFlag) const override
    {
        CUstream place = stream_of(stream);
        Current current(stream.device_index());
        CUevent *made = reinterpret_cast<CUevent *>(event);
        if (!*made)
            check(cuEventCreate(made, CU_EVENT_DISABLE_TIMING), "make an event");
        check(cuEventRecord(*made, place), "record an event");
    }
    void block(void *event, const c10::Stream &stream) const override
    {
        CUstream place = stream_of(stream);
        Current current(stream.device_index());
        if (event)
            check(cuStreamWaitEvent(place, CUevent(event), 0), "wait for an event");
    }
    bool queryEvent(void *event) const override
    {
        Current current(device_now);
        return !event || cuEventQuery(CUevent(event)) == CUDA_SUCCESS;
    }
    void synchronizeEvent(void *event) const override
    {
        while (!queryEvent(event))
            (void)usleep(50);
    }
    void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override
    {
        Current current(device_now);
        if (event)
            (void)cuEventDestroy(CUevent(event));
    }
    bool queryStream(const c10::Stream &stream) const override
    {
        CUstream place = stream_of(stream);
        Current current(stream.device_index());
        return cuStreamQuery(place) == CUDA_SUCCESS;
    }
    void synchronizeStream(const c10::Stream &stream) const override
    {
        fake_cuda_finish(stream_of(stream));
    }
    void synchronizeDevice(const c10::DeviceIndex) const override
    {
        fake_cuda_drain();
    }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

/* --- memory --- */

struct Block {
    CUdeviceptr data;
    int device;
};

void block_free(void *arg)
{
    std::unique_ptr<Block> block(static_cast<Block *>(arg));
    Current current(block->device);
    (void)cuMemFree(block->data);
}

struct Allocator final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        c10::Device device(type, c10::DeviceIndex(device_now));
        if (!bytes)
            return {nullptr, device};
        Current current(device_now);
        auto block = std::make_unique<Block>(Block{0, device_now});
        check(cuMemAlloc(&block->data, bytes), "allocate memory");
        void *data = reinterpret_cast<void *>(block->data);
        return {data, block.release(), block_free, device};
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        CUstream stream = stream_of(device_now, stream_now[device_now]);
        Current current(device_now);
        check(cuMemcpyAsync(CUdeviceptr(to), CUdeviceptr(from), bytes, stream), "copy");
    }
};

Allocator allocator;
REGISTER_ALLOCATOR(type, &allocator)

void pinned_free(void *data)
{
    Current current(0);
    (void)cuMemFreeHost(data);
}

struct PinnedAllocator final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        Current current(0);
        void *data = nullptr;
        unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
        if (bytes)
            check(cuMemHostAlloc(&data, bytes, flags), "pin memory");
        return {data, data, pinned_free, c10::Device(c10::DeviceType::CPU)};
    }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        memcpy(to, from, bytes);
    }
    static bool has(const void *data)
    {
        CUmemorytype kind = {};
        CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        void *values[] = {&kind};
        return cuPointerGetAttributes(1, &wanted, values, CUdeviceptr(data)) ==
                   CUDA_SUCCESS &&
               kind == CU_MEMORYTYPE_HOST;
    }
};

PinnedAllocator pinned_allocator;

void storage_resize(c10::StorageImpl *storage, size_t bytes)
{
    c10::DeviceGuard guard(storage->device());
    c10::DataPtr data = allocator.allocate(bytes);
    size_t kept = std::min(bytes, storage->nbytes());
    if (kept)
        allocator.copy_data(data.get(), storage->data(), kept);
    storage->set_data_ptr_noswap(std::move(data));
    storage->set_nbytes(bytes);
}

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override
    {
        return true;
    }
    bool isAvailable() const override
    {
        return true;
    }
    bool hasPrimaryContext(c10::DeviceIndex) const override
    {
        return true;
    }
    c10::DeviceIndex deviceCount() const override
    {
        return c10::DeviceIndex(devices_count());
    }
    at::Allocator *getPinnedMemoryAllocator() const override
    {
        return &pinned_allocator;
    }
    bool isPinnedPtr(const void *data) const override
    {
        return pinned_allocator.has(data);
    }
    void setCurrentDevice(c10::DeviceIndex device) const override
    {
        device_now = device;
    }
    c10::DeviceIndex getCurrentDevice() const override
    {
        return c10::DeviceIndex(device_now);
    }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override
    {
        return c10::DeviceIndex(std::exchange(device_now, device));
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override
    {
        return exchangeDevice(device);
    }
    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override
    {
        storage_resize(storage.unsafeGetStorageImpl(), bytes);
    }
};

/* --- copies, which are the only kernels --- */

/* One side of a copy: a tensor of the CPU, or memory of the device. */
struct Side {
    at::Tensor host;
    void *data;
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype;

    explicit Side(const at::Tensor &tensor)
        : host(tensor.is_cpu() ? tensor : at::Tensor()), data(tensor.data_ptr()),
          sizes(tensor.sizes().vec()), strides(tensor.strides().vec()),
          dtype(tensor.scalar_type())
    {
    }
    /* In a stream. */
    at::Tensor reach() const
    {
        if (host.defined())
            return host;
        return at::from_blob(fake_cuda_reach(data), sizes, strides, at::dtype(dtype));
    }
};

struct Copy {
    Side to, from;
};

void copy_run(void *arg)
{
    std::unique_ptr<Copy> copy(static_cast<Copy *>(arg));
    c10::NoGradGuard no_grad;
    c10::InferenceMode inference(copy->to.host.defined() && copy->to.host.is_inference());
    copy->to.reach().copy_(copy->from.reach());
}

/* A source on the CPU is copied first, so that the caller may change it. */
void copy_queue(const at::Tensor &to, const at::Tensor &from)
{
    static const char kernels[2] = {};
    if (!to.numel())
        return;
    at::Tensor device_tensor = to.is_cpu() ? from : to;
    at::Tensor kept = from.is_cpu() ? from.clone() : from;
    int device = device_tensor.device().index();
    CUstream stream = stream_of(device, stream_now[device]);
    Current current(device);
    fake_cuda_load(&kernels[to.is_contiguous() && from.is_contiguous()]);
    fake_cuda_call(stream, copy_run, new Copy{Side(to), Side(kept)});
    if (to.is_cpu())
        fake_cuda_finish(stream);
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool)
{
    c10::NoGradGuard no_grad;
    copy_queue(to, from);
    return to;
}

const at::Tensor &resize(const at::Tensor &self, c10::IntArrayRef size,
                         std::optional<at::MemoryFormat>)
{
    c10::TensorImpl *impl = self.unsafeGetTensorImpl();
    impl->set_sizes_contiguous(size);
    size_t bytes = size_t(impl->storage_offset() + impl->numel()) * impl->itemsize();
    if (bytes > self.storage().nbytes())
        storage_resize(self.storage().unsafeGetStorageImpl(), bytes);
    return self;
}

at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to)
{
    if (to.sizes() != from.sizes())
        (void)::resize(to, from.sizes(), std::nullopt);
    return copy_from(from, to, false);
}

at::Scalar local_scalar(const at::Tensor &self)
{
    return self.cpu().item();
}

/* --- factories and views --- */

c10::Device device_or_current(std::optional<c10::Device> device)
{
    return device && device->has_index()
               ? *device
               : c10::Device(type, c10::DeviceIndex(device_now));
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<c10::Device> device,
                 std::optional<bool>, std::optional<at::MemoryFormat> format)
{
    c10::DeviceGuard guard(device_or_current(device));
    return at::detail::empty_generic(size, &allocator,
                                     c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<c10::Device> device, std::optional<bool>)
{
    c10::DeviceGuard guard(device_or_current(device));
    return at::detail::empty_strided_generic(
        size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
        c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor &self, c10::IntArrayRef size,
                      c10::IntArrayRef stride, std::optional<int64_t> offset)
{
    return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

at::Tensor &set_storage(at::Tensor &self, at::Storage source, int64_t offset,
                        c10::IntArrayRef size, c10::IntArrayRef stride)
{
    c10::TensorImpl *impl = self.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(std::move(source));
    impl->set_storage_offset(offset);
    if (stride.data())
        impl->set_sizes_and_strides(size, stride);
    else
        impl->set_sizes_contiguous(size);
    return self;
}

/* The operator's schema does not say that it writes the running values, so the fallback
 * would not copy them back. */
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(
    const at::Tensor &input, const std::optional<at::Tensor> &weight,
    const std::optional<at::Tensor> &bias, const std::optional<at::Tensor> &mean,
    const std::optional<at::Tensor> &variance, bool training, double momentum, double eps)
{
    if (!mean || !mean->defined())
        return at::_native_batch_norm_legit(input, weight, bias, training, momentum, eps);
    at::Tensor own_mean = *mean, own_variance = *variance;
    return at::_native_batch_norm_legit(input, weight, bias, own_mean, own_variance,
                                        training, momentum, eps);
}

void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
    at::native::cpu_fallback(op, stack);
}

/* The streams are this file's: end them, so that the driver finds no leak. */
void streams_close()
{
    fake_cuda_drain();
    std::lock_guard<std::mutex> lock(mutex);
    for (Device &device : devices) {
        for (CUstream stream : device.streams) {
            (void)cuCtxPushCurrent(device.context);
            (void)cuStreamDestroy(stream);
            CUcontext own;
            (void)cuCtxPopCurrent(&own);
        }
        device.streams.clear();
    }
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("as_strided", as_strided);
    m.impl("view", at::native::view);
    m.impl("view_as_real", at::native::view_as_real);
    m.impl("view_as_complex", at::native::view_as_complex);
    m.impl("_reshape_alias", at::native::_reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("set_.source_Storage_storage_offset", set_storage);
    m.impl("set_.source_Tensor", at::native::set_tensor_);
    m.impl("resize_", resize);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("_local_scalar_dense", local_scalar);
    m.impl("record_stream", [](at::Tensor &, c10::Stream) {});
    m.impl("native_batch_norm", batch_norm);
    /* The first one's kernel for all devices sums in another order than the CPU's; the
     * other's warns. */
    for (const char *name : {"native_layer_norm", "mse_loss"})
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    m.def("streams_close", streams_close, py::call_guard<py::gil_scoped_release>());
    m.def("device_count", devices_count);
    m.def("device_get", [] { return device_now; });
    m.def("device_set", [](int device) { device_now = device; });
    m.def("drain", fake_cuda_drain, py::call_guard<py::gil_scoped_release>());
    m.def("calls", [](const std::string &name) { return fake_cuda_calls(name.c_str()); });
}
