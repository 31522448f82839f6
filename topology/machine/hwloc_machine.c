/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See hwloc_machine.h. One walk over hwloc's tree: normal objects give packages, memory
 * children NUMA nodes. A second walk over the I/O children gives PCI devices, since an
 * I/O object may come before the NUMA node near it.
 *
 * Units of hwloc: a PCI link's speed is the current one, in GB/s and one direction, and 0
 * (as in virtual machines) where unknown; memory attributes are MiB/s and ns (ACPI HMAT);
 * NVLinkBandwidth is MB/s.
 */
#include "hwloc_machine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/pci_class.h"
#include "hwloc_calls.h"
#include "nvlink_matrix.h"

#define CPUS_BYTES 1024

struct walk {
    const struct hwloc_calls *calls;
    hwloc_topology_t topology;
    enum graph_origin origin;
    struct machine *machine;
    bool failed; /* out of memory */
};

/* The location of an I/O object. */
struct place {
    uint32_t package, numa, parent;
};

static const char *keep(struct walk *walk, const char *string)
{
    const char *kept = machine_string(walk->machine, string);
    walk->failed = walk->failed || (string && !kept);
    return kept;
}

static const char *info_of(hwloc_obj_t obj, const char *name)
{
    for (unsigned i = 0; i < obj->infos_count; i++)
        if (strcmp(obj->infos[i].name, name) == 0)
            return obj->infos[i].value;
    return NULL;
}

static const char *cpus_of(struct walk *walk, hwloc_obj_t obj)
{
    char cpus[CPUS_BYTES];
    if (!obj->cpuset || walk->calls->hwloc_bitmap_weight(obj->cpuset) <= 0)
        return "";
    int length = walk->calls->hwloc_bitmap_list_snprintf(cpus, sizeof cpus, obj->cpuset);
    return length > 0 && (size_t)length < sizeof cpus ? keep(walk, cpus) : NULL;
}

static struct graph_number number_of(const struct walk *walk, double value)
{
    if (!(value > 0))
        return (struct graph_number)MACHINE_UNKNOWN;
    return (struct graph_number){value, walk->origin};
}

/* ---- packages and NUMA nodes ------------------------------------------------------- */

static double memory_attribute(struct walk *walk, hwloc_obj_t obj,
                               hwloc_memattr_id_t which)
{
    struct hwloc_location near = {.type = HWLOC_LOCATION_TYPE_CPUSET};
    hwloc_uint64_t value;
    near.location.cpuset = obj->cpuset;
    if (walk->calls->hwloc_memattr_get_value(walk->topology, which, obj, &near, 0,
                                             &value) != 0)
        return 0;
    return (double)value;
}

static void memory_read(struct walk *walk, hwloc_obj_t obj, uint32_t package)
{
    for (hwloc_obj_t child = obj->memory_first_child; child;
         child = child->next_sibling) {
        memory_read(walk, child, package); /* a memory-side cache holds NUMA nodes */
        if (child->type != HWLOC_OBJ_NUMANODE)
            continue;
        const char *cpus = cpus_of(walk, child);
        struct machine_numa *numa = machine_numa_add(walk->machine);
        if (!numa) {
            walk->failed = true;
            return;
        }
        numa->os_index = child->os_index;
        numa->package = package;
        numa->cpus = cpus;
        numa->bytes_per_s = number_of(
            walk, memory_attribute(walk, child, HWLOC_MEMATTR_ID_BANDWIDTH) * 1048576.0);
        numa->latency_ns =
            number_of(walk, memory_attribute(walk, child, HWLOC_MEMATTR_ID_LATENCY));
    }
}

