/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of climbing flows on plain structs: the marks that they set, and their use of
 * scratch. */
#include "collectives/coll_up.h"

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
        cmocka_unit_test(test_next_child), cmocka_unit_test(test_no_mark),
        cmocka_unit_test(test_sent),       cmocka_unit_test(test_lead),
        cmocka_unit_test(test_raise),      cmocka_unit_test(test_urgent_first),
        cmocka_unit_test(test_small_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
