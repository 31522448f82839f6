/* SPDX-License-Identifier: Apache-2.0 */
/* Hands items on in place, between ranks of one machine.
 *
 * The one idea: the item's bytes stay in the buffer of the rank that made it; the rank
 * that uses it maps the buffer, and reads them there. What travels is a note of 16 bytes
 * with their place. Once the last action that reads them is over, an empty message
 * goes back: the buffer is free again, and the send has ended. So a transfer costs the
 * same at any size, without a copy. (While a rank computes it makes no progress: a copy
 * by the receiver begins only when its action is over.)
 *
 * Why nothing waits for longer than with a copy: the last action that reads an item is in
 * the item's own step, or in a loop in the next one, and the sends of step k are waited
 * for before step k + 2 begins.
 *
 * Invariant: a borrowed item is `used` from its receive until its message back has left,
 * in the scope of its step, which is open until then. Memory of a rank that has died can
 * still be read: the view is this rank's own.
 *
 * Both ranks must know what is lent before the first item moves. The rank that uses items
 * begins; the rank that makes them answers if its buffers can be mapped there. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine.h"
#include "engine_action.h"
#include "engine_lent.h"
#include "engine_transfer.h"

/* Pause between two tries to map a region that is not announced yet. */
#define VIEW_PAUSE_NS 20000

bool engine_is_lent(const tryst_engine *engine, const struct engine_transfer *self,
                    bool sends)
{
    const bool *lent = sends ? engine->lents.to : engine->lents.from;
    return lent && lent[self->peer];
}

/* ---- what is lent ------------------------------------------------------------------ */

/* Send a word to a rank, or receive its word. */
static tryst_status word_post(tryst_engine *engine, int from, int to, const char *edge,
                              uint8_t *word, tryst_op **op_p)
{
    char key[TRYST_KEY_MAX + 1];
    const tryst_tensor tensor = {
        .struct_size = sizeof tensor, .data = word, .count = 1, .dtype = TRYST_DTYPE_U8};
    tryst_key *prepared = NULL;
    tryst_step *step = engine->scopes[engine->frame->number % 3].step;
    tryst_status status =
        tryst_key_build(engine->params.group, from, to, edge, 0, 0, key, sizeof key);
    if (status == TRYST_OK) {
        status = tryst_key_prepare(engine->params.group, key, &prepared);
    }
    if (status == TRYST_OK) {
        status = from == engine->rank
                     ? tryst_send_key(step, prepared, &tensor, NULL, op_p)
                     : tryst_recv_key(step, prepared, &tensor, NULL, op_p);
    }
    tryst_key_release(prepared);
    return status;
}

static tryst_status agree_failed(tryst_engine *engine, int rank, const tryst_op *op,
                                 tryst_status status)
{
    char words[96];
    snprintf(words, sizeof words, "agreeing with rank %d on how items move", rank);
    return status == TRYST_E_TIMEOUT ? engine_late(engine, words)
                                     : engine_op_failed(engine, op, status, words);
}

/* Exchange words: with each rank in `to` out[rank], with each rank in `from` in[rank]. */
static tryst_status words_exchange(tryst_engine *engine, const char *edge, const bool *to,
                                   uint8_t *out, const bool *from, uint8_t *in)
{
    int ranks = engine->params.program->ranks_count;
    tryst_op **ops = engine->lents.ops;
    tryst_status status = TRYST_OK;
    for (int rank = 0; rank < ranks && status == TRYST_OK; rank++) {
        if (from[rank]) {
            status = word_post(engine, rank, engine->rank, edge, &in[rank], &ops[rank]);
        }
        if (status == TRYST_OK && to[rank]) {
            status = word_post(engine, engine->rank, rank, edge, &out[rank],
                               &ops[ranks + rank]);
        }
        if (status != TRYST_OK) {
            status = agree_failed(engine, rank, NULL, status);
        }
    }
    for (int i = 0; i < 2 * ranks && status == TRYST_OK; i++) {
        status = ops[i] ? tryst_wait(ops[i], engine->params.timeout_ns) : TRYST_OK;
        if (status == TRYST_OK) {
            tryst_op_release(ops[i]);
            ops[i] = NULL;
        } else {
            status = agree_failed(engine, i % ranks, ops[i], status);
        }
    }
    return status;
}

