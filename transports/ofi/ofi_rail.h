/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_rail.h
 *  Rails (ofi_ops). */
#ifndef OFI_RAIL_H
#define OFI_RAIL_H

#include "ofi_private.h"

tryst_status ofi_rail_open(const struct rail_params *params, struct rail **rail_p);
void ofi_rail_close(struct rail *rail);
int ofi_rail_progress(struct rail *rail);
tryst_status ofi_rail_arm(struct rail *rail);
/** A fabric endpoint of this rail; its address goes to `address` (OFI_ADDRESS_MAX). */
int ofi_endpoint_open(struct ofi_rail *rail, struct fid_ep **ep_p, unsigned char *address,
                      size_t *bytes_p);
/** Take in all that has completed so far. */
int ofi_cq_drain(struct ofi_rail *rail);
#endif
