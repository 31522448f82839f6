/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle against a search through all orders in which a wire can serve operations,
 * interruptions included. Durations are whole numbers, so there is an optimal
 * schedule with interruptions at whole numbers (each moment of the replay is one). */
#include "order_check.h"

#include "tools/order/oracle.h"

enum { NODES_MAX = 24, EDGES_MAX = 96, NEVER = 1 << 20 };

struct edge {
    uint32_t from, to;
};

struct graph {
    uint32_t nodes_count, edges_count;
    struct order_node nodes[NODES_MAX];
    struct edge edges[EDGES_MAX];
    uint32_t latency_s;
};

/* At the rate of graph_open an operation takes 1 s for each byte. */
static uint32_t node_add(struct graph *graph, bool is_operation, unsigned seconds)
{
    struct order_node *node = &graph->nodes[graph->nodes_count];
    *node = (struct order_node){.is_operation = is_operation};
    if (is_operation)
        node->bytes = seconds;
    else
        node->seconds = seconds;
    return graph->nodes_count++;
}

static void edge_add(struct graph *graph, uint32_t from, uint32_t to)
{
    graph->edges[graph->edges_count++] = (struct edge){from, to};
}

static struct oracle *graph_open(const struct graph *graph)
{
    const struct oracle_network network = {.bytes_per_s = 1,
                                           .latency_s = graph->latency_s};
    struct order_profile *profile = order_zalloc(1, sizeof *profile);
    profile->nodes = order_zalloc(NODES_MAX, sizeof *profile->nodes);
    profile->count = graph->nodes_count;
    memcpy(profile->nodes, graph->nodes, sizeof graph->nodes);
    for (uint32_t e = 0; e < graph->edges_count; e++)
        order_node_after(profile, graph->edges[e].to, graph->edges[e].from);
    struct order_graph made = order_graph_open(profile, NULL);
    order_profile_close(profile);
    return oracle_open(&made, &network);
}

/* The replay by tails. */
static double shortest(struct oracle *oracle, struct oracle_span *spans)
{
    return oracle_replay(oracle, oracle_tails(oracle), true, spans);
}

/* ---- search ------------------------------------------------------------------------ */

struct search {
    const struct graph *graph;
    int best;
};

struct state {
    int now;
    int left[NODES_MAX]; /* operations: time on the wire that is left */
    int end[NODES_MAX];  /* NEVER: not known yet */
};

/* Return when all predecessors of the node have ended; NEVER: one has no known end. */
static int ready_at(const struct graph *graph, const struct state *state, uint32_t node)
{
    int ready = 0;
    for (uint32_t e = 0; e < graph->edges_count; e++)
        if (graph->edges[e].to == node && state->end[graph->edges[e].from] > ready)
            ready = state->end[graph->edges[e].from];
    return ready;
}

/* Fill in each end that follows from those that are known. */
static void ends_fill(const struct graph *graph, struct state *state)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < graph->nodes_count; i++) {
            const struct order_node *node = &graph->nodes[i];
            int ready = ready_at(graph, state, i);
            if (state->end[i] != NEVER || ready == NEVER ||
                (node->is_operation && state->left[i] > 0))
                continue;
            int from = node->is_operation && state->now > ready ? state->now : ready;
            state->end[i] =
                from + (node->is_operation ? (int)graph->latency_s : (int)node->seconds);
            changed = true;
        }
    }
}

static void search_from(struct search *search, struct state state)
{
    const struct graph *graph = search->graph;
    bool pending = false, served = false;
    int last = 0;
    ends_fill(graph, &state);
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        pending |= state.end[i] == NEVER;
        last = state.end[i] > last ? state.end[i] : last;
    }
    if (!pending && last < search->best)
        search->best = last;
    if (!pending || state.now >= search->best)
        return;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        if (!graph->nodes[i].is_operation || state.left[i] == 0 ||
            ready_at(graph, &state, i) > state.now)
            continue;
        struct state after = state;
        after.now++;
        after.left[i]--;
        served = true;
        search_from(search, after);
    }
    /* To wait while an operation is ready gains nothing: a piece of it that is served
     * meanwhile can be interrupted. */
    if (!served) {
        state.now++;
        search_from(search, state);
    }
}

static int search_all(const struct graph *graph)
{
    struct search search = {graph, NEVER};
    struct state state = {0};
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        state.left[i] = (int)graph->nodes[i].bytes;
        state.end[i] = NEVER;
    }
    search_from(&search, state);
    return search.best;
}

/* ---- instances --------------------------------------------------------------------- */

/* Draw a step of data-parallel training: backward from the last layer to the first, an
 * operation of each layer's gradient, and forward of each layer once its operation and
 * the forward of the layer before have ended. */
static void training_draw(struct graph *graph, uint64_t *seed)
{
    uint32_t layers = 1 + drawn(seed, 5), work = 10;
    uint32_t operations[5], before = UINT32_MAX;
    *graph = (struct graph){.latency_s = drawn(seed, 3)};
    for (uint32_t i = layers; i-- > 0;) {
        uint32_t backward = node_add(graph, false, drawn(seed, 4));
        unsigned seconds = drawn(seed, work < 4 ? work + 1 : 4);
        work -= seconds;
        operations[i] = node_add(graph, true, seconds);
        if (before != UINT32_MAX)
            edge_add(graph, before, backward);
        edge_add(graph, backward, operations[i]);
        before = backward;
    }
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t forward = node_add(graph, false, drawn(seed, 4));
        edge_add(graph, before, forward);
        edge_add(graph, operations[i], forward);
        before = forward;
    }
}

