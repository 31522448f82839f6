/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers all results at rank 0, by key. The facts come first, since they have the sizes
 * of spans and traces; then the costs of stages, spans, traces and weights. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tryst/weights.h>
#include <unistd.h>

#include "bench_gather.h"
#include "bench_spans.h"

#define GATHER_TIMEOUT_NS (120ull * 1000 * 1000 * 1000)

/* Operations that gathering_close waits for. */
struct gathering {
    tryst_op **ops;
    size_t count;
};

tryst_status bench_post(struct bench_run *run, bool sends, int peer, const char *edge,
                        uint64_t iter, void *data, uint64_t bytes, tryst_op **op_p)
{
    char key[TRYST_KEY_MAX + 1];
    int from = sends ? run->rank : peer;
    int to = sends ? peer : run->rank;
    tryst_status status =
        tryst_key_build(run->group, from, to, edge, 0, iter, key, sizeof key);
    const tryst_tensor tensor = {.struct_size = sizeof tensor,
                                 .data = data,
                                 .count = bytes,
                                 .dtype = TRYST_DTYPE_U8};
    if (status == TRYST_OK) {
        status = sends ? tryst_send(run->scope, key, &tensor, NULL, op_p)
                       : tryst_recv(run->scope, key, &tensor, NULL, op_p);
    }
    char what[96];
    snprintf(what, sizeof what, "%s of rank %d", edge, from);
    return status == TRYST_OK ? status : bench_transfer_fail(run, status, NULL, what);
}

static tryst_status gathering_open(struct bench_run *run, size_t most,
                                   struct gathering *self)
{
    *self = (struct gathering){.ops = calloc(most ? most : 1, sizeof *self->ops)};
    return self->ops ? TRYST_OK
                     : bench_fail(run, TRYST_E_NOMEM,
                                  "cannot gather the results: out of memory");
}

/* Post one transfer, unless it has no bytes. */
static tryst_status gathering_add(struct bench_run *run, struct gathering *self,
                                  bool sends, int peer, const char *edge, uint64_t iter,
                                  void *data, uint64_t bytes)
{
    if (bytes == 0) {
        return TRYST_OK;
    }
    tryst_status status =
        bench_post(run, sends, peer, edge, iter, data, bytes, &self->ops[self->count]);
    self->count += status == TRYST_OK;
    return status;
}

/* Wait for all operations and release them. `status` is the result of posting them; after
 * a failure, release without waiting. Returns the first failure. */
static tryst_status gathering_close(struct bench_run *run, struct gathering *self,
                                    tryst_status status)
{
    for (size_t i = 0; i < self->count; i++) {
        if (status == TRYST_OK) {
            status = tryst_wait(self->ops[i], GATHER_TIMEOUT_NS);
            if (status != TRYST_OK) {
                bench_transfer_fail(run, status, self->ops[i], "gathering the results");
            }
        }
        tryst_op_release(self->ops[i]);
    }
    free(self->ops);
    return status;
}

/* ---- what this rank sends ---------------------------------------------------------- */

struct own {
    struct bench_facts facts;
    tryst_engine_cost *costs; /* [stages]; zeros: the stage is on another rank */
    const tryst_span *spans;
    char *trace;
    uint64_t *links; /* [ranks], with --report: payload bytes sent to each */
    float **weights; /* [stages] */
};

static tryst_status read_whole(int fd, char **text_p, uint64_t *bytes_p)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return TRYST_E_SYSTEM;
    }
    char *text = malloc((size_t)info.st_size + 1);
    if (!text) {
        return TRYST_E_NOMEM;
    }
    if (pread(fd, text, (size_t)info.st_size, 0) != info.st_size) {
        free(text);
        return TRYST_E_SYSTEM;
    }
    text[info.st_size] = '\0';
    *text_p = text;
    *bytes_p = (uint64_t)info.st_size;
    return TRYST_OK;
}

/* Read the context's trace into memory that the caller frees. */
static tryst_status read_trace(struct bench_run *run, char **trace_p, uint64_t *bytes_p)
{
    tryst_status status = TRYST_E_SYSTEM;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    if (fd >= 0) {
        status = tryst_trace_write(run->ctx, fd);
        if (status == TRYST_OK) {
            status = read_whole(fd, trace_p, bytes_p);
        }
        close(fd);
    }
    return status == TRYST_OK ? status
                              : bench_fail(run, status, "cannot read the trace: %s",
                                           tryst_status_str(status));
}

