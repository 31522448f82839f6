/* SPDX-License-Identifier: Apache-2.0 */
/* Works: waits, futures and errors of operations.
 *
 * A wait drives the library's progress itself, which spares a change of threads, and then
 * waits for the flag that the completion sets. A future is completed by the finisher, or
 * by a getFuture that comes after the end; future_mutex_ decides between the two. */
#include "work.h"

#include "../core/dump.h"
#include "../core/finisher.h"
#include "../core/world.h"

#include <ATen/ThreadLocalState.h>
#include <algorithm>
#include <c10/util/Exception.h>
#include <cstdlib>
#include <cstring>

namespace tryst_torch
{

/* After a deadline or a cancel an operation ends when the peers have answered, which
 * takes milliseconds while they live. A wait gives up after this time. */
static const std::chrono::milliseconds answer_time(5000);

/* The period in which a wait runs tasks that no thread of the finisher takes. */
static const std::chrono::milliseconds help_period(20);

uint64_t nanoseconds_of(std::chrono::milliseconds timeout)
{
    const std::chrono::milliseconds longest =
        std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::nanoseconds::max());
    std::chrono::nanoseconds time = std::min(timeout, longest);
    return static_cast<uint64_t>(time.count());
}

std::string text_of(const std::exception &error)
{
    auto *own = dynamic_cast<const c10::Error *>(&error);
    return own ? own->what_without_backtrace() : error.what();
}

std::exception_ptr backend_error(const std::string &text)
{
    return std::make_exception_ptr(
        c10::DistBackendError({__func__, __FILE__, __LINE__}, text));
}

OpenWorks::OpenWorks(std::weak_ptr<View> view, std::shared_ptr<const GroupName> group)
    : view_(std::move(view)), group_(std::move(group))
{
}

std::shared_ptr<Context> OpenWorks::context() const
{
    std::shared_ptr<View> view = view_.lock();
    return view ? view->context() : nullptr;
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

/* A work in the set has a reference: that of its callback, or of the finisher's task. */
std::vector<c10::intrusive_ptr<c10d::Work>> OpenWorks::collectives()
{
    std::vector<c10::intrusive_ptr<c10d::Work>> all;
    std::lock_guard<std::mutex> lock(mutex_);
    for (Work *work : works_)
        if (!work->is_message() && !work->is_finished())
            all.push_back(
                c10::intrusive_ptr<c10d::Work>::unsafe_reclaim_from_nonowning(work));
    return all;
}

void OpenWorks::cancel()
{
    std::lock_guard<std::mutex> lock(mutex_);
    for (Work *work : works_)
        work->cancel();
}

void OpenWorks::unseen_add(std::exception_ptr error)
{
    std::lock_guard<std::mutex> lock(mutex_);
    if (!unseen_)
        unseen_ = std::move(error);
}

void OpenWorks::unseen_remove(const std::exception_ptr &error)
{
    std::lock_guard<std::mutex> lock(mutex_);
    if (unseen_ == error)
        unseen_ = nullptr;
}

void OpenWorks::unseen_throw()
{
    std::exception_ptr error;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        std::swap(error, unseen_);
    }
    if (!error)
        error = overdue();
    if (error)
        std::rethrow_exception(error);
}

/* Return a collective that a stream waits for and that should have ended, or none. */
c10::intrusive_ptr<c10d::Work> OpenWorks::overdue_find()
{
    std::lock_guard<std::mutex> lock(mutex_);
    for (Work *work : works_)
        if (work->is_overdue())
            return c10::intrusive_ptr<c10d::Work>::unsafe_reclaim_from_nonowning(work);
    return nullptr;
}

/* Without the lock: the error's dump reads the works. */
std::exception_ptr OpenWorks::overdue()
{
    if (is_overdue_)
        return overdue_;
    c10::intrusive_ptr<c10d::Work> late = overdue_find();
    if (!late)
        return nullptr;
    std::exception_ptr error = static_cast<Work *>(late.get())->overdue_error();
    std::lock_guard<std::mutex> lock(mutex_);
    if (!is_overdue_) {
        overdue_ = error;
        is_overdue_ = true;
    }
    return overdue_;
}

