/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An XML file that hwloc wrote on another machine (lstopo x.xml), versions 1 and 2.
 *
 * It is read here and not by hwloc, because hwloc takes files of others on trust: of mutated ones
 * (tests/fuzz/fuzz_graph.c) hwloc 2.9 dies within seconds. A test holds this reader to what hwloc itself makes
 * of the saved machines. Only what a graph needs is looked at: packages, NUMA nodes, bridges, PCI devices and what
 * the system calls them, NVLinkBandwidth. Elements that we do not know are passed over.
 */
#include "hwloc_xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "topology/base/decimal.h"
#include "topology/base/index_set.h"
#include "topology/base/text.h"
#include "topology/machine/machine.h"
#include "topology/machine/machine_build.h"
#include "topology/machine/pci_class.h"
#include "xml.h"

#define MATRIX_MAX 256 /* devices in NVLinkBandwidth */

struct reader {
    const struct source *source;
    struct machine machine;
    const struct xml_node **devices; /* by PCI device: its element */
    uint32_t packages_count;         /* seen in the second walk */
};

/* Where an I/O object hangs. */
struct place {
    uint32_t package, numa, parent;
};

#define refuse(reader, node, ...) \
    source_refuse((reader)->source, xml_place(node), __VA_ARGS__)

static bool name_is(const struct xml_node *node, const char *name)
{
    return strcmp(xml_name(node), name) == 0;
}

static bool type_is(const struct xml_node *node, const char *type)
{
    const char *its = xml_attribute(node, "type");
    return its && strcmp(its, type) == 0;
}

static const char *info_of(const struct xml_node *node, const char *name)
{
    for (const struct xml_node *child = xml_child(node); child; child = xml_next(child)) {
        const char *its = name_is(child, "info") ? xml_attribute(child, "name") : NULL;
        if (its && strcmp(its, name) == 0)
            return xml_attribute(child, "value");
    }
    return NULL;
}

/* A copy of `text`, NULL for none. False: no memory. */
static bool keep(struct reader *reader, const char *text, const char **kept_p)
{
    *kept_p = text && *text ? machine_string(&reader->machine, text) : NULL;
    return !text || !*text || *kept_p;
}

static tryst_status index_read(const struct reader *reader, const struct xml_node *node,
                               uint32_t *index_p)
{
    const char *text = xml_attribute(node, "os_index");
    char *end;
    if (!text)
        return TRYST_OK;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || *end || number >= UINT32_MAX)
        return refuse(reader, node, "os_index=\"%.40s\" is no number", text);
    *index_p = (uint32_t)number;
    return TRYST_OK;
}

/* -----------------------------------------------------------------------------
 * sets */

/* An empty one where the file does not say. */
static tryst_status set_read(const struct reader *reader, const struct xml_node *node,
                             const char *name, struct index_set *set_p)
{
    const char *text = xml_attribute(node, name);
    if (index_set_parse_mask(text ? text : "", set_p))
        return TRYST_OK;
    return refuse(reader, node, "%s=\"%.60s\" is no set of at most %d", name, text,
                  INDEX_SET_MAX);
}

/* "0-3,8"; "" for an empty set, NULL where the file does not say. */
static tryst_status cpus_read(struct reader *reader, const struct xml_node *node,
                              const char **cpus_p)
{
    struct text list = {0};
    struct index_set set;
    *cpus_p = NULL;
    if (!xml_attribute(node, "cpuset"))
        return TRYST_OK;
    tryst_status status = set_read(reader, node, "cpuset", &set);
    if (status != TRYST_OK)
        return status;
    index_set_write(&set, &list);
    text_add(&list, "");
    *cpus_p = list.failed ? NULL : machine_string(&reader->machine, list.data);
    text_drop(&list);
    return *cpus_p ? TRYST_OK : source_no_memory(reader->source);
}

/* -----------------------------------------------------------------------------
 * packages and NUMA nodes */

