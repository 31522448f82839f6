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
    /** View all ranks of `world`, in a step of its own. `name` is the same on all of
     *  them, and differs from other views' names. Throws Refusal. */
    View(std::shared_ptr<World> world, const std::string &name);
    ~View();

    /** View some ranks of this view, in their order, in the same step; this process is
     *  `ranks[rank]`. `name` as above. Sends nothing. Throws Refusal. */
    std::shared_ptr<View> child(const std::string &name,
                                const std::vector<int32_t> &ranks, int rank) const;
    /** View them in a step of their own: this view's may have been aborted. All of them
     *  call this, and equally often. Throws Refusal. */
    std::shared_ptr<View> successor(const std::string &name,
                                    const std::vector<int32_t> &ranks) const;

    View(const View &) = delete;
    View &operator=(const View &) = delete;

    tryst_step *step() const
    {
        return step_;
    }
    const std::string &name() const
    {
        return name_;
    }
    const std::shared_ptr<World> &world() const
    {
        return world_;
    }
    const std::shared_ptr<Context> &context() const
    {
        return world_->context();
    }
    /** Return the ranks of the World, by rank of the view; empty: all. */
    const std::vector<int32_t> &members() const
    {
        return members_;
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
    /** Return why all operations of the job were ended, one sentence; "" where they were
     *  not. */
    std::string abort_reason() const;

    using Key = std::shared_ptr<tryst_key>;
    /** Return the key of messages with `tag` from one member to another. */
    Key key(int src_rank, int dst_rank, int tag);

  private:
    View(std::shared_ptr<World> world, const std::string &name,
         std::vector<int32_t> members, tryst_step *step);
    std::vector<int32_t> world_ranks(const std::vector<int32_t> &ranks) const;
    Key key_make(int src_rank, int dst_rank, const std::string &edge) const;

    std::shared_ptr<World> world_;
    std::string name_;
    std::vector<int32_t> members_;
    tryst_step *step_;
    tryst_subgroup *subgroup_ = nullptr;
    std::mutex keys_mutex_; /* guards keys_ */
    std::map<std::tuple<int, int, int>, Key> keys_;
};

} // namespace tryst_torch

#endif
