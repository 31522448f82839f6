/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_STAGE_H
#define TRYST_STAGE_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef enum tryst_model_kind {
    TRYST_MODEL_INVALID = 0,
    TRYST_MODEL_MLP = 1,
    TRYST_MODEL_GPT = 2,
    TRYST_MODEL_SLEEP = 3
} tryst_model_kind;

typedef struct tryst_model {
    size_t struct_size;
    tryst_model_kind kind;
    int32_t layers;
    int32_t hidden;
    int32_t heads;
    int32_t seq;
    int32_t microbatch_size;
    int32_t vocabulary;
    uint64_t seed;
    uint64_t sleep_forward_ns;
    uint64_t sleep_backward_ns;
    uint64_t sleep_activation_bytes;
    uint64_t sleep_gradient_bytes;
    uint64_t sleep_input_grad_ns;
    uint64_t sleep_weight_grad_ns;
} tryst_model;

TRYST_API tryst_status tryst_model_parse(const char *text, tryst_model *model);

TRYST_API tryst_status tryst_model_resolve(const tryst_model *model,
                                           tryst_model *resolved_p);

TRYST_API const char *tryst_model_kind_name(tryst_model_kind kind);

typedef struct tryst_layers {
    int32_t first;
    int32_t last;
} tryst_layers;

TRYST_API tryst_status tryst_model_split(const tryst_model *model, int32_t stages,
                                         int32_t stage, tryst_layers *layers_p);

typedef enum tryst_optimizer_kind {
    TRYST_OPTIMIZER_DEFAULT = 0,
    TRYST_OPTIMIZER_SGD = 1,
    TRYST_OPTIMIZER_ADAM = 2
} tryst_optimizer_kind;

typedef struct tryst_optimizer {
    size_t struct_size;
    tryst_optimizer_kind kind;
    int32_t reserved;
    double lr;
    double momentum;
    double beta1;
    double beta2;
    double epsilon;
} tryst_optimizer;

typedef struct tryst_stage tryst_stage;

typedef struct tryst_stage_info {
    size_t struct_size;
    tryst_layers layers;
    bool is_first;
    bool is_last;
    tryst_dtype input_dtype;
    tryst_dtype output_dtype;
    uint64_t input_count;
    uint64_t output_count;
    uint64_t target_count;
    uint64_t saved_bytes;
    uint64_t kept_bytes;
    uint64_t weights_count;
    int32_t versions_count;
    bool split_backward;
    tryst_memory_kind memory;
    int32_t device;
    int32_t slots_count;
    bool keeps_delta;
} tryst_stage_info;

typedef struct tryst_stage_work {
    size_t struct_size;
    uint64_t version;
    const void *input;
    const uint8_t *target;
    void *output;
    void *saved;
    const void *grad_output;
    void *grad_input;
    void *kept;
    void *const *waits;
    int32_t waits_count;
    int32_t slot;
    void *ready;
    void *done;
    tryst_status (*part_needed)(void *arg, int32_t part);
    tryst_status (*part_added)(void *arg, int32_t part);
    void *part_arg;
} tryst_stage_work;

typedef struct tryst_stage_update {
    size_t struct_size;
    int32_t microbatches;
    int32_t reserved;
    double rate;
    void *done;
} tryst_stage_update;

typedef enum tryst_stage_direction {
    TRYST_DIRECTION_STEP = 0,
    TRYST_DIRECTION_DELTA = 1
} tryst_stage_direction;

typedef struct tryst_stage_prediction {
    size_t struct_size;
    int32_t slot;
    int32_t direction;
    double ahead;
    void *done;
} tryst_stage_prediction;

typedef struct tryst_stage_part {
    size_t struct_size;
    int32_t layer;
    tryst_dtype dtype;
    uint64_t count;
    void *gradient;
} tryst_stage_part;

