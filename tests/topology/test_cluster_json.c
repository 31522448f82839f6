/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster JSON: the graph that a file gives and, for each kind of mistake, the error text
 * and its place. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "topology/formats/cluster_json.h"

static tryst_status text_read(const char *text, struct err *err, struct graph **graph_p)
{
    struct source source = {text, strlen(text), "c.json", err};
    return cluster_json_read(&source, graph_p);
}

static void example(void **state)
{
    static const char text[] =
        "{\"ranks\": [\"h0\",\"h1\"], \"nodes\": [\"sw0\"],\n"
        " \"links\": "
        "[{\"a\":\"h0\",\"b\":\"sw0\",\"gbit_per_s\":0.8,\"latency_us\":20},\n"
        "  {\"from\":\"h1\",\"to\":\"sw0\",\"gbit_per_s\":0.4},"
        "{\"from\":\"sw0\",\"to\":\"h1\",\"gbit_per_s\":2}],\n"
        " \"routes\": [{\"from\":\"h0\",\"to\":\"h1\",\"via\":[\"sw0\"]}]}\n";
    struct graph *graph;
    assert_int_equal(text_read(text, NULL, &graph), TRYST_OK);
    assert_int_equal(graph->nodes_count, 3);
    assert_int_equal(graph->ranks_count, 2);
    assert_string_equal(graph->nodes[graph->ranks[1]].name, "h1");
    assert_int_equal(graph->nodes[2].kind, NODE_SWITCH);
    assert_int_equal(graph->links_count, 4);
    static const struct {
        uint32_t from, to;
        double bytes_per_s, latency_ns;
    } links[] = {{0, 2, 1e8, 20000},
                 {2, 0, 1e8, 20000},
                 {1, 2, 5e7, GRAPH_UNKNOWN},
                 {2, 1, 2.5e8, GRAPH_UNKNOWN}};
    for (size_t l = 0; l < COUNT_OF(links); l++) {
        assert_int_equal(graph->links[l].from, links[l].from);
        assert_int_equal(graph->links[l].to, links[l].to);
        assert_true(graph->links[l].bytes_per_s.value == links[l].bytes_per_s);
        assert_int_equal(graph->links[l].bytes_per_s.origin, ORIGIN_IMPORTED);
        assert_true(graph->links[l].latency_ns.value == links[l].latency_ns);
    }
    assert_int_equal(graph->links[3].latency_ns.origin, ORIGIN_NONE);
    assert_int_equal(graph->routes_count, 1);
    assert_int_equal(graph->routes[0].via[0], 2);
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    graph_close(graph);
}

static void least(void **state)
{
    struct graph *graph;
    assert_int_equal(text_read("{\"links\":[],\"ranks\":[\"a\"]}", NULL, &graph),
                     TRYST_OK);
    assert_int_equal(graph->ranks_count, 1);
    graph_close(graph);
}

#define HEAD "{\"ranks\":[\"h0\",\"h1\"],\"nodes\":[\"s\"],\n"

