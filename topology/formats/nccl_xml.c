/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The topology that NCCL dumps (NCCL_TOPO_DUMP_FILE) and reads (NCCL_TOPO_FILE).
 *
 *     <system version="1">
 *       <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
 *         <pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
 *           <gpu dev="0" sm="90" rank="0"> <nvlink target="0000:05:00.0" count="18" tclass="0x068000"/>
 *                                          <c2c bw="44712" count="10"/> </gpu>
 *         <pci …> <nic> <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0"/> </nic>
 *
 * It has no packages and no host bridges: each <cpu> (a NUMA node) becomes a package with one NUMA node, and what is
 * right in it hangs on the package. Systems of several hosts (host_hash) become several machines. Elements that
 * we do not know are passed over, as NCCL does.
 */
#include "nccl_xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "topology/base/index_set.h"
#include "topology/base/link_table.h"
#include "topology/machine/machine.h"
#include "topology/machine/machine_build.h"
#include "xml.h"

#define HOSTS_MAX 4096

struct host {
    const char *hash; /* the document's */
    struct machine machine;
};

struct reader {
    const struct source *source;
    struct host *hosts;
    uint32_t hosts_count;
    struct host *host; /* the one that is being read */
    uint32_t package;  /* in it */
};

static bool name_is(const struct xml_node *node, const char *name)
{
    return strcmp(xml_name(node), name) == 0;
}

/* -----------------------------------------------------------------------------
 * attributes */

#define refuse(reader, node, ...) \
    source_refuse((reader)->source, xml_place(node), __VA_ARGS__)

/* A whole number; where the attribute is missing, `*number_p` stays as it is. */
static tryst_status whole_read(const struct reader *reader, const struct xml_node *node,
                               const char *name, long min, long max, long *number_p)
{
    const char *text = xml_attribute(node, name);
    char *end;
    if (!text || !*text)
        return TRYST_OK;
    long number = strtol(text, &end, 0);
    if (end == text || *end || number < min || number > max)
        return refuse(reader, node, "%s=\"%.40s\" of <%s> is no number of %ld to %ld",
                      name, text, xml_name(node), min, max);
    *number_p = number;
    return TRYST_OK;
}

static tryst_status text_need(const struct reader *reader, const struct xml_node *node,
                              const char *name, const char **text_p)
{
    *text_p = xml_attribute(node, name);
    if (*text_p && **text_p)
        return TRYST_OK;
    return refuse(reader, node, "<%s> has no %s", xml_name(node), name);
}

static const char *keep(struct reader *reader, const char *text)
{
    return machine_string(&reader->host->machine, text);
}

/* -----------------------------------------------------------------------------
 * processors */

/* How NCCL tells generations of processors apart (its src/graph/topo.cc), with a name that link_table.c knows. */
static const char *model_of(const char *arch, const char *vendor, long family, long model)
{
    if (strcmp(arch, "x86_64") == 0 && strcmp(vendor, "AuthenticAMD") == 0)
        return "AMD EPYC";
    if (strcmp(arch, "x86_64") != 0 || strcmp(vendor, "GenuineIntel") != 0 || family != 6)
        return NULL;
    return model >= 0xcf   ? "Intel Xeon(R) Platinum 85xx"
           : model >= 0x8f ? "Intel Xeon(R) Platinum 84xx"
           : model >= 0x55 ? "Intel Xeon(R) Platinum 81xx"
                           : NULL;
}

/* The mask as a list, "16-31,48". */
static tryst_status cpus_read(struct reader *reader, const struct xml_node *node,
                              const char *mask, const char **cpus_p)
{
    struct text list = {0};
    struct index_set set;
    if (!index_set_parse_mask(mask, &set))
        return refuse(reader, node,
                      "affinity=\"%.40s\" is no mask in hexadecimal of at most %d "
                      "processors",
                      mask, INDEX_SET_MAX);
    index_set_write(&set, &list);
    text_add(&list, "");
    *cpus_p = list.failed ? NULL : keep(reader, list.data);
    text_drop(&list);
    return *cpus_p ? TRYST_OK : source_no_memory(reader->source);
}

