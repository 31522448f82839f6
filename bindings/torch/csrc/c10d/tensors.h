/* SPDX-License-Identifier: Apache-2.0 */
/** @file tensors.h
 *  Tensors of PyTorch as the library gets them: contiguous memory with a dtype, of the
 *  host or of a CUDA device. Includes ATen alone, not c10d.
 *
 *  A collective that only moves elements takes every dtype; those that the library does
 *  not have (bool, complex, 8-bit floating point) move as bytes. Reductions need the
 *  library's dtypes; bool is reduced bit by bit.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_C10D_TENSORS_H
#define TRYST_BINDINGS_TORCH_CSRC_C10D_TENSORS_H

#include <ATen/ATen.h>
#include <torch/version.h>
#include <tryst/tryst.h>
#include <vector>

/* c10::Event::eventId: PyTorch 2.4. */
#define TRYST_TORCH_HAS_DEVICES \
    (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4))

namespace tryst_torch
{

/** Take tensors of PyTorch's device type PrivateUse1, too, as memory of a CUDA device
 *  with events of the CUDA driver. For a backend of PyTorch that has its own
 *  allocator. */
void private_device_take();

/** Throw an error unless `tensor` is dense, and on the CPU or a CUDA device. `what` names
 *  the call. */
void tensor_require(const at::Tensor &tensor, const char *what);

/** Return the library's view of a contiguous tensor, to be moved. The memory stays the
 *  tensor's. */
tryst_tensor tensor_to_move(const at::Tensor &tensor);

/** Return the number of the library's elements in one element of this dtype: 1, or its
 *  bytes where elements move as bytes. */
uint64_t tensor_scale(at::ScalarType dtype);

/** Return the library's view of a contiguous tensor, to be reduced with `*reduce`, which
 *  changes for bool. Throws an error for a dtype that the reduction does not have. */
tryst_tensor tensor_to_reduce(const at::Tensor &tensor, tryst_reduce_op *reduce);

/** Copy `from` to `to`, in the current stream, until which both stay allocated. `to`
 *  may be an inference tensor, also outside of inference mode: there it is written as
 *  memory, like an output that needs no copy. No gradients. */
void tensor_copy(const at::Tensor &to, const at::Tensor &from);

/** A tensor that a collective writes: `place` is the tensor, or a contiguous copy of it,
 *  which settle() copies back. */
struct Output {
    explicit Output(const at::Tensor &written);
    bool is_copy() const;
    void settle() const;

    at::Tensor tensor;
    at::Tensor place;
};

/** Tensors that follow one another in one contiguous tensor, `flat`. */
struct Blocks {
    /** Copy `tensors` to a new flat tensor. All have one dtype and one device. */
    static Blocks joined(const std::vector<at::Tensor> &tensors, const char *what);
    /** Make a flat tensor with room for `tensors`, to be written to. */
    static Blocks room(const std::vector<at::Tensor> &tensors, const char *what);
    /** Copy the flat tensor to the tensors. */
    void settle() const;

    std::vector<at::Tensor> tensors;
    at::Tensor flat;
    std::vector<uint64_t> counts; /* the library's elements of each tensor */
};

/** Return the library's elements of each block of `tensor`, which has `ranks` blocks:
 *  `splits` rows of it, or equal blocks where `splits` is empty. Throws an error if the
 *  blocks are not the tensor. */
std::vector<uint64_t> tensor_split(const at::Tensor &tensor,
                                   const std::vector<int64_t> &splits, int ranks,
                                   const char *what);

} // namespace tryst_torch

#endif
