/* SPDX-License-Identifier: Apache-2.0 */
/* Marks and streams of the pool. PyTorch before 2.4 does not show the driver's event;
 * tensor_require refuses tensors on devices there, so nothing here is called for them. */
#include "streams.h"

#include "tensors.h"

#include <c10/core/impl/VirtualGuardImpl.h>

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

PoolStream::PoolStream(c10::Device device)
{
    if (device.is_cpu())
        return;
    c10::impl::VirtualGuardImpl driver(device.type());
    guard_.emplace(driver.getStreamFromGlobalPool(device));
}

} // namespace tryst_torch
