/* SPDX-License-Identifier: Apache-2.0 */
/* What c10d::Backend of PyTorch 2.15 has beside operations: process groups made from
 * others, hooks, memory; and what this backend refuses, each with a reason and with what
 * to do instead. Older versions of c10d have these functions in part, or in other forms;
 * the backend has none of them there. */
#include "backend.h"

#ifdef C10D_BACKEND_HAS_HOOKS

#include <algorithm>

namespace tryst_torch
{

/* --- process groups from process groups --------------------------------------------- */

bool Backend::supportsSplitting() const
{
    return true;
}

/* All ranks of the parent call it, also those that are in no part. */
c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &,
                                                 const std::vector<int> &ranks,
                                                 const c10::intrusive_ptr<Options> &opts)
{
    auto place = std::find(ranks.begin(), ranks.end(), rank_);
    if (place == ranks.end())
        return nullptr;
    const std::string &name = opts->group_name;
    int rank = static_cast<int>(place - ranks.begin());
    return c10::make_intrusive<Backend>(
        view()->child(name, std::vector<int32_t>(ranks.begin(), ranks.end()), rank), name,
        rank, static_cast<int>(ranks.size()), opts->timeout, nullptr);
}

bool Backend::supportsShrinking() const
{
    return true;
}

static std::vector<int32_t> ranks_without(int size, const std::vector<int64_t> &excluded)
{
    std::vector<int32_t> left;
    for (int32_t rank = 0; rank < size; rank++)
        if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end())
            left.push_back(rank);
    return left;
}

/* The ranks that are left call it, and no others. Those of the default process group go
 * on in a step of their own, since the loss of a rank aborts the step of the job. */
c10::intrusive_ptr<c10d::Backend> Backend::shrink(
    const std::vector<int64_t> &ranks_to_exclude, int flags,
    const c10::intrusive_ptr<Options> &opts)
{
    std::shared_ptr<View> before = view();
    StorePtr job = job_store();
    std::vector<int32_t> left = ranks_without(size_, ranks_to_exclude);
    auto place = std::find(left.begin(), left.end(), rank_);
    TORCH_CHECK(place != left.end(), "tryst cannot shrink process group ", name_,
                " without rank ", rank_, ": this rank is the one that calls");
    TORCH_CHECK(job || tryst_step_status(before->step(), nullptr) == TRYST_OK,
                "tryst cannot shrink process group ", name_, ": a rank of the job was ",
                "lost, which ends all its process groups; shrink the default process ",
                "group, and make the others anew");
    if (flags)
        abort();
    std::string name = name_ + "/shrunk" + std::to_string(++children_);
    int rank = static_cast<int>(place - left.begin());
    std::shared_ptr<View> after =
        job ? before->successor(name, left) : before->child(name, left, rank);
    if (job)
        job_set(job, after);
    return c10::make_intrusive<Backend>(after, name, rank, static_cast<int>(left.size()),
                                        opts ? opts->timeout : timeout(), job);
}

void Backend::addEphemeralTimeout(const Milliseconds &timeout)
{
    open_->extend(timeout);
}

/* --- hooks, outcomes ---------------------------------------------------------------- */

bool Backend::supportsAbortHooks() const
{
    return true;
}

void Backend::registerAbortHook(int64_t id, c10d::AbortHook hook)
{
    open_->abort_hook_set(id, std::move(hook));
}

void Backend::unregisterAbortHook(int64_t id)
{
    open_->abort_hook_set(id, nullptr);
}

bool Backend::supportsCompletionHooks() const
{
    return true;
}

void Backend::registerCompletionHook(int64_t id, c10d::CompletionHook hook)
{
    open_->end_hook_set(id, [hook = std::move(hook)](uint64_t key, float duration_ms) {
        hook({key, duration_ms});
    });
}

void Backend::unregisterCompletionHook(int64_t id)
{
    open_->end_hook_set(id, nullptr);
}

void Backend::enableCollectivesTiming()
{
    /* each Work has its duration */
}

