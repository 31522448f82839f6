/* SPDX-License-Identifier: Apache-2.0 */
/** @file stage.h
 *  Stages: the consecutive layers of a model that one rank computes. Library:
 *  libtryst_pipeline.
 *
 *  A stage is a table of functions (forward, backward, update, …) behind a base struct,
 *  so the engine and the replay are independent of models. `tryst_stage_open` builds the
 *  host stages of this library from a `tryst_model`; a stage of your own embeds
 *  `tryst_stage` as its first member and fills in the table. The tryst_stage_work that
 *  its functions get, and the tryst_stage_cost that they fill in, may be of any version:
 *  tryst_sized_view and tryst_sized_write (tryst/sized.h) convert them.
 *
 *  One `tryst_stage_work` describes one micro-batch at one stage; the caller fills in its
 *  fields as tensors appear:
 *
 *    forward          reads  input, target (last stage)      writes output, saved
 *    backward         reads  input, target, saved,
 *                            grad_output (not last stage)    writes grad_input (not
 *                                                            first), adds to the
 *                                                            gradients
 *  or, split,
 *    backward_input   as backward, but kept gets what
 *                     backward_weight needs                  writes grad_input, kept
 *    backward_weight  reads  input, saved, kept              adds to the gradients
 *
 *  `update` then makes the next weight version from the gradients and clears them.
 *
 *  Weight versions count from 0 (the initial weights); each update makes the next one. A
 *  stage holds the newest `versions_count` of them; synchronous schedules need one.
 *
 *  *Parts.* The parameters of one layer are a part of the stage: one backward completes
 *  their gradient at one time, and they can be updated alone. A stage that is replicated
 *  over ranks sums each part's gradient over its replicas as soon as it is complete
 *  (work.part_added), and a forward needs only the update of the part that it reads next
 *  (work.part_needed).
 *
 *  Results depend on the model, the data, and the order of calls at each stage alone:
 *  never on the number of stages, ranks or threads. On one machine they are bitwise
 *  reproducible.
 *
 *  *Device stages* (params' `memory` names a device, or `reference` is set) run the same
 *  models over a table of kernels: CUDA, in its own module that the first use loads, or
 *  plain C on the host. Where `info.memory` is a device, every buffer of a work is in
 *  that device's memory, and calls only queue work in the stage's streams and return. The
 *  work of a call begins after the events in `waits`, and `ready` and `done` are recorded
 *  behind it. Activations have the type of params' `precision`; sums, master weights,
 *  gradients and moments are fp32 (TRYST_PRECISION_F64: fp64).
 *
 *  Thread:  one stage is used by one thread at a time; different stages are independent.
 */
#ifndef TRYST_STAGE_H
#define TRYST_STAGE_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

/* ------------------------------------------------------------------------------------- *
 *  Models
 * ------------------------------------------------------------------------------------ */

/** Kinds of model. All read bytes and predict the next byte, except `SLEEP`, which only
 *  sleeps. */
typedef enum tryst_model_kind {
    TRYST_MODEL_INVALID = 0,
    TRYST_MODEL_MLP = 1,
    TRYST_MODEL_GPT = 2,
    TRYST_MODEL_SLEEP = 3
} tryst_model_kind;

/** A model, equal on all ranks. A zero field means its default (in brackets: mlp, gpt,
 *  sleep). */
typedef struct tryst_model {
    size_t struct_size;
    tryst_model_kind kind;
    int32_t layers;          /**< residual layers or transformer blocks [8, 8, 8] */
    int32_t hidden;          /**< width of an activation row [64, 64, –] */
    int32_t heads;           /**< attention heads, a divisor of hidden [–, 4, –] */
    int32_t seq;             /**< bytes in a window [64, 64, –] */
    int32_t microbatch_size; /**< windows in a micro-batch [4] */
    int32_t vocabulary;      /**< always 256 */
    uint64_t seed;           /**< seed of the initial weights [0] */
    /** Sleep only: the time of a whole forward and of a whole backward of one stage. */
    uint64_t sleep_forward_ns;
    uint64_t sleep_backward_ns;
    uint64_t sleep_activation_bytes; /**< [4096], rounded up to whole floats */
    /** Sleep only: bytes of a gradient of zeros for each layer, rounded up to whole
     *  floats; each layer then is a part, and sleeps its share of the time [0: no
     *  parts]. */
    uint64_t sleep_gradient_bytes;
    /** Sleep only: the times of both parts of a split backward. Their sum is the whole
     *  backward's time, which may then be 0. Both 0: a half of it each. */
    uint64_t sleep_input_grad_ns;
    uint64_t sleep_weight_grad_ns;
} tryst_model;

