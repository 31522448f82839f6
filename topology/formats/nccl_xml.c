/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read the topology that NCCL dumps (NCCL_TOPO_DUMP_FILE) and reads (NCCL_TOPO_FILE).
 *
 *     <system version="1">
 *       <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel"
 *            familyid="6" modelid="143">
 *         <pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe"
 *              link_width="16">
 *           <gpu dev="0" sm="90" rank="0">
 *             <nvlink target="0000:05:00.0" count="18" tclass="0x068000"/>
 *             <c2c bw="44712" count="10"/> </gpu>
 *         <pci …>
 *           <nic> <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0"/> </nic>
 *
 * The format has no packages and no host bridges: each <cpu> (a NUMA node) becomes a
 * package with one NUMA node, and the devices directly in a <cpu> belong to the package.
 * Systems of several hosts (host_hash) become several machines.
 *
 * A topology file of a cloud may hold less than a dump: only <pci> elements, and NCCL
 * reads the rest from /sys. The class of a <pci> without <gpu> and <nic> gives its kind,
 * and a malformed number is unknown. Devices without a class, links of a GPU to itself
 * and unknown elements are left out of the graph and listed as skipped.
 */
#include "nccl_xml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/pci_class.h"
#include "core/text/index_set.h"
#include "graph_fill.h"
#include "topology/base/link_table.h"
#include "topology/machine/machine.h"
#include "topology/machine/machine_build.h"
#include "xml.h"

#define HOSTS_MAX 4096

struct host {
    unsigned long long hash;
    struct machine machine;
    const struct xml_node **gpus; /* by PCI device: its <gpu>, or NULL */
};

struct reader {
    const struct source *source;
    struct host *hosts;
    uint32_t hosts_count;
    struct host *host; /* the current host */
    uint32_t package;  /* the current package of `host` */
};

static bool name_is(const struct xml_node *node, const char *name)
{
    return strcmp(xml_name(node), name) == 0;
}

/* ---- attributes -------------------------------------------------------------------- */

#define refuse(reader, node, ...) \
    source_refuse((reader)->source, xml_place(node), __VA_ARGS__)

/* List an element as skipped. */
#define skip(reader, node, ...) element_skip(reader, node, name_of(node), __VA_ARGS__)

static const char *name_of(const struct xml_node *node)
{
    const char *busid = xml_attribute(node, "busid");
    return busid && *busid ? busid : NULL;
}

__attribute__((format(printf, 4, 5))) static tryst_status element_skip(
    struct reader *reader, const struct xml_node *node, const char *what, const char *fmt,
    ...)
{
    char why[ERR_TEXT_BYTES], place[80];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    snprintf(place, sizeof place, "<%.40s> in line %u", xml_name(node),
             xml_place(node).line);
    return machine_skip(&reader->host->machine, what ? what : place, "%s", why)
               ? TRYST_OK
               : source_no_memory(reader->source);
}

/* Read a whole number as NCCL does, which ignores the text after the number ("16x" is
 * 16). *number_p is unchanged where the attribute is missing, empty, or not a number from
 * `min` to `max`; a value that is no such number is listed as skipped. */
static tryst_status whole_read(struct reader *reader, const struct xml_node *node,
                               const char *name, long min, long max, long *number_p)
{
    const char *text = xml_attribute(node, name);
    char *end;
    if (!text || !*text)
        return TRYST_OK;
    long number = strtol(text, &end, 0);
    if (end == text || number < min || number > max)
        return skip(reader, node,
                    "%s=\"%.40s\" is not a number from %ld to %ld: read as unknown", name,
                    text, min, max);
    *number_p = number;
    return TRYST_OK;
}

static tryst_status text_need(const struct reader *reader, const struct xml_node *node,
                              const char *name, const char **text_p)
{
    *text_p = xml_attribute(node, name);
    if (*text_p && **text_p)
        return TRYST_OK;
    return refuse(reader, node, "<%s> needs the attribute %s", xml_name(node), name);
}

