/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames and the handshake: UCP active messages, always eager.
 *
 * Idea: the header is checked (endpoint and cookie, then kind) before the rest of a
 * message is read. A frame goes up from inside UCX's callback, without a copy if it is
 * aligned. A HELLO is a tagged message (ucx_wire.h has the reason).
 * Invariant: a send slot is free, or taken from the send until UCX's callback.
 */
#include "ucx_frame.h"

#include <assert.h>
#include <string.h>

#include "ucx_ep.h"

/* Get the slot that slot_get takes next; at least one must be free. */
static struct ucx_slot *slot_next(struct ucx_ep *ep)
{
    return &ep->slots[__builtin_ctz(ep->slots_free)];
}

static struct ucx_slot *slot_get(struct ucx_ep *ep)
{
    struct ucx_slot *slot = ep->slots_free ? slot_next(ep) : NULL;
    ep->slots_free &= ep->slots_free - 1;
    return slot;
}

static void slot_put(struct ucx_slot *slot)
{
    slot->ep->slots_free |= 1u << (slot - slot->ep->slots);
}

bool ucx_sends_left(const struct ucx_ep *ep)
{
    return ep->slots_free == (1u << UCX_SLOT_COUNT) - 1;
}

static void send_completed(void *request, ucs_status_t status, void *user_data)
{
    struct ucx_slot *slot = user_data;
    struct ucx_ep *ep = slot->ep;
    slot_put(slot);
    ucp_request_free(request);
    if (ep->fabric.state == FABRIC_OPENING)
        fabric_ep_due(&ep->fabric, FABRIC_DUE_CONNECT);
    if (status != UCS_OK && ep->fabric.state != FABRIC_CLOSING)
        fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "a frame could not be sent: %s",
                       ucs_status_string(status));
}

/* Handle UCX's result of sending `slot`. TRYST_OK, TRYST_AGAIN (out of memory: nothing
 * was sent); on other errors the endpoint fails. */
static tryst_status started(struct ucx_slot *slot, ucs_status_ptr_t request)
{
    struct ucx_ep *ep = slot->ep;
    if (UCS_PTR_IS_PTR(request))
        return TRYST_OK;
    slot_put(slot);
    if (request == NULL)
        return TRYST_OK;
    if (UCS_PTR_STATUS(request) == UCS_ERR_NO_MEMORY)
        return TRYST_AGAIN;
    fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "UCX refused a frame: %s",
                   ucs_status_string(UCS_PTR_STATUS(request)));
    return fabric_ep_usable(&ep->fabric);
}

tryst_status ucx_hello_send(struct ucx_ep *ep, ucp_ep_h ucp_ep, uint32_t kind)
{
    struct ucx_slot *slot = slot_get(ep);
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = send_completed,
        .memory_type = UCS_MEMORY_TYPE_HOST,
        .user_data = slot,
    };
    if (!slot)
        return TRYST_AGAIN;
    slot->header = (struct ucx_am){ep->fabric.cookie, ep->fabric.peer_id, kind, 0};
    return started(slot, ucp_tag_send_nbx(ucp_ep, &slot->header, sizeof slot->header,
                                          UCX_HELLO_TAG, &param));
}

/* Send an active message with the first `bytes` of slot->data. The slot must be taken;
 * UCX's callback frees it. */
static tryst_status am_start(struct ucx_slot *slot, uint32_t kind, size_t bytes)
{
    struct ucx_ep *ep = slot->ep;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = send_completed,
        .memory_type = UCS_MEMORY_TYPE_HOST,
        .user_data = slot,
    };
    /* UCX 1.13 reads header and data until the send completes: both live in the slot. */
    slot->header = (struct ucx_am){ep->fabric.cookie, ep->fabric.peer_id, kind,
                                   ep->fabric.send_sequence};
    return started(slot, ucp_am_send_nbx(ep->frames, UCX_AM_ID, &slot->header,
                                         sizeof slot->header, slot->data, bytes, &param));
}

tryst_status ucx_confirm_send(struct ucx_ep *ep)
{
    struct ucx_slot *slot = slot_get(ep);
    return slot ? am_start(slot, UCX_AM_CONFIRM, 0) : TRYST_AGAIN;
}

