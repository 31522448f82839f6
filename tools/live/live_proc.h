/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_proc.h
 *  What the kernel says of a process, through /proc. */
#ifndef TOOLS_LIVE_PROC_H
#define TOOLS_LIVE_PROC_H

#include "live.h"

/** What people see goes to a terminal: nothing in it may steer that. */
void live_text_clean(char *text);
void live_proc_read(pid_t pid, int32_t tid, struct live_proc *proc_p);
/** The process's pid as it sees itself (its own namespace), or -1. */
int live_proc_own_pid(pid_t pid);
bool live_proc_is_called(pid_t pid, const char *name);
/** One byte of its memory: 0 or 1, or -1 when we may not look. */
int live_proc_byte(pid_t pid, uint64_t address);

#endif
