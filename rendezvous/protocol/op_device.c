/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on device memory (op_device.h).
 *
 * Invariant: a held operation, or one that copies, has its own hold (op_hold).
 */
#include "op_device.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/protocol/wire/wire.h"
#include "transports/device.h"

/* ---- submitted --------------------------------------------------------------------- */

static void row_missing_log(struct rendezvous *rdv, tryst_memory_kind kind,
                            const char *text)
{
    LOG_WARN_LIMITED(rdv->log, &rdv->limits.devices, DEVICES_LOG_NS,
                     "cannot use a tensor in memory of kind %d: %s", (int)kind, text);
}

tryst_status op_device_row(struct rendezvous *rdv, tryst_memory_kind kind,
                           const struct memory_ops **memory_p)
{
    char text[TRANSPORT_TEXT_MAX];
    *memory_p = memory_ops_get(kind);
    if (*memory_p)
        return TRYST_OK;
    if (!rdv->host)
        return TRYST_E_UNSUPPORTED;
    tryst_status status = memory_ops_load(rdv->host, kind, memory_p, text);
    if (status != TRYST_OK)
        row_missing_log(rdv, kind, text);
    return status;
}

/* Do as op_device_row without blocking: TRYST_IN_PROGRESS while the driver starts. */
static tryst_status row_get_nonblocking(struct rendezvous *rdv,
                                        const tryst_tensor *tensor,
                                        const struct memory_ops **memory_p)
{
    *memory_p = memory_ops_get(tensor->memory);
    if (*memory_p || !rdv->device_start)
        return op_device_row(rdv, tensor->memory, memory_p);
    tryst_status status = rdv->device_start(rdv->ctx, tensor->memory, tensor->device);
    return status == TRYST_OK ? op_device_row(rdv, tensor->memory, memory_p) : status;
}

/* Log the difference between the tensor's fields and the driver's answer. */
static void tensor_mismatch_log(struct rendezvous *rdv, const tryst_tensor *tensor,
                                const struct memory_ops *memory, tryst_status located,
                                int32_t device)
{
    char why[TRANSPORT_TEXT_MAX];
    if (located == TRYST_OK)
        (void)snprintf(why, sizeof why, "its memory is on device %d", (int)device);
    else
        (void)snprintf(why, sizeof why, "%s", memory->error_text());
    LOG_WARN_LIMITED(rdv->log, &rdv->limits.devices, DEVICES_LOG_NS,
                     "cannot use the tensor at %p: not in memory of %s device %d, which "
                     "its fields memory and device name: %s",
                     tensor->data, memory->name, (int)tensor->device, why);
}

static void region_mismatch_log(struct rendezvous *rdv, const tryst_tensor *tensor,
                                size_t bytes)
{
    LOG_WARN_LIMITED(
        rdv->log, &rdv->limits.devices, DEVICES_LOG_NS,
        "cannot use the tensor of %zu bytes at %p: its field mem must be a region "
        "of this context that covers it, of the same kind and device of memory",
        bytes, tensor->data);
}

/* True if the tensor names no region, or names one of this context that covers all its
 * bytes. */
static inline bool region_fits(const struct rendezvous *rdv, const tryst_tensor *tensor,
                               size_t bytes)
{
    return !tensor->mem || !bytes || !tensor->data ||
           memory_covers(rdv->memory, tensor->mem, tensor->memory, tensor->device,
                         tensor->data, bytes);
}

/* Check that the driver of `memory` agrees with the tensor's fields. Returns TRYST_OK or
 * TRYST_E_INVALID. */
static tryst_status device_locate(struct rendezvous *rdv, const tryst_tensor *tensor,
                                  const struct memory_ops *memory)
{
    int32_t device = tensor->device;
    tryst_status status = TRYST_OK;
    if (tensor->count && tensor->data)
        status = memory->locate(tensor->data, &device);
    if (status == TRYST_OK && device == tensor->device)
        return TRYST_OK;
    tensor_mismatch_log(rdv, tensor, memory, status, device);
    return TRYST_E_INVALID;
}

/* Check a tensor in device memory. */
__attribute__((noinline)) static tryst_status device_check(struct rendezvous *rdv,
                                                           const tryst_tensor *tensor)
{
    const struct memory_ops *memory;
    tryst_status status = row_get_nonblocking(rdv, tensor, &memory);
    return status == TRYST_OK ? device_locate(rdv, tensor, memory) : status;
}

tryst_status op_memory_check_named(struct rendezvous *rdv, const tryst_tensor *tensor,
                                   size_t bytes)
{
    if (!region_fits(rdv, tensor, bytes)) {
        region_mismatch_log(rdv, tensor, bytes);
        return TRYST_E_INVALID;
    }
    if (tensor->memory != TRYST_MEMORY_HOST)
        return device_check(rdv, tensor);
    /* Host memory has no ready event. */
    return tensor->ready_event ? TRYST_E_INVALID : TRYST_OK;
}

