/* SPDX-License-Identifier: Apache-2.0 */
/** @file work.h
 *  c10d::Work over one operation of the library.
 *
 *      submitted ──▶ complete in the library ──▶ results copied, if need be ──▶ finished
 *                    (progress thread)           (finisher thread)              wait()
 *                                                                               returns
 *
 *  An operation without copies and without a future finishes in the progress thread. A
 *  future is completed by the finisher thread, because its functions may run Python and
 *  wait. Copies of tensors on a device are queued by the first waiter in its current
 *  stream, or by the finisher in a stream of the pool. The Work and its tensors live
 *  until the library no longer uses the memory, also where the program has dropped them.
 *
 *  On a device, a wait() for a collective makes the current stream wait, not the host,
 *  and returns before the end. If such a collective fails, the stream goes on, and the
 *  next call of the process group throws the error.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_C10D_WORK_H
#define TRYST_BINDINGS_TORCH_CSRC_C10D_WORK_H

#include "../core/log.h"
#include "../core/operation.h"
#include "../core/view.h"
#include "streams.h"

#include <atomic>
#include <map>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unordered_set>

namespace tryst_torch
{

class Work;

/** Return a time-out in nanoseconds, as the library takes it; one of centuries is cut to
 *  292 years. `timeout` is not negative. */
uint64_t nanoseconds_of(std::chrono::milliseconds timeout);

/** Return the text of an exception, without the stack that PyTorch's own add. */
std::string text_of(const std::exception &error);

/** Return a torch.distributed.DistBackendError, the exception of every operation that
 *  fails. */
std::exception_ptr backend_error(const std::string &text);

/** What the works of a process group share: the set of those that are under way, for
 *  abort, and what is called when one ends. Thread: any, all functions. */
class OpenWorks
{
  public:
    OpenWorks(std::weak_ptr<View> view, std::shared_ptr<const GroupName> group);
    void add(Work *work);
    void remove(Work *work);
    /** Return the collectives that are not finished yet. */
    std::vector<c10::intrusive_ptr<c10d::Work>> collectives();
    void cancel();

    const std::shared_ptr<const GroupName> &group() const
    {
        return group_;
    }
    /** Return the context of the job; none where the process group has left it. */
    std::shared_ptr<Context> context() const;

    /** Set the functions of c10d's hooks, by the caller's number; an empty function
     *  removes. Those for an abort run after a time-out, the loss of a rank and an abort,
     *  in a thread of their own, and errors do not wait for them; once for several
     *  failures that come together. Those for an end run after each success, and must not
     *  block. A hook may run once more while, and after, it is removed. */
    using EndHook = std::function<void(uint64_t key, float duration_ms)>;
    void abort_hook_set(int64_t id, std::function<void()> hook);
    void end_hook_set(int64_t id, EndHook hook);
    static void abort_hooks_start(const std::shared_ptr<OpenWorks> &open);
    void end_hooks_run(uint64_t key, float duration_ms);

    /** Lengthen the time-outs of later works, until the first of them ends. */
    void extend(std::chrono::milliseconds time);
    /** Return the sum of the extensions, and the newest one's number. */
    std::pair<std::chrono::milliseconds, uint64_t> extension();
    void extension_end(uint64_t newest);

    /** Return the status of the newest failure that was a time-out or a loss; TRYST_OK:
     *  none yet. */
    tryst_status failure() const
    {
        return failure_;
    }
    void failure_set(tryst_status status)
    {
        failure_ = status;
    }

    /** Keep the error of a work that the host has not waited for; the oldest is kept. */
    void unseen_add(std::exception_ptr error);
    /** A wait throws this error. */
    void unseen_remove(const std::exception_ptr &error);
    /** Throw the error that is kept, if there is one, once; and in each call, if a
     *  collective that a stream waited for has not ended long after its time-out. */
    void unseen_throw();

    /** End the job's operations on all ranks: an operation failed for the loss of a rank.
     *  Returns at once; any thread. */
    void rank_lost(tryst_status status, const std::string &reason);

  private:
    c10::intrusive_ptr<c10d::Work> overdue_find();
    std::exception_ptr overdue();
    void abort_hooks_run();
    bool abort_hooks_take(std::vector<std::shared_ptr<std::function<void()>>> &hooks);

    std::weak_ptr<View> view_;
    std::shared_ptr<const GroupName> group_;
    std::atomic<tryst_status> failure_{TRYST_OK};
    std::mutex mutex_; /* guards works_, unseen_, and overdue_ until it is set */
    std::unordered_set<Work *> works_;
    std::exception_ptr unseen_, overdue_;
    std::atomic<bool> is_overdue_{false}; /* overdue_ is set, for good */
    std::mutex hooks_mutex_;              /* guards the rest */
    std::map<int64_t, std::shared_ptr<std::function<void()>>> abort_hooks_;
    bool abort_hooks_due_ = false;
    bool abort_hooks_running_ = false;
    std::map<int64_t, std::shared_ptr<EndHook>> end_hooks_;
    std::map<uint64_t, std::chrono::milliseconds> extensions_;
    uint64_t newest_extension_ = 0;
};

/** The parts of a JoinedWork: once all have succeeded, the hooks for an end run for the
 *  whole. Thread: any, all functions. */
