/* SPDX-License-Identifier: Apache-2.0 */
/** @file backend.h
 *  c10d::Backend over a View: each call of c10d becomes one operation of the library, and
 *  a coalesced call one for each tensor.
 *
 *  c10d may call from any thread. Calls return once the operation is submitted. Functions
 *  without `override` are not virtual in every c10d of PyTorch 2.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_C10D_BACKEND_H
#define TRYST_BINDINGS_TORCH_CSRC_C10D_BACKEND_H

#include "jobs.h"
#include "work.h"

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace tryst_torch
{

class Backend : public c10d::Backend
{
  public:
    using WorkPtr = c10::intrusive_ptr<c10d::Work>;
    using Tensors = std::vector<at::Tensor>;
    using Milliseconds = std::chrono::milliseconds;

    /** `job`: the store of the process group if it has all ranks of its job (jobs.h);
     *  empty: it has some of them. */
    Backend(std::shared_ptr<View> view, std::string name, int rank, int size,
            Milliseconds timeout, StorePtr job);
    ~Backend() override;

    const std::string getBackendName() const override
    {
        return "tryst";
    }
    c10::intrusive_ptr<Options> getBackendOptions();
    void setTimeout(Milliseconds timeout);

    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_coalesced(Tensors &tensors,
                                const c10d::AllreduceCoalescedOptions &opts) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &opts) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &opts);
    WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &opts) override;
    WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                           const c10d::ReduceScatterOptions &opts) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &opts) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &opts);
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs,
                     const c10d::AllToAllOptions &opts) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input,
                          std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits,
                          const c10d::AllToAllOptions &opts) override;
    WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs,
                   const c10d::GatherOptions &opts) override;
    WorkPtr gather_into_tensor(at::Tensor &output, at::Tensor &input,
                               const c10d::GatherOptions &opts);
    WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                    const c10d::ScatterOptions &opts) override;
    WorkPtr barrier(const c10d::BarrierOptions &opts) override;
    /** A barrier that names the ranks that do not come: rank 0 waits for a message of
     *  each rank, and answers. Blocks, at most for the timeout. Throws on rank 0 the
     *  first rank that has not come, or with `wait_all` all of them; on the others, that
     *  rank 0 has not answered, or not all have come (monitor.cc). */
    void monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all) override;
    WorkPtr send(Tensors &tensors, int dst, int tag) override;
    WorkPtr recv(Tensors &tensors, int src, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;

    void startCoalescing() override;
    WorkPtr endCoalescing();
    void setSequenceNumberForGroup() override;
    uint64_t getSequenceNumberForGroup() override;

    /** Cancel what is under way, and refuse further operations. Other process groups go
     *  on. */
    void abort();
    /** Release the ranks: the last process group that does so leaves the job. */
    void shutdown();

#ifdef C10D_BACKEND_HAS_HOOKS /* PyTorch 2.15: extras.cc */
    bool supportsSplitting() const override;
    c10::intrusive_ptr<c10d::Backend> split(
        const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
        const c10::intrusive_ptr<Options> &opts) override;
    c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                            const c10::intrusive_ptr<Options> &opts,
                                            const int &rank, const int &size) override;
    bool supportsShrinking() const override;
    c10::intrusive_ptr<c10d::Backend> shrink(
        const std::vector<int64_t> &ranks_to_exclude, int flags,
        const c10::intrusive_ptr<Options> &opts) override;
    void addEphemeralTimeout(const Milliseconds &timeout) override;

    bool supportsAbortHooks() const override;
    void registerAbortHook(int64_t id, c10d::AbortHook hook) override;
    void unregisterAbortHook(int64_t id) override;
    bool supportsCompletionHooks() const override;
    void registerCompletionHook(int64_t id, c10d::CompletionHook hook) override;
    void unregisterCompletionHook(int64_t id) override;
    void enableCollectivesTiming() override;
    c10d::ErrorType getError() override;

    bool supportsTensorAlloc(c10::DeviceIndex device) override;
    at::Tensor allocateTensor(long count, at::TensorOptions options) override;
    std::unordered_map<std::string, uint64_t> getMemoryStats() override;

    /* Refused, each with its reason: */
    std::shared_ptr<c10::Allocator> getMemAllocator() override;
    c10d::ReconfigureHandle get_reconfigure_handle() const override;
    WorkPtr reconfigure(const c10d::ReconfigureOptions &opts) override;
    c10::intrusive_ptr<c10d::Window> new_window(
        const std::optional<at::Tensor> &tensor) override;
    void suspend() override;
    void resume() override;
    void startTimeEstimate() override;
    float endTimeEstimate() override;
#endif

  private:
    /** What all of the library's collectives take. */
    struct Start {
        tryst_step *step;
        const char *name;
        const tryst_tensor *in;
        const tryst_tensor *out;
        const tryst_op_params *params;
        tryst_op **op_p;
    };
    /** Call one of the library's collectives. */
    using Collective = std::function<tryst_status(const Start &at)>;

    WorkPtr collective(Call call, const Collective &submit, double factor = 0);
    /** Call tryst_send_key or tryst_recv_key. */
    using Message = std::function<tryst_status(
        const tryst_tensor *tensor, const tryst_op_params *params, tryst_op **op_p)>;
    WorkPtr message(Call call, const Message &submit);
    Milliseconds timeout() const;
    WorkPtr launch(const View &ranks, Call call, uint64_t number,
                   const Operation::Submit &submit, const tryst_op_params &params);
    WorkPtr reduce_one(Call call, at::Tensor &tensor, const c10d::ReduceOp &op, int root);
    WorkPtr send_one(at::Tensor &tensor, int dst, int tag, Milliseconds timeout);
    WorkPtr recv_one(at::Tensor &tensor, int src, int tag, Milliseconds timeout);
    void monitor_report(Milliseconds timeout);
    void monitor_collect(Milliseconds timeout, bool wait_all);
    WorkPtr allreduce_sparse(at::Tensor &tensor, const c10d::AllreduceOptions &opts);
    std::vector<int64_t> sparse_counts(int64_t count, int64_t row_bytes,
                                       Milliseconds timeout);
    WorkPtr allgather_each(std::vector<Tensors> &outputs, Tensors &inputs,
                           const c10d::AllgatherOptions &opts);
    WorkPtr allgather_one(at::Tensor &output, at::Tensor &input, Milliseconds timeout);
    WorkPtr reduce_scatter_one(at::Tensor &output, at::Tensor &input,
                               const c10d::ReduceOp &op, Milliseconds timeout);
    std::shared_ptr<View> view();
    StorePtr job_store();

    std::mutex mutex_; /* guards view_, job_, closed_, coalesced_ and is_coalescing_ */
    std::shared_ptr<View> view_;
    StorePtr job_;
    const char *closed_ = nullptr; /* why operations are refused */
    bool is_coalescing_ = false;
    std::vector<WorkPtr> coalesced_;
    std::shared_ptr<OpenWorks> open_;
    std::string name_;
    std::atomic<Milliseconds::rep> timeout_ms_;
    std::mutex collective_mutex_;       /* held while a collective is submitted */
    std::atomic<uint64_t> number_{0};   /* of the newest collective */
    std::atomic<uint64_t> children_{0}; /* process groups made from this one */
};

} // namespace tryst_torch

#endif
