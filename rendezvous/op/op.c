/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an operation: references, completion, and the states that op.h draws.
 *
 * Invariants: an operation is reported exactly once, and ended only after it was
 * reported; `outcome` is the last field written before its user may see the completion,
 * after its callback has run.
 */
#include "op.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/log/trace_text.h"
#include "core/memory/alloc.h"
#include "core/os/fork.h"
#include "core/text/refuse.h"
#include "core/text/status.h"
#include "deadline.h"
#include "engine.h"

/* The operation of the callback that this thread runs; the callback may read the outcome
 * early. initial-exec: an access is one load instead of a call; eight bytes fit the room
 * that the loader reserves for libraries that are loaded late. */
static _Thread_local const tryst_op *op_in_callback
    __attribute__((tls_model("initial-exec")));

/* Zero all fields from `kind` on. Cut into pieces small enough for plain stores: for
 * larger ones the compiler takes a string instruction, which processors start slowly. */
static inline void op_clear(tryst_op *op)
{
    enum { CLEARED = sizeof *op - offsetof(tryst_op, kind), PIECE = 64 };
    static_assert(offsetof(tryst_op, rdv) % PIECE == 0, "fields by cache lines");
    static_assert(offsetof(tryst_op, kind) % PIECE == 0, "fields by cache lines");
    uint8_t *at = &op->kind;
#pragma GCC unroll 8
    for (size_t i = 0; i < CLEARED / PIECE; i++, at += PIECE)
        memset(at, 0, PIECE);
    memset(at, 0, CLEARED % PIECE);
}

__attribute__((flatten)) tryst_op *op_open(struct rendezvous *rdv, enum op_kind kind)
{
    tryst_op *op = pool_get(rdv->ops);
    if (!op)
        return NULL;
    op_clear(op);
    op->bytes = op->number = op->submitted_ns = 0;
    op->key = NULL;
    op->step = NULL;
    atomic_init(&op->refs, 2); /* the user's handle, and all holds together */
    op->holds = 1;             /* the protocol's life */
    atomic_init(&op->outcome, TRYST_IN_PROGRESS);
    op->kind = kind;
    op->state = OP_SUBMITTED;
    op->rdv = rdv;
    op->heap_index = SIZE_MAX;
    op->origin_rank = -1;
    return op;
}

void op_ref(tryst_op *op)
{
    /* relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}

void op_free(tryst_op *op)
{
    struct rendezvous *rdv = op->rdv;
    prepared_unref(op->key);
    if (op->text)
        mem_free(op->text);
    if (op->device)
        rdv->op_events->device_close(op);
    pool_put(rdv->ops, op);
    /* relaxed: set before tryst_close returns, and no call may race with the close. */
    if (atomic_load_explicit(&rdv->orphans, memory_order_relaxed))
        engine_orphan_gone(rdv);
}

/* ---- states ------------------------------------------------------------------------ */

static const char *const state_names[] = {"submitted", "posted",  "wanted", "deferred",
                                          "inline",    "matched", "ending", "taken",
                                          "void",      "ended"};

enum {
    POSTED = 1u << OP_POSTED,
    WANTED = 1u << OP_WANTED,
    DEFERRED = 1u << OP_DEFERRED,
    INLINE = 1u << OP_INLINE,
    MATCHED = 1u << OP_MATCHED,
    ENDING = 1u << OP_ENDING,
    TAKEN = 1u << OP_TAKEN,
    VOID = 1u << OP_VOID,
    ENDED = 1u << OP_ENDED
};

const uint16_t op_state_next[OP_KINDS][OP_STATES] = {
    [OP_SEND] = {[OP_SUBMITTED] = POSTED | INLINE | MATCHED | ENDED,
                 [OP_POSTED] = INLINE | MATCHED | VOID | ENDED,
                 [OP_INLINE] = VOID | ENDED,
                 [OP_MATCHED] = ENDING | ENDED,
                 [OP_ENDING] = ENDED,
                 [OP_VOID] = INLINE | ENDED},
    [OP_RECV] = {[OP_SUBMITTED] = POSTED | ENDED,
                 [OP_POSTED] = WANTED | TAKEN | ENDING | VOID | ENDED,
                 [OP_WANTED] = POSTED | DEFERRED | TAKEN | ENDING | ENDED,
                 [OP_DEFERRED] = POSTED | TAKEN | ENDING | VOID | ENDED,
                 [OP_ENDING] = TAKEN | ENDED,
                 [OP_TAKEN] = ENDED,
                 [OP_VOID] = ENDED},
    [OP_STEP_CLOSE] = {[OP_SUBMITTED] = ENDED},
    [OP_COLL] = {[OP_SUBMITTED] = ENDED},
};

