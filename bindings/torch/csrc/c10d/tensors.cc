/* SPDX-License-Identifier: Apache-2.0 */
/* The mapping of tensors: dtypes by one table, memory as it is, copies where a tensor is
 * not contiguous or where a list of tensors is one tensor for the library. Copies of
 * tensors on a device are queued in the calling thread's current stream. */
#include "tensors.h"

#include <atomic>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <numeric>

namespace tryst_torch
{

/* The library's dtype; TRYST_DTYPE_INVALID where it has none. */
static tryst_dtype dtype_of(at::ScalarType dtype)
{
    switch (dtype) {
    case at::kByte: return TRYST_DTYPE_U8;
    case at::kChar: return TRYST_DTYPE_I8;
    case at::kShort: return TRYST_DTYPE_I16;
    case at::kInt: return TRYST_DTYPE_I32;
    case at::kLong: return TRYST_DTYPE_I64;
    case at::kHalf: return TRYST_DTYPE_F16;
    case at::kBFloat16: return TRYST_DTYPE_BF16;
    case at::kFloat: return TRYST_DTYPE_F32;
    case at::kDouble: return TRYST_DTYPE_F64;
    default: return TRYST_DTYPE_INVALID;
    }
}

static std::atomic<bool> takes_private_device{false};

void private_device_take()
{
    takes_private_device = true;
}

static bool is_on_cuda(c10::Device device)
{
    return device.is_cuda() || (device.is_privateuseone() && takes_private_device);
}

void tensor_require(const at::Tensor &tensor, const char *what)
{
    c10::Device device = tensor.device();
    TORCH_CHECK(device.is_cpu() || is_on_cuda(device), "tryst cannot ", what,
                " a tensor on ", device,
                ": it takes tensors on the CPU and on CUDA devices; move the tensor with "
                ".cpu()");
    TORCH_CHECK(device.is_cpu() || TRYST_TORCH_HAS_DEVICES, "tryst cannot ", what,
                " a tensor on ", device,
                " with PyTorch " TORCH_VERSION
                ": it needs the events of PyTorch 2.4; move the tensor "
                "with .cpu()");
    TORCH_CHECK(tensor.layout() == at::kStrided, "tryst cannot ", what, " a tensor of ",
                "layout ", tensor.layout(), ": convert it with .to_dense()");
}

static tryst_tensor view_of(const at::Tensor &tensor, tryst_dtype dtype, uint64_t scale)
{
    tryst_tensor view = {};
    view.struct_size = sizeof view;
    view.data = tensor.data_ptr();
    view.count = static_cast<uint64_t>(tensor.numel()) * scale;
    view.dtype = dtype;
    if (is_on_cuda(tensor.device())) {
        view.memory = TRYST_MEMORY_CUDA;
        view.device = tensor.device().index();
    }
    return view;
}

uint64_t tensor_scale(at::ScalarType dtype)
{
    return dtype_of(dtype) ? 1 : c10::elementSize(dtype);
}

tryst_tensor tensor_to_move(const at::Tensor &tensor)
{
    tryst_dtype dtype = dtype_of(tensor.scalar_type());
    return view_of(tensor, dtype ? dtype : TRYST_DTYPE_U8,
                   tensor_scale(tensor.scalar_type()));
}

/* Return the reduction of bytes, each 0 or 1, that is `reduce` of bool: a sum or maximum
 * is true where any element is. TRYST_REDUCE_INVALID where there is none. */
static tryst_reduce_op bool_reduction(tryst_reduce_op reduce)
{
    switch (reduce) {
    case TRYST_REDUCE_SUM:
    case TRYST_REDUCE_MAX:
    case TRYST_REDUCE_OR: return TRYST_REDUCE_OR;
    case TRYST_REDUCE_PRODUCT:
    case TRYST_REDUCE_MIN:
    case TRYST_REDUCE_AND: return TRYST_REDUCE_AND;
    case TRYST_REDUCE_XOR: return TRYST_REDUCE_XOR;
    default: return TRYST_REDUCE_INVALID;
    }
}

tryst_tensor tensor_to_reduce(const at::Tensor &tensor, tryst_reduce_op *reduce)
{
    tryst_dtype dtype = dtype_of(tensor.scalar_type());
    if (tensor.scalar_type() == at::kBool && bool_reduction(*reduce)) {
        *reduce = bool_reduction(*reduce);
        dtype = TRYST_DTYPE_U8;
    }
    TORCH_CHECK(dtype, "tryst cannot reduce ", tensor.scalar_type(),
                " with this operation: bool has SUM, PRODUCT, MIN, MAX and the bitwise "
                "ones; other dtypes are integers of at most 64 bits, float16, bfloat16, "
                "float32 and float64 (torch.view_as_real for complex)");
    return view_of(tensor, dtype, 1);
}

Output::Output(const at::Tensor &written) : tensor(written), place(written.contiguous())
{
}

bool Output::is_copy() const
{
    return !place.is_same(tensor);
}

/* Keep the memory of `tensor` from other uses until the current stream has done what is
 * queued so far: the tensor may be of another stream, and dropped before. */
static void stream_use(const at::Tensor &tensor)
{
    c10::Device device = tensor.device();
    if (!is_on_cuda(device))
        return;
    c10::impl::VirtualGuardImpl driver(device.type());
    driver.recordDataPtrOnStream(tensor.storage().data_ptr(), driver.getStream(device));
}

void tensor_copy(const at::Tensor &to, const at::Tensor &from)
{
    c10::InferenceMode inference(to.is_inference() || c10::InferenceMode::is_enabled());
    c10::NoGradGuard no_grad;
    at::Tensor(to).copy_(from);
    stream_use(from);
    stream_use(to);
}

void Output::settle() const
{
    tensor_copy(tensor, place);
}

static Blocks blocks_of(const std::vector<at::Tensor> &tensors, const char *what)
{
    Blocks blocks;
    blocks.tensors = tensors;
    for (const at::Tensor &tensor : tensors) {
        tensor_require(tensor, what);
        TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(), "tryst cannot ",
                    what, " tensors of several dtypes in one list");
        TORCH_CHECK(tensor.device() == tensors[0].device(), "tryst cannot ", what,
                    " tensors of several devices in one list");
        blocks.counts.push_back(static_cast<uint64_t>(tensor.numel()) *
                                tensor_scale(tensor.scalar_type()));
    }
    return blocks;
}