/* Return the first item that this rank sends to that one; NULL: there is none. */
static const struct engine_transfer *first_send(const tryst_engine *engine, int rank)
{
    for (size_t i = 0; i < engine->sends_count; i++) {
        if (engine->frame->sends[i].peer == rank) {
            return &engine->frame->sends[i];
        }
    }
    return NULL;
}

/* Find out whether that rank can map the buffers of this one's items. */
static tryst_status answer(tryst_engine *engine, int rank, uint8_t *answer_p)
{
    const struct engine_transfer *send = first_send(engine, rank);
    uint64_t bytes = send->count * tryst_dtype_bytes(send->dtype);
    struct buffer *memory = NULL;
    uint64_t id;
    tryst_status status = buffer_get(&engine->pool, bytes, true, &memory);
    if (status != TRYST_OK) {
        return engine_no_memory(engine, status, bytes, "a stage's output");
    }
    *answer_p = tryst_mem_share(engine->params.group, rank, memory->mem, &id) == TRYST_OK;
    buffer_drop(memory);
    return TRYST_OK;
}

static tryst_status allocate(tryst_engine *engine)
{
    struct engine_lents *self = &engine->lents;
    size_t ranks = (size_t)engine->params.program->ranks_count;
    self->dropped.pool = &engine->pool;
    self->to = calloc(ranks, sizeof *self->to);
    self->from = calloc(ranks, sizeof *self->from);
    self->words = calloc(ranks, 4);
    self->ops = calloc(ranks, 2 * sizeof *self->ops);
    if (!self->to || !self->from || !self->words || !self->ops) {
        return engine_no_memory(engine, TRYST_E_NOMEM, ranks * 4, "an agreement");
    }
    for (size_t i = 0; i < engine->sends_count; i++) {
        self->to[engine->frame->sends[i].peer] = true;
    }
    for (size_t i = 0; i < engine->receives_count; i++) {
        self->from[engine->receives[i].peer] = true;
    }
    return TRYST_OK;
}

tryst_status engine_lents_agree(tryst_engine *engine)
{
    struct engine_lents *self = &engine->lents;
    int ranks = engine->params.program->ranks_count;
    tryst_status status = allocate(engine);
    if (status != TRYST_OK) {
        return status;
    }
    uint8_t *asks = self->words, *asked = asks + ranks;
    uint8_t *answers = asked + ranks, *answered = answers + ranks;
    for (int rank = 0; rank < ranks; rank++) {
        asks[rank] = !engine->device.used;
    }
    status = words_exchange(engine, "lend", self->from, asks, self->to, asked);
    for (int rank = 0; rank < ranks && status == TRYST_OK; rank++) {
        if (self->to[rank] && asked[rank] == 1 && !engine->device.used) {
            status = answer(engine, rank, &answers[rank]);
        }
    }
    if (status == TRYST_OK) {
        status = words_exchange(engine, "lent", self->to, answers, self->from, answered);
    }
    for (int rank = 0; rank < ranks; rank++) {
        self->to[rank] = status == TRYST_OK && answers[rank] == 1;
        self->from[rank] = status == TRYST_OK && self->from[rank] && answered[rank] == 1;
    }
    return status;
}

/* ---- lending ----------------------------------------------------------------------- */

