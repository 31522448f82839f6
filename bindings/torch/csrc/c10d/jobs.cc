/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs by the addresses of their stores. An address is in use for as long as the job,
 * since what keeps the job's view keeps its store. */
#include "jobs.h"

#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <unistd.h>

namespace tryst_torch
{

namespace
{

struct Job {
    std::weak_ptr<View> view;
    pid_t process; /* a forked child is in no job of its parent */
};

/* c10d shows the prefix of a store to derived classes alone. */
struct Prefix : c10d::PrefixStore {
    static const std::string &of(const c10d::PrefixStore &store)
    {
        return store.*&Prefix::prefix_;
    }
};

} // namespace

static std::mutex jobs_mutex; /* guards jobs */
static std::map<const c10d::Store *, Job> jobs;

/* Return the store inside `store`, if that is a prefix; empty: it is none. */
static StorePtr inner_store(const StorePtr &store)
{
    auto *prefix = dynamic_cast<c10d::PrefixStore *>(store.get());
    return prefix ? prefix->getUnderlyingStore() : StorePtr();
}

static bool has_prefix(const StorePtr &store, const std::string &prefix)
{
    auto *outer = dynamic_cast<const c10d::PrefixStore *>(store.get());
    return outer && Prefix::of(*outer) == prefix;
}

StorePtr group_store(const StorePtr &store, const std::string &name)
{
    StorePtr inner = inner_store(store);
    return inner && has_prefix(inner, name + "/") ? inner : store;
}

std::shared_ptr<View> job_find(const StorePtr &store, const std::string &name)
{
    if (!has_prefix(store, name + "/"))
        return nullptr;
    std::lock_guard<std::mutex> lock(jobs_mutex);
    auto known = jobs.find(inner_store(store).get());
    bool is_here = known != jobs.end() && known->second.process == getpid();
    return is_here ? known->second.view.lock() : nullptr;
}

void job_set(const StorePtr &store, const std::shared_ptr<View> &view)
{
    std::lock_guard<std::mutex> lock(jobs_mutex);
    for (auto it = jobs.begin(); it != jobs.end();)
        it = it->second.view.expired() ? jobs.erase(it) : std::next(it);
    jobs[store.get()] = {view, getpid()};
}

} // namespace tryst_torch
