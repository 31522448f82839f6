/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a cluster without machines: where ranks and switches are, and the curve of each wire.
 *
 * One idea: three shapes, each of which keeps every wire clear of the boxes at which it does not end, whatever the graph.
 *
 *   layers  where links join a level (hops from the nearest rank) with the next, or neighbours in a row: star, racks,
 *           fat tree. Wires run between two rows.
 *   grid    where the nodes, numbered by rows, are joined along rows and columns alone: torus. Longer wires are arcs
 *           above the row or left of the column.
 *   circle  all else. No box is on the way between two nodes of a circle once a wire bends towards the centre.
 *
 * In grid and circle a node with one neighbour hangs on it: under it, or outside of the circle.
 * Callers: svg_layout.c (places), graph_svg.c (wires).
 */
#ifndef TRYST_TOPOLOGY_SVG_NETWORK_H
#define TRYST_TOPOLOGY_SVG_NETWORK_H

#include "svg_layout.h"

/* From a to b; c is the control point of a quadratic Bézier curve. */
struct svg_curve {
    double ax, ay, cx, cy, bx, by;
};

/** Place all nodes, by levels, on a grid or on a circle. TRYST_E_NOMEM. */
tryst_status svg_network_place(struct svg_layout *layout);

/** The curve of a wire; `turn` counts earlier wires between the same two nodes. */
struct svg_curve svg_network_wire(const struct svg_layout *layout,
                                  const struct graph_link *link, uint32_t turn);

#endif
