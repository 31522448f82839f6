/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memory files (memfd.h). */
#include "transports/memory/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/os/fd.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* True if a file of `bytes` is within RLIMIT_FSIZE. Beyond the limit the kernel would
 * send SIGXFSZ to the host program. */
static bool size_is_allowed(size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return true;
    if (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
        return true;
    errno = EFBIG;
    return false;
}

static int allocate(int fd, size_t bytes)
{
    int rc;
    do {
        rc = fallocate(fd, 0, 0, (off_t)bytes);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

tryst_status memfd_create_sealed(const char *name, size_t bytes, int *fd_p)
{
    if (!size_is_allowed(bytes))
        return TRYST_E_NOMEM;
    int fd = FD_MAKE(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return TRYST_E_SYSTEM;
    if (ftruncate(fd, (off_t)bytes) == 0 && allocate(fd, bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
        *fd_p = fd;
        return TRYST_OK;
    }
    int reason = errno;
    close(fd);
    errno = reason;
    return reason == EPERM || reason == EINVAL ? TRYST_E_SYSTEM : TRYST_E_NOMEM;
}

void memfd_seal_writes(int fd)
{
    int before = errno;
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
    errno = before;
}

const char *memfd_refusal(int fd, size_t bytes)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return "the descriptor is not a memory file";
    if (!(seals & F_SEAL_SHRINK))
        return "the memory file is not sealed against shrinking";
    if (fstat(fd, &file) != 0 || file.st_size < 0 || (size_t)file.st_size < bytes)
        return "the memory file is smaller than announced";
    return NULL;
}