/** Read "mlp", "gpt", "sleep:F_ms,B_ms" or "sleep:F_ms,I_ms,W_ms" (decimals allowed) into
 *  `model->kind` and the sleep times; the other fields stay unchanged.
 *
 *  Returns: TRYST_OK; or TRYST_E_CONFIG, or TRYST_E_INVALID for the struct_size of
 *           `model`; tryst_last_error gives the reason
 */
TRYST_API tryst_status tryst_model_parse(const char *text, tryst_model *model);

/** Check `model` and write it to `*resolved_p` with every default filled in. Both may be
 *  the same struct.
 *
 *  Returns: TRYST_OK, or TRYST_E_INVALID; tryst_last_error gives the reason
 */
TRYST_API tryst_status tryst_model_resolve(const tryst_model *model,
                                           tryst_model *resolved_p);

/** Return "mlp", "gpt", "sleep", or "invalid". Static. */
TRYST_API const char *tryst_model_kind_name(tryst_model_kind kind);

/** A run of layers [first, last) out of the `layers` of a model. */
typedef struct tryst_layers {
    int32_t first;
    int32_t last; /**< one past the last layer */
} tryst_layers;

/** Compute the layers of stage `stage` out of `stages`: equal shares; if they do not
 *  divide evenly, the first stages have one layer more. The embedding belongs to the
 *  first stage; the final norm, the head and the loss to the last.
 *
 *  Returns: TRYST_OK, or TRYST_E_INVALID (more stages than layers, bad index)
 */
TRYST_API tryst_status tryst_model_split(const tryst_model *model, int32_t stages,
                                         int32_t stage, tryst_layers *layers_p);

/* ------------------------------------------------------------------------------------- *
 *  Optimisers
 * ------------------------------------------------------------------------------------ */

typedef enum tryst_optimizer_kind {
    TRYST_OPTIMIZER_DEFAULT = 0, /**< Adam */
    TRYST_OPTIMIZER_SGD = 1,     /**< v = momentum·v + g; w -= lr·v */
    TRYST_OPTIMIZER_ADAM = 2 /**< Kingma and Ba, algorithm 1; bias correction in fp64 */
} tryst_optimizer_kind;

/** The optimiser's parameters. A zero field means its default; a negative one means
 *  zero. */
typedef struct tryst_optimizer {
    size_t struct_size;
    tryst_optimizer_kind kind;
    int32_t reserved;
    double lr;       /**< [sgd 0.1, adam 0.001] */
    double momentum; /**< sgd [0.9] */
    double beta1;    /**< adam [0.9] */
    double beta2;    /**< adam [0.999] */
    double epsilon;  /**< adam [1e-8] */
} tryst_optimizer;

/* ------------------------------------------------------------------------------------- *
 *  The stage
 * ------------------------------------------------------------------------------------ */

typedef struct tryst_stage tryst_stage;

/** Shapes and sizes of a stage, fixed when it was opened. Counts and bytes of buffers are
 *  per micro-batch. */
typedef struct tryst_stage_info {
    size_t struct_size;
    tryst_layers layers;
    bool is_first;
    bool is_last;
    /** First stage: the windows' bytes, U8 [microbatch_size, seq] (input_count 0: the
     *  stage needs no data). Else the output of the stage before. grad_input has the same
     *  shape (the first stage has none). */
    tryst_dtype input_dtype;
    /** Last stage: the mean loss of the micro-batch, one F64, and no grad_output. Else
     *  activations; grad_output has the same shape. */
    tryst_dtype output_dtype;
    uint64_t input_count;
    uint64_t output_count;
    /** last stage: bytes of `target`, U8, shaped like the windows */
    uint64_t target_count;
    uint64_t saved_bytes;   /**< bytes that forward leaves for backward */
    uint64_t kept_bytes;    /**< bytes that backward_input leaves for backward_weight */
    uint64_t weights_count; /**< parameters (elements) of this stage */
    int32_t versions_count; /**< number of weight versions held */
    bool split_backward;    /**< backward_input and backward_weight exist */
    /** Memory of a work's buffers: input, target, output, saved, grad_output, grad_input
     *  and kept. Host: a call is complete when it returns, and events are ignored. Else a
     *  call has only enqueued its work when it returns. */
    tryst_memory_kind memory;
    int32_t device;      /**< ordinal of a device memory kind, else 0 */
    int32_t slots_count; /**< predicted weights held, beside the versions */
    bool keeps_delta;    /**< TRYST_DIRECTION_DELTA can be asked for */
} tryst_stage_info;

