/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of climbing flows on plain structs: the marks that they set, and their use of
 * scratch; borrowed slices, which the test lends. */
#include "collectives/coll_up.h"

#include "core/reduce/reduce.h"
#include "support/unit.h"

enum { CHILDREN = 3, SLICES = 2, SLICE_BYTES = 8 << 10 };

/* A rank with three children, none of which has announced a slice. */
struct node {
    struct colls colls;
    tryst_coll coll;
    struct coll_run run;
    struct coll_part part;
    struct coll_tree_run at;
    struct coll_child children[CHILDREN];
    struct coll_flow flows[CHILDREN];
};

static void node_open(struct node *node, uint64_t scratch_bytes)
{
    *node = (struct node){
        .coll = {.colls = &node->colls, .parts_count = 1, .parts = &node->part},
        .run = {.coll = &node->coll,
                .trees = &node->at,
                .lead = {.ahead = 1, .first = &node->at.tree}},
        .part = {.slices = SLICES, .slice_bytes = SLICE_BYTES, .up_children = CHILDREN},
        .at = {.tree = {.slices = SLICES,
                        .fetched = SLICES,
                        .children_count = CHILDREN,
                        .children = node->children},
               .run = &node->run,
               .part = &node->part,
               .flows = node->flows}};
    urgent_init(&node->colls.work);
    scratch_init(&node->colls.scratch, scratch_bytes);
    coll_tree_reset(&node->at.tree);
    coll_lead_begin(&node->run.lead);
    for (uint32_t c = 0; c < CHILDREN; c++)
        node->flows[c] = (struct coll_flow){.tree = &node->at, .child = c};
}

/* Deliver an OFFER of child c. */
static tryst_status offer(struct node *node, uint32_t c, uint32_t slices_announced,
                          void **buffer_p)
{
    struct flow *flow = &node->flows[c].flow;
    struct tryst_mem *mem = NULL;
    flow->slices_announced = slices_announced;
    flow_up_from_child.slices_announced(flow);
    return flow_up_from_child.place(flow, node->children[c].granted, buffer_p, &mem);
}

static bool is_marked(const struct node *node)
{
    return node->at.is_marked && urgent_queued(&node->run.work);
}

static void buffers_put(struct node *node, void *const *buffers, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        scratch_put(&node->colls.scratch, SLICE_BYTES, buffers[i]);
    scratch_close(&node->colls.scratch);
}

/* The OFFERs arrive from the last child to the first. The grant for one child lets the
 * next child be granted at once, before any slice has landed. */
static void test_next_child(void **state)
{
    struct node node;
    void *buffers[CHILDREN] = {NULL};
    node_open(&node, 1 << 20);
    for (uint32_t c = CHILDREN; c-- > 1;) {
        assert_int_equal(offer(&node, c, 1, &buffers[c]), TRYST_AGAIN);
        assert_true(node.flows[c].waits && !is_marked(&node));
    }
    for (uint32_t c = 0; c < CHILDREN; c++) {
        assert_int_equal(offer(&node, c, 1, &buffers[c]), TRYST_OK);
        assert_true(is_marked(&node) == (c + 1 < CHILDREN));
        node.at.is_marked = false;
        (void)urgent_remove(&node.run.work);
    }
    buffers_put(&node, buffers, CHILDREN);
}

/* A grant for another child sets no mark for a child that waits for scratch or has
 * announced nothing. */
static void test_no_mark(void **state)
{
    struct node node;
    void *buffers[2] = {NULL};
    node_open(&node, SLICE_BYTES);
    assert_int_equal(offer(&node, 0, 1, &buffers[0]), TRYST_OK);
    assert_false(is_marked(&node));
    assert_int_equal(offer(&node, 1, 1, &buffers[1]), TRYST_AGAIN);
    assert_true(!node.flows[1].waits && urgent_queued(&node.flows[1].waiter));
    assert_int_equal(offer(&node, 0, 2, &buffers[1]), TRYST_AGAIN); /* none is left */
    assert_false(is_marked(&node));
    for (uint32_t c = 0; c < 2; c++)
        (void)urgent_remove(&node.flows[c].waiter);
    buffers_put(&node, buffers, 1);
}

