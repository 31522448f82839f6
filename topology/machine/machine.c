/* SPDX-License-Identifier: Apache-2.0 */
/* The description's arrays; see machine.h. */
#include "machine.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

/* Room for one more in `items_p` (which has `count`): arrays double at powers of two. */
static bool room_make(void *items_p, uint32_t count, size_t item_bytes)
{
    size_t room = count;
    return (count & (count - 1)) != 0 || /* between two powers there is room */
           mem_reserve(items_p, &room, room + 1, item_bytes);
}

#define ADD(machine, items, ...)                                                     \
    room_make(&(machine)->items, (machine)->items##_count, sizeof *(machine)->items) \
        ? ((machine)->items[(machine)->items##_count] = __VA_ARGS__,                 \
           &(machine)->items[(machine)->items##_count++])                            \
        : NULL

struct machine_package *machine_package_add(struct machine *machine)
{
    return ADD(machine, packages, (struct machine_package){.os_index = GRAPH_NONE});
}

struct machine_numa *machine_numa_add(struct machine *machine)
{
    return ADD(machine, numas,
               (struct machine_numa){.os_index = GRAPH_NONE,
                                     .package = MACHINE_NONE,
                                     .bytes_per_s = MACHINE_UNKNOWN,
                                     .latency_ns = MACHINE_UNKNOWN});
}

struct machine_pci *machine_pci_add(struct machine *machine, enum machine_pci_kind kind)
{
    return ADD(machine, pci,
               (struct machine_pci){.kind = kind,
                                    .parent = MACHINE_NONE,
                                    .package = MACHINE_NONE,
                                    .numa = MACHINE_NONE,
                                    .bytes_per_s = MACHINE_UNKNOWN,
                                    .os_index = GRAPH_NONE,
                                    .rank = GRAPH_NONE,
                                    .node = GRAPH_NONE});
}

struct machine_nvlink *machine_nvlink_add(struct machine *machine)
{
    return ADD(
        machine, nvlinks,
        (struct machine_nvlink){.to = MACHINE_NONE, .bytes_per_s = MACHINE_UNKNOWN});
}

bool machine_nvlink_join(struct machine *machine, const struct machine_nvlink *more)
{
    for (uint32_t i = 0; i < machine->nvlinks_count; i++) {
        struct machine_nvlink *bundle = &machine->nvlinks[i];
        if (bundle->from != more->from || bundle->to != more->to ||
            bundle->to_package != more->to_package)
            continue;
        bundle->count = (uint16_t)(bundle->count + more->count);
        if (more->bytes_per_s.value != GRAPH_UNKNOWN)
            bundle->bytes_per_s.value += more->bytes_per_s.value;
        return true;
    }
    struct machine_nvlink *bundle = machine_nvlink_add(machine);
    if (bundle)
        *bundle = *more;
    return bundle != NULL;
}

struct machine_c2c *machine_c2c_add(struct machine *machine)
{
    return ADD(machine, c2cs, (struct machine_c2c){.bytes_per_s = MACHINE_UNKNOWN});
}

struct machine_port *machine_port_add(struct machine *machine)
{
    return ADD(machine, ports,
               (struct machine_port){.nic = MACHINE_NONE,
                                     .bytes_per_s = MACHINE_UNKNOWN,
                                     .latency_ns = MACHINE_UNKNOWN});
}

const char *machine_string(struct machine *machine, const char *string)
{
    if (!string ||
        !room_make(&machine->strings, machine->strings_count, sizeof *machine->strings))
        return NULL;
    char *copy = mem_strdup(string);
    if (copy)
        machine->strings[machine->strings_count++] = copy;
    return copy;
}

uint32_t machine_pci_find(const struct machine *machine, const char *address)
{
    for (uint32_t i = 0; i < machine->pci_count; i++)
        if (machine->pci[i].address && strcmp(machine->pci[i].address, address) == 0)
            return i;
    return MACHINE_NONE;
}

void machine_address(const char *address, char canonical_p[MACHINE_ADDRESS_BYTES])
{
    size_t length = strlen(address), usual = strlen("0000:00:00.0");
    if (length == usual + 4 && strncmp(address, "0000", 4) == 0)
        address += 4; /* NVML's eight digits of domain */
    snprintf(canonical_p, MACHINE_ADDRESS_BYTES, "%s", address);
    for (char *c = canonical_p; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

void machine_drop(struct machine *machine)
{
    for (uint32_t i = 0; i < machine->strings_count; i++)
        mem_free(machine->strings[i]);
    mem_free(machine->strings);
    mem_free(machine->packages);
    mem_free(machine->numas);
    mem_free(machine->pci);
    mem_free(machine->nvlinks);
    mem_free(machine->c2cs);
    mem_free(machine->ports);
    *machine = (struct machine){0};
}