/** The buffers of one micro-batch at one stage. Unused fields are NULL; `saved` or `kept`
 *  may be NULL if the stage's info gives 0 bytes for it. Buffers are the caller's,
 *  64-byte aligned, and disjoint; those that are const may be another rank's memory,
 *  which cannot be written here. `input`, `target` and `saved` stay unchanged from
 *  forward to the micro-batch's last backward action; `grad_output` and `output` are not
 *  read after the call that got them; `kept` lives from backward_input to
 *  backward_weight.
 *
 *  Device stages: "after the call" is after its `done`. The loss of a last stage may also
 *  go to pinned host memory: a caller that needs the number on the host passes such an
 *  `output` and reads it when `ready` has passed. Events are the caller's
 *  (tryst/device.h), of the stage's device, and may be recorded anew when they have
 *  passed. */
typedef struct tryst_stage_work {
    size_t struct_size;
    uint64_t version; /**< the weight version that this action reads */
    const void *input;
    const uint8_t *target;
    void *output;
    void *saved;
    const void *grad_output;
    void *grad_input;
    void *kept;
    /** Device stages: events that must have passed before the call's work begins (the
     *  event of a received input or gradient, say). The stage itself orders the work of
     *  its own earlier calls. NULL if waits_count is 0. */
    void *const *waits;
    int32_t waits_count;
    /** Read the weights of this slot (tryst_stage_ops.predict) instead of `version`. 0:
     *  none. */
    int32_t slot;
    /** Device stages: `ready` is recorded when `output` or `grad_input` is complete,
     *  `done` when the call uses no buffer any more. Either may be NULL. */
    void *ready;
    void *done;
    /** Stages with parts. Called by forward before it reads the weights of part `part`,
     *  in rising order; it may update that part. A status other than TRYST_OK ends the
     *  forward, which returns it. NULL: not called. */
    tryst_status (*part_needed)(void *arg, int32_t part);
    /** Stages with parts. Called by backward and backward_weight once this micro-batch's
     *  gradient has been added to that of part `part`, in falling order; the call does
     *  not use that gradient any more. A status other than TRYST_OK ends the call, which
     *  returns it. NULL: not called. */
    tryst_status (*part_added)(void *arg, int32_t part);
    void *part_arg; /**< first argument of both */
} tryst_stage_work;

/** One update of a stage's weights. */
typedef struct tryst_stage_update {
    size_t struct_size;
    int32_t microbatches; /**< the gradients' sum is divided by it; at least 1 */
    int32_t reserved;
    /** Factor of the learning rate [0: 1]. */
    double rate;
    /** Device stages: event that is recorded when the update is done. May be NULL. */
    void *done;
} tryst_stage_update;

/** The change of the weights by which a prediction moves them. */
typedef enum tryst_stage_direction {
    /** The step that the optimiser would take from its moments as they are, at the full
     *  learning rate (tryst_stage_update.rate has no effect): SGD -lr · v; Adam
     *  -lr · m̂ / (√v̂ + epsilon), the moments' bias corrected for the updates so far.
     *  (SpecTrain, Chen et al. 2018; XPipe, Guan et al. 2019) */
    TRYST_DIRECTION_STEP = 0,
    /** The mean change of the weights by one update: an exponential moving average, δ =
     *  γ·δ + (1 - γ)·(new - old), with γ of params' delta_decay. (PipeMare, Yang et al.
     *  2021) */
    TRYST_DIRECTION_DELTA = 1
} tryst_stage_direction;

