/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the flows of a probe.
 *
 * One idea: only the receiver measures, by its own clock: the bytes that arrived in a
 * time that is the same for all flows of a round, and that starts after the queues on the
 * way may have filled. The sender decides when a flow is over and marks the last tensor;
 * receives posted beyond it are cancelled.
 * Invariant: every wait is bounded: a round that makes no progress for STALL_NS fails. */
#include "topo_flows.h"
#include "tools/figures.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STALL_NS UINT64_C(20000000000)

/* Parts of a round's time: the start up to SKIP is not counted (bursts that shapers let
 * pass, TCP's slow start); an arrival after LATE counts as the end. */
#define SKIP 0.3
#define LATE 0.9

enum { PINGS = 200 };

static tryst_tensor tensor_of(void *data, size_t bytes)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = bytes,
                          .dtype = TRYST_DTYPE_U8};
}

/* Record the first flow that fails, since later failures follow from it. */
static tryst_status flow_judge(struct flows *flows, int from, int to, tryst_status status)
{
    if (status != TRYST_OK && flows->failed_from < 0) {
        flows->failed_from = from;
        flows->failed_to = to;
    }
    return status;
}

static tryst_status op_end(tryst_op *op)
{
    tryst_status status = tryst_wait(op, STALL_NS);
    if (status == TRYST_E_TIMEOUT) { /* the caller frees the operation's buffer next */
        (void)tryst_op_cancel(op);
        (void)tryst_wait(op, STALL_NS);
    }
    tryst_op_release(op);
    return status;
}

static tryst_status step_end(tryst_step *step)
{
    tryst_op *op;
    tryst_status status = tryst_step_close(step, &op);
    return status == TRYST_OK ? op_end(op) : status;
}

static tryst_status key_open(const struct flows *flows, int from, int to,
                             tryst_key **key_p)
{
    char key[TRYST_KEY_MAX + 1];
    tryst_status status =
        tryst_key_build(flows->group, from, to, "probe", 0, 0, key, sizeof key);
    return status == TRYST_OK ? tryst_key_prepare(flows->group, key, key_p) : status;
}

/* ---- single messages --------------------------------------------------------------- */

/* Post this rank's end of one message in `step`; *op_p is NULL if this rank has none. */
static tryst_status end_post(const struct flows *flows, tryst_step *step, int from,
                             int to, void *data, size_t bytes, tryst_op **op_p)
{
    tryst_tensor tensor = tensor_of(data, bytes);
    tryst_key *key;
    *op_p = NULL;
    if (flows->rank != from && flows->rank != to)
        return TRYST_OK;
    tryst_status status = key_open(flows, from, to, &key);
    if (status != TRYST_OK)
        return status;
    status = flows->rank == from ? tryst_send_key(step, key, &tensor, NULL, op_p)
                                 : tryst_recv_key(step, key, &tensor, NULL, op_p);
    tryst_key_release(key);
    return status;
}

tryst_status flows_move(struct flows *flows, int from, int to, void *data, size_t bytes)
{
    tryst_step *step;
    tryst_op *op = NULL;
    tryst_status status = tryst_step_open(flows->group, flows->step_id++, &step);
    if (status != TRYST_OK)
        return status;
    status = end_post(flows, step, from, to, data, bytes, &op);
    if (status == TRYST_OK && op)
        status = op_end(op);
    (void)flow_judge(flows, from, to, status);
    tryst_status closed = step_end(step);
    return status == TRYST_OK ? closed : status;
}

/* Send one byte from each rank to rank 0, or from rank 0 to each rank. */
static tryst_status words_pass(struct flows *flows, tryst_step *step, bool back)
{
    char word[2] = {0};
    tryst_status status = TRYST_OK;
    for (int other = 1; other < flows->size && status == TRYST_OK; other++) {
        tryst_op *op;
        int from = back ? 0 : other, to = back ? other : 0;
        status = end_post(flows, step, from, to, &word[back], 1, &op);
        if (status == TRYST_OK && op)
            status = op_end(op);
        (void)flow_judge(flows, from, to, status);
    }
    return status;
}

tryst_status flows_meet(struct flows *flows)
{
    tryst_step *step;
    tryst_status status = tryst_step_open(flows->group, flows->step_id++, &step);
    if (status != TRYST_OK)
        return status;
    status = words_pass(flows, step, false);
    if (status == TRYST_OK)
        status = words_pass(flows, step, true);
    tryst_status closed = step_end(step);
    return status == TRYST_OK ? closed : status;
}