void OpenWorks::abort_hook_set(int64_t id, std::function<void()> hook)
{
    std::lock_guard<std::mutex> lock(hooks_mutex_);
    if (hook)
        abort_hooks_[id] = std::make_shared<std::function<void()>>(std::move(hook));
    else
        abort_hooks_.erase(id);
}

void OpenWorks::end_hook_set(int64_t id, EndHook hook)
{
    std::lock_guard<std::mutex> lock(hooks_mutex_);
    if (hook)
        end_hooks_[id] = std::make_shared<EndHook>(std::move(hook));
    else
        end_hooks_.erase(id);
}

/* A rank that is lost fails hundreds of operations, and PyTorch's own hook takes seconds:
 * one thread runs the hooks, and once more for failures that come meanwhile. */
void OpenWorks::abort_hooks_start(const std::shared_ptr<OpenWorks> &open)
{
    std::lock_guard<std::mutex> lock(open->hooks_mutex_);
    open->abort_hooks_due_ = true;
    if (open->abort_hooks_running_ || open->abort_hooks_.empty())
        return;
    open->abort_hooks_running_ = true;
    finisher_run([open] { open->abort_hooks_run(); });
}

/* Return whether the hooks are due, and which they are. */
bool OpenWorks::abort_hooks_take(
    std::vector<std::shared_ptr<std::function<void()>>> &hooks)
{
    std::lock_guard<std::mutex> lock(hooks_mutex_);
    abort_hooks_running_ = abort_hooks_due_;
    abort_hooks_due_ = false;
    for (auto &[id, hook] : abort_hooks_)
        hooks.push_back(hook);
    return abort_hooks_running_;
}

/* Without the lock: such a hook may run Python, and register another one. An exception
 * must not end a finisher thread, and with it the process. */
void OpenWorks::abort_hooks_run()
{
    for (std::vector<std::shared_ptr<std::function<void()>>> hooks;
         abort_hooks_take(hooks); hooks.clear()) {
        for (auto &hook : hooks) {
            try {
                (*hook)();
            } catch (const std::exception &error) {
                TORCH_WARN("an abort hook of process group ", group_->name,
                           " failed: ", text_of(error));
            }
        }
    }
}

/* Without the lock: c10d's flight recorder has a lock of its own, which it holds while it
 * removes its hook. */
void OpenWorks::end_hooks_run(uint64_t key, float duration_ms)
{
    std::vector<std::shared_ptr<EndHook>> hooks;
    {
        std::lock_guard<std::mutex> lock(hooks_mutex_);
        for (auto &[id, hook] : end_hooks_)
            hooks.push_back(hook);
    }
    for (auto &hook : hooks)
        (*hook)(key, duration_ms);
}

void OpenWorks::extend(std::chrono::milliseconds time)
{
    std::lock_guard<std::mutex> lock(hooks_mutex_);
    extensions_[++newest_extension_] = time;
}

std::pair<std::chrono::milliseconds, uint64_t> OpenWorks::extension()
{
    std::lock_guard<std::mutex> lock(hooks_mutex_);
    std::chrono::milliseconds sum(0);
    for (auto &[number, time] : extensions_)
        sum += time;
    return {sum, newest_extension_};
}

