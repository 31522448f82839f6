/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs that the ranks of tryst-perf sched run: on a serial network in virtual time
 * each takes as long as the replay of the profile in its order. */
#include "order_check.h"

#include "tools/order/order.h"

enum { LAYERS_MAX = 12, TEXT_MAX = 16384, NODES_MAX = 128, CASES = 400 };

#define BYTES_PER_S 1e6
#define LATENCY_S   0.001

static double seconds_drawn(uint64_t *seed)
{
    return (double)(1 + drawn(seed, 1000000)) * 1e-6;
}

/* Draw a step of data-parallel training: a chain backward, and forward; a layer may have
 * no gradient or two; an action may run beside the chain. */
static struct order_profile *profile_draw(uint64_t *seed)
{
    static char text[TEXT_MAX];
    unsigned gradients[LAYERS_MAX], layers = 1 + drawn(seed, LAYERS_MAX);
    size_t at = 0;
#define ADD(...) \
    at += (size_t)snprintf(text + at, at < TEXT_MAX ? TEXT_MAX - at : 0, __VA_ARGS__)
    ADD("{\"tryst_profile\":1,\"nodes\":[{\"name\":\"load\",\"seconds\":%.9g}",
        seconds_drawn(seed));
    for (unsigned i = layers; i-- > 0;) {
        ADD(",{\"name\":\"b%u\",\"seconds\":%.9g", i, seconds_drawn(seed));
        if (i + 1 < layers)
            ADD(",\"after\":[\"b%u\"]", i + 1);
        ADD("}");
        gradients[i] = drawn(seed, 3);
        for (unsigned g = 0; g < gradients[i]; g++)
            ADD(",{\"name\":\"g%u.%u\",\"bytes\":%u,\"after\":[\"b%u\"]}", i, g,
                4 * (1 + drawn(seed, 500000)), i);
    }
    for (unsigned i = 0; i < layers; i++) {
        ADD(",{\"name\":\"f%u\",\"seconds\":%.9g,\"after\":[\"load\",\"%c%u\"", i,
            seconds_drawn(seed), i > 0 ? 'f' : 'b', i > 0 ? i - 1 : 0);
        for (unsigned g = 0; g < gradients[i]; g++)
            ADD(",\"g%u.%u\"", i, g);
        ADD("]}");
    }
    ADD("]}");
#undef ADD
    assert_true(at < TEXT_MAX);
    return profile_parse(text);
}

/* ---- a graph in virtual time ------------------------------------------------------- */

struct run {
    const struct order_graph *graph;
    const int32_t *priorities; /* NULL: fifo */
    uint32_t awaited[NODES_MAX];
    double ready_s[NODES_MAX], end_s[NODES_MAX];
    enum { WAITING, QUEUED, RUNNING, ENDED } state[NODES_MAX];
    bool is_served; /* an operation has the network */
    double free_s;  /* its last byte */
};

static void ready(struct run *run, uint32_t index, double now_s)
{
    const struct order_graph_node *node = &run->graph->nodes[index];
    run->ready_s[index] = now_s;
    run->state[index] = node->is_operation ? QUEUED : RUNNING;
    run->end_s[index] = now_s + node->seconds;
}

/* Give the network, if it is free, to the next operation. */
static void serve(struct run *run, double now_s)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < run->graph->count; i++) {
        if (run->state[i] == QUEUED &&
            (best == UINT32_MAX ||
             (run->priorities ? run->priorities[i] < run->priorities[best]
                              : run->ready_s[i] < run->ready_s[best])))
            best = i;
    }
    if (best == UINT32_MAX || now_s < run->free_s)
        return;
    run->free_s = now_s + (double)run->graph->nodes[best].bytes / BYTES_PER_S;
    run->end_s[best] = run->free_s + LATENCY_S;
    run->state[best] = RUNNING;
}

static double replay(const struct order_graph *graph, const int32_t *priorities)
{
    static struct run run;
    double now_s = 0;
    run = (struct run){.graph = graph, .priorities = priorities};
    assert_true(graph->count <= NODES_MAX);
    for (uint32_t i = 0; i < graph->count; i++)
        if ((run.awaited[i] = graph->nodes[i].before_count) == 0)
            ready(&run, i, 0);
    for (;;) {
        uint32_t next = UINT32_MAX;
        serve(&run, now_s);
        for (uint32_t i = 0; i < graph->count; i++)
            if (run.state[i] == RUNNING &&
                (next == UINT32_MAX || run.end_s[i] < run.end_s[next]))
                next = i;
        if (next == UINT32_MAX)
            return now_s;
        if (now_s < run.free_s && run.free_s < run.end_s[next]) {
            now_s = run.free_s; /* the network is free before that end */
            continue;
        }
        now_s = run.end_s[next];
        run.state[next] = ENDED;
        for (uint32_t i = 0; i < graph->nodes[next].next_count; i++) {
            uint32_t after = graph->next[graph->nodes[next].next_first + i];
            if (--run.awaited[after] == 0)
                ready(&run, after, now_s);
        }
    }
}

/* ---- tests ------------------------------------------------------------------------- */

static void check(const struct order_profile *profile, const struct order_params *params,
                  enum order order)
{
    struct order_row row;
    struct order_groups buckets = order_buckets(profile, params);
    struct order_graph graph =
        order_graph_open(profile, order == ORDER_BUCKETS ? &buckets : NULL);
    int32_t *priorities = order_priorities(profile, &params->network);
    assert_true(order_replay(profile, params, order, &row));
    double seconds = replay(&graph, order == ORDER_PRIORITY ? priorities : NULL);
    if (fabs(seconds - row.seconds) > 1e-6)
        fail_msg("%s: the graph takes %.9g s, the profile %.9g s", row.name, seconds,
                 row.seconds);
    free(priorities);
    order_row_free(&row);
    order_graph_close(&graph);
    order_groups_close(&buckets);
}

static void takes_as_long_as_the_replay(void **state)
{
    uint64_t seed = unit_seed();
    for (uint64_t i = 0; i < unit_cases(CASES); i++) {
        struct order_profile *profile = profile_draw(&seed);
        struct order_params params = {
            .network = {.bytes_per_s = BYTES_PER_S, .latency_s = LATENCY_S},
            .bucket_bytes = 1 + drawn(&seed, 4000000),
            .first_bucket_bytes = 1 + drawn(&seed, 2000000)};
        check(profile, &params, ORDER_FIFO);
        check(profile, &params, ORDER_PRIORITY);
        check(profile, &params, ORDER_BUCKETS);
        order_profile_close(profile);
    }
}

/* The bare graph has the operations alone, which take their bytes and one latency. */
static void bare(void **state)
{
    uint64_t seed = unit_seed();
    for (int i = 0; i < 20; i++) {
        struct order_profile *profile = profile_draw(&seed);
        struct order_sums sums = order_sum(profile);
        struct order_graph graph = order_graph_bare(profile);
        assert_int_equal(graph.count, sums.operations);
        double wanted = (double)sums.bytes / BYTES_PER_S + LATENCY_S;
        assert_true(sums.operations == 0 || fabs(replay(&graph, NULL) - wanted) < 1e-6);
        order_graph_close(&graph);
        order_profile_close(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_as_long_as_the_replay),
                                       cmocka_unit_test(bare)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
