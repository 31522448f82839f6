/* SPDX-License-Identifier: Apache-2.0 */
/* Implements order_step.h.
 *
 * Idea: one thread per rank plays the framework. It sleeps until the next action ends or
 * a completion arrives; the callbacks of all-reduces run in the library's progress thread
 * and note the time of each. What an action waited for gives its begin, not the time at
 * which this thread woke up: a device's stream does not wait for the host either.
 * Invariant: the lock is never held during a call of the library. */
#include "order_step.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* A step without any event for so long fails. */
#define SILENCE_NS 600000000000ull

enum { REASON_BYTES = 512, NAME_BYTES = 32 };

struct completion {
    struct order_step *step;
    uint32_t node;
    uint64_t at_ns;
};

struct order_step {
    tryst_ctx *ctx;
    const struct order_graph *graph;
    const int32_t *priorities;
    tryst_coll **colls;        /* [nodes]; NULL: an action */
    tryst_tensor *tensors;     /* [nodes] */
    struct completion *places; /* [nodes]: the callbacks' arguments */
    /* of one run: */
    tryst_step *in;
    uint32_t *awaited;  /* [nodes]: nodes before that have not ended */
    uint64_t *ready_ns; /* [nodes] */
    uint32_t *running;  /* [nodes]: actions; ends_ns has their ends */
    uint64_t *ends_ns;  /* [nodes] */
    uint32_t running_count, ended_count;
    uint64_t last_ns;
    tryst_status status; /* of the first call that failed */
    /* under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t *done; /* [nodes]: operations that have completed since the last look */
    uint32_t done_count;
    tryst_status done_status;
    char reason[REASON_BYTES];
};

/* ---- completions ------------------------------------------------------------------- */

static void on_done(void *arg, tryst_op *op, tryst_status status)
{
    struct completion *place = arg;
    struct order_step *step = place->step;
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    if (status != TRYST_OK)
        tryst_op_error(op, &error);
    pthread_mutex_lock(&step->lock);
    place->at_ns = tryst_now_ns(step->ctx);
    step->done[step->done_count++] = place->node;
    if (status != TRYST_OK && step->done_status == TRYST_OK) {
        step->done_status = status;
        strncpy(step->reason, error.text, REASON_BYTES - 1);
    }
    pthread_cond_signal(&step->changed);
    pthread_mutex_unlock(&step->lock);
}

static void operation_start(struct order_step *step, uint32_t index)
{
    tryst_op_params params = {.struct_size = sizeof params,
                              .flags = step->priorities ? TRYST_OP_PRIORITY : 0,
                              .priority = step->priorities ? step->priorities[index] : 0,
                              .callback = on_done,
                              .arg = &step->places[index]};
    tryst_status status = tryst_coll_start(step->in, step->colls[index], NULL,
                                           &step->tensors[index], &params, NULL);
    if (status == TRYST_OK || step->status != TRYST_OK)
        return;
    step->status = status;
    pthread_mutex_lock(&step->lock);
    strncpy(step->reason, tryst_last_error(), REASON_BYTES - 1);
    pthread_mutex_unlock(&step->lock);
}

/* ---- nodes ------------------------------------------------------------------------- */

static void node_ready(struct order_step *step, uint32_t index)
{
    if (step->graph->nodes[index].is_operation) {
        operation_start(step, index);
        return;
    }
    step->ends_ns[index] = step->ready_ns[index] +
                           (uint64_t)llround(step->graph->nodes[index].seconds * 1e9);
    step->running[step->running_count++] = index;
}

static void node_end(struct order_step *step, uint32_t index, uint64_t at_ns)
{
    const struct order_graph_node *node = &step->graph->nodes[index];
    step->ended_count++;
    if (at_ns > step->last_ns)
        step->last_ns = at_ns;
    for (uint32_t i = 0; i < node->next_count; i++) {
        uint32_t next = step->graph->next[node->next_first + i];
        if (at_ns > step->ready_ns[next])
            step->ready_ns[next] = at_ns;
        if (--step->awaited[next] == 0)
            node_ready(step, next);
    }
}

/* End the actions that are over. Returns the end of the next one. */
static uint64_t actions_end(struct order_step *step)
{
    uint64_t next_ns = UINT64_MAX, now_ns = tryst_now_ns(step->ctx);
    for (uint32_t i = 0; i < step->running_count;) {
        uint32_t index = step->running[i];
        uint64_t end_ns = step->ends_ns[index];
        if (end_ns <= now_ns) { /* its successors are added at the end */
            step->running[i] = step->running[--step->running_count];
            node_end(step, index, end_ns);
            next_ns = UINT64_MAX;
            i = 0;
            continue;
        }
        next_ns = end_ns < next_ns ? end_ns : next_ns;
        i++;
    }
    return next_ns;
}

/* Take what has completed; wait for a completion until `until_ns` if there is none.
 * Returns false if that is too long. */
static bool completions_take(struct order_step *step, uint64_t until_ns, uint32_t *taken,
                             uint32_t *taken_count_p)
{
    uint64_t latest_ns = tryst_now_ns(step->ctx) + SILENCE_NS;
    uint64_t wake_ns = until_ns < latest_ns ? until_ns : latest_ns;
    struct timespec wake = {.tv_sec = (time_t)(wake_ns / 1000000000),
                            .tv_nsec = (long)(wake_ns % 1000000000)};
    int late = 0;
    pthread_mutex_lock(&step->lock);
    while (step->done_count == 0 && late == 0)
        late = pthread_cond_timedwait(&step->changed, &step->lock, &wake);
    *taken_count_p = step->done_count;
    memcpy(taken, step->done, step->done_count * sizeof *taken);
    step->done_count = 0;
    if (step->status == TRYST_OK)
        step->status = step->done_status;
    pthread_mutex_unlock(&step->lock);
    return *taken_count_p > 0 || wake_ns == until_ns;
}