static tryst_status package_read(struct reader *reader, const struct xml_node *node)
{
    const char *cpus, *model;
    uint32_t index = GRAPH_NONE;
    tryst_status status = cpus_read(reader, node, &cpus);
    if (status == TRYST_OK)
        status = index_read(reader, node, &index);
    if (status != TRYST_OK)
        return status;
    bool kept = keep(reader, info_of(node, "CPUModel"), &model);
    struct machine_package *package = kept ? machine_package_add(&reader->machine) : NULL;
    if (!package)
        return source_no_memory(reader->source);
    *package = (struct machine_package){index, cpus && *cpus ? cpus : NULL, model};
    return TRYST_OK;
}

static tryst_status numa_read(struct reader *reader, const struct xml_node *node,
                              uint32_t package)
{
    const char *cpus;
    uint32_t index = GRAPH_NONE;
    tryst_status status = cpus_read(reader, node, &cpus);
    if (status == TRYST_OK)
        status = index_read(reader, node, &index);
    if (status != TRYST_OK)
        return status;
    struct machine_numa *numa = machine_numa_add(&reader->machine);
    if (!numa)
        return source_no_memory(reader->source);
    numa->os_index = index;
    numa->package = package;
    numa->cpus = cpus;
    return TRYST_OK;
}

static bool is_package(const struct xml_node *node)
{
    return type_is(node, "Package") ||
           type_is(node, "Socket"); /* its name in version 1 */
}

/* In version 1 a NUMA node stands around its package. */
static tryst_status processors_read(struct reader *reader, const struct xml_node *node,
                                    uint32_t package, uint32_t numa)
{
    tryst_status status = TRYST_OK;
    if (is_package(node)) {
        status = package_read(reader, node);
        package = reader->machine.packages_count - 1;
        if (status == TRYST_OK && numa != MACHINE_NONE &&
            reader->machine.numas[numa].package == MACHINE_NONE)
            reader->machine.numas[numa].package = package;
    } else if (type_is(node, "NUMANode")) {
        status = numa_read(reader, node, package);
        numa = reader->machine.numas_count - 1;
    }
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child))
        if (name_is(child, "object"))
            status = processors_read(reader, child, package, numa);
    return status;
}

/* -----------------------------------------------------------------------------
 * PCI */

/* hwloc writes GB/s: "31.507692"; 0 is unknown. */
static double speed_read(const struct xml_node *node)
{
    const char *text = xml_attribute(node, "pci_link_speed");
    double value;
    return text && decimal_read(text, strlen(text), &value) ? value : 0;
}

/* "0302 [10de:20b5] …" */
static void class_read(const struct xml_node *node, unsigned *class_p, unsigned *vendor_p)
{
    const char *text = xml_attribute(node, "pci_type");
    char *end = NULL;
    *class_p = *vendor_p = 0;
    if (!text)
        return;
    *class_p = (unsigned)strtoul(text, &end, 16) & 0xffff;
    if (strncmp(end, " [", 2) == 0)
        *vendor_p = (unsigned)strtoul(end + 2, NULL, 16) & 0xffff;
}

/* NULL: no memory. */
static struct machine_pci *device_add(struct reader *reader, const struct xml_node *node,
                                      enum machine_pci_kind kind, const char *address,
                                      const struct place *place)
{
    struct machine *machine = &reader->machine;
    const char *kept;
    bool good = keep(reader, address, &kept);
    size_t count = (size_t)machine->pci_count + 1;
    const struct xml_node **devices =
        mem_resize(reader->devices, count * sizeof *devices);
    if (devices)
        reader->devices = devices;
    struct machine_pci *pci = good && devices ? machine_pci_add(machine, kind) : NULL;
    if (!pci)
        return NULL;
    devices[count - 1] = node;
    pci->address = kept;
    pci->parent = place->parent;
    pci->package = place->package;
    pci->numa = place->numa;
    double speed = speed_read(node);
    if (speed > 0)
        pci->bytes_per_s = (struct graph_number){speed * 1e9, ORIGIN_IMPORTED};
    return pci;
}

