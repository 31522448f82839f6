/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_lent.h
 *  Items that another rank reads where they are (engine_lent.c). */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_LENT_H
#define TRYST_PIPELINE_ENGINE_ENGINE_LENT_H

#include <tryst/pipeline.h>

#include "engine_buffer.h"

struct engine_transfer;

/** The place of a lent item's bytes, sent in their stead. */
struct engine_note {
    uint64_t region; /**< tryst_mem_share */
    uint64_t offset; /**< bytes from the region's begin */
};

/** A borrowed item. */
struct engine_lent {
    struct buffer buffer; /**< first; its bytes are another rank's */
    bool used;            /**< the stages need it, or its message is on its way */
    int peer;
    uint64_t number; /**< of its step, as engine_frame.number */
    tryst_key *back; /**< of the message that gives it back */
    tryst_op *op;    /**< that message; NULL: not posted */
    struct engine_lent *next;
};

/** A region of another rank that is mapped here. */
struct engine_view {
    struct engine_view *next;
    int peer;
    uint64_t id;
    const void *data;
    size_t bytes;
};

struct engine_lents {
    /** [ranks]: this rank lends its items to that rank; that rank lends to this one. NULL
     *  before engine_lents_agree. */
    bool *to, *from;
    /** Of the agreement: [4 × ranks] words out and in, [2 × ranks] operations. */
    uint8_t *words;
    tryst_op **ops;
    struct engine_view *views;
    struct engine_lent *all;
    struct buffer_class dropped; /**< its free list: borrowed items to give back */
};

/** True if a transfer's item is lent. */
bool engine_is_lent(const tryst_engine *engine, const struct engine_transfer *self,
                    bool sends);
/** Agree with the ranks that this rank exchanges items with on what is lent. Once, in the
 *  engine's first step, before its transfers. */
tryst_status engine_lents_agree(tryst_engine *engine);
/** Set the note of the item in self->memory, and post the receive of the message that
 *  gives it back. */
tryst_status engine_lend(tryst_engine *engine, struct engine_transfer *self);
/** Set self->memory to the item that the note of an ended receive names. */
tryst_status engine_borrow(tryst_engine *engine, struct engine_transfer *self);
/** Give back the items that this rank needs no more. */
tryst_status engine_lents_return(tryst_engine *engine);
/** Wait until all messages of step `number` that give items back have left. */
tryst_status engine_lents_settle(tryst_engine *engine, uint64_t number);
/** Release the operations; all scopes are closed. */
void engine_lents_abandon(tryst_engine *engine);
void engine_lents_close(tryst_engine *engine);

#endif
