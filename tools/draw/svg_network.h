/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a cluster without machines: the places of ranks and switches, and the
 * curve of each wire.
 *
 * One idea: three shapes; in each of them no wire passes a box at which it does not end,
 * whatever the network.
 *
 *   layers  if wires join a level (hops from the nearest rank) with the next, or
 *           neighbours in a row: star, racks, fat tree. Wires run between two rows, or
 *           between two neighbours in a row.
 *   grid    if the nodes, numbered by rows, are joined only along rows and columns: a
 *           torus. Longer wires are arcs above the row or left of the column.
 *   circle  any other network. A wire is straight where it passes no box: to the next
 *           node, or on a circle with room between its nodes. Else it bends towards the
 *           centre.
 *
 * In grid and circle a node with one neighbour is a leaf of that neighbour, its hub:
 * below the hub or outside of the circle.
 */
#ifndef TRYST_TOOLS_DRAW_SVG_NETWORK_H
#define TRYST_TOOLS_DRAW_SVG_NETWORK_H

#include "svg_layout.h"

/** A quadratic Bézier curve from a to b with the control point c. */
struct svg_curve {
    double ax, ay, cx, cy, bx, by;
};

/** Place all nodes: in layers, on a grid or on a circle. */
void svg_network_place(struct svg_layout *layout);

/** Return the curve of a wire. */
struct svg_curve svg_network_wire(const struct svg_layout *layout,
                                  const struct picture_wire *wire);

#endif
