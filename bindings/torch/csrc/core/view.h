/* SPDX-License-Identifier: Apache-2.0 */
/** @file view.h
 *  A process group as Tryst has it: some ranks of a World, and the names of its
 *  operations.
 *
 *  A collective is named by its kind and its process group ("all_reduce of 3"); the
 *  library numbers the uses of a name, so the n-th all-reduce of a process group meets
 *  the n-th on the other ranks. A send is named by its process group and its tag, for
 *  each pair of ranks; the n-th send meets the n-th receive. So no order of calls between
 *  kinds, pairs and tags can hang.
 *
 *  Thread: any, all functions.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_VIEW_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_VIEW_H

#include "world.h"

#include <map>
#include <mutex>
#include <string>
#include <tryst/coll.h>
#include <tuple>
#include <vector>

namespace tryst_torch
{

class View
{
  public:
    /** View the ranks `members` of `world`, this one among them, in their order; empty:
     *  all. `name` is the same on all members, and differs from other views' names.
     *  Throws Refusal. */
    View(std::shared_ptr<World> world, std::string name, std::vector<int32_t> members);
    ~View();

    View(const View &) = delete;
    View &operator=(const View &) = delete;

    tryst_step *step() const
    {
        return world_->step();
    }

    /** Return the rank in the World of member `rank`. Throws Refusal. */
    int world_rank(int rank) const;

    /** Return the parameters of one operation: the view's members, the calling thread's
     *  priority, and a deadline (0: none). */
    tryst_op_params params(uint64_t deadline_ns) const;

    /** Return the name of a collective of this kind. */
    std::string coll_name(const std::string &kind) const;

    /** End all operations of the job on all ranks, also in other process groups. After
     *  the loss of a rank some ranks wait for others that have failed already, and would
     *  wait until the deadline. Never blocks. */
    void abort_job(tryst_status status, const std::string &reason) const;

    using Key = std::shared_ptr<tryst_key>;
    /** Return the key of messages with `tag` from one member to another. */
    Key key(int src_rank, int dst_rank, int tag);

  private:
    std::shared_ptr<World> world_;
    std::string name_;
    tryst_subgroup *subgroup_ = nullptr;
    std::mutex keys_mutex_; /* guards keys_ */
    std::map<std::tuple<int, int, int>, Key> keys_;
};

} // namespace tryst_torch

#endif
