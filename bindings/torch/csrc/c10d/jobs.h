/* SPDX-License-Identifier: Apache-2.0 */
/** @file jobs.h
 *  The jobs of this process, by the stores over which they were opened. A process may
 *  have several: torchft's wrappers and restarts within a process open process groups
 *  over stores of their own.
 *
 *  c10d opens a process group of some ranks of a job over "<device>/", "<name>/" and the
 *  store of the job's default process group, one around the other. So the store names the
 *  job, and a process group over another store is a job of its own.
 *
 *  Thread: any, all functions.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_C10D_JOBS_H
#define TRYST_BINDINGS_TORCH_CSRC_C10D_JOBS_H

#include "../core/view.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace tryst_torch
{

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/** Return the store of process group `name`: `store` without the prefix of a device. */
StorePtr group_store(const StorePtr &store, const std::string &name);

/** Return the view of all ranks of the job that process group `name` is a part of; empty:
 *  it is a part of none. `store` is that of the process group. */
std::shared_ptr<View> job_find(const StorePtr &store, const std::string &name);

/** Note that `view` has all ranks of the job over `store`. The caller keeps `store` for
 *  as long as `view`. */
void job_set(const StorePtr &store, const std::shared_ptr<View> &view);

} // namespace tryst_torch

#endif
