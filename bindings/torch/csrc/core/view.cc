/* SPDX-License-Identifier: Apache-2.0 */
/* Views of a World: a subgroup, with a hash of the process group's name as its epoch, and
 * prepared keys.
 *
 * Two views of the same ranks differ by their names, and so do the names of their
 * collectives. Prepared keys are kept, since a pipeline uses the same few in each step. A
 * program that makes a tag for each message gets them prepared anew. */
#include "view.h"

#include "urgency.h"

#include <algorithm>

namespace tryst_torch
{

/* Most keys that a view keeps, 1 to 2 KiB each. */
static const size_t keys_max = 4096;
/* Longest part of a process group's name that goes into names of operations. */
static const size_t name_max = 200;

/* FNV-1a, 64 bits (Fowler, Noll and Vo). */
static uint64_t hash(const std::string &text)
{
    uint64_t value = 14695981039346656037u;
    for (unsigned char byte : text)
        value = (value ^ byte) * 1099511628211u;
    return value;
}

/* Return a form of `name` that edges and names of collectives may contain: without ';',
 * and not too long. A name that changes gets its hash, so that two names stay two. */
static std::string plain(const std::string &name)
{
    std::string text = name.substr(0, name_max);
    std::replace(text.begin(), text.end(), ';', ',');
    return text == name ? text : text + "#" + std::to_string(hash(name));
}

View::View(std::shared_ptr<World> world, const std::string &name)
    : world_(std::move(world)), name_(plain(name)), step_(world_->step_open())
{
}

View::View(std::shared_ptr<World> world, const std::string &name,
           std::vector<int32_t> members, tryst_step *step)
    : world_(std::move(world)), name_(plain(name)), members_(std::move(members)),
      step_(step)
{
    tryst_subgroup_params params = {};
    params.struct_size = sizeof params;
    params.epoch = hash(name);
    params.count = static_cast<uint32_t>(members_.size());
    params.members = members_.data();
    check(tryst_subgroup_open(world_->group(), &params, &subgroup_),
          "open process group " + name);
}

View::~View()
{
    tryst_subgroup_close(subgroup_);
}

std::shared_ptr<View> View::child(const std::string &name,
                                  const std::vector<int32_t> &ranks, int rank) const
{
    std::vector<int32_t> members = world_ranks(ranks);
    int own = tryst_group_rank(world_->group());
    if (members[rank] != own)
        throw Refusal("process group " + name + " has rank " +
                      std::to_string(members[rank]) + " of the job as its rank " +
                      std::to_string(rank) + ", and this is rank " + std::to_string(own) +
                      ": give a store of its own to a process group of another job");
    return std::shared_ptr<View>(new View(world_, name, std::move(members), step_));
}

std::shared_ptr<View> View::successor(const std::string &name,
                                      const std::vector<int32_t> &ranks) const
{
    return std::shared_ptr<View>(
        new View(world_, name, world_ranks(ranks), world_->step_open()));
}

std::vector<int32_t> View::world_ranks(const std::vector<int32_t> &ranks) const
{
    std::vector<int32_t> members;
    for (int32_t rank : ranks)
        members.push_back(world_rank(rank));
    return members;
}

int View::world_rank(int rank) const
{
    int size =
        subgroup_ ? tryst_subgroup_size(subgroup_) : tryst_group_size(world_->group());
    if (rank < 0 || rank >= size)
        throw Refusal("process group " + name_ + " has no rank " + std::to_string(rank) +
                      ": use 0 to " + std::to_string(size - 1));
    return subgroup_ ? tryst_subgroup_member(subgroup_, rank) : rank;
}

tryst_op_params View::params(uint64_t deadline_ns) const
{
    tryst_op_params params = {};
    params.struct_size = sizeof params;
    params.subgroup = subgroup_;
    params.deadline_ns = deadline_ns;
    if (std::optional<int32_t> priority = urgency_get()) {
        params.flags = TRYST_OP_PRIORITY;
        params.priority = *priority;
    }
    return params;
}

std::string View::coll_name(const std::string &kind) const
{
    return kind + " of " + name_;
}

void View::abort_job(tryst_status status, const std::string &reason) const
{
    tryst_step_abort(step_, status, reason.c_str());
}

std::string View::abort_reason() const
{
    tryst_error error = {};
    error.struct_size = sizeof error;
    if (tryst_step_status(step_, &error) != TRYST_E_ABORTED)
        return "";
    return error.text && *error.text ? error.text : tryst_status_str(TRYST_E_ABORTED);
}

View::Key View::key(int src_rank, int dst_rank, int tag)
{
    std::lock_guard<std::mutex> lock(keys_mutex_);
    std::tuple<int, int, int> place(src_rank, dst_rank, tag);
    auto known = keys_.find(place);
    if (known != keys_.end())
        return known->second;
    Key key = key_make(src_rank, dst_rank,
                       "message of " + name_ + ", tag " + std::to_string(tag));
    if (keys_.size() >= keys_max)
        keys_.clear();
    return keys_[place] = key;
}

View::Key View::key_make(int src_rank, int dst_rank, const std::string &edge) const
{
    tryst_key *key;
    check(tryst_key_make(world_->group(), world_rank(src_rank), world_rank(dst_rank),
                         edge.c_str(), 0, &key),
          "make a key");
    return Key(key, tryst_key_release);
}

} // namespace tryst_torch
