/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See machine_build.h.
 *
 * Rules: a bridge with one device behind it is not a node (the device gets its link; the
 * slower of the two links counts), so root ports and downstream ports of a switch vanish,
 * and only shared parts stay. Host bridges are connected to their package; all packages
 * are connected to each other. The network behind a port is unknown, so each port leads
 * to its own network, and no path between devices of a machine runs through a network.
 */
#include "machine_build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "topology/base/link_table.h"

#define NAME_BYTES 256

struct builder {
    struct graph *graph;
    struct machine *machine;
    const struct machine_build *build;
    struct err *err;
    uint32_t top;             /* the machine's node */
    uint32_t *package, *numa; /* by index: the part's node */
    /* by PCI device: the number of children that lead to a GPU or a NIC */
    uint32_t *useful;
    uint32_t nv_switch;
    uint32_t gpus_count, nics_count, switches_count;
};

/* ---- nodes and links --------------------------------------------------------------- */

#define NAME_TRIES 64

/* Append "#2" and so on to a name in use: files repeat names of ports and numbers of
 * GPUs. */
static void name_free(const struct graph *graph, char name[NAME_BYTES])
{
    size_t length = strlen(name);
    if (length > NAME_BYTES - 16)
        length = NAME_BYTES - 16;
    for (unsigned i = 2; graph_find(graph, name) != GRAPH_NONE && i <= NAME_TRIES; i++)
        snprintf(name + length, NAME_BYTES - length, "#%u",
                 i < NAME_TRIES ? i : NAME_TRIES + graph->nodes_count);
}

/* Add `node` under the prefix and the name made by `fmt`. */
__attribute__((format(printf, 4, 5))) static tryst_status node_add(
    struct builder *builder, struct graph_node node, uint32_t *node_p, const char *fmt,
    ...)
{
    char name[NAME_BYTES];
    int used = snprintf(name, sizeof name, "%s", builder->build->prefix);
    va_list args;
    va_start(args, fmt);
    vsnprintf(name + used, sizeof name - (size_t)used, fmt, args);
    va_end(args);
    name_free(builder->graph, name);
    node.name = name;
    return graph_node_add(builder->graph, &node, builder->err, node_p);
}

static struct graph_node node_of(enum graph_node_kind kind, uint32_t parent)
{
    return (struct graph_node){.kind = kind, .parent = parent, .os_index = GRAPH_NONE};
}

static const struct graph_number unknown = MACHINE_UNKNOWN;
static const struct graph_number unlimited = {GRAPH_UNLIMITED, ORIGIN_NONE};

static tryst_status wire_add(struct builder *builder, uint32_t from, uint32_t to,
                             enum graph_link_kind kind, struct graph_number bytes_per_s)
{
    struct graph_link link = {.from = from,
                              .to = to,
                              .kind = kind,
                              .bytes_per_s = bytes_per_s,
                              .latency_ns = unknown};
    return graph_wire_add(builder->graph, &link, builder->err);
}

/* Return `number`; if it is unknown, `table`, a value of link_table.h. */
static struct graph_number known_or(struct graph_number number, double table)
{
    return number.value == GRAPH_UNKNOWN ? table_number(table) : number;
}

/* ---- processors and memory --------------------------------------------------------- */

static uint32_t hub_of(const struct builder *builder, uint32_t package)
{
    return package < builder->machine->packages_count ? builder->package[package]
                                                      : builder->top;
}

static tryst_status packages_build(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; status == TRYST_OK && i < machine->packages_count; i++) {
        struct graph_node node = node_of(NODE_PACKAGE, builder->top);
        node.os_index = machine->packages[i].os_index;
        node.cpus = machine->packages[i].cpus;
        node.label = machine->packages[i].model;
        status = node_add(builder, node, &builder->package[i], "package%u", i);
    }
    return status;
}