static tryst_status ping_once(tryst_step *step, tryst_key *there, tryst_key *back,
                              bool first)
{
    uint64_t word = 0;
    tryst_tensor tensor = tensor_of(&word, sizeof word);
    tryst_op *ops[2];
    tryst_status status =
        tryst_recv_key(step, first ? back : there, &tensor, NULL, &ops[0]);
    if (status == TRYST_OK && !first)
        status = op_end(ops[0]);
    if (status == TRYST_OK)
        status = tryst_send_key(step, first ? there : back, &tensor, NULL, &ops[1]);
    if (status == TRYST_OK)
        status = op_end(ops[1]);
    return status == TRYST_OK && first ? op_end(ops[0]) : status;
}

tryst_status flows_ping(struct flows *flows, int a, int b, double *latency_ns_p)
{
    double samples[PINGS];
    tryst_key *there = NULL, *back = NULL;
    tryst_step *step;
    tryst_status status = tryst_step_open(flows->group, flows->step_id++, &step);
    if (status != TRYST_OK)
        return status;
    status = key_open(flows, a, b, &there);
    if (status == TRYST_OK)
        status = key_open(flows, b, a, &back);
    for (int i = -PINGS / 10; i < PINGS && status == TRYST_OK; i++) {
        uint64_t begin_ns = tool_now_ns();
        status = ping_once(step, there, back, flows->rank == a);
        if (i >= 0)
            samples[i] = (double)(tool_now_ns() - begin_ns) / 2;
    }
    tryst_key_release(there);
    tryst_key_release(back);
    (void)flow_judge(flows, a, b, status);
    tryst_status closed = step_end(step);
    if (status != TRYST_OK || closed != TRYST_OK)
        return status == TRYST_OK ? closed : status;
    tool_samples_sort(samples, PINGS);
    *latency_ns_p = samples[PINGS / 2];
    return TRYST_OK;
}

/* ---- flows ------------------------------------------------------------------------- */

struct stream {
    tryst_probe_flow *flow;
    bool sends, last; /* last: the last tensor has been submitted, or has arrived */
    tryst_key *key;
    uint8_t *data;
    tryst_op *ops[FLOW_WINDOW];
    uint64_t submitted, ended;
    /* Receiver: the number of tensors that have arrived, and when the latest were found;
     * the number of tensors that count for the rate, and the begin and the end of the
     * time in which they arrived. */
    uint64_t arrived, last_ns, counted, first_ns, counted_ns;
};

struct round {
    struct flows *flows;
    tryst_step *step;
    struct stream *streams;
    int count;
    uint64_t begin_ns, moved_ns; /* begin of the round; when an operation ended last */
};

static tryst_status stream_submit(struct round *round, struct stream *stream, bool last)
{
    uint64_t at = stream->submitted % FLOW_WINDOW;
    tryst_tensor tensor = tensor_of(stream->data + at * FLOW_BYTES, FLOW_BYTES);
    if (stream->sends)
        stream->data[at * FLOW_BYTES] = last;
    tryst_status status =
        stream->sends
            ? tryst_send_key(round->step, stream->key, &tensor, NULL, &stream->ops[at])
            : tryst_recv_key(round->step, stream->key, &tensor, NULL, &stream->ops[at]);
    if (status == TRYST_OK)
        stream->submitted++;
    return status;
}

/* Return the time at `part` of the round. All flows of a round are measured over the same
 * time: otherwise two that share a wire in turn would add up to more than its rate. */
static uint64_t middle_ns(const struct round *round, double part)
{
    return round->begin_ns + (uint64_t)(part * (double)round->flows->flow_ns);
}

/* Count `count` tensors that have arrived since the previous call. */
static void arrivals_count(const struct round *round, struct stream *stream,
                           uint64_t count)
{
    uint64_t at_ns = tool_now_ns(), from_ns = middle_ns(round, SKIP);
    if (!count)
        return;
    stream->arrived += count;
    if (at_ns > from_ns && at_ns <= middle_ns(round, 1)) {
        if (!stream->counted)
            stream->first_ns = stream->last_ns ? stream->last_ns : from_ns;
        stream->counted += count;
        stream->counted_ns = at_ns;
    }
    stream->last_ns = at_ns;
}

static double rate_of(uint64_t count, uint64_t ns)
{
    return ns ? (double)count * FLOW_BYTES / (double)ns * 1e9 : 0;
}

/* Return the rate until the last arrival that counts if that was near the end of the
 * round (LATE), else until the end. A flow without an arrival that counts gets the mean
 * over all of its time. */
static double stream_rate(const struct round *round, const struct stream *stream)
{
    uint64_t end_ns = stream->counted_ns >= middle_ns(round, LATE) ? stream->counted_ns
                                                                   : middle_ns(round, 1);
    if (!stream->counted)
        return rate_of(stream->arrived, stream->last_ns - round->begin_ns);
    return rate_of(stream->counted, end_ns - stream->first_ns);
}

static void receives_cancel(const struct stream *stream)
{
    for (int i = 0; i < FLOW_WINDOW; i++)
        if (stream->ops[i])
            (void)tryst_op_cancel(stream->ops[i]);
}

