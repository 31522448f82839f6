/* SPDX-License-Identifier: Apache-2.0 */
/** @file foreign_fd.h
 *  Closes descriptors that another process has sent (SCM_RIGHTS).
 *
 *  One idea: the last close of a file may block in the kernel for a time that the sender
 *  chooses: a TCP socket with unsent bytes and SO_LINGER, a file of FUSE or NFS, a Unix
 *  socket that has such files in its queue. So the caller closes memory files only; a
 *  thread closes the rest.
 *  Invariant: no call here blocks except foreign_fds_wait, and a close for which there is
 *  no memory or no thread. Any thread.
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
