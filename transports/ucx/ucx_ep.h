/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_ep.h
 *  Endpoints: connecting, failing, closing (ucx_ops). */
#ifndef TRYST_TRANSPORTS_UCX_UCX_EP_H
#define TRYST_TRANSPORTS_UCX_UCX_EP_H

#include "ucx_private.h"

tryst_status ucx_ep_open(struct rail *rail, const struct ep_params *params,
                         struct endpoint **ep_p);
void ucx_ep_message(struct endpoint *ep, const void *data, size_t bytes, int fd);
void ucx_ep_close(struct endpoint *ep);
/** Do the work that ep->fabric.work notes. May free `ep`. */
void ucx_ep_work(struct ucx_ep *ep);
/** Report that connecting has succeeded. */
void ucx_ep_ready_report(struct ucx_ep *ep);
/** Complete the endpoint's bulk and fail the endpoint, after the worker was destroyed. */
void ucx_ep_abandon(struct ucx_ep *ep);

#endif
