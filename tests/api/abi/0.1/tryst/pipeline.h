/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_PIPELINE_H
#define TRYST_PIPELINE_H

#include <stdbool.h>
#include <tryst/stage.h>
#include <tryst/tryst.h>

TRYST_BEGIN_DECLS

typedef enum tryst_action_kind {
    TRYST_ACTION_NONE = 0,
    TRYST_ACTION_FORWARD = 1,
    TRYST_ACTION_BACKWARD = 2,
    TRYST_ACTION_INPUT_GRAD = 3,
    TRYST_ACTION_WEIGHT_GRAD = 4,
    TRYST_ACTION_UPDATE = 5,
    TRYST_ACTION_REDUCE_GRAD = 6,
    TRYST_ACTION_RECOMPUTE = 7,
    TRYST_ACTION_PREDICT = 8,
    TRYST_ACTION_KINDS = 9
} tryst_action_kind;

TRYST_API const char *tryst_action_kind_name(tryst_action_kind kind);

typedef struct tryst_action {
    tryst_action_kind kind;
    int32_t stage;
    int32_t microbatch;
    int32_t version;
    int32_t slot;
    int32_t direction;
    double ahead;
} tryst_action;

TRYST_API const char *tryst_action_format(const tryst_action *action, char *text,
                                          size_t capacity);

typedef struct tryst_program tryst_program;

TRYST_API tryst_status tryst_program_open(int ranks_count, int stages_count,
                                          int microbatches_count,
                                          tryst_program **program_p);

TRYST_API void tryst_program_close(tryst_program *program);

TRYST_API tryst_status tryst_program_append(tryst_program *program, int rank,
                                            const tryst_action *action);

typedef enum tryst_schedule_recompute {
    TRYST_RECOMPUTE_NEVER = 0,
    TRYST_RECOMPUTE_EXCEPT_LAST = 1,
    TRYST_RECOMPUTE_ALWAYS = 2
} tryst_schedule_recompute;

typedef struct tryst_schedule_params {
    size_t struct_size;
    int32_t ranks_count;
    int32_t microbatches_count;
    int32_t chunks_count;
    int32_t group;
    int32_t every;
    int32_t inflight;
    int32_t cap;
    int32_t updates_count;
    int32_t recompute;
    int32_t rate;
    int32_t waves;
} tryst_schedule_params;

#define TRYST_GROUP_TORCH (-1)

#define TRYST_SCHEDULE_DEFAULT "1f1b"

TRYST_API tryst_status tryst_program_generate(const char *schedule,
                                              const tryst_schedule_params *params,
                                              tryst_program **program_p);

TRYST_API tryst_status tryst_program_replicate(const tryst_program *program,
                                               int replicas_count,
                                               tryst_program **replicated_p);

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

typedef struct tryst_schedule {
    size_t struct_size;
    const char *name;
    const char *help;
    uint32_t options;
    bool asynchronous;
    const char *(*check)(tryst_schedule_params *params);
    tryst_status (*generate)(const tryst_schedule_params *params, tryst_program *program,
                             int rank);
} tryst_schedule;

TRYST_API const tryst_schedule *tryst_program_schedule(int index);

typedef enum tryst_program_part {
    TRYST_PROGRAM_PROLOGUE = 0,
    TRYST_PROGRAM_BODY = 1,
    TRYST_PROGRAM_EPILOGUE = 2
} tryst_program_part;

TRYST_API tryst_status tryst_program_mark(tryst_program *program, int rank,
                                          tryst_program_part part);
TRYST_API bool tryst_program_loop(const tryst_program *program, int rank, size_t *body_p,
                                  size_t *epilogue_p);

TRYST_API tryst_status tryst_program_unroll(const tryst_program *program, int steps_count,
                                            tryst_program **flat_p);

TRYST_API void tryst_program_rate_set(tryst_program *program, int32_t updates);
TRYST_API int32_t tryst_program_rate(const tryst_program *program);

typedef struct tryst_program_read {
    int32_t version;
    int32_t newest;
    int32_t delay;
} tryst_program_read;

TRYST_API tryst_status tryst_program_reads(const tryst_program *program, int rank,
                                           tryst_program_read *reads);

typedef struct tryst_stage_need {
    size_t struct_size;
    int32_t versions_count;
    int32_t slots_count;
    double delay;
    bool delta;
} tryst_stage_need;

TRYST_API tryst_status tryst_program_stage_need(const tryst_program *program, int stage,
                                                tryst_stage_need *need_p);

TRYST_API int tryst_program_ranks(const tryst_program *program);
TRYST_API int tryst_program_stages(const tryst_program *program);
TRYST_API int tryst_program_microbatches(const tryst_program *program);
TRYST_API const tryst_action *tryst_program_actions(const tryst_program *program,
                                                    int rank, size_t *count_p);
TRYST_API int tryst_program_rank_of(const tryst_program *program, int stage);
TRYST_API int tryst_program_rank_of_microbatch(const tryst_program *program, int stage,
                                               int microbatch);
TRYST_API int tryst_program_replicas(const tryst_program *program, int stage,
                                     int32_t *ranks, int capacity);

TRYST_API tryst_status tryst_program_load_csv(const char *path,
                                              tryst_program **program_p);

TRYST_API tryst_status tryst_program_save_csv(const tryst_program *program,
                                              const char *path);