static const char *keep(struct reader *reader, const char *text)
{
    return machine_string(&reader->host->machine, text);
}

/* ---- processors -------------------------------------------------------------------- */

/* Return a processor's model in the words of link_table.c, by NCCL's rules (its
 * src/graph/topo.cc); NULL: link_table.c has none. */
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

/* Read a mask or a list of processors, and set *cpus_p to the list ("16-31,48"). Other
 * text is listed as skipped, and *cpus_p is unchanged. */
static tryst_status cpus_read(struct reader *reader, const struct xml_node *node,
                              const char *text, const char **cpus_p)
{
    struct text list = {0};
    struct index_set set;
    bool is_list = strchr(text, '-') != NULL; /* "0,1" is a mask of two groups */
    if (is_list ? !index_set_parse(text, &set) : !index_set_parse_mask(text, &set))
        return skip(reader, node,
                    "affinity=\"%.40s\" is not a hexadecimal mask of at most %d "
                    "processors: read as unknown",
                    text, INDEX_SET_MAX);
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

/* ---- devices ----------------------------------------------------------------------- */

/* Return the first element called `name` among `node` and its next siblings; NULL for
 * none. */
static const struct xml_node *named_from(const struct xml_node *node, const char *name)
{
    while (node && !name_is(node, name))
        node = xml_next(node);
    return node;
}

static const struct xml_node *child_find(const struct xml_node *node, const char *name)
{
    return named_from(xml_child(node), name);
}

/* Return the kind of cable by the NIC's class; without a class, by the port's name. */
static enum graph_link_kind wire_of(unsigned class, const char *name)
{
    bool named = strncmp(name, "mlx", 3) == 0 || strncmp(name, "ib", 2) == 0;
    bool infiniband = class ? pci_is_infiniband(class) : named;
    return infiniband ? WIRE_INFINIBAND : WIRE_ETHERNET;
}

static tryst_status net_read(struct reader *reader, const struct xml_node *net,
                             uint32_t nic, unsigned class)
{
    struct machine *machine = &reader->host->machine;
    const char *name = xml_attribute(net, "name");
    long speed = 0;
    tryst_status status = whole_read(reader, net, "speed", -1, 1L << 40, &speed);
    if (status != TRYST_OK)
        return status;
    if (!name || !*name)
        return skip(reader, net, "the port has no name");
    const char *kept = keep(reader, name);
    struct machine_port *port = kept ? machine_port_add(machine) : NULL;
    if (!port)
        return source_no_memory(reader->source);
    port->nic = nic;
    port->name = kept;
    port->kind = wire_of(class, name);
    if (speed > 0) /* Mbit/s; NCCL writes -1 or 0 for unknown */
        port->bytes_per_s =
            (struct graph_number){(double)speed * 1e6 / 8, ORIGIN_IMPORTED};
    if (!machine->pci[nic].name)
        machine->pci[nic].name = kept;
    return TRYST_OK;
}

/* Read the ports in a <nic> and those directly in its <pci>. */
static tryst_status nets_read(struct reader *reader, const struct xml_node *parent,
                              uint32_t nic, unsigned class)
{
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(parent); status == TRYST_OK && child;
         child = xml_next(child)) {
        if (name_is(child, "net"))
            status = net_read(reader, child, nic, class);
        else if (name_is(child, "nic"))
            status = nets_read(reader, child, nic, class);
    }
    return status;
}