tryst_status op_memory_check_now(struct rendezvous *rdv, const tryst_tensor *tensor)
{
    const struct memory_ops *memory;
    tryst_status status = op_device_row(rdv, tensor->memory, &memory);
    return status == TRYST_OK ? device_locate(rdv, tensor, memory) : status;
}

tryst_status op_device_open(tryst_op *op, bool unchecked)
{
    struct rendezvous *rdv = op->rdv;
    struct op_device *device = pool_get(rdv->devices);
    if (!device)
        return TRYST_E_NOMEM;
    *device = (struct op_device){.op = op,
                                 .memory = memory_ops_get(op->tensor.memory),
                                 .unchecked = unchecked,
                                 .mem = op->tensor.mem,
                                 .ready = op->tensor.ready_event};
    if (!device->mem && rdv->memory && op->bytes)
        device->mem = memory_find(rdv->memory, op->tensor.data, op->bytes);
    op->device = device;
    return TRYST_OK;
}

void op_device_close(tryst_op *op)
{
    pool_put(op->rdv->devices, op->device);
    op->device = NULL;
}

/* ---- one copy at a time ------------------------------------------------------------ */

/* Return the bounce buffers. The first call adds their rail, so that passes progress
 * it. */
static struct bounce *bounce_of(struct rendezvous *rdv)
{
    if (!rdv->bounce_listed) {
        rdv->rails[rdv->rails_count].rail = &rdv->bounce.rail;
        /* No peer is on this rail. */
        rdv->rails[rdv->rails_count++].kind = TRANSPORT_KINDS;
        rdv->bounce_listed = true;
    }
    return &rdv->bounce;
}

void op_device_prepare(struct rendezvous *rdv, const struct memory_ops *memory,
                       int32_t device)
{
    copies_prepare(&rdv->bounce.copies, memory, device);
}

static void copy_start(struct op_device *device, enum device_doing doing,
                       const struct copy *model)
{
    device->doing = (uint8_t)doing;
    device->copy = *model;
    device->copy.memory = device->memory;
    device->copy.device = device->op->tensor.device;
    device->copy.ready = device->ready;
    op_hold(device->op);
    copies_start(&bounce_of(device->op->rdv)->copies, &device->copy);
}

static void held_done(struct copy *copy, tryst_status status)
{
    struct op_device *device = container_of(copy, struct op_device, copy);
    tryst_op *op = device->op;
    if (device->doing == DEVICE_HELD) { /* else it was given up meanwhile */
        device->doing = DEVICE_NOTHING;
        device->ready = NULL;
        device->done(op, status);
    }
    op_unhold(op);
}

const char *op_device_why(const tryst_op *op)
{
    return op->device->why
               ? op->device->why
               : "the tensor's ready event failed: the device reported an error";
}

/* Hold an operation, which has a number already, until the driver has started and the
 * tensor can be checked. Where the driver has started since the submission, the end of
 * this pass checks it. */
static void loads_hold(tryst_op *op)
{
    struct op_device *device = op->device;
    const struct memory_ops *memory;
    device->doing = DEVICE_LOADS;
    op_hold(op);
    list_push_back(&op->rdv->device_loads, &device->loads_node);
    if (row_get_nonblocking(op->rdv, &op->tensor, &memory) != TRYST_IN_PROGRESS)
        engine_reap_soon(op->rdv);
}

/* Release an operation: its driver has started (`memory` is set), or has failed with
 * `status`. */
static void loads_end(struct op_device *device, const struct memory_ops *memory,
                      tryst_status status)
{
    tryst_op *op = device->op;
    list_remove(&device->loads_node);
    device->doing = DEVICE_NOTHING;
    device->memory = memory;
    device->why = "cannot use device memory: the driver did not start; see the log";
    if (memory) {
        status = device_locate(op->rdv, &op->tensor, memory);
        device->why = "cannot use the tensor: not in memory of the device that it names";
    }
    device->unchecked = false;
    if (status == TRYST_OK)
        device->why = NULL;
    if (status != TRYST_OK || !op_device_hold(op, device->done))
        device->done(op, status);
    op_unhold(op);
}

void op_devices_go_on(struct rendezvous *rdv)
{
    list_for_each_safe (&rdv->device_loads, node, after) {
        struct op_device *device = container_of(node, struct op_device, loads_node);
        const struct memory_ops *memory;
        tryst_status status = row_get_nonblocking(rdv, &device->op->tensor, &memory);
        if (status != TRYST_IN_PROGRESS)
            loads_end(device, memory, status);
    }
}

void op_devices_started(struct rendezvous *rdv, tryst_memory_kind kind,
                        tryst_status status, const char *text)
{
    if (status != TRYST_OK)
        row_missing_log(rdv, kind, text);
    list_for_each_safe (&rdv->device_loads, node, after) {
        struct op_device *device = container_of(node, struct op_device, loads_node);
        if (device->op->tensor.memory == kind)
            loads_end(device, memory_ops_get(kind), status);
    }
}

