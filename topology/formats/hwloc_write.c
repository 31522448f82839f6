/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write a graph of one machine as hwloc's XML, version 2 (lstopo -i reads it);
 * hwloc_xml.c reads it back.
 *
 * hwloc's XML has packages, NUMA nodes, processors, bridges and PCI devices with the
 * speed of their link. NVLinks, C2C, networks, ranks and the origins of numbers are left
 * out; the dump (JSON) has all. Where the graph lists no processors, each NUMA node gets
 * one. hwloc requires a host bridge above each PCI device, so devices directly in a
 * package get an invented one.
 */
#include "hwloc_write.h"

#include <math.h>
#include <string.h>

#include "topology/base/index_set.h"
#include "topology/base/words.h"

#define DEPTH_MAX 64

struct writer {
    const struct graph *graph;
    struct text *text;
    unsigned gp_index, host_bridges;
};

static void indent(struct writer *writer, unsigned depth)
{
    while (depth--)
        text_add(writer->text, " ");
}

static void attribute(struct writer *writer, const char *name, const char *value)
{
    text_addf(writer->text, " %s=\"", name);
    text_add_xml(writer->text, value);
    text_add(writer->text, "\"");
}

static void info_write(struct writer *writer, unsigned depth, const char *name,
                       const char *value)
{
    if (!value)
        return;
    indent(writer, depth);
    text_addf(writer->text, "<info name=\"%s\"", name);
    attribute(writer, "value", value);
    text_add(writer->text, "/>\n");
}

/* ---- sets -------------------------------------------------------------------------- */

static void set_write(struct writer *writer, const char *name,
                      const struct index_set *set)
{
    text_addf(writer->text, " %s=\"", name);
    index_set_write_mask(set, "0x", writer->text);
    text_add(writer->text, "\"");
}

/* Return the position of a NUMA node among all NUMA nodes. The position replaces an
 * unknown system number, and numbers the node's processor where the graph lists none. */
static uint32_t numa_order(const struct graph *graph, uint32_t node)
{
    uint32_t order = 0;
    for (uint32_t i = 0; i < node; i++)
        order += graph->nodes[i].kind == NODE_NUMA;
    return order;
}

static bool inside(const struct graph *graph, uint32_t node, uint32_t outer)
{
    for (unsigned depth = 0; node != GRAPH_NONE && node != outer && depth < DEPTH_MAX;
         depth++)
        node = graph->nodes[node].parent;
    return node == outer;
}

/* Collect the processors and NUMA nodes of `outer` and of all nodes inside. */
static void sets_of(const struct graph *graph, uint32_t outer, struct index_set *cpus,
                    struct index_set *nodes)
{
    *cpus = *nodes = (struct index_set){{0}};
    for (uint32_t i = outer; i < graph->nodes_count; i++) {
        struct index_set its;
        const struct graph_node *node = &graph->nodes[i];
        bool numa = node->kind == NODE_NUMA;
        if (!inside(graph, i, outer))
            continue;
        if (numa)
            index_set_add(nodes, node->os_index == GRAPH_NONE ? numa_order(graph, i)
                                                              : node->os_index);
        if (node->cpus && index_set_parse(node->cpus, &its))
            index_set_join(cpus, &its);
        else if (numa)
            index_set_add(cpus, numa_order(graph, i));
    }
}

/* Begin an object with its sets of processors and NUMA nodes. */
static void object_begin(struct writer *writer, unsigned depth, const char *type,
                         uint32_t os_index, uint32_t node)
{
    struct index_set cpus, nodes;
    sets_of(writer->graph, node, &cpus, &nodes);
    indent(writer, depth);
    text_addf(writer->text, "<object type=\"%s\"", type);
    if (os_index != GRAPH_NONE)
        text_addf(writer->text, " os_index=\"%u\"", os_index);
    set_write(writer, "cpuset", &cpus);
    set_write(writer, "complete_cpuset", &cpus);
    set_write(writer, "nodeset", &nodes);
    set_write(writer, "complete_nodeset", &nodes);
    text_addf(writer->text, " gp_index=\"%u\"", ++writer->gp_index);
}

static void object_end(struct writer *writer, unsigned depth)
{
    indent(writer, depth);
    text_add(writer->text, "</object>\n");
}

/* ---- devices ----------------------------------------------------------------------- */

static const struct graph_link *link_of(const struct graph *graph, uint32_t node,
                                        enum graph_link_kind kind)
{
    for (uint32_t i = graph->out_first[node]; i < graph->out_first[node + 1]; i++)
        if (graph->links[graph->out_next[i]].kind == kind)
            return &graph->links[graph->out_next[i]];
    return NULL;
}

