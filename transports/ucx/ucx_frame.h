/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_frame.h
 *  Frames and the handshake over the fabric. */
#ifndef UCX_FRAME_H
#define UCX_FRAME_H

#include "ucx_private.h"

tryst_status ucx_frame_begin(struct endpoint *ep, size_t max, void **frame_p);
void ucx_frame_commit(struct endpoint *ep, size_t bytes);
/** HEARD, over ep->frames. TRYST_AGAIN: all slots are taken. */
tryst_status ucx_heard_send(struct ucx_ep *ep);
/** Over ucp_ep, whose connection need not be made yet. */
tryst_status ucx_hello_send(struct ucx_ep *ep, ucp_ep_h ucp_ep, uint32_t kind);
/** A HELLO came. */
void ucx_hello_take(struct ucx_rail *rail, const struct ucx_am *hello);
/** Nothing that was sent waits in UCX for its connection. */
bool ucx_sends_left(const struct ucx_ep *ep);
tryst_status ucx_frames_open(struct ucx_rail *rail);

#endif