static void processors_read(struct walk *walk, hwloc_obj_t obj, uint32_t package)
{
    if (obj->type == HWLOC_OBJ_PACKAGE) {
        const char *cpus = cpus_of(walk, obj),
                   *model = keep(walk, info_of(obj, "CPUModel"));
        struct machine_package *added = machine_package_add(walk->machine);
        if (!added) {
            walk->failed = true;
            return;
        }
        *added =
            (struct machine_package){obj->os_index, cpus && *cpus ? cpus : NULL, model};
        package = walk->machine->packages_count - 1;
    }
    memory_read(walk, obj, package);
    for (hwloc_obj_t child = obj->first_child; child; child = child->next_sibling)
        processors_read(walk, child, package);
}

/* ---- PCI --------------------------------------------------------------------------- */

static void address_write(const struct hwloc_pcidev_attr_s *attr, char address_p[32])
{
    snprintf(address_p, 32, "%04x:%02x:%02x.%01x", (unsigned)attr->domain, attr->bus,
             attr->dev, attr->func);
}

static struct machine_pci *pci_add(struct walk *walk, enum machine_pci_kind kind,
                                   const struct hwloc_pcidev_attr_s *attr,
                                   const struct place *place)
{
    char address[32];
    address_write(attr, address);
    const char *kept = keep(walk, address);
    struct machine_pci *pci = machine_pci_add(walk->machine, kind);
    if (!pci) {
        walk->failed = true;
        return NULL;
    }
    pci->address = kept;
    pci->parent = place->parent;
    pci->package = place->package;
    pci->numa = place->numa;
    pci->bytes_per_s = number_of(walk, (double)attr->linkspeed * 1e9);
    return pci;
}