static void pci_attributes(struct writer *writer, uint32_t node, const char *type)
{
    const struct graph *graph = writer->graph;
    const struct graph_node *device = &graph->nodes[node];
    const struct graph_link *link = link_of(graph, node, WIRE_PCI);
    double bytes_per_s = link ? link->bytes_per_s.value : GRAPH_UNKNOWN;
    if (device->pci)
        attribute(writer, "pci_busid", device->pci);
    else if (strncmp(device->name, "pci:", 4) == 0)
        attribute(writer, "pci_busid", device->name + 4);
    else
        text_addf(writer->text, " pci_busid=\"ffff:%02x:%02x.0\"", node >> 5 & 0xff,
                  node & 0x1f);
    text_addf(writer->text, " pci_type=\"%s [0000:0000] 00\" pci_link_speed=\"", type);
    text_add_fixed(writer->text,
                   isfinite(bytes_per_s) && bytes_per_s > 0 ? bytes_per_s / 1e9 : 0, 6);
    text_addf(writer->text, "\" gp_index=\"%u\"", ++writer->gp_index);
}

static void port_write(struct writer *writer, uint32_t nic, unsigned depth)
{
    bool infiniband = link_of(writer->graph, nic, WIRE_INFINIBAND) != NULL;
    indent(writer, depth);
    text_add(writer->text, "<object type=\"OSDev\"");
    attribute(writer, "name", words_short(writer->graph, nic));
    text_addf(writer->text, " osdev_type=\"%d\" gp_index=\"%u\"/>\n", infiniband ? 3 : 2,
              ++writer->gp_index);
}

static const char *gpu_type(const struct graph_node *gpu)
{
    const char *label = gpu->label ? gpu->label : "";
    return strstr(label, "Intel")                            ? "0300 [8086:0000]"
           : strstr(label, "AMD") || strstr(label, "Radeon") ? "0300 [1002:0000]"
                                                             : "0302 [10de:0000]";
}

static void endpoint_write(struct writer *writer, uint32_t node, unsigned depth)
{
    const struct graph *graph = writer->graph;
    bool nic = graph->nodes[node].kind == NODE_NIC;
    indent(writer, depth);
    text_add(writer->text, "<object type=\"PCIDev\"");
    pci_attributes(writer, node,
                   !nic                                    ? gpu_type(&graph->nodes[node])
                   : link_of(graph, node, WIRE_INFINIBAND) ? "0207 [15b3:0000]"
                                                           : "0200 [15b3:0000]");
    text_add(writer->text, ">\n");
    info_write(writer, depth + 1, "PCIDevice", graph->nodes[node].label);
    if (nic)
        port_write(writer, node, depth + 1);
    object_end(writer, depth);
}

static void devices_write(struct writer *writer, uint32_t above, unsigned depth,
                          unsigned bridges);

/* Write a switch and the devices below. */
static void switch_write(struct writer *writer, uint32_t node, unsigned depth,
                         unsigned bridges)
{
    indent(writer, depth);
    text_addf(writer->text,
              "<object type=\"Bridge\" bridge_type=\"1-1\" depth=\"%u\" "
              "bridge_pci=\"0000:[00-ff]\"",
              bridges);
    pci_attributes(writer, node, "0604 [0000:0000]");
    text_add(writer->text, ">\n");
    devices_write(writer, node, depth + 1, bridges + 1);
    object_end(writer, depth);
}

/* Begin a host bridge with the bus in `name` ("hostbridge:0000:16"), or with an invented
 * bus if `name` is NULL or has another form. */