static tryst_status upi_build(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; i < machine->packages_count; i++)
        for (uint32_t j = i + 1; status == TRYST_OK && j < machine->packages_count; j++)
            status = wire_add(
                builder, builder->package[i], builder->package[j], WIRE_UPI,
                known_or(machine->upi, table_upi_bytes_per_s(
                                           machine->arch, machine->packages[i].model)));
    return status;
}

/* Connect a NUMA node to its package; a NUMA node of the whole machine to all
 * packages. */
static tryst_status memory_wires_build(struct builder *builder, uint32_t number)
{
    const struct machine *machine = builder->machine;
    const struct machine_numa *numa = &machine->numas[number];
    struct graph_link link = {.from = builder->numa[number],
                              .to = hub_of(builder, numa->package),
                              .kind = WIRE_MEMORY,
                              .bytes_per_s = numa->bytes_per_s,
                              .latency_ns = numa->latency_ns};
    if (link.to != builder->top || !machine->packages_count)
        return graph_wire_add(builder->graph, &link, builder->err);
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; status == TRYST_OK && i < machine->packages_count; i++) {
        link.to = builder->package[i];
        status = graph_wire_add(builder->graph, &link, builder->err);
    }
    return status;
}

static tryst_status numas_build(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; status == TRYST_OK && i < machine->numas_count; i++) {
        const struct machine_numa *numa = &machine->numas[i];
        struct graph_node node = node_of(NODE_NUMA, hub_of(builder, numa->package));
        node.os_index = numa->os_index;
        node.cpus = numa->cpus && *numa->cpus ? numa->cpus : NULL;
        status = node_add(builder, node, &builder->numa[i], "numa%u", i);
        if (status == TRYST_OK)
            status = memory_wires_build(builder, i);
    }
    return status;
}

/* ---- PCI --------------------------------------------------------------------------- */

static bool is_bridge(const struct machine_pci *pci)
{
    return pci->kind == PCI_HOST_BRIDGE || pci->kind == PCI_BRIDGE;
}

/* Fill `useful`; children come after their parents, so one pass from the end suffices. */
static void useful_count(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    for (uint32_t i = machine->pci_count; i-- > 0;) {
        const struct machine_pci *pci = &machine->pci[i];
        bool useful = pci->kind == PCI_GPU || pci->kind == PCI_NIC ||
                      (is_bridge(pci) && builder->useful[i]);
        if (useful && pci->parent != MACHINE_NONE)
            builder->useful[pci->parent]++;
    }
}

