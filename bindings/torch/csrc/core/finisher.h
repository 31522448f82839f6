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

/** Run no task in a finisher thread from here on: Python ends, and a thread that takes
 *  Python's lock then would end the process. Blocks until the tasks given so far are
 *  done, at most 20 s. */
void finisher_stop();

/** After finisher_stop, run the tasks that have come since in the calling thread; before,
 *  do nothing. For a thread of the program that waits for a task. */
void finisher_help();

} // namespace tryst_torch

#endif
