/* SPDX-License-Identifier: Apache-2.0 */
/* Implements svg.h. */
#include "svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

#define TICKS_WANTED 8

void tool_svg_begin(FILE *out, int width, int height, const char *style)
{
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "viewBox='0 0 %d %d'>\n"
            "<style>text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#111827}"
            ".title{font-size:17px;font-weight:600}.note{fill:#4b5563;font-size:12px}"
            ".tick{text-anchor:middle;font-size:12px;fill:#4b5563}"
            ".name{text-anchor:middle;font-size:11px}"
            ".lane{text-anchor:end;font-size:12px;fill:#4b5563}%s</style>\n"
            "<rect width='100%%' height='100%%' fill='#fff'/>\n",
            width, height, width, height, style);
}

void tool_svg_end(FILE *out)
{
    fputs("</svg>\n", out);
}

/* Return the length of the character at `at`; 0 if it is not one that XML may have. */
static int char_bytes(const char *at)
{
    bool is_control = ((unsigned char)*at < ' ' && *at != '\n') || *at == 0x7f;
    return is_control ? 0 : tool_char_bytes(at);
}

void tool_svg_escaped(FILE *out, const char *format, va_list args)
{
    char *text = NULL;
    int length;
    if (vasprintf(&text, format, args) < 0)
        return; /* out of memory: the element is empty */
    for (const char *at = text; *at; at += length ? length : 1) {
        length = char_bytes(at);
        switch (*at) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        default: fprintf(out, "%.*s", length ? length : 3, length ? at : TOOL_NO_CHAR);
        }
    }
    free(text);
}

/* End the element `name`, with a text to hover unless `format` is NULL. */
static void element_end(FILE *out, const char *name, const char *format, va_list args)
{
    if (!format) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    tool_svg_escaped(out, format, args);
    fprintf(out, "</title></%s>\n", name);
}

void tool_svg_text(FILE *out, double x, double y, const char *attributes,
                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(out, "<text x='%.6g' y='%.6g' %s>", x, y, attributes);
    tool_svg_escaped(out, format, args);
    fputs("</text>\n", out);
    va_end(args);
}

void tool_svg_box(FILE *out, struct tool_svg_box at, const char *fill,
                  const char *attributes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(out, "<rect x='%.6g' y='%.6g' width='%.6g' height='%.6g' fill='%s' %s", at.x,
            at.y, at.w, at.h, fill, attributes);
    element_end(out, "rect", format, args);
    va_end(args);
}

void tool_svg_path(FILE *out, const char *shape, const double *points,
                   const char *attributes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("<path fill='none' d='", out);
    for (; *shape; shape++, points += 2)
        fprintf(out, "%c%.1f %.1f", *shape, points[0], points[1]);
    fprintf(out, "' %s", attributes);
    element_end(out, "path", format, args);
    va_end(args);
}

void tool_svg_line(FILE *out, double x1, double y1, double x2, double y2,
                   const char *attributes)
{
    fprintf(out, "<line x1='%.6g' y1='%.6g' x2='%.6g' y2='%.6g' %s/>\n", x1, y1, x2, y2,
            attributes);
}

double tool_svg_legend(FILE *out, double x, double y, const char *fill,
                       const char *attributes, const char *words)
{
    tool_svg_box(out, (struct tool_svg_box){x, y, 14, 14}, fill, attributes, NULL);
    tool_svg_text(out, x + 20, y + 11.5, "class='legend'", "%s", words);
    return x + 44 + TOOL_SVG_LETTER * (double)strlen(words);
}

/* Return the distance of ticks: 1, 2 or 5 times a power of ten, for 6 to 14 ticks. */
static double tick_step(double span)
{
    double rough = span / TICKS_WANTED;
    double power = pow(10, floor(log10(rough)));
    double lead = rough / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

void tool_svg_axis(FILE *out, double left, double right, double top, double bottom,
                   double from_s, double to_s, const char *attributes)
{
    double span_s = to_s - from_s, step_s = span_s > 0 ? tick_step(span_s) : 1;
    const char *unit = span_s < 2e-3 ? "µs" : span_s < 2 ? "ms" : "s";
    double unit_s = span_s < 2e-3 ? 1e-6 : span_s < 2 ? 1e-3 : 1;
    int last = (int)(to_s / step_s + 0.0001);
    for (int i = -(int)(-from_s / step_s + 0.0001); i <= last; i++) {
        double part = span_s > 0 ? (i * step_s - from_s) / span_s : 0;
        double x = left + part * (right - left);
        tool_svg_line(out, x, top, x, bottom, attributes);
        tool_svg_text(out, x, bottom + 16, "class='tick'", "%g", i * step_s / unit_s);
    }
    tool_svg_text(out, right + 28, bottom + 16, "class='note'", "time in the step, %s",
                  unit);
}
