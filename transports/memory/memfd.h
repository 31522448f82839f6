/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed memory files: memory that another process can map without the risk of SIGBUS.
 *
 * One idea: a page that was allocated and a size that cannot shrink never fault. So a file is
 * allocated in full and sealed before anyone else sees it, and one from a peer is taken only
 * when it is sealed against shrinking and as large as said.
 * Callers: memory_host.c (regions), shm/ (segments and peers' regions).
 */
#ifndef TRANSPORTS_MEMFD_H
#define TRANSPORTS_MEMFD_H

#include <stddef.h>

#include "tryst/types.h"

/* A new file of `bytes` zeroes, close-on-exec, allocated and sealed against any change of size.
 * TRYST_OK, TRYST_E_NOMEM (short of memory, over RLIMIT_FSIZE), TRYST_E_SYSTEM (descriptors,
 * no memfd); errno says more. */
tryst_status memfd_create_sealed(const char *name, size_t bytes, int *fd_p);

/* From now on nobody, we included, can map it writable (again); mappings stay. Kernels before
 * 5.1 cannot, and then nothing happens. */
void memfd_seal_writes(int fd);

/* Is `fd` such a file of at least `bytes`? NULL, or what is wrong. */
const char *memfd_refusal(int fd, size_t bytes);

#endif