static void host_bridge_begin(struct writer *writer, unsigned depth, const char *name)
{
    const char *address = name ? strchr(name, ':') : NULL;
    indent(writer, depth);
    text_add(writer->text,
             "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"");
    if (address && strlen(address) == strlen(":0000:16"))
        text_addf(writer->text, "%.4s:[%s-ff]", address + 1, address + 6);
    else
        text_addf(writer->text, "%04x:[00-ff]", 0xf000 + writer->host_bridges++ % 0x1000);
    text_addf(writer->text, "\" gp_index=\"%u\">\n", ++writer->gp_index);
}

static void device_write(struct writer *writer, uint32_t node, unsigned depth,
                         unsigned bridges)
{
    enum graph_node_kind kind = writer->graph->nodes[node].kind;
    bool made_up = bridges == 0 && kind != NODE_HOST_BRIDGE;
    if (kind == NODE_NIC && !link_of(writer->graph, node, WIRE_PCI)) {
        port_write(writer, node, depth);
        return;
    }
    if (kind == NODE_HOST_BRIDGE || made_up)
        host_bridge_begin(writer, depth,
                          made_up ? NULL : writer->graph->nodes[node].name);
    if (kind == NODE_HOST_BRIDGE)
        devices_write(writer, node, depth + 1, 1);
    else if (kind == NODE_PCI_SWITCH)
        switch_write(writer, node, depth + made_up, bridges + made_up);
    else
        endpoint_write(writer, node, depth + made_up);
    if (kind == NODE_HOST_BRIDGE || made_up)
        object_end(writer, depth);
}

static bool is_device(enum graph_node_kind kind)
{
    return kind == NODE_HOST_BRIDGE || kind == NODE_PCI_SWITCH || kind == NODE_GPU ||
           kind == NODE_NIC;
}

static void devices_write(struct writer *writer, uint32_t above, unsigned depth,
                          unsigned bridges)
{
    const struct graph *graph = writer->graph;
    for (uint32_t i = above + 1; i < graph->nodes_count && depth < DEPTH_MAX; i++)
        if (graph->nodes[i].parent == above && is_device(graph->nodes[i].kind))
            device_write(writer, i, depth, bridges);
}

/* ---- processors and memory --------------------------------------------------------- */

static void memory_write(struct writer *writer, uint32_t numa, unsigned depth)
{
    const struct graph_node *node = &writer->graph->nodes[numa];
    object_begin(writer, depth, "NUMANode",
                 node->os_index == GRAPH_NONE ? numa_order(writer->graph, numa)
                                              : node->os_index,
                 numa);
    text_add(writer->text, " local_memory=\"0\"/>\n"); /* the graph has no memory sizes */
}

static void processors_write(struct writer *writer, uint32_t outer, unsigned depth)
{
    struct index_set cpus, nodes, one;
    sets_of(writer->graph, outer, &cpus, &nodes);
    for (uint32_t i = 0; i < INDEX_SET_MAX; i++) {
        if (!index_set_has(&cpus, i))
            continue;
        one = (struct index_set){{0}};
        index_set_add(&one, i);
        indent(writer, depth);
        text_addf(writer->text, "<object type=\"PU\" os_index=\"%u\"", i);
        set_write(writer, "cpuset", &one);
        set_write(writer, "complete_cpuset", &one);
        set_write(writer, "nodeset", &nodes);
        set_write(writer, "complete_nodeset", &nodes);
        text_addf(writer->text, " gp_index=\"%u\"/>\n", ++writer->gp_index);
    }
}

static uint32_t count_in(const struct graph *graph, uint32_t parent,
                         enum graph_node_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        count += graph->nodes[i].parent == parent && graph->nodes[i].kind == kind;
    return count;
}

/* Write one NUMA node of several: a group with its memory, processors and devices. */
static void group_write(struct writer *writer, uint32_t numa, unsigned depth)
{
    object_begin(writer, depth, "Group", GRAPH_NONE, numa);
    text_add(writer->text, " kind=\"1001\" subkind=\"0\">\n");
    memory_write(writer, numa, depth + 1);
    processors_write(writer, numa, depth + 1);
    devices_write(writer, numa, depth + 1, 0);
    object_end(writer, depth);
}

/* Write the content of a package, or of a machine. */
static void inner_write(struct writer *writer, uint32_t outer, unsigned depth,
                        bool packages)
{
    const struct graph *graph = writer->graph;
    bool several = count_in(graph, outer, NODE_NUMA) > 1;
    for (uint32_t i = outer + 1; i < graph->nodes_count; i++) {
        if (graph->nodes[i].parent != outer || graph->nodes[i].kind != NODE_NUMA)
            continue;
        if (several && !packages)
            group_write(writer, i, depth);
        else
            memory_write(writer, i, depth);
    }
    if (!several && !packages)
        processors_write(writer, outer, depth);
    for (uint32_t i = outer + 1; !several && i < graph->nodes_count; i++)
        if (graph->nodes[i].parent == outer && graph->nodes[i].kind == NODE_NUMA)
            devices_write(writer, i, depth, 0);
    devices_write(writer, outer, depth, 0);
}

static void package_write(struct writer *writer, uint32_t package, unsigned depth)
{
    const struct graph_node *node = &writer->graph->nodes[package];
    object_begin(writer, depth, "Package", node->os_index, package);
    text_add(writer->text, ">\n");
    info_write(writer, depth + 1, "CPUModel", node->label);
    inner_write(writer, package, depth + 1, false);
    object_end(writer, depth);
}

static void machine_write(struct writer *writer, uint32_t machine)
{
    const struct graph *graph = writer->graph;
    bool packages = count_in(graph, machine, NODE_PACKAGE) > 0;
    object_begin(writer, 1, "Machine", 0, machine);
    text_add(writer->text, ">\n");
    info_write(writer, 2, "HostName", graph->nodes[machine].name);
    info_write(writer, 2, "DMIProductName", graph->nodes[machine].label);
    if (packages)
        for (uint32_t i = machine + 1; i < graph->nodes_count; i++)
            if (graph->nodes[i].parent == machine && graph->nodes[i].kind == NODE_PACKAGE)
                package_write(writer, i, 2);
    inner_write(writer, machine, 2, packages);
    object_end(writer, 1);
}

tryst_status hwloc_xml_write(const struct graph *graph, struct err *err,
                             struct text *text)
{
    struct writer writer = {.graph = graph, .text = text};
    uint32_t machines = 0, machine = GRAPH_NONE;
    for (uint32_t i = graph->nodes_count; i-- > 0;)
        if (graph->nodes[i].kind == NODE_MACHINE) {
            machine = i;
            machines++;
        }
    if (machines != 1)
        return err_set(
            err, TRYST_E_UNSUPPORTED,
            "cannot write hwloc's XML: it holds one machine, this graph has %u; use json",
            machines);
    text_add(text,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
             "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n");
    machine_write(&writer, machine);
    text_add(text, "</topology>\n");
    return TRYST_OK;
}
