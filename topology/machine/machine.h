/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of a machine, filled by a source and turned into a graph.
 *
 * One idea: hwloc and NCCL's XML both have a tree of packages, NUMA nodes and PCI
 * devices; each fills this one description, and one builder makes the graph
 * (machine_build.h), so the same machine gives the same graph from every source.
 * Invariants: a part is identified by its index in its array, or MACHINE_NONE; a device
 * comes after the bridge above it; strings belong to the machine (machine_string) or are
 * constants. An unknown value is GRAPH_UNKNOWN, 0 or NULL as each field states.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_MACHINE_H
#define TRYST_TOPOLOGY_MACHINE_MACHINE_H

#include "topology/base/graph.h"

#define MACHINE_NONE UINT32_MAX

struct machine_package {
    uint32_t os_index;
    const char *cpus, *model; /**< NULL: unknown */
};

struct machine_numa {
    uint32_t os_index;
    uint32_t package; /**< index; MACHINE_NONE: of the whole machine */
    const char *cpus; /**< NULL: unknown; "": no cores, as of a GPU's memory */
    /** From this node's cores to this node's memory. */
    struct graph_number bytes_per_s, latency_ns;
};

enum machine_pci_kind {
    PCI_HOST_BRIDGE,
    PCI_BRIDGE,
    PCI_GPU,
    PCI_NIC,
    PCI_NV_SWITCH,
};

/** A PCI device. Generation, width and bandwidth are those of its link towards the
 *  host. */
struct machine_pci {
    enum machine_pci_kind kind;
    /** index in `pci`; MACHINE_NONE for a host bridge or a device directly at a
     *  package */
    uint32_t parent;
    uint32_t package, numa; /**< the nearest package and NUMA node */
    const char *address; /**< "0000:3b:00.0"; of a host bridge "0000:3a"; NULL: unknown */
    const char *name;    /**< a NIC's ("mlx5_0"); NULL: the builder chooses */
    const char *label;   /**< a model; NULL: unknown */
    uint16_t generation, width;      /**< 0: unknown */
    struct graph_number bytes_per_s; /**< if unknown, that of link_table.h */
    uint32_t os_index; /**< a GPU's number; GRAPH_NONE: the builder counts */
    uint32_t rank;     /**< a GPU's rank number; GRAPH_NONE: none */
    uint32_t node;     /**< the node in the graph, set by the builder */
};

/** NVLinks from a GPU: `count` parallel links, each with both directions. */
struct machine_nvlink {
    uint32_t from; /**< index in `pci` */
    uint32_t to;   /**< index in `pci` of a GPU; MACHINE_NONE: none */
    /** Where `to` is MACHINE_NONE: true: to a package (POWER8, POWER9); false: to NVLink
     *  switches. */
    bool to_package;
    uint32_t package; /**< if to_package: index; MACHINE_NONE: the package of `from` */
    uint16_t generation, count;
    /** of all `count` links; if unknown, that of link_table.h */
    struct graph_number bytes_per_s;
};

struct machine_c2c {
    uint32_t gpu; /**< index in `pci`; the other end is the GPU's package */
    struct graph_number bytes_per_s;
};

/** The port of a NIC, where its cable begins. */
struct machine_port {
    uint32_t nic;     /**< index in `pci`; MACHINE_NONE: the NIC is not a PCI device */
    const char *name; /**< of the interface or device; unique in the machine */
    enum graph_link_kind kind;
    struct graph_number bytes_per_s, latency_ns;
};

/** A device or a link of the source that the graph omits; see struct graph_skip. */
struct machine_skip {
    const char *what, *why;
};

struct machine {
    /** `name` NULL: the builder writes "machine"; `label` NULL: none */
    const char *name, *label;
    const char *arch; /**< "x86_64"; NULL: unknown */
    struct machine_package *packages;
    struct machine_numa *numas;
    struct machine_pci *pci;
    struct machine_nvlink *nvlinks;
    struct machine_c2c *c2cs;
    struct machine_port *ports;
    struct machine_skip *skips;
    uint32_t packages_count, numas_count, pci_count, nvlinks_count, c2cs_count,
        ports_count, skips_count;
    /** between any two packages; if unknown, that of link_table.h */
    struct graph_number upi;
    char **strings;
    uint32_t strings_count;
};

#define MACHINE_UNKNOWN            \
    {                              \
        GRAPH_UNKNOWN, ORIGIN_NONE \
    }
/** Initialise a machine with everything unknown. */
#define MACHINE_INIT                                            \
    {                                                           \
        .upi = {.value = GRAPH_UNKNOWN, .origin = ORIGIN_NONE } \
    }

/** Each function adds one part with everything unknown and returns a pointer to it; NULL:
 *  out of memory. The pointer is valid until the next addition of the same kind. */
struct machine_package *machine_package_add(struct machine *machine);
struct machine_numa *machine_numa_add(struct machine *machine);
struct machine_pci *machine_pci_add(struct machine *machine, enum machine_pci_kind kind);
struct machine_nvlink *machine_nvlink_add(struct machine *machine);
struct machine_c2c *machine_c2c_add(struct machine *machine);
struct machine_port *machine_port_add(struct machine *machine);

/** Add NVLinks (see struct machine_nvlink). All links of one pair are one bundle, and so
 *  are all from one GPU to NVLink switches; a bundle's bandwidth is known if each part's
 *  is. Returns false if out of memory. */
bool machine_nvlink_join(struct machine *machine, const struct machine_nvlink *more);
/** Keep one bundle of each pair of GPUs, from the lower to the higher; sources list a
 *  wire at one end or at both. */
void machine_nvlinks_pair(struct machine *machine);

/** List `what` as skipped, unless the last skip is the same; `fmt` is a printf format.
 *  Returns false if out of memory. */
bool machine_skip(struct machine *machine, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** Return a copy of `string` that lives as long as the machine; NULL: out of memory, or
 *  `string` is NULL. */
const char *machine_string(struct machine *machine, const char *string);
/** Return the index of the device with this address; MACHINE_NONE: there is none. */
uint32_t machine_pci_find(const struct machine *machine, const char *address);

#define MACHINE_ADDRESS_BYTES 32
/** Write a PCI address in the form of /sys: lower case, with a domain of four digits
 *  unless the domain needs more. An address that does not fit is cut. */
void machine_address(const char *address, char canonical_p[MACHINE_ADDRESS_BYTES]);

void machine_drop(struct machine *machine);

#endif
