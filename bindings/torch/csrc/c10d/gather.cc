/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 collects the values of all ranks and publishes them as one, so a round takes
 * each rank a few requests, not one for each other rank.
 *
 * A round leaves no key behind: rank 0 deletes what it has read, and the rank that reads
 * the result last deletes that. A process group that opens again on the same store (a
 * restart by torchrun) finds nothing of the one before. */
#include "gather.h"

#include "work.h"

#include <algorithm>
#include <cstring>

namespace tryst_torch
{

/* A time beyond this overflows the clock. */
static const std::chrono::milliseconds wait_longest = std::chrono::hours(24 * 365 * 100);

StoreGather::StoreGather(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                         std::chrono::milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout),
      end_(std::chrono::steady_clock::now() + std::min(timeout, wait_longest))
{
}

/* Wait for the key of `rank` and read it. */
std::vector<uint8_t> StoreGather::take(const std::string &key, int rank, size_t bytes)
{
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end_ - std::chrono::steady_clock::now());
    try {
        store_->wait({key}, std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception &error) {
        throw Refusal("rank " + std::to_string(rank) + " of " + std::to_string(size_) +
                      " has not come within " + std::to_string(timeout_.count()) +
                      " ms (key " + key + " of the store): " + text_of(error));
    }
    std::vector<uint8_t> value = store_->get(key);
    if (value.size() != bytes)
        throw Refusal("rank " + std::to_string(rank) + " sent " +
                      std::to_string(value.size()) + " bytes where " +
                      std::to_string(bytes) + " are due (key " + key +
                      " of the store): load the same library on all ranks");
    return value;
}

std::vector<uint8_t> StoreGather::collect(const std::string &round, size_t bytes)
{
    std::vector<uint8_t> all;
    for (int rank = 0; rank < size_; rank++) {
        std::string key = round + std::to_string(rank);
        std::vector<uint8_t> value = take(key, rank, bytes);
        all.insert(all.end(), value.begin(), value.end());
        store_->deleteKey(key);
    }
    return all;
}

void StoreGather::operator()(const void *mine, void *all, size_t bytes)
{
    const uint8_t *from = static_cast<const uint8_t *>(mine);
    std::string round = "tryst/" + std::to_string(round_++) + "/";
    std::string result = round + "all";
    store_->set(round + std::to_string(rank_), std::vector<uint8_t>(from, from + bytes));
    if (rank_ == 0)
        store_->set(result, collect(round, bytes));
    std::vector<uint8_t> value = take(result, 0, bytes * size_);
    memcpy(all, value.data(), value.size());
    if (store_->add(round + "readers", 1) == size_) {
        store_->deleteKey(result);
        store_->deleteKey(round + "readers");
    }
}

} // namespace tryst_torch
