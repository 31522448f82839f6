/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that another rank of the machine reads in place (tryst_mem_share): the public
 * calls. Each enters the progress domain, and calls the transport of the peer's
 * endpoint.
 */
#include <sys/mman.h>

#include "core/text/refuse.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/progress/progress.h"
#include "rendezvous/progress/submission.h"
#include "transports/memory/memory.h"

/* Return TRYST_OK with the endpoint that leads to `rank`, else the reason why there is
 * none. */
static tryst_status endpoint_of(struct tryst_group *group, int rank,
                                struct endpoint **ep_p)
{
    struct peer *peer = peer_get(group, rank);
    if (!peer)
        return TRYST_E_NOMEM;
    if (peer->is_self)
        return TRYST_E_UNSUPPORTED;
    if (!peer_is_alive(peer))
        return TRYST_E_PEER;
    *ep_p = peer->endpoint.ep;
    return peer->endpoint.state != PEER_EP_READY ? TRYST_AGAIN
           : peer->endpoint.broken               ? TRYST_E_PEER
                                                 : TRYST_OK;
}

/* Enter the progress domain, unless this thread is in it (a callback), and find the
 * endpoint to `rank`. domain_leave follows, whatever the status. */
static tryst_status domain_enter(struct tryst_group *group, int rank, bool *entered_p,
                                 struct endpoint **ep_p)
{
    *entered_p = !progress_is_mine(group->rdv);
    while (*entered_p && !progress_lock_take(group->rdv, TRYST_FOREVER))
        ;
    return endpoint_of(group, rank, ep_p);
}

static void domain_leave(struct tryst_group *group, bool entered)
{
    if (entered)
        progress_lock_put(group->rdv);
}

static tryst_status call_check(const tryst_group *group, int rank, const char *call,
                               const char *missing)
{
    if (!group || missing)
        return refuse_null(call, group ? missing : "group");
    if (rank < 0 || rank >= group->roster.size)
        return refuse(TRYST_E_INVALID, "cannot %s of rank %d: the ranks are 0 to %d",
                      call, rank, (int)group->roster.size - 1);
    tryst_status status = rendezvous_usable(group->rdv);
    return status == TRYST_OK ? status : refuse_unusable(call, status);
}

static tryst_status result(tryst_status status, const char *call, int rank)
{
    if (status == TRYST_OK || status == TRYST_AGAIN)
        return status;
    return refuse(status, "cannot %s of rank %d: %s", call, rank,
                  status == TRYST_E_UNSUPPORTED
                      ? "no transport between the two ranks maps memory"
                      : tryst_status_str(status));
}

tryst_status tryst_mem_share(tryst_group *group, int rank, tryst_mem *mem, uint64_t *id_p)
{
    static const char call[] = "let memory be read";
    tryst_status status = call_check(group, rank, call,
                                     !mem    ? "mem"
                                     : !id_p ? "id_p"
                                             : NULL);
    if (status != TRYST_OK)
        return status;
    if (!memory_covers(group->rdv->memory, mem, TRYST_MEMORY_HOST, 0, mem->data,
                       mem->bytes))
        return refuse(TRYST_E_INVALID,
                      "cannot share a region: it is not host memory of this context");
    bool entered;
    struct endpoint *ep;
    status = domain_enter(group, rank, &entered, &ep);
    if (status == TRYST_OK)
        status = ep->rail->ops->mem_share ? ep->rail->ops->mem_share(ep, mem)
                                          : TRYST_E_UNSUPPORTED;
    if (status == TRYST_OK)
        *id_p = mem->id;
    domain_leave(group, entered);
    return result(status, call, rank);
}

tryst_status tryst_mem_view(tryst_group *group, int rank, uint64_t id,
                            const void **data_p, size_t *bytes_p)
{
    static const char call[] = "map memory";
    tryst_status status = call_check(group, rank, call,
                                     !data_p    ? "data_p"
                                     : !bytes_p ? "bytes_p"
                                                : NULL);
    if (status != TRYST_OK)
        return status;
    bool entered;
    struct endpoint *ep;
    status = domain_enter(group, rank, &entered, &ep);
    if (status == TRYST_OK)
        status = ep->rail->ops->mem_view
                     ? ep->rail->ops->mem_view(ep, id, data_p, bytes_p)
                     : TRYST_E_UNSUPPORTED;
    domain_leave(group, entered);
    return result(status, call, rank);
}

void tryst_mem_view_close(const void *data, size_t bytes)
{
    if (data)
        (void)munmap((void *)data, bytes);
}