/* Return the OpenFabrics device of a NIC, else its network interface; NULL for none. */
static hwloc_obj_t port_of(hwloc_obj_t nic)
{
    hwloc_obj_t best = NULL;
    for (hwloc_obj_t io = nic->io_first_child; io; io = io->next_sibling) {
        if (io->type != HWLOC_OBJ_OS_DEVICE || !io->name)
            continue;
        if (io->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            return io;
        if (io->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && !best)
            best = io;
    }
    return best;
}

static void port_add(struct walk *walk, uint32_t nic, const char *name,
                     enum graph_link_kind kind)
{
    struct machine_port *port = machine_port_add(walk->machine);
    if (!port) {
        walk->failed = true;
        return;
    }
    port->nic = nic;
    port->name = name;
    port->kind = kind;
}

static void nic_read(struct walk *walk, hwloc_obj_t obj, const struct place *place)
{
    hwloc_obj_t port = port_of(obj);
    const char *name = port ? keep(walk, port->name) : NULL;
    const char *label = keep(walk, info_of(obj, "PCIDevice"));
    struct machine_pci *pci = pci_add(walk, PCI_NIC, &obj->attr->pcidev, place);
    if (!pci)
        return;
    pci->name = name;
    pci->label = label;
    if (name)
        port_add(walk, walk->machine->pci_count - 1, name,
                 pci_is_infiniband(obj->attr->pcidev.class_id) ? WIRE_INFINIBAND
                                                               : WIRE_ETHERNET);
}

static void gpu_read(struct walk *walk, hwloc_obj_t obj, const struct place *place)
{
    const char *model = info_of(obj, "PCIDevice");
    for (hwloc_obj_t io = obj->io_first_child; io; io = io->next_sibling)
        if (io->type == HWLOC_OBJ_OS_DEVICE && info_of(io, "GPUModel"))
            model = info_of(io, "GPUModel");
    model = keep(walk, model);
    struct machine_pci *pci = pci_add(walk, PCI_GPU, &obj->attr->pcidev, place);
    if (pci)
        pci->label = model;
}

/* True if the device has an OS device of CUDA, NVML, RSMI or Level Zero. */
static bool device_computes(hwloc_obj_t device)
{
    for (hwloc_obj_t io = device->io_first_child; io; io = io->next_sibling)
        if (io->type == HWLOC_OBJ_OS_DEVICE && io->name && osdev_computes(io->name))
            return true;
    return false;
}

/* True if one of the device's OS devices is a co-processor (Xeon Phi, Vector Engine). */
static bool device_is_coprocessor(hwloc_obj_t device)
{
    for (hwloc_obj_t io = device->io_first_child; io; io = io->next_sibling)
        if (io->type == HWLOC_OBJ_OS_DEVICE &&
            io->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC)
            return true;
    return false;
}

static enum pci_use device_use(hwloc_obj_t obj, const struct pci_id *id)
{
    if (obj->subtype && strcmp(obj->subtype, "NVSwitch") == 0)
        return PCI_USE_NV_SWITCH;
    if (device_computes(obj))
        return PCI_USE_GPU;
    if (port_of(obj))
        return PCI_USE_NIC;
    enum pci_use use = pci_use(id);
    return use == PCI_USE_OTHER && device_is_coprocessor(obj) ? PCI_USE_ACCELERATOR : use;
}

static void device_skip(struct walk *walk, const struct hwloc_pcidev_attr_s *attr,
                        enum pci_use use, const struct pci_id *id)
{
    char address[32];
    if (!pci_skip_format(use))
        return;
    address_write(attr, address);
    walk->failed =
        walk->failed || !machine_skip(walk->machine, address, pci_skip_format(use),
                                      id->class, id->maker, id->device);
}

static void device_read(struct walk *walk, hwloc_obj_t obj, const struct place *place)
{
    const struct hwloc_pcidev_attr_s *attr = &obj->attr->pcidev;
    const struct pci_id id = {attr->class_id, attr->vendor_id, attr->device_id};
    enum pci_use use = device_use(obj, &id);
    if (use == PCI_USE_GPU)
        gpu_read(walk, obj, place);
    else if (use == PCI_USE_NIC)
        nic_read(walk, obj, place);
    else if (use == PCI_USE_NV_SWITCH)
        pci_add(walk, PCI_NV_SWITCH, attr, place);
    else
        device_skip(walk, attr, use, &id);
}

static void io_read(struct walk *walk, hwloc_obj_t obj, struct place place);

static void bridge_read(struct walk *walk, hwloc_obj_t obj, struct place place)
{
    const struct hwloc_bridge_attr_s *bridge = &obj->attr->bridge;
    struct machine_pci *pci;
    if (bridge->upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
        pci = pci_add(walk, PCI_BRIDGE, &bridge->upstream.pci, &place);
    } else {
        char address[16];
        snprintf(address, sizeof address, "%04x:%02x",
                 (unsigned)bridge->downstream.pci.domain,
                 bridge->downstream.pci.secondary_bus);
        pci = pci_add(walk, PCI_HOST_BRIDGE, &(struct hwloc_pcidev_attr_s){0}, &place);
        if (pci)
            pci->address = keep(walk, address);
    }
    if (!pci)
        return;
    place.parent = walk->machine->pci_count - 1;
    io_read(walk, obj, place);
}

/* Read the I/O children of an object. */
static void io_read(struct walk *walk, hwloc_obj_t obj, struct place place)
{
    for (hwloc_obj_t io = obj->io_first_child; io && !walk->failed;
         io = io->next_sibling) {
        if (io->type == HWLOC_OBJ_BRIDGE)
            bridge_read(walk, io, place);
        else if (io->type == HWLOC_OBJ_PCI_DEVICE)
            device_read(walk, io, &place);
        else if (io->type == HWLOC_OBJ_OS_DEVICE && place.parent == MACHINE_NONE &&
                 io->name && io->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)
            port_add(walk, MACHINE_NONE, keep(walk, io->name), WIRE_ETHERNET);
    }
}

/* Return the only NUMA node near an object; MACHINE_NONE for several or for one that is
 * not in the machine. */
static uint32_t numa_near(const struct walk *walk, hwloc_obj_t obj)
{
    if (!obj->nodeset || walk->calls->hwloc_bitmap_weight(obj->nodeset) != 1)
        return MACHINE_NONE;
    uint32_t os_index = (uint32_t)walk->calls->hwloc_bitmap_first(obj->nodeset);
    for (uint32_t i = 0; i < walk->machine->numas_count; i++)
        if (walk->machine->numas[i].os_index == os_index)
            return i;
    return MACHINE_NONE;
}

static void devices_read(struct walk *walk, hwloc_obj_t obj, uint32_t *packages_seen,
                         uint32_t package)
{
    if (obj->type == HWLOC_OBJ_PACKAGE)
        package = (*packages_seen)++;
    bool only = walk->machine->packages_count == 1;
    struct place place = {only ? 0 : package, numa_near(walk, obj), MACHINE_NONE};
    io_read(walk, obj, place);
    for (hwloc_obj_t child = obj->first_child; child && !walk->failed;
         child = child->next_sibling)
        devices_read(walk, child, packages_seen, package);
}

/* ---- NVLinks ----------------------------------------------------------------------- */

static uint32_t pci_of(const struct walk *walk, hwloc_obj_t obj)
{
    char address[32];
    while (obj && obj->type != HWLOC_OBJ_PCI_DEVICE)
        obj = obj->parent;
    if (!obj)
        return MACHINE_NONE;
    address_write(&obj->attr->pcidev, address);
    return machine_pci_find(walk->machine, address);
}

/* Return the index of the package that contains an object; MACHINE_NONE: no package
 * does. */
static uint32_t package_of(const struct walk *walk, hwloc_obj_t obj)
{
    while (obj && obj->type != HWLOC_OBJ_PACKAGE)
        obj = obj->parent;
    return obj && obj->logical_index < walk->machine->packages_count ? obj->logical_index
                                                                     : MACHINE_NONE;
}

static struct matrix_end end_of(const struct walk *walk, hwloc_obj_t obj)
{
    struct matrix_end end = {MATRIX_UNKNOWN, MACHINE_NONE, obj->gp_index};
    bool processors = obj->type == HWLOC_OBJ_PACKAGE || obj->type == HWLOC_OBJ_NUMANODE;
    end.number = processors ? package_of(walk, obj) : pci_of(walk, obj);
    if (end.number == MACHINE_NONE)
        return end;
    enum machine_pci_kind kind =
        processors ? PCI_BRIDGE : walk->machine->pci[end.number].kind;
    end.kind = processors              ? MATRIX_PACKAGE
               : kind == PCI_GPU       ? MATRIX_GPU
               : kind == PCI_NV_SWITCH ? MATRIX_SWITCH
                                       : MATRIX_UNKNOWN;
    return end;
}

static bool matrix_join(const struct walk *walk, const struct hwloc_distances_s *matrix)
{
    size_t count = matrix->nbobjs;
    struct matrix_end *ends = mem_zalloc_array(count, sizeof *ends);
    unsigned long long *values = mem_zalloc_array(count * count, sizeof *values);
    bool good = ends && values;
    for (size_t i = 0; good && i < count; i++)
        ends[i] = end_of(walk, matrix->objs[i]);
    for (size_t i = 0; good && i < count * count; i++)
        values[i] = matrix->values[i];
    good = good && nvlink_matrix_join(walk->machine, ends, values, count, walk->origin);
    mem_free(ends);
    mem_free(values);
    return good;
}

static void nvlinks_read(struct walk *walk)
{
    struct hwloc_distances_s *matrix;
    unsigned count = 1;
    if (walk->calls->hwloc_distances_get_by_name(walk->topology, "NVLinkBandwidth",
                                                 &count, &matrix, 0) != 0 ||
        count == 0)
        return;
    walk->failed = !matrix_join(walk, matrix);
    walk->calls->hwloc_distances_release(walk->topology, matrix);
}

/* Skip links of AMD's and Intel's GPUs: the graph has no such kind. */
static void foreign_links_skip(struct walk *walk)
{
    static const char *const names[] = {"XGMIBandwidth", "XeLinkBandwidth"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !walk->failed; i++) {
        unsigned count = 0;
        if (walk->calls->hwloc_distances_get_by_name(walk->topology, names[i], &count,
                                                     NULL, 0) == 0 &&
            count)
            walk->failed = !machine_skip(walk->machine, names[i],
                                         "cannot read links of this kind: only PCIe is "
                                         "shown between these GPUs");
    }
}

/* ---- the whole --------------------------------------------------------------------- */

static tryst_status topology_read(const struct hwloc_calls *calls,
                                  hwloc_topology_t topology, enum graph_origin origin,
                                  struct machine *machine)
{
    struct walk walk = {calls, topology, origin, machine, false};
    hwloc_obj_t root = calls->hwloc_get_obj_by_depth(topology, 0, 0);
    uint32_t packages_seen = 0;
    machine->name = keep(&walk, info_of(root, "HostName"));
    machine->label = keep(&walk, info_of(root, "DMIProductName"));
    machine->arch = keep(&walk, info_of(root, "Architecture"));
    processors_read(&walk, root, MACHINE_NONE);
    if (!walk.failed)
        devices_read(&walk, root, &packages_seen, MACHINE_NONE);
    /* for this machine the driver reports more (nvml.c) */
    if (!walk.failed && origin == ORIGIN_IMPORTED)
        nvlinks_read(&walk);
    if (!walk.failed && origin == ORIGIN_IMPORTED)
        foreign_links_skip(&walk);
    return walk.failed ? TRYST_E_NOMEM : TRYST_OK;
}

/* ---- opening ----------------------------------------------------------------------- */

/* Load a topology, one thread at a time: hwloc's libraries (libudev, libpciaccess) have
 * state for the whole process. */
static bool load(const struct hwloc_calls *calls, hwloc_topology_t topology)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int rc = calls->hwloc_topology_load(topology);
    int kept = errno;
    pthread_mutex_unlock(&lock);
    errno = kept;
    return rc == 0;
}