/* The name of the OpenFabrics device in it, else of the network interface; NULL. */
static const char *port_name(const struct xml_node *nic)
{
    const char *best = NULL;
    for (const struct xml_node *child = xml_child(nic); child; child = xml_next(child)) {
        const char *kind = xml_attribute(child, "osdev_type"),
                   *name = xml_attribute(child, "name");
        if (!type_is(child, "OSDev") || !kind || !name || !*name)
            continue;
        if (strcmp(kind, "3") == 0)
            return name;
        if (strcmp(kind, "2") == 0 && !best)
            best = name;
    }
    return best;
}

static tryst_status port_add(struct reader *reader, uint32_t nic, const char *name,
                             enum graph_link_kind kind)
{
    struct machine_port *port = machine_port_add(&reader->machine);
    if (!port)
        return source_no_memory(reader->source);
    port->nic = nic;
    port->name = name;
    port->kind = kind;
    return TRYST_OK;
}

static tryst_status nic_read(struct reader *reader, const struct xml_node *node,
                             unsigned class, const struct place *place)
{
    const char *name, *label;
    struct machine_pci *pci = NULL;
    if (keep(reader, port_name(node), &name) &&
        keep(reader, info_of(node, "PCIDevice"), &label))
        pci = device_add(reader, node, PCI_NIC, xml_attribute(node, "pci_busid"), place);
    if (!pci)
        return source_no_memory(reader->source);
    pci->name = name;
    pci->label = label;
    if (!name)
        return TRYST_OK;
    return port_add(reader, reader->machine.pci_count - 1, name,
                    pci_is_infiniband(class) ? WIRE_INFINIBAND : WIRE_ETHERNET);
}

static tryst_status gpu_read(struct reader *reader, const struct xml_node *node,
                             const struct place *place)
{
    const char *model = info_of(node, "PCIDevice"), *label;
    struct machine_pci *pci = NULL;
    for (const struct xml_node *child = xml_child(node); child; child = xml_next(child))
        if (type_is(child, "OSDev") && info_of(child, "GPUModel"))
            model = info_of(child, "GPUModel");
    if (keep(reader, model, &label))
        pci = device_add(reader, node, PCI_GPU, xml_attribute(node, "pci_busid"), place);
    if (!pci)
        return source_no_memory(reader->source);
    pci->label = label;
    return TRYST_OK;
}

static tryst_status device_read(struct reader *reader, const struct xml_node *node,
                                const struct place *place)
{
    unsigned class, vendor;
    const char *address = xml_attribute(node, "pci_busid");
    class_read(node, &class, &vendor);
    if (!address)
        return refuse(reader, node, "a PCIDev without a pci_busid");
    if (pci_is_gpu(class, vendor))
        return gpu_read(reader, node, place);
    if (pci_is_nic(class))
        return nic_read(reader, node, class, place);
    if (pci_is_nv_switch(class, vendor) &&
        !device_add(reader, node, PCI_NV_SWITCH, address, place))
        return source_no_memory(reader->source);
    return TRYST_OK;
}

static tryst_status io_read(struct reader *reader, const struct xml_node *node,
                            struct place place);

/* bridge_type is "upstream-downstream", 0 the host and 1 PCI; bridge_pci is "0000:[16-1f]". */
static tryst_status bridge_read(struct reader *reader, const struct xml_node *node,
                                struct place place)
{
    const char *type = xml_attribute(node, "bridge_type"),
               *below = xml_attribute(node, "bridge_pci");
    const char *address = xml_attribute(node, "pci_busid");
    char name[16];
    bool host = !address || (type && type[0] == '0');
    if (host) {
        bool usual = below && strlen(below) >= 8 && below[4] == ':' && below[5] == '[';
        snprintf(name, sizeof name, "%.5s%.2s", usual ? below : "?",
                 usual ? below + 6 : "");
        address = name;
    }
    if (!device_add(reader, node, host ? PCI_HOST_BRIDGE : PCI_BRIDGE, address, &place))
        return source_no_memory(reader->source);
    place.parent = reader->machine.pci_count - 1;
    return io_read(reader, node, place);
}

