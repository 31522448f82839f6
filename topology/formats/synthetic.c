/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read a synthetic machine: "node:4 gpu:8 nvlink:450GB nic:2x50GB". README.md has the
 * grammar.
 *
 * All machines are equal. The GPUs are divided among the NICs: each NIC and its GPUs are
 * on one PCIe switch, so each GPU has a NIC nearby. All NICs lead to one network switch,
 * all NVLinks of a machine to one NVLink switch.
 * Ranks: one for each GPU; without GPUs one for each NUMA node.
 */
#include "synthetic.h"

#include <stdio.h>
#include <string.h>

#include "graph_fill.h"
#include "topology/base/decimal.h"
#include "topology/base/link_table.h"
#include "topology/machine/machine.h"
#include "topology/machine/machine_build.h"

#define PARTS_MAX 200000 /* the most parts, a rough count of nodes and links */

struct recipe {
    uint32_t nodes, numas, gpus, nics;
    uint16_t pci_generation, pci_lanes;
    struct graph_number nvlink, nic, upi, memory, latency_ns;
    uint32_t seen; /* bit i: word i was read */
};

struct reader {
    const struct source *source;
    size_t at;
    struct recipe recipe;
};

/* ---- numbers ----------------------------------------------------------------------- */

static tryst_status refuse(const struct reader *reader, size_t at, const char *reason)
{
    return source_refuse(reader->source,
                         text_place_at(reader->source->text, reader->source->bytes, at),
                         "%s", reason);
}

static char peek(const struct reader *reader)
{
    return reader->at < reader->source->bytes ? reader->source->text[reader->at] : '\0';
}

