/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other programs as they occur: NCCL's, as clouds provide them and people edit
 * them; hwloc's. Each row holds the nodes of the graph, and what must be listed as
 * skipped; no part of a file is dropped without a report. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "graph_equal.h"
#include "topology/draw/graph_write.h"
#include "topology/formats/graph_read.h"

static struct graph *read_auto(const char *text)
{
    struct err err = ERR_INIT;
    struct graph *graph = NULL;
    tryst_status status = graph_read(text, strlen(text), "t", GRAPH_AUTO, &err, &graph);
    if (status == TRYST_E_UNSUPPORTED)
        skip(); /* built without libxml2 */
    if (status != TRYST_OK)
        fail_msg("%s\n%s", err.text, text);
    return graph;
}

static unsigned kind_count(const struct graph *graph, enum graph_node_kind kind)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        count += graph->nodes[i].kind == kind;
    return count;
}

static const struct graph_link *link_between(const struct graph *graph, const char *from,
                                             const char *to, enum graph_link_kind kind)
{
    uint32_t a = graph_find(graph, from), b = graph_find(graph, to);
    for (uint32_t i = 0; i < graph->links_count; i++)
        if (graph->links[i].from == a && graph->links[i].to == b &&
            graph->links[i].kind == kind)
            return &graph->links[i];
    return NULL;
}

static unsigned links_count(const struct graph *graph, enum graph_link_kind kind)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < graph->links_count; i++)
        count += graph->links[i].kind == kind;
    return count;
}

static bool skip_is_listed(const struct graph *graph, const char *what, const char *why)
{
    for (uint32_t i = 0; i < graph->skips_count; i++)
        if (strcmp(graph->skips[i].what, what) == 0 && strstr(graph->skips[i].why, why))
            return true;
    return false;
}

struct seen {
    const char *text;
    unsigned gpus, nics, switches, ranks, skips; /* switches: PCIe */
    const char *what, *why;                      /* one of the skipped; NULL: none */
};

static void row_check(const struct seen *row)
{
    struct graph *graph = read_auto(row->text);
    bool good = kind_count(graph, NODE_GPU) == row->gpus &&
                kind_count(graph, NODE_NIC) == row->nics &&
                kind_count(graph, NODE_PCI_SWITCH) == row->switches &&
                graph->ranks_count == row->ranks && graph->skips_count == row->skips &&
                (!row->what || skip_is_listed(graph, row->what, row->why));
    if (!good) {
        char *look;
        assert_int_equal(graph_write(graph, GRAPH_TEXT, NULL, NULL, &look), TRYST_OK);
        fail_msg("%s\nis\n%s", row->text, look);
    }
    graph_close(graph);
}

/* ---- NCCL: devices ----------------------------------------------------------------- */

#define SYSTEM(...)     "<system version=\"1\">" __VA_ARGS__ "</system>"
#define CPU(...)        SYSTEM("<cpu numaid=\"0\">" __VA_ARGS__ "</cpu>")
#define PCI(id, class)  "<pci busid=\"" id "\" class=\"" class "\"/>"
#define SWITCH(id, ...) "<pci busid=\"" id "\" class=\"0x060400\">" __VA_ARGS__ "</pci>"