tryst_status order_step_run(struct order_step *step, tryst_step *in, uint64_t begin_ns,
                            uint64_t *end_ns_p, const char **reason_p)
{
    uint32_t count = step->graph->count, taken_count = 0;
    uint32_t *taken = step->done + count; /* the other half */
    step->in = in;
    step->running_count = step->ended_count = 0;
    step->last_ns = begin_ns;
    for (uint32_t i = 0; i < count; i++) {
        step->awaited[i] = step->graph->nodes[i].before_count;
        step->ready_ns[i] = begin_ns;
    }
    for (uint32_t i = 0; i < count; i++)
        if (step->graph->nodes[i].before_count == 0)
            node_ready(step, i);
    for (;;) {
        uint64_t next_ns = actions_end(step);
        if (step->ended_count == count || step->status != TRYST_OK)
            break;
        if (!completions_take(step, next_ns, taken, &taken_count))
            step->status = TRYST_E_TIMEOUT;
        for (uint32_t i = 0; i < taken_count && step->status == TRYST_OK; i++)
            node_end(step, taken[i], step->places[taken[i]].at_ns);
    }
    *end_ns_p = step->last_ns;
    *reason_p = step->reason;
    return step->status;
}

static double seconds_between(uint64_t from_ns, uint64_t to_ns)
{
    return ((double)to_ns - (double)from_ns) / 1e9;
}

void order_step_spans(const struct order_step *step, uint64_t begin_ns,
                      struct oracle_span *spans)
{
    for (uint32_t i = 0; i < step->graph->count; i++) {
        uint64_t end_ns =
            step->graph->nodes[i].is_operation ? step->places[i].at_ns : step->ends_ns[i];
        double ready_s = seconds_between(begin_ns, step->ready_ns[i]);
        spans[i] = (struct oracle_span){.ready_s = ready_s,
                                        .start_s = ready_s,
                                        .end_s = seconds_between(begin_ns, end_ns)};
    }
}

/* ---- open and close ---------------------------------------------------------------- */

static bool arrays_open(struct order_step *step, size_t count)
{
    step->colls = calloc(count + 1, sizeof *step->colls);
    step->tensors = calloc(count + 1, sizeof *step->tensors);
    step->places = calloc(count + 1, sizeof *step->places);
    step->awaited = calloc(count + 1, sizeof *step->awaited);
    step->ready_ns = calloc(count + 1, sizeof *step->ready_ns);
    step->running = calloc(count + 1, sizeof *step->running);
    step->ends_ns = calloc(count + 1, sizeof *step->ends_ns);
    step->done = calloc(2 * count + 1, sizeof *step->done);
    return step->colls && step->tensors && step->places && step->awaited &&
           step->ready_ns && step->running && step->ends_ns && step->done;
}

uint64_t order_step_elements(uint64_t bytes)
{
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

static tryst_status operation_prepare(struct order_step *step, tryst_group *group,
                                      uint32_t index, float *data)
{
    uint64_t count = order_step_elements(step->graph->nodes[index].bytes);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "operation %u", index);
    const tryst_coll_params params = {.struct_size = sizeof params,
                                      .kind = TRYST_COLL_ALLREDUCE,
                                      .reduce = TRYST_REDUCE_SUM,
                                      .count = count,
                                      .dtype = TRYST_DTYPE_F32,
                                      .name = name};
    step->places[index] = (struct completion){.step = step, .node = index};
    step->tensors[index] = (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                                          .data = data,
                                          .count = count,
                                          .dtype = TRYST_DTYPE_F32};
    return tryst_coll_prepare(group, &params, &step->colls[index]);
}

tryst_status order_step_open(tryst_ctx *ctx, tryst_group *group,
                             const struct order_graph *graph, float *data,
                             const int32_t *priorities, struct order_step **step_p)
{
    struct order_step *step = calloc(1, sizeof *step);
    pthread_condattr_t clock;
    if (!step)
        return TRYST_E_NOMEM;
    step->ctx = ctx;
    step->graph = graph;
    step->priorities = priorities;
    pthread_mutex_init(&step->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); /* that of tryst_now_ns */
    pthread_cond_init(&step->changed, &clock);
    pthread_condattr_destroy(&clock);
    (void)prctl(PR_SET_TIMERSLACK, 1); /* ns: waits end on time, not 50 us later */
    tryst_status status = arrays_open(step, graph->count) ? TRYST_OK : TRYST_E_NOMEM;
    for (uint32_t i = 0; i < graph->count && status == TRYST_OK; i++)
        if (graph->nodes[i].is_operation) {
            status = operation_prepare(step, group, i, data);
            data += order_step_elements(graph->nodes[i].bytes);
        }
    if (status == TRYST_OK)
        *step_p = step;
    else {
        order_step_close(step);
        order_step_free(step);
    }
    return status;
}

void order_step_close(struct order_step *step)
{
    for (uint32_t i = 0; step && step->colls && i < step->graph->count; i++)
        tryst_coll_release(step->colls[i]);
}

void order_step_free(struct order_step *step)
{
    if (!step)
        return;
    free(step->colls);
    free(step->tensors);
    free(step->places);
    free(step->awaited);
    free(step->ready_ns);
    free(step->running);
    free(step->ends_ns);
    free(step->done);
    pthread_cond_destroy(&step->changed);
    pthread_mutex_destroy(&step->lock);
    free(step);
}
