/* SPDX-License-Identifier: Apache-2.0 */
/* Machines from files: each is read, printed and compared with a text that was checked
 * once (machines/x.xml, machines/x.txt), and its dump must read back as the same bytes.
 * Then mistakes in such files, refused with their line.
 *
 * After an intended change of the text: TRYST_TEST_UPDATE=1 writes the texts anew; review
 * the difference. */
#include "support/unit.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "graph_equal.h"
#include "topology/draw/graph_write.h"
#include "topology/formats/graph_read.h"
#include "topology/machine/detect.h"

#define FILE_MAX (1 << 20)

static char *file_read(const char *name, size_t *bytes_p)
{
    char path[512];
    snprintf(path, sizeof path, TEST_MACHINES "/%s", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be opened", path);
    char *text = test_calloc(1, FILE_MAX);
    *bytes_p = fread(text, 1, FILE_MAX - 1, file);
    fclose(file);
    return text;
}

static void file_write(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, TEST_MACHINES "/%s", name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static char *text_of(const struct graph *graph, enum graph_format format)
{
    char *text;
    assert_int_equal(graph_write(graph, format, NULL, NULL, &text), TRYST_OK);
    return text;
}

static void dump_comes_back(const struct graph *graph)
{
    struct err err = ERR_INIT;
    struct graph *again;
    char *dump = text_of(graph, GRAPH_JSON), *second;
    if (graph_read(dump, strlen(dump), "dump", GRAPH_JSON, &err, &again) != TRYST_OK)
        fail_msg("%s", err.text);
    second = text_of(again, GRAPH_JSON);
    assert_string_equal(dump, second);
    assert_true(graph_equal(graph, again));
    mem_free(dump);
    mem_free(second);
    graph_close(again);
}

/* Check that the graph of `text` prints as machines/<name>.txt. */
static void graph_text_check(const char *text, size_t bytes, const char *name)
{
    char file[64];
    struct err err = ERR_INIT;
    struct graph *graph;
    tryst_status status = graph_read(text, bytes, name, GRAPH_AUTO, &err, &graph);
    if (status == TRYST_E_UNSUPPORTED)
        skip(); /* built without hwloc or libxml2 */
    if (status != TRYST_OK)
        fail_msg("%s", err.text);
    char *look = text_of(graph, GRAPH_TEXT);
    snprintf(file, sizeof file, "%s.txt", name);
    if (getenv("TRYST_TEST_UPDATE"))
        file_write(file, look);
    size_t expected_bytes;
    char *expected = file_read(file, &expected_bytes);
    if (strcmp(look, expected) != 0)
        fail_msg("%s prints differently now:\n%s", name, look);
    dump_comes_back(graph);
    test_free(expected);
    mem_free(look);
    graph_close(graph);
}

static void saved(const char *name)
{
    char file[64];
    size_t bytes;
    snprintf(file, sizeof file, "%s.xml", name);
    char *text = file_read(file, &bytes);
    graph_text_check(text, bytes, name);
    test_free(text);
}

/* A server with two packages of two NUMA nodes each, cut down to four cores a node; one
 * InfiniBand NIC at node 1. */
static void two_sockets(void **state)
{
    saved("two-sockets");
}

/* Eight A100 of PCIe form behind two PCIe switches, one for each package, a NIC beside
 * each four; cut down to four cores a package. */
static void pcie_switches(void **state)
{
    saved("pcie-switches");
}

/* A laptop: one package, graphics inside it, wired and wireless network. */
static void laptop(void **state)
{
    saved("laptop");
}

static void dgx_h100(void **state)
{
    saved("dgx-h100");
}

static void grace_hopper(void **state)
{
    saved("grace-hopper");
}

static void synthetic(void **state)
{
    static const char words[] =
        "node:2 numa:2 gpu:4 nvlink:450GB nic:2x400Gb latency:2us upi:20GB";
    graph_text_check(words, strlen(words), "synthetic");
}

/* The wires of a cluster or a probe have no kind: they show as a network, between every
 * pair. */
static void cluster_is_a_network(void **state)
{
    static const char *const texts[] = {
        "{\"ranks\":[\"a0\",\"b0\",\"a1\"],\"nodes\":[\"ra\",\"rb\"],\"links\":["
        "{\"a\":\"a0\",\"b\":\"ra\",\"gbit_per_s\":0.8},"
        "{\"a\":\"a1\",\"b\":\"ra\",\"gbit_per_s\":0.8},"
        "{\"a\":\"b0\",\"b\":\"rb\",\"gbit_per_s\":0.8},"
        "{\"a\":\"ra\",\"b\":\"rb\",\"gbit_per_s\":0.4}]}",
        "{\"tryst_graph\":1,\"nodes\":[{\"name\":\"vm:0\",\"kind\":\"rank\"},"
        "{\"name\":\"vm:1\",\"kind\":\"rank\"},{\"name\":\"net0\",\"kind\":\"switch\"}],"
        "\"links\":[{\"from\":\"vm:0\",\"to\":\"net0\",\"kind\":\"unknown\"},"
        "{\"from\":\"net0\",\"to\":\"vm:0\",\"kind\":\"unknown\"},"
        "{\"from\":\"vm:1\",\"to\":\"net0\",\"kind\":\"unknown\"},"
        "{\"from\":\"net0\",\"to\":\"vm:1\",\"kind\":\"unknown\"}],\"routes\":[]}",
    };
    for (int i = 0; i < 2; i++) {
        struct err err = ERR_INIT;
        struct graph *graph;
        if (graph_read(texts[i], strlen(texts[i]), "cluster", GRAPH_AUTO, &err, &graph))
            fail_msg("%s", err.text);
        char *look = text_of(graph, GRAPH_TEXT);
        assert_non_null(strstr(look, "  NET "));
        assert_null(strstr(look, "  LOC "));
        mem_free(look);
        graph_close(graph);
    }
}

/* ---- mistakes ---------------------------------------------------------------------- */

struct wrong {
    const char *text, *reason;
};

static const struct wrong wrongs[] = {
    {"node:4", "t:1:1: no network joins the nodes"},
    {"node:4 gpus:8", "t:1:8: unknown word: a synthetic topology has node:"},
    {"node:4 nic:2x50", "t:1:16: a unit is needed here"},
    {"node:0 nic:1GB", "t:1:6: the number must be 1 to 65536"},
    {"gpu:8\n nvlink:fast", "t:2:9: a number is needed here"},
    {"gpu:8 gpu:4", "t:1:7: this word is used twice"},
    {"gpu:8,nic:1GB", "t:1:6: a blank is needed between"},
    {"nic:0GB", "t:1:5: the number must be above 0"},
    {"pcie:5", "t:1:7: pcie: needs generation x lanes"},
    {"node:60000 gpu:1000 nic:1GB", "t:1:1: the topology is too large"},
    {"", "t:1:1: the topology is empty"},
    {"<a><b></a>", "t:1:"},
    {"<topology>\n <object/>\n</topology>", "t:1: hwloc rejects this XML"},
    {"<topology version=\"2.0\"/>", "t:1: hwloc rejects this XML"},
    {"<topology version=\"2.0\">\n <object type=\"Machine\"",
     "t:1: hwloc rejects this XML"},
    {"<network/>", "t:1: cannot read <network>: neither"},
    {"<!DOCTYPE system [<!ENTITY a \"b\">]>\n<system/>",
     "t:1: cannot read XML that declares entities"},
    {"<system version=\"3\"/>", "t:1: <system> needs version=\"1\""},
    {"<system version=\"1\"/>", "t:1: <system> needs at least one <cpu>"},
    {"<system version=\"1\">\n <cpu numaid=\"0\">\n  <pci/></cpu></system>",
     "t:3: <pci> needs the attribute busid"},
};

static void wrong_is_placed(void **state)
{
    for (size_t i = 0; i < COUNT_OF(wrongs); i++) {
        struct err err = ERR_INIT;
        struct graph *graph = NULL;
        tryst_status status = graph_read(wrongs[i].text, strlen(wrongs[i].text), "t",
                                         GRAPH_AUTO, &err, &graph);
        if (status == TRYST_E_UNSUPPORTED)
            continue;
        if (status != TRYST_E_INVALID ||
            strncmp(err.text, wrongs[i].reason, strlen(wrongs[i].reason)) != 0)
            fail_msg("%s\nsaid: %s\nwanted: %s", wrongs[i].text, err.text,
                     wrongs[i].reason);
        assert_null(graph);
    }
}

/* The library must not print by itself, whatever the XML. */
static void nothing_is_printed(void **state)
{
    static const char *const texts[] = {
        "<?xml version=\"1.0\" encoding=\"EUC-JP\"?>\n<system a=\"\xd7\x30\"/>",
        "<?xml version=\"1.0\" encoding=\"UTF-16\"?>\n<system/>",
        "<system>\xff</system>",
        "<topology version=\"2.0\"><object type=\"Machine\"",
        "<system",
        "<!DOCTYPE a SYSTEM \"x.dtd\"><system>&b;</system>"};
    int said = memfd_create("stderr", MFD_CLOEXEC), kept = dup(STDERR_FILENO);
    assert_true(said >= 0 && kept >= 0);
    fflush(stderr);
    dup2(said, STDERR_FILENO);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct graph *graph;
        if (graph_read(texts[i], strlen(texts[i]), "t", GRAPH_AUTO, NULL, &graph) ==
            TRYST_OK)
            graph_close(graph);
    }
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_int_equal(lseek(said, 0, SEEK_END), 0);
    close(said);
}

/* ---- memory ------------------------------------------------------------------------ */

static tryst_status read_and_show(const char *text, size_t bytes)
{
    struct graph *graph;
    char *look;
    tryst_status status = graph_read(text, bytes, "t", GRAPH_AUTO, NULL, &graph);
    if (status != TRYST_OK)
        return status;
    status = graph_write(graph, GRAPH_TEXT, NULL, NULL, &look);
    graph_close(graph);
    if (status == TRYST_OK)
        mem_free(look);
    return status;
}

static void memory_may_fail(void **state)
{
    static const char *const names[] = {"grace-hopper.xml", "laptop.xml"};
    static const char words[] = "node:2 gpu:2 nic:1GB nvlink:1GB";
    WALK_ALLOCATIONS(read_and_show(words, strlen(words)));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t bytes;
        char *text = file_read(names[i], &bytes);
        if (read_and_show(text, bytes) == TRYST_OK)
            WALK_ALLOCATIONS(read_and_show(text, bytes));
        test_free(text);
    }
}

/* This machine, whatever it is, must be detected, and its dump must read back. */
static void this_machine(void **state)
{
    struct err err = ERR_INIT;
    struct graph *graph;
    tryst_status status = graph_detect(&err, &graph);
    if (status == TRYST_E_UNSUPPORTED)
        skip(); /* no hwloc */
    if (status != TRYST_OK)
        fail_msg("%s", err.text);
    assert_int_equal(graph->nodes[0].kind, NODE_MACHINE);
    assert_true(graph->ranks_count > 0);
    for (uint32_t i = 0; i < graph->links_count; i++)
        assert_true(graph->links[i].bytes_per_s.value == GRAPH_UNKNOWN ||
                    graph->links[i].bytes_per_s.value > 0);
    char *look = text_of(graph, GRAPH_TEXT);
    print_message("%s", look);
    mem_free(look);
    dump_comes_back(graph);
    graph_close(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sockets),
        cmocka_unit_test(pcie_switches),
        cmocka_unit_test(laptop),
        cmocka_unit_test(dgx_h100),
        cmocka_unit_test(grace_hopper),
        cmocka_unit_test(synthetic),
        cmocka_unit_test(cluster_is_a_network),
        cmocka_unit_test(wrong_is_placed),
        cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(nothing_is_printed),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
