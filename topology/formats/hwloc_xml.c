/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read an XML file that hwloc wrote on another machine (lstopo x.xml), versions 1 to 3.
 *
 * hwloc itself does not read the file, because hwloc trusts its input: on mutated files
 * (tests/fuzz/fuzz_graph.c) hwloc 2.9 dies within seconds. A test compares this reader
 * with hwloc on the saved machines. Only data for a graph is read: packages, NUMA nodes,
 * bridges, PCI devices and their OS devices, NVLinkBandwidth. Unknown elements are
 * skipped.
 */
#include "hwloc_xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "graph_fill.h"
#include "topology/base/decimal.h"
#include "topology/base/index_set.h"
#include "topology/base/text.h"
#include "topology/machine/machine.h"
#include "topology/machine/machine_build.h"
#include "topology/machine/nvlink_matrix.h"
#include "topology/machine/pci_class.h"
#include "xml.h"

#define MATRIX_MAX 256 /* most objects in NVLinkBandwidth */

struct reader {
    const struct source *source;
    struct machine machine;
    const struct xml_node **devices; /* by PCI device: its element */
    uint32_t packages_count;         /* packages met so far in the current walk */
    unsigned version;                /* of the format: 1, 2 or 3 */
};

/* The location of an I/O object. */
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

/* Copy `text`; *kept_p is NULL for NULL or "". Returns false if out of memory. */
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
        return refuse(reader, node,
                      "invalid os_index=\"%.40s\": a whole number is needed", text);
    *index_p = (uint32_t)number;
    return TRYST_OK;
}

/* ---- sets -------------------------------------------------------------------------- */

/* Read a set; empty where the attribute is missing. */
static tryst_status set_read(const struct reader *reader, const struct xml_node *node,
                             const char *name, struct index_set *set_p)
{
    const char *text = xml_attribute(node, name);
    if (index_set_parse_mask(text ? text : "", set_p))
        return TRYST_OK;
    return refuse(reader, node, "invalid %s=\"%.60s\": a mask of at most %d is needed",
                  name, text, INDEX_SET_MAX);
}

/* Read the processors into a list ("0-3,8"): "" for an empty set, NULL if `node` has no
 * set. */
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

/* ---- packages and NUMA nodes ------------------------------------------------------- */

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
           /* "Socket" in version 1 */
           type_is(node, "Socket");
}

/* Read packages and NUMA nodes. In version 1 a NUMA node encloses its package. */
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

/* ---- PCI --------------------------------------------------------------------------- */

/* Return the link speed in GB/s, as hwloc writes it ("31.507692"); 0 where unknown. */
static double speed_read(const struct xml_node *node)
{
    const char *text = xml_attribute(node, "pci_link_speed");
    double value;
    return text && decimal_read(text, strlen(text), &value) ? value : 0;
}

/* Parse "0302 [10de:20b5] …". */
static struct pci_id id_read(const struct xml_node *node)
{
    const char *text = xml_attribute(node, "pci_type");
    struct pci_id id = {0, 0, 0};
    char *end = NULL;
    if (!text)
        return id;
    id.class = (unsigned)strtoul(text, &end, 16) & 0xffff;
    if (strncmp(end, " [", 2) != 0)
        return id;
    id.maker = (unsigned)strtoul(end + 2, &end, 16) & 0xffff;
    if (*end == ':')
        id.device = (unsigned)strtoul(end + 1, NULL, 16) & 0xffff;
    return id;
}

enum osdev {
    OSDEV_OTHER, /* another OS device, or none */
    OSDEV_NETWORK,
    OSDEV_OPENFABRICS,
    OSDEV_COPROCESSOR,
};

/* Return the kind of an OS device: version 3 has a set of bits, earlier versions a
 * number. */
static enum osdev osdev_of(const struct reader *reader, const struct xml_node *node)
{
    const char *text = xml_attribute(node, "osdev_type");
    if (!type_is(node, "OSDev") || !text)
        return OSDEV_OTHER;
    unsigned long type = strtoul(text, NULL, 10);
    if (reader->version < 3)
        return type == 2   ? OSDEV_NETWORK
               : type == 3 ? OSDEV_OPENFABRICS
               : type == 5 ? OSDEV_COPROCESSOR
                           : OSDEV_OTHER;
    return type & 32   ? OSDEV_OPENFABRICS
           : type & 16 ? OSDEV_NETWORK
           : type & 8  ? OSDEV_COPROCESSOR
                       : OSDEV_OTHER;
}