c10d::ErrorType Backend::getError()
{
    switch (open_->failure()) {
    case TRYST_OK: return c10d::ErrorType::SUCCESS;
    case TRYST_E_DEADLINE: return c10d::ErrorType::TIMEOUT;
    default: return c10d::ErrorType::REMOTE_ERROR;
    }
}

/* --- memory ------------------------------------------------------------------------- */

/* A device without an index is the CPU; the library takes no other memory here. */
bool Backend::supportsTensorAlloc(c10::DeviceIndex device)
{
    return device < 0;
}

/* Registered memory, which the other ranks of the host map: a large tensor then moves
 * between them by one copy, without a system call for each slice. */
at::Tensor Backend::allocateTensor(long count, at::TensorOptions options)
{
    TORCH_CHECK(options.device().is_cpu(), "tryst cannot allocate a tensor on ",
                options.device(), ": it has memory of the CPU only; use torch.empty");
    size_t bytes = static_cast<size_t>(count) * options.dtype().itemsize();
    std::shared_ptr<Context> context = view()->context();
    void *data;
    tryst_mem *mem;
    check(tryst_mem_alloc(context->get(), bytes ? bytes : 1, TRYST_MEMORY_HOST, 0, &data,
                          &mem),
          "allocate " + std::to_string(bytes) + " bytes");
    return at::from_blob(
        data, {count}, [context, mem](void *) { tryst_mem_release(mem); }, options);
}

static int counter_take(void *arg, const char *name, uint64_t value)
{
    auto *stats = static_cast<std::unordered_map<std::string, uint64_t> *>(arg);
    std::string text = name;
    if (text.find("bytes") != std::string::npos)
        (*stats)[text] = value;
    return 0;
}

std::unordered_map<std::string, uint64_t> Backend::getMemoryStats()
{
    std::unordered_map<std::string, uint64_t> stats;
    tryst_counter_visit(view()->context()->get(), counter_take, &stats);
    return stats;
}

/* --- what is refused ---------------------------------------------------------------- */

[[noreturn]] static void refuse(const char *what, const char *why_and_what_to_do)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, "tryst cannot ", what, ": ", why_and_what_to_do);
    std::abort(); /* not reached; the macro's end is not marked */
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store> &,
                                                 const c10::intrusive_ptr<Options> &,
                                                 const int &, const int &)
{
    refuse("merge process groups",
           "the ranks of a job are those of its first process group, and none joins "
           "later; start all ranks together, and use new_group for parts of them");
}

std::shared_ptr<c10::Allocator> Backend::getMemAllocator()
{
    refuse("give an allocator",
           "its memory is the CPU's, for which torch has no pools; use allocate_tensor");
}

c10d::ReconfigureHandle Backend::get_reconfigure_handle() const
{
    refuse("give a handle for reconfigure",
           "ranks come together over the store, all at once, and no rank joins later; "
           "use shrink_group to go on without a lost rank");
}

Backend::WorkPtr Backend::reconfigure(const c10d::ReconfigureOptions &)
{
    refuse("reconfigure a process group",
           "ranks come together over the store, all at once, and no rank joins later; "
           "use shrink_group to go on without a lost rank");
}

c10::intrusive_ptr<c10d::Window> Backend::new_window(const std::optional<at::Tensor> &)
{
    refuse("open a window",
           "a transfer meets a receive with its key, so there are no one-sided writes; "
           "post irecv early, in any order, and isend where the window would be put");
}

void Backend::suspend()
{
    refuse("suspend",
           "it holds no memory of a GPU that could be given back; destroy the process "
           "group to release the memory of the host");
}

void Backend::resume()
{
    refuse("resume", "it cannot suspend; make a new process group");
}

void Backend::startTimeEstimate()
{
    refuse("estimate times",
           "an operation runs when it is called; tryst-perf measures the network");
}

float Backend::endTimeEstimate()
{
    refuse("estimate times",
           "an operation runs when it is called; tryst-perf measures the network");
}

} // namespace tryst_torch

#endif