/* The I/O objects right in a node. */
static tryst_status io_read(struct reader *reader, const struct xml_node *node,
                            struct place place)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child)) {
        const char *name = xml_attribute(child, "name"),
                   *kind = xml_attribute(child, "osdev_type");
        if (type_is(child, "Bridge"))
            status = bridge_read(reader, child, place);
        else if (type_is(child, "PCIDev"))
            status = device_read(reader, child, &place);
        else if (type_is(child, "OSDev") && place.parent == MACHINE_NONE && name &&
                 *name && kind && strcmp(kind, "2") == 0) {
            const char *kept;
            status = keep(reader, name, &kept)
                         ? port_add(reader, MACHINE_NONE, kept, WIRE_ETHERNET)
                         : source_no_memory(reader->source);
        }
    }
    return status;
}

static bool is_io(const struct xml_node *node)
{
    return type_is(node, "Bridge") || type_is(node, "PCIDev") || type_is(node, "OSDev");
}

static tryst_status numa_near(const struct reader *reader, const struct xml_node *node,
                              uint32_t *numa_p)
{
    struct index_set nodes;
    *numa_p = MACHINE_NONE;
    tryst_status status = set_read(reader, node, "nodeset", &nodes);
    uint32_t only = status == TRYST_OK ? index_set_only(&nodes) : GRAPH_NONE;
    for (uint32_t i = 0; only != GRAPH_NONE && i < reader->machine.numas_count; i++)
        if (reader->machine.numas[i].os_index == only)
            *numa_p = i;
    return status;
}

static tryst_status devices_read(struct reader *reader, const struct xml_node *node,
                                 uint32_t package)
{
    if (is_package(node))
        package = reader->packages_count++;
    bool only = reader->machine.packages_count == 1;
    struct place place = {only ? 0 : package, MACHINE_NONE, MACHINE_NONE};
    tryst_status status = numa_near(reader, node, &place.numa);
    if (status == TRYST_OK)
        status = io_read(reader, node, place);
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child))
        if (name_is(child, "object") && !is_io(child))
            status = devices_read(reader, child, package);
    return status;
}

/* -----------------------------------------------------------------------------
 * NVLinks: a matrix in MB/s, whose objects are named "OSDev:7" or "PCIDev:9" by their gp_index */

static bool gp_index_is(const struct xml_node *node, unsigned long wanted)
{
    const char *text = xml_attribute(node, "gp_index");
    return text && strtoul(text, NULL, 10) == wanted;
}

static uint32_t device_of(const struct reader *reader, unsigned long gp_index)
{
    for (uint32_t i = 0; i < reader->machine.pci_count; i++) {
        if (gp_index_is(reader->devices[i], gp_index))
            return i;
        for (const struct xml_node *child = xml_child(reader->devices[i]); child;
             child = xml_next(child))
            if (type_is(child, "OSDev") && gp_index_is(child, gp_index))
                return i;
    }
    return MACHINE_NONE;
}

/* All numbers of the elements `name` in it, behind a colon where there is one; how many, at most `most`. */
static size_t numbers_read(const struct xml_node *matrix, const char *name,
                           unsigned long long *numbers, size_t most)
{
    size_t count = 0;
    for (const struct xml_node *child = xml_child(matrix); child;
         child = xml_next(child)) {
        if (!name_is(child, name))
            continue;
        for (const char *at = xml_text(child); *at && count < most;) {
            char *end;
            const char *colon = at + strcspn(at, ": \n");
            at = *colon == ':' ? colon + 1 : at;
            unsigned long long number = strtoull(at, &end, 10);
            if (end == at)
                break;
            numbers[count++] = number;
            at = end + strspn(end, " \n\t");
        }
    }
    return count;
}

static tryst_status nvlink_add(struct reader *reader, uint32_t from, uint32_t to,
                               double bytes_per_s)
{
    struct machine *machine = &reader->machine;
    if (!machine->pci || from == MACHINE_NONE || to == MACHINE_NONE || from == to ||
        !(bytes_per_s > 0) || machine->pci[from].kind != PCI_GPU)
        return TRYST_OK;
    bool to_switch = machine->pci[to].kind == PCI_NV_SWITCH;
    if (!to_switch && (machine->pci[to].kind != PCI_GPU || to < from))
        return TRYST_OK; /* a wire of two directions is told by its first end */
    struct machine_nvlink more = {.from = from,
                                  .to = to_switch ? MACHINE_NONE : to,
                                  .bytes_per_s = {bytes_per_s, ORIGIN_IMPORTED}};
    return machine_nvlink_join(machine, &more) ? TRYST_OK
                                               : source_no_memory(reader->source);
}