/** One prediction: slot = newest + ahead · direction. */
typedef struct tryst_stage_prediction {
    size_t struct_size;
    int32_t slot;      /**< 1 to info.slots_count */
    int32_t direction; /**< a tryst_stage_direction */
    double ahead;      /**< number of updates; negative: back */
    void *done;        /**< as tryst_stage_update.done */
} tryst_stage_prediction;

/** One part of a stage. */
typedef struct tryst_stage_part {
    size_t struct_size;
    int32_t layer; /**< layer of the model, as tryst_parameter.layer */
    tryst_dtype dtype;
    /** Elements of `gradient`: those of all its parameters, and zeros between them. */
    uint64_t count;
    /** Sum over micro-batches since the last update, in host memory. Stays at this
     *  address until the stage is closed. */
    void *gradient;
} tryst_stage_part;

/** Costs of a stage, for the simulator. Flops and bytes are per micro-batch. Times are 0
 *  if unknown (estimate them from flops, or measure). */
typedef struct tryst_stage_cost {
    size_t struct_size;
    double forward_flops;
    double backward_input_flops;
    double backward_weight_flops;
    double update_flops; /**< flops of an update */
    uint64_t weights_bytes;
    uint64_t output_bytes; /**< bytes sent to the next stage */
    /** bytes held between forward and backward: input and saved */
    uint64_t activation_bytes;
    uint64_t forward_ns;
    uint64_t backward_ns;
} tryst_stage_cost;

/** One parameter tensor of a stage. Pointers live as long as the stage; their contents
 *  change with updates. */
typedef struct tryst_parameter {
    size_t struct_size;
    const char *name; /**< "blocks.3.attention.qkv.weight"; valid during the visit */
    int32_t layer; /**< layer of the model; -1 embedding, `layers` final norm and head */
    int32_t rank;  /**< 1 or 2 dimensions */
    uint64_t shape[2]; /**< row-major; a weight is [out, in] */
    tryst_dtype dtype; /**< F32; F64 with TRYST_PRECISION_F64 */
    int32_t reserved;
    uint64_t count; /**< elements */
    /** Newest version; NULL in tryst_model_parameter_visit. For a stage in device memory
     *  a copy of the master weights, valid during this call of the visitor. */
    void *value;
    /** Sum over micro-batches since the last update. NULL, or a copy, as `value`. */
    void *gradient;
} tryst_parameter;

/** Receives each parameter in layer order; nonzero stops the visit. */
typedef int (*tryst_parameter_fn)(void *arg, const tryst_parameter *parameter);

/** The functions of a stage. A function takes only the time of its own arithmetic (or
 *  sleep); parameter_visit and close also wait for a device. None takes a lock or
 *  allocates: all memory is allocated when the stage is opened, and freed by `close`.
 *  Programmer errors (a NULL where none is allowed) are asserted. On a device each
 *  function may also return TRYST_E_SYSTEM: work that any earlier call queued has
 *  failed. */
