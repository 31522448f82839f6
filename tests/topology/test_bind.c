/* SPDX-License-Identifier: Apache-2.0 */
/* The processors of a progress thread, as a table over a machine of two NUMA nodes with
 * four GPUs each and a NIC at each node. The mask that the process was given must be
 * respected. */
#include "support/unit.h"

#include <sched.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/index_set.h"
#include "topology/formats/graph_read.h"
#include "topology/place/bind.h"
#include "topology/place/bind_decide.h"

static const char machine[] =
    "{\"tryst_graph\": 1, \"nodes\": [\n"
    "{\"name\": \"m\", \"kind\": \"machine\"},\n"
    "{\"name\": \"p0\", \"kind\": \"package\", \"parent\": \"m\", \"cpus\": \"0-7\"},\n"
    "{\"name\": \"p1\", \"kind\": \"package\", \"parent\": \"m\", \"cpus\": \"8-15\"},\n"
    "{\"name\": \"n0\", \"kind\": \"numa\", \"parent\": \"p0\", \"os_index\": 0, "
    "\"cpus\": \"0-7\"},\n"
    "{\"name\": \"n1\", \"kind\": \"numa\", \"parent\": \"p1\", \"os_index\": 4, "
    "\"cpus\": \"8-15\"},\n"
    "{\"name\": \"g0\", \"kind\": \"gpu\", \"parent\": \"n0\"},\n"
    "{\"name\": \"g1\", \"kind\": \"gpu\", \"parent\": \"p1\"},\n"
    "{\"name\": \"nic0\", \"kind\": \"nic\", \"parent\": \"n0\"},\n"
    "{\"name\": \"r0\", \"kind\": \"rank\", \"parent\": \"g0\"},\n"
    "{\"name\": \"r1\", \"kind\": \"rank\", \"parent\": \"g1\"},\n"
    "{\"name\": \"net\", \"kind\": \"switch\"}],\n"
    "\"links\": [\n"
    "{\"from\": \"r0\", \"to\": \"g0\", \"kind\": \"attach\"}, {\"from\": \"g0\", "
    "\"to\": \"p0\", \"kind\": \"pci\"},\n"
    "{\"from\": \"r1\", \"to\": \"g1\", \"kind\": \"attach\"}, {\"from\": \"g1\", "
    "\"to\": \"p1\", \"kind\": \"pci\"},\n"
    "{\"from\": \"p1\", \"to\": \"p0\", \"kind\": \"upi\"}, {\"from\": \"p0\", \"to\": "
    "\"nic0\", \"kind\": \"pci\"},\n"
    "{\"from\": \"nic0\", \"to\": \"net\", \"kind\": \"ethernet\"}]}\n";

struct row {
    uint32_t rank;
    const char *cpus;   /* the mask that the process was given */
    const char *chosen; /* chosen processors; "": none */
    bool second;        /* not near the NIC, or not bound */
};

static const struct row rows[] = {
    {0, "0-15", "0-7", false},
    {1, "0-15", "0-7", false},     /* its NIC is at the other package */
    {1, "8-15", "8-15", true},     /* taskset: nothing near the NIC */
    {0, "2-3,8-15", "2-3", false}, /* cgroup: only a part */
    {0, "3,8-15", "", true},       /* a single processor is not chosen */
    {1, "3,8-15", "8-15", true},
    {0, "100-120", "", true},
};

static struct graph *graph_make(void)
{
    struct err err = ERR_INIT;
    struct graph *graph;
    if (graph_read(machine, strlen(machine), "machine", GRAPH_JSON, &err, &graph) !=
        TRYST_OK)
        fail_msg("%s", err.text);
    return graph;
}

static void decisions(void **state)
{
    struct graph *graph = graph_make();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct index_set given, expected;
        struct bind_choice choice;
        assert_true(index_set_parse(rows[i].cpus, &given));
        assert_true(index_set_parse(rows[i].chosen, &expected));
        assert_int_equal(bind_decide(graph, rows[i].rank, &given, &choice), TRYST_OK);
        if (memcmp(&expected, &choice.cpus, sizeof expected) != 0 ||
            (choice.why != NULL) != rows[i].second)
            fail_msg("row %zu: %u processors, %s", i, index_set_count(&choice.cpus),
                     choice.why ? choice.why : "as wanted");
        assert_string_equal(graph->nodes[choice.nic].name, "nic0");
    }
    graph_close(graph);
}

