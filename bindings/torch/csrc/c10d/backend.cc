/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of c10d, one function each: check the tensors, map them, submit. The first
 * functions are those that they share: the numbers, the deadline, the coalescing. */
#include "backend.h"

#include "../core/dump.h"
#include "tensors.h"

namespace tryst_torch
{

static std::shared_ptr<const GroupName> group_name(const View &view,
                                                   const std::string &name, int rank,
                                                   int size)
{
    return std::make_shared<GroupName>(GroupName{name, rank, size, view.members()});
}

Backend::Backend(std::shared_ptr<View> view, std::string name, int rank, int size,
                 Milliseconds timeout, StorePtr job)
    : c10d::Backend(rank, size), view_(std::move(view)), job_(std::move(job)),
      open_(std::make_shared<OpenWorks>(view_, group_name(*view_, name, rank, size))),
      name_(std::move(name)), timeout_ms_(timeout.count())
{
}

Backend::~Backend() = default;

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions()
{
    return c10::make_intrusive<Options>("tryst", Milliseconds(timeout_ms_.load()));
}

void Backend::setTimeout(Milliseconds timeout)
{
    timeout_ms_ = timeout.count();
}

std::shared_ptr<View> Backend::view()
{
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!closed_, "process group ", name_, " ", closed_,
                ": create another one with torch.distributed.new_group");
    return view_;
}

StorePtr Backend::job_store()
{
    std::lock_guard<std::mutex> lock(mutex_);
    return job_;
}

/* --- submission --------------------------------------------------------------------- */

static uint64_t deadline_of(Backend::Milliseconds timeout)
{
    return timeout <= kNoTimeout ? 0 : nanoseconds_of(timeout);
}

/* Return the time-out of a new operation that names none. */
Backend::Milliseconds Backend::timeout() const
{
    return Milliseconds(timeout_ms_.load());
}

/* Return `timeout` with the extensions of addEphemeralTimeout. */
static Backend::Milliseconds extended(Backend::Milliseconds timeout, OpenWorks &open)
{
    return timeout <= kNoTimeout ? timeout : timeout + open.extension().first;
}

Backend::WorkPtr Backend::launch(const View &ranks, Call call, uint64_t number,
                                 const Operation::Submit &submit,
                                 const tryst_op_params &params)
{
    open_->unseen_throw();
    std::string what = call.what;
    auto work = c10::make_intrusive<Work>(rank_, std::move(call), number, open_);
    try {
        work->start(submit, params);
    } catch (const JobEnded &error) {
        std::string reason = ranks.abort_reason();
        std::rethrow_exception(backend_error(
            reason.empty() ? error.what() : "cannot start " + what + ": " + reason));
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_)
        work->cancel(); /* an abort may have come before the operation was known */
    if (is_coalescing_)
        coalesced_.push_back(work);
    return work;
}

/* Find the device of a call's tensors, and mark the point in its current stream behind
 * which the library may use them. The last step before a submission: copies of inputs are
 * queued by then. */
static void ready_mark(Call &call)
{
    const std::vector<at::Tensor> &some =
        call.inputs.empty() ? call.outputs : call.inputs;
    if (some.empty())
        return;
    call.device = some[0].device();
    for (const std::vector<at::Tensor> *list : {&call.inputs, &call.outputs})
        for (const at::Tensor &tensor : *list)
            TORCH_CHECK(tensor.device() == call.device, "tryst cannot ", call.what,
                        " with tensors on ", call.device, " and on ", tensor.device(),
                        ": give tensors of one device");
    call.ready = Mark(call.device);
    call.in.ready_event = call.out.ready_event = call.ready.event();
}

/* Start a collective. `call.what` holds its kind, and becomes the whole text. A call that
 * the library refuses has no number, since other ranks may not have made it. */
