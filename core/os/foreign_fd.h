/* SPDX-License-Identifier: Apache-2.0 */
/** @file foreign_fd.h
 *  Closes descriptors that another process has sent (SCM_RIGHTS).
 *
 *  One idea: the last close of a file may block in the kernel for as long as the sender
 *  sets: a TCP socket with unsent bytes and SO_LINGER, a file of FUSE or NFS, a Unix
 *  socket that has such files in its queue. So the caller closes memory files only; a
 *  thread closes the rest.
 *  Invariant: no call here blocks, except where neither memory nor a thread is left, and
 *  foreign_fds_wait. Any thread.
 */
#ifndef TRYST_CORE_OS_FOREIGN_FD_H
#define TRYST_CORE_OS_FOREIGN_FD_H

#include <stdbool.h>
#include <stdint.h>

/** Close `fd`, or do nothing if it is negative. The number may stay in use for a while,
 *  unless `fd` is a memory file. errno stays. */
void foreign_fd_close(int fd);

/** Close `fd` in the thread, whatever it is. errno stays. */
void foreign_fd_close_later(int fd);

/** Wait up to `wait_ns` until all descriptors given to the thread are closed and the
 *  thread has ended. False: a close still blocks. */
bool foreign_fds_wait(uint64_t wait_ns);

#endif