tryst_status engine_lend(tryst_engine *engine, struct engine_transfer *self)
{
    const tryst_tensor nothing = {.struct_size = sizeof nothing, .dtype = TRYST_DTYPE_U8};
    tryst_mem *mem = self->memory->mem;
    tryst_status status =
        tryst_mem_share(engine->params.group, self->peer, mem, &self->note->region);
    if (status != TRYST_OK) { /* it was mappable: the peer's endpoint is lost */
        return status == TRYST_AGAIN ? TRYST_E_PEER : status;
    }
    self->note->offset =
        (uint64_t)((const char *)self->memory->data - (const char *)self->memory->begin);
    return tryst_recv_key(engine_scope_of(engine, self->item.microbatch)->step,
                          self->back, &nothing, NULL, &self->back_op);
}

/* ---- borrowing --------------------------------------------------------------------- */

static tryst_status view_fail(tryst_engine *engine, const struct engine_transfer *self,
                              tryst_status status)
{
    char words[96];
    snprintf(words, sizeof words, "mapping memory of rank %d", self->peer);
    return status == TRYST_E_TIMEOUT ? engine_late(engine, words)
                                     : engine_op_failed(engine, NULL, status, words);
}

/* Map a region of the peer. Its announcement may come behind the note. */
static tryst_status view_await(tryst_engine *engine, const struct engine_transfer *self,
                               struct engine_view *view)
{
    const struct timespec pause = {.tv_nsec = VIEW_PAUSE_NS};
    uint64_t begin_ns = tryst_now_ns(engine->params.ctx);
    tryst_status status = TRYST_AGAIN;
    while (status == TRYST_AGAIN) {
        status = tryst_mem_view(engine->params.group, self->peer, self->note->region,
                                &view->data, &view->bytes);
        if (status == TRYST_AGAIN && tryst_progress(engine->params.ctx) == 0) {
            nanosleep(&pause, NULL);
        }
        if (status == TRYST_AGAIN && engine_is_aborted(engine)) {
            status = TRYST_E_ABORTED;
        } else if (status == TRYST_AGAIN && tryst_now_ns(engine->params.ctx) - begin_ns >
                                                engine->params.timeout_ns) {
            status = TRYST_E_TIMEOUT;
        }
    }
    return status == TRYST_OK ? status : view_fail(engine, self, status);
}

static tryst_status view_get(tryst_engine *engine, const struct engine_transfer *self,
                             const struct engine_view **view_p)
{
    struct engine_view *view = engine->lents.views;
    while (view && (view->peer != self->peer || view->id != self->note->region)) {
        view = view->next;
    }
    *view_p = view;
    if (view) {
        return TRYST_OK;
    }
    view = calloc(1, sizeof *view);
    if (!view) {
        return engine_no_memory(engine, TRYST_E_NOMEM, sizeof *view, "a mapping");
    }
    tryst_status status = view_await(engine, self, view);
    if (status != TRYST_OK) {
        free(view);
        return status;
    }
    view->peer = self->peer;
    view->id = self->note->region;
    view->next = engine->lents.views;
    engine->lents.views = view;
    *view_p = view;
    return TRYST_OK;
}

static struct engine_lent *lent_get(tryst_engine *engine)
{
    struct engine_lent *lent = engine->lents.all;
    while (lent && lent->used) {
        lent = lent->next;
    }
    if (lent) {
        return lent;
    }
    lent = calloc(1, sizeof *lent);
    if (lent) {
        lent->next = engine->lents.all;
        engine->lents.all = lent;
    }
    return lent;
}

tryst_status engine_borrow(tryst_engine *engine, struct engine_transfer *self)
{
    const struct engine_view *view;
    uint64_t bytes = self->count * tryst_dtype_bytes(self->dtype);
    tryst_status status = view_get(engine, self, &view);
    if (status != TRYST_OK) {
        return status;
    }
    uint64_t offset = self->note->offset;
    if (offset > view->bytes || bytes > view->bytes - offset) {
        return view_fail(engine, self, TRYST_E_PROTOCOL);
    }
    struct engine_lent *lent = lent_get(engine);
    if (!lent) {
        return engine_no_memory(engine, TRYST_E_NOMEM, sizeof *lent, "a receive");
    }
    lent->buffer = (struct buffer){
        .data = (char *)view->data + offset, .uses = 1, .owner = &engine->lents.dropped};
    lent->used = true;
    lent->peer = self->peer;
    lent->number = engine->steps_done +
                   (uint64_t)(self->item.microbatch / engine->microbatches_count);
    lent->back = self->back;
    self->memory = &lent->buffer;
    return TRYST_OK;
}

