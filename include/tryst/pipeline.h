/* SPDX-License-Identifier: Apache-2.0 */
/** @file pipeline.h
 *  Pipeline-parallel training: schedules as programs, and one engine that runs them all.
 *  Library: libtryst_pipeline.
 *
 *  A *program* is a list of compute actions per rank. Transfers are not in it: the inputs
 *  that an action needs follow from its kind, and the two ends of a transfer meet by key
 *  (stage, micro-batch, kind), so no program can hang by the order of its transfers. The
 *  life of a program:
 *
 *      tryst_program_generate, tryst_program_load_csv, or tryst_program_open + append
 *      tryst_program_check      each action once, dependencies, versions, peak memory
 *      tryst_program_simulate   makespan and bubble from costs
 *      tryst_engine_open        this rank's part, bound to a group and to its stages
 *        tryst_engine_step        one training step
 *        tryst_engine_stats_get   its costs
 *      tryst_engine_close, tryst_program_close
 *
 *  An error is a status and a text in tryst_last_error: a sentence, or a whole grid with
 *  the place marked.
 *
 *  Threads: different objects are independent; one object is used by one thread at a
 *           time. An unchanging program may be used by any number of threads. Only
 *           tryst_engine_step, _finish, _abort and _close wait for other ranks.
 */
#ifndef TRYST_PIPELINE_H
#define TRYST_PIPELINE_H

#include <stdbool.h>
#include <tryst/stage.h>
#include <tryst/tryst.h>

TRYST_BEGIN_DECLS

/* ----------------------------------------------------------------------------------- *
 *  Program
 * ----------------------------------------------------------------------------------- */

/** Kinds of actions, with PyTorch's letters (torch.distributed.pipelining).
 *
 *   kind         needs                                   makes
 *   FORWARD      output of the stage before, or data     output, saved activations
 *   BACKWARD     own FORWARD, gradient from stage after  gradients of input and weights
 *   INPUT_GRAD   as BACKWARD                             gradient of its input only
 *   WEIGHT_GRAD  own INPUT_GRAD                          gradient of the weights
 *   UPDATE       a BACKWARD or WEIGHT_GRAD before it     the next weight version
 *   REDUCE_GRAD  the last BACKWARD or WEIGHT_GRAD        the sum of the weights'
 *                before an UPDATE                        gradients over all replicas
 *   RECOMPUTE    own FORWARD; before the BACKWARD        the saved activations again,
 *                or INPUT_GRAD                           from the stage's input
 *   PREDICT      nothing                                 weights in a slot: the newest
 *                                                        version, moved
 *
 *  A stage is *replicated* if several ranks have actions of it. Each of these ranks is a
 *  replica with micro-batches of its own, and all of them make every weight version
 *  together: each runs as many UPDATEs as the others, with one REDUCE_GRAD before each.
 *  A REDUCE_GRAD takes no time of its rank. The sum is over all micro-batches of all
 *  replicas, and UPDATE divides it by their number: so a step has the result of one
 *  process with all micro-batches, but for the order of additions. */
typedef enum tryst_action_kind {
    TRYST_ACTION_NONE = 0,
    TRYST_ACTION_FORWARD = 1,     /**< F */
    TRYST_ACTION_BACKWARD = 2,    /**< B: INPUT_GRAD and WEIGHT_GRAD in one */
    TRYST_ACTION_INPUT_GRAD = 3,  /**< I */
    TRYST_ACTION_WEIGHT_GRAD = 4, /**< W */
    TRYST_ACTION_UPDATE = 5,
    TRYST_ACTION_REDUCE_GRAD = 6, /**< see replicated stages, above */
    TRYST_ACTION_RECOMPUTE = 7,   /**< R */
    TRYST_ACTION_PREDICT = 8,
    TRYST_ACTION_KINDS = 9 /**< one more than the last kind */
} tryst_action_kind;

/** Return "F", "B", "I", "W", "UPDATE", "REDUCE_GRAD", "R", "PREDICT"; "" for another
 *  value. Static. */
TRYST_API const char *tryst_action_kind_name(tryst_action_kind kind);

/** One action of one rank.
 *
 *  `version` counts a stage's updates from the start of the step: F, B, I, W and R read
 *  version 0 (the weights at the step's start), 1 (after the step's first UPDATE of that
 *  stage), …; negative versions are older weights, kept from earlier steps. In the first
 *  steps of an engine that would be a version from before its first step; the version at
 *  its first step is read then. The version of an UPDATE is the one that it makes. In
 *  synchronous schedules all actions read version 0, and the last is an UPDATE to 1.
 *  `microbatch` is -1 for UPDATE, REDUCE_GRAD and PREDICT.
 *
 *  R reads what the B or I behind it reads.
 *
 *  F, B, I, W and R with a `slot` above 0 read the weights that the last PREDICT of that
 *  slot made, and their `version` is 0. PREDICT writes newest + ahead × d to its slot,
 *  where d is the change of the weights that one UPDATE makes (tryst_stage_direction). */
