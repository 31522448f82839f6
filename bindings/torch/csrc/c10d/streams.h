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
#include <chrono>
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

/** Return the calling thread's current stream of `device` as the driver has it, a
 *  CUstream; none for the CPU, and where this PyTorch or its device does not show it. */
std::optional<void *> current_stream(c10::Device device);

/** Streams of this process that wait for collectives, counted. While one waits, the
 *  driver may hold the copies of a message, and with them the progress that ends the wait
 *  (tryst/device.h). So once a message has had a tensor on a device, the host waits in
 *  the streams' place. Thread: any. */
class WaitingStreams
{
  public:
    /** Count one. False: the host has to wait. */
    static bool add();
    static void remove();
    /** A message with a tensor on a device follows: return when no stream waits. False:
     *  after `limit` one still does. */
    static bool end_for_messages(std::chrono::milliseconds limit);
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