void op_state_set(tryst_op *op, enum op_state state)
{
    assert(op_state_next[op->kind][op->state] & 1u << state);
    op->state = (uint8_t)state;
}

const char *op_state_name(const tryst_op *op)
{
    return state_names[op->state];
}

/* ---- texts ------------------------------------------------------------------------- */

void op_title(const tryst_op *op, char text[static OP_TITLE_BYTES])
{
    bool sends = op->kind == OP_SEND;
    if (op->kind == OP_STEP_CLOSE)
        (void)snprintf(text, OP_TITLE_BYTES, "close of step %" PRIu64, op->step_id);
    else if (op->kind == OP_COLL)
        (void)snprintf(text, OP_TITLE_BYTES, "collective %s in step %" PRIu64,
                       op->key ? op->key->string : "", op->step_id);
    else
        (void)snprintf(text, OP_TITLE_BYTES, "%s of %s %s rank %d in step %" PRIu64,
                       sends ? "send" : "receive", op->key->string, sends ? "to" : "from",
                       sends ? op->key->dst_rank : op->key->src_rank, op->step_id);
}

tryst_status op_refuse_failed(const tryst_op *op, tryst_status status)
{
    char title[OP_TITLE_BYTES];
    if (status == TRYST_E_FORKED) /* the caller has set the text */
        return status;
    if (op->text)
        return refuse(status, "%s", op->text);
    op_title(op, title);
    return refuse(status, "%s: %s", title, tryst_status_str(status));
}

void op_text_set(tryst_op *op, const char *text)
{
    if (!op->text)
        op->text = mem_strdup(text);
}

void op_text_drop(tryst_op *op)
{
    mem_free(op->text);
    op->text = NULL;
}

/* Put the title of a failed send or receive before its text. Without memory the text
 * stays as it is. */
static void op_text_title(tryst_op *op)
{
    char title[OP_TITLE_BYTES];
    const char *why = op->text ? op->text : tryst_status_str(op->final);
    op_title(op, title);
    size_t bytes = strlen(title) + strlen(why) + sizeof ": ";
    char *whole = mem_alloc(bytes);
    if (!whole)
        return;
    (void)snprintf(whole, bytes, "%s: %s", title, why);
    mem_free(op->text);
    op->text = whole;
    op->title_bytes = (uint16_t)(strlen(title) + strlen(": "));
}

/* ---- trace ------------------------------------------------------------------------- */

void op_trace_flow(const tryst_op *op, uint64_t at_ns)
{
    static const struct trace_labels labels = {.arg = {"bytes", "peer", "step"}};
    struct trace *trace = op->rdv->trace;
    if (!trace)
        return;
    bool send = op->kind == OP_SEND;
    uint64_t id = op->key->hash ^ (op->queued.seq + 1) * 0x9e3779b97f4a7c15ull ^
                  (op->step_id + 1) * 0xbf58476d1ce4e5b9ull;
    /* Arrows join spans, so each end draws its own span, independent of the engine's
     * caller. */
    trace_span(trace, send ? "leaves" : "arrives", &labels, at_ns,
               trace_now_ns(trace) + 1, op->bytes,
               (uint64_t)op->rdv->op_events->peer_rank(op), op->step_id);
    if (send)
        trace_flow_begin(trace, "transfer", id, at_ns);
    else
        trace_flow_end(trace, "transfer", id, at_ns);
}

void op_trace_slice(const tryst_op *op, uint32_t index)
{
    static const struct trace_labels labels = {.arg = {"slice", "peer", "key"},
                                               .texts = 1u << 2};
    struct trace *trace = op->rdv->trace;
    if (trace)
        trace_instant(trace, op->kind == OP_SEND ? "slice" : "slice arrived", &labels,
                      index, (uint64_t)op->rdv->op_events->peer_rank(op),
                      (uint64_t)(uintptr_t)trace_text(trace, op->key->string));
}

/* Trace the operation as its user sees it: from submission to completion. */
static void op_trace_life(const tryst_op *op)
{
    static const struct trace_labels labels = {.arg = {"bytes", "peer", "key"},
                                               .texts = 1u << 2};
    struct trace *trace = op->rdv->trace;
    if (!trace || !op->peer)
        return;
    trace_async(trace, op->kind == OP_SEND ? "send" : "receive", &labels,
                op->submitted_ns, trace_now_ns(trace), op->bytes,
                (uint64_t)op->rdv->op_events->peer_rank(op),
                (uint64_t)(uintptr_t)trace_text(trace, op->key->string));
}

/* ---- completion -------------------------------------------------------------------- */

void op_used(const tryst_op *op, bool by_callback)
{
    const struct coll_calls *calls = &op->rdv->coll_calls;
    if (op->recorded && calls->used && op->rdv->fork_generation == fork_generation_now())
        calls->used(calls->arg, op, by_callback || op_in_callback);
}