static int usable_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0
               ? CPU_COUNT(&set)
               : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static tryst_status copy_weights(struct bench_run *run, struct own *self)
{
    int stages = tryst_program_stages(run->options->program);
    self->weights = calloc((size_t)stages, sizeof *self->weights);
    tryst_status status = self->weights ? TRYST_OK : TRYST_E_NOMEM;
    for (int i = 0; i < stages && status == TRYST_OK; i++) {
        tryst_stage *stage = run->stages[i];
        if (!stage || stage->info.weights_count == 0) {
            continue;
        }
        self->weights[i] = malloc(stage->info.weights_count * sizeof **self->weights);
        status = self->weights[i] ? tryst_stage_weights_copy(stage, self->weights[i])
                                  : TRYST_E_NOMEM;
    }
    return status == TRYST_OK ? status
                              : bench_fail(run, status, "cannot copy the weights: %s",
                                           tryst_status_str(status));
}

/* Count what this rank has sent to each other one. */
static tryst_status links_count(struct bench_run *run, struct own *self)
{
    self->links = calloc((size_t)run->size, sizeof *self->links);
    for (int rank = 0; self->links && rank < run->size; rank++) {
        tryst_peer_info info = {.struct_size = sizeof info};
        tryst_group_peer(run->group, rank, &info);
        self->links[rank] = rank == run->rank ? 0 : info.bytes_sent;
    }
    return self->links ? TRYST_OK
                       : bench_fail(run, TRYST_E_NOMEM,
                                    "cannot count the bytes of links: out of memory");
}

/* Read the figures of this rank's stages. */
static tryst_status copy_costs(struct bench_run *run, struct own *self)
{
    int stages = tryst_program_stages(run->options->program);
    self->costs = calloc((size_t)stages, sizeof *self->costs);
    for (int stage = 0; self->costs && stage < stages; stage++) {
        self->costs[stage].struct_size = sizeof *self->costs;
        if (run->stages[stage]) {
            (void)tryst_engine_cost_get(run->engine, stage, &self->costs[stage]);
        }
    }
    return self->costs ? TRYST_OK
                       : bench_fail(run, TRYST_E_NOMEM,
                                    "cannot gather the costs of stages: out of memory");
}

static void own_close(const struct bench_run *run, struct own *self)
{
    for (int i = 0; self->weights && i < tryst_program_stages(run->options->program);
         i++) {
        free(self->weights[i]);
    }
    free(self->weights);
    free(self->costs);
    free(self->links);
    free(self->trace);
}

static tryst_status own_open(struct bench_run *run, struct own *self)
{
    size_t spans_count = 0;
    self->facts.stats.struct_size = sizeof self->facts.stats;
    (void)tryst_engine_stats_get(run->engine, &self->facts.stats);
    self->spans = bench_spans(run, &spans_count);
    self->facts.spans_count = spans_count;
    self->facts.cores_count = usable_cores();
    self->facts.local_size = tryst_group_local_size(run->group);
    tryst_status status = copy_weights(run, self);
    if (status == TRYST_OK) {
        status = copy_costs(run, self);
    }
    if (status == TRYST_OK && run->options->report) {
        status = links_count(run, self);
    }
    if (status == TRYST_OK && run->options->trace) {
        status = read_trace(run, &self->trace, &self->facts.trace_bytes);
    }
    return status;
}

/* ---- send and receive -------------------------------------------------------------- */

/* Send all results of this rank; rank 0 sends to itself. */
static tryst_status send_all(struct bench_run *run, const struct own *self,
                             struct gathering *under_way)
{
    int stages = tryst_program_stages(run->options->program);
    tryst_status status = gathering_add(run, under_way, true, 0, "facts", 0,
                                        (void *)&self->facts, sizeof self->facts);
    if (status == TRYST_OK) {
        status = gathering_add(run, under_way, true, 0, "costs", 0, self->costs,
                               (size_t)stages * sizeof *self->costs);
    }
    if (status == TRYST_OK) {
        status = gathering_add(run, under_way, true, 0, "spans", 0, (void *)self->spans,
                               self->facts.spans_count * sizeof *self->spans);
    }
    if (status == TRYST_OK) {
        status = gathering_add(run, under_way, true, 0, "trace", 0, self->trace,
                               self->facts.trace_bytes);
    }
    if (status == TRYST_OK && self->links) {
        status = gathering_add(run, under_way, true, 0, "links", 0, self->links,
                               (size_t)run->size * sizeof *self->links);
    }
    for (int i = 0; i < stages && status == TRYST_OK; i++) {
        if (self->weights[i]) {
            status = gathering_add(
                run, under_way, true, 0, "weights", (uint64_t)i, self->weights[i],
                run->stages[i]->info.weights_count * sizeof **self->weights);
        }
    }
    return status;
}