typedef struct tryst_action {
    tryst_action_kind kind;
    int32_t stage;
    int32_t microbatch;
    int32_t version;
    int32_t slot;      /**< 0: none */
    int32_t direction; /**< PREDICT: a tryst_stage_direction */
    double ahead; /**< PREDICT: updates ahead of the newest version, may be negative */
} tryst_action;

/** Write `action` as text, in PyTorch's form: "3F1" (stage 3, forward, micro-batch 1); a
 *  version other than a synchronous program's is appended as "v-1". Returns `text`. */
TRYST_API const char *tryst_action_format(const tryst_action *action, char *text,
                                          size_t capacity);

/** An ordered list of actions for each rank. Plain data: not thread-safe while it is
 *  changed. */
typedef struct tryst_program tryst_program;

/** Open an empty program.
 *
 *  Any number of stages may be on one rank, in any placement (interleaved, V); a stage is
 *  on the rank that has its actions, or replicated over the ranks that have them.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (a count below 1, or more ranks than
 *           stages times micro-batches)
 */
TRYST_API tryst_status tryst_program_open(int ranks_count, int stages_count,
                                          int microbatches_count,
                                          tryst_program **program_p);

/** Close a program, after the engines that run it. NULL is allowed. */
TRYST_API void tryst_program_close(tryst_program *program);

/** Append one action to a rank's list. Checks ranges only; tryst_program_check does the
 *  rest. In the body of a loop a micro-batch is below twice the number of a step.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (rank, stage or micro-batch out of
 *           range; a slot above 255, or of UPDATE or REDUCE_GRAD; a version beyond 2^30)
 */
TRYST_API tryst_status tryst_program_append(tryst_program *program, int rank,
                                            const tryst_action *action);

/** Which micro-batches of a generated program run their forward twice: the first forward
 *  keeps the stage's input alone, and an R before the backward saves the activations. */
typedef enum tryst_schedule_recompute {
    TRYST_RECOMPUTE_NEVER = 0,
    TRYST_RECOMPUTE_EXCEPT_LAST = 1, /**< all but the last micro-batch of an update */
    TRYST_RECOMPUTE_ALWAYS = 2
} tryst_schedule_recompute;

/** Parameters of a generator. A zero field means its default (in brackets). */
typedef struct tryst_schedule_params {
    size_t struct_size;
    int32_t ranks_count;
    int32_t microbatches_count; /**< of one step */
    int32_t chunks_count;       /**< stages on each rank, "v" [1] */
    int32_t group;    /**< interleaved: micro-batches in a group [ranks_count] */
    int32_t every;    /**< asynchronous: micro-batches of an UPDATE [the schedule's] */
    int32_t inflight; /**< micro-batches in flight [ranks_count] */
    int32_t cap;      /**< most activations on a rank [2 × ranks_count - 1] */
    /** Asynchronous: UPDATEs of each stage in one step; the step then has
     *  updates_count × every micro-batches [those of microbatches_count]. */
    int32_t updates_count;
    int32_t recompute; /**< a tryst_schedule_recompute */
    /** UPDATEs over which the rate of a stage with stale gradients rises to the full rate
     *  [0: always the full rate]; see tryst_program_rate_set. */
    int32_t rate;
    int32_t waves; /**< hanayo: waves, over two stages on each rank for each [1] */
} tryst_schedule_params;

/** A value of tryst_schedule_params.group: PyTorch's choice, microbatches / max(1,
 *  ⌊microbatches / ranks⌋). */
#define TRYST_GROUP_TORCH (-1)

/** The schedule to begin with: little memory, and no gradient is late. */
#define TRYST_SCHEDULE_DEFAULT "1f1b"

/** Generate a schedule by name; tryst_schedule.help explains each.
 *
 *  `schedule` is a name, or a name with options, "interleaved:v=2,group=4", which replace
 *  those of `params`: v, group (a number or "torch"), every, inflight, cap, updates,
 *  recompute (never, except_last, always), rate, waves. An option that the schedule does
 *  not have is refused.
 *
 *  Some schedules run two copies of the model in opposite directions: each stage is then
 *  on two ranks, with a REDUCE_GRAD before its UPDATE.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (a count below 1 or above 2^29 - 1,
 *           or more stages than that),
 *           TRYST_E_PROGRAM (unknown name or option, a wrong value, or counts for which
 *           the schedule is not defined; tryst_last_error explains)
 */
