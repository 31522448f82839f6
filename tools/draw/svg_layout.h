/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a picture: places and sizes. topo_svg.c draws it.
 *
 * One idea: one layout for all sizes. A machine is a panel: a tree from its packages to
 * its devices, one column for each leaf; columns are narrower where there are more.
 * Panels form a grid. A network switch that NICs lead to is a comb: a bar under every row
 * of panels, joined at the left, so its wires never cross a machine. svg_network.c lays
 * out a cluster without machines.
 */
#ifndef TRYST_TOOLS_DRAW_SVG_LAYOUT_H
#define TRYST_TOOLS_DRAW_SVG_LAYOUT_H

#include "picture.h"
#include "tools/svg.h"

/** The shape of a picture; svg_network.h describes the last three. */
enum svg_shape { SVG_PANELS, SVG_LAYERS, SVG_GRID, SVG_CIRCLE };

struct svg_layout {
    const struct picture *picture;
    struct tool_svg_box *places; /**< by node; w 0: the node has no box */
    /** By node, PICTURE_NONE at the end. The block of all arrays of numbers begins at
     *  first_child. */
    uint32_t *first_child, *next_sibling;
    double cell;          /**< width of a column */
    double row;           /**< height of a row of a machine */
    double font;          /**< size of labels; 0: only machines have labels */
    double width, height; /**< of the drawing, without title and legend */
    /** Number of panels, or of nodes of the grid, side by side. */
    uint32_t columns;
    uint32_t combs_count; /**< number of switches drawn as combs */
    double comb_gap;      /**< distance of neighbouring bars */
    /** x of the first comb's spine; other spines are left of it */
    double spine_x;
    /** The picture has machines, so there are panels. */
    bool machines;
    enum svg_shape shape;
    /** The rest is for a cluster without machines; the arrays are by node. */
    uint32_t *level; /**< hops from the nearest rank; PICTURE_NONE: unreachable */
    /** Grid, circle: the only neighbour of a leaf node; PICTURE_NONE: not a leaf. */
    uint32_t *hub;
    /** Position in the row, grid or circle, or among the leaves of its hub. */
    uint32_t *seat;
    uint32_t *hung;            /**< by hub: number of its leaves */
    uint32_t seats;            /**< number of seats of the grid or circle */
    double centre_x, centre_y; /**< of the circle */
    bool straight;             /**< straight wires across the circle pass no box */
};

/** Compute the layout. False: out of memory. */
bool svg_layout_open(const struct picture *picture, struct svg_layout *layout);
void svg_layout_close(struct svg_layout *layout);

/** Return the comb number of a switch; PICTURE_NONE where it is not a comb. */
uint32_t svg_comb_of(const struct svg_layout *layout, uint32_t node);
/** Return the y of comb `comb`'s bar under the panel of machine `machine`. */
double svg_bar_y(const struct svg_layout *layout, uint32_t machine, uint32_t comb);
/** Return the x at which a wire from `node` to `above` passes the NUMA node between them;
 *  NAN where no such node is between them. */
double svg_lane_x(const struct svg_layout *layout, uint32_t node, uint32_t above);
/** Return the box of a node; for a node without a box, that of its parent. */
struct tool_svg_box svg_place_of(const struct svg_layout *layout, uint32_t node);

#endif
