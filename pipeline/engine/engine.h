/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's own structures, shared by its files:
 *
 *   engine.c           open, step, finish, close: the loop over a rank's actions
 *   engine_plan.c      fixed at open: transferred items, their peers and keys
 *   engine_transfer.c  sends, receives, waits and their failures
 *   engine_action.c    one action: its buffers before, during and after
 *   engine_reduce.c    sums of gradients over replicas, and updates by parts
 *   engine_buffer.c    the buffers
 *   engine_device.c    events instead of waits, where the stages compute on a device */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_H
#define TRYST_PIPELINE_ENGINE_ENGINE_H

#include "engine_buffer.h"
#include "engine_device.h"
#include "pipeline/base/params.h"
#include "pipeline/program/program.h"

#define ENGINE_ERROR_MAX 1024

/** The buffers of one micro-batch at one stage of this rank; NULL: none now. Each pointer
 *  counts as one use of its buffer (buffer.uses). */
struct engine_cell {
    struct buffer *input;
    struct buffer *target;
    struct buffer *saved;
    struct buffer *kept;
    struct buffer *grad_output;
};

/** One send or receive: an item that crosses ranks. The members from `item` to `event`
 *  are set when the engine opens and never change. */
struct engine_transfer {
    struct program_item item;
    int peer;
    size_t action; /**< index of the action that makes or needs the item */
    tryst_key *key;
    tryst_dtype dtype;
    uint64_t count;
    /** On a device: event that passes when a send's bytes have been computed, or a
     *  receive's have arrived. NULL on the host. */
    void *event;
    /** Buffer of the posted operation. NULL once a send has ended, or the buffer of a
     *  receive was put into a cell. */
    struct buffer *memory;
    tryst_op *op;      /**< NULL: not posted, or ended */
    uint64_t begin_ns; /**< when the operation was posted */
    bool ended;        /**< the engine has seen the operation succeed */
};

/** A step's scope and its sends. Two frames are enough: the sends of step k may end while
 *  step k + 1 runs, and are waited for before step k + 2 begins. */
struct engine_frame {
    tryst_step *step; /**< NULL: no scope is open */
    uint64_t id;
    struct engine_transfer *sends; /**< in program order */
    size_t posted_count;
    size_t first_open; /**< all sends before this index have ended */
};

/** The stage's call that runs now, on the host. Time that is not the call's own is left
 *  out of its figures (engine_call_pause). */
struct engine_call {
    const tryst_action *action; /**< NULL: no call runs */
    uint64_t begin_ns, cpu_ns;  /**< since the last pause */
    uint64_t span_begin_ns;
};

struct tryst_engine {
    tryst_engine_params params;
    int rank;
    const struct program_list *list;
    int stages_count;
    int microbatches_count;
    tryst_stage **stages; /**< [stages]; NULL: the stage is on another rank */
    struct program_places places;
    struct engine_reduction *reduction; /**< NULL: no stage of this rank is replicated */
    struct engine_call call;
    uint64_t *versions; /**< [stages]: newest weight version when the step began */
    /** [stages]: micro-batches with gradients added since the last update */
    int32_t *pending;
    struct engine_cell *cells; /**< [stages × micro-batches] */
    /** [micro-batches]; filled in only on the ranks of the last stage, each with the
     *  losses of its own micro-batches; the others are NAN */
    double *losses;
    double *own_losses; /**< [micro-batches]: those of this rank, without gaps */
    struct engine_transfer *receives; /**< in program order */
    size_t receives_count;
    size_t receives_posted; /**< posted in this step */
    size_t receives_taken;  /**< handed to their actions in this step */
    size_t receives_open;   /**< all receives before this index have ended */
    /** The forwards among the first fed_count actions have their data. */
    size_t fed_count;
    size_t sends_count;
    struct engine_frame frames[2];
    struct engine_frame *frame; /**< that of the newest step; NULL before the first */
    uint64_t steps_done;
    uint64_t step_begin_ns;
    struct buffer_pool pool;
    struct engine_device device;
    tryst_span *spans;
    size_t spans_count;
    size_t spans_capacity;
    tryst_engine_stats stats;
    tryst_status failed;
    bool aborted_ahead; /**< engine_abandon has aborted the scopes after `frame`, too */
    /** An operation or the device did not end in time: memory that either may still touch
     *  is never freed. */
    bool unquiet;
    char error[ENGINE_ERROR_MAX];
    /** Sentence of the rank that aborted a scope of this rank; "": no rank did. */
    char cause[ENGINE_ERROR_MAX];
};

/** Return the rank that runs `microbatch` at `stage`. */
static inline int engine_owner(const tryst_engine *engine, int stage, int microbatch)
{
    return *program_owner(engine->params.program, &engine->places, stage, microbatch);
}

static inline struct engine_cell *engine_cell_of(tryst_engine *engine, int stage,
                                                 int microbatch)
{
    return &engine->cells[(size_t)stage * (size_t)engine->microbatches_count +
                          (size_t)microbatch];
}

/** Record a failure, unless the engine has failed before. Returns the status of the first
 *  failure. A sentence that is too long is cut. */
TRYST_PRINTF(3, 4)
tryst_status engine_fail(tryst_engine *engine, tryst_status status, const char *format,
                         ...);
/** Let posted operations start before a long computation. */
void engine_push(tryst_engine *engine);
/** Add a span to those of this step. Drops a span that began before the step. */
void engine_span(tryst_engine *engine, tryst_span span);

#endif