TRYST_API tryst_status tryst_program_generate(const char *schedule,
                                              const tryst_schedule_params *params,
                                              tryst_program **program_p);

/** Copy a program `replicas_count` times, as data parallelism over whole pipelines does.
 *
 *  Copy d of rank r is rank d × ranks + r, and its micro-batch m is d × micro-batches +
 *  m, of so many times more. Each stage that is on several ranks of the result gets a
 *  REDUCE_GRAD behind its last backward before each UPDATE, where it has none. One copy
 *  has the same ranks and micro-batches as `program`.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (replicas_count below 1, or more
 *           ranks or micro-batches than an int32_t counts)
 */
TRYST_API tryst_status tryst_program_replicate(const tryst_program *program,
                                               int replicas_count,
                                               tryst_program **replicated_p);

/** Options of tryst_program_generate, as bits of tryst_schedule.options. */
enum {
    TRYST_SCHEDULE_CHUNKS = 1,
    TRYST_SCHEDULE_GROUP = 2,
    TRYST_SCHEDULE_EVERY = 4,
    TRYST_SCHEDULE_INFLIGHT = 8,
    TRYST_SCHEDULE_CAP = 16,
    TRYST_SCHEDULE_UPDATES = 32,
    TRYST_SCHEDULE_RECOMPUTE = 64,
    TRYST_SCHEDULE_RATE = 128,
    TRYST_SCHEDULE_WAVES = 256
};

/** A named schedule. */
typedef struct tryst_schedule {
    size_t struct_size;
    const char *name;
    const char *help;  /**< one line: the order, and where it comes from */
    uint32_t options;  /**< the options that it reads; others are refused */
    bool asynchronous; /**< it reads `every` and `updates_count`, and more versions */
    /** Check `params`, of which a member that the caller left out is 0, and fill in the
     *  schedule's own defaults. Return NULL, or the sentence with which the generation is
     *  refused, valid until the thread's next call. May be NULL. */
    const char *(*check)(tryst_schedule_params *params);
    /** Append the actions of `rank`, of a synchronous schedule without UPDATEs and
     *  REDUCE_GRADs. Return the status of the first call that failed, else TRYST_OK. */
    tryst_status (*generate)(const tryst_schedule_params *params, tryst_program *program,
                             int rank);
} tryst_schedule;

/** Return a schedule of tryst_program_generate, by index from 0; NULL if there is none.
 *  Static. */
TRYST_API const tryst_schedule *tryst_program_schedule(int index);

/** Parts of a rank's list in a program that is a loop. */
typedef enum tryst_program_part {
    TRYST_PROGRAM_PROLOGUE = 0,
    TRYST_PROGRAM_BODY = 1,
    TRYST_PROGRAM_EPILOGUE = 2
} tryst_program_part;

/** Make the program a loop, and begin a part of a rank's list: the actions appended from
 *  now on are its *body*, or its *epilogue*; those before the body are its *prologue*. An
 *  engine's first step runs the prologue and then the body; the last step
 *  (tryst_engine_step_last) runs the epilogue in place of the body. So n steps run each
 *  of n × M micro-batches once, where M is the number of a step.
 *
 *  In a body a micro-batch j from M to 2M - 1 is micro-batch j - M of the next step:
 *  its data, its key and its scope are that step's. Versions count from the start of the
 *  step that runs the action, in the prologue from the first step's.
 *
 *  tryst_program_check demands both marks of every rank that has actions.
 *  Returns: TRYST_OK, TRYST_E_INVALID (no such rank; TRYST_PROGRAM_PROLOGUE; a part that
 *           has begun, or an epilogue before the body) */
TRYST_API tryst_status tryst_program_mark(tryst_program *program, int rank,
                                          tryst_program_part part);
/** Return true if the rank's list has a body's mark, and write the indices of the first
 *  action of body and epilogue. A list without marks is all body: *body_p is 0 and
 *  *epilogue_p the number of actions. */
TRYST_API bool tryst_program_loop(const tryst_program *program, int rank, size_t *body_p,
                                  size_t *epilogue_p);

/** Write `steps_count` steps as one flat program of steps_count × M micro-batches, with
 *  the same lists action for action: of a loop what its marks say, of a program without
 *  marks so many copies of each list. Micro-batches and versions are counted on from step
 *  to step. Versions that would be below the first are 0.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (steps_count below 1, or more than
 *           2^29 - 1 micro-batches) */