static tryst_status processor_add(struct reader *reader, const struct xml_node *cpu)
{
    struct machine *machine = &reader->host->machine;
    const char *arch = xml_attribute(cpu, "arch"), *vendor = xml_attribute(cpu, "vendor");
    const char *mask = xml_attribute(cpu, "affinity"), *cpus = NULL;
    long family = 0, model = 0, numa_id = -1;
    tryst_status status = whole_read(reader, cpu, "numaid", -1, 1 << 20, &numa_id);
    if (status == TRYST_OK)
        status = whole_read(reader, cpu, "familyid", 0, 1 << 20, &family);
    if (status == TRYST_OK)
        status = whole_read(reader, cpu, "modelid", 0, 1 << 20, &model);
    if (status == TRYST_OK && mask && *mask)
        status = cpus_read(reader, cpu, mask, &cpus);
    if (status != TRYST_OK)
        return status;
    const char *kept = arch ? keep(reader, arch) : NULL;
    struct machine_package *package = machine_package_add(machine);
    struct machine_numa *numa = package ? machine_numa_add(machine) : NULL;
    if (!numa || (arch && !kept))
        return source_no_memory(reader->source);
    machine->arch = kept;
    package->model = arch && vendor ? model_of(arch, vendor, family, model) : NULL;
    package->cpus = numa->cpus = cpus;
    numa->os_index = numa_id < 0 ? GRAPH_NONE : (uint32_t)numa_id;
    numa->package = reader->package = machine->packages_count - 1;
    return TRYST_OK;
}

/* -----------------------------------------------------------------------------
 * devices */

static const struct xml_node *child_find(const struct xml_node *node, const char *name)
{
    const struct xml_node *child = xml_child(node);
    while (child && !name_is(child, name))
        child = xml_next(child);
    return child;
}

static tryst_status net_read(struct reader *reader, const struct xml_node *net,
                             uint32_t nic)
{
    struct machine *machine = &reader->host->machine;
    long speed = 0;
    const char *name;
    tryst_status status = text_need(reader, net, "name", &name);
    if (status == TRYST_OK)
        status = whole_read(reader, net, "speed", -1, 1L << 40, &speed);
    if (status != TRYST_OK)
        return status;
    const char *kept = keep(reader, name);
    struct machine_port *port = kept ? machine_port_add(machine) : NULL;
    if (!port)
        return source_no_memory(reader->source);
    port->nic = nic;
    port->name = kept;
    port->kind = strncmp(name, "mlx", 3) == 0 || strncmp(name, "ib", 2) == 0
                     ? WIRE_INFINIBAND
                     : WIRE_ETHERNET;
    if (speed > 0) /* Mbit/s; NCCL writes -1 or 0 for unknown */
        port->bytes_per_s =
            (struct graph_number){(double)speed * 1e6 / 8, ORIGIN_IMPORTED};
    if (!machine->pci[nic].name)
        machine->pci[nic].name = kept;
    return TRYST_OK;
}

static tryst_status nets_read(struct reader *reader, const struct xml_node *nic_node,
                              uint32_t nic)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *net = xml_child(nic_node); status == TRYST_OK && net;
         net = xml_next(net))
        if (name_is(net, "net"))
            status = net_read(reader, net, nic);
    return status;
}

static tryst_status gpu_read(struct reader *reader, const struct xml_node *gpu,
                             uint32_t pci)
{
    struct machine *machine = &reader->host->machine;
    long dev = -1, rank = -1;
    tryst_status status = whole_read(reader, gpu, "dev", 0, 1 << 20, &dev);
    if (status == TRYST_OK)
        status = whole_read(reader, gpu, "rank", -1, INT32_MAX, &rank);
    if (status != TRYST_OK)
        return status;
    if (dev < 0)
        return refuse(reader, gpu, "<gpu> has no dev");
    machine->pci[pci].os_index = (uint32_t)dev;
    machine->pci[pci].rank = rank < 0 ? GRAPH_NONE : (uint32_t)rank;
    return TRYST_OK;
}

