/* SPDX-License-Identifier: Apache-2.0 */
/* Draw a topology as SVG. */
#ifndef TRYST_TOOLS_DRAW_TOPO_SVG_H
#define TRYST_TOOLS_DRAW_TOPO_SVG_H

#include <stdbool.h>
#include <stdio.h>

#include <tryst/topo.h>

/** Draw `topo` with `plan` (of `topo`; NULL: none) over it. False: out of memory;
 *  `out` keeps the error of a failed write. */
bool topo_svg_draw(FILE *out, const tryst_topo *topo, const tryst_plan *plan);

#endif