TRYST_API tryst_status tryst_program_unroll(const tryst_program *program, int steps_count,
                                            tryst_program **flat_p);

/** Let UPDATEs begin with a lower rate where gradients are stale: UPDATE t (from 0,
 *  counted by weight versions) of a stage has the rate factor max(1, τ)^-(1 - min(t /
 *  updates, 1)), where τ is tryst_stage_need.delay. 0: the full rate always. (PipeMare's
 *  technique 1, Yang et al. 2021) */
TRYST_API void tryst_program_rate_set(tryst_program *program, int32_t updates);
/** Return the number of updates that tryst_program_rate_set has set; 0: none. */
TRYST_API int32_t tryst_program_rate(const tryst_program *program);

/** The weights of one action, and how late its gradient is. */
typedef struct tryst_program_read {
    /** F, B, I, W, R: the weight version, of a slot that from which it was predicted.
     *  PREDICT: the version that it moves. */
    int32_t version;
    int32_t newest; /**< newest version of the stage when the action runs */
    /** F, B, I, W, R: the number of UPDATEs between `version` and the weights that the
     *  micro-batch's gradient changes. */
    int32_t delay;
} tryst_program_read;

/** Find what the actions of `rank` read: reads[i] for its i-th action. The program has
 *  passed tryst_program_check.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (no such rank, or a loop: unroll it
 *           first) */
TRYST_API tryst_status tryst_program_reads(const tryst_program *program, int rank,
                                           tryst_program_read *reads);

/** Weight versions and slots of a stage that runs its actions of a program. */
typedef struct tryst_stage_need {
    size_t struct_size;
    int32_t versions_count; /**< weight versions at once, the newest included */
    int32_t slots_count;
    /** τ: number of updates between the weights that a forward reads and those that its
     *  micro-batch's gradient changes; the mean over the micro-batches of the stage's
     *  last UPDATE (of a loop: of the body). 0 for synchronous schedules. */
    double delay;
    bool delta; /**< a PREDICT moves by TRYST_DIRECTION_DELTA */
} tryst_stage_need;

/** Count what `stage` must hold, on the rank that needs most of it. The program has
 *  passed tryst_program_check.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (no such stage) */
TRYST_API tryst_status tryst_program_stage_need(const tryst_program *program, int stage,
                                                tryst_stage_need *need_p);

/** Return the number of ranks; 0 for NULL. */
TRYST_API int tryst_program_ranks(const tryst_program *program);
/** Return the number of stages, over all ranks; 0 for NULL. */
TRYST_API int tryst_program_stages(const tryst_program *program);
/** Return the number of micro-batches of a step; 0 for NULL. */
TRYST_API int tryst_program_microbatches(const tryst_program *program);
/** Return a rank's actions, valid until the program is changed or closed; NULL, and a
 *  count of 0, for a rank that does not exist. */
TRYST_API const tryst_action *tryst_program_actions(const tryst_program *program,
                                                    int rank, size_t *count_p);
/** Return the rank that holds `stage` (the first with an action of it), -1 if none
 *  does. */
TRYST_API int tryst_program_rank_of(const tryst_program *program, int stage);
/** Return the rank that runs `microbatch` at `stage`, -1 if none does. */
TRYST_API int tryst_program_rank_of_microbatch(const tryst_program *program, int stage,
                                               int microbatch);
/** Return the number of replicas of `stage`: the ranks with an action of it. Writes the
 *  first `capacity` of them to `ranks` (NULL if capacity is 0), in rising order. */
TRYST_API int tryst_program_replicas(const tryst_program *program, int stage,
                                     int32_t *ranks, int capacity);

/** Load a program from a CSV file in the form of torch.distributed.pipelining
 *  (_load_csv/_dump_csv): one row per rank, one cell per time slot, "0F0", "0B0", "0I0",
 *  "0W0"; empty cells are idle and are dropped.
 *
 *  PyTorch's compute_only and compute_comms files load as they are. A pair,
 *  "(0F2;0B1)OVERLAP_F_B", is its two actions. Communication, its waits and sharding are
 *  dropped, since transfers follow from the compute actions; so is REDUCE_GRAD of a stage
 *  that one rank alone has, since there is nothing to sum. The order that PyTorch's
 *  Schedule1F1B prints is refused: its last rank has no forward of micro-batch 0.
 *
 *  Of this library alone: "0UPDATE", "0F2v-1" (reads version -1), "0F2s1" (reads slot 1),
 *  "0R2", "0PREDICTs1d0a1.5" (slot, tryst_stage_direction, updates ahead), the marks of a
 *  loop, "BODY" and "EPILOGUE", each before the first action of that part, and "RATE10"
 *  as the first cell of row 0 (tryst_program_rate_set).
 *
 *  Row r is rank r's; stages and micro-batches are counted from the cells, those of a
 *  loop's step from the forwards of a stage in the bodies. If a file without marks has no
 *  UPDATE, one for each stage is appended to its rank's row; a file with any is taken as
 *  it is.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM,
 *           TRYST_E_IO       the file cannot be read
 *           TRYST_E_PROGRAM  a cell is wrong; tryst_last_error gives row, column and
 *                            text; or the file is larger than 64 MiB, or has a zero
 *                            byte */
