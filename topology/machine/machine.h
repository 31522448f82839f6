/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a machine is made of, as its sources say it, before it is a graph.
 *
 * One idea: hwloc, sysfs and NCCL's XML all know a tree of packages, NUMA nodes and PCI devices; each fills this
 * one description, and one builder makes the graph of it (machine_build.h), so the same machine gives the same graph whoever
 * described it.
 * Invariants: parts are named by their place in these arrays, or MACHINE_NONE; a device stands behind
 * the bridge that it hangs on; strings are the machine's (machine_string), or constants. What is not
 * known is GRAPH_UNKNOWN, 0 or NULL as each field says.
 * Callers: detection, the importers of hwloc's and NCCL's XML, synthetic.
 */
#ifndef TRYST_TOPOLOGY_MACHINE_H
#define TRYST_TOPOLOGY_MACHINE_H

#include "topology/base/graph.h"

#define MACHINE_NONE UINT32_MAX

struct machine_package {
    uint32_t os_index;
    const char *cpus, *model; /* NULL: unknown */
};

struct machine_numa {
    uint32_t os_index;
    uint32_t package; /* MACHINE_NONE: of the machine as a whole */
    const char *cpus; /* NULL: unknown; "": none, such as a GPU's memory */
    struct graph_number bytes_per_s, latency_ns; /* of its memory, from its own cores */
};

enum machine_pci_kind {
    PCI_HOST_BRIDGE,
    PCI_BRIDGE,
    PCI_GPU,
    PCI_NIC,
    PCI_NV_SWITCH,
};

/* A PCI device. A link's numbers are those of the one towards the host. */
struct machine_pci {
    enum machine_pci_kind kind;
    uint32_t
        parent; /* in `pci`; MACHINE_NONE of a host bridge (or a device right at a package) */
    uint32_t package, numa; /* nearest ones; of those without parent */
    const char *address; /* "0000:3b:00.0"; of a host bridge "0000:3a"; NULL: unknown */
    const char *name;    /* a NIC's ("mlx5_0"); NULL: made up */
    const char *label;   /* a model; NULL: unknown */
    uint16_t generation, width;      /* 0: unknown */
    struct graph_number bytes_per_s; /* unknown: by table from generation and width */
    uint32_t os_index;               /* a GPU's number, or GRAPH_NONE: by address */
    uint32_t rank;                   /* a GPU's rank number, or GRAPH_NONE */
    uint32_t node;                   /* the builder's: its node in the graph */
};

/* NVLinks from a GPU: `count` side by side, each way. */
struct machine_nvlink {
    uint32_t from;    /* in `pci` */
    uint32_t to;      /* in `pci` (a GPU); MACHINE_NONE: the NVLink switches */
    bool to_package;  /* to a package (POWER8, POWER9); `to` is MACHINE_NONE */
    uint32_t package; /* of `to_package`; MACHINE_NONE: the one of `from` */
    uint16_t generation, count;
    struct graph_number bytes_per_s; /* of all together; unknown: by table */
};

struct machine_c2c {
    uint32_t gpu; /* in `pci`; the other end is its package */
    struct graph_number bytes_per_s;
};

/* Where a NIC's cable goes in. */
struct machine_port {
    uint32_t nic;     /* in `pci`; MACHINE_NONE: a NIC that is no PCI device */
    const char *name; /* of the interface or device; unique in the machine */
    enum graph_link_kind kind;
    struct graph_number bytes_per_s, latency_ns;
};

/* A device or a link that the source has and the graph leaves out; see struct graph_skip. */
struct machine_skip {
    const char *what, *why;
};

struct machine {
    const char *name, *label; /* NULL: "machine"; none */
    const char *arch;         /* "x86_64"; NULL: unknown */
    struct machine_package *packages;
    struct machine_numa *numas;
    struct machine_pci *pci;
    struct machine_nvlink *nvlinks;
    struct machine_c2c *c2cs;
    struct machine_port *ports;
    struct machine_skip *skips;
    uint32_t packages_count, numas_count, pci_count, nvlinks_count, c2cs_count,
        ports_count, skips_count;
    struct graph_number upi; /* between any two packages; unknown: by table */
    char **strings;
    uint32_t strings_count;
};

#define MACHINE_UNKNOWN            \
    {                              \
        GRAPH_UNKNOWN, ORIGIN_NONE \
    }
/* An initialiser: nothing is known. */
#define MACHINE_INIT                                            \
    {                                                           \
        .upi = {.value = GRAPH_UNKNOWN, .origin = ORIGIN_NONE } \
    }

/* Each adds one part with everything unknown and gives its place; NULL without memory. The pointer is good until
 * the next one of its kind. */
struct machine_package *machine_package_add(struct machine *machine);
struct machine_numa *machine_numa_add(struct machine *machine);
struct machine_pci *machine_pci_add(struct machine *machine, enum machine_pci_kind kind);
struct machine_nvlink *machine_nvlink_add(struct machine *machine);
struct machine_c2c *machine_c2c_add(struct machine *machine);
struct machine_port *machine_port_add(struct machine *machine);

/* Add NVLinks between `from` and `to` (as in struct machine_nvlink). Those of one pair are one bundle, and those from a
 * GPU to NVLink switches are one together; the bandwidth of a bundle is known where that of each part is. False
 * without memory. */
bool machine_nvlink_join(struct machine *machine, const struct machine_nvlink *more);
/* Keep one bundle of each pair of GPUs, from the lower to the higher: sources list a wire at one end or at both. */
void machine_nvlinks_pair(struct machine *machine);

/* List `what` as skipped, once where it repeats; the rest is printf's. False without memory. */
bool machine_skip(struct machine *machine, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A copy that lives as long as the machine; NULL without memory (and for NULL). */
const char *machine_string(struct machine *machine, const char *string);
/* By address; MACHINE_NONE. */
uint32_t machine_pci_find(const struct machine *machine, const char *address);

#define MACHINE_ADDRESS_BYTES 32
/* A PCI address as /sys writes it: a domain of four digits, lower case. Cut where it is too long. */
void machine_address(const char *address, char canonical_p[MACHINE_ADDRESS_BYTES]);

void machine_drop(struct machine *machine);

#endif
