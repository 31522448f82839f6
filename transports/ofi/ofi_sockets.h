/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_sockets.h
 *  Breaking the TCP connections of rxm. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_SOCKETS_H
#define TRYST_TRANSPORTS_OFI_OFI_SOCKETS_H

#include "ofi_private.h"

/** Break the TCP connections of the endpoint's bulk endpoint. Its operations end with an
 *  error in one of the next reads of the queue. Checks every descriptor of the process
 *  below 65536. */
void ofi_sockets_break(struct ofi_ep *ep);

#endif
