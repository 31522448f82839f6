/* SPDX-License-Identifier: Apache-2.0 */
/** @file gather.h
 *  The all-gather of the bootstrap, over the store that c10d gives a process group.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_C10D_GATHER_H
#define TRYST_BINDINGS_TORCH_CSRC_C10D_GATHER_H

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tryst_torch
{

class StoreGather
{
  public:
    StoreGather(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                std::chrono::milliseconds timeout);

    /** Gather `bytes` bytes of each rank, by rank. Blocks until all ranks have called.
     *  Throws an error that names the first rank that did not come in time. */
    void operator()(const void *mine, void *all, size_t bytes);

  private:
    std::vector<uint8_t> collect(const std::string &round, size_t bytes);
    std::vector<uint8_t> take(const std::string &key, int rank, size_t bytes);

    c10::intrusive_ptr<c10d::Store> store_;
    int rank_;
    int size_;
    std::chrono::milliseconds timeout_;
    std::chrono::steady_clock::time_point end_;
    int round_ = 0;
};

} // namespace tryst_torch

#endif