Backend::WorkPtr Backend::collective(Call call, const Collective &submit, double factor)
{
    std::shared_ptr<View> ranks = view();
    std::lock_guard<std::mutex> lock(collective_mutex_);
    uint64_t number = number_ + 1;
    std::string coll = ranks->coll_name(call.what);
    ready_mark(call);
    const tryst_tensor in = call.in, out = call.out;
    if (call.timeout == c10d::kUnsetTimeout)
        call.timeout = timeout();
    call.timeout = extended(call.timeout, *open_);
    call.name = coll;
    call.what += " " + std::to_string(number) + " of process group " + name_;
    tryst_op_params params = ranks->params(deadline_of(call.timeout));
    params.factor = factor;
    WorkPtr work = launch(
        *ranks, std::move(call), number,
        [&](const tryst_op_params *with, tryst_op **op_p) {
            return submit({ranks->step(), coll.c_str(), &in, &out, with, op_p});
        },
        params);
    number_ = number;
    return work;
}

/* Start a message. A call.timeout of 0 is the process group's. */
Backend::WorkPtr Backend::message(Call call, const Message &submit)
{
    ready_mark(call);
    const tryst_tensor tensor = call.type == c10d::OpType::SEND ? call.in : call.out;
    if (call.timeout == Milliseconds(0))
        call.timeout = timeout();
    call.timeout = extended(call.timeout, *open_);
    call.what += " of process group " + name_;
    std::shared_ptr<View> ranks = view();
    tryst_op_params params = ranks->params(deadline_of(call.timeout));
    params.subgroup = nullptr;
    return launch(
        *ranks, std::move(call), number_,
        [&](const tryst_op_params *with, tryst_op **op_p) {
            return submit(&tensor, with, op_p);
        },
        params);
}

static at::Tensor &only(std::vector<at::Tensor> &tensors, const char *what)
{
    TORCH_CHECK(tensors.size() == 1, "tryst cannot ", what, " ", tensors.size(),
                " tensors at once: give one tensor for each rank");
    tensor_require(tensors[0], what);
    return tensors[0];
}

/* True if the tensors, one or more, may travel as one flat tensor. */
static bool is_one_dtype(const std::vector<at::Tensor> &tensors)
{
    for (const at::Tensor &tensor : tensors)
        if (tensor.scalar_type() != tensors[0].scalar_type())
            return false;
    return !tensors.empty();
}

/* Return what copies a result back, if there is something to copy. */
static std::function<void()> settle_of(const Output &output)
{
    if (!output.is_copy())
        return nullptr;
    return [output] { output.settle(); };
}

static std::function<void()> settle_of(const Blocks &blocks)
{
    return [blocks] { blocks.settle(); };
}

/* Return the root of a collective. A call of c10d may give any number. */
static int root_of(int64_t root, int size, const char *what)
{
    TORCH_CHECK(root >= 0 && root < size, "tryst cannot ", what, ": the root ", root,
                " is not a rank of the process group (0 to ", size - 1, ")");
    return static_cast<int>(root);
}

/* --- reductions --------------------------------------------------------------------- */

static tryst_reduce_op reduction_of(const c10d::ReduceOp &op)
{
    switch (op.op_) {
    case c10d::ReduceOp::SUM: return TRYST_REDUCE_SUM;
    case c10d::ReduceOp::AVG: return TRYST_REDUCE_AVERAGE;
    case c10d::ReduceOp::PRODUCT: return TRYST_REDUCE_PRODUCT;
    case c10d::ReduceOp::MIN: return TRYST_REDUCE_MIN;
    case c10d::ReduceOp::MAX: return TRYST_REDUCE_MAX;
    case c10d::ReduceOp::BAND: return TRYST_REDUCE_AND;
    case c10d::ReduceOp::BOR: return TRYST_REDUCE_OR;
    case c10d::ReduceOp::BXOR: return TRYST_REDUCE_XOR;
    case c10d::ReduceOp::PREMUL_SUM: return TRYST_REDUCE_PREMULTIPLIED_SUM;
    default: TORCH_CHECK(false, "tryst has no reduction ", int(op.op_));
    }
}