class Parts
{
  public:
    Parts(std::shared_ptr<OpenWorks> open, size_t count);
    /** Count a part that has succeeded. */
    void succeeded(float duration_ms);
    /** Return a number that no other Work of the process has. */
    uint64_t key() const
    {
        return key_;
    }
    /** Return the time of the part that took longest, in milliseconds; 0: none yet. */
    float duration_ms() const
    {
        return longest_ms_;
    }

  private:
    std::shared_ptr<OpenWorks> open_;
    uint64_t key_;
    std::atomic<size_t> left_;
    std::atomic<float> longest_ms_{0};
};

/** An operation for a Work. */
struct Call {
    /** `call_title` is static: "tryst:" and the kind of operation. */
    Call(c10d::OpType call_type, const char *call_title,
         std::chrono::milliseconds call_timeout);

    c10d::OpType type;
    const char *title; /* for the profiler: "tryst:all_reduce" */
    std::string what;  /* the kind, then the text for messages: "all_reduce 3 of …" */
    std::chrono::milliseconds timeout;
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs; /* the result of the future */
    std::function<void()> settle;    /* copies results; may be empty */
    tryst_tensor in = {};            /* what the library reads; unused: {} */
    tryst_tensor out = {};           /* what it writes */
    c10::Device device = at::kCPU;   /* of all tensors */
    Mark ready;                      /* before it, the library uses no tensor */
    int peer = -1;                   /* of a message */
    std::string name;                /* the library's name of a collective */
};

class Work : public c10d::Work
{
  public:
    Work(int rank, Call call, uint64_t number, std::shared_ptr<OpenWorks> open);
    ~Work() override;

    /** Submit the operation. Throws Refusal. */
    void start(const Operation::Submit &submit, const tryst_op_params &params);
    /** Request a cancel. */
    void cancel();
    /** Be a part of `whole`, which counts this Work when, or if, it has succeeded. */
    void join(const std::shared_ptr<Parts> &whole);

    bool isCompleted() override;
    /** Wait until the work is finished; throws its error. A collective on a device: let
     *  the current stream wait, and return; with a timeout, and with
     *  TORCH_TRYST_BLOCKING_WAIT=1, as on the CPU. With a timeout that passes, the
     *  operation is cancelled on all ranks. If a peer does not agree to a cancel or a
     *  deadline in time, this throws before the end; a later wait has the outcome. */
    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override;
    void abort() override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    /* Not in every c10d of 2.x: */
    uint64_t getSequencenumber() const;
    std::chrono::milliseconds getTimeout() const;
    /** Return the time from submission to end, in milliseconds; 0 before the end. */
    float getDuration() const;
    /** Return a number that no other Work of the process has. */
    uint64_t getCompletionKey() const;

    /** True if a stream waits and the operation should have ended: a peer that has to
     *  answer is stopped, perhaps. */
    bool is_overdue() const;
    /** Return the error for it, and write a dump. */
    std::exception_ptr overdue_error() const;

    bool is_message() const;
    bool is_finished();
    /** Return the device of the tensors; the CPU where there are none. */
    c10::Device device() const;

  private:
    void ended();
    void settle();
    void settle_wait();
    void finish_known();
    void settle_and_finish();
    void succeeded();
    bool stream_wait();
    void streamed_end();
    void streams_await() const;
    void finish_wait();
    void future_mark();
    c10::intrusive_ptr<c10::ivalue::Future> future_get();
    Record record(const tryst_op_params &params) const;
    void failed();
    bool is_timeout() const;
    std::exception_ptr error(const std::string &more) const;
    tryst_status wait_for(std::chrono::milliseconds timeout);
    std::string no_answer(std::chrono::milliseconds timeout) const;
    std::exception_ptr give_up(tryst_status status, std::chrono::milliseconds timeout,
                               std::string dump) const;

    Call call_;
    uint64_t number_;
    uint64_t log_id_ = 0;
    uint64_t extension_ = 0; /* newest at the submission */
    std::chrono::steady_clock::time_point begun_;
    std::atomic<float> duration_ms_{0};
    std::shared_ptr<OpenWorks> open_;
    bool has_copies_;         /* a result is copied once the operation has ended */
    std::mutex settle_mutex_; /* guards call_.settle, is_settled_ and settled_ */
    bool is_settled_ = false; /* the copies are queued */
    Mark settled_;            /* behind the copies */
    std::mutex future_mutex_; /* guards the four below */
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    bool finished_ = false;
    bool has_succeeded_ = false; /* the hooks have run */
    std::vector<std::shared_ptr<Parts>> wholes_;
    std::atomic<bool> is_cancelled_{false};
    std::atomic<bool> is_streamed_{false}; /* a stream waits in the host's place */
    std::exception_ptr error_;             /* written before finished_ */
    Operation operation_;
};

/** Several works as one, in the form in which c10d wants coalesced operations. */
class JoinedWork : public c10d::Work
{
  public:
    /** `works`: each is a Work of this binding. */
    JoinedWork(std::shared_ptr<OpenWorks> open,
               std::vector<c10::intrusive_ptr<c10d::Work>> works);

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override;
    void abort() override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    /* Not in every c10d of 2.x: */
    float getDuration() const;
    uint64_t getCompletionKey() const;

  private:
    std::vector<c10::intrusive_ptr<c10d::Work>> works_;
    std::shared_ptr<Parts> parts_;
};

} // namespace tryst_torch

#endif