static uint16_t smaller_known(uint16_t a, uint16_t b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

/* Lower the numbers of a device's link to those of an omitted bridge above, where these
 * are smaller. */
static void link_join(struct machine_pci *pci, const struct machine_pci *bridge)
{
    pci->generation = smaller_known(pci->generation, bridge->generation);
    pci->width = smaller_known(pci->width, bridge->width);
    bool known = bridge->bytes_per_s.value != GRAPH_UNKNOWN;
    if (known && (pci->bytes_per_s.value == GRAPH_UNKNOWN ||
                  bridge->bytes_per_s.value < pci->bytes_per_s.value))
        pci->bytes_per_s = bridge->bytes_per_s;
}

/* Return the node above the device: the next bridge that is a node, or its package; join
 * the links of omitted bridges. */
static uint32_t upper_node(const struct builder *builder, struct machine_pci *pci)
{
    const struct machine *machine = builder->machine;
    uint32_t above = pci->parent;
    while (above != MACHINE_NONE && machine->pci[above].kind == PCI_BRIDGE &&
           builder->useful[above] == 1) {
        link_join(pci, &machine->pci[above]);
        above = machine->pci[above].parent;
    }
    return above == MACHINE_NONE ? hub_of(builder, pci->package)
                                 : machine->pci[above].node;
}

static tryst_status pci_link(struct builder *builder, const struct machine_pci *pci,
                             uint32_t upper)
{
    struct graph_link link = {
        .from = pci->node,
        .to = upper,
        .kind = WIRE_PCI,
        .generation = pci->generation,
        .width = pci->width,
        .bytes_per_s = known_or(pci->bytes_per_s,
                                table_pci_bytes_per_s(pci->generation, pci->width)),
        .latency_ns = unknown};
    return graph_wire_add(builder->graph, &link, builder->err);
}

/* Attach a node to its package, without a wire; a node without a package to all
 * packages. */
static tryst_status hub_wire_add(struct builder *builder, uint32_t node, uint32_t package)
{
    uint32_t hub = hub_of(builder, package), count = builder->machine->packages_count;
    tryst_status status = TRYST_OK;
    if (hub != builder->top || !count)
        return wire_add(builder, node, hub, WIRE_ATTACH, unlimited);
    for (uint32_t i = 0; status == TRYST_OK && i < count; i++)
        status = wire_add(builder, node, builder->package[i], WIRE_ATTACH, unlimited);
    return status;
}

/* Add a host bridge: its parent is the nearest NUMA node, its link leads to the
 * package. */
static tryst_status host_bridge_build(struct builder *builder, struct machine_pci *pci,
                                      uint32_t number)
{
    uint32_t hub = hub_of(builder, pci->package);
    bool near = pci->numa < builder->machine->numas_count;
    struct graph_node node =
        node_of(NODE_HOST_BRIDGE, near ? builder->numa[pci->numa] : hub);
    tryst_status status =
        pci->address ? node_add(builder, node, &pci->node, "hostbridge:%s", pci->address)
                     : node_add(builder, node, &pci->node, "hostbridge%u", number);
    if (status == TRYST_OK)
        status = hub_wire_add(builder, pci->node, pci->package);
    return status;
}

static tryst_status device_name_add(struct builder *builder, struct machine_pci *pci,
                                    struct graph_node node)
{
    if (pci->kind == PCI_GPU) {
        uint32_t index = builder->gpus_count++;
        node.os_index = pci->os_index;
        return node_add(builder, node, &pci->node, "gpu%u",
                        pci->os_index == GRAPH_NONE ? index : pci->os_index);
    }
    if (pci->kind == PCI_NIC && pci->name)
        return node_add(builder, node, &pci->node, "%s", pci->name);
    if (pci->kind == PCI_NIC)
        return node_add(builder, node, &pci->node, "nic%u", builder->nics_count++);
    return pci->address ? node_add(builder, node, &pci->node, "pci:%s", pci->address)
                        : node_add(builder, node, &pci->node, "pciswitch%u",
                                   builder->switches_count++);
}

static tryst_status device_build(struct builder *builder, struct machine_pci *pci)
{
    enum graph_node_kind kind = pci->kind == PCI_GPU   ? NODE_GPU
                                : pci->kind == PCI_NIC ? NODE_NIC
                                                       : NODE_PCI_SWITCH;
    uint32_t upper = upper_node(builder, pci);
    struct graph_node node = node_of(kind, upper);
    node.pci = pci->address;
    node.label = pci->label;
    tryst_status status = device_name_add(builder, pci, node);
    if (status == TRYST_OK)
        status = pci_link(builder, pci, upper);
    return status;
}

static tryst_status pci_build(struct builder *builder)
{
    struct machine *machine = builder->machine;
    tryst_status status = TRYST_OK;
    useful_count(builder);
    for (uint32_t i = 0; status == TRYST_OK && i < machine->pci_count; i++) {
        struct machine_pci *pci = &machine->pci[i];
        if (pci->kind == PCI_HOST_BRIDGE && builder->useful[i])
            status = host_bridge_build(builder, pci, i);
        else if (pci->kind == PCI_GPU || pci->kind == PCI_NIC ||
                 (pci->kind == PCI_BRIDGE && builder->useful[i] > 1))
            status = device_build(builder, pci);
    }
    return status;
}

/* ---- NVLink, C2C, ports, ranks ----------------------------------------------------- */

static tryst_status nv_switch_make(struct builder *builder)
{
    if (builder->nv_switch != GRAPH_NONE)
        return TRYST_OK;
    return node_add(builder, node_of(NODE_NV_SWITCH, builder->top), &builder->nv_switch,
                    "nvswitch");
}

static tryst_status nvlink_build(struct builder *builder,
                                 const struct machine_nvlink *nvlink)
{
    const struct machine *machine = builder->machine;
    const struct machine_pci *from = &machine->pci[nvlink->from];
    tryst_status status = TRYST_OK;
    uint32_t to;
    if (nvlink->to != MACHINE_NONE) {
        to = machine->pci[nvlink->to].node;
    } else if (nvlink->to_package) {
        to = hub_of(builder,
                    nvlink->package == MACHINE_NONE ? from->package : nvlink->package);
    } else {
        status = nv_switch_make(builder);
        to = builder->nv_switch;
    }
    if (status != TRYST_OK)
        return status;
    struct graph_link link = {
        .from = from->node,
        .to = to,
        .kind = WIRE_NVLINK,
        .generation = nvlink->generation,
        .width = nvlink->count,
        .bytes_per_s =
            known_or(nvlink->bytes_per_s,
                     table_nvlink_bytes_per_s(nvlink->generation, nvlink->count)),
        .latency_ns = unknown};
    return graph_wire_add(builder->graph, &link, builder->err);
}

static tryst_status nvlinks_build(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; status == TRYST_OK && i < machine->nvlinks_count; i++)
        status = nvlink_build(builder, &machine->nvlinks[i]);
    for (uint32_t i = 0; status == TRYST_OK && i < machine->c2cs_count; i++) {
        const struct machine_pci *gpu = &machine->pci[machine->c2cs[i].gpu];
        status = wire_add(builder, gpu->node, hub_of(builder, gpu->package), WIRE_C2C,
                          machine->c2cs[i].bytes_per_s);
    }
    return status;
}