/* Return this rank's factor of PREMUL_SUM; 0, the library's default, for others. */
static double factor_of(const c10d::ReduceOp &op)
{
    if (op.op_ != c10d::ReduceOp::PREMUL_SUM)
        return 0;
    auto *factor = dynamic_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK(factor, "tryst cannot reduce with PREMUL_SUM: it has no factor; make it "
                        "with torch.distributed._make_nccl_premul_sum");
    double value = factor->tensor_factor.defined() ? factor->tensor_factor.item<double>()
                                                   : factor->double_factor;
    TORCH_CHECK(value != 0, "tryst cannot reduce with PREMUL_SUM and the factor 0: zero "
                            "the tensor and use SUM");
    return value;
}

/* An all-reduce (root -1) or a reduce. A `call` with outputs has `tensor` as their flat
 * form, and copies the result itself. */
Backend::WorkPtr Backend::reduce_one(Call call, at::Tensor &tensor,
                                     const c10d::ReduceOp &op, int root)
{
    tensor_require(tensor, call.what.c_str());
    tryst_reduce_op reduce = reduction_of(op);
    Output output(tensor);
    call.in = call.out = tensor_to_reduce(output.place, &reduce);
    if (call.outputs.empty()) {
        call.inputs = {output.place};
        call.outputs = {tensor};
    }
    if (!call.settle && (root < 0 || root == rank_))
        call.settle = settle_of(output);
    return collective(
        std::move(call),
        [&](const Start &at) {
            if (root < 0)
                return tryst_allreduce(at.step, at.name, nullptr, at.out, reduce,
                                       at.params, at.op_p);
            return tryst_reduce(at.step, at.name, at.in, at.out, reduce, root, at.params,
                                at.op_p);
        },
        factor_of(op));
}

Backend::WorkPtr Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    if (tensors.size() == 1 && tensors[0].layout() == at::kSparse)
        return allreduce_sparse(tensors[0], opts);
    Call call(c10d::OpType::ALLREDUCE, "tryst:all_reduce", opts.timeout);
    return reduce_one(std::move(call), only(tensors, "all_reduce"), opts.reduceOp, -1);
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors &tensors,
                                              const c10d::AllreduceCoalescedOptions &opts)
{
    std::vector<WorkPtr> works;
    if (is_one_dtype(tensors)) {
        Blocks blocks = Blocks::joined(tensors, "all_reduce");
        Call call(c10d::OpType::ALLREDUCE_COALESCED, "tryst:all_reduce", opts.timeout);
        call.inputs = tensors;
        call.outputs = tensors;
        call.settle = settle_of(blocks);
        return reduce_one(std::move(call), blocks.flat, opts.reduceOp, -1);
    }
    for (at::Tensor &tensor : tensors) {
        Tensors one = {tensor};
        works.push_back(allreduce(one, opts));
    }
    return c10::make_intrusive<JoinedWork>(open_, std::move(works));
}

Backend::WorkPtr Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
    Call call(c10d::OpType::REDUCE, "tryst:reduce", opts.timeout);
    return reduce_one(std::move(call), only(tensors, "reduce"), opts.reduceOp,
                      root_of(opts.rootRank, size_, "reduce"));
}

Backend::WorkPtr Backend::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                         const c10d::ReduceScatterOptions &opts)
{
    TORCH_CHECK(inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_,
                "tryst cannot reduce_scatter: give one tensor for each of the ", size_,
                " ranks");
    Output output(only(outputs, "reduce_scatter"));
    Blocks blocks = Blocks::joined(inputs[0], "reduce_scatter");
    tryst_reduce_op reduce = reduction_of(opts.reduceOp), same = reduce;
    Call call(c10d::OpType::REDUCE_SCATTER, "tryst:reduce_scatter", opts.timeout);
    call.in = tensor_to_reduce(blocks.flat, &reduce);
    call.out = tensor_to_reduce(output.place, &same);
    call.inputs = {blocks.flat};
    call.outputs = {output.tensor};
    call.settle = settle_of(output);
    return collective(
        std::move(call),
        [&](const Start &at) {
            return tryst_reduce_scatterv(at.step, at.name, at.in, blocks.counts.data(),
                                         nullptr, at.out, reduce, at.params, at.op_p);
        },
        factor_of(opts.reduceOp));
}