static tryst_status gpu_read(struct reader *reader, const struct xml_node *gpu,
                             uint32_t pci)
{
    struct machine *machine = &reader->host->machine;
    long dev = -1, rank = -1;
    tryst_status status = whole_read(reader, gpu, "dev", -1, 1 << 20, &dev);
    if (status == TRYST_OK)
        status = whole_read(reader, gpu, "rank", -1, INT32_MAX, &rank);
    if (status != TRYST_OK)
        return status;
    machine->pci[pci].os_index = dev < 0 ? GRAPH_NONE : (uint32_t)dev;
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

/* Make room for the <gpu> of one more device, initially NULL. */
static bool gpus_grow(struct host *host)
{
    size_t count = (size_t)host->machine.pci_count + 1;
    const struct xml_node **gpus = mem_resize(host->gpus, count * sizeof *gpus);
    if (!gpus)
        return false;
    gpus[count - 1] = NULL;
    host->gpus = gpus;
    return true;
}

/* Add a device of `kind` below `parent`; *pci_p is the device's index. */
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
    bool good = (!address || kept) && gpus_grow(reader->host);
    struct machine_pci *pci = good ? machine_pci_add(machine, kind) : NULL;
    if (!pci)
        return source_no_memory(reader->source);
    pci->address = kept;
    pci->parent = parent;
    pci->package = pci->numa = reader->package;
    *pci_p = machine->pci_count - 1;
    return TRYST_OK;
}

/* Read a <nic> or a <net> directly in a <cpu>, a virtual NIC. */
static tryst_status nic_read(struct reader *reader, const struct xml_node *node)
{
    uint32_t pci = MACHINE_NONE;
    tryst_status status = device_add(reader, PCI_NIC, NULL, MACHINE_NONE, &pci);
    if (status != TRYST_OK)
        return status;
    return name_is(node, "net") ? net_read(reader, node, pci, 0)
                                : nets_read(reader, node, pci, 0);
}

/* Return base class and subclass in 16 bits ("0x030200", "0x03", "0302"); 0 where `text`
 * is malformed. */
static unsigned class_of(const char *text)
{
    text += text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 2 : 0;
    size_t digits = strspn(text, "0123456789abcdefABCDEF");
    unsigned long class = strtoul(text, NULL, 16);
    if (!digits || text[digits])
        return 0;
    unsigned bytes = (unsigned)(digits + 1) / 2;
    return bytes == 1 ? (unsigned)class << 8 & 0xffff
                      : (unsigned)(class >> (bytes > 2 ? 8 : 0)) & 0xffff;
}

static unsigned hex_read(const struct xml_node *node, const char *name)
{
    const char *text = xml_attribute(node, name);
    return text ? (unsigned)strtoul(text, NULL, 16) & 0xffff : 0;
}

static struct pci_id id_read(const struct xml_node *pci)
{
    const char *class = xml_attribute(pci, "class");
    unsigned maker = hex_read(pci, "vendor");
    return (struct pci_id){class ? class_of(class) : 0, maker == 0xffff ? 0 : maker,
                           hex_read(pci, "device")};
}

/* Return the kind of a <pci> by the elements in it or, without such elements, by its
 * class. */
static enum pci_use use_of(const struct xml_node *pci, const struct pci_id *id)
{
    if (child_find(pci, "gpu"))
        return PCI_USE_GPU;
    if (child_find(pci, "nic") || child_find(pci, "net"))
        return PCI_USE_NIC;
    enum pci_use use = pci_use(id);
    bool device = use == PCI_USE_GPU || use == PCI_USE_NIC || use == PCI_USE_NV_SWITCH;
    return !device && child_find(pci, "pci") ? PCI_USE_BRIDGE : use;
}

static tryst_status device_skip(struct reader *reader, const struct xml_node *pci,
                                enum pci_use use, const struct pci_id *id)
{
    if (use == PCI_USE_BRIDGE)
        return skip(reader, pci, "a bridge without devices");
    if (!id->class)
        return skip(reader, pci, "unknown kind: no class, <gpu> or <nic>");
    if (!pci_skip_format(use))
        return skip(reader, pci, "class %04x is neither a GPU nor a NIC", id->class);
    char why[ERR_TEXT_BYTES];
    snprintf(why, sizeof why, pci_skip_format(use), id->class, id->maker, id->device);
    return skip(reader, pci, "%s", why);
}

/* Read the <gpu>s of a <pci>: the first is the device, further ones are its
 * partitions. */