/* gpus, nics, switches, ranks, skips */
static const struct seen devices[] = {
    /* as clouds provide them: a class only */
    {CPU(PCI("0001:00:00.0", "0x030200") PCI("0101:00:00.0", "0x020700")), 1, 1, 0, 1, 0,
     NULL, NULL},
    {CPU(SWITCH("ffff:ff:01.0",
                PCI("0001:00:00.0", "0x030200") PCI("0101:00:00.0", "0x020000")
                    PCI("0002:00:00.0", "0x038000"))),
     2, 1, 1, 2, 0, NULL, NULL},
    /* spellings of a class; 0x12 are accelerators that RCCL runs on */
    {CPU(PCI("1:0", "0x03") PCI("2:0", "0X0302") PCI("3:0", "0300") PCI("4:0", "0x30200")
             PCI("5:0", "0x120000") PCI("6:0", "0x02") PCI("7:0", "0200")),
     5, 2, 0, 5, 0, NULL, NULL},
    /* without a class the content counts; without content the device is listed */
    {CPU("<pci busid=\"1:0\"/><pci busid=\"2:0\"><gpu/></pci><pci "
         "busid=\"3:0\"><nic/></pci>"
         "<pci busid=\"4:0\"><pci busid=\"5:0\"><gpu/></pci><pci "
         "busid=\"6:0\"><gpu/></pci>"
         "</pci>"),
     3, 1, 1, 3, 1, "1:0", "no class, <gpu>"},
    {CPU(PCI("1:0", "")), 0, 0, 0, 1, 1, "1:0", "no class, <gpu>"},
    {CPU(PCI("1:0", "gpu")), 0, 0, 0, 1, 1, "1:0", "no class, <gpu>"},
    {CPU(PCI("1:0", "0x010802")), 0, 0, 0, 1, 1, "1:0", "class 0108 is neither"},
    {CPU(PCI("1:0", "0x060400")), 0, 0, 0, 1, 1, "1:0", "a bridge without devices"},
    /* a console is not a rank's GPU, unless NCCL runs on it */
    {CPU("<pci busid=\"1:0\" class=\"0x030000\" vendor=\"0x1a03\" device=\"0x2000\"/>"),
     0, 0, 0, 1, 1, "1:0", "console (class 0300, ids 1a03:2000)"},
    {CPU("<pci busid=\"1:0\" class=\"0x030000\" vendor=\"0x1a03\"><gpu/></pci>"), 1, 0, 0,
     1, 0, NULL, NULL},
    {CPU("<pci busid=\"1:0\" class=\"0x030000\" vendor=\"0xffff\" device=\"0xffff\"/>"),
     1, 0, 0, 1, 0, NULL, NULL},
    /* an NVSwitch without a link */
    {CPU(PCI("1:0", "0x068000")), 0, 0, 0, 1, 1, "1:0", "an NVSwitch"},
    /* ports: in <nic>, directly in <pci>, directly in <cpu>, without a name, two with one
     * name */
    {CPU("<pci busid=\"1:0\"><net name=\"e0\"/></pci><net name=\"e1\"/>"
         "<nic><net name=\"e2\" dev=\"0\" speed=\"-1\"/></nic>"),
     0, 3, 0, 1, 0, NULL, NULL},
    {CPU("<pci busid=\"1:0\" class=\"0x0200\"><nic><net dev=\"0\"/></nic></pci>"), 0, 1,
     0, 1, 1, "<net> in line 1", "the port has no name"},
    {CPU("<nic><net name=\"e\"/></nic><nic><net name=\"e\"/></nic>"), 0, 2, 0, 1, 0, NULL,
     NULL},
    /* repeated device numbers; ranks that repeat or that only some have */
    {CPU("<pci busid=\"1:0\"><gpu dev=\"0\" rank=\"0\"/></pci>"
         "<pci busid=\"2:0\"><gpu dev=\"0\" rank=\"0\"/></pci>"),
     2, 0, 0, 2, 0, NULL, NULL},
    {CPU("<pci busid=\"1:0\"><gpu dev=\"0\" rank=\"5\"/></pci>" PCI("2:0", "0x03")), 2, 0,
     0, 2, 0, NULL, NULL},
    /* partitions of one GPU */
    {CPU("<pci busid=\"1:0\"><gpu dev=\"0\" rank=\"1\"/><gpu dev=\"1\" "
         "rank=\"0\"/></pci>"),
     2, 0, 0, 2, 0, NULL, NULL},
    /* devices behind a NIC */
    {CPU("<pci busid=\"1:0\" class=\"0x020000\"><nic/>" PCI("2:0", "0x030200") "</pci>"),
     1, 1, 0, 1, 0, NULL, NULL},
    /* invalid numbers count as unknown, as in NCCL */
    {CPU("<pci busid=\"1:0\" class=\"0x03\" link_width=\"16x\" link_speed=\"fast\">"
         "<gpu dev=\"x\" sm=\"gfx90a\" rank=\"\"/></pci>"),
     1, 0, 0, 1, 2, "<gpu> in line 1", "dev=\"x\" is not a number"},
    {SYSTEM("<cpu numaid=\"x\" affinity=\"z\"/>"), 0, 0, 0, 1, 2, "<cpu> in line 1",
     "affinity=\"z\" is not a hexadecimal mask"},
    {SYSTEM("<cpu affinity=\"0-3\"/>"), 0, 0, 0, 1, 0, NULL, NULL},
    /* elements in a wrong place */
    {CPU("<gpu dev=\"0\"/>"), 0, 0, 0, 1, 1, "<gpu> in line 1", "<gpu> in <cpu>"},
    {SYSTEM("<cpu/><gpu dev=\"0\"/>"), 0, 0, 0, 1, 1, "<gpu> in line 1",
     "<gpu> in <system>"},
    {CPU("<pci busid=\"1:0\" class=\"0x03\"><gpu><xgmi target=\"2:0\"/></gpu></pci>"), 1,
     0, 0, 1, 1, "1:0", "<xgmi> in <gpu>"},
    /* comments and a declaration in front, as in AWS's files */
    {"<?xml version=\"1.0\"?>\n<!-- <topology> of a <machine> -->\n" CPU(
         PCI("1:0", "0x030200")),
     1, 0, 0, 1, 0, NULL, NULL},
    /* hosts by the number of their hash */
    {SYSTEM("<cpu host_hash=\"0x1\">" PCI(
         "1:0", "0x03") "</cpu>"
                        "<cpu host_hash=\"0X01\">" PCI(
                            "2:0", "0x01") "</cpu>"
                                           "<cpu host_hash=\"0x2\">" PCI(
                                               "1:0", "0x03") "</cpu>"),
     2, 0, 0, 2, 1, "host0/2:0", "class 0100"},
};