/* Draw any graph: an edge leads from a node to a later one. */
static void graph_draw(struct graph *graph, uint64_t *seed)
{
    uint32_t nodes = 1 + drawn(seed, 8), operations = 0;
    *graph = (struct graph){.latency_s = drawn(seed, 2)};
    for (uint32_t i = 0; i < nodes; i++) {
        bool is_operation = operations < 4 && drawn(seed, 2) == 0;
        operations += is_operation;
        node_add(graph, is_operation, drawn(seed, 3));
        for (uint32_t from = 0; from < i; from++)
            if (drawn(seed, 3) == 0)
                edge_add(graph, from, i);
    }
}

/* ---- tests ------------------------------------------------------------------------- */

static void test_training(void **unused)
{
    uint64_t seed = unit_seed();
    for (uint64_t n = 0; n < unit_cases(1000); n++) {
        struct graph graph;
        training_draw(&graph, &seed);
        struct oracle *oracle = graph_open(&graph);
        assert_float_equal(shortest(oracle, NULL), search_all(&graph), 1e-9);
        assert_float_equal(oracle_bound(oracle), shortest(oracle, NULL), 1e-9);
        oracle_close(oracle);
    }
}

/* In any graph the optimum is between the bound and the oracle's order. */
static void test_any(void **unused)
{
    uint64_t seed = unit_seed();
    uint64_t equal = 0, cases = unit_cases(1000);
    for (uint64_t n = 0; n < cases; n++) {
        struct graph graph;
        graph_draw(&graph, &seed);
        struct oracle *oracle = graph_open(&graph);
        double best = shortest(oracle, NULL), bound = oracle_bound(oracle);
        int optimum = search_all(&graph);
        assert_true(bound <= optimum + 1e-9);
        assert_true(best >= optimum - 1e-9);
        equal += fabs(best - optimum) < 1e-9;
        oracle_close(oracle);
    }
    assert_true(equal > cases * 9 / 10);
}

/* A long operation is ready first, an urgent one while it is on the wire. */
static void interrupted(struct graph *graph)
{
    *graph = (struct graph){.latency_s = 2};
    uint32_t first = node_add(graph, false, 1);
    uint32_t large = node_add(graph, true, 10);
    uint32_t second = node_add(graph, false, 2);
    uint32_t urgent = node_add(graph, true, 1);
    uint32_t use = node_add(graph, false, 9);
    edge_add(graph, first, large);
    edge_add(graph, first, second);
    edge_add(graph, second, urgent);
    edge_add(graph, urgent, use);
}

static void test_pieces(void **unused)
{
    static const struct oracle_piece wanted[] = {{1, 1, 3}, {3, 3, 4}, {1, 4, 12}};
    struct oracle_span spans[NODES_MAX];
    struct graph graph;
    interrupted(&graph);
    struct oracle *oracle = graph_open(&graph);
    assert_float_equal(shortest(oracle, spans), 15, 1e-9);
    uint32_t count;
    const struct oracle_piece *pieces = oracle_pieces(oracle, &count);
    assert_int_equal(count, COUNT_OF(wanted));
    assert_memory_equal(pieces, wanted, sizeof wanted);
    assert_float_equal(spans[1].ready_s, 1, 1e-9);
    assert_float_equal(spans[1].start_s, 1, 1e-9);
    assert_float_equal(spans[1].end_s, 14, 1e-9);
    assert_float_equal(spans[3].start_s, 3, 1e-9);
    assert_float_equal(spans[4].end_s, 15, 1e-9);
    oracle_close(oracle);
}

/* Without interruptions the urgent one waits for the last byte of the large one. */
static void test_no_interruption(void **unused)
{
    struct graph graph;
    interrupted(&graph);
    struct oracle *oracle = graph_open(&graph);
    assert_float_equal(oracle_replay(oracle, oracle_tails(oracle), false, NULL), 23,
                       1e-9);
    static const double against[] = {0, 1, 0, 0, 0};
    assert_float_equal(oracle_replay(oracle, against, true, NULL), 23, 1e-9);
    oracle_close(oracle);
}

static void test_tails(void **unused)
{
    static const double wanted[] = {14, 2, 12, 11, 0};
    struct graph graph;
    interrupted(&graph);
    struct oracle *oracle = graph_open(&graph);
    assert_memory_equal(oracle_tails(oracle), wanted, sizeof wanted);
    oracle_close(oracle);
}

static void test_empty(void **unused)
{
    struct graph graph = {0};
    struct oracle *oracle = graph_open(&graph);
    assert_float_equal(shortest(oracle, NULL), 0, 0);
    assert_float_equal(oracle_bound(oracle), 0, 0);
    oracle_close(oracle);
}

static void test_cycles(void **unused)
{
    for (uint32_t to = 0; to < 2; to++) {
        struct graph graph = {0};
        node_add(&graph, false, 1);
        node_add(&graph, false, 1);
        edge_add(&graph, 0, 1);
        edge_add(&graph, to, 0);
        assert_null(graph_open(&graph));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training), cmocka_unit_test(test_any),
        cmocka_unit_test(test_pieces),   cmocka_unit_test(test_no_interruption),
        cmocka_unit_test(test_tails),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_cycles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
