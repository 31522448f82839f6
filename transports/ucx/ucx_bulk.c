/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk: UCP tagged messages with a full mask.
 *
 * Idea: the receiver's tag names one posted receive, so tag matching never searches.
 * Completed bulks are put on the rail's list and reported from progress.
 * Invariant: ep->active has the bulks that UCX may still read or write, and sends_active
 * + recvs_active is their number. An endpoint is freed only when both are zero and every
 * bulk was reported.
 */
#include "ucx_bulk.h"

#include <string.h>

#include "ucx_frame.h"
#include "ucx_landing.h"

static tryst_status status_of(ucs_status_t status)
{
    switch (status) {
    case UCS_OK: return TRYST_OK;
    case UCS_ERR_CANCELED: return TRYST_E_CANCELED;
    case UCS_ERR_MESSAGE_TRUNCATED: return TRYST_E_MISMATCH;
    default: return TRYST_E_PEER;
    }
}

/* Complete a bulk, from inside a call or a callback. */
static void bulk_complete(struct ucx_bulk *bulk, tryst_status status, size_t bytes)
{
    bulk->request = NULL;
    if (bulk->landing)
        ucx_landing_put(bulk->landing);
    bulk->landing = NULL;
    fabric_bulk_complete(&bulk->fabric, status, bytes);
}

static void param_set(struct ucx_ep *ep, struct bulk *bulk, ucp_request_param_t *param)
{
    struct ucx_rail *rail = ep_rail(ep);
    void *handle = NULL;
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                          UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param->memory_type = bulk->memory ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
    param->user_data = bulk_private(bulk);
    /* without the handle UCX registers the memory by itself */
    if (!rail->direct || !bulk->mem ||
        rail->fabric.host->mem_handle(bulk->mem, &rail->fabric.base, &handle) !=
            TRYST_OK ||
        !handle)
        return;
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param->memh = handle;
}

static void recv_completed(void *request, ucs_status_t status,
                           const ucp_tag_recv_info_t *info, void *user_data)
{
    ucp_request_free(request);
    bulk_complete(user_data, status_of(status), status == UCS_OK ? info->length : 0);
}

static void landing_completed(void *request, ucs_status_t status,
                              const ucp_tag_recv_info_t *info, void *user_data)
{
    struct ucx_landing *landing = user_data;
    if (landing->bulk) {
        recv_completed(request, status, info, landing->bulk);
    } else {
        ucp_request_free(request);
        ucx_landing_put(landing);
    }
}

static void send_completed(void *request, ucs_status_t status, void *user_data)
{
    struct ucx_bulk *bulk = user_data;
    ucp_request_free(request);
    bulk_complete(bulk, status_of(status),
                  status == UCS_OK ? fabric_bulk_public(&bulk->fabric)->bytes : 0);
}

/* Handle the result of a tag call. TRYST_OK: UCX has the bulk, or it is done already. */
static tryst_status started(struct ucx_ep *ep, struct bulk *bulk,
                            ucs_status_ptr_t request, size_t bytes)
{
    struct ucx_bulk *private = bulk_private(bulk);
    ucs_status_t status;
    if (UCS_PTR_IS_PTR(request)) {
        if (!list_linked(&private->fabric.node)) { /* else the callback has run already */
            private->request = request;
            list_push_back(&ep->active, &private->fabric.node);
        }
        return TRYST_OK;
    }
    status = UCS_PTR_STATUS(request);
    if (status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED) {
        bulk_complete(private, status_of(status), status == UCS_OK ? bytes : 0);
        return TRYST_OK;
    }
    fabric_bulk_undo(&private->fabric);
    if (private->landing)
        ucx_landing_put(private->landing);
    if (status == UCS_ERR_NO_MEMORY)
        return TRYST_AGAIN;
    fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "UCX refused a bulk: %s",
                   ucs_status_string(status));
    return fabric_ep_usable(&ep->fabric);
}

static ucs_status_ptr_t recv_start(struct ucx_ep *ep, struct bulk *bulk,
                                   ucp_tag_recv_info_t *info)
{
    struct ucx_rail *rail = ep_rail(ep);
    struct ucx_landing *landing;
    ucp_request_param_t param = {.cb.recv = recv_completed, .recv_info.tag_info = info};
    ucp_tag_t tag = ucx_tag(ep->fabric.id, bulk->tag);
    param_set(ep, bulk, &param);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    if (rail->direct)
        return ucp_tag_recv_nbx(rail->worker, bulk->data, bulk->bytes, tag, UINT64_MAX,
                                &param);
    landing = ucx_landing_get(rail, bulk_private(bulk));
    if (!landing)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    bulk_private(bulk)->landing = landing;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = rail->landing_type;
    param.cb.recv = landing_completed;
    param.user_data = landing;
    return ucp_tag_recv_nbx(rail->worker, landing, 1, tag, UINT64_MAX, &param);
}

tryst_status ucx_bulk_recv(struct endpoint *base, struct bulk *bulk)
{
    struct ucx_ep *ep = (struct ucx_ep *)base;
    ucp_tag_recv_info_t info = {0};
    tryst_status status = fabric_bulk_check(&ep->fabric, bulk, false, UCX_POSTED_MAX);
    if (status != TRYST_OK)
        return status;
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    *bulk_private(bulk) = (struct ucx_bulk){.request = NULL};
    fabric_bulk_begin(&ep->fabric, &bulk_private(bulk)->fabric, false);
    ep->newest_tag = bulk->tag;
    ep->has_posted = true;
    ucs_status_ptr_t request = recv_start(ep, bulk, &info);
    return started(ep, bulk, request, info.length);
}

