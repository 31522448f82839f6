/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a rank's progress thread runs and where its memory lies: the thread near its NIC, memory near its rank.
 *
 * One idea: the decision is a pure function of the graph and of what the process may use (its cgroup's and
 * taskset's word), tested as a table; applying it is three system calls.
 * Invariants: nothing outside of what the process was given is ever chosen; where the graph knows too little, or
 * the choice would leave fewer than two processors of those given, nothing is chosen and nothing is changed. The
 * host program's own threads are never touched.
 * Callers: commsched/thread.c (bind_here, bind_thread); who makes memory for a rank.
 */
#ifndef TRYST_TOPOLOGY_BIND_H
#define TRYST_TOPOLOGY_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct graph;

#define BIND_MAX 4096 /* processors, NUMA nodes; those beyond are not chosen */

struct bind_set {
    uint64_t words[BIND_MAX / 64];
};

/** A list as in /sys ("0-3,8"). False when it is none; members of BIND_MAX and beyond are left out. */
bool bind_set_parse(const char *list, struct bind_set *set_p);
/** The other way round, cut where it has no room. */
void bind_set_format(const struct bind_set *set, char *list, size_t capacity);
uint32_t bind_set_count(const struct bind_set *set);
bool bind_set_has(const struct bind_set *set, uint32_t member);

/* What the process may use. */
struct bind_given {
    struct bind_set cpus, nodes; /* nodes: NUMA nodes by the system's number */
};

struct bind_choice {
    struct bind_set cpus; /* of the progress thread; empty: leave it as it is */
    uint32_t
        memory_node; /* the system's number of a NUMA node; GRAPH_NONE: leave it to the system */
    uint32_t nic;    /* the node whose NIC is meant; GRAPH_NONE */
    const char *why; /* of an empty or second choice, for the log; NULL: all as wanted */
};

/** `rank` is a rank's number; its NIC is the nearest one (of several the (rank mod count)th). The graph is sealed.
 *  TRYST_E_NOMEM. */
tryst_status bind_decide(const struct graph *graph, uint32_t rank,
                         const struct bind_given *given, struct bind_choice *choice_p);

/** The decision on this machine, for the process that is number `place` on it: the one that has its rank, of which there
 *  may be fewer than processes. `told` gets what was decided, in words. Detects the machine, so it takes a tenth of a
 *  second. TRYST_E_NOMEM, TRYST_E_SYSTEM, TRYST_E_UNSUPPORTED. */
tryst_status bind_here(uint32_t place, struct err *err, struct bind_choice *choice_p,
                       char *told, size_t told_capacity);

/** Reads this thread's affinity and Mems_allowed. TRYST_E_SYSTEM. */
tryst_status bind_given_read(struct err *err, struct bind_given *given_p);
/** Moves the calling thread, if anything was chosen. TRYST_E_SYSTEM. */
tryst_status bind_thread(const struct bind_choice *choice, struct err *err);
/** Asks for whole pages inside `bytes` at `memory` near the rank, if anything was chosen: a preference, pages that
 *  exist stay where they are. TRYST_E_SYSTEM. */
tryst_status bind_memory(const struct bind_choice *choice, void *memory, size_t bytes,
                         struct err *err);

#endif