Backend::WorkPtr Backend::reduce_scatter_one(at::Tensor &output, at::Tensor &input,
                                             const c10d::ReduceOp &op,
                                             Milliseconds timeout)
{
    tensor_require(output, "reduce_scatter_tensor");
    tensor_require(input, "reduce_scatter_tensor");
    Output result(output);
    at::Tensor flat = input.contiguous();
    tryst_reduce_op reduce = reduction_of(op), same = reduce;
    Call call(c10d::OpType::_REDUCE_SCATTER_BASE, "tryst:reduce_scatter_tensor", timeout);
    call.in = tensor_to_reduce(flat, &reduce);
    call.out = tensor_to_reduce(result.place, &same);
    call.inputs = {flat};
    call.outputs = {output};
    call.settle = settle_of(result);
    return collective(
        std::move(call),
        [&](const Start &at) {
            return tryst_reduce_scatter(at.step, at.name, at.in, at.out, reduce,
                                        at.params, at.op_p);
        },
        factor_of(op));
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                               const c10d::ReduceScatterOptions &opts)
{
    return reduce_scatter_one(output, input, opts.reduceOp, opts.timeout);
}

static void require_pairs(const std::vector<at::Tensor> &outputs,
                          const std::vector<at::Tensor> &inputs)
{
    TORCH_CHECK(outputs.size() == inputs.size(), "tryst cannot coalesce ", outputs.size(),
                " outputs with ", inputs.size(), " inputs: give pairs");
}

Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(
    Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &opts)
{
    require_pairs(outputs, inputs);
    std::vector<WorkPtr> works;
    for (size_t i = 0; i < outputs.size(); i++)
        works.push_back(
            reduce_scatter_one(outputs[i], inputs[i], opts.reduceOp, opts.timeout));
    return c10::make_intrusive<JoinedWork>(open_, std::move(works));
}

/* --- copies ------------------------------------------------------------------------- */

Backend::WorkPtr Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
    Output output(only(tensors, "broadcast"));
    int root = root_of(opts.rootRank, size_, "broadcast");
    Call call(c10d::OpType::BROADCAST, "tryst:broadcast", opts.timeout);
    call.out = tensor_to_move(output.place);
    call.inputs = {output.place};
    call.outputs = {output.tensor};
    call.settle = settle_of(output);
    return collective(std::move(call), [&](const Start &at) {
        return tryst_broadcast(at.step, at.name, at.out, root, at.params, at.op_p);
    });
}

Backend::WorkPtr Backend::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                                    const c10d::AllgatherOptions &opts)
{
    TORCH_CHECK(outputs.size() == 1 && static_cast<int>(outputs[0].size()) == size_,
                "tryst cannot all_gather: give one tensor for each of the ", size_,
                " ranks");
    at::Tensor input = only(inputs, "all_gather").contiguous();
    Blocks blocks = Blocks::room(outputs[0], "all_gather");
    Call call(c10d::OpType::ALLGATHER, "tryst:all_gather", opts.timeout);
    call.in = tensor_to_move(input);
    call.out = tensor_to_move(blocks.flat);
    call.inputs = {input};
    call.outputs = outputs[0];
    call.settle = settle_of(blocks);
    return collective(std::move(call), [&](const Start &at) {
        return tryst_allgatherv(at.step, at.name, at.in, at.out, blocks.counts.data(),
                                nullptr, at.params, at.op_p);
    });
}

/* Return the outputs of all ranks as one list: the ranks' lists, in the order of
 * ranks. */
static std::vector<at::Tensor> row(const std::vector<std::vector<at::Tensor>> &lists,
                                   size_t length)
{
    std::vector<at::Tensor> all;
    for (const std::vector<at::Tensor> &list : lists) {
        TORCH_CHECK(list.size() == length,
                    "tryst cannot all_gather_coalesced: a list of ", list.size(),
                    " outputs for ", length, " inputs");
        all.insert(all.end(), list.begin(), list.end());
    }
    return all;
}