typedef struct tryst_stage_ops {
    size_t struct_size;
    const char *name;

    /** Compute `output` and `saved` from `input`.
     *  Returns: TRYST_OK, or TRYST_E_INVALID when `version` is not held, or when `slot`
     *           does not exist or has never been predicted. */
    tryst_status (*forward)(tryst_stage *stage, const tryst_stage_work *work);

    /** Compute `grad_input` and add this micro-batch's weight gradients, in call order.
     *  Bitwise equal to backward_input followed by backward_weight.
     *  Returns: as forward. */
    tryst_status (*backward)(tryst_stage *stage, const tryst_stage_work *work);

    /** The halves of backward; both NULL if the stage cannot split. `saved`, `input` and
     *  `kept` stay between them. */
    tryst_status (*backward_input)(tryst_stage *stage, const tryst_stage_work *work);
    tryst_status (*backward_weight)(tryst_stage *stage, const tryst_stage_work *work);

    /** Make version newest + 1 from the newest and the gradients' sum divided by
     *  `microbatches`, then clear the gradients. Overwrites the oldest version held, and
     *  no slot.
     *  Returns: TRYST_OK, or TRYST_E_INVALID when `microbatches` < 1 or the rate is
     *           negative or not finite. */
    tryst_status (*update)(tryst_stage *stage, const tryst_stage_update *update);

    /** Write the oldest and the newest weight version held. */
    void (*versions)(const tryst_stage *stage, uint64_t *oldest_p, uint64_t *newest_p);

    /** Visit the parameters in layer order. In device memory it first waits for all work
     *  of the stage, at most params' timeout_ns. Returns the value with which `fn`
     *  stopped, else 0; where the device failed, its (positive) tryst_status:
     *  TRYST_E_SYSTEM or TRYST_E_DEADLINE. */
    int (*parameter_visit)(tryst_stage *stage, tryst_parameter_fn fn, void *arg);

    void (*cost)(const tryst_stage *stage, tryst_stage_cost *cost_p);

    void (*close)(tryst_stage *stage);

    /** Return, after TRYST_E_SYSTEM, a sentence about the device's failure. Valid until
     *  close. The pointer is NULL in stages that cannot fail in this way. */
    const char *(*error)(const tryst_stage *stage);

    /* The members below may be missing or NULL: such a stage cannot be replicated. */

    /** Return the number of parts, numbered from 0 in the order in which forward reads
     *  them. 0: the stage has no parameters, or they are in device memory. */
    int32_t (*parts_count)(const tryst_stage *stage);

    /** Describe a part. Returns TRYST_OK, or TRYST_E_INVALID for a part that does not
     *  exist. */
    tryst_status (*part)(const tryst_stage *stage, int32_t part,
                         tryst_stage_part *part_p);

    /** Begin an update by parts: give version newest + 1 its number, but no weights.
     *  Then update_part makes the weights of each part, once each and in any order;
     *  before that no call may read or add to that part. All calls together have the
     *  same result as one `update`.
     *  Returns: TRYST_OK, or TRYST_E_INVALID as `update`, or when a part lacks the
     *           previous update. */
    tryst_status (*update_begin)(tryst_stage *stage, const tryst_stage_update *update);

    /** Make the newest version of one part, then clear its gradient.
     *  Returns: TRYST_OK, or TRYST_E_INVALID for a part that does not exist or is
     *           updated already. */
    tryst_status (*update_part)(tryst_stage *stage, int32_t part);

    /* The member below may be missing or NULL: such a stage has no slots. */

    /** Write predicted weights to a slot. Before the stage's first update they are the
     *  newest version itself. A slot may be overwritten when no later call reads its old
     *  contents.
     *  Returns: TRYST_OK, or TRYST_E_INVALID for a slot that does not exist, an `ahead`
     *           that is not finite, an unknown direction, TRYST_DIRECTION_DELTA without
     *           info.keeps_delta, or when a part lacks the previous update. */
    tryst_status (*predict)(tryst_stage *stage, const tryst_stage_prediction *prediction);
} tryst_stage_ops;

struct tryst_stage {
    const tryst_stage_ops *ops;
    tryst_stage_info info;
};

/** Type of the activations of a device stage, and of the weights that matrix products
 *  read. Sums are fp32 (F64: fp64). */
typedef enum tryst_precision {
    TRYST_PRECISION_DEFAULT = 0, /**< BF16 on a device, F32 on the host */
    TRYST_PRECISION_BF16 = 1,
    TRYST_PRECISION_F32 = 2,
    TRYST_PRECISION_TF32 = 3, /**< F32; products may round their factors to TF32 */
    TRYST_PRECISION_F64 = 4   /**< reference alone: for checking gradients */
} tryst_precision;

typedef struct tryst_stage_params {
    size_t struct_size;
    int32_t versions_count; /**< number of weight versions to hold [1] */
    int32_t reserved;
    const tryst_optimizer *optimizer; /**< copied; NULL: all defaults */

    /** Where the stage computes [host]. Another kind than host loads its module. */
    tryst_memory_kind memory;
    int32_t device; /**< ordinal [0] */
    /** Run the device stage's code over its plain C kernels, in host memory (slow, and
     *  equal on every machine). `memory` must be host. */
    bool reference;
    /** precision of a device stage; the host stages are F32 */
    tryst_precision precision;
    /** Device stages: forward leaves only the layers' inputs in `saved`, and backward
     *  computes the rest again, with the same bits. */
    bool recompute;
    /** Device stages: limit of the memory that this stage allocates; 0: the free
     *  memory. */
    uint64_t memory_bytes_max;
    /** Device stages: how long open, parameter_visit and close wait for the device [10
     *  minutes]. Then they fail with TRYST_E_DEADLINE; close does not free memory that
     *  the device may still use. */
    uint64_t timeout_ns;
    int32_t slots_count; /**< predicted weights to hold beside the versions [0] */
    int32_t reserved2;
    /** γ of TRYST_DIRECTION_DELTA, above 0 and below 1 [0: no mean change is kept]. A
     *  stage with it holds one fp32 value more for each parameter. */
    double delta_decay;
} tryst_stage_params;

