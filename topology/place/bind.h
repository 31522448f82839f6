/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a progress thread runs: near the NIC of its rank.
 *
 * One idea: the decision is a pure function of the graph and of what the process may use (its cgroup's and
 * taskset's word), tested as a table (bind_decide.h); applying it is one system call.
 * Invariants: nothing outside of what the process was given is ever chosen; where the graph knows too little, or
 * the choice would leave fewer than two processors of those given, nothing is chosen and nothing is changed. The
 * host program's own threads are never touched.
 * Callers: commsched/thread.c.
 */
#ifndef TRYST_TOPOLOGY_BIND_H
#define TRYST_TOPOLOGY_BIND_H

#include <stddef.h>
#include <stdint.h>

#include "core/text/err.h"

/** Moves the calling thread, of the process that is number `place` on this machine (the rank of that number modulo
 *  how many the machine has). `told` gets what was decided, in words. Detects the machine, so it takes a tenth of
 *  a second. TRYST_E_NOMEM, TRYST_E_SYSTEM, TRYST_E_UNSUPPORTED. */
tryst_status bind_thread(uint32_t place, struct err *err, char *told,
                         size_t told_capacity);

#endif
