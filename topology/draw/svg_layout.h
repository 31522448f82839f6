/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as a picture: where everything stands, apart from how it is drawn (graph_svg.c).
 *
 * One idea: one layout for all sizes. A machine is a panel, a tree from its packages down to its devices, one
 * column for each leaf; how wide a column is depends on how many there are. Panels stand in a grid. A network
 * switch that NICs lead to is a comb: a bar under every row of panels, joined at the left, so its wires never cross
 * a machine. A cluster without machines is svg_network.c's.
 * Callers: graph_svg.c.
 */
#ifndef TRYST_TOPOLOGY_SVG_LAYOUT_H
#define TRYST_TOPOLOGY_SVG_LAYOUT_H

#include "topology/base/arrays.h"
#include "topology/base/graph.h"

struct svg_place {
    double x, y, w, h; /* of its box; w 0: it has none */
};

/* Which of its parts a picture has; see svg_network.h for the last three. */
enum svg_shape { SVG_PANELS, SVG_LAYERS, SVG_GRID, SVG_CIRCLE };

struct svg_layout {
    struct arrays arrays;
    const struct graph *graph;
    struct svg_place *places;             /* by node */
    uint32_t *first_child, *next_sibling; /* by node; see graph_children */
    double cell;                          /* width of a column */
    double row;                           /* height of a row in a machine */
    double font;                          /* 0: no labels but the machines' */
    double width, height;                 /* of the whole, without title and legend */
    uint32_t columns;                     /* panels, or nodes of the grid, side by side */
    uint32_t combs_count;                 /* switches that are combs */
    double comb_gap;                      /* from bar to bar */
    double spine_x;                       /* left of the first comb's spine */
    bool machines;                        /* there are panels */
    enum svg_shape shape;
    /* of a cluster without machines, by node */
    uint32_t *level; /* hops from the nearest rank; GRAPH_NONE: no rank reaches it */
    uint32_t *hub;   /* grid, circle: the one neighbour of a node that hangs on it */
    uint32_t *seat;  /* place in its row, on the grid or circle, or on its hub */
    uint32_t *hung;  /* how many hang on it */
    uint32_t seats;  /* of the grid or circle */
    double centre_x, centre_y; /* of the circle */
    bool straight;             /* wires across the circle pass no box anyway */
};

/** TRYST_E_NOMEM. */
tryst_status svg_layout_open(const struct graph *graph, struct svg_layout *layout);
void svg_layout_close(struct svg_layout *layout);

/* The comb's number of a switch, GRAPH_NONE: it is none. */
uint32_t svg_comb_of(const struct svg_layout *layout, uint32_t node);
/* Where comb `comb` has its bar under the panel of machine `machine`. */
double svg_bar_y(const struct svg_layout *layout, uint32_t machine, uint32_t comb);
/* Where a wire from `node` to `above` passes a NUMA node that is between them; NAN: there is none. */
double svg_lane_x(const struct svg_layout *layout, uint32_t node, uint32_t above);
/* The box of the node or, of a rank that sits in something, of that. */
struct svg_place svg_place_of(const struct svg_layout *layout, uint32_t node);

#endif
