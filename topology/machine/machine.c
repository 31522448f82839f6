/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"

#define SKIP_BYTES 256 /* longer reasons are cut */

/* Make room for one more item in the array at `items_p`, which has `count` items. Arrays
 * double at powers of two. */
static bool room_make(void *items_p, uint32_t count, size_t item_bytes)
{
    size_t room = count;
    return (count & (count - 1)) != 0 || /* between two powers of two there is room */
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
    return ADD(machine, nvlinks,
               (struct machine_nvlink){.to = MACHINE_NONE,
                                       .package = MACHINE_NONE,
                                       .bytes_per_s = MACHINE_UNKNOWN});
}

static uint16_t count_sum(unsigned a, unsigned b)
{
    return (uint16_t)(a + b < UINT16_MAX ? a + b : UINT16_MAX);
}

static struct graph_number number_sum(struct graph_number a, struct graph_number b)
{
    if (a.value == GRAPH_UNKNOWN || b.value == GRAPH_UNKNOWN)
        return (struct graph_number)MACHINE_UNKNOWN;
    return (struct graph_number){a.value + b.value, a.origin};
}

bool machine_nvlink_join(struct machine *machine, const struct machine_nvlink *more)
{
    for (uint32_t i = 0; i < machine->nvlinks_count; i++) {
        struct machine_nvlink *bundle = &machine->nvlinks[i];
        if (bundle->from != more->from || bundle->to != more->to ||
            bundle->to_package != more->to_package ||
            (more->to_package && bundle->package != more->package))
            continue;
        bundle->count = count_sum(bundle->count, more->count);
        bundle->bytes_per_s = number_sum(bundle->bytes_per_s, more->bytes_per_s);
        return true;
    }
    struct machine_nvlink *bundle = machine_nvlink_add(machine);
    if (bundle)
        *bundle = *more;
    return bundle != NULL;
}

static bool nvlink_exists(const struct machine *machine, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < machine->nvlinks_count; i++)
        if (machine->nvlinks[i].from == from && machine->nvlinks[i].to == to)
            return true;
    return false;
}

void machine_nvlinks_pair(struct machine *machine)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < machine->nvlinks_count; i++) {
        struct machine_nvlink bundle = machine->nvlinks[i];
        bool upwards = bundle.to == MACHINE_NONE || bundle.from < bundle.to;
        if (!upwards && nvlink_exists(machine, bundle.to, bundle.from))
            continue;
        if (!upwards) {
            uint32_t from = bundle.from;
            bundle.from = bundle.to;
            bundle.to = from;
        }
        machine->nvlinks[kept++] = bundle;
    }
    machine->nvlinks_count = kept;
}

bool machine_skip(struct machine *machine, const char *what, const char *fmt, ...)
{
    char why[SKIP_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    uint32_t count = machine->skips_count;
    if (count && strcmp(machine->skips[count - 1].what, what) == 0 &&
        strcmp(machine->skips[count - 1].why, why) == 0)
        return true;
    struct machine_skip kept = {.what = machine_string(machine, what)};
    kept.why = kept.what ? machine_string(machine, why) : NULL;
    struct machine_skip *added = kept.why ? ADD(machine, skips, kept) : NULL;
    return added != NULL;
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
    bool bare = length == strlen("00:00.0") && address[2] == ':'; /* as lspci writes it */
    if (length == usual + 4 && strncmp(address, "0000", 4) == 0)
        address += 4; /* NVML writes eight digits of domain */
    snprintf(canonical_p, MACHINE_ADDRESS_BYTES, "%s%s", bare ? "0000:" : "", address);
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
    mem_free(machine->skips);
    *machine = (struct machine){0};
}