static const struct {
    const char *text, *refusal;
} wrong[] = {
    {"", "c.json:1:1: invalid JSON"},
    {"{\"ranks\":\n [\"h0\",]}", "c.json:2:"},
    {"[]", "c.json:1:1: a cluster must be an object"},
    {"{\"links\":[]}", "\"ranks\" is missing"},
    {"{\"ranks\":[\"a\"]}", "\"links\" is missing"},
    {"{\"ranks\":[],\"links\":[]}", "c.json:1:10: \"ranks\" is empty"},
    {"{\"ranks\":\"a\",\"links\":[]}", "c.json:1:10: \"ranks\" must be a list"},
    {"{\"ranks\":[\"a\",7],\"links\":[]}", "c.json:1:15: a name is needed"},
    {"{\"ranks\":[\"a\",\"\"],\"links\":[]}", "c.json:1:15: a node has no name"},
    {"{\"ranks\":[\"a\",\"a\"],\"links\":[]}",
     "c.json:1:15: the node name \"a\" is used twice"},
    {"{\"ranks\":[\"a\"],\"nodes\":[\"s\",\"s\"],\"links\":[]}", "\"s\" is used twice"},
    {"{\"ranks\":[\"a\"],\"nodes\":[\"a\"],\"links\":[]}",
     "c.json:1:25: \"a\" is both in \"ranks\" and in \"nodes\""},
    {"{\"ranks\":[\"a\"],\"link\":[]}", "a cluster has no member \"link\""},
    {"{\"ranks\":[\"a\"],\"ranks\":[\"b\"],\"links\":[]}", "c.json:1:"},
    {HEAD "\"links\":[7]}", "c.json:2:10: a link must be an object"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit\":1}]}",
     "a link has no member \"gbit\""},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"from\":\"h0\",\"gbit_per_s\":1}]}",
     "c.json:2:10: a link has either"},
    {HEAD "\"links\":[{\"gbit_per_s\":1}]}", "a link needs its ends"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"gbit_per_s\":1}]}", "\"b\" is missing"},
    {HEAD "\"links\":[{\"to\":\"h0\",\"gbit_per_s\":1}]}", "\"from\" is missing"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"t\",\"gbit_per_s\":1}]}",
     "c.json:2:24: \"t\" is neither in \"ranks\" nor in \"nodes\""},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":2,\"gbit_per_s\":1}]}",
     "c.json:2:24: \"b\" must be the name"},
    {HEAD "\"links\":[{\"a\":\"s\",\"b\":\"s\",\"gbit_per_s\":1}]}",
     "c.json:2:10: a link joins \"s\" to itself"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\"}]}", "\"gbit_per_s\" is missing"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit_per_s\":\"1\"}]}",
     "\"gbit_per_s\" must be a number"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit_per_s\":0}]}",
     "c.json:2:41: \"gbit_per_s\" is 0: it must be above 0"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit_per_s\":-1}]}",
     "\"gbit_per_s\" is -1: it must be above 0"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit_per_s\":1e300}]}",
     "\"gbit_per_s\" is 1e+300"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit_per_s\":1e999}]}", "invalid JSON"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit_per_s\":NaN}]}", "c.json:2:"},
    {HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit_per_s\":1,\"latency_us\":-2}]}",
     "\"latency_us\" is -2: it must be 0 or more"},
    {HEAD "\"links\":[],\"routes\":[{\"from\":\"h0\",\"to\":\"h1\"}]}",
     "a route needs \"via\""},
    {HEAD "\"links\":[],\"routes\":[{\"from\":\"h0\",\"to\":\"h1\",\"via\":[\"x\"]}]}",
     "c.json:2:52: \"x\" is neither in"},
    {HEAD "\"links\":[],\"routes\":[{\"from\":\"h0\",\"to\":\"h1\",\"via\":[1]}]}",
     "c.json:2:52: a name is needed"},
    {HEAD "\"links\":[],\"routes\":[{\"from\":\"h0\",\"to\":\"s\",\"via\":[]}]}",
     "\"s\", which is not a rank"},
    {HEAD "\"links\":[],\"routes\":[{\"from\":\"h0\",\"to\":\"h1\",\"via\":[\"h1\"]}]}",
     "passes through the rank \"h1\""},
    {HEAD "\"links\":[],\"routes\":[{\"from\":\"h0\",\"to\":\"h1\",\"cost\":1}]}",
     "a route has no member \"cost\""},
};

static void refused(void **state)
{
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct err err = ERR_INIT;
        struct graph *graph;
        uint64_t before = alloc_live_count();
        if (text_read(wrong[i].text, &err, &graph) != TRYST_E_INVALID)
            fail_msg("%s was not refused", wrong[i].text);
        if (strncmp(err.text, "c.json:", 7) != 0 || !strstr(err.text, wrong[i].refusal))
            fail_msg("%s\n  text: %s\n  not:  %s", wrong[i].text, err.text,
                     wrong[i].refusal);
        assert_int_equal(alloc_live_count(), before);
    }
}

static tryst_status read_and_close(void)
{
    struct graph *graph;
    tryst_status status =
        text_read(HEAD "\"links\":[{\"a\":\"h0\",\"b\":\"s\",\"gbit_per_s\":1},"
                       "{\"a\":\"h1\",\"b\":\"s\",\"gbit_per_s\":1}],"
                       "\"routes\":[{\"from\":\"h0\",\"to\":\"h1\",\"via\":[\"s\"]}]}",
                  NULL, &graph);
    if (status == TRYST_OK)
        graph_close(graph);
    return status;
}

static void no_memory(void **state)
{
    WALK_ALLOCATIONS(read_and_close());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example),
        cmocka_unit_test(least),
        cmocka_unit_test(refused),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