/* Do the rare parts of op_report: failures, flows, the trace. */
__attribute__((noinline)) static void op_report_details(tryst_op *op, const char *text)
{
    struct rendezvous_counters *counters = &op->rdv->counters;
    assert(op->final == TRYST_OK || status_is_outcome(op->final));
    /* The outcome of an aborted operation carries the cause of the abort. */
    if (op->final == TRYST_E_ABORTED && op->scope &&
        op->scope->abort_status != TRYST_OK) {
        op->origin_status = op->scope->abort_status;
        op->origin_rank = op->scope->abort_rank;
    }
    if (text)
        op_text_set(op, text);
    if (op->final != TRYST_OK && op->kind <= OP_RECV && !op->shaped)
        op_text_title(op);
    if (op->flow)
        op->rdv->op_events->flow_ended(op);
    if (op->shaped) { /* a part of an operation; not counted as one */
        counters->operations--;
    } else {
        counters->operations_failed += op->final != TRYST_OK;
    }
    if (op->rdv->trace) {
        op_trace_life(op);
        if (op->kind == OP_RECV && op->final == TRYST_OK)
            op_trace_flow(op, trace_now_ns(op->rdv->trace));
    }
}

void op_report(tryst_op *op, tryst_status status, int32_t origin_rank,
               tryst_status origin_status, const char *text)
{
    struct rendezvous *rdv = op->rdv;
    if (op->reported)
        return;
    op->reported = true;
    op->final = status;
    op->origin_rank = origin_rank;
    op->origin_status = origin_status;
    rdv->counters.operations++;
    if (__builtin_expect(status != TRYST_OK || rdv->trace || op->flow, 0))
        op_report_details(op, text);
    if (op->heap_index != SIZE_MAX)
        deadline_remove(rdv, op);
    if (op->live)
        live_op_forget(rdv->live, op->live);
    op_hold(op);
    list_push_back(&rdv->completed, &op->done_node);
    if (op->scope && op->scope->state == SCOPE_CLOSING)
        rendezvous_reap_later(op->rdv, op->scope); /* the close of the step may end now */
}

void op_end(tryst_op *op)
{
    assert(op->reported && op->state != OP_ENDED);
    struct scope *scope = op->scope;
    op_state_set(op, OP_ENDED);
    list_remove(&op->queued.node);
    (void)urgent_remove(&op->pending_node);
    list_remove(&op->scope_node);
    if (urgent_remove(&op->deferred_node) && op->kind == OP_SEND)
        list_remove(&op->waiting_node);
    list_remove(&op->sent.late_node);
    if (op->id)
        hash_table_remove(&op->rdv->ids.table, &op->by_id);
    op->scope = NULL;
    op->entry = NULL;
    if (scope && scope->state == SCOPE_CLOSING)
        /* Freed at the end of the pass: callers may be walking the scope. */
        rendezvous_reap_later(op->rdv, scope);
    op_unhold(op);
}

int op_complete_all(struct rendezvous *rdv)
{
    int count = 0;
    struct list_node *node;
    while ((node = list_pop_front(&rdv->completed)) != NULL) {
        tryst_op *op = container_of(node, tryst_op, done_node);
        if (op->callback) {
            const tryst_op *outer = op_in_callback;
            op_in_callback = op;
            if (op->kind >= OP_STEP_CLOSE)
                op_used(op, true);
            op->callback(op->callback_arg, op, op->final);
            op_in_callback = outer;
        }
        /* release: all results, to tryst_op_test and tryst_wait. */
        atomic_store_explicit(&op->outcome, op->final, memory_order_release);
        op_unhold(op);
        count++;
    }
    /* relaxed load: this thread alone writes `completions`. release: partner of
     * tryst_wait_any. */
    uint64_t before = atomic_load_explicit(&rdv->completions, memory_order_relaxed);
    atomic_store_explicit(&rdv->completions, before + (uint64_t)count,
                          memory_order_release);
    return count;
}

/* True if this thread is in the callback of `op`, and not in one nested in it. */
static bool op_callback_is_of(const tryst_op *op)
{
    return op_in_callback == op;
}

tryst_status op_pending_outcome(const tryst_op *op)
{
    if (op_callback_is_of(op))
        return op->final;
    return op->rdv->fork_generation != fork_generation_now()
               ? refuse_unusable("complete", TRYST_E_FORKED)
               : TRYST_IN_PROGRESS;
}

bool op_callback_runs(void)
{
    return op_in_callback != NULL;
}

uint64_t op_callback_recorded(void)
{
    const tryst_op *op = op_in_callback;
    return op && op->kind == OP_COLL ? op->recorded : 0;
}
