/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_rail.h
 *  Rails. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_RAIL_H
#define TRYST_TRANSPORTS_OFI_OFI_RAIL_H

#include "ofi_private.h"

/** Open a fabric endpoint of this rail; 0 or -FI_E…. */
int ofi_endpoint_open(struct ofi_rail *rail, struct fid_ep **ep_p);
/** Read the queue until it is empty or OFI_CQ_SIZE entries have come; returns their
 *  number. */
int ofi_cq_drain(struct ofi_rail *rail);
#endif