typedef struct tryst_check_params {
    size_t struct_size;
    int32_t versions_max;
    int32_t activations_max;
} tryst_check_params;

typedef struct tryst_program_peak {
    int32_t activations;
    int32_t versions;
} tryst_program_peak;

TRYST_API tryst_status tryst_program_check(const tryst_program *program,
                                           const tryst_check_params *params,
                                           tryst_program_peak *peaks);

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
    const tryst_action_costs *costs;
    const uint64_t *boundary_bytes;
    double link_latency_s;
    double link_bytes_per_s;
    int32_t cores_count;
    int32_t reserved;
    const double *reduce_grad_s;
} tryst_sim_params;

typedef struct tryst_sim_rank {
    double busy_s;
    double first_s;
    double last_s;
    double bubble_makespan;
    double bubble_span;
    int32_t peak_activations;
    int32_t reserved;
} tryst_sim_rank;

typedef struct tryst_sim_event {
    double begin_s;
    double end_s;
} tryst_sim_event;

typedef struct tryst_sim {
    size_t struct_size;
    double makespan_s;
    double bubble_makespan;
    double bubble_span;
    int32_t ranks_count;
    int32_t reserved;
    tryst_sim_rank *ranks;
    tryst_sim_event **events;
} tryst_sim;

TRYST_API tryst_status tryst_program_simulate(const tryst_program *program,
                                              const tryst_sim_params *params,
                                              tryst_sim **sim_p);
TRYST_API void tryst_sim_free(tryst_sim *sim);

typedef enum tryst_span_kind {
    TRYST_SPAN_FORWARD = 0,
    TRYST_SPAN_BACKWARD = 1,
    TRYST_SPAN_INPUT_GRAD = 2,
    TRYST_SPAN_WEIGHT_GRAD = 3,
    TRYST_SPAN_UPDATE = 4,
    TRYST_SPAN_WAIT = 5,
    TRYST_SPAN_SEND = 6,
    TRYST_SPAN_RECEIVE = 7,
    TRYST_SPAN_KINDS = 8,
    TRYST_SPAN_REDUCE_GRAD = 8,
    TRYST_SPAN_RECOMPUTE = 9,
    TRYST_SPAN_PREDICT = 10
} tryst_span_kind;

typedef struct tryst_span {
    uint64_t begin_ns;
    uint64_t end_ns;
    int32_t kind;
    int32_t stage;
    int32_t microbatch;
    int32_t peer;
    int32_t gradient;
    int32_t step;
} tryst_span;

typedef struct tryst_engine tryst_engine;

typedef tryst_status (*tryst_feed_fn)(void *arg, uint64_t step, int32_t microbatch,
                                      void *input, uint8_t *target);

typedef struct tryst_engine_params {
    size_t struct_size;
    tryst_ctx *ctx;
    tryst_group *group;
    const tryst_program *program;
    tryst_stage *const *stages;
    tryst_feed_fn feed;
    void *feed_arg;
    int32_t receives_ahead_max;
    uint64_t timeout_ns;
    uint64_t memory_bytes_max;
    bool reduce_at_end;
    bool steps_follow;
} tryst_engine_params;

TRYST_API tryst_status tryst_engine_open(const tryst_engine_params *params,
                                         tryst_engine **engine_p);

TRYST_API tryst_status tryst_engine_step(tryst_engine *engine, uint64_t step,
                                         double *loss_p);

TRYST_API tryst_status tryst_engine_step_last(tryst_engine *engine, uint64_t step,
                                              double *loss_p);

TRYST_API tryst_status tryst_engine_finish(tryst_engine *engine);

TRYST_API void tryst_engine_abort(tryst_engine *engine, tryst_status status,
                                  const char *reason);

TRYST_API const double *tryst_engine_losses(const tryst_engine *engine);

TRYST_API const char *tryst_engine_error(const tryst_engine *engine);

TRYST_API const char *tryst_engine_cause(const tryst_engine *engine);

typedef struct tryst_engine_stats {
    size_t struct_size;
    uint64_t steps_count;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t compute_wall_ns;
    uint64_t compute_cpu_ns;
    uint64_t wait_ns;
    uint64_t bytes_sent;
    uint64_t bytes_received;
    uint64_t peak_activation_bytes;
    uint64_t buffer_allocations;
    uint64_t action_counts[16];
    uint64_t action_wall_ns[16];
    uint64_t action_cpu_ns[16];
    uint64_t bytes_reduced;
    uint64_t reduce_wait_ns;
} tryst_engine_stats;

TRYST_API tryst_status tryst_engine_stats_get(const tryst_engine *engine,
                                              tryst_engine_stats *stats_p);
TRYST_API void tryst_engine_stats_reset(tryst_engine *engine);

typedef struct tryst_engine_cost {
    size_t struct_size;
    uint64_t counts[16];
    uint64_t wall_ns[16];
    uint64_t cpu_ns[16];
} tryst_engine_cost;

TRYST_API tryst_status tryst_engine_cost_get(const tryst_engine *engine, int stage,
                                             tryst_engine_cost *cost_p);

TRYST_API const tryst_span *tryst_engine_spans(const tryst_engine *engine,
                                               size_t *count_p);

TRYST_API void tryst_engine_close(tryst_engine *engine);

TRYST_END_DECLS

#endif
