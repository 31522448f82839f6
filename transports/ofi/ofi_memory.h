/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_memory.h
 *  Packets, operations, registrations. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_MEMORY_H
#define TRYST_TRANSPORTS_OFI_OFI_MEMORY_H

#include "ofi_private.h"

struct ofi_packet *ofi_packet_get(struct ofi_rail *rail);
void ofi_packet_put(struct ofi_rail *rail, struct ofi_packet *packet);
struct ofi_op *ofi_op_get(struct ofi_rail *rail);
void ofi_op_put(struct ofi_rail *rail, struct ofi_op *op);
void ofi_memory_free(struct ofi_rail *rail);
tryst_status ofi_mem_register(struct rail *rail, struct tryst_mem *mem, void **handle_p);
void ofi_mem_unregister(struct rail *rail, void *handle);
/** Get the fabric's descriptor for the bytes of `op`; NULL where the fabric needs none.
 *  TRYST_E_UNSUPPORTED: the fabric does not take this device memory. */
tryst_status ofi_op_desc(struct ofi_op *op, void **desc_p);

#endif
