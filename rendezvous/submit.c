/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_send and tryst_recv: check the caller's arguments, open the operation, submit it.
 *
 * Idea: a submission is one allocation from a pool and a run in the progress domain: at
 * once if the lock is free, else after one push on a lock-free list.
 *
 * Invariant: a refused call leaves no trace; an accepted one completes exactly once.
 */
#include <inttypes.h>
#include <string.h>

#include "core/text/refuse.h"
#include "op_begin.h"
#include "rendezvous/op/dtype.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/progress/live_gather.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/protocol/consumer.h"
#include "rendezvous/protocol/frames.h"
#include "rendezvous/protocol/op_device.h"
#include "rendezvous/protocol/producer.h"
#include "step.h"
#include "tryst/sized.h"

/* ---- in the progress domain -------------------------------------------------------- */

/* Start a send or a receive. `owns_key` false: op->key is the caller's reference. */
__attribute__((noinline)) static void op_submit_run(struct rendezvous *rdv, tryst_op *op,
                                                    bool owns_key)
{
    bool begun = op_begin(op, op->step->scope, 0);
    if (!owns_key)
        op->key = begun ? entry_key_take(op->entry) : prepared_ref(op->key);
    if (!begun)
        return;
    if (op->kind == OP_RECV)
        consumer_submit(op);
    else if (producer_submit(op) && !(rdv->ran_inline && peer_send_now(op)))
        records_queue(op, QUEUED_DATA); /* shares a frame with others */
    /* Completions are delivered at the end of a pass, so `op` is still valid here. */
    if (rdv->live && !op->reported)
        live_op_begin(rdv->live, op, op->key, op->peer->rank);
}

static void op_submit_queued(struct rendezvous *rdv, struct submission *submission)
{
    op_submit_run(rdv, container_of(submission, tryst_op, submit), true);
}

/* ---- arguments --------------------------------------------------------------------- */

static tryst_status tensor_check(struct rendezvous *rdv, const tryst_tensor *tensor,
                                 bool dead)
{
    size_t element = dtype_bytes(tensor->dtype);
    if (!element)
        return refuse(
            TRYST_E_INVALID,
            "cannot submit: tensor->dtype is %d; the dtypes are 1 (u8) to %d (%s)",
            (int)tensor->dtype, DTYPES - 1, dtypes[DTYPES - 1].name);
    if (tensor->count > UINT64_MAX / 2 / DTYPE_BYTES_MAX)
        return refuse(TRYST_E_INVALID,
                      "cannot submit: tensor->count is %" PRIu64 "; at most %" PRIu64
                      " elements",
                      tensor->count, UINT64_MAX / 2 / DTYPE_BYTES_MAX);
    if (tensor->count && !tensor->data && !dead)
        return refuse(TRYST_E_INVALID,
                      "cannot submit: tensor->data is NULL; %" PRIu64
                      " elements need memory",
                      tensor->count);
    tryst_status status = op_memory_check(rdv, tensor, tensor->count * element);
    if (status != TRYST_OK && status != TRYST_IN_PROGRESS)
        return refuse(
            status,
            "cannot submit: memory %d, device %d, mem %p and ready_event %p of the "
            "tensor do not describe its bytes at %p: %s",
            (int)tensor->memory, (int)tensor->device, (void *)tensor->mem,
            tensor->ready_event, tensor->data, tryst_status_str(status));
    return status;
}

