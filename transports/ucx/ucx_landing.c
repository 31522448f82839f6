/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landings: receives that can be withdrawn at any moment.
 *
 * Why: UCX holds a matched receive until its last byte. When the sender has died or
 * stopped, UCX may never release it, even after its endpoint was closed by force.
 * (Measured with 1.13.1 over shared memory: closing waits for the dead peer's full ring
 * to drain.)
 *
 * Idea: where UCX copies bulk in fragments (shared memory, TCP), receives have a *generic
 * datatype*: UCX hands over each fragment, and the landing copies it. To withdraw a
 * receive, the landing forgets its buffer; the UCX request stays in the worker, harmless,
 * until it ends or the rail closes.
 * Invariant: UCX has no address of the caller's memory, only that of the landing, which
 * lives until UCX has called back or the worker is destroyed. Landings are not used where
 * an RDMA device moves bulk (ucx_rail.direct).
 */
#include "ucx_landing.h"

#include <string.h>

static void *unpack_start(void *context, void *buffer, size_t count)
{
    (void)context;
    (void)count;
    return buffer; /* the landing */
}

static size_t packed_size(void *state)
{
    const struct ucx_landing *landing = state;
    return landing->bytes;
}

static ucs_status_t unpack(void *state, size_t offset, const void *data, size_t bytes)
{
    struct ucx_landing *landing = state;
    /* revoked: accept and drop the fragment, so that UCX's receive ends */
    if (!landing->bulk)
        return UCS_OK;
    if (offset > landing->bytes || bytes > landing->bytes - offset)
        return UCS_ERR_MESSAGE_TRUNCATED;
    memcpy(landing->data + offset, data, bytes);
    return UCS_OK;
}

static void finish(void *state)
{
    (void)state; /* the receive's callback follows, or has run */
}

tryst_status ucx_landings_open(struct ucx_rail *rail)
{
    /* no pack function: the datatype is never sent */
    static const ucp_generic_dt_ops_t ops = {.start_unpack = unpack_start,
                                             .packed_size = packed_size,
                                             .unpack = unpack,
                                             .finish = finish};
    ucs_status_t status = ucp_dt_create_generic(&ops, rail, &rail->landing_type);
    return status == UCS_OK ? TRYST_OK : TRYST_E_NOMEM;
}

static void list_free(struct ucx_rail *rail, struct list *list)
{
    struct list_node *node;
    while ((node = list_pop_front(list)) != NULL)
        rail->fabric.host->free(container_of(node, struct ucx_landing, node));
}

void ucx_landings_close(struct ucx_rail *rail)
{
    list_free(rail, &rail->landings);
    list_free(rail, &rail->orphans);
    if (rail->landing_type)
        ucp_dt_destroy(rail->landing_type);
}

struct ucx_landing *ucx_landing_get(struct ucx_rail *rail, struct ucx_bulk *bulk)
{
    struct list_node *node = list_pop_front(&rail->landings);
    struct ucx_landing *landing = node ? container_of(node, struct ucx_landing, node)
                                       : rail->fabric.host->alloc(sizeof *landing);
    if (!landing)
        return NULL;
    landing->rail = rail;
    landing->bulk = bulk;
    landing->data = fabric_bulk_public(&bulk->fabric)->data;
    landing->bytes = fabric_bulk_public(&bulk->fabric)->bytes;
    return landing;
}

void ucx_landing_put(struct ucx_landing *landing)
{
    landing->bulk = NULL;
    landing->data = NULL;
    (void)list_remove(&landing->node);
    list_push_front(&landing->rail->landings, &landing->node);
}

void ucx_landing_revoke(struct ucx_landing *landing)
{
    landing->bulk = NULL;
    landing->data = NULL;
    list_push_back(&landing->rail->orphans, &landing->node);
}