static void nccl_devices(void **state)
{
    for (size_t i = 0; i < COUNT_OF(devices); i++)
        row_check(&devices[i]);
}

static void nccl_wires(void **state)
{
    struct graph *graph = read_auto(CPU(
        "<pci busid=\"1:0\" class=\"0x020700\"><net name=\"a\" speed=\"400000\"/></pci>"
        "<pci busid=\"2:0\" class=\"0x020000\"><net name=\"mlx5_1\"/></pci>"
        "<nic><net name=\"mlx5_2\"/></nic>"
        "<pci busid=\"3:0\" class=\"0x03\" link_width=\"16x\" link_speed=\"8 GT/s\"/>"));
    const struct graph_link *wire = link_between(graph, "a", "net:a", WIRE_INFINIBAND);
    assert_non_null(wire);
    assert_true(wire->bytes_per_s.value == 50e9);
    assert_non_null(link_between(graph, "mlx5_1", "net:mlx5_1", WIRE_ETHERNET));
    assert_non_null(link_between(graph, "mlx5_2", "net:mlx5_2", WIRE_INFINIBAND));
    assert_int_equal(link_between(graph, "gpu0", "package0", WIRE_PCI)->width, 16);
    graph_close(graph);
}

/* ---- NCCL: links ------------------------------------------------------------------- */

#define GPU(id, dev, ...)                                      \
    "<pci busid=\"" id "\" class=\"0x030200\"><gpu dev=\"" dev \
    "\" sm=\"80\">" __VA_ARGS__ "</gpu></pci>"
#define NVLINK(target, count, class) \
    "<nvlink target=\"" target "\" count=\"" count "\" tclass=\"" class "\"/>"

static void nvlinks_to_itself(void **state)
{
    struct graph *graph =
        read_auto(CPU(GPU("0001:00:00.0", "0", NVLINK("0001:00:00.0", "12", "0x030200"))
                          GPU("0002:00:00.0", "1", NVLINK("0002:00:00.0", "12", ""))));
    assert_int_equal(kind_count(graph, NODE_GPU), 2);
    assert_int_equal(links_count(graph, WIRE_NVLINK), 0);
    assert_int_equal(graph->skips_count, 2);
    assert_true(skip_is_listed(graph, "0001:00:00.0", "to itself"));
    assert_true(skip_is_listed(graph, "0002:00:00.0", "to itself"));
    graph_close(graph);
}

