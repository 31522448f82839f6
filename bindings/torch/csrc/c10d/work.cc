/* SPDX-License-Identifier: Apache-2.0 */
/* Works: waits, futures and errors of operations.
 *
 * A wait drives the library's progress itself, which spares a change of threads, and then
 * waits for the flag that the completion sets. A future is completed by the finisher, or
 * by a getFuture that comes after the end; future_mutex_ decides between the two. */
#include "work.h"

#include "../core/finisher.h"
#include "../core/world.h"

#include <c10/util/Exception.h>

namespace tryst_torch
{

/* After a deadline or a cancel an operation ends when the peers have answered, which
 * takes milliseconds while they live. A wait gives up after this time. */
static const std::chrono::milliseconds answer_time(5000);

OpenWorks::OpenWorks(std::weak_ptr<View> view) : view_(std::move(view))
{
}

void OpenWorks::add(Work *work)
{
    std::lock_guard<std::mutex> lock(mutex_);
    works_.insert(work);
}

void OpenWorks::remove(Work *work)
{
    std::lock_guard<std::mutex> lock(mutex_);
    works_.erase(work);
}

void OpenWorks::cancel()
{
    std::lock_guard<std::mutex> lock(mutex_);
    for (Work *work : works_)
        work->cancel();
}

/* The finisher does it: this may be a callback, in which the last reference to the view,
 * and so the group, must not go. */
void OpenWorks::rank_lost(tryst_status status, const std::string &reason)
{
    finisher_run([view = view_, status, reason] {
        if (std::shared_ptr<View> ranks = view.lock())
            ranks->abort_job(status, reason);
    });
}

/* True for the statuses of a lost rank, 200 to 299 (tryst/status.h). */
static bool is_loss(tryst_status status)
{
    return status >= 200 && status < 300;
}

Work::Work(int rank, Call call, uint64_t number, std::shared_ptr<OpenWorks> open)
    : c10d::Work(rank, call.type, call.title, call.inputs), call_(std::move(call)),
      number_(number), open_(std::move(open))
{
}

void Work::start(const Operation::Submit &submit, const tryst_op_params &params)
{
    c10::intrusive_ptr<Work> self =
        c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
    open_->add(this);
    try {
        operation_.start(submit, params, call_.what, [self] { self->ended(); });
    } catch (...) {
        open_->remove(this);
        throw;
    }
}

void Work::cancel()
{
    operation_.cancel();
}

/* The library is done with the tensors. Runs in the thread that makes progress. */
void Work::ended()
{
    open_->remove(this);
    if (is_loss(operation_.status()))
        open_->rank_lost(operation_.status(), operation_.reason());
    error_ = error();
    bool is_short;
    {
        std::lock_guard<std::mutex> lock(future_mutex_);
        is_short = !future_ && !call_.settle;
        finished_ = is_short;
    }
    if (is_short) {
        finish(error_);
        return;
    }
    c10::intrusive_ptr<Work> self =
        c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
    finisher_run([self] { self->settle_and_finish(); });
}

/* The same with copies and a future. Runs in the finisher thread. */
void Work::settle_and_finish()
{
    if (call_.settle && !error_) {
        try {
            call_.settle();
        } catch (...) {
            error_ = std::current_exception();
        }
    }
    call_.settle = nullptr;
    finish(error_);
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        std::lock_guard<std::mutex> lock(future_mutex_);
        finished_ = true;
        future = future_;
    }
    if (future)
        future_mark();
}

void Work::future_mark()
{
    if (error_)
        future_->setError(error_);
    else
        future_->markCompleted(at::IValue(call_.outputs));
}

static std::string milliseconds(std::chrono::milliseconds time)
{
    return std::to_string(time.count()) + " ms";
}

static std::exception_ptr backend_error(const std::string &text)
{
    return std::make_exception_ptr(
        c10::DistBackendError({__func__, __FILE__, __LINE__}, text));
}

/* PyTorch's tests, and tools that read its messages, find time-outs by the word. */
static std::string limit_text(tryst_status status, std::chrono::milliseconds timeout)
{
    return status == TRYST_E_DEADLINE ? " after a timeout of " + milliseconds(timeout)
                                      : "";
}