static tryst_status receive_facts(struct bench_run *run, struct bench_result *result)
{
    struct gathering under_way;
    tryst_status status = gathering_open(run, (size_t)run->size, &under_way);
    for (int rank = 0; rank < run->size && status == TRYST_OK; rank++) {
        status = gathering_add(run, &under_way, false, rank, "facts", 0,
                               &result->facts[rank], sizeof *result->facts);
    }
    return under_way.ops ? gathering_close(run, &under_way, status) : status;
}

static tryst_status receive_rank(struct bench_run *run, struct bench_result *result,
                                 int rank, struct gathering *under_way)
{
    const struct bench_facts *facts = &result->facts[rank];
    uint64_t spans_bytes = facts->spans_count * sizeof **result->spans;
    result->spans[rank] = malloc(spans_bytes + 1);
    result->traces[rank] = calloc(facts->trace_bytes + 1, 1);
    if (!result->spans[rank] || !result->traces[rank]) {
        return bench_fail(run, TRYST_E_NOMEM,
                          "cannot gather the results of rank %d: out of memory", rank);
    }
    size_t stages = (size_t)tryst_program_stages(run->options->program);
    tryst_status status = gathering_add(run, under_way, false, rank, "costs", 0,
                                        result->costs + (size_t)rank * stages,
                                        stages * sizeof *result->costs);
    if (status == TRYST_OK) {
        status = gathering_add(run, under_way, false, rank, "spans", 0,
                               result->spans[rank], spans_bytes);
    }
    if (status == TRYST_OK) {
        status = gathering_add(run, under_way, false, rank, "trace", 0,
                               result->traces[rank], facts->trace_bytes);
    }
    if (status == TRYST_OK && result->links) {
        status = gathering_add(run, under_way, false, rank, "links", 0,
                               result->links + (size_t)rank * (size_t)run->size,
                               (size_t)run->size * sizeof *result->links);
    }
    return status;
}

struct counting {
    tryst_layers layers;
    bool first;
    bool last;
    uint64_t count;
};

static int count_parameter(void *arg, const tryst_parameter *parameter)
{
    struct counting *self = arg;
    int layer = parameter->layer;
    bool inside = layer >= self->layers.first && layer < self->layers.last;
    if (inside || (self->first && layer < 0) ||
        (self->last && layer >= self->layers.last)) {
        self->count += parameter->count;
    }
    return 0;
}

/* Count the weights of one stage from the model alone, since the stage may be on another
 * rank. */
static uint64_t stage_weights(const struct bench_run *run, int stage)
{
    const tryst_model *model = &run->options->model;
    int stages = tryst_program_stages(run->options->program);
    struct counting self = {.first = stage == 0, .last = stage == stages - 1};
    if (tryst_model_split(model, stages, stage, &self.layers) != TRYST_OK ||
        tryst_model_parameter_visit(model, count_parameter, &self) != 0) {
        return 0;
    }
    return self.count;
}

/* Return the index of the first weight of `stage` among those of the model. */
static uint64_t weights_before(const struct bench_run *run, int stage)
{
    uint64_t count = 0;
    for (int i = 0; i < stage; i++) {
        count += stage_weights(run, i);
    }
    return count;
}

/* Receive the weights of replica `i` of a stage, which is on `rank`. */
static tryst_status receive_replica(struct bench_run *run, struct bench_result *result,
                                    struct gathering *under_way, int stage, int i,
                                    int rank)
{
    float *weights = i == 0 ? result->weights : result->copies[i - 1];
    return gathering_add(run, under_way, false, rank, "weights", (uint64_t)stage,
                         weights + weights_before(run, stage),
                         stage_weights(run, stage) * sizeof *weights);
}

