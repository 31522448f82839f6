/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRYST_TESTS_TOPOLOGY_GRAPH_EQUAL_H
#define TRYST_TESTS_TOPOLOGY_GRAPH_EQUAL_H

#include "topology/base/graph.h"

/** True if both have the same nodes, links, routes and numbers, in the same order. */
bool graph_equal(const struct graph *a, const struct graph *b);

#endif
