/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_proc.h
 *  Reads the state of a process from /proc. */
#ifndef TRYST_TOOLS_LIVE_LIVE_PROC_H
#define TRYST_TOOLS_LIVE_LIVE_PROC_H

#include "live.h"

/** Replace unprintable characters, so that no text from a process steers a terminal. */
void live_text_clean(char *text);
/** Read the state of a process and of its thread `tid`, an id in the process's own
 *  namespace; the first thread if `tid` is 0 or not found. */
void live_proc_read(pid_t pid, int32_t tid, struct live_proc *proc_p);
/** Return the pid of the process in its own namespace; -1: unknown. */
int live_proc_own_pid(pid_t pid);
bool live_proc_is_called(pid_t pid, const char *name);
/** Return the process's CLOCK_MONOTONIC minus this process's, in nanoseconds: their time
 *  namespaces may differ. 0 where the kernel has no time namespaces. */
int64_t live_proc_clock_ns(pid_t pid);
/** Read one byte of the process's memory. Returns 0 for zero, 1 for nonzero, -1 if the
 *  byte cannot be read (no permission, say). */
int live_proc_byte_read(pid_t pid, uint64_t address);

#endif
