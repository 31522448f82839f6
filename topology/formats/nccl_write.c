/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a graph as the XML that NCCL reads (NCCL_TOPO_FILE); nccl_xml.c shows the format
 * and reads it back.
 *
 * NCCL has processors (each NUMA node is a <cpu>), PCI devices in them, and properties of
 * GPUs and NICs. A host bridge's devices are therefore direct children of their <cpu>,
 * and everything else (ranks' own links, latencies except a NIC's) is left out. Devices
 * without an address get an invented one. NCCL requires the processor's vendor: where the
 * graph names none, the file has an Intel processor of model 143.
 */
#include "nccl_write.h"

#include <math.h>
#include <string.h>

#include "topology/base/index_set.h"
#include "topology/base/link_table.h"
#include "topology/base/words.h"

struct writer {
    const struct graph *graph;
    struct text *text;
    /* the present machine; parts written so far (GPUs: of this machine) */
    uint32_t machine, numas_count, nics_count, gpus_count;
    /* the graph has a C2C link, so its processors are Arm's (Grace) */
    bool arm;
};

static void indent(struct writer *writer, unsigned depth)
{
    while (depth--)
        text_add(writer->text, "  ");
}

/* Return the NUMA node, package or machine that contains a device. */
static uint32_t processor_of(const struct graph *graph, uint32_t node)
{
    do
        node = graph->nodes[node].parent;
    while (node != GRAPH_NONE && graph->nodes[node].kind != NODE_NUMA &&
           graph->nodes[node].kind != NODE_PACKAGE &&
           graph->nodes[node].kind != NODE_MACHINE);
    return node;
}

static uint32_t machine_of(const struct graph *graph, uint32_t node)
{
    while (node != GRAPH_NONE && graph->nodes[node].kind != NODE_MACHINE)
        node = graph->nodes[node].parent;
    return node;
}

/* Return the first link of `kind` from `node`; NULL for none. */
static const struct graph_link *link_of(const struct graph *graph, uint32_t node,
                                        enum graph_link_kind kind)
{
    for (uint32_t i = graph->out_first[node]; i < graph->out_first[node + 1]; i++)
        if (graph->links[graph->out_next[i]].kind == kind)
            return &graph->links[graph->out_next[i]];
    return NULL;
}

static void attribute(struct writer *writer, const char *name, const char *value)
{
    text_addf(writer->text, " %s=\"", name);
    text_add_xml(writer->text, value);
    text_add(writer->text, "\"");
}

/* Write a device's PCI address; an invented address has the domain ffff. */
static void address_write(struct writer *writer, const char *name, uint32_t node)
{
    const struct graph_node *device = &writer->graph->nodes[node];
    if (device->pci)
        attribute(writer, name, device->pci);
    else if (strncmp(device->name, "pci:", 4) == 0)
        attribute(writer, name, device->name + 4);
    else
        text_addf(writer->text, " %s=\"ffff:%02x:%02x.0\"", name, node >> 5 & 0xff,
                  node & 0x1f);
}

/* Guess generation and lanes from a bandwidth: sixteen lanes if a generation fits, else
 * fewer. Without a fit both outputs are unchanged. */
static void pci_guess(double bytes_per_s, unsigned *generation_p, unsigned *lanes_p)
{
    for (unsigned lanes = 16; lanes; lanes /= 2)
        for (unsigned generation = 1; generation <= 6; generation++)
            if (fabs(table_pci_bytes_per_s(generation, lanes) - bytes_per_s) <
                0.02 * bytes_per_s) {
                *generation_p = generation;
                *lanes_p = lanes;
                return;
            }
}

static void pci_attributes(struct writer *writer, uint32_t node, const char *class)
{
    static const char *const speeds[] = {"",
                                         "2.5 GT/s PCIe",
                                         "5.0 GT/s PCIe",
                                         "8.0 GT/s PCIe",
                                         "16.0 GT/s PCIe",
                                         "32.0 GT/s PCIe",
                                         "64.0 GT/s PCIe"};
    const struct graph_link *link = link_of(writer->graph, node, WIRE_PCI);
    address_write(writer, "busid", node);
    attribute(writer, "class", class);
    unsigned generation = link && link->generation < 7 ? link->generation : 0;
    unsigned lanes = link ? link->width : 0;
    if (link && !generation)
        pci_guess(link->bytes_per_s.value, &generation, &lanes);
    attribute(writer, "link_speed", speeds[generation]);
    text_addf(writer->text, " link_width=\"%u\"", lanes);
}

/* ---- devices ----------------------------------------------------------------------- */

/* Return the number of links of a bundle; without a width, the number of generation-4
 * links with its bandwidth. */