TRYST_API tryst_status tryst_program_load_csv(const char *path,
                                              tryst_program **program_p);

/** Save a program in the form of tryst_program_load_csv, with CRLF line ends as Python's
 *  csv module writes them. If every action reads version 0 and each rank ends with its
 *  UPDATEs, the UPDATEs are left out, so that PyTorch can read the file. Loading the file
 *  gives an equal program.
 *  Returns: TRYST_OK, TRYST_E_IO (tryst_last_error gives the reason) */
TRYST_API tryst_status tryst_program_save_csv(const tryst_program *program,
                                              const char *path);

typedef struct tryst_check_params {
    size_t struct_size;
    /** Limit of the weight versions that a stage can keep, the newest included. 0: any
     *  number. */
    int32_t versions_max;
    /** Limit of the saved activations (micro-batch × stage) that a rank can hold. 0: any
     *  number. */
    int32_t activations_max;
} tryst_check_params;

/** The most that a rank holds while the program runs. */
typedef struct tryst_program_peak {
    int32_t activations; /**< forwards not yet followed by their last backward part */
    int32_t versions; /**< weight versions kept at once, maximum over the rank's stages */
} tryst_program_peak;

/** Check that a program can run: every stage has each micro-batch's F once, and B once or
 *  I and W once each, and R at most once, between F and B or I, on one rank; a dry run of
 *  all ranks comes to its end; each weight version and each slot exists when it is read;
 *  R reads what the B or I behind it reads, and W what its I read; each backward is
 *  followed by an UPDATE, with a REDUCE_GRAD between them if the stage is replicated; all
 *  replicas of a stage make the same versions.
 *
 *  A loop can run any number of steps: this holds for one, two and three steps of it,
 *  each unrolled; nothing that a body needs is made in a later body; the gradients that
 *  a body adds are followed by an UPDATE in each body; a slot that a body reads is
 *  filled in each body; the last stage runs no forward of the next step, since a step
 *  returns all of its losses; and a step has at least ranks - 1 micro-batches. An error
 *  of unrolled steps shows the unrolled program. An engine demands more of a loop
 *  (tryst_engine_open): no stage is replicated.
 *
 *  `peaks` (may be NULL) receives one entry per rank, of a loop for all steps.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM,
 *           TRYST_E_PROGRAM  tryst_last_error has the sentence and the program as a grid
 *                            (a row for each position, a column for each rank), with
 *                            "<-- ERROR HERE" behind the row that is wrong
 */
TRYST_API tryst_status tryst_program_check(const tryst_program *program,
                                           const tryst_check_params *params,
                                           tryst_program_peak *peaks);

/* ----------------------------------------------------------------------------------- *
 *  Simulator
 * ----------------------------------------------------------------------------------- */

/** Seconds of each action of one stage with a core of its own. R takes forward_s. */
typedef struct tryst_action_costs {
    double forward_s;
    double backward_s;
    double input_grad_s;
    double weight_grad_s;
    double update_s;
    double predict_s;
} tryst_action_costs;

typedef struct tryst_sim_params {
    size_t struct_size;
    const tryst_action_costs *costs; /**< costs of each stage */
    /** For each stage s: the bytes that it sends to stage s + 1 in a forward, and that
     *  come back as gradient. NULL: 0 bytes for all stages. */
    const uint64_t *boundary_bytes;
    double link_latency_s;
    /** rate of each direction of each pair of ranks; 0: unlimited */
    double link_bytes_per_s;
    /** Cores that the ranks share, in equal parts when more ranks compute than there are
     *  cores. 0: a core for every rank. */
    int32_t cores_count;
    int32_t reserved;
    /** For each stage: time from the REDUCE_GRAD of its last replica until its gradients
     *  are summed; its UPDATEs wait for it. NULL: 0 for all stages. */
    const double *reduce_grad_s;
} tryst_sim_params;

