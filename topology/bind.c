/* SPDX-License-Identifier: Apache-2.0 */
/* See bind.h. */
#include "bind.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/alloc.h"
#include "graph_io.h"
#include "path.h"

/* -----------------------------------------------------------------------------
 * sets */

static void set_add(struct bind_set *set, uint32_t member)
{
    if (member < BIND_MAX)
        set->words[member / 64] |= (uint64_t)1 << member % 64;
}

bool bind_set_has(const struct bind_set *set, uint32_t member)
{
    return member < BIND_MAX && set->words[member / 64] >> member % 64 & 1;
}

uint32_t bind_set_count(const struct bind_set *set)
{
    uint32_t count = 0;
    for (size_t i = 0; i < BIND_MAX / 64; i++)
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

static struct bind_set set_common(const struct bind_set *a, const struct bind_set *b)
{
    struct bind_set common;
    for (size_t i = 0; i < BIND_MAX / 64; i++)
        common.words[i] = a->words[i] & b->words[i];
    return common;
}

static bool number_take(const char **at, uint32_t *number_p)
{
    const char *digit = *at;
    uint32_t number = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        number = number < 100000000 ? number * 10 + (uint32_t)(*digit - '0') : number;
    if (digit == *at)
        return false;
    *at = digit;
    *number_p = number;
    return true;
}

bool bind_set_parse(const char *list, struct bind_set *set_p)
{
    struct bind_set set = {{0}};
    while (*list && *list != '\n') {
        uint32_t first, last;
        if (!number_take(&list, &first))
            return false;
        last = first;
        if (*list == '-') {
            list++;
            if (!number_take(&list, &last) || last < first)
                return false;
        }
        for (; first <= last && first < BIND_MAX; first++)
            set_add(&set, first);
        if (*list == ',')
            list++;
        else if (*list && *list != '\n')
            return false;
    }
    *set_p = set;
    return true;
}

void bind_set_format(const struct bind_set *set, char *list, size_t capacity)
{
    size_t used = 0;
    list[0] = '\0';
    for (uint32_t first = 0, end; first < BIND_MAX && used < capacity; first = end) {
        end = first + 1;
        if (!bind_set_has(set, first))
            continue;
        while (bind_set_has(set, end))
            end++;
        int wrote =
            snprintf(list + used, capacity - used, end > first + 1 ? "%s%u-%u" : "%s%u",
                     used ? "," : "", first, end - 1);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* -----------------------------------------------------------------------------
 * the decision */

/* The nearest NIC to a node over anything but a network; of several as near, the (turn mod count)th. */
static uint32_t nic_choose(const struct graph *graph, const struct path *paths,
                           uint32_t turn)
{
    const uint32_t network = 1u << WIRE_ETHERNET | 1u << WIRE_INFINIBAND;
    uint32_t least = GRAPH_NONE, count = 0;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        if (graph->nodes[i].kind != NODE_NIC || paths[i].kinds & network ||
            paths[i].hops > least || paths[i].hops == GRAPH_NONE)
            continue;
        count = paths[i].hops < least ? 1 : count + 1;
        least = paths[i].hops;
    }
    for (uint32_t i = 0; count && i < graph->nodes_count; i++)
        if (graph->nodes[i].kind == NODE_NIC && !(paths[i].kinds & network) &&
            paths[i].hops == least && turn-- % count == 0)
            return i;
    return GRAPH_NONE;
}

/* The processors of what a device is in: the nearest thing around it that has any. */
static bool cpus_near(const struct graph *graph, uint32_t node, struct bind_set *cpus_p)
{
    while (node != GRAPH_NONE && !graph->nodes[node].cpus)
        node = graph->nodes[node].parent;
    return node != GRAPH_NONE && bind_set_parse(graph->nodes[node].cpus, cpus_p);
}

/* The system's number of the NUMA node that a node is in or whose processors it shares; GRAPH_NONE. */
static uint32_t memory_near(const struct graph *graph, uint32_t node)
{
    struct bind_set near, its;
    for (uint32_t at = node; at != GRAPH_NONE; at = graph->nodes[at].parent)
        if (graph->nodes[at].kind == NODE_NUMA)
            return graph->nodes[at].os_index;
    if (!cpus_near(graph, node, &near))
        return GRAPH_NONE;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        if (graph->nodes[i].kind != NODE_NUMA || !graph->nodes[i].cpus ||
            !bind_set_parse(graph->nodes[i].cpus, &its))
            continue;
        its = set_common(&its, &near);
        if (bind_set_count(&its))
            return graph->nodes[i].os_index;
    }
    return GRAPH_NONE;
}

/* The processors near `node` that were given; false when they are too few to be a choice. */
static bool cpus_choose(const struct graph *graph, uint32_t node,
                        const struct bind_given *given, struct bind_set *cpus_p)
{
    struct bind_set near;
    if (node == GRAPH_NONE || !cpus_near(graph, node, &near))
        return false;
    near = set_common(&near, &given->cpus);
    if (bind_set_count(&near) < 2) /* one alone would be the rank's own */
        return false;
    *cpus_p = near;
    return true;
}

tryst_status bind_decide(const struct graph *graph, uint32_t rank,
                         const struct bind_given *given, struct bind_choice *choice_p)
{
    struct bind_choice choice = {.memory_node = GRAPH_NONE, .nic = GRAPH_NONE};
    struct path *paths = mem_zalloc_array((size_t)graph->nodes_count + 1, sizeof *paths);
    uint32_t node = graph->ranks[rank];
    tryst_status status = paths ? path_find(graph, node, paths) : TRYST_E_NOMEM;
    if (status == TRYST_OK) {
        choice.nic = nic_choose(graph, paths, rank);
        if (!cpus_choose(graph, choice.nic, given, &choice.cpus)) {
            bool second = cpus_choose(graph, node, given, &choice.cpus);
            choice.why =
                second ? "no processors near the NIC were given: near the rank instead"
                       : "fewer than two processors near the NIC and the rank were given";
        }
        uint32_t memory = memory_near(graph, node);
        if (memory != GRAPH_NONE && bind_set_has(&given->nodes, memory))
            choice.memory_node = memory;
        *choice_p = choice;
    }
    mem_free(paths);
    return status;
}

static void choice_tell(const struct graph *graph, const struct bind_choice *choice,
                        char *told, size_t capacity)
{
    char list[96];
    bind_set_format(&choice->cpus, list, sizeof list);
    if (!*list)
        snprintf(told, capacity, "left where it is: %s",
                 choice->why ? choice->why : "nothing near is known");
    else if (choice->why || choice->nic == GRAPH_NONE)
        snprintf(told, capacity, "on processors %s: %s", list,
                 choice->why ? choice->why : "near the rank");
    else
        snprintf(told, capacity, "on processors %s, near %s", list,
                 graph->nodes[choice->nic].name);
}

tryst_status bind_here(uint32_t place, struct err *err, struct bind_choice *choice_p,
                       char *told, size_t told_capacity)
{
    struct bind_given given = {0};
    struct graph *graph = NULL;
    tryst_status status = bind_given_read(err, &given);
    if (status == TRYST_OK)
        status = graph_detect(err, &graph);
    if (status != TRYST_OK)
        return status;
    if (graph->ranks_count)
        status = bind_decide(graph, place % graph->ranks_count, &given, choice_p);
    else
        status =
            err_set(err, TRYST_E_UNSUPPORTED, "this machine has no place for a rank");
    if (status == TRYST_OK)
        choice_tell(graph, choice_p, told, told_capacity);
    graph_close(graph);
    return status;
}

/* -----------------------------------------------------------------------------
 * the system */

/* "Mems_allowed_list:	0-1" */
static bool nodes_read(struct bind_set *nodes_p)
{
    static const char name[] = "Mems_allowed_list:";
    char line[4096];
    bool found = false;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && !found && fgets(line, sizeof line, file))
        if (strncmp(line, name, sizeof name - 1) == 0)
            found = bind_set_parse(
                line + sizeof name - 1 + strspn(line + sizeof name - 1, " \t"), nodes_p);
    if (file)
        fclose(file);
    return found;
}