typedef struct tryst_stage_cost {
    size_t struct_size;
    double forward_flops;
    double backward_input_flops;
    double backward_weight_flops;
    double update_flops;
    uint64_t weights_bytes;
    uint64_t output_bytes;
    uint64_t activation_bytes;
    uint64_t forward_ns;
    uint64_t backward_ns;
} tryst_stage_cost;

typedef struct tryst_parameter {
    size_t struct_size;
    const char *name;
    int32_t layer;
    int32_t rank;
    uint64_t shape[2];
    tryst_dtype dtype;
    int32_t reserved;
    uint64_t count;
    void *value;
    void *gradient;
} tryst_parameter;

typedef int (*tryst_parameter_fn)(void *arg, const tryst_parameter *parameter);

typedef struct tryst_stage_ops {
    size_t struct_size;
    const char *name;

    tryst_status (*forward)(tryst_stage *stage, const tryst_stage_work *work);

    tryst_status (*backward)(tryst_stage *stage, const tryst_stage_work *work);

    tryst_status (*backward_input)(tryst_stage *stage, const tryst_stage_work *work);
    tryst_status (*backward_weight)(tryst_stage *stage, const tryst_stage_work *work);

    tryst_status (*update)(tryst_stage *stage, const tryst_stage_update *update);

    void (*versions)(const tryst_stage *stage, uint64_t *oldest_p, uint64_t *newest_p);

    int (*parameter_visit)(tryst_stage *stage, tryst_parameter_fn fn, void *arg);

    void (*cost)(const tryst_stage *stage, tryst_stage_cost *cost_p);

    void (*close)(tryst_stage *stage);

    const char *(*error)(const tryst_stage *stage);

    int32_t (*parts_count)(const tryst_stage *stage);

    tryst_status (*part)(const tryst_stage *stage, int32_t part,
                         tryst_stage_part *part_p);

    tryst_status (*update_begin)(tryst_stage *stage, const tryst_stage_update *update);

    tryst_status (*update_part)(tryst_stage *stage, int32_t part);

    tryst_status (*predict)(tryst_stage *stage, const tryst_stage_prediction *prediction);
} tryst_stage_ops;

struct tryst_stage {
    const tryst_stage_ops *ops;
    tryst_stage_info info;
};

typedef enum tryst_precision {
    TRYST_PRECISION_DEFAULT = 0,
    TRYST_PRECISION_BF16 = 1,
    TRYST_PRECISION_F32 = 2,
    TRYST_PRECISION_TF32 = 3,
    TRYST_PRECISION_F64 = 4
} tryst_precision;

typedef struct tryst_stage_params {
    size_t struct_size;
    int32_t versions_count;
    int32_t reserved;
    const tryst_optimizer *optimizer;

    tryst_memory_kind memory;
    int32_t device;
    bool reference;
    tryst_precision precision;
    bool recompute;
    uint64_t memory_bytes_max;
    uint64_t timeout_ns;
    int32_t slots_count;
    int32_t reserved2;
    double delta_decay;
} tryst_stage_params;

typedef struct tryst_stage_memory {
    size_t struct_size;
    uint64_t weights_bytes;
    uint64_t gradients_bytes;
    uint64_t moments_bytes;
    uint64_t scratch_bytes;
    uint64_t total_bytes;
    uint64_t saved_bytes;
    uint64_t kept_bytes;
} tryst_stage_memory;

TRYST_API tryst_status tryst_stage_memory_need(const tryst_model *model,
                                               tryst_layers layers,
                                               const tryst_stage_params *params,
                                               tryst_stage_memory *memory_p);

TRYST_API tryst_status tryst_stage_open(const tryst_model *model, tryst_layers layers,
                                        const tryst_stage_params *params,
                                        tryst_stage **stage_p);

TRYST_API void tryst_stage_close(tryst_stage *stage);

TRYST_API const char *tryst_blas_describe(char *text, size_t capacity);

TRYST_API const char *tryst_blas_core_hint(void);

TRYST_API double tryst_loss_mean(const double *losses, int32_t losses_count);

TRYST_END_DECLS

#endif