static bool accept(struct reader *reader, const char *word)
{
    size_t length = strlen(word);
    if (reader->source->bytes - reader->at < length ||
        memcmp(reader->source->text + reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static tryst_status count_read(struct reader *reader, uint32_t min, uint32_t max,
                               uint32_t *count_p)
{
    size_t begin = reader->at;
    uint64_t count = 0;
    for (; is_digit(peek(reader)) && count <= max; reader->at++)
        count = count * 10 + (uint64_t)(peek(reader) - '0');
    if (reader->at == begin)
        return refuse(reader, begin, "a whole number is needed here");
    if (count < min || count > max)
        return source_refuse(
            reader->source,
            text_place_at(reader->source->text, reader->source->bytes, begin),
            "the number must be %u to %u", min, max);
    *count_p = (uint32_t)count;
    return TRYST_OK;
}

static tryst_status number_read(struct reader *reader, double *value_p)
{
    size_t begin = reader->at;
    reader->at += decimal_read(reader->source->text + begin,
                               reader->source->bytes - begin, value_p);
    if (reader->at == begin)
        return refuse(reader, begin, "a number is needed here");
    if (!(*value_p > 0))
        return refuse(reader, begin, "the number must be above 0");
    return TRYST_OK;
}

struct unit {
    const char *name;
    double factor;
};

static tryst_status unit_read(struct reader *reader, const struct unit *units,
                              const char *reason, double *factor_p)
{
    for (; units->name; units++)
        if (accept(reader, units->name)) {
            *factor_p = units->factor;
            return TRYST_OK;
        }
    return refuse(reader, reader->at, reason);
}

static tryst_status quantity_read(struct reader *reader, const struct unit *units,
                                  const char *reason, struct graph_number *number_p)
{
    double value = 0, factor = 0;
    tryst_status status = number_read(reader, &value);
    if (status == TRYST_OK)
        status = unit_read(reader, units, reason, &factor);
    if (status == TRYST_OK)
        *number_p = (struct graph_number){value * factor, ORIGIN_IMPORTED};
    return status;
}

/* Read a rate per second and direction: "450GB" is bytes, "400Gb" bits. */
static tryst_status rate_read(struct reader *reader, struct graph_number *rate_p)
{
    static const struct unit units[] = {
        {"GB", 1e9},     {"MB", 1e6},     {"KB", 1e3},      {"TB", 1e12},
        {"Gb", 1e9 / 8}, {"Mb", 1e6 / 8}, {"Tb", 1e12 / 8}, {NULL, 0}};
    return quantity_read(
        reader, units,
        "a unit is needed here: KB, MB, GB, TB (bytes a second) or Mb, Gb, Tb (bits)",
        rate_p);
}

static tryst_status latency_read(struct reader *reader)
{
    static const struct unit units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {NULL, 0}};
    return quantity_read(reader, units, "a unit is needed here: ns, us or ms",
                         &reader->recipe.latency_ns);
}

/* Read "2x50GB", or "50GB" for one NIC. */
static tryst_status nic_read(struct reader *reader)
{
    size_t begin = reader->at;
    uint32_t digits = 0;
    while (is_digit(peek(reader))) {
        reader->at++;
        digits++;
    }
    bool counted = digits && peek(reader) == 'x';
    reader->at = begin;
    reader->recipe.nics = 1;
    tryst_status status = TRYST_OK;
    if (counted) {
        status = count_read(reader, 1, 1024, &reader->recipe.nics);
        if (status == TRYST_OK)
            accept(reader, "x");
    }
    return status == TRYST_OK ? rate_read(reader, &reader->recipe.nic) : status;
}

/* Read "5x16": generation and lanes of the PCIe links. */
static tryst_status pcie_read(struct reader *reader)
{
    uint32_t generation, lanes;
    tryst_status status = count_read(reader, 1, 6, &generation);
    if (status == TRYST_OK && !accept(reader, "x"))
        return refuse(reader, reader->at,
                      "pcie: needs generation x lanes, as in pcie:5x16");
    if (status == TRYST_OK)
        status = count_read(reader, 1, 32, &lanes);
    if (status == TRYST_OK) {
        reader->recipe.pci_generation = (uint16_t)generation;
        reader->recipe.pci_lanes = (uint16_t)lanes;
    }
    return status;
}

/* ---- words ------------------------------------------------------------------------- */

enum word {
    WORD_NODE,
    WORD_NUMA,
    WORD_GPU,
    WORD_NVLINK,
    WORD_NIC,
    WORD_PCIE,
    WORD_UPI,
    WORD_MEMORY,
    WORD_LATENCY,
    WORDS
};

static const char *const word_names[WORDS] = {
    "node:", "numa:", "gpu:", "nvlink:", "nic:", "pcie:", "upi:", "memory:", "latency:"};

static tryst_status value_read(struct reader *reader, enum word word)
{
    struct recipe *recipe = &reader->recipe;
    switch (word) {
    case WORD_NODE: return count_read(reader, 1, 65536, &recipe->nodes);
    case WORD_NUMA: return count_read(reader, 1, 64, &recipe->numas);
    case WORD_GPU: return count_read(reader, 0, 1024, &recipe->gpus);
    case WORD_NVLINK: return rate_read(reader, &recipe->nvlink);
    case WORD_NIC: return nic_read(reader);
    case WORD_PCIE: return pcie_read(reader);
    case WORD_UPI: return rate_read(reader, &recipe->upi);
    case WORD_MEMORY: return rate_read(reader, &recipe->memory);
    case WORD_LATENCY: return latency_read(reader);
    default: return TRYST_OK;
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static tryst_status word_read(struct reader *reader)
{
    size_t begin = reader->at;
    int word = 0;
    while (word < WORDS && !accept(reader, word_names[word]))
        word++;
    if (word == WORDS)
        return refuse(
            reader, begin,
            "unknown word: a synthetic topology has node:, numa:, gpu:, nvlink:, nic:, "
            "pcie:, upi:, memory: and latency:, as in node:4 gpu:8 nvlink:450GB "
            "nic:2x50GB");
    if (reader->recipe.seen >> word & 1)
        return refuse(reader, begin, "this word is used twice");
    reader->recipe.seen |= 1u << word;
    tryst_status status = value_read(reader, (enum word)word);
    if (status == TRYST_OK && reader->at < reader->source->bytes &&
        !is_blank(peek(reader)))
        return refuse(reader, reader->at, "a blank is needed between two words");
    return status;
}

static tryst_status recipe_check(const struct reader *reader)
{
    const struct recipe *recipe = &reader->recipe;
    uint64_t parts =
        (uint64_t)recipe->nodes *
        (2 * (recipe->gpus + recipe->nics) + recipe->numas * (uint64_t)recipe->numas + 2);
    if (!recipe->seen)
        return refuse(
            reader, 0,
            "the topology is empty; an example: node:4 gpu:8 nvlink:450GB nic:2x50GB");
    if (recipe->nodes > 1 && !recipe->nics)
        return refuse(
            reader, 0,
            "no network joins the nodes: add the NICs and their rate, as in nic:2x50GB");
    if (parts > PARTS_MAX)
        return refuse(reader, 0, "the topology is too large: more than 200,000 parts");
    return TRYST_OK;
}

static tryst_status recipe_read(struct reader *reader)
{
    tryst_status status = TRYST_OK;
    while (status == TRYST_OK) {
        while (is_blank(peek(reader)))
            reader->at++;
        if (reader->at == reader->source->bytes)
            return recipe_check(reader);
        status = word_read(reader);
    }
    return status;
}

/* ---- the machine ------------------------------------------------------------------- */

static struct machine_pci *pci_add(struct machine *machine, enum machine_pci_kind kind,
                                   uint32_t parent, uint32_t numa,
                                   const struct recipe *recipe)
{
    struct machine_pci *pci = machine_pci_add(machine, kind);
    if (!pci)
        return NULL;
    pci->parent = parent;
    pci->package = pci->numa = numa;
    pci->generation = recipe->pci_generation;
    pci->width = recipe->pci_lanes;
    return pci;
}

static tryst_status processors_make(struct machine *machine, const struct recipe *recipe)
{
    machine->upi = recipe->upi;
    for (uint32_t i = 0; i < recipe->numas; i++) {
        struct machine_package *package = machine_package_add(machine);
        struct machine_numa *numa = package ? machine_numa_add(machine) : NULL;
        struct machine_pci *bridge =
            numa ? machine_pci_add(machine, PCI_HOST_BRIDGE) : NULL;
        if (!bridge)
            return TRYST_E_NOMEM;
        package->os_index = numa->os_index = numa->package = i;
        numa->bytes_per_s = recipe->memory;
        bridge->package = bridge->numa = i; /* host bridge i is device i */
    }
    return TRYST_OK;
}

static tryst_status gpu_make(struct machine *machine, const struct recipe *recipe,
                             uint32_t parent, uint32_t numa)
{
    if (!pci_add(machine, PCI_GPU, parent, numa, recipe))
        return TRYST_E_NOMEM;
    uint32_t gpu = machine->pci_count - 1;
    if (recipe->nvlink.value == GRAPH_UNKNOWN)
        return TRYST_OK;
    struct machine_nvlink *nvlink = machine_nvlink_add(machine);
    if (!nvlink)
        return TRYST_E_NOMEM;
    nvlink->from = gpu;
    nvlink->bytes_per_s = recipe->nvlink;
    return TRYST_OK;
}

/* Add a NIC and `gpus` GPUs on a new PCIe switch. */
static tryst_status nic_make(struct machine *machine, const struct recipe *recipe,
                             uint32_t nic, uint32_t gpus)
{
    char name[32];
    uint32_t numa = nic * recipe->numas / recipe->nics;
    tryst_status status = TRYST_OK;
    snprintf(name, sizeof name, "nic%u", nic);
    const char *kept = machine_string(machine, name);
    if (!kept || !pci_add(machine, PCI_BRIDGE, numa, numa, recipe))
        return TRYST_E_NOMEM;
    uint32_t bridge = machine->pci_count - 1;
    for (uint32_t i = 0; status == TRYST_OK && i < gpus; i++)
        status = gpu_make(machine, recipe, bridge, numa);
    struct machine_pci *pci =
        status == TRYST_OK ? pci_add(machine, PCI_NIC, bridge, numa, recipe) : NULL;
    struct machine_port *port = pci ? machine_port_add(machine) : NULL;
    if (!port)
        return TRYST_E_NOMEM;
    pci->name = port->name = kept;
    port->nic = machine->pci_count - 1;
    port->kind = WIRE_ETHERNET;
    port->bytes_per_s = recipe->nic;
    port->latency_ns = recipe->latency_ns;
    return TRYST_OK;
}

static tryst_status machine_make(struct machine *machine, const struct recipe *recipe)
{
    tryst_status status = processors_make(machine, recipe);
    for (uint32_t i = 0; status == TRYST_OK && i < recipe->nics; i++)
        status = nic_make(machine, recipe, i,
                          (i + 1) * recipe->gpus / recipe->nics -
                              i * recipe->gpus / recipe->nics);
    for (uint32_t i = 0; status == TRYST_OK && !recipe->nics && i < recipe->gpus; i++) {
        uint32_t numa = i * recipe->numas / recipe->gpus;
        status = gpu_make(machine, recipe, numa, numa);
    }
    return status;
}

/* ---- the graph --------------------------------------------------------------------- */

static tryst_status graph_fill(void *arg, struct graph *graph, struct err *why)
{
    const struct recipe *recipe = arg;
    char prefix[32] = "";
    struct machine_build build = {.prefix = prefix, .ranks = true, .network = GRAPH_NONE};
    struct graph_node network = {.name = "switch",
                                 .kind = NODE_SWITCH,
                                 .parent = GRAPH_NONE,
                                 .os_index = GRAPH_NONE};
    tryst_status status = TRYST_OK;
    if (recipe->nics)
        status = graph_node_add(graph, &network, why, &build.network);
    for (uint32_t i = 0; status == TRYST_OK && i < recipe->nodes; i++) {
        struct machine machine = MACHINE_INIT;
        if (recipe->nodes > 1)
            snprintf(prefix, sizeof prefix, "node%u/", i);
        status = machine_make(&machine, recipe);
        if (status == TRYST_OK)
            status = machine_build(graph, &machine, &build, why);
        machine_drop(&machine);
    }
    return status;
}

tryst_status synthetic_read(const struct source *source, struct graph **graph_p)
{
    static const struct graph_number unknown = MACHINE_UNKNOWN;
    static const struct graph_number unlimited = {GRAPH_UNLIMITED, ORIGIN_NONE};
    struct reader reader = {.source = source,
                            .recipe = {.nodes = 1,
                                       .numas = 1,
                                       .pci_generation = 5,
                                       .pci_lanes = 16,
                                       .nvlink = unknown,
                                       .nic = unknown,
                                       .upi = unknown,
                                       .memory = unlimited,
                                       .latency_ns = unknown}};
    tryst_status status = recipe_read(&reader);
    if (status == TRYST_OK)
        status = graph_fill_open(source, (struct text_place){1, 1}, graph_fill,
                                 &reader.recipe, graph_p);
    return status;
}