tryst_status bind_given_read(struct err *err, struct bind_given *given_p)
{
    struct bind_given given = {0};
    cpu_set_t *cpus = CPU_ALLOC(BIND_MAX);
    if (!cpus)
        return err_set(err, TRYST_E_NOMEM, "no memory for a set of processors");
    int result = sched_getaffinity(0, CPU_ALLOC_SIZE(BIND_MAX), cpus);
    int error = errno;
    for (uint32_t i = 0; result == 0 && i < BIND_MAX; i++)
        if (CPU_ISSET_S(i, CPU_ALLOC_SIZE(BIND_MAX), cpus))
            set_add(&given.cpus, i);
    CPU_FREE(cpus);
    if (result != 0)
        return err_set(err, TRYST_E_SYSTEM, "the affinity cannot be read: %s",
                       strerror(error));
    if (!nodes_read(&given.nodes)) /* a kernel without NUMA */
        set_add(&given.nodes, 0);
    *given_p = given;
    return TRYST_OK;
}

tryst_status bind_thread(const struct bind_choice *choice, struct err *err)
{
    if (!bind_set_count(&choice->cpus))
        return TRYST_OK;
    cpu_set_t *cpus = CPU_ALLOC(BIND_MAX);
    if (!cpus)
        return err_set(err, TRYST_E_NOMEM, "no memory for a set of processors");
    CPU_ZERO_S(CPU_ALLOC_SIZE(BIND_MAX), cpus);
    for (uint32_t i = 0; i < BIND_MAX; i++)
        if (bind_set_has(&choice->cpus, i))
            CPU_SET_S(i, CPU_ALLOC_SIZE(BIND_MAX), cpus);
    int result = sched_setaffinity(0, CPU_ALLOC_SIZE(BIND_MAX), cpus);
    int error = errno;
    CPU_FREE(cpus);
    if (result != 0)
        return err_set(err, TRYST_E_SYSTEM, "the progress thread cannot be moved: %s",
                       strerror(error));
    return TRYST_OK;
}

tryst_status bind_memory(const struct bind_choice *choice, void *memory, size_t bytes,
                         struct err *err)
{
    struct bind_set nodes = {{0}};
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)memory + bytes) / page * page;
    if (choice->memory_node >= BIND_MAX || begin >= end)
        return TRYST_OK;
    set_add(&nodes, choice->memory_node);
    if (syscall(SYS_mbind, begin, end - begin, MPOL_PREFERRED, nodes.words,
                BIND_MAX + 1ul, 0) == 0 ||
        errno == ENOSYS)
        return TRYST_OK;
    return err_set(err, TRYST_E_SYSTEM, "memory cannot be asked for near the rank: %s",
                   strerror(errno));
}