static tryst_status pci_number(struct reader *reader, const struct xml_node *node,
                               struct machine_pci *pci)
{
    const char *speed = xml_attribute(node, "link_speed");
    long width = 0;
    tryst_status status = whole_read(reader, node, "link_width", 0, 255, &width);
    if (status != TRYST_OK)
        return status;
    pci->generation = (uint16_t)(speed ? table_pci_generation(speed) : 0);
    pci->width = (uint16_t)(width <= 32 ? width : 0);
    double bytes_per_s = table_pci_bytes_per_s(pci->generation, pci->width);
    if (bytes_per_s != GRAPH_UNKNOWN)
        pci->bytes_per_s = (struct graph_number){bytes_per_s, ORIGIN_IMPORTED};
    return TRYST_OK;
}

/* A device of a kind and where it hangs; its place among the machine's. */
static tryst_status device_add(struct reader *reader, enum machine_pci_kind kind,
                               const char *address, uint32_t parent, uint32_t *pci_p)
{
    struct machine *machine = &reader->host->machine;
    char canonical[MACHINE_ADDRESS_BYTES];
    const char *kept = NULL;
    if (address) {
        machine_address(address, canonical);
        kept = keep(reader, canonical);
    }
    struct machine_pci *pci = address && !kept ? NULL : machine_pci_add(machine, kind);
    if (!pci)
        return source_no_memory(reader->source);
    pci->address = kept;
    pci->parent = parent;
    pci->package = pci->numa = reader->package;
    *pci_p = machine->pci_count - 1;
    return TRYST_OK;
}

static tryst_status nic_read(struct reader *reader, const struct xml_node *nic)
{
    uint32_t pci = MACHINE_NONE;
    tryst_status status = device_add(reader, PCI_NIC, NULL, MACHINE_NONE, &pci);
    return status == TRYST_OK ? nets_read(reader, nic, pci) : status;
}

static tryst_status pci_read(struct reader *reader, const struct xml_node *node,
                             uint32_t parent)
{
    const struct xml_node *gpu = child_find(node, "gpu"), *nic = child_find(node, "nic");
    const char *address;
    uint32_t pci = MACHINE_NONE;
    tryst_status status = text_need(reader, node, "busid", &address);
    if (status == TRYST_OK)
        status = device_add(reader,
                            gpu   ? PCI_GPU
                            : nic ? PCI_NIC
                                  : PCI_BRIDGE,
                            address, parent, &pci);
    if (status == TRYST_OK)
        status = pci_number(reader, node, &reader->host->machine.pci[pci]);
    if (status == TRYST_OK && gpu)
        return gpu_read(reader, gpu, pci);
    if (status == TRYST_OK && nic)
        return nets_read(reader, nic, pci);
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child))
        if (name_is(child, "pci"))
            status = pci_read(reader, child, pci);
    return status;
}

/* -----------------------------------------------------------------------------
 * NVLink and C2C, when all devices are known */

static tryst_status nvlink_read(struct reader *reader, const struct xml_node *node,
                                uint32_t gpu, unsigned generation)
{
    struct machine *machine = &reader->host->machine;
    const char *target = xml_attribute(node, "target"),
               *class = xml_attribute(node, "tclass");
    char address[MACHINE_ADDRESS_BYTES];
    long count = 1;
    tryst_status status = whole_read(reader, node, "count", 1, 1024, &count);
    if (status != TRYST_OK)
        return status;
    machine_address(target ? target : "", address);
    uint32_t to = machine_pci_find(machine, address);
    bool to_gpu = class ? strncmp(class, "0x03", 4) == 0 : to != MACHINE_NONE;
    if (to_gpu && (to == MACHINE_NONE || machine->pci[to].kind != PCI_GPU || to == gpu))
        return refuse(reader, node, "there is no other GPU at \"%.40s\"",
                      target ? target : "");
    if (to_gpu && to < gpu)
        return TRYST_OK; /* a wire of two directions is told by its first end */
    struct machine_nvlink more = {.from = gpu,
                                  .to = to_gpu ? to : MACHINE_NONE,
                                  .to_package =
                                      class && strncmp(class, "0x068001", 8) == 0,
                                  .generation = (uint16_t)generation,
                                  .count = (uint16_t)count,
                                  .bytes_per_s = MACHINE_UNKNOWN};
    return machine_nvlink_join(machine, &more) ? TRYST_OK
                                               : source_no_memory(reader->source);
}