Backend::WorkPtr Backend::allgather_coalesced(std::vector<Tensors> &outputs,
                                              Tensors &inputs,
                                              const c10d::AllgatherOptions &opts)
{
    TORCH_CHECK(static_cast<int>(outputs.size()) == size_,
                "tryst cannot all_gather_coalesced: give one list for each of the ",
                size_, " ranks");
    Tensors all = row(outputs, inputs.size());
    if (!is_one_dtype(all))
        return allgather_each(outputs, inputs, opts);
    Blocks from = Blocks::joined(inputs, "all_gather_coalesced");
    Blocks to = Blocks::room(all, "all_gather_coalesced");
    Call call(c10d::OpType::ALLGATHER_COALESCED, "tryst:all_gather", opts.timeout);
    call.in = tensor_to_move(from.flat);
    call.out = tensor_to_move(to.flat);
    call.what = "all_gather_coalesced";
    call.inputs = inputs;
    call.outputs = all;
    call.settle = [from, to] { to.settle(); };
    return collective(std::move(call), [&](const Start &at) {
        return tryst_allgather(at.step, at.name, at.in, at.out, at.params, at.op_p);
    });
}

/* Tensors of several dtypes are gathered one by one. */
Backend::WorkPtr Backend::allgather_each(std::vector<Tensors> &outputs, Tensors &inputs,
                                         const c10d::AllgatherOptions &opts)
{
    std::vector<WorkPtr> works;
    for (size_t i = 0; i < inputs.size(); i++) {
        Tensors from = {inputs[i]};
        std::vector<Tensors> to(1);
        for (Tensors &list : outputs)
            to[0].push_back(list[i]);
        works.push_back(allgather(to, from, opts));
    }
    return c10::make_intrusive<JoinedWork>(open_, std::move(works));
}

Backend::WorkPtr Backend::allgather_one(at::Tensor &output, at::Tensor &input,
                                        Milliseconds timeout)
{
    tensor_require(output, "all_gather_into_tensor");
    tensor_require(input, "all_gather_into_tensor");
    Output result(output);
    at::Tensor flat = input.contiguous();
    Call call(c10d::OpType::_ALLGATHER_BASE, "tryst:all_gather_into_tensor", timeout);
    call.in = tensor_to_move(flat);
    call.out = tensor_to_move(result.place);
    call.inputs = {flat};
    call.outputs = {output};
    call.settle = settle_of(result);
    return collective(std::move(call), [&](const Start &at) {
        return tryst_allgather(at.step, at.name, at.in, at.out, at.params, at.op_p);
    });
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                          const c10d::AllgatherOptions &opts)
{
    return allgather_one(output, input, opts.timeout);
}

Backend::WorkPtr Backend::allgather_into_tensor_coalesced(
    Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts)
{
    require_pairs(outputs, inputs);
    std::vector<WorkPtr> works;
    for (size_t i = 0; i < outputs.size(); i++)
        works.push_back(allgather_one(outputs[i], inputs[i], opts.timeout));
    return c10::make_intrusive<JoinedWork>(open_, std::move(works));
}

Backend::WorkPtr Backend::alltoall(Tensors &outputs, Tensors &inputs,
                                   const c10d::AllToAllOptions &opts)
{
    TORCH_CHECK(
        static_cast<int>(outputs.size()) == size_ &&
            static_cast<int>(inputs.size()) == size_,
        "tryst cannot all_to_all: give two lists with one tensor for each of the ", size_,
        " ranks");
    Blocks from = Blocks::joined(inputs, "all_to_all");
    Blocks to = Blocks::room(outputs, "all_to_all");
    Call call(c10d::OpType::ALLTOALL, "tryst:all_to_all", opts.timeout);
    call.in = tensor_to_move(from.flat);
    call.out = tensor_to_move(to.flat);
    call.inputs = {from.flat};
    call.outputs = outputs;
    call.settle = settle_of(to);
    return collective(std::move(call), [&](const Start &at) {
        return tryst_alltoallv(at.step, at.name, at.in, from.counts.data(), nullptr,
                               at.out, to.counts.data(), nullptr, at.params, at.op_p);
    });
}