/* End the complete operations, in order. */
static tryst_status stream_reap(struct round *round, struct stream *stream)
{
    uint64_t arrived = 0;
    for (; stream->ended < stream->submitted; stream->ended++) {
        uint64_t at = stream->ended % FLOW_WINDOW;
        tryst_status status = tryst_op_test(stream->ops[at]);
        if (status == TRYST_IN_PROGRESS)
            break;
        tryst_op_release(stream->ops[at]);
        stream->ops[at] = NULL;
        round->moved_ns = tool_now_ns();
        if (!stream->sends && stream->last &&
            (status == TRYST_E_CANCELED || status == TRYST_E_CLOSED))
            continue; /* posted beyond the sender's last tensor */
        if (status != TRYST_OK)
            return status;
        arrived += !stream->sends;
        if (stream->sends || !stream->data[at * FLOW_BYTES])
            continue;
        stream->last = true;
        receives_cancel(stream);
    }
    arrivals_count(round, stream, arrived);
    return TRYST_OK;
}

static tryst_status stream_advance(struct round *round, struct stream *stream)
{
    tryst_status status = stream_reap(round, stream);
    while (status == TRYST_OK && !stream->last &&
           stream->submitted - stream->ended < FLOW_WINDOW) {
        bool last =
            stream->sends && tool_now_ns() - round->begin_ns >= round->flows->flow_ns;
        status = stream_submit(round, stream, last);
        stream->last = last;
    }
    return status;
}

static bool stream_is_finished(const struct stream *stream)
{
    return stream->last && stream->ended == stream->submitted;
}

/* Sleep until an event, or for 1 ms. */
static void round_sleep(const struct round *round)
{
    struct pollfd poll_fd = {.fd = tryst_event_fd(round->flows->ctx), .events = POLLIN};
    if (tryst_progress(round->flows->ctx) == 0 &&
        tryst_arm(round->flows->ctx) == TRYST_OK)
        (void)poll(&poll_fd, 1, 1);
}

static tryst_status round_advance(struct round *round, bool *finished_p)
{
    const struct stream *open = NULL;
    for (int s = 0; s < round->count; s++) {
        struct stream *stream = &round->streams[s];
        tryst_status status = stream_advance(round, stream);
        if (status != TRYST_OK)
            return flow_judge(round->flows, stream->flow->from, stream->flow->to, status);
        open = stream_is_finished(stream) || open ? open : stream;
    }
    *finished_p = !open;
    if (!open || tool_now_ns() - round->moved_ns <= STALL_NS)
        return TRYST_OK;
    return flow_judge(round->flows, open->flow->from, open->flow->to, TRYST_E_TIMEOUT);
}

static void streams_close(struct round *round)
{
    for (int s = 0; s < round->count; s++) {
        for (int i = 0; i < FLOW_WINDOW; i++)
            if (round->streams[s].ops[i]) {
                (void)tryst_op_cancel(round->streams[s].ops[i]);
                (void)tryst_wait(round->streams[s].ops[i], STALL_NS);
                tryst_op_release(round->streams[s].ops[i]);
            }
        tryst_key_release(round->streams[s].key);
        free(round->streams[s].data);
    }
    free(round->streams);
}

static tryst_status streams_open(struct round *round, tryst_probe_flow *flow, int count)
{
    int rank = round->flows->rank;
    round->streams = calloc((size_t)count, sizeof *round->streams);
    if (!round->streams)
        return TRYST_E_NOMEM;
    for (int f = 0; f < count; f++) {
        if (flow[f].from != rank && flow[f].to != rank)
            continue;
        struct stream *stream = &round->streams[round->count++];
        stream->flow = &flow[f];
        stream->sends = flow[f].from == rank;
        stream->data = calloc(FLOW_WINDOW, FLOW_BYTES);
        tryst_status status =
            stream->data ? key_open(round->flows, flow[f].from, flow[f].to, &stream->key)
                         : TRYST_E_NOMEM;
        if (status != TRYST_OK)
            return status;
    }
    return TRYST_OK;
}

tryst_status flows_run(struct flows *flows, tryst_probe_flow *flow, int count)
{
    struct round round = {.flows = flows};
    bool over = false;
    tryst_status status = tryst_step_open(flows->group, flows->step_id++, &round.step);
    if (status != TRYST_OK)
        return status;
    status = streams_open(&round, flow, count);
    round.begin_ns = round.moved_ns = tool_now_ns();
    while (status == TRYST_OK && !over) {
        status = round_advance(&round, &over);
        if (status == TRYST_OK && !over)
            round_sleep(&round);
    }
    for (int s = 0; s < round.count; s++)
        if (!round.streams[s].sends)
            round.streams[s].flow->bytes_per_s = stream_rate(&round, &round.streams[s]);
    streams_close(&round);
    tryst_status closed = step_end(round.step);
    return status == TRYST_OK ? closed : status;
}