static void nvlinks_to_nowhere(void **state)
{
    struct graph *graph = read_auto(CPU(GPU("1:0", "0", NVLINK("9:0", "4", "0x030200"))));
    assert_int_equal(links_count(graph, WIRE_NVLINK), 0);
    assert_true(skip_is_listed(graph, "1:0", "\"9:0\", which is not a GPU"));
    graph_close(graph);
}

/* A wire is listed at its first end, at its second or at both, in one element or in
 * several; addresses are written in several ways. */
static void nvlinks_of_one_end(void **state)
{
    static const char *const texts[] = {
        CPU(GPU("0000:1b:00.0", "0", NVLINK("0000:1c:00.0", "4", "0x030200"))
                GPU("0000:1c:00.0", "1", "")),
        CPU(GPU("0000:1B:00.0", "0", "")
                GPU("0000:1C:00.0", "1", NVLINK("1b:00.0", "4", "0x0302"))),
        CPU(GPU("00000000:1B:00.0", "0",
                NVLINK("00000000:1C:00.0", "3", "") NVLINK("0000:1c:00.0", "1", ""))
                GPU("0000:1c:00.0", "1",
                    NVLINK("0000:1b:00.0", "2", "0x03")
                        NVLINK("0000:1b:00.0", "2", "0x03"))),
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct graph *graph = read_auto(texts[i]);
        assert_int_equal(links_count(graph, WIRE_NVLINK), 2);
        assert_int_equal(link_between(graph, "gpu0", "gpu1", WIRE_NVLINK)->width, 4);
        assert_int_equal(graph->skips_count, 0);
        graph_close(graph);
    }
}

/* The end of a link that is neither a GPU nor a processor is an NVSwitch, also one that a
 * hypervisor hides. */
static void nvlinks_to_switches(void **state)
{
    struct graph *graph = read_auto(CPU(
        GPU("1:0", "0", NVLINK("5:0", "2", "0x068000"))
            GPU("2:0", "1", "<nvlink target=\"fffffff:ffff:ff\" count=\"18\"/>")
                GPU("3:0", "2", NVLINK("5:0", "0", "0x068000")) GPU(
                    "4:0", "3", NVLINK("6:0", "3", "0x068001")) PCI("5:0", "0x068000")));
    assert_int_equal(kind_count(graph, NODE_NV_SWITCH), 1);
    assert_int_equal(link_between(graph, "gpu0", "nvswitch", WIRE_NVLINK)->width, 2);
    assert_int_equal(link_between(graph, "gpu1", "nvswitch", WIRE_NVLINK)->width, 18);
    assert_null(link_between(graph, "gpu2", "nvswitch", WIRE_NVLINK));
    assert_int_equal(link_between(graph, "gpu3", "package0", WIRE_NVLINK)->width, 3);
    assert_int_equal(graph->skips_count, 0);
    graph_close(graph);
}

/* ---- hwloc ------------------------------------------------------------------------- */

#define OBJECT(type, number, gp, set)                                        \
    "<object type=\"" type "\" os_index=\"" number "\" gp_index=\"" gp "\" " \
    "cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"0x1\" "        \
    "complete_nodeset=\"0x1\""
#define PACKAGE OBJECT("Machine", "0", "1", "0x3") ">" OBJECT("Package", "0", "2", "0x3")
#define NUMA    OBJECT("NUMANode", "0", "3", "0x3") "/>"
#define PUS     OBJECT("PU", "0", "5", "0x1") "/>" OBJECT("PU", "1", "6", "0x2") "/>"
/* A machine with a package of two processors and a host bridge. `devices` are behind the
 * bridge; `after` follows the machine. */
#define HWLOC(devices, after)                                                  \
    "<topology version=\"2.0\">" PACKAGE ">" NUMA PUS                          \
    "<object type=\"Bridge\" bridge_type=\"0-1\" "                             \
    "bridge_pci=\"0000:[00-ff]\">" devices "</object></object></object>" after \
    "</topology>"
#define DEVICE(bus, gp, type, more, in)                                            \
    "<object type=\"PCIDev\" gp_index=\"" gp "\" pci_busid=\"0000:" bus ":00.0\" " \
    "pci_type=\"" type "\"" more ">" in "</object>"
#define OSDEV(name, type) \
    "<object type=\"OSDev\" name=\"" name "\" osdev_type=\"" type "\"/>"

