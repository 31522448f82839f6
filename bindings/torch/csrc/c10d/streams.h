/* SPDX-License-Identifier: Apache-2.0 */
/** @file streams.h
 *  Streams and events of the device that a call's tensors are on, through the interface
 *  that c10 has for all devices. No header and no function of CUDA: the same source and
 *  the same objects serve PyTorch's builds with and without it.
 *
 *  Not in a thread that makes the library's progress: each call, and the end of a Mark,
 *  is a call of the driver.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_C10D_STREAMS_H
#define TRYST_BINDINGS_TORCH_CSRC_C10D_STREAMS_H

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <memory>
#include <optional>

namespace tryst_torch
{

/** A point in a stream: an event behind the work that was queued so far. Empty for the
 *  CPU, which has no streams; then all functions do nothing. Copies share the event. */
class Mark
{
  public:
    Mark() = default;
    /** Record the point in the calling thread's current stream of `device`. */
    explicit Mark(c10::Device device);
    /** Return the event as the driver has it, a CUevent; NULL for an empty mark. */
    void *event() const;
    /** Make the calling thread's current stream wait for the point. */
    void await() const;
    /** Block the calling thread until the device has reached the point; no limit. */
    void synchronize() const;

  private:
    std::shared_ptr<c10::Event> event_;
};

/** While this lives, the calling thread's current stream of `device` is one of PyTorch's
 *  pool. Nothing for the CPU. */
class PoolStream
{
  public:
    explicit PoolStream(c10::Device device);

  private:
    std::optional<c10::StreamGuard> guard_;
};

} // namespace tryst_torch

#endif