Backend::WorkPtr Backend::alltoall_base(at::Tensor &output, at::Tensor &input,
                                        std::vector<int64_t> &output_splits,
                                        std::vector<int64_t> &input_splits,
                                        const c10d::AllToAllOptions &opts)
{
    const char *what = "all_to_all_single";
    tensor_require(output, what);
    tensor_require(input, what);
    Output result(output);
    at::Tensor flat = input.contiguous();
    std::vector<uint64_t> out_counts = tensor_split(output, output_splits, size_, what);
    std::vector<uint64_t> in_counts = tensor_split(input, input_splits, size_, what);
    Call call(c10d::OpType::ALLTOALL_BASE, "tryst:all_to_all_single", opts.timeout);
    call.in = tensor_to_move(flat);
    call.out = tensor_to_move(result.place);
    call.inputs = {flat};
    call.outputs = {output};
    call.settle = settle_of(result);
    return collective(std::move(call), [&](const Start &at) {
        return tryst_alltoallv(at.step, at.name, at.in, in_counts.data(), nullptr, at.out,
                               out_counts.data(), nullptr, at.params, at.op_p);
    });
}

Backend::WorkPtr Backend::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                                 const c10d::GatherOptions &opts)
{
    int root = root_of(opts.rootRank, size_, "gather");
    bool is_root = root == rank_;
    TORCH_CHECK(!is_root ||
                    (outputs.size() == 1 && static_cast<int>(outputs[0].size()) == size_),
                "tryst cannot gather: the root gives one tensor for each of the ", size_,
                " ranks");
    at::Tensor input = only(inputs, "gather").contiguous();
    Blocks blocks;
    Call call(c10d::OpType::GATHER, "tryst:gather", opts.timeout);
    call.in = tensor_to_move(input);
    call.inputs = {input};
    if (is_root) {
        blocks = Blocks::room(outputs[0], "gather");
        call.out = tensor_to_move(blocks.flat);
        call.outputs = outputs[0];
        call.settle = settle_of(blocks);
    }
    return collective(std::move(call), [&](const Start &at) {
        return tryst_gatherv(at.step, at.name, at.in, is_root ? at.out : nullptr,
                             blocks.counts.data(), nullptr, root, at.params, at.op_p);
    });
}

Backend::WorkPtr Backend::gather_into_tensor(at::Tensor &output, at::Tensor &input,
                                             const c10d::GatherOptions &opts)
{
    const char *what = "gather_into_tensor";
    int root = root_of(opts.rootRank, size_, what);
    bool is_root = root == rank_;
    tensor_require(input, what);
    at::Tensor flat = input.contiguous();
    Call call(c10d::OpType::GATHER, "tryst:gather_into_tensor", opts.timeout);
    call.in = tensor_to_move(flat);
    call.inputs = {flat};
    if (is_root) {
        tensor_require(output, what);
        Output result(output);
        call.out = tensor_to_move(result.place);
        call.outputs = {output};
        call.settle = settle_of(result);
    }
    return collective(std::move(call), [&](const Start &at) {
        return tryst_gather(at.step, at.name, at.in, is_root ? at.out : nullptr, root,
                            at.params, at.op_p);
    });
}

Backend::WorkPtr Backend::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                  const c10d::ScatterOptions &opts)
{
    int root = root_of(opts.rootRank, size_, "scatter");
    bool is_root = root == rank_;
    TORCH_CHECK(!is_root ||
                    (inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_),
                "tryst cannot scatter: the root gives one tensor for each of the ", size_,
                " ranks");
    Output output(only(outputs, "scatter"));
    Blocks blocks;
    Call call(c10d::OpType::SCATTER, "tryst:scatter", opts.timeout);
    call.out = tensor_to_move(output.place);
    call.inputs = {output.place};
    call.outputs = {output.tensor};
    call.settle = settle_of(output);
    if (is_root) {
        blocks = Blocks::joined(inputs[0], "scatter");
        call.in = tensor_to_move(blocks.flat);
        call.inputs.push_back(blocks.flat);
    }
    return collective(std::move(call), [&](const Start &at) {
        return tryst_scatterv(at.step, at.name, is_root ? at.in : nullptr,
                              blocks.counts.data(), nullptr, at.out, root, at.params,
                              at.op_p);
    });
}