static const struct seen hwloc_devices[] = {
    {HWLOC(DEVICE("01", "9", "0300 [1a03:2000] [0000:0000] 41", "", ""), ""), 0, 0, 0, 1,
     1, "0000:01:00.0", "console (class 0300, ids 1a03:2000)"},
    {HWLOC(DEVICE("01", "9", "0300 [1002:515e] [0000:0000] 02", "", OSDEV("card0", "1")),
           ""),
     0, 0, 0, 1, 1, "0000:01:00.0", "console (class 0300, ids 1002:515e)"},
    {HWLOC(DEVICE("01", "9", "0300 [102b:0534] [0000:0000] 00", "", ""), ""), 0, 0, 0, 1,
     1, "0000:01:00.0", "console"},
    /* GPUs without a driver */
    {HWLOC(DEVICE("01", "9", "0300 [1002:6798] [174b:e208] 00", "", "")
               DEVICE("02", "10", "0302 [10de:1db8] [10de:131d] a1", "", "")
                   DEVICE("03", "11", "0380 [8086:0bd5] [0000:0000] 2f", "", "")
                       DEVICE("04", "12", "1200 [1002:74a1] [0000:0000] 00", "", ""),
           ""),
     4, 0, 0, 4, 0, NULL, NULL},
    /* a driver for computing counts before ids, and a port before the class */
    {HWLOC(
         DEVICE("01", "9", "0000 [0000:0000] [0000:0000] 00", "", OSDEV("cuda0", "5"))
             DEVICE("02", "10", "0300 [1ed5:0222] [0000:0000] 00", "", OSDEV("ze0", "5"))
                 DEVICE("03", "11", "0c06 [15b3:6278] [0000:0000] 20", "", "")
                     DEVICE("04", "12", "0c03 [8086:a12f] [0000:0000] 31", "",
                            OSDEV("enx0", "2")),
         ""),
     2, 2, 0, 2, 0, NULL, NULL},
    /* an NPU of a laptop and an FPGA */
    {HWLOC(DEVICE("01", "9", "1200 [8086:7d1d] [0000:0000] 04", "", "")
               DEVICE("02", "10", "1200 [10ee:5000] [0000:0000] 00", "", ""),
           ""),
     0, 0, 0, 1, 2, "0000:01:00.0", "an accelerator (class 1200, ids 8086:7d1d)"},
    /* a co-processor */
    {HWLOC(DEVICE("01", "9", "0b40 [8086:225c] [0000:0000] 10", "", OSDEV("mic0", "5")),
           ""),
     0, 0, 0, 1, 1, "0000:01:00.0", "an accelerator (class 0b40"},
    /* NVLink switches without a matrix; links of AMD's */
    {HWLOC(DEVICE("01", "9", "0680 [10de:1ac2] [0000:0000] a1", "", ""), ""), 0, 0, 0, 1,
     1, "0000:01:00.0", "an NVSwitch"},
    {HWLOC(DEVICE("01", "10", "1200 [1002:74a1] [0000:0000] 00", "", "")
               DEVICE("02", "11", "1200 [1002:74a1] [0000:0000] 00", "", ""),
           "<distances2hetero nbobjs=\"2\" kind=\"25\" name=\"XGMIBandwidth\">"
           "<indexes length=\"20\">PCIDev:10 PCIDev:11 </indexes>"
           "<u64values length=\"8\">0 1 1 0 </u64values></distances2hetero>"),
     2, 0, 0, 2, 1, "XGMIBandwidth", "not read"},
};

static void hwloc_consoles_and_gpus(void **state)
{
    for (size_t i = 0; i < COUNT_OF(hwloc_devices); i++)
        row_check(&hwloc_devices[i]);
}

/* ---- hwloc: NVLinkBandwidth -------------------------------------------------------- */

#define TESLA(bus, gp) DEVICE(bus, gp, "0302 [10de:1db8] [10de:131d] a1", "", "")
#define MATRIX                                                                     \
    "<distances2hetero nbobjs=\"3\" kind=\"25\" name=\"NVLinkBandwidth\">"         \
    "<indexes length=\"%zu\">%s</indexes><u64values length=\"%zu\">%s</u64values>" \
    "</distances2hetero>"