bool op_device_hold(tryst_op *op, device_done_fn *released)
{
    struct op_device *device = op->device;
    device->done = released;
    if (__builtin_expect(device->unchecked, 0)) {
        loads_hold(op);
        return true;
    }
    if (!device->ready)
        return false;
    if (device->memory->event_query(op->tensor.device, device->ready) == TRYST_OK) {
        device->ready = NULL;
        return false;
    }
    copy_start(device, DEVICE_HELD, &(struct copy){.done = held_done});
    return true;
}

void op_device_unhold(tryst_op *op)
{
    struct op_device *device = op->device;
    bool loads = device->doing == DEVICE_LOADS;
    device->doing = DEVICE_NOTHING;
    if (loads) {
        list_remove(&device->loads_node);
        op_unhold(op);
        return;
    }
    if (copies_drop(&op->rdv->bounce.copies, &device->copy))
        op_unhold(op);
}

/* ---- small tensors ----------------------------------------------------------------- */

/* `bounce` does not count these slots, so they must not be ones that its slices wait
 * for. */
static_assert(EAGER_BYTES_LIMIT <= SLOT_SMALL_BYTES, "a class without a limit");

static bool device_slot_get(tryst_op *op, enum copy_way way, size_t bytes)
{
    struct op_device *device = op->device;
    device->slot = slots_get(&bounce_of(op->rdv)->slots, device->memory,
                             op->tensor.device, way, bytes);
    return device->slot != NULL;
}

void op_device_slot_drop(tryst_op *op)
{
    enum copy_way way = op->kind == OP_SEND ? COPY_OUT : COPY_IN;
    if (op->device->slot)
        slots_put(&op->rdv->bounce.slots, way, op->device->slot);
    op->device->slot = NULL;
}

static void copy_enter(tryst_op *op)
{
    bounce_lane_enter(&op->peer->bounce);
}

static void copy_leave(tryst_op *op)
{
    op->device->doing = DEVICE_NOTHING;
    bounce_lane_leave(&op->rdv->bounce, &op->peer->bounce);
    op_unhold(op);
}

static void fetch_done(struct copy *copy, tryst_status status)
{
    struct op_device *device = container_of(copy, struct op_device, copy);
    device->done(device->op, status);
    copy_leave(device->op);
}

void op_device_fetch(tryst_op *op, device_done_fn *fetched)
{
    op->device->done = fetched;
    if (!device_slot_get(op, COPY_OUT, op->bytes)) {
        fetched(op, TRYST_E_NOMEM);
        return;
    }
    copy_enter(op);
    copy_start(op->device, DEVICE_COPIES,
               &(struct copy){.done = fetch_done,
                              .way = COPY_OUT,
                              .dst = op->device->slot->data,
                              .src = op->tensor.data,
                              .bytes = op->bytes});
}

static void place_done(struct copy *copy, tryst_status status)
{
    struct op_device *device = container_of(copy, struct op_device, copy);
    op_device_slot_drop(device->op);
    device->done(device->op, status);
    copy_leave(device->op);
}

bool op_device_place(tryst_op *op, const void *payload, size_t bytes,
                     device_done_fn *placed)
{
    if (!device_slot_get(op, COPY_IN, bytes))
        return false;
    memcpy(op->device->slot->data, payload, bytes);
    op->device->done = placed;
    copy_enter(op);
    copy_start(op->device, DEVICE_COPIES,
               &(struct copy){.done = place_done,
                              .way = COPY_IN,
                              .dst = op->tensor.data,
                              .src = op->device->slot->data,
                              .bytes = bytes});
    return true;
}

/* ---- bulk -------------------------------------------------------------------------- */

static void bulk_set(const tryst_op *op, struct bulk *bulk)
{
    bulk->memory = op->device->memory;
    bulk->device = op->tensor.device;
    bulk->mem = op->device->mem;
}

tryst_status op_device_bulk_send(tryst_op *op, struct bulk *bulk, bool direct)
{
    struct peer *peer = op->peer;
    bulk_set(op, bulk);
    return bounce_send(bounce_of(op->rdv), &peer->bounce, peer->endpoint.ep, bulk,
                       direct);
}

tryst_status op_device_bulk_recv(tryst_op *op, struct bulk *bulk, bool staged)
{
    struct peer *peer = op->peer;
    bulk_set(op, bulk);
    if (!staged)
        return peer->endpoint.ep->rail->ops->bulk_recv(peer->endpoint.ep, bulk);
    return bounce_recv(bounce_of(op->rdv), &peer->bounce, peer->endpoint.ep, bulk);
}

bool op_device_copy_failed(tryst_status status)
{
    return status == TRYST_E_SYSTEM || status == TRYST_E_NOMEM ||
           status == TRYST_E_INVALID || status == TRYST_E_UNSUPPORTED;
}