static tryst_status gpus_read(struct reader *reader, const struct xml_node *pci_node,
                              uint32_t pci)
{
    const struct xml_node *gpu = child_find(pci_node, "gpu");
    uint32_t at = pci;
    tryst_status status = TRYST_OK;
    while (status == TRYST_OK && gpu) {
        reader->host->gpus[at] = gpu;
        status = gpu_read(reader, gpu, at);
        gpu = named_from(xml_next(gpu), "gpu");
        if (!gpu || status != TRYST_OK)
            break;
        struct machine_pci first = reader->host->machine.pci[pci];
        status = device_add(reader, PCI_GPU, first.address, first.parent, &at);
        if (status == TRYST_OK)
            status = pci_number(reader, pci_node, &reader->host->machine.pci[at]);
    }
    return status;
}

static tryst_status children_read(struct reader *reader, const struct xml_node *node,
                                  uint32_t parent);

static tryst_status pci_read(struct reader *reader, const struct xml_node *node,
                             uint32_t parent)
{
    static const enum machine_pci_kind kinds[] = {[PCI_USE_GPU] = PCI_GPU,
                                                  [PCI_USE_NIC] = PCI_NIC,
                                                  [PCI_USE_NV_SWITCH] = PCI_NV_SWITCH,
                                                  [PCI_USE_BRIDGE] = PCI_BRIDGE};
    const struct pci_id id = id_read(node);
    enum pci_use use = use_of(node, &id);
    const char *address;
    uint32_t pci = MACHINE_NONE;
    tryst_status status = text_need(reader, node, "busid", &address);
    if (status != TRYST_OK)
        return status;
    if (use == PCI_USE_OTHER || pci_skip_format(use) ||
        (use == PCI_USE_BRIDGE && !child_find(node, "pci")))
        return device_skip(reader, node, use, &id);
    status = device_add(reader, kinds[use], address, parent, &pci);
    if (status == TRYST_OK)
        status = pci_number(reader, node, &reader->host->machine.pci[pci]);
    if (status == TRYST_OK && use == PCI_USE_GPU)
        status = gpus_read(reader, node, pci);
    if (status == TRYST_OK && use == PCI_USE_NIC)
        status = nets_read(reader, node, pci, id.class);
    return status == TRYST_OK ? children_read(reader, node, pci) : status;
}

/* True if `node` is an element of a <pci> that was read together with the <pci>. */
static bool is_read(const struct xml_node *node)
{
    return name_is(node, "gpu") || name_is(node, "nic") || name_is(node, "net");
}

/* Read the elements of a <cpu> (`parent` is MACHINE_NONE) or of a <pci>. */
static tryst_status children_read(struct reader *reader, const struct xml_node *node,
                                  uint32_t parent)
{
    bool in_cpu = parent == MACHINE_NONE;
    tryst_status status = TRYST_OK;
    for (const struct xml_node *child = xml_child(node); status == TRYST_OK && child;
         child = xml_next(child)) {
        if (name_is(child, "pci"))
            status = pci_read(reader, child, parent);
        else if (in_cpu && (name_is(child, "nic") || name_is(child, "net")))
            status = nic_read(reader, child);
        else if (in_cpu || !is_read(child))
            status = skip(reader, child, "cannot read <%.40s> in <%s>: unknown element",
                          xml_name(child), xml_name(node));
    }
    return status;
}

/* ---- NVLink and C2C: after all devices --------------------------------------------- */

enum nvlink_end { NVLINK_GPU, NVLINK_SWITCH, NVLINK_PACKAGE };

/* Return the kind of a target by class, as NCCL does: a GPU, a processor, else an
 * NVSwitch. Without a class: a GPU if the device `to` is one, else an NVSwitch. */
static enum nvlink_end nvlink_end_of(const struct machine *machine, const char *class,
                                     uint32_t to)
{
    if (!class || !*class) /* target "fffffff:ffff:ff": an NVSwitch behind a hypervisor */
        return to != MACHINE_NONE && machine->pci[to].kind == PCI_GPU ? NVLINK_GPU
                                                                      : NVLINK_SWITCH;
    return class_of(class) >> 8 == 0x03         ? NVLINK_GPU
           : strncmp(class, "0x068001", 8) == 0 ? NVLINK_PACKAGE
                                                : NVLINK_SWITCH;
}