#define TWO_GPUS TESLA("01", "10") TESLA("02", "11")

/* Write a machine with a matrix of three objects. */
static const char *matrix_text(const char *gpus, const char *indexes, const char *values)
{
    static char text[4096];
    snprintf(text, sizeof text, HWLOC("%s", MATRIX), gpus, strlen(indexes), indexes,
             strlen(values), values);
    return text;
}

static void matrix_to_package(void **state)
{
    struct graph *graph =
        read_auto(matrix_text(TWO_GPUS, "PCIDev:10 PCIDev:11 Package:2 ",
                              "1000000 0 40000 0 1000000 40000 40000 40000 1000000 "));
    for (int i = 0; i < 2; i++) {
        const struct graph_link *link =
            link_between(graph, i ? "gpu1" : "gpu0", "package0", WIRE_NVLINK);
        assert_non_null(link);
        assert_true(link->bytes_per_s.value == 40e9);
    }
    assert_int_equal(graph->skips_count, 0);
    graph_close(graph);
    /* by its NUMA node, and in one direction alone */
    graph = read_auto(matrix_text(TWO_GPUS, "PCIDev:10 PCIDev:11 NUMANode:3 ",
                                  "0 0 0 0 0 0 40000 20000 0 "));
    assert_true(link_between(graph, "gpu0", "package0", WIRE_NVLINK)->bytes_per_s.value ==
                40e9);
    assert_true(link_between(graph, "gpu1", "package0", WIRE_NVLINK)->bytes_per_s.value ==
                20e9);
    graph_close(graph);
}

#define ODD_SWITCH(bus, gp, subtype) \
    DEVICE(bus, gp, "0000 [0000:0000] [0000:0000] 00", subtype, "")

/* A switch without ids is recognised by its subtype. Unnamed columns make the sum
 * unknown, never smaller. */
static void matrix_to_switches(void **state)
{
    struct graph *graph = read_auto(matrix_text(
        TESLA("01", "10") ODD_SWITCH("02", "11", " subtype=\"NVSwitch\"")
            DEVICE("03", "12", "0680 [10de:1ac2] [0000:0000] a1", "", ""),
        "PCIDev:10 PCIDev:11 PCIDev:12 ", "1000000 25000 25000 25000 0 0 25000 0 0 "));
    assert_true(link_between(graph, "gpu0", "nvswitch", WIRE_NVLINK)->bytes_per_s.value ==
                50e9);
    assert_int_equal(graph->skips_count, 0);
    graph_close(graph);
    graph = read_auto(matrix_text(
        TESLA("01", "10") ODD_SWITCH("02", "11", "")
            DEVICE("03", "12", "0680 [10de:1ac2] [0000:0000] a1", "", ""),
        "PCIDev:10 PCIDev:11 PCIDev:12 ", "1000000 25000 25000 25000 0 0 25000 0 0 "));
    assert_true(link_between(graph, "gpu0", "nvswitch", WIRE_NVLINK)->bytes_per_s.value ==
                GRAPH_UNKNOWN);
    assert_true(skip_is_listed(graph, "NVLinkBandwidth of gp_index 11",
                               "not a GPU, an NVSwitch"));
    graph_close(graph);
}

/* hwloc's transitive closure gives a number to GPUs that only switches connect. Those
 * numbers are not links. */
static void matrix_closure(void **state)
{
    struct graph *graph = read_auto(matrix_text(
        TWO_GPUS DEVICE("03", "12", "0680 [10de:1ac2] [0000:0000] a1", "", ""),
        "PCIDev:10 PCIDev:11 PCIDev:12 ", "0 50000 50000 50000 0 50000 50000 50000 0 "));
    assert_null(link_between(graph, "gpu0", "gpu1", WIRE_NVLINK));
    assert_true(link_between(graph, "gpu1", "nvswitch", WIRE_NVLINK)->bytes_per_s.value ==
                50e9);
    graph_close(graph);
}

/* ---- refusals, and the list of skipped parts --------------------------------------- */

struct wrong {
    const char *text, *reason;
};