tryst_status ucx_frame_begin(struct endpoint *base, size_t max, void **frame_p)
{
    struct ucx_ep *ep = (struct ucx_ep *)base;
    tryst_status status = fabric_ep_usable(&ep->fabric);
    assert(max > 0 && max <= UCX_FRAME_MAX);
    if (status != TRYST_OK)
        return status;
    if (!ep->slots_free)
        return TRYST_AGAIN;
    *frame_p = slot_next(ep)->data;
    return TRYST_OK;
}

void ucx_frame_commit(struct endpoint *base, size_t bytes)
{
    struct ucx_ep *ep = (struct ucx_ep *)base;
    assert(bytes > 0 && bytes <= UCX_FRAME_MAX && ep->slots_free);
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    tryst_status status = am_start(slot_get(ep), UCX_AM_FRAME, bytes);
    if (status == TRYST_OK)
        ep->fabric.send_sequence++;
    else if (status == TRYST_AGAIN)
        fabric_ep_fail(&ep->fabric, TRYST_E_NOMEM,
                       "UCX cannot send a frame: out of memory");
}

static void frame_deliver(struct ucx_ep *ep, const struct ucx_am *am, const void *data,
                          size_t bytes)
{
    uint64_t aligned[UCX_FRAME_MAX / 8];
    if (!fabric_ep_sequence_advance(&ep->fabric, am->sequence))
        return;
    if ((uintptr_t)data % 8) {
        memcpy(aligned, data, bytes);
        data = aligned;
    }
    ep->fabric.base.rail->events->frame(&ep->fabric.base, data, bytes);
}

static void am_handle(struct ucx_ep *ep, const struct ucx_am *am, const void *data,
                      size_t bytes)
{
    switch (am->kind) {
    case UCX_AM_CONFIRM:
        ep->fabric.confirm_seen = true;
        if (ep->fabric.state == FABRIC_OPENING)
            fabric_ep_due(&ep->fabric, FABRIC_DUE_CONNECT);
        return;
    case UCX_AM_FRAME:
        /* the peer sent this after CONFIRM, which may have come in this same call of
         * progress */
        if (ep->fabric.state == FABRIC_OPENING && ep->fabric.confirm_sent &&
            ep->fabric.confirm_seen)
            ucx_ep_ready_report(ep);
        if (ep->fabric.state == FABRIC_READY && bytes > 0 && bytes <= UCX_FRAME_MAX)
            frame_deliver(ep, am, data, bytes);
        else if (ep->fabric.state == FABRIC_OPENING || ep->fabric.state == FABRIC_READY)
            fabric_ep_fail(&ep->fabric, TRYST_E_PROTOCOL,
                           "protocol error: a frame of %zu bytes out of turn", bytes);
        return;
    default:
        fabric_ep_fail(&ep->fabric, TRYST_E_PROTOCOL,
                       "protocol error: unknown message %u", am->kind);
    }
}

void ucx_hello_handle(struct ucx_rail *rail, const struct ucx_am *hello)
{
    struct ucx_ep *ep = fabric_ep_receiver(&rail->fabric, hello->ep_id, hello->cookie);
    if (!ep || ep->fabric.state != FABRIC_OPENING)
        return;
    if (hello->kind == UCX_AM_HELLO)
        ep->seen |= UCX_SEEN_HELLO;
    else if (hello->kind == UCX_AM_HELLO_BULK)
        ep->seen |= UCX_SEEN_HELLO_BULK;
    fabric_ep_due(&ep->fabric, FABRIC_DUE_CONNECT);
}

static ucs_status_t am_received(void *arg, const void *header, size_t header_bytes,
                                void *data, size_t bytes,
                                const ucp_am_recv_param_t *param)
{
    struct ucx_rail *rail = arg;
    struct ucx_ep *ep;
    struct ucx_am am;
    if (header_bytes != sizeof am || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        rail->fabric.unauthenticated++;
        return UCS_OK;
    }
    memcpy(&am, header, sizeof am);
    ep = fabric_ep_receiver(&rail->fabric, am.ep_id, am.cookie);
    if (ep)
        am_handle(ep, &am, data, bytes);
    return UCS_OK;
}

tryst_status ucx_frames_open(struct ucx_rail *rail)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = UCX_AM_ID,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = am_received,
        .arg = rail,
    };
    ucs_status_t status = ucp_worker_set_am_recv_handler(rail->worker, &param);
    return status == UCS_OK ? TRYST_OK : TRYST_E_SYSTEM;
}