static tryst_status receive_weights(struct bench_run *run, struct bench_result *result,
                                    struct gathering *under_way)
{
    const tryst_program *program = run->options->program;
    int stages = tryst_program_stages(program);
    tryst_status status = TRYST_OK;
    for (int stage = 0; stage < stages && status == TRYST_OK; stage++) {
        int replica = 0;
        for (int rank = 0; rank < run->size && status == TRYST_OK; rank++) {
            if (bench_rank_has(program, rank, stage)) {
                status = receive_replica(run, result, under_way, stage, replica++, rank);
            }
        }
    }
    return status;
}

static bool copies_open(struct bench_run *run, struct bench_result *result)
{
    int count = run->options->replicas - 1;
    result->copies = calloc((size_t)count + 1, sizeof(float *));
    result->copies_count = result->copies ? count : 0;
    bool done = result->copies != NULL;
    for (int i = 0; i < result->copies_count; i++) {
        result->copies[i] = calloc(result->weights_count + 1, sizeof **result->copies);
        done = done && result->copies[i];
    }
    return done;
}

static tryst_status result_open(struct bench_run *run, struct bench_result *result)
{
    size_t ranks = (size_t)run->size;
    result->ranks_count = run->size;
    result->weights_count = tryst_model_weights_count(&run->options->model);
    result->facts = calloc(ranks, sizeof *result->facts);
    result->costs = calloc(ranks * (size_t)tryst_program_stages(run->options->program),
                           sizeof *result->costs);
    result->spans = calloc(ranks, sizeof *result->spans);
    result->traces = calloc(ranks, sizeof *result->traces);
    result->weights = calloc(result->weights_count + 1, sizeof *result->weights);
    bool copied = copies_open(run, result), links = run->options->report != NULL;
    result->links = links ? calloc(ranks * ranks, sizeof *result->links) : NULL;
    if (!copied || (links && !result->links) || !result->facts || !result->costs ||
        !result->spans || !result->traces || !result->weights) {
        return bench_fail(run, TRYST_E_NOMEM,
                          "cannot gather the results of %zu ranks: out of memory", ranks);
    }
    result->losses = run->losses;
    result->seconds = run->seconds;
    return TRYST_OK;
}

static tryst_status receive_all(struct bench_run *run, struct bench_result *result,
                                struct gathering *under_way)
{
    tryst_status status = result_open(run, result);
    if (status == TRYST_OK) {
        status = receive_facts(run, result);
    }
    for (int rank = 0; rank < run->size && status == TRYST_OK; rank++) {
        status = receive_rank(run, result, rank, under_way);
    }
    return status == TRYST_OK ? receive_weights(run, result, under_way) : status;
}

/* Send this rank's results, and receive those of all ranks if this is rank 0. */
static tryst_status gather(struct bench_run *run, const struct own *self,
                           struct bench_result *result)
{
    size_t stages = (size_t)tryst_program_stages(run->options->program);
    struct gathering under_way;
    tryst_status status = gathering_open(
        run, (1 + (size_t)run->size) * stages + 4 * (size_t)run->size + 5, &under_way);
    if (status != TRYST_OK) {
        return status;
    }
    status = send_all(run, self, &under_way);
    if (status == TRYST_OK && run->rank == 0) {
        status = receive_all(run, result, &under_way);
    }
    return gathering_close(run, &under_way, status);
}

tryst_status bench_gather(struct bench_run *run, struct bench_result *result_p)
{
    struct own self = {0};
    tryst_status status = own_open(run, &self);
    if (status == TRYST_OK) {
        status = gather(run, &self, result_p);
    }
    own_close(run, &self);
    if (status == TRYST_OK && run->rank == 0) {
        tryst_weights_digest(result_p->weights, result_p->weights_count,
                             result_p->digest);
    }
    return status;
}

void bench_result_close(struct bench_result *result)
{
    for (int rank = 0; rank < result->ranks_count; rank++) {
        if (result->spans) {
            free(result->spans[rank]);
        }
        if (result->traces) {
            free(result->traces[rank]);
        }
    }
    for (int i = 0; i < result->copies_count; i++) {
        free(result->copies[i]);
    }
    free(result->facts);
    free(result->costs);
    free(result->spans);
    free(result->traces);
    free(result->links);
    free(result->weights);
    free(result->copies);
}