/* A sum that has left makes room for a slice of the result in its memory. */
static void test_sent(void **state)
{
    struct node node;
    for (int reuses = 0; reuses < 2; reuses++) {
        node_open(&node, SLICE_BYTES);
        node.at.tree.reuses = reuses;
        flow_up_to_parent.sent(&node.flows[0].flow, 0);
        assert_true(is_marked(&node) == reuses);
        assert_int_equal(node.at.tree.sent, 1);
    }
}

/* A child that waits since its slice is ahead of what the parent has is granted once the
 * parent has one more. */
static void test_lead(void **state)
{
    struct node node;
    void *buffers[2];
    node_open(&node, 1 << 20);
    assert_int_equal(offer(&node, 0, 2, &buffers[0]), TRYST_OK);
    assert_int_equal(offer(&node, 0, 2, &buffers[1]), TRYST_AGAIN);
    assert_true(node.flows[0].waits && !is_marked(&node));
    flow_up_to_parent.sent(&node.flows[0].flow, 0);
    assert_true(is_marked(&node));
    assert_int_equal(offer(&node, 0, 2, &buffers[1]), TRYST_OK);
    buffers_put(&node, buffers, 2);
}

/* ---- borrowed slices --------------------------------------------------------------- */

enum { FLOATS = SLICE_BYTES / sizeof(float) };

/* What the children lend, in the place of the protocol's functions. */
static struct {
    bool borrows, reads_again, returns_again;
    uint32_t reads, returns;
    float terms[CHILDREN][SLICES * FLOATS];
} lent;

bool __wrap_flow_may_borrow(const struct flow *flow);
tryst_status __wrap_flow_read(struct flow *flow, uint32_t index, uint64_t at,
                              uint64_t bytes, flow_use use, void *arg);
tryst_status __wrap_flow_return(struct flow *flow, uint32_t index);

bool __wrap_flow_may_borrow(const struct flow *flow)
{
    (void)flow;
    return lent.borrows;
}

tryst_status __wrap_flow_read(struct flow *flow, uint32_t index, uint64_t at,
                              uint64_t bytes, flow_use use, void *arg)
{
    if (lent.reads_again)
        return TRYST_AGAIN;
    const float *terms = lent.terms[coll_flow_of(flow)->child] + (size_t)index * FLOATS;
    lent.reads++;
    use(arg, terms + at / sizeof(float), bytes);
    return TRYST_OK;
}

tryst_status __wrap_flow_return(struct flow *flow, uint32_t index)
{
    (void)flow, (void)index;
    lent.returns++;
    return lent.returns_again ? TRYST_AGAIN : TRYST_OK;
}

static void sums_check(const float *sums, size_t from, size_t to, float wanted)
{
    for (size_t i = from; i < to; i++)
        assert_true(sums[i] == wanted);
}

/* Child 0 lends ahead of its OFFER, child 1 only what child 0 has lent already. A slice
 * that comes by copy after a part of it was added is added once, and a sum with bytes
 * that do not count is not passed on. */
static void test_borrow(void **state)
{
    struct node node;
    void *buffer;
    float own[SLICES * FLOATS], sums[SLICES * FLOATS];
    node_open(&node, 0);
    node.coll.element_bytes = sizeof(float);
    node.coll.kernel = reduce_kernel_get(TRYST_DTYPE_F32, TRYST_REDUCE_SUM);
    node.part.bytes = sizeof sums;
    node.at.own = (char *)own;
    node.at.sums = (char *)sums;
    node.at.tree.limit = SLICES;
    lent.borrows = true;
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        own[i] = 1;
        sums[i] = 0;
        for (int c = 0; c < CHILDREN; c++)
            lent.terms[c][i] = (float)(10 << c);
    }
    assert_int_equal(offer(&node, 1, 1, &buffer), TRYST_AGAIN);
    assert_int_equal(offer(&node, 0, 0, &buffer), TRYST_OK);
    assert_null(buffer);
    assert_int_equal(offer(&node, 1, 1, &buffer), TRYST_AGAIN);
    flow_up_from_child.arrived(&node.flows[0].flow, 0);
    assert_true(is_marked(&node));
    assert_int_equal(offer(&node, 1, 1, &buffer), TRYST_OK);
    assert_int_equal(node.colls.scratch.lent, 0);

    assert_int_equal(coll_up_add(&node.at, SLICE_BYTES / 2), SLICE_BYTES / 2);
    lent.reads_again = true;
    assert_int_equal(coll_up_add(&node.at, SLICE_BYTES), 0);
    assert_true(node.at.stalls && node.at.has_unit);
    lent.reads_again = false;
    assert_int_equal(coll_up_add(&node.at, SLICE_BYTES), 0); /* until it arrives again */
    sums_check(sums, 0, FLOATS / 2, 11);
    sums_check(sums, FLOATS / 2, FLOATS, 0);
    assert_int_equal(lent.returns, 0);
    flow_up_from_child.arrived(&node.flows[0].flow, 0);
    assert_int_equal(coll_up_add(&node.at, SLICE_BYTES), SLICE_BYTES / 2);
    sums_check(sums, 0, FLOATS, 11);
    assert_int_equal(lent.returns, 1);
    assert_int_equal(node.children[0].added, 1);

    lent.returns_again = true;
    flow_up_from_child.arrived(&node.flows[1].flow, 0);
    assert_int_equal(coll_up_add(&node.at, SLICE_BYTES), SLICE_BYTES);
    assert_int_equal(node.children[1].added, 0);
    assert_true(node.at.stalls);
    coll_up_scratch_release(&node.at, 0);
    coll_up_scratch_release(&node.at, 1);
    assert_int_equal(node.colls.scratch.lent, 0);
    lent.borrows = false;
}

