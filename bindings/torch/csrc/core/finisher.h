/* SPDX-License-Identifier: Apache-2.0 */
/** @file finisher.h
 *  A thread that runs what must not run in the library's progress: copies of results, and
 *  the functions of users that wait for a future (they may run Python, and may wait).
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_FINISHER_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_FINISHER_H

#include <functional>

namespace tryst_torch
{

/** Run `task` in the process's finisher thread, after the tasks before it. The first call
 *  starts the thread, which ends with the process. Any thread; never blocks. */
void finisher_run(std::function<void()> task);

/** Run no task from here on: Python ends, and a task that runs Python then would end the
 *  process. Blocks until the tasks given so far are done, at most 2 s. */
void finisher_stop();

} // namespace tryst_torch

#endif