static unsigned nvlinks_count(const struct graph_link *link)
{
    double links = link->bytes_per_s.value / table_nvlink_bytes_per_s(4, 1);
    if (link->width)
        return link->width;
    return links > 1 && links < 1000 ? (unsigned)(links + 0.5) : 1;
}

static void nvlinks_write(struct writer *writer, uint32_t gpu, unsigned depth)
{
    const struct graph *graph = writer->graph;
    for (uint32_t i = graph->out_first[gpu]; i < graph->out_first[gpu + 1]; i++) {
        const struct graph_link *link = &graph->links[graph->out_next[i]];
        if (link->kind != WIRE_NVLINK)
            continue;
        enum graph_node_kind kind = graph->nodes[link->to].kind;
        indent(writer, depth);
        text_add(writer->text, "<nvlink");
        address_write(writer, "target", link->to);
        text_addf(writer->text, " count=\"%u\" tclass=\"%s\"/>\n", nvlinks_count(link),
                  kind == NODE_GPU         ? "0x030200"
                  : kind == NODE_NV_SWITCH ? "0x068000"
                                           : "0x068001");
    }
}

/* Return a compute capability that implies the generation of the GPU's NVLinks. */
static unsigned capability_of(const struct graph *graph, uint32_t gpu)
{
    static const unsigned capabilities[] = {90, 60, 70, 80, 90, 100};
    const struct graph_link *link = link_of(graph, gpu, WIRE_NVLINK);
    if (!link)
        return link_of(graph, gpu, WIRE_C2C) ? 90 : 80;
    return capabilities[link->generation <= 5 ? link->generation : 0];
}

static void gpu_write(struct writer *writer, uint32_t gpu, unsigned depth)
{
    const struct graph *graph = writer->graph;
    const struct graph_link *c2c = link_of(graph, gpu, WIRE_C2C);
    indent(writer, depth);
    text_addf(writer->text, "<gpu dev=\"%u\" sm=\"%u\"",
              graph->nodes[gpu].os_index == GRAPH_NONE ? writer->gpus_count
                                                       : graph->nodes[gpu].os_index,
              capability_of(graph, gpu));
    for (uint32_t i = 0; i < graph->ranks_count; i++)
        if (graph->nodes[graph->ranks[i]].parent == gpu)
            text_addf(writer->text, " rank=\"%u\"", i);
    writer->gpus_count++;
    text_add(writer->text, " gdr=\"1\">\n");
    nvlinks_write(writer, gpu, depth + 1);
    if (c2c && isfinite(c2c->bytes_per_s.value) && c2c->bytes_per_s.value > 0) {
        indent(writer, depth + 1);
        text_addf(writer->text, "<c2c bw=\"%.0f\" count=\"1\"/>\n",
                  c2c->bytes_per_s.value / 1e6);
    }
    indent(writer, depth);
    text_add(writer->text, "</gpu>\n");
}

static void nic_write(struct writer *writer, uint32_t nic, unsigned depth)
{
    const struct graph *graph = writer->graph;
    const struct graph_link *link = link_of(graph, nic, WIRE_INFINIBAND);
    if (!link)
        link = link_of(graph, nic, WIRE_ETHERNET);
    double bytes_per_s = link ? link->bytes_per_s.value : GRAPH_UNKNOWN;
    indent(writer, depth);
    text_add(writer->text, "<nic>\n");
    indent(writer, depth + 1);
    text_add(writer->text, "<net");
    attribute(writer, "name", words_short(graph, nic));
    text_addf(writer->text, " dev=\"%u\"", writer->nics_count++);
    if (isfinite(bytes_per_s) && bytes_per_s > 0)
        text_addf(writer->text, " speed=\"%.0f\"", bytes_per_s * 8 / 1e6);
    if (link && link->latency_ns.value != GRAPH_UNKNOWN) {
        text_add(writer->text, " latency=\"");
        text_add_fixed(writer->text, link->latency_ns.value / 1e3, 6);
        text_add(writer->text, "\"");
    }
    text_add(writer->text, " port=\"1\"/>\n");
    indent(writer, depth);
    text_add(writer->text, "</nic>\n");
}

#define DEPTH_MAX 64

static void devices_write(struct writer *writer, uint32_t above, unsigned depth);

