/* SPDX-License-Identifier: Apache-2.0 */
/** @file operation.h
 *  One submitted operation: its handle, and its outcome once it is complete.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_OPERATION_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_OPERATION_H

#include "world.h"

#include <functional>

namespace tryst_torch
{

class Operation
{
  public:
    /** Submit an operation with these parameters, as tryst_allreduce does. */
    using Submit =
        std::function<tryst_status(const tryst_op_params *params, tryst_op **op_p)>;

    Operation() = default;
    ~Operation();
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;

    /** Submit once, in `context`. `ended` runs once, when the operation is complete, in
     *  the thread that makes progress: it must not wait, and must keep this object alive
     *  until it runs. Throws Refusal "cannot start <what>: …"; `ended` then never
     *  runs. */
    void start(const std::shared_ptr<Context> &context, const Submit &submit,
               tryst_op_params params, const std::string &what,
               std::function<void()> ended);

    /** Wait until the operation is complete; `ended` may still be running. Makes progress
     *  meanwhile. Returns TRYST_E_TIMEOUT when `timeout_ns` passed first. */
    tryst_status wait(uint64_t timeout_ns) const;

    /** Let the work that is queued in `stream`, of CUDA's `device`, after this call wait
     *  for the operation. False: the operation is complete, or the stream cannot wait.
     *  Any thread that makes no progress. */
    bool stream_wait(int device, void *stream) const;

    /** Make progress without blocking. Any thread. */
    void poll() const;

    /** Request a cancel; it ends the operation on the other ranks too. Any thread. */
    void cancel() const;

    /** True in a thread that runs `ended` of some operation, or destroys it. */
    static bool is_in_callback();

    /** Return the final status; from `ended` on. */
    tryst_status status() const
    {
        return status_;
    }
    /** Return the reason of a failure, one sentence; from `ended` on. */
    const std::string &reason() const
    {
        return reason_;
    }

  private:
    static void complete(void *arg, tryst_op *op, tryst_status status);

    std::weak_ptr<Context> context_; /* a call must not overlap the context's end */
    tryst_op *op_ = nullptr;
    tryst_status status_ = TRYST_IN_PROGRESS;
    std::string reason_;
    std::function<void()> ended_;
};

} // namespace tryst_torch

#endif
