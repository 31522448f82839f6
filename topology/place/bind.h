/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bind a progress thread to processors near the NIC of its rank.
 *
 * One idea: the decision is a pure function of the graph and of the processors that the
 * process may use (by cgroup and taskset), tested as a table (bind_decide.h); one system
 * call applies it.
 * Invariants: only processors that the process may use are chosen. If the graph lacks
 * data, or fewer than two processors would remain, nothing is chosen and nothing is
 * changed. The host program's own threads are never touched.
 */
#ifndef TRYST_TOPOLOGY_PLACE_BIND_H
#define TRYST_TOPOLOGY_PLACE_BIND_H

#include <stddef.h>
#include <stdint.h>

#include "core/text/err.h"

/** Bind the calling thread. `place` is the number of the calling process on this machine;
 *  the NIC is chosen for rank `place` modulo the number of the graph's ranks. `told`
 *  receives the decision as text. Detecting the machine takes a tenth of a second.
 *  TRYST_E_NOMEM; TRYST_E_SYSTEM; TRYST_E_UNSUPPORTED: no hwloc, or the graph of this
 *  machine has no rank. */
tryst_status bind_thread(uint32_t place, struct err *err, char *told,
                         size_t text_capacity);

#endif