void OpenWorks::extension_end(uint64_t newest)
{
    std::lock_guard<std::mutex> lock(hooks_mutex_);
    extensions_.erase(extensions_.begin(), extensions_.upper_bound(newest));
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

/* Keys of joined works; those of others, which the log numbers, stay far below. */
static std::atomic<uint64_t> next_parts_key(uint64_t(1) << 63);

Parts::Parts(std::shared_ptr<OpenWorks> open, size_t count)
    : open_(std::move(open)), key_(next_parts_key++), left_(count)
{
}

void Parts::succeeded(float duration_ms)
{
    float longest = longest_ms_;
    while (longest < duration_ms &&
           !longest_ms_.compare_exchange_weak(longest, duration_ms))
        ;
    if (--left_ == 0)
        open_->end_hooks_run(key_, longest_ms_);
}

/* Return the reason of a failure without the collective's name at its front: the
 * operations that end for this reason have names of their own. */
static std::string without_name(const std::string &reason, const std::string &name)
{
    size_t at = name.empty() ? std::string::npos : reason.find("\": ");
    return at == std::string::npos ? reason : reason.substr(at + strlen("\": "));
}

static const char title_prefix[] = "tryst:";

Call::Call(c10d::OpType call_type, const char *call_title,
           std::chrono::milliseconds call_timeout)
    : type(call_type), title(call_title), what(call_title + strlen(title_prefix)),
      timeout(call_timeout)
{
}

/* Return `settle` in the modes of the calling thread, such as inference_mode: to PyTorch
 * the finisher's copy is a part of the call. */
static std::function<void()> in_modes_of_caller(std::function<void()> settle)
{
    return [modes = at::ThreadLocalState(), settle = std::move(settle)] {
        at::ThreadLocalStateGuard guard(modes);
        settle();
    };
}

Work::Work(int rank, Call call, uint64_t number, std::shared_ptr<OpenWorks> open)
    : c10d::Work(rank, call.type, call.title, call.inputs), call_(std::move(call)),
      number_(number), open_(std::move(open)), has_copies_(call_.settle != nullptr)
{
    if (call_.settle)
        call_.settle = in_modes_of_caller(std::move(call_.settle));
}

/* The last reference may end in the library's progress, where the program has dropped the
 * work. The end of a tensor with a Python object takes Python's lock, and that of a mark
 * calls the driver; progress must wait for neither, so the finisher destroys them. */
Work::~Work()
{
    if (Operation::is_in_callback())
        finisher_run([call = std::move(call_), settled = std::move(settled_),
                      future = std::move(future_), open = std::move(open_)] {});
}

/* Return the tensors that an operation reads; `call.inputs` has written ones, too. */
static std::vector<at::Tensor> read_tensors(const Call &call)
{
    const std::vector<at::Tensor> &all = call.inputs;
    if (call.type == c10d::OpType::RECV || all.empty())
        return {};
    if (call.type == c10d::OpType::SCATTER)
        return {all.begin() + 1, all.end()};
    return {all[0]};
}

static std::vector<Shape> shapes_of(const std::vector<at::Tensor> &tensors)
{
    std::vector<Shape> shapes;
    for (const at::Tensor &tensor : tensors)
        shapes.push_back({c10::toString(tensor.scalar_type()), tensor.sizes().vec()});
    return shapes;
}

/* A work leaves the open ones after it has finished, and a thread that waited for it may
 * see them before. */
bool Work::is_finished()
{
    return c10d::Work::isCompleted();
}

c10::Device Work::device() const
{
    return call_.device;
}

bool Work::is_message() const
{
    return call_.type == c10d::OpType::SEND || call_.type == c10d::OpType::RECV;
}

Record Work::record(const tryst_op_params &params) const
{
    Record record;
    record.group = open_->group();
    record.kind = call_.title + strlen(title_prefix);
    record.number = is_message() ? 0 : number_;
    record.name = call_.name;
    record.peer = call_.peer;
    record.inputs = shapes_of(read_tensors(call_));
    record.outputs = shapes_of(call_.outputs);
    if (params.flags & TRYST_OP_PRIORITY)
        record.priority = params.priority;
    record.timeout_ms = static_cast<uint64_t>(call_.timeout.count());
    return record;
}

/* Wait until no stream waits for a collective: a message follows. */
void Work::streams_await() const
{
    bool is_limited = call_.timeout > kNoTimeout;
    std::chrono::milliseconds limit =
        is_limited ? call_.timeout + answer_time : std::chrono::hours(24 * 365);
    if (!WaitingStreams::end_for_messages(limit))
        std::rethrow_exception(backend_error(
            "cannot start " + call_.what + " on rank " + std::to_string(rank_) +
            ": a stream still waits for an earlier collective after " +
            std::to_string(limit.count()) + " ms; its peer is stopped, perhaps"));
}

void Work::start(const Operation::Submit &submit, const tryst_op_params &params)
{
    c10::intrusive_ptr<Work> self =
        c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
    if (is_message() && !call_.device.is_cpu())
        streams_await();
    extension_ = open_->extension().second;
    log_id_ = log_begin(record(params));
    begun_ = std::chrono::steady_clock::now();
    open_->add(this);
    try {
        operation_.start(open_->context(), submit, params, call_.what,
                         [self] { self->ended(); });
    } catch (...) {
        open_->remove(this);
        log_remove(log_id_);
        throw;
    }
}

void Work::cancel()
{
    is_cancelled_ = true;
    operation_.cancel();
}

void Work::join(const std::shared_ptr<Parts> &whole)
{
    {
        std::lock_guard<std::mutex> lock(future_mutex_);
        if (!has_succeeded_) {
            wholes_.push_back(whole);
            return;
        }
    }
    whole->succeeded(duration_ms_);
}

/* Run the hooks for an end, of this work and of those that it completes. */
void Work::succeeded()
{
    open_->end_hooks_run(log_id_, duration_ms_);
    std::vector<std::shared_ptr<Parts>> wholes;
    {
        std::lock_guard<std::mutex> lock(future_mutex_);
        has_succeeded_ = true;
        wholes.swap(wholes_);
    }
    for (auto &whole : wholes)
        whole->succeeded(duration_ms_);
}

/* True for failures that end a job, unless the program deals with them. */
static bool is_grave(tryst_status status)
{
    return status == TRYST_E_DEADLINE || status == TRYST_E_ABORTED || is_loss(status);
}

/* True for a deadline, and for a cancel by another rank: a wait timed out there. */
bool Work::is_timeout() const
{
    tryst_status status = operation_.status();
    return status == TRYST_E_DEADLINE || (status == TRYST_E_CANCELED && !is_cancelled_);
}

/* The library is done with the tensors. Runs in the thread that makes progress. */
void Work::ended()
{
    tryst_status status = operation_.status();
    std::chrono::duration<float, std::milli> duration =
        std::chrono::steady_clock::now() - begun_;
    duration_ms_ = duration.count();
    open_->extension_end(extension_);
    log_end(log_id_, status, operation_.reason());
    if (is_loss(status))
        open_->rank_lost(status, without_name(operation_.reason(), call_.name));
    error_ = error("");
    bool is_short;
    {
        std::lock_guard<std::mutex> lock(future_mutex_);
        is_short = !future_ && !has_copies_ && !is_grave(status) && !is_timeout();
        finished_ = is_short;
    }
    if (is_short) {
        finish_known();
        return;
    }
    c10::intrusive_ptr<Work> self =
        c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
    finisher_run([self] { self->settle_and_finish(); });
}

/* After a time-out or the loss of a rank, write the dump, so that the error can name it,
 * and start the hooks. PyTorch's own hook takes seconds. Runs in a finisher thread. */
void Work::failed()
{
    if (is_grave(operation_.status()))
        open_->failure_set(operation_.status());
    if (is_timeout())
        error_ = error(dump_at_timeout(call_.what + ": " + operation_.reason()));
    OpenWorks::abort_hooks_start(open_);
}

/* Copy the results, in the calling thread's current stream; where another thread has done
 * so, let this stream wait for its copies. The tensors that are read stay in call_.settle
 * until the copies have been done. */
void Work::settle()
{
    std::lock_guard<std::mutex> lock(settle_mutex_);
    if (is_settled_) {
        settled_.await();
        return;
    }
    call_.settle();
    is_settled_ = true;
    settled_ = Mark(call_.device);
}

/* Copy the results, unless the operation has failed or a waiter has copied, and wait
 * until the copies have been done: there may be no waiter. Runs in a finisher thread. */
void Work::settle_wait()
{
    if (!error_)
        settle();
    Mark copied;
    {
        std::lock_guard<std::mutex> lock(settle_mutex_);
        is_settled_ = true;
        copied = settled_;
    }
    copied.synchronize();
    std::lock_guard<std::mutex> lock(settle_mutex_);
    call_.settle = nullptr;
}

/* The work is complete: let c10d and the process group know. */
void Work::finish_known()
{
    finish(error_);
    if (error_ && is_streamed_)
        open_->unseen_add(error_);
    streamed_end();
    open_->remove(this);
    if (!error_)
        succeeded();
}

/* The same with copies and a future. Runs in the finisher thread. */
void Work::settle_and_finish()
{
    if (is_grave(operation_.status()) || is_timeout())
        failed();
    std::optional<PoolStream> stream;
    try {
        stream.emplace(call_.device);
        if (has_copies_)
            settle_wait();
    } catch (...) {
        if (!error_)
            error_ = std::current_exception();
    }
    finish_known();
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

/* PyTorch's tests, and tools that read its messages, find time-outs by the word. */
static std::string limit_text(tryst_status status, std::chrono::milliseconds timeout)
{
    return status == TRYST_E_DEADLINE ? " after a timeout of " + milliseconds(timeout)
                                      : "";
}

/* Return the error of a failed operation, with `more` at its end. */
std::exception_ptr Work::error(const std::string &more) const
{
    if (!operation_.status())
        return nullptr;
    return backend_error(call_.what + " failed on rank " + std::to_string(rank_) +
                         limit_text(operation_.status(), call_.timeout) + ": " +
                         operation_.reason() + more);
}

bool Work::isCompleted()
{
    if (!c10d::Work::isCompleted())
        operation_.poll(); /* where no thread makes progress */
    if (!c10d::Work::isCompleted())
        finisher_help();
    c10::intrusive_ptr<c10::ivalue::Future> future = future_get();
    return c10d::Work::isCompleted() && (!future || future->completed());
}

c10::intrusive_ptr<c10::ivalue::Future> Work::future_get()
{
    std::lock_guard<std::mutex> lock(future_mutex_);
    return future_;
}

/* Wait for the library's part: `timeout`, or the deadline of the operation. */
tryst_status Work::wait_for(std::chrono::milliseconds timeout)
{
    if (timeout > kNoTimeout)
        return operation_.wait(nanoseconds_of(timeout));
    if (call_.timeout <= kNoTimeout)
        return operation_.wait(TRYST_FOREVER);
    return operation_.wait(nanoseconds_of(call_.timeout + answer_time));
}

/* Return why a wait ends before its operation. The operation may end meanwhile: then no
 * rank is known. */
std::string Work::no_answer(std::chrono::milliseconds timeout) const
{
    int peer = log_awaited(log_id_, live_read());
    return "its timeout of " + milliseconds(timeout) + " passed, and " +
           (peer < 0 ? "a peer"
                     : "rank " + std::to_string(peer) + " of the process group") +
           " does not answer; its tensors stay in use";
}

/* Return the error of a wait that ends before its operation. `dump`: what a dump before
 * it added; empty: none yet. */
std::exception_ptr Work::give_up(tryst_status status, std::chrono::milliseconds timeout,
                                 std::string dump) const
{
    std::string text =
        "cannot wait for " + call_.what + " on rank " + std::to_string(rank_) + ": ";
    if (status == TRYST_E_FORKED)
        return backend_error(text + tryst_status_str(status));
    text += no_answer(timeout);
    if (dump.empty())
        dump = dump_at_timeout(text);
    return backend_error(text + dump);
}

bool Work::is_overdue() const
{
    return is_streamed_ && call_.timeout > kNoTimeout &&
           std::chrono::steady_clock::now() > begun_ + call_.timeout + answer_time;
}

std::exception_ptr Work::overdue_error() const
{
    return give_up(TRYST_E_TIMEOUT, call_.timeout, "");
}

/* Wait until the work is finished. At the end of the program this thread runs the tasks
 * of the finisher, and that of this work may still come. */
void Work::finish_wait()
{
    std::unique_lock<std::mutex> lock(mutex_);
    while (!completed_) {
        lock.unlock();
        finisher_help();
        lock.lock();
        cv_.wait_for(lock, help_period, [this] { return completed_; });
    }
}

/* True if TORCH_TRYST_BLOCKING_WAIT makes the host wait. */
static bool host_waits()
{
    static const bool wanted = [] {
        const char *text = getenv("TORCH_TRYST_BLOCKING_WAIT");
        return text && *text && strcmp(text, "0") != 0;
    }();
    return wanted;
}

/* Let the current stream wait, in which copies follow. False: the host has to wait. A
 * message's wait could hang beside a kernel that is loaded (tryst/device.h). */
bool Work::stream_wait()
{
    if (is_message() || host_waits())
        return false;
    std::optional<void *> stream = current_stream(call_.device);
    if (!stream || !WaitingStreams::add())
        return false;
    if (is_streamed_.exchange(true))
        WaitingStreams::remove(); /* an earlier wait has counted this work */
    /* A work that is finished by now may have ended the count before it was begun. */
    bool waits = operation_.stream_wait(call_.device.index(), *stream) && !is_finished();
    if (!waits)
        streamed_end();
    else if (has_copies_)
        settle();
    return waits;
}

/* No stream waits for this work any more. */
void Work::streamed_end()
{
    if (is_streamed_.exchange(false))
        WaitingStreams::remove();
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    if (timeout <= kNoTimeout && stream_wait())
        return true;
    tryst_status status = wait_for(timeout);
    bool passed = status == TRYST_E_TIMEOUT;
    std::string dump; /* of the time before the cancel */
    if (passed && timeout > kNoTimeout) {
        dump =
            dump_at_timeout("a wait of " + milliseconds(timeout) + " for " + call_.what);
        OpenWorks::abort_hooks_start(open_);
        cancel();
        status = wait_for(answer_time);
    }
    if (status == TRYST_E_TIMEOUT || status == TRYST_E_FORKED)
        std::rethrow_exception(
            give_up(status, timeout > kNoTimeout ? timeout : call_.timeout, dump));
    if (status == TRYST_OK && has_copies_ && !call_.device.is_cpu())
        settle();
    finish_wait();
    open_->unseen_remove(exception_);
    /* A future is complete after a wait; its functions may still run. */
    if (c10::intrusive_ptr<c10::ivalue::Future> future = future_get())
        future->wait();
    if (passed && exception_)
        std::rethrow_exception(backend_error(
            "a wait of " + milliseconds(timeout) + " for " + call_.what + " on rank " +
            std::to_string(rank_) + " cancelled it: " + operation_.reason() + dump));
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

/* Return the devices that a future names: those that have streams, each once. */
static std::vector<c10::Device> devices_of(const std::vector<c10::Device> &devices)
{
    std::vector<c10::Device> named;
    for (c10::Device device : devices)
        if (!device.is_cpu() &&
            std::find(named.begin(), named.end(), device) == named.end())
            named.push_back(device);
    return named;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    bool is_late;
    {
        std::lock_guard<std::mutex> lock(future_mutex_);
        if (future_)
            return future_;
        future_ = c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()), devices_of({call_.device}));
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

std::chrono::milliseconds Work::getTimeout() const
{
    return call_.timeout;
}

float Work::getDuration() const
{
    return duration_ms_;
}

uint64_t Work::getCompletionKey() const
{
    return log_id_;
}

JoinedWork::JoinedWork(std::shared_ptr<OpenWorks> open,
                       std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : c10d::Work(-1, c10d::OpType::UNKNOWN), works_(std::move(works)),
      parts_(std::make_shared<Parts>(std::move(open), works_.size()))
{
    for (auto &work : works_)
        static_cast<tryst_torch::Work *>(work.get())->join(parts_);
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

/* Complete `joined` with the values of `futures`, which are complete, in streams of the
 * pool of `devices`, from the `first` one on. */
static void join(c10::ivalue::Future &joined,
                 const c10::List<c10::intrusive_ptr<c10::ivalue::Future>> &futures,
                 const std::vector<c10::Device> &devices, size_t first = 0)
{
    if (first < devices.size()) {
        PoolStream stream(devices[first]);
        join(joined, futures, devices, first + 1);
        return;
    }
    std::vector<at::Tensor> all;
    try {
        for (const c10::intrusive_ptr<c10::ivalue::Future> &one : futures) {
            one->waitAndThrow();
            for (const at::Tensor &tensor : one->value().toTensorVector())
                all.push_back(tensor);
        }
    } catch (...) {
        joined.setError(std::current_exception());
        return;
    }
    joined.markCompleted(c10::IValue(all));
}

c10::intrusive_ptr<c10::ivalue::Future> JoinedWork::getFuture()
{
    c10::TypePtr tensors = c10::ListType::create(c10::TensorType::get());
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(tensors));
    for (auto &work : works_)
        futures.push_back(work->getFuture());
    std::vector<c10::Device> devices;
    for (auto &work : works_)
        devices.push_back(static_cast<tryst_torch::Work *>(work.get())->device());
    devices = devices_of(devices);
    auto joined = c10::make_intrusive<c10::ivalue::Future>(tensors, devices);
    c10::collectAll(futures)->addCallback(
        [joined, futures, devices](auto &) { join(*joined, futures, devices); });
    return joined;
}

float JoinedWork::getDuration() const
{
    return parts_->duration_ms();
}

uint64_t JoinedWork::getCompletionKey() const
{
    return parts_->key();
}

} // namespace tryst_torch