std::exception_ptr Work::error() const
{
    if (!operation_.status())
        return nullptr;
    return backend_error(call_.what + " failed on rank " + std::to_string(rank_) +
                         limit_text(operation_.status(), call_.timeout) + ": " +
                         operation_.reason());
}

bool Work::isCompleted()
{
    if (!c10d::Work::isCompleted())
        operation_.wait(0); /* makes progress where no thread does */
    return c10d::Work::isCompleted();
}

/* Wait for the library's part: `timeout`, or the deadline of the operation. */
tryst_status Work::wait_for(std::chrono::milliseconds timeout)
{
    std::chrono::nanoseconds limit(timeout);
    if (timeout > kNoTimeout)
        return operation_.wait(static_cast<uint64_t>(limit.count()));
    if (call_.timeout <= kNoTimeout)
        return operation_.wait(TRYST_FOREVER);
    limit = call_.timeout + answer_time;
    return operation_.wait(static_cast<uint64_t>(limit.count()));
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    tryst_status status = wait_for(timeout);
    bool passed = status == TRYST_E_TIMEOUT;
    if (passed && timeout > kNoTimeout) {
        cancel();
        status = wait_for(answer_time);
    }
    if (status == TRYST_E_TIMEOUT || status == TRYST_E_FORKED)
        std::rethrow_exception(backend_error(
            "cannot wait for " + call_.what + " on rank " + std::to_string(rank_) + ": " +
            (status == TRYST_E_FORKED ? tryst_status_str(status)
                                      : "its time-out passed, and a peer does not "
                                        "answer; its tensors stay in use")));
    {
        std::unique_lock<std::mutex> lock(mutex_);
        cv_.wait(lock, [this] { return completed_; });
    }
    if (passed && exception_)
        std::rethrow_exception(backend_error(
            "a wait of " + milliseconds(timeout) + " for " + call_.what + " on rank " +
            std::to_string(rank_) + " cancelled it: " + operation_.reason()));
    if (exception_)
        std::rethrow_exception(exception_);
    return true;
}

void Work::synchronize()
{
    wait(kNoTimeout);
}

void Work::abort()
{
    cancel();
}

std::vector<at::Tensor> Work::result()
{
    return call_.outputs;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    bool is_late;
    {
        std::lock_guard<std::mutex> lock(future_mutex_);
        if (future_)
            return future_;
        future_ = c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()));
        is_late = finished_;
    }
    if (is_late)
        future_mark();
    return future_;
}

uint64_t Work::getSequencenumber() const
{
    return number_;
}

JoinedWork::JoinedWork(std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : c10d::Work(-1, c10d::OpType::UNKNOWN), works_(std::move(works))
{
}

bool JoinedWork::isCompleted()
{
    for (auto &work : works_)
        if (!work->isCompleted())
            return false;
    return true;
}

bool JoinedWork::isSuccess() const
{
    return !exception();
}

std::exception_ptr JoinedWork::exception() const
{
    for (auto &work : works_)
        if (work->exception())
            return work->exception();
    return nullptr;
}

/* All are waited for, also after a failure; the first failure is thrown. */
bool JoinedWork::wait(std::chrono::milliseconds timeout)
{
    std::exception_ptr first;
    for (auto &work : works_) {
        try {
            work->wait(timeout);
        } catch (...) {
            if (!first)
                first = std::current_exception();
        }
    }
    if (first)
        std::rethrow_exception(first);
    return true;
}

void JoinedWork::synchronize()
{
    wait(kNoTimeout);
}

void JoinedWork::abort()
{
    for (auto &work : works_)
        work->abort();
}

std::vector<at::Tensor> JoinedWork::result()
{
    std::vector<at::Tensor> all;
    for (auto &work : works_)
        for (const at::Tensor &tensor : work->result())
            all.push_back(tensor);
    return all;
}

c10::intrusive_ptr<c10::ivalue::Future> JoinedWork::getFuture()
{
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (auto &work : works_)
        futures.push_back(work->getFuture());
    return c10::collectAll(futures);
}

} // namespace tryst_torch
