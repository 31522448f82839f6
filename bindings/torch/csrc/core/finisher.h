/* SPDX-License-Identifier: Apache-2.0 */
/** @file finisher.h
 *  Threads that run what must not run in the library's progress: copies of results,
 *  dumps, and the functions of users that are chained to a future (they may run Python,
 *  and may wait, for other futures too).
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_FINISHER_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_FINISHER_H

#include <functional>

namespace tryst_torch
{

/** Run `task` in a finisher thread. Tasks begin in the order of the calls; one that waits
 *  holds the next ones up for a millisecond. The first call starts a thread. Any thread;
 *  never blocks. */
void finisher_run(std::function<void()> task);

/** Run no task from here on: Python ends, and a task that runs Python then would end the
 *  process. Blocks until the tasks given so far are done, at most 20 s. */
void finisher_stop();

} // namespace tryst_torch

#endif
