/* SPDX-License-Identifier: Apache-2.0 */
/* The all-reduce of sparse tensors, as gradients of embeddings are: indices and values of
 * all ranks are gathered as bytes, and each rank sums them.
 *
 * How many elements a rank has is gathered first, and the call blocks for that; the bytes
 * then travel as any other operation. */
#include "backend.h"

#include "tensors.h"

#include <c10/core/GradMode.h>
#include <numeric>

namespace tryst_torch
{

namespace
{

/* Elements of a coalesced sparse tensor as bytes: first all indices, then all values. */
struct Elements {
    at::Tensor like; /* sparse, with the sizes and the dtype */
    int64_t index_bytes;
    int64_t value_bytes; /* of one element: its dense part */

    explicit Elements(const at::Tensor &tensor)
        : like(tensor), index_bytes(tensor.sparse_dim() * 8),
          value_bytes(tensor.itemsize())
    {
        for (int64_t dim = tensor.sparse_dim(); dim < tensor.dim(); dim++)
            value_bytes *= tensor.size(dim);
    }

    int64_t row_bytes() const
    {
        return index_bytes + value_bytes;
    }

    at::Tensor pack() const
    {
        at::Tensor indices = like.indices().reshape({-1}).view(at::kByte);
        at::Tensor values = like.values().reshape({-1}).view(at::kByte);
        return at::cat({indices, values});
    }

    /* Return `count` elements as a sparse tensor. The copies begin at offset 0, as a view
     * with another dtype needs. */
    at::Tensor unpack(const at::Tensor &bytes, int64_t count) const
    {
        at::Tensor indices = bytes.narrow(0, 0, count * index_bytes).clone();
        at::Tensor values =
            bytes.narrow(0, count * index_bytes, count * value_bytes).clone();
        std::vector<int64_t> sizes = like.sizes().vec();
        sizes.erase(sizes.begin(), sizes.begin() + like.sparse_dim());
        sizes.insert(sizes.begin(), count);
        return at::sparse_coo_tensor(
            indices.view(at::kLong).view({like.sparse_dim(), count}),
            values.view(like.scalar_type()).view(sizes), like.sizes());
    }
};

/* Copy the sum of the elements of all ranks to `tensor`. */
void sum_all(const Elements &elements, const at::Tensor &bytes,
             const std::vector<int64_t> &counts, const at::Tensor &tensor)
{
    c10::NoGradGuard no_grad;
    at::Tensor sum;
    int64_t offset = 0;
    for (int64_t count : counts) {
        int64_t length = count * elements.row_bytes();
        at::Tensor part = elements.unpack(bytes.narrow(0, offset, length), count);
        sum = sum.defined() ? sum + part : part;
        offset += length;
    }
    tensor_copy(tensor, sum.coalesce());
}

} // namespace

/* Return the number of elements of each rank. Blocks. */
std::vector<int64_t> Backend::sparse_counts(int64_t count, int64_t row_bytes,
                                            Milliseconds timeout)
{
    at::Tensor mine = at::tensor({count, row_bytes}, at::kLong);
    at::Tensor all = at::empty({size_, 2}, at::kLong);
    allgather_one(all, mine, timeout)->wait(kNoTimeout);
    std::vector<int64_t> counts;
    for (int rank = 0; rank < size_; rank++) {
        TORCH_CHECK(all[rank][1].item<int64_t>() == row_bytes,
                    "tryst cannot all_reduce a sparse tensor: rank ", rank,
                    " gives one of another shape or dtype");
        counts.push_back(all[rank][0].item<int64_t>());
    }
    return counts;
}

Backend::WorkPtr Backend::allreduce_sparse(at::Tensor &tensor,
                                           const c10d::AllreduceOptions &opts)
{
    TORCH_CHECK(tensor.device().is_cpu() && opts.reduceOp.op_ == c10d::ReduceOp::SUM,
                "tryst cannot all_reduce this sparse tensor: it must be on the CPU, and "
                "the reduction SUM");
    c10::NoGradGuard no_grad;
    Elements elements(tensor.detach().coalesce());
    std::vector<int64_t> counts =
        sparse_counts(elements.like._nnz(), elements.row_bytes(), opts.timeout);
    std::vector<uint64_t> lengths;
    for (int64_t count : counts)
        lengths.push_back(static_cast<uint64_t>(count * elements.row_bytes()));
    at::Tensor mine = elements.pack();
    int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t(0));
    at::Tensor all = at::empty({sum * elements.row_bytes()}, at::kByte);
    Call call(c10d::OpType::ALLREDUCE, "tryst:all_reduce", opts.timeout);
    call.in = tensor_to_move(mine);
    call.out = tensor_to_move(all);
    call.what = "all_reduce_sparse";
    call.inputs = {mine};
    call.outputs = {tensor};
    call.settle = [elements, all, counts, tensor] {
        sum_all(elements, all, counts, tensor);
    };
    return collective(std::move(call), [&](const Start &at) {
        return tryst_allgatherv(at.step, at.name, at.in, at.out, lengths.data(), nullptr,
                                at.params, at.op_p);
    });
}

} // namespace tryst_torch