tryst_status ucx_bulk_send(struct endpoint *base, struct bulk *bulk)
{
    struct ucx_ep *ep = (struct ucx_ep *)base;
    ucp_request_param_t param = {.cb.send = send_completed};
    tryst_status status = fabric_bulk_check(&ep->fabric, bulk, true, UCX_SENDS_MAX);
    if (status != TRYST_OK)
        return status;
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    *bulk_private(bulk) = (struct ucx_bulk){.request = NULL};
    fabric_bulk_begin(&ep->fabric, &bulk_private(bulk)->fabric, true);
    param_set(ep, bulk, &param);
    ucs_status_ptr_t request =
        ucp_tag_send_nbx(ep->bulk, bulk->data, bulk->bytes,
                         ucx_tag(ep->fabric.peer_id, bulk->tag), &param);
    return started(ep, bulk, request, bulk->bytes);
}

/* Cancel a receive. If it is unmatched, UCX calls its callback from inside the cancel; a
 * matched receive goes on and completes by itself. Sends cannot be withdrawn. */
static void request_cancel(struct ucx_ep *ep, struct ucx_bulk *bulk)
{
    if (bulk->request && !bulk->fabric.is_send)
        ucp_request_cancel(ep_rail(ep)->worker, bulk->request);
}

void ucx_bulk_cancel(struct endpoint *base, struct bulk *bulk)
{
    struct ucx_ep *ep = (struct ucx_ep *)base;
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    request_cancel(ep, bulk_private(bulk));
}

void ucx_bulk_cancel_all(struct ucx_ep *ep)
{
    list_for_each_safe (&ep->active, node, after) {
        struct ucx_bulk *bulk = container_of(node, struct ucx_bulk, fabric.node);
        request_cancel(ep, bulk);
        if (!bulk->landing)
            continue; /* canceled now, or a matched receive of a direct rail */
        ucx_landing_revoke(bulk->landing);
        bulk->landing = NULL;
        bulk_complete(bulk, TRYST_E_CANCELED, 0);
    }
}

void ucx_bulk_abandon_all(struct ucx_ep *ep, tryst_status status)
{
    list_for_each_safe (&ep->active, node, after)
        bulk_complete(container_of(node, struct ucx_bulk, fabric.node), status, 0);
}

/* Receive a message. True if it had come completely and fits. */
static bool tag_message_recv(struct ucx_rail *rail, ucp_tag_message_h message, void *data,
                             size_t bytes)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};
    ucs_status_ptr_t request =
        ucp_tag_msg_recv_nbx(rail->worker, data, bytes, message, &param);
    if (!UCS_PTR_IS_PTR(request))
        return request == NULL;
    if (ucp_request_check_status(request) == UCS_OK) {
        ucp_request_free(request);
        return true;
    }
    ucp_request_free(request); /* UCX keeps the request until the message is complete */
    return false;
}

/* True if the endpoint's peer has sent a bulk with this number: only the peer has the
 * secret that hides the numbers in use (ucx_wire.h). */
static bool peer_has_sent(const struct ucx_ep *ep, uint64_t number)
{
    uint64_t above = (number - ep->newest_tag) & UCX_TAG_MASK;
    uint64_t below = (ep->newest_tag - number) & UCX_TAG_MASK;
    return ep->fabric.state == FABRIC_READY && ep->has_posted &&
           (above < UCX_TAG_NEAR || below < UCX_TAG_NEAR);
}

/* Count a bulk of an unknown sender. No peer is given up for such a bulk. */
static void senderless_count(struct ucx_rail *rail, uint32_t slot, size_t bytes)
{
    if (rail->senderless++)
        return;
    fabric_rail_log(
        &rail->fabric, TRYST_LOG_WARN,
        "dropped a message of %zu bytes for endpoint %u: no receive is posted "
        "for it, and UCX does not report its sender; further ones are counted",
        bytes, slot);
}

/* Handle a message without a posted receive: a HELLO, a late bulk for a closed endpoint,
 * or a bulk that breaks the contract. A bulk is received into 0 bytes, so that it
 * completes for its sender, too. */
static int message_drain(struct ucx_rail *rail, ucp_tag_message_h message,
                         const ucp_tag_recv_info_t *info)
{
    uint32_t slot = (uint32_t)(info->sender_tag >> UCX_TAG_BITS);
    struct ucx_ep *ep = ep_table_at(&rail->fabric.table, slot);
    if (info->sender_tag == UCX_HELLO_TAG && info->length == sizeof rail->hello) {
        if (tag_message_recv(rail, message, &rail->hello, sizeof rail->hello))
            ucx_hello_handle(rail, &rail->hello);
        return 1;
    }
    (void)tag_message_recv(rail, message, &rail->hello, 0);
    rail->drained++;
    uint64_t number = ep ? ucx_tag_number(ep->fabric.id, info->sender_tag) : 0;
    if (ep && peer_has_sent(ep, number))
        ep->fabric.base.rail->events->unexpected(&ep->fabric.base, number, info->length);
    else if (ep && ep->fabric.state == FABRIC_READY)
        senderless_count(rail, slot, info->length);
    return 1;
}

int ucx_bulk_drain(struct ucx_rail *rail)
{
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    int count = 0;
    while (rail->worker && count < 16 &&
           (message = ucp_tag_probe_nb(rail->worker, 0, 0, 1, &info)) != NULL)
        count += message_drain(rail, message, &info);
    return count;
}

bool ucx_bulk_drain_is_due(const struct ucx_rail *rail)
{
    ucp_tag_recv_info_t info;
    return ucp_tag_probe_nb(rail->worker, 0, 0, 0, &info) != NULL;
}