static void device_write(struct writer *writer, uint32_t node, unsigned depth)
{
    enum graph_node_kind kind = writer->graph->nodes[node].kind;
    if (kind == NODE_HOST_BRIDGE) {
        devices_write(writer, node, depth);
        return;
    }
    bool bare = kind == NODE_NIC && !link_of(writer->graph, node, WIRE_PCI);
    if (bare) {
        nic_write(writer, node, depth);
        return;
    }
    indent(writer, depth);
    text_add(writer->text, "<pci");
    pci_attributes(writer, node,
                   kind == NODE_GPU                                ? "0x030200"
                   : kind != NODE_NIC                              ? "0x060400"
                   : link_of(writer->graph, node, WIRE_INFINIBAND) ? "0x020700"
                                                                   : "0x020000");
    text_add(writer->text, ">\n");
    if (kind == NODE_GPU)
        gpu_write(writer, node, depth + 1);
    else if (kind == NODE_NIC)
        nic_write(writer, node, depth + 1);
    else
        devices_write(writer, node, depth + 1);
    indent(writer, depth);
    text_add(writer->text, "</pci>\n");
}

static bool is_device(enum graph_node_kind kind)
{
    return kind == NODE_HOST_BRIDGE || kind == NODE_PCI_SWITCH || kind == NODE_GPU ||
           kind == NODE_NIC;
}

static void devices_write(struct writer *writer, uint32_t above, unsigned depth)
{
    const struct graph *graph = writer->graph;
    for (uint32_t i = above + 1; i < graph->nodes_count && depth < DEPTH_MAX; i++)
        if (graph->nodes[i].parent == above && is_device(graph->nodes[i].kind))
            device_write(writer, i, depth);
}

/* ---- processors -------------------------------------------------------------------- */

/* Write the list "0-3,8" as a mask; nothing where `cpus` is malformed. */
static void mask_write(struct writer *writer, const char *cpus)
{
    struct index_set set;
    if (!index_set_parse(cpus, &set))
        return;
    text_add(writer->text, " affinity=\"");
    index_set_write_mask(&set, "", writer->text);
    text_add(writer->text, "\"");
}

static void cpu_begin(struct writer *writer, uint32_t node)
{
    const struct graph *graph = writer->graph;
    const struct graph_node *cpu = &graph->nodes[node];
    bool amd = false;
    for (uint32_t at = node; at != GRAPH_NONE; at = graph->nodes[at].parent)
        amd = amd || (graph->nodes[at].label && strstr(graph->nodes[at].label, "AMD"));
    text_addf(writer->text, "  <cpu host_hash=\"0x%x\" numaid=\"%u\"",
              writer->machine + 1,
              cpu->os_index == GRAPH_NONE ? writer->numas_count : cpu->os_index);
    if (cpu->cpus)
        mask_write(writer, cpu->cpus);
    if (writer->arm)
        text_add(writer->text, " arch=\"arm64\">\n");
    else
        text_addf(writer->text,
                  " arch=\"x86_64\" vendor=\"%s\" familyid=\"%u\" modelid=\"%u\">\n",
                  amd ? "AuthenticAMD" : "GenuineIntel", amd ? 25 : 6, amd ? 1 : 143);
    writer->numas_count++;
}

/* Write a NUMA node's <cpu>: its devices and, if the node is the first of its package,
 * the package's own devices. */
static void numa_write(struct writer *writer, uint32_t node, uint32_t *packages_done)
{
    const struct graph *graph = writer->graph;
    uint32_t package = graph->nodes[node].parent;
    cpu_begin(writer, node);
    devices_write(writer, node, 2);
    if (package != GRAPH_NONE && package != *packages_done) {
        *packages_done = package;
        devices_write(writer, package, 2);
    }
    text_add(writer->text, "  </cpu>\n");
}

static void machine_write(struct writer *writer, uint32_t machine)
{
    const struct graph *graph = writer->graph;
    uint32_t done = GRAPH_NONE, before = writer->numas_count;
    writer->machine = machine;
    writer->gpus_count = 0;
    for (uint32_t i = machine + 1; i < graph->nodes_count; i++)
        if (graph->nodes[i].kind == NODE_NUMA && machine_of(graph, i) == machine)
            numa_write(writer, i, &done);
    if (writer->numas_count != before)
        return;
    cpu_begin(writer, machine);
    for (uint32_t i = machine + 1; i < graph->nodes_count; i++)
        if (is_device(graph->nodes[i].kind) && machine_of(graph, i) == machine &&
            graph->nodes[i].parent == processor_of(graph, i))
            device_write(writer, i, 2);
    text_add(writer->text, "  </cpu>\n");
}

void nccl_xml_write(const struct graph *graph, struct text *text)
{
    struct writer writer = {.graph = graph, .text = text};
    for (uint32_t i = 0; i < graph->links_count; i++)
        writer.arm = writer.arm || graph->links[i].kind == WIRE_C2C;
    text_add(text, "<system version=\"1\">\n");
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        if (graph->nodes[i].kind == NODE_MACHINE)
            machine_write(&writer, i);
    text_add(text, "</system>\n");
}