static tryst_status c2c_read(struct reader *reader, const struct xml_node *node,
                             uint32_t gpu)
{
    long bw = 0, count = 0;
    tryst_status status = whole_read(reader, node, "bw", 0, 1L << 40, &bw);
    if (status == TRYST_OK)
        status = whole_read(reader, node, "count", 0, 1024, &count);
    if (status != TRYST_OK)
        return status;
    struct machine_c2c *c2c = machine_c2c_add(&reader->host->machine);
    if (!c2c)
        return source_no_memory(reader->source);
    c2c->gpu = gpu;
    if (bw > 0 && count > 0) /* MB/s of each link */
        c2c->bytes_per_s =
            (struct graph_number){(double)bw * (double)count * 1e6, ORIGIN_IMPORTED};
    return TRYST_OK;
}

static tryst_status gpu_links_read(struct reader *reader, const struct xml_node *gpu,
                                   const char *address)
{
    char canonical[MACHINE_ADDRESS_BYTES];
    long capability = 0;
    machine_address(address, canonical);
    uint32_t pci = machine_pci_find(&reader->host->machine, canonical);
    tryst_status status = whole_read(reader, gpu, "sm", 0, 1000, &capability);
    if (pci == MACHINE_NONE)
        return status;
    for (const struct xml_node *link = xml_child(gpu); status == TRYST_OK && link;
         link = xml_next(link)) {
        if (name_is(link, "nvlink"))
            status = nvlink_read(reader, link, pci,
                                 table_nvlink_generation((unsigned)capability));
        else if (name_is(link, "c2c"))
            status = c2c_read(reader, link, pci);
    }
    return status;
}

static tryst_status links_read(struct reader *reader, const struct xml_node *node)
{
    const char *address = xml_attribute(node, "busid");
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child)) {
        if (name_is(child, "gpu") && address)
            status = gpu_links_read(reader, child, address);
        else if (name_is(child, "pci"))
            status = links_read(reader, child);
    }
    return status;
}

/* -----------------------------------------------------------------------------
 * hosts */

static tryst_status host_choose(struct reader *reader, const struct xml_node *cpu)
{
    const char *hash = xml_attribute(cpu, "host_hash");
    hash = hash ? hash : "";
    for (uint32_t i = 0; i < reader->hosts_count; i++)
        if (strcmp(reader->hosts[i].hash, hash) == 0) {
            reader->host = &reader->hosts[i];
            return TRYST_OK;
        }
    if (reader->hosts_count == HOSTS_MAX)
        return refuse(reader, cpu, "more than %d hosts", HOSTS_MAX);
    struct host *grown =
        mem_resize(reader->hosts, (reader->hosts_count + 1) * sizeof *reader->hosts);
    if (!grown)
        return source_no_memory(reader->source);
    reader->hosts = grown;
    reader->host = &grown[reader->hosts_count++];
    *reader->host = (struct host){.hash = hash, .machine = MACHINE_INIT};
    return TRYST_OK;
}

static tryst_status cpu_read(struct reader *reader, const struct xml_node *cpu)
{
    tryst_status status = host_choose(reader, cpu);
    if (status == TRYST_OK)
        status = processor_add(reader, cpu);
    for (const struct xml_node *child = xml_child(cpu); status == TRYST_OK && child;
         child = xml_next(child)) {
        if (name_is(child, "pci"))
            status = pci_read(reader, child, MACHINE_NONE);
        else if (name_is(child, "nic"))
            status = nic_read(reader, child);
    }
    return status;
}

