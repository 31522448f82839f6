/* SPDX-License-Identifier: Apache-2.0 */
/* Implements svg.h. */
#include "svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

static void escaped_print(FILE *out, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return; /* out of memory: the element is empty */
    for (const char *at = text; *at; at++)
        switch (*at) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        default: fputc((unsigned char)*at < ' ' ? ' ' : *at, out); break;
        }
    free(text);
}

void tool_svg_text(FILE *out, double x, double y, const char *attributes,
                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(out, "<text x='%.6g' y='%.6g' %s>", x, y, attributes);
    escaped_print(out, format, args);
    fputs("</text>\n", out);
    va_end(args);
}

void tool_svg_box(FILE *out, struct tool_svg_box at, const char *fill,
                  const char *attributes, const char *format, ...)
{
    va_list args;
    fprintf(out, "<rect x='%.6g' y='%.6g' width='%.6g' height='%.6g' fill='%s' %s", at.x,
            at.y, at.width, at.height, fill, attributes);
    if (!format) {
        fputs("/>\n", out);
        return;
    }
    va_start(args, format);
    fputs("><title>", out);
    escaped_print(out, format, args);
    fputs("</title></rect>\n", out);
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
