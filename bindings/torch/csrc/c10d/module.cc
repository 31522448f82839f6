/* SPDX-License-Identifier: Apache-2.0 */
/* The Python module tryst_torch._C: it opens process groups, sets a thread's priority,
 * and begins training steps.
 *
 * The first process group of a job opens a World, and process groups of some of its ranks
 * are views of this World (jobs.h). If the job's first process group has another backend
 * (gloo, nccl), each process group with this one opens a World for its ranks. */
#include "backend.h"

#include "../core/dump.h"
#include "../core/finisher.h"
#include "../core/urgency.h"
#include "gather.h"
#include "jobs.h"
#include "tensors.h"

#include <algorithm>
#include <pybind11/chrono.h>
#include <torch/extension.h>
#include <torch/version.h>

#define TRYST_TORCH_QUOTED(word) #word
#define TRYST_TORCH_TEXT(macro)  TRYST_TORCH_QUOTED(macro)

namespace tryst_torch
{

static std::shared_ptr<View> view_open(const StorePtr &store, int rank, int size,
                                       const std::string &name,
                                       std::chrono::milliseconds timeout)
{
    auto world = std::make_shared<World>(rank, size, nanoseconds_of(timeout),
                                         StoreGather(store, rank, size, timeout));
    return std::make_shared<View>(world, name);
}

/* `ranks`: those of the job that the process group consists of; empty: all. */
static c10::intrusive_ptr<c10d::Backend> backend_open(StorePtr store, int rank, int size,
                                                      std::string name,
                                                      std::vector<int32_t> ranks,
                                                      std::chrono::milliseconds timeout)
{
    StorePtr own = group_store(store, name);
    if (!ranks.empty()) {
        std::shared_ptr<View> job = job_find(own, name);
        auto view = job ? job->child(name, ranks, rank)
                        : view_open(store, rank, size, name, timeout);
        int last = *std::max_element(ranks.begin(), ranks.end());
        dump_rank_set(ranks[rank], last + 1, view->world());
        return c10::make_intrusive<Backend>(view, name, rank, size, timeout, nullptr);
    }
    auto view = view_open(store, rank, size, name, timeout);
    dump_rank_set(rank, size, view->world());
    job_set(own, view);
    return c10::make_intrusive<Backend>(view, name, rank, size, timeout, own);
}

} // namespace tryst_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("backend_open", tryst_torch::backend_open,
          py::call_guard<py::gil_scoped_release>());
    m.def("private_device_take", tryst_torch::private_device_take);
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
