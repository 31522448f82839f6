/* SPDX-License-Identifier: Apache-2.0 */
/** @file op_device.h
 *  Operations on device memory.
 *
 *  Idea: the protocol is the same; only the time differs at which the host may act on the
 *  bytes. So an operation on device memory has a record (struct op_device), and differs
 *  at four places:
 *
 *    submitted    the ready event has not passed: the operation has its number and is
 *                 in the table, but is HELD: a held send meets no WANT, a held receive
 *                 is not announced and takes no DATA
 *    small send   the bytes are fetched into a pinned slot; DATA is packed from there
 *    small recv   DATA is put into a slot and copied to the device; the report follows
 *    bulk         each slice goes to transports/bounce.h, which hands it to
 *                 the rail directly or by way of a slot
 *
 *  Invariant: while a copy of this library reads or writes the caller's memory, the
 *  operation is not reported, and its peer is not gone (peer->bounce.busy).
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_OP_DEVICE_H
#define TRYST_RENDEZVOUS_PROTOCOL_OP_DEVICE_H

#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/wire/wire.h"

/** Device memory that cannot be used is logged at most once in this interval. */
#define DEVICES_LOG_NS (10 * NS_PER_S)

enum device_doing {
    DEVICE_NOTHING,
    DEVICE_HELD, /**< waits for the caller's ready event */
    /** Waits for the start of its kind's driver; the tensor is checked after that. */
    DEVICE_LOADS,
    DEVICE_COPIES, /**< its small tensor is being copied */
};

/** Continues an operation, within the progress domain: its hold or its copy has ended, or
 *  has failed with `status`. */
typedef void device_done_fn(tryst_op *op, tryst_status status);

struct op_device {
    tryst_op *op;
    const struct memory_ops *memory;
    struct tryst_mem *mem; /**< the region that covers the bytes, or NULL */
    void *ready;           /**< the caller's event, until it has passed */
    /** The tensor was accepted before the driver could check it. */
    bool unchecked;
    struct list_node loads_node; /**< DEVICE_LOADS: in rdv->device_loads */
    /** Why the operation is released with an error (a static text). NULL: its ready event
     *  has failed. */
    const char *why;
    struct slot *slot; /**< the pinned slot of a small tensor */
    struct copy copy;
    uint8_t doing;        /**< enum device_doing */
    device_done_fn *done; /**< called once `doing` has ended */
};

/** Open the streams of the device's transfers. In the progress domain. */
void op_device_prepare(struct rendezvous *rdv, const struct memory_ops *memory,
                       int32_t device);
/** Return the functions of a memory kind in `*memory_p`, and load its module if need be,
 *  which blocks. Any thread. Returns TRYST_OK, TRYST_E_UNSUPPORTED or TRYST_E_MODULE; the
 *  log has the reason, unless the engine cannot load modules (rdv->host is NULL). */
tryst_status op_device_row(struct rendezvous *rdv, tryst_memory_kind kind,
                           const struct memory_ops **memory_p);
/** Check a tensor that names a region, a ready event, or device memory
 *  (op_memory_check). */
tryst_status op_memory_check_named(struct rendezvous *rdv, const tryst_tensor *tensor,
                                   size_t bytes);
/** Check whether the memory of the tensor, of `bytes`, may be submitted. Any thread;
 *  never blocks. Returns TRYST_OK, TRYST_E_INVALID (a region that does not cover the
 *  tensor, no such device, not its memory; the log has the reason; or an event for host
 *  memory), or a status of op_device_row. TRYST_IN_PROGRESS: the driver starts; the check
 *  follows (op_device_open, `unchecked`). */
static inline tryst_status op_memory_check(struct rendezvous *rdv,
                                           const tryst_tensor *tensor, size_t bytes)
{
    bool plain = tensor->memory == TRYST_MEMORY_HOST && !tensor->mem;
    return __builtin_expect(plain && !tensor->ready_event, 1)
               ? TRYST_OK
               : op_memory_check_named(rdv, tensor, bytes);
}
/** Return the region that the tensor names or, if it names none and is large enough for
 *  bulk, one that covers its `bytes`. NULL: there is none. Any thread. */
static inline struct tryst_mem *op_memory_find(const struct rendezvous *rdv,
                                               const tryst_tensor *tensor, uint64_t bytes)
{
    return tensor->mem || bytes <= EAGER_BYTES_LIMIT || !rdv->memory
               ? tensor->mem
               : memory_find(rdv->memory, tensor->data, bytes);
}
/** Finish a check that returned TRYST_IN_PROGRESS: blocks while the driver starts. */
tryst_status op_memory_check_now(struct rendezvous *rdv, const tryst_tensor *tensor);
/** Add the record of a device tensor to `op`; `unchecked`: the tensor is checked later.
 *  Any thread. Returns TRYST_OK or TRYST_E_NOMEM. */
tryst_status op_device_open(tryst_op *op, bool unchecked);
/** Release the operations for which the driver has started. */
void op_devices_go_on(struct rendezvous *rdv);
/** Release the operations that wait for the driver of `kind`: its start has ended with
 *  `status`. */
void op_devices_started(struct rendezvous *rdv, tryst_memory_kind kind,
                        tryst_status status, const char *text);
/** Return the reason for which a held operation was released with an error. */
const char *op_device_why(const tryst_op *op);
/** Free the record of a device tensor: no reference to `op` is left. */
void op_device_close(tryst_op *op);

/** Hold `op` while its driver starts or its ready event has not passed. True: `released`
 *  is called unless op_device_unhold comes first. False: the operation goes on now. */
bool op_device_hold(tryst_op *op, device_done_fn *released);
/** End the hold of an operation that was given up. */
void op_device_unhold(tryst_op *op);
/** Fetch the bytes into a slot; `fetched` follows, within this call without memory. */
void op_device_fetch(tryst_op *op, device_done_fn *fetched);
/** Copy DATA's bytes to the device: `placed` follows. False: no memory. */
bool op_device_place(tryst_op *op, const void *payload, size_t bytes,
                     device_done_fn *placed);
/** Free the pinned slot of a small tensor, if there is one: its bytes have been packed or
 *  copied to the device, or are not needed. */
void op_device_slot_drop(tryst_op *op);

/** Send or receive one slice, as the rail's bulk_send and bulk_recv do. `direct`: the
 *  receiver's buffer is in device memory too. `staged`: through a pinned slot. */
tryst_status op_device_bulk_send(tryst_op *op, struct bulk *bulk, bool direct);
tryst_status op_device_bulk_recv(tryst_op *op, struct bulk *bulk, bool staged);
/** True if the status of a bulk reports a failed copy at this rank, not a failure of the
 *  peer. */
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

#endif