typedef struct tryst_sim_rank {
    /** Sum of its actions' times; more than the sum of their costs if there are fewer
     *  cores than ranks. */
    double busy_s;
    double first_s; /**< begin of the first action */
    double last_s;  /**< end of the last action */
    /** Idle part of the makespan (as the 1F1B papers count), and of the time from first_s
     *  to last_s (as the zero-bubble papers do). */
    double bubble_makespan;
    double bubble_span;
    int32_t peak_activations;
    int32_t reserved;
} tryst_sim_rank;

/** The times of one action, the i-th of its rank. */
typedef struct tryst_sim_event {
    double begin_s;
    double end_s;
} tryst_sim_event;

typedef struct tryst_sim {
    size_t struct_size;
    double makespan_s;
    double bubble_makespan; /**< mean over the ranks, as bubble_span */
    double bubble_span;
    int32_t ranks_count;
    int32_t reserved;
    tryst_sim_rank *ranks;
    tryst_sim_event **events; /**< events[rank][i] */
} tryst_sim;

/** Simulate one run of a checked program. Deterministic. Steps that follow one another
 *  overlap: simulate 8 and 16 of them (tryst_program_unroll); an eighth of the difference
 *  is a step, even if steps alternate.
 *
 *  Owns:    the caller owns `*sim_p`, for tryst_sim_free.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (a negative cost, no costs, a
 *           loop),
 *           TRYST_E_PROGRAM (the program does not reach its end)
 */
TRYST_API tryst_status tryst_program_simulate(const tryst_program *program,
                                              const tryst_sim_params *params,
                                              tryst_sim **sim_p);
/** Free a simulation and all its arrays. NULL is allowed. */
TRYST_API void tryst_sim_free(tryst_sim *sim);

/* ----------------------------------------------------------------------------------- *
 *  Timeline
 * ----------------------------------------------------------------------------------- */

typedef enum tryst_span_kind {
    TRYST_SPAN_FORWARD = 0,
    TRYST_SPAN_BACKWARD = 1,
    TRYST_SPAN_INPUT_GRAD = 2,
    TRYST_SPAN_WEIGHT_GRAD = 3,
    TRYST_SPAN_UPDATE = 4,
    TRYST_SPAN_WAIT = 5, /**< nothing to compute until data arrive */
    TRYST_SPAN_SEND = 6, /**< from posting to completion; overlaps compute */
    TRYST_SPAN_RECEIVE = 7,
    TRYST_SPAN_KINDS = 8, /**< number of kinds in runs without replicated stages */
    /** sum of a layer's gradient over replicas, from its start to its end; `microbatch`
     *  is the layer */
    TRYST_SPAN_REDUCE_GRAD = 8,
    TRYST_SPAN_RECOMPUTE = 9, /**< R */
    TRYST_SPAN_PREDICT = 10
} tryst_span_kind;

/** One span of a rank's timeline. Plain numbers only: spans are sent between ranks as
 *  bytes. */
typedef struct tryst_span {
    uint64_t begin_ns;
    uint64_t end_ns;
    int32_t kind; /**< tryst_span_kind */
    int32_t stage;
    /** -1 where none; from the number of a step on: of a loop's next step, as
     *  tryst_action.microbatch */
    int32_t microbatch;
    int32_t peer;     /**< rank at the other end of a send or receive, else -1 */
    int32_t gradient; /**< send and receive: 1 a gradient, 0 an activation */
    /** 0: of the step that is drawn; below and above: of a step before and after it. The
     *  engine writes 0, and -1 where steps follow one another for what began in the step
     *  before. */
    int32_t step;
} tryst_span;

/* ----------------------------------------------------------------------------------- *
 *  Engine
 * ----------------------------------------------------------------------------------- */

/** The part of a program on one rank. Used by one thread at a time. */
typedef struct tryst_engine tryst_engine;

/** Provide a micro-batch: write `input` for the first stage and `target` for the last, in
 *  the form that tryst_stage_info gives. A pointer is NULL if the stage does not need
 *  these data; a stage that is first and last gets both. Called from tryst_engine_step,
 *  with the step that the micro-batch belongs to: in a loop that may be the next one. Any
 *  status but TRYST_OK fails the step with that status. */
typedef tryst_status (*tryst_feed_fn)(void *arg, uint64_t step, int32_t microbatch,
                                      void *input, uint8_t *target);