/* Add a device and return it; NULL: out of memory. */
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

/* Return the name of the NIC's OpenFabrics device, else of its network interface; NULL
 * for none. */
static const char *port_name(const struct reader *reader, const struct xml_node *nic)
{
    const char *best = NULL;
    for (const struct xml_node *child = xml_child(nic); child; child = xml_next(child)) {
        const char *name = xml_attribute(child, "name");
        enum osdev kind = osdev_of(reader, child);
        bool port = kind == OSDEV_NETWORK || kind == OSDEV_OPENFABRICS;
        if (!port || !name || !*name)
            continue;
        if (kind == OSDEV_OPENFABRICS)
            return name;
        if (!best)
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
    if (keep(reader, port_name(reader, node), &name) &&
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

/* True if the device has an OS device of CUDA, NVML, RSMI or Level Zero. */
static bool device_computes(const struct xml_node *device)
{
    for (const struct xml_node *child = xml_child(device); child;
         child = xml_next(child)) {
        const char *name = type_is(child, "OSDev") ? xml_attribute(child, "name") : NULL;
        if (name && osdev_computes(name))
            return true;
    }
    return false;
}

/* True if one of the device's OS devices is a co-processor (Xeon Phi, Vector Engine). */
static bool device_is_coprocessor(const struct reader *reader,
                                  const struct xml_node *device)
{
    for (const struct xml_node *child = xml_child(device); child; child = xml_next(child))
        if (osdev_of(reader, child) == OSDEV_COPROCESSOR)
            return true;
    return false;
}

static enum pci_use device_use(const struct reader *reader, const struct xml_node *node,
                               const struct pci_id *id)
{
    const char *subtype = xml_attribute(node, "subtype");
    if (subtype && strcmp(subtype, "NVSwitch") == 0)
        return PCI_USE_NV_SWITCH;
    if (device_computes(node))
        return PCI_USE_GPU;
    if (port_name(reader, node))
        return PCI_USE_NIC;
    enum pci_use use = pci_use(id);
    return use == PCI_USE_OTHER && device_is_coprocessor(reader, node)
               ? PCI_USE_ACCELERATOR
               : use;
}

static tryst_status device_read(struct reader *reader, const struct xml_node *node,
                                const struct place *place)
{
    const char *address = xml_attribute(node, "pci_busid");
    const struct pci_id id = id_read(node);
    enum pci_use use = device_use(reader, node, &id);
    bool good = true;
    if (!address)
        return refuse(reader, node, "a PCIDev needs a pci_busid");
    if (use == PCI_USE_GPU)
        return gpu_read(reader, node, place);
    if (use == PCI_USE_NIC)
        return nic_read(reader, node, id.class, place);
    if (use == PCI_USE_NV_SWITCH)
        good = device_add(reader, node, PCI_NV_SWITCH, address, place) != NULL;
    else if (pci_skip_format(use))
        good = machine_skip(&reader->machine, address, pci_skip_format(use), id.class,
                            id.maker, id.device);
    return good ? TRYST_OK : source_no_memory(reader->source);
}

static tryst_status io_read(struct reader *reader, const struct xml_node *node,
                            struct place place);

/* Make "0000:16" of "0000:[16-1f]"; "?" where `below` is malformed. */
static void host_bridge_name(const char *below, char name_p[MACHINE_ADDRESS_BYTES])
{
    char *end;
    unsigned long domain = strtoul(below, &end, 16);
    if (end == below || strncmp(end, ":[", 2) != 0) {
        snprintf(name_p, MACHINE_ADDRESS_BYTES, "?");
        return;
    }
    snprintf(name_p, MACHINE_ADDRESS_BYTES, "%04x:%02x", (unsigned)domain,
             (unsigned)strtoul(end + 2, NULL, 16) & 0xff);
}

/* Read a bridge: bridge_type is "upstream-downstream", 0 for the host and 1 for PCI;
 * bridge_pci is "0000:[16-1f]". */
static tryst_status bridge_read(struct reader *reader, const struct xml_node *node,
                                struct place place)
{
    const char *type = xml_attribute(node, "bridge_type"),
               *below = xml_attribute(node, "bridge_pci");
    const char *address = xml_attribute(node, "pci_busid");
    char name[MACHINE_ADDRESS_BYTES];
    bool host = !address || (type && type[0] == '0');
    if (host) {
        host_bridge_name(below ? below : "", name);
        address = name;
    }
    if (!device_add(reader, node, host ? PCI_HOST_BRIDGE : PCI_BRIDGE, address, &place))
        return source_no_memory(reader->source);
    place.parent = reader->machine.pci_count - 1;
    return io_read(reader, node, place);
}

/* Read the I/O objects directly in a node. */
static tryst_status io_read(struct reader *reader, const struct xml_node *node,
                            struct place place)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child)) {
        const char *name = xml_attribute(child, "name");
        if (type_is(child, "Bridge"))
            status = bridge_read(reader, child, place);
        else if (type_is(child, "PCIDev"))
            status = device_read(reader, child, &place);
        else if (place.parent == MACHINE_NONE && name && *name &&
                 osdev_of(reader, child) == OSDEV_NETWORK) {
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

/* ---- NVLinks ----------------------------------------------------------------------- */
/* NVLinkBandwidth is a matrix in MB/s; its objects are named "OSDev:7" or "PCIDev:9" by
 * their gp_index. */

/* Return the end of links that an element represents in a matrix. */
static struct matrix_end end_of(const struct reader *reader, const struct xml_node *node)
{
    struct matrix_end end = {MATRIX_UNKNOWN, MACHINE_NONE, 0};
    if (is_package(node)) {
        end.kind = MATRIX_PACKAGE;
        end.number = reader->packages_count - 1;
        return end;
    }
    for (uint32_t i = 0; i < reader->machine.pci_count; i++)
        if (reader->devices[i] == node)
            end.number = i;
    if (end.number != MACHINE_NONE)
        end.kind = reader->machine.pci[end.number].kind == PCI_GPU ? MATRIX_GPU
                   : reader->machine.pci[end.number].kind == PCI_NV_SWITCH
                       ? MATRIX_SWITCH
                       : MATRIX_UNKNOWN;
    return end;
}

/* Fill the ends whose gp_index belongs to `node` or an element inside. `inside` is the
 * nearest PCI device or package around `node`: an OS device represents its PCI device, a
 * NUMA node its package. */
static void ends_find(struct reader *reader, const struct xml_node *node,
                      const struct xml_node *inside, struct matrix_end *ends,
                      size_t count)
{
    const char *text = xml_attribute(node, "gp_index");
    unsigned long long gp_index = text ? strtoull(text, NULL, 10) : 0;
    bool device = type_is(node, "PCIDev");
    reader->packages_count += is_package(node);
    if (device || is_package(node))
        inside = node;
    bool counts = device || is_package(node) ||
                  (type_is(node, "OSDev") && inside && type_is(inside, "PCIDev")) ||
                  (type_is(node, "NUMANode") && inside && is_package(inside));
    for (size_t i = 0; text && counts && i < count; i++)
        if (ends[i].gp_index == gp_index) {
            ends[i] = end_of(reader, inside);
            ends[i].gp_index = gp_index;
        }
    for (const struct xml_node *child = xml_child(node); child; child = xml_next(child))
        if (name_is(child, "object"))
            ends_find(reader, child, inside, ends, count);
}

/* Read the numbers of the elements `name` in `matrix`, each without its prefix up to a
 * colon. Return how many were read, at most `most`. */
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

static tryst_status matrix_join(struct reader *reader, const struct xml_node *top,
                                const unsigned long long *indexes,
                                const unsigned long long *values, size_t count)
{
    struct matrix_end *ends = mem_zalloc_array(count, sizeof *ends);
    if (!ends)
        return source_no_memory(reader->source);
    for (size_t i = 0; i < count; i++)
        ends[i] = (struct matrix_end){MATRIX_UNKNOWN, MACHINE_NONE, indexes[i]};
    reader->packages_count = 0;
    ends_find(reader, top, NULL, ends, count);
    bool good =
        nvlink_matrix_join(&reader->machine, ends, values, count, ORIGIN_IMPORTED);
    mem_free(ends);
    return good ? TRYST_OK : source_no_memory(reader->source);
}

static tryst_status matrix_read(struct reader *reader, const struct xml_node *top,
                                const struct xml_node *matrix)
{
    unsigned long long *numbers =
        mem_zalloc_array((size_t)MATRIX_MAX * (MATRIX_MAX + 1) + 1, sizeof *numbers);
    if (!numbers)
        return source_no_memory(reader->source);
    size_t count = numbers_read(matrix, "indexes", numbers, MATRIX_MAX + 1);
    unsigned long long *values = numbers + count;
    tryst_status status;
    if (count > MATRIX_MAX)
        status =
            refuse(reader, matrix, "cannot read NVLinkBandwidth of more than %d objects",
                   MATRIX_MAX);
    else if (numbers_read(matrix, "u64values", values, count * count) != count * count)
        status = refuse(reader, matrix, "NVLinkBandwidth of %zu objects needs %zu values",
                        count, count * count);
    else
        status = matrix_join(reader, top, numbers, values, count);
    mem_free(numbers);
    return status;
}

/* True if a matrix has links of a kind that the graph lacks: AMD's or Intel's between
 * GPUs. */
static bool matrix_is_foreign(const char *name)
{
    return strcmp(name, "XGMIBandwidth") == 0 || strcmp(name, "XeLinkBandwidth") == 0;
}

static tryst_status matrices_read(struct reader *reader, const struct xml_node *root,
                                  const struct xml_node *top)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(root); status == TRYST_OK && child;
         child = xml_next(child)) {
        const char *name = xml_attribute(child, "name");
        if (strncmp(xml_name(child), "distances2", 10) != 0 || !name)
            continue;
        if (strcmp(name, "NVLinkBandwidth") == 0)
            status = matrix_read(reader, top, child);
        else if (matrix_is_foreign(name) &&
                 !machine_skip(&reader->machine, name,
                               "cannot read links of this kind: only PCIe is shown "
                               "between these GPUs"))
            status = source_no_memory(reader->source);
    }
    return status;
}

/* ---- the whole --------------------------------------------------------------------- */

static tryst_status objects_check(const struct reader *reader,
                                  const struct xml_node *node)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child)) {
        if (!name_is(child, "object"))
            continue;
        if (!xml_attribute(child, "type"))
            return refuse(reader, child, "an <object> needs a type");
        status = objects_check(reader, child);
    }
    return status;
}

