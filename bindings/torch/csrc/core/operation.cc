/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: the callback copies status and reason, so that both stay readable without
 * the library; then it runs the owner's function, which may free this object. */
#include "operation.h"

#include "world.h"

namespace tryst_torch
{

Operation::~Operation()
{
    tryst_op_release(op_);
}

void Operation::start(const std::shared_ptr<Context> &context, const Submit &submit,
                      tryst_op_params params, const std::string &what,
                      std::function<void()> ended)
{
    context_ = context;
    ended_ = std::move(ended);
    params.callback = complete;
    params.arg = this;
    tryst_status status = submit(&params, &op_);
    if (!status)
        return;
    ended_ = nullptr;
    check(status, "start " + what);
}

/* Steps stay open as long as their World, so a rank that has closed one has left. */
static std::string reason_of(tryst_op *op, tryst_status status)
{
    tryst_error error = {};
    error.struct_size = sizeof error;
    if (tryst_op_error(op, &error) != status || !error.text || !*error.text)
        return tryst_status_str(status);
    std::string text = error.text;
    if (status == TRYST_E_CLOSED && error.origin_rank >= 0)
        text += ": rank " + std::to_string(error.origin_rank) + " has left the group";
    return text;
}

static thread_local bool in_callback = false;

bool Operation::is_in_callback()
{
    return in_callback;
}

void Operation::complete(void *arg, tryst_op *op, tryst_status status)
{
    Operation *self = static_cast<Operation *>(arg);
    if (status)
        self->reason_ = reason_of(op, status);
    self->status_ = status;
    std::function<void()> ended = std::move(self->ended_);
    in_callback = true;
    ended();
    ended = nullptr;
    in_callback = false;
}

/* Where the context is gone already, the operation is complete, and no call needs it. */
tryst_status Operation::wait(uint64_t timeout_ns) const
{
    std::shared_ptr<Context> context = context_.lock();
    return tryst_wait(op_, timeout_ns);
}

bool Operation::stream_wait(int device, void *stream) const
{
    std::shared_ptr<Context> context = context_.lock();
    return context && tryst_op_test(op_) == TRYST_IN_PROGRESS &&
           tryst_op_stream_wait(op_, device, stream) == TRYST_OK;
}

void Operation::poll() const
{
    if (std::shared_ptr<Context> context = context_.lock())
        tryst_progress(context->get());
}

void Operation::cancel() const
{
    std::shared_ptr<Context> context = context_.lock();
    tryst_op_cancel(op_);
}

} // namespace tryst_torch