/* Open a topology. An XML is read whole: also processors that were not allowed to lstopo
 * (cgroups), and devices that hwloc holds for unimportant. */
static bool topology_open(const struct hwloc_calls *calls, const char *xml,
                          hwloc_topology_t *topology_p)
{
    hwloc_topology_t topology;
    if (calls->hwloc_topology_init(&topology) != 0)
        return false;
    bool good = calls->hwloc_topology_set_io_types_filter(
                    topology, xml ? HWLOC_TYPE_FILTER_KEEP_ALL
                                  : HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0;
    if (good && xml)
        good =
            calls->hwloc_topology_set_flags(
                topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
            calls->hwloc_topology_set_xmlbuffer(topology, xml, (int)strlen(xml) + 1) == 0;
    if (good)
        good = load(calls, topology);
    if (good) {
        *topology_p = topology;
        return true;
    }
    int kept = errno;
    calls->hwloc_topology_destroy(topology);
    errno = kept;
    return false;
}

tryst_status hwloc_machine_read(const char *xml, struct err *err, struct machine *machine)
{
    const struct hwloc_calls *calls;
    hwloc_topology_t topology;
    tryst_status status = hwloc_calls_get(err, &calls);
    if (status != TRYST_OK)
        return status;
    if (!topology_open(calls, xml, &topology))
        return xml ? err_set(err, TRYST_E_INVALID,
                             "hwloc rejects this XML; HWLOC_XML_VERBOSE=1 shows why")
                   : err_set(err, TRYST_E_SYSTEM, "hwloc cannot load the topology: %s",
                             err_reason(errno));
    status =
        topology_read(calls, topology, xml ? ORIGIN_IMPORTED : ORIGIN_DETECTED, machine);
    calls->hwloc_topology_destroy(topology);
    return status;
}