static tryst_status version_read(struct reader *reader, const struct xml_node *root)
{
    const char *text = xml_attribute(root, "version");
    /* version 1 has no such attribute */
    unsigned long version = text ? strtoul(text, NULL, 10) : 1;
    if (text && (version < 1 || version > 3))
        return refuse(reader, root,
                      "cannot read version \"%.20s\" of hwloc's XML: use 1, 2 or 3",
                      text);
    reader->version = (unsigned)version;
    return TRYST_OK;
}

/* Return the machine's info `name`, which version 3 has beside the machine's object; NULL
 * for none. */
static const char *top_info_of(const struct xml_node *root, const struct xml_node *top,
                               const char *name)
{
    const char *value = info_of(top, name);
    return value ? value : info_of(root, name);
}

static tryst_status topology_read(struct reader *reader, const struct xml_node *root)
{
    struct machine *machine = &reader->machine;
    if (name_is(root, "graphs"))
        return refuse(
            reader, root,
            "cannot read <graphs>: a file of NCCL_GRAPH_FILE has rings and trees, "
            "not the hardware; use a file of NCCL_TOPO_DUMP_FILE");
    if (!name_is(root, "topology"))
        return refuse(
            reader, root,
            "cannot read <%s>: neither hwloc's topology (<topology>) nor NCCL's "
            "(<system>)",
            xml_name(root));
    const struct xml_node *top = xml_child(root);
    while (top && !type_is(top, "Machine") && !type_is(top, "System"))
        top = xml_next(top);
    tryst_status status = version_read(reader, root);
    if (status == TRYST_OK)
        status = objects_check(reader, root);
    if (status == TRYST_OK && !top)
        return refuse(reader, root, "<topology> has no object of type Machine");
    if (status != TRYST_OK)
        return status;
    if (!keep(reader, top_info_of(root, top, "HostName"), &machine->name) ||
        !keep(reader, top_info_of(root, top, "DMIProductName"), &machine->label) ||
        !keep(reader, top_info_of(root, top, "Architecture"), &machine->arch))
        return source_no_memory(reader->source);
    status = processors_read(reader, top, MACHINE_NONE, MACHINE_NONE);
    if (status == TRYST_OK)
        status = devices_read(reader, top, MACHINE_NONE);
    if (status == TRYST_OK)
        status = matrices_read(reader, root, top);
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
        status = graph_fill_open(source, (struct text_place){1, 0}, graph_fill, &reader,
                                 graph_p);
    mem_free(reader.devices);
    machine_drop(&reader.machine);
    xml_close(xml);
    return status;
}