Blocks Blocks::joined(const std::vector<at::Tensor> &tensors, const char *what)
{
    c10::NoGradGuard no_grad;
    Blocks blocks = blocks_of(tensors, what);
    std::vector<at::Tensor> flats;
    for (const at::Tensor &tensor : tensors)
        flats.push_back(tensor.reshape({-1}));
    blocks.flat = at::cat(flats);
    return blocks;
}

Blocks Blocks::room(const std::vector<at::Tensor> &tensors, const char *what)
{
    Blocks blocks = blocks_of(tensors, what);
    int64_t count = 0;
    for (const at::Tensor &tensor : tensors)
        count += tensor.numel();
    blocks.flat = at::empty({count}, tensors[0].options());
    return blocks;
}

void Blocks::settle() const
{
    c10::NoGradGuard no_grad;
    int64_t offset = 0;
    for (const at::Tensor &tensor : tensors) {
        at::Tensor block = flat.narrow(0, offset, tensor.numel());
        tensor_copy(tensor, block.view(tensor.sizes()));
        offset += tensor.numel();
    }
}

static std::vector<uint64_t> equal_split(const at::Tensor &tensor, int ranks,
                                         const char *what)
{
    TORCH_CHECK(tensor.numel() % ranks == 0, "tryst cannot ", what, " a tensor of ",
                tensor.numel(), " elements in ", ranks,
                " equal blocks: give split sizes, or another tensor");
    uint64_t count = static_cast<uint64_t>(tensor.numel() / ranks);
    return std::vector<uint64_t>(ranks, count * tensor_scale(tensor.scalar_type()));
}

std::vector<uint64_t> tensor_split(const at::Tensor &tensor,
                                   const std::vector<int64_t> &splits, int ranks,
                                   const char *what)
{
    if (splits.empty())
        return equal_split(tensor, ranks, what);
    int64_t rows = tensor.dim() ? tensor.size(0) : 1;
    int64_t sum = std::accumulate(splits.begin(), splits.end(), int64_t(0));
    TORCH_CHECK(static_cast<int>(splits.size()) == ranks && sum == rows, "tryst cannot ",
                what, ": ", splits.size(), " split sizes with sum ", sum, " for ", ranks,
                " ranks and ", rows, " rows; give one size for each rank");
    uint64_t row = rows ? static_cast<uint64_t>(tensor.numel() / rows) : 0;
    std::vector<uint64_t> counts;
    for (int64_t split : splits)
        counts.push_back(static_cast<uint64_t>(split) * row *
                         tensor_scale(tensor.scalar_type()));
    return counts;
}

} // namespace tryst_torch