static tryst_status matrix_read(struct reader *reader, const struct xml_node *matrix)
{
    unsigned long long *numbers =
        mem_zalloc_array((size_t)MATRIX_MAX * (MATRIX_MAX + 1), sizeof *numbers);
    if (!numbers)
        return source_no_memory(reader->source);
    size_t count = numbers_read(matrix, "indexes", numbers, MATRIX_MAX);
    unsigned long long *values = numbers + count;
    tryst_status status = TRYST_OK;
    if (numbers_read(matrix, "u64values", values, count * count) != count * count)
        status =
            refuse(reader, matrix, "NVLinkBandwidth of %zu devices has not %zu values",
                   count, count * count);
    for (size_t i = 0; status == TRYST_OK && i < count * count; i++)
        status =
            nvlink_add(reader, device_of(reader, numbers[i / count]),
                       device_of(reader, numbers[i % count]), (double)values[i] * 1e6);
    mem_free(numbers);
    return status;
}

static tryst_status matrices_read(struct reader *reader, const struct xml_node *root)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(root); status == TRYST_OK && child;
         child = xml_next(child)) {
        const char *name = xml_attribute(child, "name");
        if (strncmp(xml_name(child), "distances2", 10) == 0 && name &&
            strcmp(name, "NVLinkBandwidth") == 0)
            status = matrix_read(reader, child);
    }
    return status;
}

/* -----------------------------------------------------------------------------
 * the whole */

static tryst_status objects_check(const struct reader *reader,
                                  const struct xml_node *node)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child)) {
        if (!name_is(child, "object"))
            continue;
        if (!xml_attribute(child, "type"))
            return refuse(reader, child, "an <object> without a type");
        status = objects_check(reader, child);
    }
    return status;
}

static tryst_status topology_read(struct reader *reader, const struct xml_node *root)
{
    struct machine *machine = &reader->machine;
    if (!name_is(root, "topology"))
        return refuse(
            reader, root,
            "<%s> begins neither a topology of hwloc's (<topology>) nor one of NCCL's "
            "(<system>)",
            xml_name(root));
    const struct xml_node *top = xml_child(root);
    while (top && !type_is(top, "Machine") && !type_is(top, "System"))
        top = xml_next(top);
    tryst_status status = objects_check(reader, root);
    if (status == TRYST_OK && !top)
        return refuse(reader, root, "<topology> has no object of type Machine");
    if (status != TRYST_OK)
        return status;
    if (!keep(reader, info_of(top, "HostName"), &machine->name) ||
        !keep(reader, info_of(top, "DMIProductName"), &machine->label) ||
        !keep(reader, info_of(top, "Architecture"), &machine->arch))
        return source_no_memory(reader->source);
    status = processors_read(reader, top, MACHINE_NONE, MACHINE_NONE);
    if (status == TRYST_OK)
        status = devices_read(reader, top, MACHINE_NONE);
    if (status == TRYST_OK)
        status = matrices_read(reader, root);
    return status;
}

static tryst_status graph_fill(void *arg, struct graph *graph, struct err *why)
{
    static const struct machine_build build = {
        .prefix = "", .ranks = true, .network = GRAPH_NONE};
    struct reader *reader = arg;
    return machine_build(graph, &reader->machine, &build, why);
}

tryst_status hwloc_xml_read(const struct source *source, struct graph **graph_p)
{
    struct reader reader = {.source = source, .machine = MACHINE_INIT};
    struct xml *xml;
    tryst_status status = xml_open(source, &xml);
    if (status != TRYST_OK)
        return status;
    status = topology_read(&reader, xml_root(xml));
    if (status == TRYST_OK)
        status =
            source_build(source, (struct text_place){1, 0}, graph_fill, &reader, graph_p);
    mem_free(reader.devices);
    machine_drop(&reader.machine);
    xml_close(xml);
    return status;
}