typedef struct tryst_engine_params {
    size_t struct_size;
    tryst_ctx *ctx;
    tryst_group *group;
    /** A checked program (tryst_program_check), with as many ranks as the group. It must
     *  outlive the engine. */
    const tryst_program *program;
    /** One entry per stage of the program: this rank's stages, NULL for those of other
     *  ranks; of a replicated stage, this rank's replica. The stages stay the caller's,
     *  and must outlive the engine. */
    tryst_stage *const *stages;
    /** The source of the data; NULL if the stages need none. */
    tryst_feed_fn feed;
    void *feed_arg;
    /** Receives posted ahead of the action that needs them. 0: the default, 4. */
    int32_t receives_ahead_max;
    /** Time after which a step without any progress fails, so that every wait ends. 0:
     *  the default, 10 minutes. */
    uint64_t timeout_ns;
    /** Limit of the engine's buffers (inputs, outputs, saved activations, receives posted
     *  ahead) in the stages' kind of memory; a step that needs more fails with
     *  TRYST_E_NOMEM and a text that lists the use of the memory. 0: no limit but the
     *  memory that exists. */
    uint64_t memory_bytes_max;
    /** Replicated stages, for comparison: start the sums of gradients only behind the
     *  last backward, and end them before the UPDATE returns. */
    bool reduce_at_end;
    /** Steps follow one another: the ids of consecutive steps rise by one, and
     *  tryst_engine_step_last ends them, as a loop demands in any case. Receives of the
     *  next step are then posted before the end of this one. Stages on a device may still
     *  have actions to do when a step other than the first and the last returns; its
     *  losses are complete. */
    bool steps_follow;
} tryst_engine_params;

/** Bind this rank's part of a program to its stages: prepare keys and buffers.
 *
 *  Replicated stages. The last backward before a REDUCE_GRAD reports each part (layer) of
 *  its stage, and that part's gradient is summed over the replicas at once, while the
 *  backward goes on: by an all-reduce of a subgroup, with a priority below those of
 *  activations, the most urgent for the layer that the next forward needs first. A part
 *  is updated when its sum is there. A forward of the next step waits for the update of
 *  the layer that it reads next, not for the others. The weights of a replicated stage
 *  are complete after tryst_engine_finish; its gradients are the library's until then.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM,
 *           TRYST_E_INVALID      ranks differ; a stage is missing, cannot do an action of
 *                                the program, holds fewer weight versions or slots than
 *                                tryst_program_stage_need counts, or its sizes do not fit
 *                                those of its neighbour on this rank
 *           TRYST_E_PROGRAM      the last stage runs a forward of a loop's next step
 *           TRYST_E_UNSUPPORTED  a replicated stage in a loop, without parts, or on a
 *                                device
 */
TRYST_API tryst_status tryst_engine_open(const tryst_engine_params *params,
                                         tryst_engine **engine_p);

/** Run the program once in the scope `step` (ids as in tryst_step_open).
 *
 *  When this returns, all data that this rank needed has come; its last sends may still
 *  be on their way (the next call, or tryst_engine_finish, waits for them), and other
 *  ranks may still be in this step or already in the next. `*loss_p` (may be NULL)
 *  receives tryst_loss_mean of this rank's micro-batches on a rank of the last stage, and
 *  NAN elsewhere.
 *
 *  A failure aborts the step on every rank, with the sentence of its cause.
 *
 *  In a loop a step also runs micro-batches of the next one, in the scope `step` + 1, and
 *  with steps_follow it receives for them: so the ids of consecutive steps rise by one.
 *  Another id, and a step behind the last, are refused (TRYST_E_INVALID) without any
 *  other effect.
 *
 *  Blocks:  while data are missing, making progress; at most timeout_ns without any.
 *  Returns: TRYST_OK, or the status of the failure; tryst_engine_error and
 *           tryst_last_error have its sentence, with the rank where it began. After a
 *           failure the engine can only be closed.
 */
TRYST_API tryst_status tryst_engine_step(tryst_engine *engine, uint64_t step,
                                         double *loss_p);

/** Run the last step, as tryst_engine_step does: in a loop with the epilogue in place of
 *  the body, so that no micro-batch stays in flight. All ranks make the same step the
 *  last. A loop that has begun, or steps of which each promises the next (steps_follow),
 *  must end so before tryst_engine_finish. Later steps are refused (TRYST_E_INVALID).
 *  Blocks and returns as tryst_engine_step. */
TRYST_API tryst_status tryst_engine_step_last(tryst_engine *engine, uint64_t step,
                                              double *loss_p);