/* Collectives of this process group that were called before finish before the barrier
 * does, as over gloo and NCCL: programs rely on this. */
Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions &opts)
{
    std::vector<WorkPtr> works = open_->collectives();
    Call call(c10d::OpType::BARRIER, "tryst:barrier", opts.timeout);
    WorkPtr own = collective(std::move(call), [](const Start &at) {
        return tryst_barrier(at.step, at.name, at.params, at.op_p);
    });
    if (works.empty())
        return own;
    works.push_back(std::move(own));
    return c10::make_intrusive<JoinedWork>(open_, std::move(works));
}

/* --- messages ----------------------------------------------------------------------- */

Backend::WorkPtr Backend::send(Tensors &tensors, int dst, int tag)
{
    return send_one(only(tensors, "send"), dst, tag, {});
}

Backend::WorkPtr Backend::send_one(at::Tensor &tensor, int dst, int tag,
                                   Milliseconds timeout)
{
    at::Tensor input = tensor.contiguous();
    std::shared_ptr<View> ranks = view();
    View::Key key = ranks->key(rank_, dst, tag);
    Call call(c10d::OpType::SEND, "tryst:send", timeout);
    call.what = "send to rank " + std::to_string(dst);
    call.in = tensor_to_move(input);
    call.inputs = {input};
    call.peer = dst;
    return message(std::move(call), [&](const tryst_tensor *in,
                                        const tryst_op_params *params, tryst_op **op_p) {
        return tryst_send_key(ranks->step(), key.get(), in, params, op_p);
    });
}

Backend::WorkPtr Backend::recv(Tensors &tensors, int src, int tag)
{
    return recv_one(only(tensors, "recv"), src, tag, {});
}

Backend::WorkPtr Backend::recv_one(at::Tensor &tensor, int src, int tag,
                                   Milliseconds timeout)
{
    Output output(tensor);
    std::shared_ptr<View> ranks = view();
    View::Key key = ranks->key(src, rank_, tag);
    Call call(c10d::OpType::RECV, "tryst:recv", timeout);
    call.what = "recv from rank " + std::to_string(src);
    call.out = tensor_to_move(output.place);
    call.inputs = {output.place};
    call.outputs = {output.tensor};
    call.settle = settle_of(output);
    call.peer = src;
    return message(std::move(call), [&](const tryst_tensor *out,
                                        const tryst_op_params *params, tryst_op **op_p) {
        return tryst_recv_key(ranks->step(), key.get(), out, params, op_p);
    });
}

Backend::WorkPtr Backend::recvAnysource(Tensors &, int)
{
    TORCH_CHECK(false,
                "tryst cannot receive from any source: a message is matched by its "
                "key, which names the sender; give src");
}

/* --- the rest ----------------------------------------------------------------------- */

/* An exception between the two calls leaves works behind; they end without the lock. */
void Backend::startCoalescing()
{
    std::vector<WorkPtr> left;
    std::lock_guard<std::mutex> lock(mutex_);
    is_coalescing_ = true;
    left.swap(coalesced_);
}

Backend::WorkPtr Backend::endCoalescing()
{
    std::vector<WorkPtr> works;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        is_coalescing_ = false;
        works.swap(coalesced_);
    }
    return c10::make_intrusive<JoinedWork>(open_, std::move(works));
}

void Backend::setSequenceNumberForGroup()
{
    /* numbers begin at 1 on every rank: there is nothing to agree on */
}

uint64_t Backend::getSequenceNumberForGroup()
{
    return number_;
}

void Backend::abort()
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        closed_ = "was aborted";
    }
    OpenWorks::abort_hooks_start(open_);
    open_->cancel();
}

void Backend::shutdown()
{
    std::shared_ptr<View> last;
    StorePtr store;
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = "is shut down";
    last.swap(view_);
    store.swap(job_);
}

} // namespace tryst_torch
