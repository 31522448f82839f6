/* SPDX-License-Identifier: Apache-2.0 */
/* The Python module tryst_torch._C: it opens process groups, sets a thread's priority,
 * and begins training steps.
 *
 * The first process group of a job opens a World, and process groups of some of its ranks
 * are views of this World. If the job's first process group has another backend (gloo,
 * nccl), each process group with this one opens a World for its ranks. */
#include "backend.h"

#include "../core/dump.h"
#include "../core/finisher.h"
#include "../core/urgency.h"
#include "gather.h"

#include <pybind11/chrono.h>
#include <torch/extension.h>
#include <torch/version.h>
#include <unistd.h>

#define TRYST_TORCH_QUOTED(word) #word
#define TRYST_TORCH_TEXT(macro)  TRYST_TORCH_QUOTED(macro)

namespace tryst_torch
{

static std::mutex job_mutex; /* guards the rest */
static std::weak_ptr<View> job;
static pid_t job_process; /* a forked child is in no job of its parent */

std::shared_ptr<View> default_view_get()
{
    std::lock_guard<std::mutex> lock(job_mutex);
    return job_process == getpid() ? job.lock() : nullptr;
}

void default_view_set(const std::shared_ptr<View> &view)
{
    std::lock_guard<std::mutex> lock(job_mutex);
    job = view;
    job_process = getpid();
}

static std::shared_ptr<World> world_open(c10::intrusive_ptr<c10d::Store> store, int rank,
                                         int size, std::chrono::milliseconds timeout)
{
    return std::make_shared<World>(rank, size, nanoseconds_of(timeout),
                                   StoreGather(store, rank, size, timeout));
}

/* `ranks`: those of the job that the process group consists of; empty: all. */
static c10::intrusive_ptr<c10d::Backend> backend_open(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::string name,
    std::vector<int32_t> ranks, std::chrono::milliseconds timeout)
{
    bool is_default = ranks.empty();
    std::shared_ptr<View> parent = is_default ? nullptr : default_view_get();
    dump_rank_set(is_default ? rank : ranks[rank]);
    std::shared_ptr<View> view;
    if (parent)
        view = parent->child(name, ranks);
    else
        view = std::make_shared<View>(world_open(store, rank, size, timeout), name);
    if (is_default)
        default_view_set(view);
    return c10::make_intrusive<Backend>(view, name, rank, size, timeout, is_default);
}

} // namespace tryst_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("backend_open", tryst_torch::backend_open,
          py::call_guard<py::gil_scoped_release>());
    m.def("priority_get", tryst_torch::urgency_get);
    m.def("priority_set", tryst_torch::urgency_set);
    m.def("period_begin", tryst_torch::World::period_begin,
          py::call_guard<py::gil_scoped_release>());
    m.def("finisher_stop", tryst_torch::finisher_stop,
          py::call_guard<py::gil_scoped_release>());
    m.def("dump_text", tryst_torch::dump_text, py::call_guard<py::gil_scoped_release>());
    m.def("library_version", tryst_version_string);
    m.attr("headers_version") =
        TRYST_TORCH_TEXT(TRYST_VERSION_MAJOR) "." TRYST_TORCH_TEXT(
            TRYST_VERSION_MINOR) "." TRYST_TORCH_TEXT(TRYST_VERSION_PATCH);
    m.attr("torch_version") = TORCH_VERSION;
}
