/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_config.h
 *  UCX's settings, which no other file touches. */
#ifndef TRYST_TRANSPORTS_UCX_UCX_CONFIG_H
#define TRYST_TRANSPORTS_UCX_UCX_CONFIG_H

#include "ucx_private.h"

tryst_status ucx_context_open(const struct rail_params *params, bool direct,
                              ucp_context_h *context_p, char *text);
/** True if the rail has an RDMA device. */
bool ucx_rdma_present(const struct rail_params *params);

#endif
