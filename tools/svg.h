/* SPDX-License-Identifier: Apache-2.0 */
/** @file svg.h
 *  Writes a picture as SVG: boxes, texts and paths, and an axis of time. Numbers are
 *  pixels; `attributes` are those of the element, as "class='note'". */
#ifndef TRYST_TOOLS_SVG_H
#define TRYST_TOOLS_SVG_H

#include <stdarg.h>
#include <stdio.h>

/** Width of a letter of a text of 13 and of 11 pixels. */
enum { TOOL_SVG_LETTER = 7, TOOL_SVG_SMALL_LETTER = 6 };

struct tool_svg_box {
    double x, y, w, h;
};

/** Begin the page, white, with classes of texts: title, note (small and grey), tick
 *  (note, centred), name (on bars, centred), lane (note, ends at x), and those of
 *  `style`. */
void tool_svg_begin(FILE *out, int width, int height, const char *style);
void tool_svg_end(FILE *out);

/** Write a text of an element, escaped; as all texts here, it may have any bytes. */
void tool_svg_escaped(FILE *out, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/** Write a text. Texts may have any bytes: those that XML cannot have become U+FFFD. */
void tool_svg_text(FILE *out, double x, double y, const char *attributes,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
/** Write a filled rectangle, with a text to hover. `format` NULL: without one. */
void tool_svg_box(FILE *out, struct tool_svg_box at, const char *fill,
                  const char *attributes, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void tool_svg_line(FILE *out, double x1, double y1, double x2, double y2,
                   const char *attributes);
/** Write a path without a fill, with a text to hover. `format` NULL: without one. `shape`
 *  has the letter of each point in SVG, a blank for the second point of a curve and later
 *  ones ("ML", "MQ "); `points` are their x and y. */
void tool_svg_path(FILE *out, const char *shape, const double *points,
                   const char *attributes, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** Write a square and its meaning on the line at `y`. Returns where the next one
 *  begins. */
double tool_svg_legend(FILE *out, double x, double y, const char *fill,
                       const char *attributes, const char *words);
/** Write an axis of time, and its unit right of it. The time `from_s` is at `left`,
 *  `to_s` at `right`; ticks are lines from `top` to `bottom` with `attributes`. */
void tool_svg_axis(FILE *out, double left, double right, double top, double bottom,
                   double from_s, double to_s, const char *attributes);

#endif