static void lists(void **state)
{
    struct index_set set;
    static const char *const wrong[] = {"a", "1-", "3-1", "1 2", "-1", "1,,2"};
    assert_true(index_set_parse("0-3,8,8000-9000\n", &set));
    assert_int_equal(index_set_count(&set), 5 + INDEX_SET_MAX - 8000);
    assert_true(index_set_parse("", &set));
    assert_int_equal(index_set_count(&set), 0);
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_false(index_set_parse(wrong[i], &set));
}

static char *list_of(const struct index_set *set)
{
    struct text text = {0};
    char *list;
    index_set_write(set, &text);
    assert_int_equal(text_release(&text, NULL, &list), TRYST_OK);
    return list;
}

static void lists_are_written(void **state)
{
    static const char *const lists[] = {"", "0", "0-3,8", "7,9-8191", "0,2,4"};
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        struct index_set set;
        assert_true(index_set_parse(lists[i], &set));
        char *list = list_of(&set);
        assert_string_equal(list, lists[i]);
        mem_free(list);
    }
}

/* Masks as hwloc, the kernel and NCCL write them. */
static void masks(void **state)
{
    static const struct {
        const char *mask, *list; /* list NULL: not a mask */
    } cases[] = {
        {"", ""},
        {"0", ""},
        {"ff", "0-7"},
        {"0x1", "0"},
        {"00000001,00000000", "32"},
        {"0x80000000,0x1", "0,63"},
        {"0x1,,0x1", "0,64"},
        {"0xf,,", "64-67"},
        {"8000000000000001", "0,63"},
        {"aB", "0-1,3,5,7"},
        {"0xg", NULL},
        {"x1", NULL},
        {"1x1", NULL},
        {"0xf...f", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct index_set set;
        assert_int_equal(index_set_parse_mask(cases[i].mask, &set), cases[i].list != 0);
        if (!cases[i].list)
            continue;
        char *list = list_of(&set);
        assert_string_equal(list, cases[i].list);
        mem_free(list);
    }
}

static void masks_have_an_end(void **state)
{
    char mask[INDEX_SET_MAX / 4 + 2] = "8";
    struct index_set set;
    memset(mask + 1, '0', INDEX_SET_MAX / 4 - 1);
    assert_true(index_set_parse_mask(mask, &set));
    assert_true(index_set_has(&set, INDEX_SET_MAX - 1));
    assert_int_equal(index_set_count(&set), 1);
    strcat(mask, "0");
    assert_false(index_set_parse_mask(mask, &set));
}

static struct index_set affinity(void)
{
    struct index_set set = {{0}};
    cpu_set_t cpus;
    assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    for (uint32_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus))
            index_set_add(&set, i);
    return set;
}

/* On this machine the chosen processors must be among the given ones, and the report must
 * be true. */
static void this_machine(void **state)
{
    struct err err = ERR_INIT;
    struct index_set given = affinity();
    char told[256] = "";
    tryst_status status = bind_thread(3, &err, told, sizeof told);
    if (status == TRYST_E_UNSUPPORTED)
        skip(); /* no hwloc */
    if (status != TRYST_OK)
        fail_msg("%s", err.text);
    struct index_set after = affinity();
    char *list = list_of(&after);
    if (strncmp(told, "left where it is: ", 18) == 0)
        assert_memory_equal(&after, &given, sizeof after);
    else
        assert_non_null(strstr(told, list));
    mem_free(list);
    assert_true(index_set_count(&after) > 0);
    for (uint32_t i = 0; i < INDEX_SET_MAX; i++)
        assert_true(!index_set_has(&after, i) || index_set_has(&given, i));
}

static tryst_status decide_once(const struct graph *graph)
{
    struct index_set given = {{0}};
    struct bind_choice choice;
    return bind_decide(graph, 0, &given, &choice);
}

static void memory_may_fail(void **state)
{
    struct graph *graph = graph_make();
    WALK_ALLOCATIONS(decide_once(graph));
    graph_close(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions),         cmocka_unit_test(lists),
        cmocka_unit_test(lists_are_written), cmocka_unit_test(masks),
        cmocka_unit_test(masks_have_an_end), cmocka_unit_test(this_machine),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
