/* SPDX-License-Identifier: Apache-2.0 */
/* Draw a plan's trees, each separately, below a picture of its topology. */
#ifndef TRYST_TOOLS_DRAW_SVG_TREES_H
#define TRYST_TOOLS_DRAW_SVG_TREES_H

#include <stdio.h>

#include "picture.h"

#define SVG_TREE_RANKS 128 /* trees of more ranks are not drawn separately */
/** Draw the picture's trees in rows of at most `width`; return the y where the last row
 *  ends. */
double svg_trees_draw(FILE *out, const struct picture *picture, double left, double top,
                      double width);

#endif
