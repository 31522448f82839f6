/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of collectives in rendezvous; see coll_op.h.
 *
 * Idea: a collective is one operation in its step's scope, without a peer, so aborts,
 * closes and deadlines apply to it as to all others. Its work is done by the engine
 * above.
 */
#include "coll_op.h"

#include <inttypes.h>
#include <string.h>

#include "core/log/trace_text.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "core/text/refuse.h"
#include "op_begin.h"
#include "rendezvous/copier/copier.h"
#include "rendezvous/copier/shadows.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/abort.h"
#include "rendezvous/peer/group.h"
#include "rendezvous/peer/loss.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/protocol/op_device.h"
#include "step.h"

/* ---- steps, groups and keys -------------------------------------------------------- */

tryst_group *step_group(const tryst_step *step)
{
    return step->group;
}

void *group_colls(const tryst_group *group)
{
    return group->rdv->coll_calls.arg;
}

bool group_is_spread(const tryst_group *group)
{
    const struct roster *roster = &group->roster;
    for (int rank = 1; rank < roster->size; rank++)
        if (roster->ranks[rank].host != roster->ranks[0].host)
            return true;
    return false;
}

tryst_status group_check(const tryst_group *group, const char *call)
{
    tryst_status status = rendezvous_usable(group->rdv);
    return status == TRYST_OK ? status : refuse_unusable(call, status);
}

/* Check the ready event of a tensor in host memory. */
static tryst_status event_check(struct rendezvous *rdv, int32_t device, void *event)
{
    const tryst_tensor of_device = {
        .struct_size = sizeof of_device, .memory = TRYST_MEMORY_CUDA, .device = device};
    tryst_status status = op_memory_check(rdv, &of_device, 0);
    if (status != TRYST_OK)
        return status;
    status = memory_ops_get(TRYST_MEMORY_CUDA)->event_query(device, event);
    return status == TRYST_E_INVALID ? status : TRYST_OK;
}

/* Check a tensor in host memory that has a ready event. */
static tryst_status late_check(struct rendezvous *rdv, const tryst_tensor *tensor,
                               uint64_t bytes)
{
    tryst_tensor memory = *tensor;
    tryst_status status = event_check(rdv, tensor->device, tensor->ready_event);
    memory.ready_event = NULL;
    return status == TRYST_OK ? op_memory_check(rdv, &memory, bytes) : status;
}

tryst_status group_memory_check(const tryst_group *group, tryst_tensor *tensor,
                                uint64_t bytes)
{
    struct rendezvous *rdv = group->rdv;
    bool is_late = tensor->memory == TRYST_MEMORY_HOST && tensor->ready_event;
    tryst_status status =
        is_late ? late_check(rdv, tensor, bytes) : op_memory_check(rdv, tensor, bytes);
    if (status == TRYST_OK)
        tensor->mem = op_memory_find(rdv, tensor, bytes);
    return status;
}

const struct memory_ops *coll_tensor_ops(const tryst_tensor *tensor)
{
    bool is_host = tensor->memory == TRYST_MEMORY_HOST;
    return memory_ops_get(is_host && tensor->ready_event ? TRYST_MEMORY_CUDA
                                                         : tensor->memory);
}

tryst_status group_copier_open(tryst_group *group, uint64_t pinned_max,
                               struct copier **copier_p, struct shadows **shadows_p)
{
    struct rendezvous *rdv = group->rdv;
    struct copier_params params = {
        .closed = &rdv->gates.closed, .log = rdv->log, .trace = rdv->trace};
    tryst_status status = shadows_open(rdv->memory, rdv->log, pinned_max, shadows_p);
    if (status != TRYST_OK)
        return status;
    params.shadows = *shadows_p;
    status = copier_open(&params, copier_p);
    if (status != TRYST_OK) {
        shadows_close(*shadows_p);
        *shadows_p = NULL;
    }
    return status;
}

