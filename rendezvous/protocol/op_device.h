/* SPDX-License-Identifier: Apache-2.0 */
/** @file op_device.h
 *  Operations on device memory.
 *
 *  Idea: the protocol is the same; what differs is when the host may speak for the bytes. So an
 *  operation on device memory carries a record of its own, and passes here at four places:
 *
 *    submitted      its ready event has not passed: it has its number and is in the table, but is
 *                   HELD: a send meets no WANT, a receive is not announced and takes no DATA
 *    small, leaves  its bytes are fetched into a pinned slot; DATA is packed from there
 *    small, comes   DATA is put into a slot and copied to the device, and only then reported
 *    bulk           each slice goes to the stage (transports/stage.h), which hands it to the rail
 *                   as it is or by way of a slot
 *
 *  Invariant: as long as a copy of ours reads or writes the caller's memory, the operation is not
 *  reported, and its peer is not gone (peer->stage.busy).
 */
#ifndef RENDEZVOUS_OP_DEVICE_H
#define RENDEZVOUS_OP_DEVICE_H

#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"

/** Why device memory cannot be used is logged once in this time. */
#define DEVICES_LOG_NS (10 * NS_PER_S)

enum device_doing {
    DEVICE_NOTHING,
    DEVICE_HELD, /**< waits for the caller's ready event */
    DEVICE_LOADS, /**< waits for the start of its kind's driver; then its tensor is checked */
    DEVICE_COPIES, /**< its small tensor is being copied */
};

struct op_device {
    tryst_op *op;
    const struct memory_ops *memory;
    struct tryst_mem *mem; /**< the region that covers the bytes, or NULL */
    void *ready;           /**< the caller's event, until it has passed */
    bool
        unchecked; /**< its tensor was accepted before the driver could be asked about it */
    struct list_node loads_node; /**< DEVICE_LOADS: of rdv->device_loads */
    const char *why;   /**< of the failure that `released` reports; static, or NULL */
    struct slot *slot; /**< of a small tensor */
    struct copy copy;
    uint8_t doing;
};

/** The functions of a kind, loaded if need be: blocks then. Any thread. TRYST_OK, TRYST_E_UNSUPPORTED,
 *  TRYST_E_MODULE; the log says why. */
tryst_status op_device_row(struct rendezvous *rdv, tryst_memory_kind kind,
                           const struct memory_ops **memory_p);
/** The check of a tensor that names a region, a ready event, or a device's memory. */
tryst_status op_memory_check_named(struct rendezvous *rdv, const tryst_tensor *tensor,
                                   size_t bytes);
/** May the tensor, of `bytes`, be submitted, as far as its memory goes? Any thread; never blocks. TRYST_OK,
 *  TRYST_E_INVALID (a region that does not cover it, no such device, not its memory, an event for host memory),
 *  TRYST_E_UNSUPPORTED, TRYST_E_MODULE; the log has the reason. TRYST_IN_PROGRESS: the driver starts; the check
 *  follows (op_device_open, `unchecked`). */
static inline tryst_status op_memory_check(struct rendezvous *rdv,
                                           const tryst_tensor *tensor, size_t bytes)
{
    bool plain = tensor->memory == TRYST_MEMORY_HOST && !tensor->mem;
    return __builtin_expect(plain && !tensor->ready_event, 1)
               ? TRYST_OK
               : op_memory_check_named(rdv, tensor, bytes);
}
/** The rest of a check that was TRYST_IN_PROGRESS: blocks while the driver starts. */
tryst_status op_memory_check_now(struct rendezvous *rdv, const tryst_tensor *tensor);
/** Add the record of a device tensor to `op`; `unchecked`: the tensor is checked later. Any thread.
 *  TRYST_OK, TRYST_E_NOMEM. */
tryst_status op_device_open(tryst_op *op, bool unchecked);
/** Release the operations with a driver that has started since. */
void op_devices_go_on(struct rendezvous *rdv);
/** Release the operations that wait for the driver of `kind`: its start has ended with `status`. */
void op_devices_started(struct rendezvous *rdv, tryst_memory_kind kind,
                        tryst_status status, const char *text);
/** Describe why a held operation was released with an error. */
const char *op_device_why(const tryst_op *op);
/** Nobody holds `op` any more. */
void op_device_close(tryst_op *op);

/** True while its driver starts, or its ready event has not passed: producer_released or consumer_released follows,
 *  unless op_device_unhold comes first. */
bool op_device_hold(tryst_op *op);
void op_device_unhold(tryst_op *op);
/** DATA will be packed once its bytes are in a slot. */
void op_device_fetch(tryst_op *op);
/** DATA's bytes are on their way to the device: consumer_placed follows. False: no memory. */
bool op_device_place(tryst_op *op, const void *payload, size_t bytes);
/** DATA has been packed, or will never be. */
void op_device_slot_drop(tryst_op *op);

/** As the transport's functions. `direct`: the receiver's memory is a device's too. */
tryst_status op_device_bulk_send(tryst_op *op, struct bulk *bulk, bool direct);
tryst_status op_device_bulk_recv(tryst_op *op, struct bulk *bulk, bool staged);
/** Does a bulk's status say that its copy failed here, and nothing of the peer? */
bool op_device_copy_failed(tryst_status status);

static inline bool op_device_is_held(const tryst_op *op)
{
    return __builtin_expect(op->device != NULL, 0) &&
           (op->device->doing == DEVICE_HELD || op->device->doing == DEVICE_LOADS);
}

static inline bool op_device_is_copying(const tryst_op *op)
{
    return __builtin_expect(op->device != NULL, 0) && op->device->doing == DEVICE_COPIES;
}

extern const struct stage_events op_device_stage_events;

#endif
