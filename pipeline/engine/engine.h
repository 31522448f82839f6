/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's own structures, shared by its files:
 *
 *   engine.c           open, step, finish, close: the loop over a rank's actions
 *   engine_plan.c      fixed at open: transferred items, their peers and keys
 *   engine_transfer.c  sends, receives, waits and their failures
 *   engine_action.c    one action: its buffers before, during and after
 *   engine_buffer.c    the buffers
 *   engine_device.c    events instead of waits, where the stages compute on a device */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_H
#define TRYST_PIPELINE_ENGINE_ENGINE_H

#include "engine_buffer.h"
#include "engine_device.h"
#include "pipeline/base/params.h"
#include "pipeline/program/program.h"

#define ENGINE_ERROR_MAX 1024

/** The buffers of one micro-batch at one stage of this rank. Each pointer is one use. */
struct engine_cell {
    struct buffer *input;
    struct buffer *target;
    struct buffer *saved;
    struct buffer *kept;
    struct buffer *grad_output;
};

/** An item that is sent to or received from another rank. All members up to `event` are
 *  fixed at open. */
struct engine_transfer {
    struct program_item item;
    int peer;
    size_t action; /**< index of the action that makes or needs the item */
    tryst_key *key;
    tryst_dtype dtype;
    uint64_t count;
    /** device: event that a send's bytes are there, or a receive's have arrived; NULL on
     *  the host */
    void *event;
    struct buffer *memory;
    tryst_op *op; /**< NULL: not posted, or ended */
    uint64_t begin_ns;
    bool ended; /**< its end was seen and its span written */
};

/** One open scope. Two are enough: the sends of step k may end while step k + 1 runs. */
struct engine_frame {
    tryst_step *step; /**< NULL: closed */
    uint64_t id;
    struct engine_transfer *sends; /**< in program order */
    size_t posted_count;
    size_t first_open; /**< all sends before this index have ended */
};

struct tryst_engine {
    tryst_engine_params params;
    int rank;
    const struct program_list *list;
    int stages_count;
    int microbatches_count;
    tryst_stage **stages;      /**< [stages]; NULL on other ranks */
    int *owners;               /**< [stages]: rank */
    uint64_t *versions;        /**< [stages]: newest version when the step began */
    int32_t *pending;          /**< [stages]: gradients since the last update */
    struct engine_cell *cells; /**< [stages × micro-batches] */
    double *losses;            /**< [micro-batches], on the rank of the last stage */
    struct engine_transfer *receives; /**< in program order */
    size_t receives_count;
    size_t receives_posted;
    size_t receives_taken;
    size_t receives_open; /**< all receives before this index have ended */
    /** The forwards among the first fed_count actions have their data. */
    size_t fed_count;
    size_t sends_count;
    struct engine_frame frames[2];
    struct engine_frame *frame; /**< the current one */
    uint64_t steps_done;
    uint64_t step_begin_ns;
    struct buffer_pool pool;
    struct engine_device device;
    tryst_span *spans;
    size_t spans_count;
    size_t spans_capacity;
    tryst_engine_stats stats;
    tryst_status failed;
    bool aborted_ahead;
    /** Some operations could not be ended: memory for transfers is never freed. */
    bool unquiet;
    char error[ENGINE_ERROR_MAX];
    /** The sentence of the rank that aborted this one; "": none did. */
    char cause[ENGINE_ERROR_MAX];
};

static inline struct engine_cell *engine_cell_of(tryst_engine *engine, int stage,
                                                 int microbatch)
{
    return &engine->cells[(size_t)stage * (size_t)engine->microbatches_count +
                          (size_t)microbatch];
}

/** Record the first failure; return `status`. A sentence that is too long is cut. */
TRYST_PRINTF(3, 4)
tryst_status engine_fail(tryst_engine *engine, tryst_status status, const char *format,
                         ...);
void engine_span(tryst_engine *engine, tryst_span span);

#endif