static tryst_status params_check(struct rendezvous *rdv, enum op_kind kind,
                                 const tryst_tensor *tensor,
                                 const tryst_op_params *params)
{
    uint32_t known =
        TRYST_OP_PRIORITY | TRYST_OP_BACKGROUND | (kind == OP_SEND ? TRYST_OP_DEAD : 0);
    bool alloc = params && params->alloc;
    if (params && (params->flags & ~known))
        return refuse(
            TRYST_E_INVALID, "cannot submit: params->flags has the unknown bits 0x%x%s",
            params->flags & ~known,
            params->flags & ~known & TRYST_OP_DEAD ? "; TRYST_OP_DEAD is for sends alone"
                                                   : "");
    if (params && params->priority && !(params->flags & TRYST_OP_PRIORITY))
        return refuse_priority(params->priority);
    if (alloc && kind == OP_RECV && !tensor)
        return TRYST_OK;
    if (alloc)
        return refuse(TRYST_E_INVALID, "cannot submit: params->alloc is set %s",
                      kind == OP_RECV ? "beside a tensor; give one of the two"
                                      : "for a send; only receives have it");
    if (!tensor)
        return refuse_null("submit", "tensor");
    return tensor_check(rdv, tensor, params && (params->flags & TRYST_OP_DEAD));
}

/* Check that the key names this rank on this side, and the present incarnation of the
 * producer. */
static tryst_status key_check(enum op_kind kind, const tryst_group *group,
                              const tryst_key *key)
{
    const struct roster *roster = &group->roster;
    int here = kind == OP_SEND ? key->src_rank : key->dst_rank;
    if (here != roster->rank)
        return refuse(
            TRYST_E_KEY, "cannot %s: the key's %s is rank %d, this is rank %d: %s",
            kind == OP_SEND ? "send" : "receive",
            kind == OP_SEND ? "source" : "destination", here, roster->rank, key->string);
    int there = kind == OP_SEND ? key->dst_rank : key->src_rank;
    if (__builtin_expect(there >= roster->size, 0))
        return refuse(TRYST_E_KEY,
                      "cannot %s: the key names rank %d, and this group has %d ranks: "
                      "make new keys for each group: %s",
                      kind == OP_SEND ? "send" : "receive", there, roster->size,
                      key->string);
    uint64_t incarnation = roster->ranks[key->src_rank].incarnation;
    if (key->src_incarnation == incarnation)
        return TRYST_OK;
    return refuse(TRYST_E_INCARNATION,
                  "cannot %s: the key has incarnation %016" PRIx64
                  ", rank %d has %016" PRIx64 ": make new keys for each group",
                  kind == OP_SEND ? "send" : "receive", key->src_incarnation,
                  key->src_rank, incarnation);
}

static void op_params_copy(tryst_op *op, const tryst_tensor *tensor,
                           const tryst_op_params *params)
{
    op_tensor_set(op, tensor, tensor ? tensor->count * dtype_bytes(tensor->dtype) : 0);
    if (tensor)
        op->tensor.mem = op_memory_find(op->rdv, tensor, op->bytes);
    if (!params)
        return;
    op_params_set(op, params);
    op->alloc = params->alloc;
    op->alloc_arg = params->alloc_arg;
}

static tryst_status op_submit(enum op_kind kind, tryst_step *step, tryst_key *key,
                              const tryst_tensor *tensor, const tryst_op_params *params,
                              tryst_op **op_p);

/* Submit structs of another version, converted to this version's. */
static __attribute__((noinline)) tryst_status op_submit_converted(
    enum op_kind kind, tryst_step *step, tryst_key *key, const tryst_tensor *tensor,
    const tryst_op_params *params, tryst_op **op_p)
{
    tryst_tensor own_tensor;
    tryst_op_params own_params = {.struct_size = sizeof own_params};
    if (tensor && !tryst_sized_read(&own_tensor, sizeof own_tensor, tensor))
        return refuse(TRYST_E_INVALID, "cannot submit: tensor: %s",
                      tryst_sized_reason(tensor));
    if (params && !tryst_sized_read(&own_params, sizeof own_params, params))
        return refuse(TRYST_E_INVALID, "cannot submit: params: %s",
                      tryst_sized_reason(params));
    return op_submit(kind, step, key, tensor ? &own_tensor : NULL, &own_params, op_p);
}

