/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's own structures, shared by its files:
 *
 *   engine.c           open, step, finish, close: the loop over a rank's actions
 *   engine_plan.c      fixed at open: transferred items, their peers and keys
 *   engine_transfer.c  sends, receives, waits and their failures
 *   engine_action.c    one action: its buffers before, during and after
 *   engine_reduce.c    sums of gradients over replicas, and updates by parts
 *   engine_lent.c      items that another rank reads where they are
 *   engine_buffer.c    the buffers
 *   engine_device.c    events instead of waits, where the stages compute on a device */
#ifndef TRYST_PIPELINE_ENGINE_ENGINE_H
#define TRYST_PIPELINE_ENGINE_ENGINE_H

#include "engine_buffer.h"
#include "engine_device.h"
#include "engine_lent.h"
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
    tryst_op *op; /**< NULL: not posted, or ended */
    /** For an item that is lent: what travels, the key of the message that gives it back,
     *  and that message's receive. */
    struct engine_note *note;
    tryst_key *back;
    tryst_op *back_op;
    uint64_t begin_ns; /**< when the operation was posted */
    bool ended;        /**< the engine has seen the operation succeed */
    bool early;        /**< a receive of the next step, posted in the step that runs */
};

/** The scope of a step: of the keys of its micro-batches. The step before receives in it,
 *  too, where steps follow, and in a loop sends in it. */
struct engine_scope {
    tryst_step *step; /**< NULL: not open */
};

/** A step's sends. Two frames are enough: the sends of step k may end while step k + 1
 *  runs, and are waited for before step k + 2 begins. */
struct engine_frame {
    bool open;       /**< a step has begun, and its sends were not waited for */
    uint64_t number; /**< of the step, counted from the engine's first, 0 */
    uint64_t id;     /**< of the step's scope */
    struct engine_transfer *sends; /**< in program order; those not posted have ended */
    size_t next_send;              /**< index of the send that is posted next */
    size_t first_open;             /**< all sends before this index have ended */
};

/** A place in the rank's list: the next action, receive and send. */
struct engine_mark {
    size_t action, receive, send;
};

/** The marks of a list; a flat program is all body. */
enum engine_mark_name { MARK_BEGIN, MARK_BODY, MARK_EPILOGUE, MARK_END, MARKS_COUNT };

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
    struct engine_mark marks[MARKS_COUNT];
    const struct engine_mark *range, *range_end; /**< the actions that run now */
    bool looped;                                 /**< the program is a loop */
    /** The program is a loop, or the caller has promised that steps follow: each step but
     *  the last opens the scope of the next one. */
    bool follows;
    bool last; /**< the step that runs, or has run, is the last */
    int stages_count;
    int microbatches_count;
    /** Cells of a stage: those of one step, or of a loop those of two, in turn. */
    int cells_count;
    tryst_stage **stages; /**< [stages]; NULL: the stage is on another rank */
    struct program_places places;
    struct engine_reduction *reduction; /**< NULL: no stage of this rank is replicated */
    struct engine_call call;
    uint64_t *versions; /**< [stages]: newest weight version when the step began */
    /** [stages]: newest weight version when the engine's first step began */
    uint64_t *versions_first;
    /** [stages]: tryst_stage_need.delay, for the rate of updates (engine_rate_of) */
    double *delays;
    tryst_engine_cost *costs; /**< [stages]: see tryst_engine_cost_get */
    /** [stages]: micro-batches with gradients added since the last update */
    int32_t *pending;
    struct engine_cell *cells; /**< [stages × cells_count] */
    /** [stages × micro-batches]: true if an R runs the forward once more, so that F keeps
     *  its input alone */
    bool *recomputed;
    /** [micro-batches]; filled in only on the ranks of the last stage, each with the
     *  losses of its own micro-batches; the others are NAN. One element more holds the
     *  output of R, and is not read. */
    double *losses;
    double *own_losses; /**< [micro-batches]: those of this rank, without gaps */
    struct engine_transfer *receives; /**< in program order */
    size_t receives_count;
    size_t receives_posted; /**< all receives of the range before this index are posted */
    size_t receives_taken;  /**< …, and those before this one are in their cells */
    size_t receives_open;   /**< all receives before this index have ended */
    /** Where steps follow, the first `early_max` receives of a body can be posted in the
     *  step before. In a loop they are the first ones of the epilogue, too: whichever of
     *  the two comes next. */
    size_t early_max;
    size_t early_count; /**< receives of the next step that are posted */
    /** Actions of the longest list of all ranks: the priorities of step k begin at
     *  k × stride on each rank, so they compare between ranks. */
    uint64_t stride;
    /** The forwards among the first fed_count actions have their data. */
    size_t fed_count;
    size_t sends_count;
    struct engine_frame frames[2];
    struct engine_frame *frame; /**< that of the newest step; NULL before the first */
    /** Scope of step k (from 0) at index k mod 3: those of the frames, and where steps
     *  follow that of the next one. */
    struct engine_scope scopes[3];
    uint64_t newest_id; /**< of the scopes opened so far */
    uint64_t steps_done;
    uint64_t step_begin_ns;
    struct buffer_pool pool;
    struct engine_device device;
    struct engine_lents lents;
    struct engine_note *notes; /**< [receives, then sends of both frames] */
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
    return *program_owner(engine->params.program, &engine->places, stage,
                          microbatch % engine->microbatches_count);
}

/** Return the cell of `microbatch` of the step that runs. Micro-batch M + j, where M is
 *  the number of a step, is micro-batch j of the next step, and has the same cell
 *  there. */
static inline struct engine_cell *engine_cell_of(tryst_engine *engine, int stage,
                                                 int microbatch)
{
    uint64_t first = engine->steps_done % 2 * (uint64_t)engine->microbatches_count;
    return &engine->cells[(size_t)stage * (size_t)engine->cells_count +
                          (first + (uint64_t)microbatch) % (uint64_t)engine->cells_count];
}

/** Return the scope of `microbatch` of the step that runs, as engine_cell_of counts. */
static inline struct engine_scope *engine_scope_of(tryst_engine *engine, int microbatch)
{
    uint64_t ahead = (uint64_t)(microbatch / engine->microbatches_count);
    return &engine->scopes[(engine->steps_done + ahead) % 3];
}

/** Return the mark in engine->recomputed of `microbatch` at `stage`. */
static inline bool *engine_recomputed(const tryst_engine *engine, int stage,
                                      int microbatch)
{
    return &engine->recomputed[(size_t)stage * (size_t)engine->microbatches_count +
                               (size_t)(microbatch % engine->microbatches_count)];
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