static tryst_status port_build(struct builder *builder, const struct machine_port *port)
{
    uint32_t nic, network = builder->build->network, hub = hub_of(builder, 0);
    tryst_status status = TRYST_OK;
    if (port->nic != MACHINE_NONE) {
        nic = builder->machine->pci[port->nic].node;
    } else {
        status =
            node_add(builder, node_of(NODE_NIC, builder->top), &nic, "%s", port->name);
        if (status == TRYST_OK)
            status = wire_add(builder, nic, hub, WIRE_ATTACH, unlimited);
    }
    if (status == TRYST_OK && network == GRAPH_NONE)
        status = node_add(builder, node_of(NODE_SWITCH, GRAPH_NONE), &network, "net:%s",
                          port->name);
    if (status != TRYST_OK)
        return status;
    struct graph_link link = {.from = nic,
                              .to = network,
                              .kind = port->kind,
                              .bytes_per_s = port->bytes_per_s,
                              .latency_ns = port->latency_ns};
    return graph_wire_add(builder->graph, &link, builder->err);
}

tryst_status machine_rank_add(struct graph *graph, uint32_t at, struct err *err)
{
    char name[32];
    struct graph_node node = node_of(NODE_RANK, at);
    uint32_t rank;
    snprintf(name, sizeof name, "rank%u", graph->ranks_count);
    node.name = name;
    tryst_status status = graph_node_add(graph, &node, err, &rank);
    if (status != TRYST_OK)
        return status;
    struct graph_link link = {.from = rank,
                              .to = at,
                              .kind = WIRE_ATTACH,
                              .bytes_per_s = unlimited,
                              .latency_ns = unknown};
    return graph_wire_add(graph, &link, err);
}