static tryst_status system_read(struct reader *reader, const struct xml_node *root)
{
    long version = 0;
    tryst_status status = TRYST_OK;
    if (!name_is(root, "system"))
        return refuse(reader, root,
                      "<%s> does not begin a topology of NCCL's; <system> does",
                      xml_name(root));
    status = whole_read(reader, root, "version", 0, 1 << 20, &version);
    if (status == TRYST_OK && version != 1)
        return refuse(reader, root, "<system> must say version=\"1\"");
    for (const struct xml_node *cpu = xml_child(root); status == TRYST_OK && cpu;
         cpu = xml_next(cpu))
        if (name_is(cpu, "cpu"))
            status = cpu_read(reader, cpu);
    for (const struct xml_node *cpu = xml_child(root); status == TRYST_OK && cpu;
         cpu = xml_next(cpu))
        if (name_is(cpu, "cpu")) {
            status = host_choose(reader, cpu);
            if (status == TRYST_OK)
                status = links_read(reader, cpu);
        }
    if (status == TRYST_OK && !reader->hosts_count)
        return refuse(reader, root, "<system> has no <cpu>");
    return status;
}

/* -----------------------------------------------------------------------------
 * the graph */

/* The GPU that has the least rank at or above `least`; its node, or GRAPH_NONE. */
static uint32_t rank_next(const struct reader *reader, uint64_t least, uint64_t *rank_p)
{
    uint32_t node = GRAPH_NONE;
    for (uint32_t h = 0; h < reader->hosts_count; h++)
        for (uint32_t i = 0; i < reader->hosts[h].machine.pci_count; i++) {
            const struct machine_pci *pci = &reader->hosts[h].machine.pci[i];
            if (pci->rank == GRAPH_NONE || pci->rank < least ||
                (node != GRAPH_NONE && pci->rank >= *rank_p))
                continue;
            node = pci->node;
            *rank_p = pci->rank;
        }
    return node;
}

/* Whether every GPU has a rank. */
static bool ranks_given(const struct reader *reader)
{
    bool any = false;
    for (uint32_t h = 0; h < reader->hosts_count; h++)
        for (uint32_t i = 0; i < reader->hosts[h].machine.pci_count; i++) {
            const struct machine_pci *pci = &reader->hosts[h].machine.pci[i];
            if (pci->kind == PCI_GPU && pci->rank == GRAPH_NONE)
                return false;
            any = any || pci->kind == PCI_GPU;
        }
    return any;
}

static tryst_status graph_fill(void *arg, struct graph *graph, struct err *why)
{
    struct reader *reader = arg;
    char prefix[32] = "";
    bool given = ranks_given(reader);
    struct machine_build build = {
        .prefix = prefix, .ranks = !given, .network = GRAPH_NONE};
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; status == TRYST_OK && i < reader->hosts_count; i++) {
        if (reader->hosts_count > 1)
            snprintf(prefix, sizeof prefix, "host%u/", i);
        status = machine_build(graph, &reader->hosts[i].machine, &build, why);
    }
    uint64_t rank = 0, least = 0;
    for (uint32_t node; given && status == TRYST_OK; least = rank + 1) {
        node = rank_next(reader, least, &rank);
        if (node == GRAPH_NONE)
            break;
        status = machine_rank_add(graph, node, why);
    }
    return status;
}

tryst_status nccl_xml_read(const struct source *source, struct graph **graph_p)
{
    struct reader reader = {.source = source};
    struct xml *xml;
    tryst_status status = xml_open(source, &xml);
    if (status != TRYST_OK)
        return status;
    status = system_read(&reader, xml_root(xml));
    if (status == TRYST_OK)
        status =
            source_build(source, (struct text_place){1, 0}, graph_fill, &reader, graph_p);
    for (uint32_t i = 0; i < reader.hosts_count; i++)
        machine_drop(&reader.hosts[i].machine);
    mem_free(reader.hosts);
    xml_close(xml);
    return status;
}