/** Wait until every send has ended and every part of a replicated stage is updated, and
 *  close the open steps. Blocks as tryst_engine_step does. More steps may follow. In a
 *  loop, and with steps_follow, this is refused between the first step and the last,
 *  without any other effect.
 *  Returns: TRYST_OK, TRYST_E_INVALID (the step before was not the last), or the status
 *           of the failure, as tryst_engine_step */
TRYST_API tryst_status tryst_engine_finish(tryst_engine *engine);

/** Abort because the caller itself must stop: the engine's open steps, and the next ones,
 *  which other ranks may have opened, so that every rank ends with `reason` as its cause.
 *  Afterwards the engine counts as failed with `status` (an error) and can only be
 *  closed. No effect after a failure of the engine's own. Blocks: until no operation uses
 *  its buffers, at most some seconds. */
TRYST_API void tryst_engine_abort(tryst_engine *engine, tryst_status status,
                                  const char *reason);

/** Return the losses of the last step, one for each micro-batch, NAN for those of other
 *  replicas; NULL except on a rank of the last stage. */
TRYST_API const double *tryst_engine_losses(const tryst_engine *engine);

/** Return the sentence of the failure; "" before a failure, and for NULL. Valid until the
 *  engine closes. */
TRYST_API const char *tryst_engine_error(const tryst_engine *engine);

/** Return the cause of a failure, for reports to other ranks: if another rank stopped
 *  this one, that rank's own sentence, without what this rank added; else
 *  tryst_engine_error. */
TRYST_API const char *tryst_engine_cause(const tryst_engine *engine);

/** Figures of this rank since the engine was opened, or since the last
 *  tryst_engine_stats_reset. */
typedef struct tryst_engine_stats {
    size_t struct_size;
    uint64_t steps_count;
    uint64_t begin_ns; /**< tryst_now_ns when the first step began */
    uint64_t end_ns;   /**< tryst_now_ns when the last step ended */
    uint64_t compute_wall_ns;
    uint64_t compute_cpu_ns; /**< thread CPU time of the same actions */
    uint64_t wait_ns;        /**< time with nothing to compute until data arrived */
    uint64_t bytes_sent;
    uint64_t bytes_received;
    /** most bytes at a time of inputs, outputs on their way and saved activations */
    uint64_t peak_activation_bytes;
    /** number of buffers allocated so far; stops growing after some steps */
    uint64_t buffer_allocations;
    /** number of actions of each kind (index: tryst_action_kind), and their times */
    uint64_t action_counts[16];
    uint64_t action_wall_ns[16];
    uint64_t action_cpu_ns[16];
    uint64_t bytes_reduced;  /**< gradients that were summed over replicas */
    uint64_t reduce_wait_ns; /**< the part of wait_ns that waited for such sums */
} tryst_engine_stats;

/** Read this rank's figures so far. Returns TRYST_OK, TRYST_E_INVALID */
TRYST_API tryst_status tryst_engine_stats_get(const tryst_engine *engine,
                                              tryst_engine_stats *stats_p);
/** Reset the figures, those of stages too; peaks stay. */
TRYST_API void tryst_engine_stats_reset(tryst_engine *engine);

/** Figures of the actions of one stage on this rank, as those of tryst_engine_stats,
 *  which are their sums over the rank's stages. */
typedef struct tryst_engine_cost {
    size_t struct_size;
    /** number of actions of each kind (index: tryst_action_kind), and their times: by the
     *  clock, and of the thread's CPU */
    uint64_t counts[16];
    uint64_t wall_ns[16];
    uint64_t cpu_ns[16];
} tryst_engine_cost;

/** Read the figures of a stage of this rank, since the engine was opened or
 *  tryst_engine_stats_reset. Returns TRYST_OK, TRYST_E_INVALID (no such stage, or a stage
 *  of another rank) */
TRYST_API tryst_status tryst_engine_cost_get(const tryst_engine *engine, int stage,
                                             tryst_engine_cost *cost_p);

/** Return the spans of this rank's last step, with a send's span once the send has ended;
 *  where steps follow one another also of what the step before began and this one has
 *  ended.
 *  Valid until the next call of the engine. */
TRYST_API const tryst_span *tryst_engine_spans(const tryst_engine *engine,
                                               size_t *count_p);

/** Close an engine. A loop, or steps with steps_follow, that have begun and not ended
 *  are aborted on every rank (tryst_last_error has the sentence). After a failure this
 *  waits until no operation uses its buffers, at most some seconds; memory that an
 *  operation may still use then is not freed. NULL is allowed. */
TRYST_API void tryst_engine_close(tryst_engine *engine);

TRYST_END_DECLS

#endif