static tryst_status ranks_build(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    tryst_status status = TRYST_OK;
    uint32_t before = builder->graph->ranks_count;
    for (uint32_t i = 0; status == TRYST_OK && i < machine->pci_count; i++)
        if (machine->pci[i].kind == PCI_GPU)
            status = machine_rank_add(builder->graph, machine->pci[i].node, builder->err);
    for (uint32_t i = 0;
         !builder->gpus_count && status == TRYST_OK && i < machine->numas_count; i++)
        if (!machine->numas[i].cpus || *machine->numas[i].cpus)
            status = machine_rank_add(builder->graph, builder->numa[i], builder->err);
    if (status == TRYST_OK && builder->graph->ranks_count == before)
        status = machine_rank_add(builder->graph, hub_of(builder, 0), builder->err);
    return status;
}

/* ---- the whole --------------------------------------------------------------------- */

static tryst_status top_build(struct builder *builder)
{
    const struct machine *machine = builder->machine;
    struct graph_node node = node_of(NODE_MACHINE, GRAPH_NONE);
    char name[NAME_BYTES];
    size_t length = strlen(builder->build->prefix);
    snprintf(name, sizeof name, "%s", length ? builder->build->prefix : machine->name);
    if (length)
        name[length < sizeof name ? length - 1 : sizeof name - 1] =
            '\0'; /* without its '/' */
    node.name = name;
    node.label = machine->label;
    return graph_node_add(builder->graph, &node, builder->err, &builder->top);
}

/* Add the machine's skips to the graph; if no NVLink leads to switches, NVLink switches
 * are skipped, too. */
static tryst_status skips_build(struct builder *builder)
{
    struct machine *machine = builder->machine;
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; i < machine->pci_count && builder->nv_switch == GRAPH_NONE; i++)
        if (machine->pci[i].kind == PCI_NV_SWITCH &&
            !machine_skip(machine,
                          machine->pci[i].address ? machine->pci[i].address : "?",
                          "an NVSwitch without links in the source"))
            return TRYST_E_NOMEM;
    for (uint32_t i = 0; status == TRYST_OK && i < machine->skips_count; i++) {
        char what[NAME_BYTES];
        snprintf(what, sizeof what, "%s%s", builder->build->prefix,
                 machine->skips[i].what);
        struct graph_skip skip = {what, machine->skips[i].why};
        status = graph_skip_add(builder->graph, &skip, builder->err);
    }
    return status;
}

static tryst_status parts_build(struct builder *builder)
{
    tryst_status status = top_build(builder);
    if (status == TRYST_OK)
        status = packages_build(builder);
    if (status == TRYST_OK)
        status = upi_build(builder);
    if (status == TRYST_OK)
        status = numas_build(builder);
    if (status == TRYST_OK)
        status = pci_build(builder);
    if (status == TRYST_OK)
        status = nvlinks_build(builder);
    for (uint32_t i = 0; status == TRYST_OK && i < builder->machine->ports_count; i++)
        status = port_build(builder, &builder->machine->ports[i]);
    if (status == TRYST_OK && builder->build->ranks)
        status = ranks_build(builder);
    if (status == TRYST_OK)
        status = skips_build(builder);
    return status;
}

tryst_status machine_build(struct graph *graph, struct machine *machine,
                           const struct machine_build *build, struct err *err)
{
    struct builder builder = {.graph = graph,
                              .machine = machine,
                              .build = build,
                              .err = err,
                              .nv_switch = GRAPH_NONE};
    tryst_status status = TRYST_E_NOMEM;
    if (!machine->name)
        machine->name = "machine";
    builder.package =
        mem_zalloc_array(machine->packages_count + 1, sizeof *builder.package);
    builder.numa = mem_zalloc_array(machine->numas_count + 1, sizeof *builder.numa);
    builder.useful = mem_zalloc_array(machine->pci_count + 1, sizeof *builder.useful);
    if (builder.package && builder.numa && builder.useful)
        status = parts_build(&builder);
    mem_free(builder.package);
    mem_free(builder.numa);
    mem_free(builder.useful);
    return status;
}