static const struct wrong wrongs[] = {
    {"<topology version=\"4.0\"><object type=\"Machine\"/></topology>",
     "t:1: hwloc rejects this XML"},
    {"<graphs version=\"1\"/>", "t:1: cannot read <graphs>: a file of NCCL_GRAPH_FILE"},
    {"<system version=\"2\"><cpu/></system>",
     "t:1: cannot read <system version=\"2\">: this is RCCL's format"},
    {"\x1f\x8b\x08", "t:1: the file is compressed with gzip: decompress it first"},
    {"BZh91AY", "t:1: the file is compressed with bzip2"},
    {"\xfd"
     "7zXZ",
     "t:1: the file is compressed with xz"},
};

static void refusals(void **state)
{
    for (size_t i = 0; i < COUNT_OF(wrongs); i++) {
        struct err err = ERR_INIT;
        struct graph *graph = NULL;
        tryst_status status = graph_read(wrongs[i].text, strlen(wrongs[i].text), "t",
                                         GRAPH_AUTO, &err, &graph);
        if (status == TRYST_E_UNSUPPORTED)
            continue;
        assert_int_equal(status, TRYST_E_INVALID);
        if (strncmp(err.text, wrongs[i].reason, strlen(wrongs[i].reason)) != 0)
            fail_msg("got: %s\nwanted: %s", err.text, wrongs[i].reason);
    }
}

static char *text_of(const struct graph *graph, enum graph_format format)
{
    char *text;
    assert_int_equal(graph_write(graph, format, NULL, NULL, &text), TRYST_OK);
    return text;
}

/* The text shows what was skipped; the dump holds all of it and reads back. */
static void skipped_is_shown(void **state)
{
    struct err err = ERR_INIT;
    struct graph *again,
        *graph = read_auto(CPU(PCI("1:0", "0x010802") "<a/>" PCI("2:0", "0x03")));
    char *look = text_of(graph, GRAPH_TEXT), *dump = text_of(graph, GRAPH_JSON);
    assert_non_null(strstr(look, "skipped (2)"));
    assert_non_null(strstr(look, "  1:0: class 0108 is neither a GPU nor a NIC\n"));
    assert_non_null(strstr(dump, "\"skipped\": [\n  {\"what\": \"1:0\", \"why\": "));
    if (graph_read(dump, strlen(dump), "dump", GRAPH_AUTO, &err, &again) != TRYST_OK)
        fail_msg("%s", err.text);
    assert_true(graph_equal(graph, again));
    mem_free(look);
    mem_free(dump);
    graph_close(graph);
    graph_close(again);
}

static tryst_status read_and_show(const char *text)
{
    struct graph *graph;
    char *look;
    tryst_status status = graph_read(text, strlen(text), "t", GRAPH_AUTO, NULL, &graph);
    if (status != TRYST_OK)
        return status;
    status = graph_write(graph, GRAPH_JSON, NULL, NULL, &look);
    graph_close(graph);
    if (status == TRYST_OK)
        mem_free(look);
    return status;
}

static void memory_may_fail(void **state)
{
    const char *const texts[] = {
        CPU(PCI("1:0", "0x010802") GPU(
            "2:0", "x",
            NVLINK("2:0", "1",
                   "0x03")) "<pci busid=\"3:0\"><gpu/><gpu/></pci><net name=\"e\"/>"),
        matrix_text(TWO_GPUS ODD_SWITCH("03", "12", ""), "PCIDev:10 PCIDev:11 PCIDev:12 ",
                    "0 1 1 1 0 1 1 1 0 "),
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (read_and_show(texts[i]) == TRYST_OK)
            WALK_ALLOCATIONS(read_and_show(texts[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nccl_devices),
        cmocka_unit_test(nccl_wires),
        cmocka_unit_test(nvlinks_to_itself),
        cmocka_unit_test(nvlinks_to_nowhere),
        cmocka_unit_test(nvlinks_of_one_end),
        cmocka_unit_test(nvlinks_to_switches),
        cmocka_unit_test(hwloc_consoles_and_gpus),
        cmocka_unit_test(matrix_to_package),
        cmocka_unit_test(matrix_to_switches),
        cmocka_unit_test(matrix_closure),
        cmocka_unit_test(refusals),
        cmocka_unit_test(skipped_is_shown),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