/* ---- scratch ----------------------------------------------------------------------- */

/* Let child 0 of `node` have the only buffer, and child 1 wait for one. */
static void buffer_take(struct node *node, void **buffer_p)
{
    void *none;
    node_open(node, SLICE_BYTES);
    node->coll.flows_count = CHILDREN;
    node->run.flows = node->flows;
    node->run.urgency.sort_key = 5;
    assert_int_equal(offer(node, 0, 1, buffer_p), TRYST_OK);
    assert_int_equal(offer(node, 1, 1, &none), TRYST_AGAIN);
    assert_true(urgent_queued(&node->flows[1].waiter));
}

/* A run stays in the queue for scratch when its priority rises. */
static void test_raise(void **state)
{
    struct node node;
    void *buffer;
    tryst_op op = {.coll = &node.run};
    buffer_take(&node, &buffer);
    colls_calls(&node.colls).raise(&node.colls, &op, 3);
    assert_true(urgent_queued(&node.flows[1].waiter));
    assert_int_equal(node.run.urgency.sort_key, 3);
    (void)urgent_remove(&node.flows[1].waiter);
    buffers_put(&node, &buffer, 1);
}

/* A free buffer is for the most urgent run that waits, and no thread sleeps while the run
 * waits. */
static void test_urgent_first(void **state)
{
    struct node node, other;
    void *buffer, *none;
    buffer_take(&node, &buffer);
    struct coll_calls calls = colls_calls(&node.colls);
    assert_false(calls.busy(calls.arg));
    scratch_put(&node.colls.scratch, SLICE_BYTES, buffer);
    assert_true(calls.busy(calls.arg));
    node_open(&other, 0);
    other.coll.colls = &node.colls;
    other.run.urgency.sort_key = 6;
    assert_int_equal(offer(&other, 0, 1, &none), TRYST_AGAIN);
    assert_true(urgent_queued(&other.flows[0].waiter));
    (void)urgent_remove(&other.flows[0].waiter);
    other.run.urgency.sort_key = 4;
    assert_int_equal(offer(&other, 0, 1, &buffer), TRYST_OK);
    (void)urgent_remove(&node.flows[1].waiter);
    buffers_put(&node, &buffer, 1);
}

/* A slice that came as DATA is in the run's memory, so no buffer returns if the run fails
 * before its addition. */
static void test_small_fails(void **state)
{
    struct node node;
    struct list_node payload = {NULL, NULL};
    node_open(&node, SLICE_BYTES);
    node.part.is_small = true;
    node.at.tree.slices = 1;
    coll_tree_taken(&node.at.tree, 0, &payload);
    coll_up_scratch_release(&node.at, 0);
    assert_int_equal(node.colls.scratch.lent, 0);
    assert_false(list_linked(&payload));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_child),  cmocka_unit_test(test_no_mark),
        cmocka_unit_test(test_sent),        cmocka_unit_test(test_lead),
        cmocka_unit_test(test_raise),       cmocka_unit_test(test_urgent_first),
        cmocka_unit_test(test_small_fails), cmocka_unit_test(test_borrow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
