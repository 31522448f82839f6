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
 *  wait. The Work and its tensors live until the library no longer uses the memory, also
 *  where the program has dropped them.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_C10D_WORK_H
#define TRYST_BINDINGS_TORCH_CSRC_C10D_WORK_H

#include "../core/operation.h"
#include "../core/view.h"

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unordered_set>

namespace tryst_torch
{

class Work;

/** The works of a process group that are under way, for abort. */
class OpenWorks
{
  public:
    explicit OpenWorks(std::weak_ptr<View> view);
    void add(Work *work);
    void remove(Work *work);
    void cancel();
    /** End the job's operations on all ranks: an operation failed for the loss of a rank.
     *  Returns at once; any thread. */
    void rank_lost(tryst_status status, const std::string &reason);

  private:
    std::weak_ptr<View> view_;
    std::mutex mutex_; /* guards works_ */
    std::unordered_set<Work *> works_;
};

/** An operation for a Work. */
struct Call {
    c10d::OpType type;
    const char *title; /* for the profiler: "tryst:all_reduce"; static */
    std::string what;  /* for messages: "all_reduce 3 of process group 0" */
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs; /* the result of the future */
    std::function<void()> settle;    /* copies results; may be empty */
    std::chrono::milliseconds timeout;
};

class Work : public c10d::Work
{
  public:
    Work(int rank, Call call, uint64_t number, std::shared_ptr<OpenWorks> open);

    /** Submit the operation. Throws Refusal. */
    void start(const Operation::Submit &submit, const tryst_op_params &params);
    /** Request a cancel. */
    void cancel();

    bool isCompleted() override;
    /** Wait until the work is finished; throws its error. With a timeout that passes, the
     *  operation is cancelled on all ranks. */
    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override;
    void abort() override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    uint64_t getSequencenumber() const; /* not in every c10d of 2.x */

  private:
    void ended();
    void settle_and_finish();
    void finish_as(std::exception_ptr error);
    void future_mark();
    std::exception_ptr error() const;
    tryst_status wait_for(std::chrono::milliseconds timeout);

    Call call_;
    uint64_t number_;
    std::shared_ptr<OpenWorks> open_;
    std::mutex future_mutex_; /* guards future_ and finished_ */
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    bool finished_ = false;
    std::exception_ptr error_; /* written before finished_ */
    Operation operation_;
};

/** Several works as one, in the form in which c10d wants coalesced operations. */
class JoinedWork : public c10d::Work
{
  public:
    explicit JoinedWork(std::vector<c10::intrusive_ptr<c10d::Work>> works);

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override;
    void abort() override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  private:
    std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

} // namespace tryst_torch

#endif
