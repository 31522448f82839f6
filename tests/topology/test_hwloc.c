/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc: its own synthetic topologies; and for the saved machines, Tryst's reader of the
 * XML must give the same graph as hwloc's. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "topology/base/text.h"
#include "topology/formats/graph_read.h"
#include "topology/formats/json_write.h"
#include "topology/machine/hwloc_machine.h"
#include "topology/machine/machine_build.h"

static const struct hwloc_calls *calls;

static char *text_of(const struct graph *graph)
{
    struct text text = {0};
    char *string;
    graph_json_write(graph, &text);
    assert_int_equal(text_release(&text, NULL, &string), TRYST_OK);
    return string;
}

/* Return the graph of a loaded topology as text; closes the topology. */
static char *graph_text_get(hwloc_topology_t topology, enum graph_origin origin)
{
    static const struct machine_build build = {
        .prefix = "", .ranks = true, .network = GRAPH_NONE};
    struct machine machine = MACHINE_INIT;
    struct err err = ERR_INIT;
    struct graph *graph;
    char *text;
    assert_int_equal(hwloc_machine_read(calls, topology, origin, &machine), TRYST_OK);
    calls->hwloc_topology_destroy(topology);
    assert_int_equal(graph_open(&graph), TRYST_OK);
    if (machine_build(graph, &machine, &build, &err) != TRYST_OK)
        fail_msg("%s", err.text);
    machine_drop(&machine);
    assert_int_equal(graph_seal(graph, &err), TRYST_OK);
    text = text_of(graph);
    graph_close(graph);
    return text;
}

static void calls_need(void)
{
    struct err err = ERR_INIT;
    if (hwloc_calls_get(&err, &calls) != TRYST_OK) {
        print_message("%s\n", err.text);
        skip();
    }
}

struct words {
    const char *text;
    unsigned packages, numas, ranks;
    const char *cpus; /* of the last NUMA node */
};

static const struct words synthetics[] = {
    {"pack:2 numa:2 l3:1 core:4 pu:1", 2, 4, 4, "12-15"},
    {"pack:1 core:2 pu:2", 1, 1, 1, "0-3"},
    {"numa:4 core:1 pu:1", 0, 4, 4, "3"},
    {"pack:3 l2:4 pu:2", 3, 1, 1, "0-23"},
};

static unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        count++;
    return count;
}

static void hwloc_synthetics(void **state)
{
    calls_need();
    for (size_t i = 0; i < COUNT_OF(synthetics); i++) {
        hwloc_topology_t topology;
        char cpus[64];
        assert_int_equal(calls->hwloc_topology_init(&topology), 0);
        assert_int_equal(
            calls->hwloc_topology_set_synthetic(topology, synthetics[i].text), 0);
        assert_int_equal(calls->hwloc_topology_load(topology), 0);
        char *look = graph_text_get(topology, ORIGIN_IMPORTED);
        print_message("%s\n%s", synthetics[i].text, look);
        assert_int_equal(count_of(look, "\"kind\": \"package\""), synthetics[i].packages);
        assert_int_equal(count_of(look, "\"kind\": \"numa\""), synthetics[i].numas);
        assert_int_equal(count_of(look, "\"kind\": \"rank\""), synthetics[i].ranks);
        snprintf(cpus, sizeof cpus, "\"cpus\": \"%s\"", synthetics[i].cpus);
        assert_non_null(strstr(look, cpus));
        mem_free(look);
    }
}

/* Cut the comments that hwloc's small reader does not accept. */
static void comments_cut(char *text)
{
    char *begin = strstr(text, "<!--"), *end = begin ? strstr(begin, "-->") : NULL;
    if (end)
        memmove(begin, end + 4, strlen(end + 4) + 1);
}

static void same_as_hwloc(const char *name)
{
    char path[512];
    struct err err = ERR_INIT;
    struct graph *graph;
    hwloc_topology_t topology;
    char *ours;
    char *text = test_calloc(1, 1 << 20);
    snprintf(path, sizeof path, TEST_MACHINES "/%s.xml", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    tryst_status status = graph_read(text, bytes, name, GRAPH_HWLOC_XML, &err, &graph);
    if (status == TRYST_E_UNSUPPORTED)
        skip(); /* built without libxml2 */
    assert_int_equal(status, TRYST_OK);
    ours = text_of(graph);
    graph_close(graph);
    comments_cut(text);
    assert_true(hwloc_topology_open(calls, text, &topology));
    char *theirs = graph_text_get(topology, ORIGIN_IMPORTED);
    /* hwloc keeps speeds as float: the last digits differ */
    assert_int_equal(count_of(ours, "\n"), count_of(theirs, "\n"));
    for (const char *a = ours, *b = theirs; *a && *b; a++, b++) {
        if (*a == *b)
            continue;
        a += strspn(a, "0123456789.");
        b += strspn(b, "0123456789.");
        if (*a != *b)
            fail_msg("ours:\n%.200s\nhwloc's:\n%.200s", a, b);
    }
    mem_free(ours);
    mem_free(theirs);
    test_free(text);
}

static void reader_agrees(void **state)
{
    calls_need();
    same_as_hwloc("laptop");
    same_as_hwloc("two-sockets");
    same_as_hwloc("pcie-switches");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hwloc_synthetics),
        cmocka_unit_test(reader_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