tryst_status group_key(const tryst_group *group, int src, int dst, const char *edge,
                       tryst_key **key_p)
{
    char string[TRYST_KEY_MAX + 1];
    struct err err = ERR_INIT;
    tryst_status status =
        key_build(&group->roster, src, dst, edge, 0, 0, string, sizeof string);
    if (status != TRYST_OK)
        return status;
    /* Take the key from the cache of recent keys, so that a WANT that comes first finds
     * the same object. */
    status = keys_get(&group->rdv->scopes.keys, &group->roster, string, strlen(string),
                      &err, key_p);
    return status == TRYST_OK ? status : refuse_err(&err, status);
}

tryst_key *name_key(const char *name)
{
    size_t bytes = strlen(name);
    tryst_key *key = mem_zalloc(sizeof *key + bytes + 1);
    if (!key)
        return NULL;
    atomic_init(&key->refs, 1);
    key->src_rank = key->dst_rank = -1;
    key->bytes = (uint16_t)bytes;
    key->hash = hash_bytes(name, bytes);
    memcpy(key->string, name, bytes + 1);
    return key;
}

/* ---- any thread -------------------------------------------------------------------- */

/* Begin a submitted collective; of equally urgent ones, all ranks begin with the same. */
static void coll_op_run(struct rendezvous *rdv, struct submission *submission)
{
    const struct coll_calls *calls = &rdv->coll_calls;
    tryst_op *op = container_of(submission, tryst_op, submit);
    void *coll = op->coll;
    bool begun = op_begin(op, op->step->scope, op->key->hash | UINT64_C(1) << 63);
    calls->begin(calls->arg, coll, begun ? op : NULL);
}

tryst_status coll_op_submit(tryst_step *step, tryst_key *label,
                            const tryst_op_params *params, void *coll, bool copies,
                            tryst_op **op_p)
{
    const struct coll_calls *calls = &step->rdv->coll_calls;
    /* acquire: pairs with the releases in step.c. */
    if (atomic_load_explicit(&step->status, memory_order_acquire) != TRYST_OK)
        return refuse(TRYST_E_ABORTED,
                      "cannot submit: step %" PRIu64
                      " was aborted; tryst_step_status has the reason",
                      step->id);
    tryst_op *op = op_open(step->rdv, OP_COLL);
    if (!op)
        return refuse_nomem("submit");
    op_key_set(op, label);
    op->step = step;
    op->step_id = step->id;
    op_tensor_set(op, NULL, 0);
    op->coll = coll;
    if (copies)
        atomic_init(&op->streams, OP_STREAMS_UNBEGUN);
    if (params)
        op_params_set(op, params);
    if (calls->submitted)
        calls->submitted(calls->arg, op);
    if (op_p)
        *op_p = op;
    op->submit.run = coll_op_run;
    rendezvous_submit(op->rdv, &op->submit);
    if (!op_p)
        op_unref(op);
    return TRYST_OK;
}

/* ---- in the progress domain -------------------------------------------------------- */

void coll_op_abort(tryst_op *op, tryst_status status, const char *text)
{
    rendezvous_abort(op->rdv, op->step_id, status, op->rdv->group->roster.rank,
                     clock_wall_ns(), text, NULL);
}

void coll_op_trace(const tryst_op *op, const char *kind, uint32_t trees)
{
    static const struct trace_labels labels = {.arg = {"bytes", "trees", "name"},
                                               .texts = 1u << 2};
    struct trace *trace = op->rdv->trace;
    if (trace)
        trace_async(trace, kind, &labels, op->submitted_ns, trace_now_ns(trace),
                    op->bytes, trees,
                    (uint64_t)(uintptr_t)trace_text(trace, op->key->string));
}

bool coll_op_loss_text(const tryst_op *op, int32_t rank, const char *before, char *text,
                       size_t capacity)
{
    const struct peer *peer = op->rdv->group->peers[rank];
    return peer && peer_loss_text(peer, before, text, capacity);
}

bool coll_op_is_connected(const tryst_op *op, int32_t rank)
{
    const struct peer *peer = op->rdv->group->peers[rank];
    return peer && peer_is_alive(peer) && peer->endpoint.state == PEER_EP_READY;
}

void coll_op_queue(const tryst_op *op, struct submission *submission)
{
    rendezvous_queue(op->rdv, submission);
}

int32_t coll_op_rank(const tryst_op *op)
{
    return op->rdv->group->roster.rank;
}
