/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the peer's memory.
 *
 * One idea: bytes that were read count only if three conditions still hold afterwards, so
 * the peer needs no lock:
 * - the peer's grant is not revoked: its endpoint was open, and the buffer was still the
 *   bulk's;
 * - the address space that was read has the peer's nonce, which the same system call
 *   reads behind the data: no other program has that pid now, and no exec has replaced
 *   the image;
 * - the peer's pidfd is not readable: the process lives.
 *
 * Otherwise the bytes are dropped and the receive fails. A mapped region needs the first
 * condition alone: it stays what it was if its owner dies.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shm_copy.h"
#include "shm_region.h"

static bool peer_is_alive(const struct shm_ep *ep)
{
    struct pollfd poll_fd = {.fd = ep->pair.params.peer_pidfd, .events = POLLIN};
    if (poll_fd.fd < 0)
        return true; /* the link reports the peer's death */
    /* A negative result does not mean that the peer has died: a signal to this process
     * interrupts even a poll that does not wait. */
    return poll(&poll_fd, 1, 0) <= 0;
}

/* Read `bytes` from the peer's `where` to `to`, and its nonce. 0 or errno. */
static int peer_read(const struct shm_ep *ep, uint64_t where, void *to, size_t bytes,
                     uint64_t *nonce_p)
{
    uint64_t nonce = 0;
    // NOLINTBEGIN(performance-no-int-to-ptr): addresses of another process
    struct iovec local[2] = {{to, bytes}, {&nonce, sizeof nonce}};
    struct iovec remote[2] = {{(void *)(uintptr_t)where, bytes},
                              {(void *)(uintptr_t)ep->peer_nonce_address, sizeof nonce}};
    // NOLINTEND(performance-no-int-to-ptr)
    ssize_t got = process_vm_readv(ep->pair.params.peer_pid, local, 2, remote, 2, 0);
    if (got < 0)
        return errno;
    if ((size_t)got != bytes + sizeof nonce)
        return EFAULT;
    *nonce_p = nonce;
    return 0;
}

bool shm_read_verify(struct shm_ep *ep, char why[SHM_WHY_MAX])
{
    const struct ep_params *params = &ep->pair.params;
    uint64_t nonce = 0;
    char reason[64];
    if (params->peer_pidfd < 0 || params->peer_pid <= 0) {
        snprintf(why, SHM_WHY_MAX, "no pidfd of the peer (another pid namespace?)");
        return false;
    }
    int error = peer_read(ep, ep->peer_nonce_address, &nonce, sizeof nonce, &nonce);
    if (error) {
        snprintf(why, SHM_WHY_MAX, "process_vm_readv: %s",
                 strerror_r(error, reason, sizeof reason));
        return false;
    }
    if (nonce != params->peer_nonce || !peer_is_alive(ep)) {
        snprintf(why, SHM_WHY_MAX, "process_vm_readv: pid %d is not the peer",
                 (int)params->peer_pid);
        return false;
    }
    snprintf(why, SHM_WHY_MAX, "process_vm_readv verified");
    return true;
}

int shm_read_probe(void)
{
    uint64_t from = 1, to = 0;
    struct iovec local = {&to, sizeof to}, remote = {&from, sizeof from};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof to ? 0 : errno;
}

static bool grant_holds(const struct shm_ep *ep)
{
    /* acq_rel read-modify-write that changes nothing: release keeps the reads of the data
     * before it (a plain load would not). Partner: grant_revoke, after which the peer may
     * reuse the buffer. If the reads saw bytes of such a reuse, this one sees the
     * revocation. */
    return atomic_fetch_add_explicit(&ep->pair.theirs->grant, 0, memory_order_acq_rel) ==
           0;
}

enum pair_copy shm_read_confirm(struct shm_ep *ep)
{
    return grant_holds(ep) && peer_is_alive(ep) ? PAIR_COPY_OK : PAIR_COPY_GONE;
}

static enum pair_copy read_failed(struct shm_ep *ep, int error)
{
    if (error == ESRCH || shm_read_confirm(ep) != PAIR_COPY_OK)
        return PAIR_COPY_GONE;
    /* EFAULT: the kernel cannot copy from this memory (for example a device's). */
    return error == EFAULT ? PAIR_COPY_RETRY : PAIR_COPY_DENIED;
}

static enum pair_copy open_by_read(struct shm_ep *ep, uint64_t where, void *to,
                                   uint64_t bytes)
{
    uint64_t nonce = 0;
    if (!(ep->in_mechs & SHM_CAN_READ))
        return PAIR_COPY_DENIED;
    int error = peer_read(ep, where, to, bytes, &nonce);
    if (error)
        return read_failed(ep, error);
    return nonce == ep->pair.params.peer_nonce ? PAIR_COPY_OK : PAIR_COPY_GONE;
}

enum pair_copy shm_bytes_open(struct pair_ep *pair, const struct bulk *bulk, uint64_t at,
                              uint64_t bytes, void *to, const void **data_p)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    const struct pair_op *op = pair_op_of((struct bulk *)bulk);
    if (op->mech == PAIR_MECH_READ)
        return open_by_read(ep, op->where + at, to, bytes);
    const struct shm_mapped *mapped =
        bulk->borrowed ? op->lent : shm_region_find(ep, op->region);
    return shm_region_address(mapped, op->where + at, bytes, data_p);
}

enum pair_copy shm_confirm(struct pair_ep *pair, const struct bulk *bulk)
{
    const struct shm_ep *ep = (const struct shm_ep *)pair;
    if (pair_op_of((struct bulk *)bulk)->mech == PAIR_MECH_READ)
        return shm_read_confirm((struct shm_ep *)pair);
    return grant_holds(ep) ? PAIR_COPY_OK : PAIR_COPY_GONE;
}
