/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed memory files: memory that another process can map without the risk of SIGBUS.
 *
 * One idea: a page that was allocated and a size that cannot shrink never fault. So a
 * file is allocated in full and sealed before another process gets it, and a peer's file
 * is accepted only when it is sealed against shrinking and as large as announced.
 */
#ifndef TRYST_TRANSPORTS_MEMORY_MEMFD_H
#define TRYST_TRANSPORTS_MEMORY_MEMFD_H

#include <stddef.h>

#include "tryst/types.h"

/** Create a file of `bytes` zeroes, close-on-exec, allocated and sealed against any
 *  change of size. TRYST_OK, TRYST_E_NOMEM (short of memory, over RLIMIT_FSIZE),
 *  TRYST_E_SYSTEM (descriptors, no memfd); errno has the reason. */
tryst_status memfd_create_sealed(const char *name, size_t bytes, int *fd_p);

/** Forbid further writable mappings, in this process too; existing mappings stay.
 *  Kernels before 5.1 still allow further ones. */
void memfd_seal_writes(int fd);

/** Check that `fd` is a memory file of at least `bytes` that is sealed against shrinking.
 *  NULL, or the fault. */
const char *memfd_refusal(int fd, size_t bytes);

#endif
