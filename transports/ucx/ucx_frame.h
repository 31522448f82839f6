/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_frame.h
 *  Frames and the handshake over the fabric. */
#ifndef TRYST_TRANSPORTS_UCX_UCX_FRAME_H
#define TRYST_TRANSPORTS_UCX_UCX_FRAME_H

#include "ucx_private.h"

tryst_status ucx_frame_begin(struct endpoint *ep, size_t max, void **frame_p);
void ucx_frame_commit(struct endpoint *ep, size_t bytes);
/** Send CONFIRM, over ep->frames. TRYST_OK, TRYST_AGAIN (no room now), TRYST_E_PEER. */
tryst_status ucx_confirm_send(struct ucx_ep *ep);
/** Send a HELLO over `ucp_ep`, which may still be connecting. `kind`: UCX_AM_HELLO or
 *  UCX_AM_HELLO_BULK. Statuses as for ucx_confirm_send. */
tryst_status ucx_hello_send(struct ucx_ep *ep, ucp_ep_h ucp_ep, uint32_t kind);
/** Handle a HELLO. */
void ucx_hello_handle(struct ucx_rail *rail, const struct ucx_am *hello);
/** True if all messages have left: UCX holds no slot. */
bool ucx_sends_left(const struct ucx_ep *ep);
tryst_status ucx_frames_open(struct ucx_rail *rail);

#endif