/* ---- giving back ------------------------------------------------------------------- */

static tryst_status return_failed(tryst_engine *engine, const struct engine_lent *lent,
                                  tryst_status status)
{
    char words[96];
    snprintf(words, sizeof words, "giving memory back to rank %d", lent->peer);
    return status == TRYST_E_TIMEOUT ? engine_late(engine, words)
                                     : engine_op_failed(engine, lent->op, status, words);
}

/* Look whether the message that gives an item back has left. */
static tryst_status return_poll(tryst_engine *engine, struct engine_lent *lent)
{
    tryst_status status = tryst_op_test(lent->op);
    if (status == TRYST_IN_PROGRESS) {
        return TRYST_OK;
    }
    if (status != TRYST_OK) {
        return return_failed(engine, lent, status);
    }
    tryst_op_release(lent->op);
    lent->op = NULL;
    lent->used = false;
    return TRYST_OK;
}

tryst_status engine_lents_return(tryst_engine *engine)
{
    const tryst_tensor nothing = {.struct_size = sizeof nothing, .dtype = TRYST_DTYPE_U8};
    struct buffer_class *dropped = &engine->lents.dropped;
    tryst_status status = TRYST_OK;
    while (dropped->free && status == TRYST_OK) {
        struct engine_lent *lent = (struct engine_lent *)dropped->free;
        dropped->free = lent->buffer.next_free;
        status = tryst_send_key(engine->scopes[lent->number % 3].step, lent->back,
                                &nothing, NULL, &lent->op);
        if (status != TRYST_OK) {
            status = return_failed(engine, lent, status);
        }
    }
    for (struct engine_lent *lent = engine->lents.all; lent && status == TRYST_OK;
         lent = lent->next) {
        status = lent->op ? return_poll(engine, lent) : TRYST_OK;
    }
    return status;
}

tryst_status engine_lents_settle(tryst_engine *engine, uint64_t number)
{
    tryst_status status = engine_lents_return(engine);
    for (struct engine_lent *lent = engine->lents.all; lent && status == TRYST_OK;
         lent = lent->next) {
        if (!lent->op || lent->number != number) {
            continue;
        }
        status = tryst_wait(lent->op, engine->params.timeout_ns);
        status = status == TRYST_E_TIMEOUT ? return_failed(engine, lent, status)
                                           : return_poll(engine, lent);
    }
    return status;
}

/* ---- the end ----------------------------------------------------------------------- */

void engine_lents_abandon(tryst_engine *engine)
{
    int ops_count = engine->lents.ops ? 2 * engine->params.program->ranks_count : 0;
    for (int i = 0; i < ops_count; i++) {
        tryst_op_release(engine->lents.ops[i]);
        engine->lents.ops[i] = NULL;
    }
    for (struct engine_lent *lent = engine->lents.all; lent; lent = lent->next) {
        tryst_op_release(lent->op);
        lent->op = NULL;
    }
}

void engine_lents_close(tryst_engine *engine)
{
    struct engine_lents *self = &engine->lents;
    free(self->ops);
    while (self->all) {
        struct engine_lent *lent = self->all;
        self->all = lent->next;
        free(lent);
    }
    while (self->views) {
        struct engine_view *view = self->views;
        self->views = view->next;
        tryst_mem_view_close(view->data, view->bytes);
        free(view);
    }
    free(self->to);
    free(self->from);
    if (!engine->unquiet) {
        free(self->words);
    }
}