static tryst_status op_submit(enum op_kind kind, tryst_step *step, tryst_key *key,
                              const tryst_tensor *tensor, const tryst_op_params *params,
                              tryst_op **op_p)
{
    struct rendezvous *rdv = step->rdv;
    tryst_status status = rendezvous_usable(rdv);
    if (status != TRYST_OK)
        return refuse_unusable("submit", status);
    if ((tensor && !tryst_sized_is_current(tensor, sizeof *tensor)) ||
        (params && !tryst_sized_is_current(params, sizeof *params)))
        return op_submit_converted(kind, step, key, tensor, params, op_p);
    status = params_check(rdv, kind, tensor, params);
    /* the device's driver is starting */
    bool unchecked = status == TRYST_IN_PROGRESS;
    if (status == TRYST_OK || unchecked)
        status = key_check(kind, step->group, key);
    if (status != TRYST_OK)
        return status;
    /* acquire: pairs with the releases in step.c. */
    if (atomic_load_explicit(&step->status, memory_order_acquire) != TRYST_OK)
        return refuse(TRYST_E_ABORTED,
                      "cannot submit: step %" PRIu64
                      " was aborted; tryst_step_status has the reason",
                      step->id);
    tryst_op *op = op_open(rdv, kind);
    if (!op)
        return refuse_nomem("submit");
    op_params_copy(op, tensor, params);
    if (__builtin_expect(op->tensor.memory != TRYST_MEMORY_HOST, 0) &&
        op_device_open(op, unchecked) != TRYST_OK) {
        pool_put(rdv->ops, op);
        return refuse_nomem("submit");
    }
    op->key = key;
    op->step = step;
    op->step_id = step->id;
    op->submit.run = op_submit_queued;
    if (op_p)
        *op_p = op;
    if (!op->alloc && submissions_enter(rdv)) { /* rendezvous_submit, by a direct call */
        op_submit_run(rdv, op, false);
        submissions_leave(rdv);
    } else {
        op_key_set(op, key);
        rendezvous_queue(rdv, &op->submit);
    }
    if (!op_p)
        op_unref(op);
    return TRYST_OK;
}

static tryst_status op_submit_string(enum op_kind kind, tryst_step *step,
                                     const char *string, const tryst_tensor *tensor,
                                     const tryst_op_params *params, tryst_op **op_p)
{
    tryst_key *key;
    if (!step || !string)
        return refuse_null("submit", step ? "key" : "step");
    tryst_status status = tryst_key_prepare(step->group, string, &key);
    if (status != TRYST_OK)
        return status;
    status = op_submit(kind, step, key, tensor, params, op_p);
    tryst_key_release(key);
    return status;
}

/* ---- public ------------------------------------------------------------------------ */

tryst_status tryst_send(tryst_step *step, const char *key, const tryst_tensor *tensor,
                        const tryst_op_params *params, tryst_op **op_p)
{
    return op_submit_string(OP_SEND, step, key, tensor, params, op_p);
}

tryst_status tryst_recv(tryst_step *step, const char *key, const tryst_tensor *tensor,
                        const tryst_op_params *params, tryst_op **op_p)
{
    return op_submit_string(OP_RECV, step, key, tensor, params, op_p);
}

tryst_status tryst_send_key(tryst_step *step, const tryst_key *key,
                            const tryst_tensor *tensor, const tryst_op_params *params,
                            tryst_op **op_p)
{
    if (!step || !key)
        return refuse_null("submit", step ? "key" : "step");
    return op_submit(OP_SEND, step, (tryst_key *)key, tensor, params, op_p);
}

tryst_status tryst_recv_key(tryst_step *step, const tryst_key *key,
                            const tryst_tensor *tensor, const tryst_op_params *params,
                            tryst_op **op_p)
{
    if (!step || !key)
        return refuse_null("submit", step ? "key" : "step");
    return op_submit(OP_RECV, step, (tryst_key *)key, tensor, params, op_p);
}
