/* SPDX-License-Identifier: Apache-2.0 */
/* Marks and streams of the pool. PyTorch before 2.4 does not show the driver's event;
 * tensor_require refuses tensors on devices there, so nothing here is called for them. */
#include "streams.h"

#include "tensors.h"

#include <atomic>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <thread>

namespace tryst_torch
{

Mark::Mark(c10::Device device)
{
    if (device.is_cpu())
        return;
    c10::impl::VirtualGuardImpl driver(device.type());
    event_ = std::make_shared<c10::Event>(device.type());
    event_->record(driver.getStream(device));
}

void *Mark::event() const
{
#if TRYST_TORCH_HAS_DEVICES
    return event_ ? event_->eventId() : nullptr;
#else
    return nullptr;
#endif
}

void Mark::await() const
{
    if (!event_)
        return;
    c10::impl::VirtualGuardImpl driver(event_->device_type());
    event_->block(driver.getStream(event_->device()));
}

void Mark::synchronize() const
{
#if TRYST_TORCH_HAS_DEVICES
    if (event_)
        event_->synchronize();
#endif
}

/* c10::Stream::native_handle came in the course of PyTorch 2; the second function is for
 * a PyTorch without it. */
template <typename S>
static auto handle_of(const S &stream, int)
    -> decltype(std::optional(stream.native_handle()))
{
    try {
        return stream.native_handle();
    } catch (const c10::Error &) { /* this device has none */
        return std::nullopt;
    }
}

template <typename S> static std::optional<void *> handle_of(const S &, long)
{
    return std::nullopt;
}

std::optional<void *> current_stream(c10::Device device)
{
    if (device.is_cpu())
        return std::nullopt;
    c10::impl::VirtualGuardImpl driver(device.type());
    return handle_of(driver.getStream(device), 0);
}

static std::atomic<bool> has_messages(false);
static std::atomic<size_t> waiting_streams(0);

/* Sequentially consistent: of add and end_for_messages the later one sees the other. */
bool WaitingStreams::add()
{
    waiting_streams++;
    if (!has_messages)
        return true;
    remove();
    return false;
}

void WaitingStreams::remove()
{
    waiting_streams--;
}

/* Such a wait ends with its collective, and so when a stopped peer answers. */
bool WaitingStreams::end_for_messages(std::chrono::milliseconds limit)
{
    auto begin = std::chrono::steady_clock::now();
    has_messages = true;
    while (waiting_streams > 0 && std::chrono::steady_clock::now() - begin < limit)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    return waiting_streams == 0;
}

PoolStream::PoolStream(c10::Device device)
{
    if (device.is_cpu())
        return;
    c10::impl::VirtualGuardImpl driver(device.type());
    guard_.emplace(driver.getStreamFromGlobalPool(device));
}

} // namespace tryst_torch