static tryst_status nvlink_read(struct reader *reader, const struct xml_node *node,
                                uint32_t gpu, unsigned generation)
{
    struct machine *machine = &reader->host->machine;
    const char *target = xml_attribute(node, "target");
    char address[MACHINE_ADDRESS_BYTES];
    long count = 1;
    tryst_status status = whole_read(reader, node, "count", 0, 1024, &count);
    if (status != TRYST_OK || !count)
        return status;
    machine_address(target ? target : "", address);
    uint32_t to = machine_pci_find(machine, address);
    enum nvlink_end end = nvlink_end_of(machine, xml_attribute(node, "tclass"), to);
    const char *what = machine->pci[gpu].address;
    if (end == NVLINK_GPU && to == machine_pci_find(machine, what))
        return element_skip(reader, node, what, "NVLinks from this GPU to itself");
    if (end == NVLINK_GPU && (to == MACHINE_NONE || machine->pci[to].kind != PCI_GPU))
        return element_skip(reader, node, what,
                            "an NVLink to \"%.40s\", which is not a GPU",
                            target ? target : "");
    struct machine_nvlink more = {.from = gpu,
                                  .to = end == NVLINK_GPU ? to : MACHINE_NONE,
                                  .to_package = end == NVLINK_PACKAGE,
                                  .package = MACHINE_NONE,
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
    if (bw > 0 && count > 0) /* `bw` is in MB/s, of each link */
        c2c->bytes_per_s =
            (struct graph_number){(double)bw * (double)count * 1e6, ORIGIN_IMPORTED};
    return TRYST_OK;
}

static tryst_status gpu_links_read(struct reader *reader, const struct xml_node *gpu,
                                   uint32_t pci)
{
    long capability = 0;
    tryst_status status = whole_read(reader, gpu, "sm", 0, 1000, &capability);
    for (const struct xml_node *link = xml_child(gpu); status == TRYST_OK && link;
         link = xml_next(link)) {
        if (name_is(link, "nvlink"))
            status = nvlink_read(reader, link, pci,
                                 table_nvlink_generation((unsigned)capability));
        else if (name_is(link, "c2c"))
            status = c2c_read(reader, link, pci);
        else
            status = element_skip(reader, link, reader->host->machine.pci[pci].address,
                                  "cannot read <%.40s> in <gpu>: unknown element",
                                  xml_name(link));
    }
    return status;
}

static tryst_status links_read(struct reader *reader, struct host *host)
{
    tryst_status status = TRYST_OK;
    reader->host = host;
    for (uint32_t i = 0; status == TRYST_OK && i < host->machine.pci_count; i++)
        if (host->gpus[i])
            status = gpu_links_read(reader, host->gpus[i], i);
    machine_nvlinks_pair(&host->machine);
    return status;
}

/* ---- hosts ------------------------------------------------------------------------- */

static tryst_status host_choose(struct reader *reader, const struct xml_node *cpu)
{
    const char *text = xml_attribute(cpu, "host_hash");
    unsigned long long hash = text ? strtoull(text, NULL, 16) : 0;
    for (uint32_t i = 0; i < reader->hosts_count; i++)
        if (reader->hosts[i].hash == hash) {
            reader->host = &reader->hosts[i];
            return TRYST_OK;
        }
    if (reader->hosts_count == HOSTS_MAX)
        return refuse(reader, cpu, "cannot read more than %d hosts", HOSTS_MAX);
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
    return status == TRYST_OK ? children_read(reader, cpu, MACHINE_NONE) : status;
}

static tryst_status version_check(const struct reader *reader,
                                  const struct xml_node *root)
{
    const char *text = xml_attribute(root, "version");
    long version = text ? strtol(text, NULL, 0) : 0;
    if (name_is(root, "graphs"))
        return refuse(
            reader, root,
            "cannot read <graphs>: a file of NCCL_GRAPH_FILE has rings and trees, "
            "not the hardware; use a file of NCCL_TOPO_DUMP_FILE");
    if (!name_is(root, "system"))
        return refuse(
            reader, root,
            "cannot read <%s>: neither hwloc's topology (<topology>) nor NCCL's "
            "(<system>)",
            xml_name(root));
    if (version == 2)
        return refuse(
            reader, root,
            "cannot read <system version=\"2\">: this is RCCL's format, with links "
            "between AMD GPUs, which are not supported; use version 1");
    if (version != 1)
        return refuse(reader, root, "<system> needs version=\"1\"");
    return TRYST_OK;
}

static tryst_status system_read(struct reader *reader, const struct xml_node *root)
{
    tryst_status status = version_check(reader, root);
    for (const struct xml_node *cpu = xml_child(root); status == TRYST_OK && cpu;
         cpu = xml_next(cpu))
        if (name_is(cpu, "cpu"))
            status = cpu_read(reader, cpu);
    if (status == TRYST_OK && !reader->hosts_count)
        return refuse(reader, root, "<system> needs at least one <cpu>");
    for (const struct xml_node *other = xml_child(root); status == TRYST_OK && other;
         other = xml_next(other))
        if (!name_is(other, "cpu"))
            status =
                skip(reader, other, "cannot read <%.40s> in <system>: unknown element",
                     xml_name(other));
    for (uint32_t i = 0; status == TRYST_OK && i < reader->hosts_count; i++)
        status = links_read(reader, &reader->hosts[i]);
    return status;
}

/* ---- the graph --------------------------------------------------------------------- */

/* Find the smallest rank of a GPU at or above `least`. Write this rank and the number of
 * GPUs that have it, and return the node of the last of them (GRAPH_NONE before the graph
 * is built). Without such a rank return GRAPH_NONE and write nothing. */
static uint32_t rank_next(const struct reader *reader, uint64_t least, uint64_t *rank_p,
                          uint32_t *same_p)
{
    uint32_t node = GRAPH_NONE;
    bool any = false;
    for (uint32_t h = 0; h < reader->hosts_count; h++)
        for (uint32_t i = 0; i < reader->hosts[h].machine.pci_count; i++) {
            const struct machine_pci *pci = &reader->hosts[h].machine.pci[i];
            if (pci->rank == GRAPH_NONE || pci->rank < least ||
                (any && pci->rank > *rank_p))
                continue;
            *same_p = any && pci->rank == *rank_p ? *same_p + 1 : 1;
            any = true;
            node = pci->node;
            *rank_p = pci->rank;
        }
    return node;
}

/* True if there are GPUs, every GPU has a rank, and no two GPUs have the same rank. */
static bool ranks_given(const struct reader *reader)
{
    bool any = false;
    uint64_t rank = 0, least = 0;
    for (uint32_t h = 0; h < reader->hosts_count; h++)
        for (uint32_t i = 0; i < reader->hosts[h].machine.pci_count; i++) {
            const struct machine_pci *pci = &reader->hosts[h].machine.pci[i];
            if (pci->kind == PCI_GPU && pci->rank == GRAPH_NONE)
                return false;
            any = any || pci->kind == PCI_GPU;
        }
    for (uint32_t same = 0;; least = rank + 1, same = 0) {
        rank_next(reader, least, &rank, &same);
        if (same != 1)
            return any && !same;
    }
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
    uint32_t same;
    for (uint32_t node; given && status == TRYST_OK; least = rank + 1) {
        node = rank_next(reader, least, &rank, &same);
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
        status = graph_fill_open(source, (struct text_place){1, 0}, graph_fill, &reader,
                                 graph_p);
    for (uint32_t i = 0; i < reader.hosts_count; i++) {
        machine_drop(&reader.hosts[i].machine);
        mem_free(reader.hosts[i].gpus);
    }
    mem_free(reader.hosts);
    xml_close(xml);
    return status;
}