/** Memory of a device stage, known before any of it is allocated. */
typedef struct tryst_stage_memory {
    size_t struct_size;
    uint64_t weights_bytes;   /**< all versions, and the fp32 masters beside bf16 ones */
    uint64_t gradients_bytes; /**< gradients, in fp32 (TRYST_PRECISION_F64: fp64) */
    uint64_t moments_bytes;   /**< the optimiser's moments, and PipeMare's mean change */
    uint64_t scratch_bytes;   /**< one layer's backward, and the products' workspaces */
    uint64_t total_bytes;     /**< sum of the above: what open allocates, in one piece */
    /** Memory that the caller provides for each micro-batch in flight: `saved`; and
     *  `kept` between the halves of a split backward. */
    uint64_t saved_bytes;
    uint64_t kept_bytes;
} tryst_stage_memory;

/** Compute the memory that tryst_stage_open would allocate for a device stage. Loads no
 *  module.
 *
 *  Returns: TRYST_OK, TRYST_E_INVALID as tryst_stage_open, TRYST_E_UNSUPPORTED for a
 *           stage that is not a device stage, TRYST_E_NOMEM
 */
TRYST_API tryst_status tryst_stage_memory_need(const tryst_model *model,
                                               tryst_layers layers,
                                               const tryst_stage_params *params,
                                               tryst_stage_memory *memory_p);

/** Build the stage for `layers` of `model`, with its initial weights: on the host with
 *  BLAS, or the device stage that `params` describes.
 *
 *  The weights depend on (seed, layer, tensor) alone. If OpenBLAS is the BLAS in use, its
 *  number of threads is set to one for the whole process, because sums must not depend on
 *  the number of threads.
 *
 *  Owns:    the caller owns `*stage_p` and gives it to tryst_stage_close.
 *  Returns: TRYST_OK, TRYST_E_INVALID (model, layers or params; see tryst_last_error),
 *           TRYST_E_NOMEM (for a device, tryst_last_error has the amount, the device, and
 *           what would fit), TRYST_E_UNSUPPORTED (no module, driver or device of that
 *           kind), TRYST_E_MODULE (the module was found but refused), TRYST_E_SYSTEM (the
 *           device failed), TRYST_E_DEADLINE (it did not answer in time)
 */
TRYST_API tryst_status tryst_stage_open(const tryst_model *model, tryst_layers layers,
                                        const tryst_stage_params *params,
                                        tryst_stage **stage_p);

/** Close a stage of any kind. NULL is allowed. */
TRYST_API void tryst_stage_close(tryst_stage *stage);

/** Write which BLAS computes, and with which of its kernels: "OpenBLAS, SkylakeX kernels,
 *  1 thread". Results are bitwise comparable between processes with equal texts. Returns
 *  `text`. */
TRYST_API const char *tryst_blas_describe(char *text, size_t capacity);

/** Return the value that the environment variable OPENBLAS_CORETYPE should have had when
 *  OpenBLAS was loaded, or NULL if its kernels suit the processor, the variable is set,
 *  or another BLAS is in use. OpenBLAS picks its kernels when it is loaded; a version
 *  older than the processor falls back to the slowest ones ("Prescott": three times
 *  slower on AVX-512 machines). To use the value, a program sets the variable and
 *  executes itself again; all ranks, and the replay, must do the same. Static. */
TRYST_API const char *tryst_blas_core_hint(void);

/** Return the mean of the losses of a step's micro-batches: summed in index order, in
 *  fp64. */
TRYST_API double tryst_loss_mean(const double *losses, int32_t losses_count);

TRYST_END_DECLS

#endif
