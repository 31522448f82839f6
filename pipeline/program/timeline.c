/* SPDX-License-Identifier: Apache-2.0 */
/* A timeline as a self-contained SVG: one row per rank, compute as a bar with micro-batch
 * numbers, sends and receives as two thin lanes below it, because they overlap it.
 *
 * The one idea: all that is drawn are tryst_span records, whether they were measured or
 * come from a simulation; this file knows nothing of where. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tryst/pipeline.h>

#include "pipeline/base/file.h"
#include "pipeline/base/text.h"

/* Geometry in pixels. */
enum {
    PLOT_LEFT = 84,
    PLOT_WIDTH = 1000,
    RIGHT_NOTES = 200,
    TOP = 96,
    ROW_HEIGHT = 58,
    BAR_HEIGHT = 30,
    LANE_HEIGHT = 5,
    LANE_GAP = 3,
    BOTTOM = 44,
    DIGIT_WIDTH = 7
};

#define TICKS_WANTED 8

typedef struct drawing {
    FILE *out;
    const tryst_timeline_params *params;
    uint64_t begin_ns;
    uint64_t end_ns;
} drawing;

typedef struct span_style {
    const char *name;
    const char *colour;
} span_style;

/* Forward, backward and its halves in the colours that pipeline papers use. */
static const span_style styles[TRYST_SPAN_KINDS] = {
    [TRYST_SPAN_FORWARD] = {"forward", "#3f7fca"},
    [TRYST_SPAN_BACKWARD] = {"backward", "#ef9f3c"},
    [TRYST_SPAN_INPUT_GRAD] = {"input gradient", "#2fa8a0"},
    [TRYST_SPAN_WEIGHT_GRAD] = {"weight gradient", "#62b05a"},
    [TRYST_SPAN_UPDATE] = {"update", "#7d5ba6"},
    [TRYST_SPAN_WAIT] = {"wait", "#d4d7dc"},
    [TRYST_SPAN_SEND] = {"send", "#c2405a"},
    [TRYST_SPAN_RECEIVE] = {"receive", "#4b5563"},
};

static void add_escaped(FILE *out, const char *words)
{
    for (; *words; words++) {
        switch (*words) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        default: fputc(*words, out); break;
        }
    }
}

static double x_of(const drawing *self, uint64_t at_ns)
{
    const double part =
        (double)(at_ns - self->begin_ns) / (double)(self->end_ns - self->begin_ns);
    return PLOT_LEFT + part * PLOT_WIDTH;
}

static int row_top(int rank)
{
    return TOP + rank * ROW_HEIGHT;
}

/* ----------------------------------------------------------------------------------- *
 *  Around the rows
 * ----------------------------------------------------------------------------------- */

/* The largest of 1, 2, 5 times a power of ten that gives at least TICKS_WANTED / 2 ticks.
 */
static double tick_step(double span)
{
    const double rough = span / TICKS_WANTED;
    const double power = pow(10, floor(log10(rough)));
    const double lead = rough / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static void draw_axis(const drawing *self)
{
    const int bottom = row_top(self->params->ranks_count);
    const double span_ns = (double)(self->end_ns - self->begin_ns);
    const char *unit = span_ns < 2e6 ? "µs" : span_ns < 2e9 ? "ms" : "s";
    const double unit_ns = span_ns < 2e6 ? 1e3 : span_ns < 2e9 ? 1e6 : 1e9;
    const double step_ns = tick_step(span_ns);
    const int ticks = (int)(span_ns / step_ns + 0.0001);
    for (int i = 0; i <= ticks; i++) {
        const double at_ns = i * step_ns;
        const double x = PLOT_LEFT + at_ns / span_ns * PLOT_WIDTH;
        fprintf(self->out,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#e5e7eb'/>\n"
                "<text x='%.1f' y='%d' class='tick'>%g</text>\n",
                x, TOP - 8, x, bottom, x, bottom + 18, at_ns / unit_ns);
    }
    fprintf(self->out, "<text x='%d' y='%d' class='unit'>time in the step, %s</text>\n",
            PLOT_LEFT + PLOT_WIDTH + 28, bottom + 18, unit);
}

static bool kind_occurs(const drawing *self, int kind)
{
    for (int rank = 0; rank < self->params->ranks_count; rank++) {
        const tryst_timeline_rank *row = &self->params->ranks[rank];
        for (size_t i = 0; i < row->spans_count; i++) {
            if (row->spans[i].kind == kind) {
                return true;
            }
        }
    }
    return false;
}

static void draw_head(const drawing *self)
{
    FILE *out = self->out;
    fprintf(out, "<text x='%d' y='28' class='title'>", PLOT_LEFT);
    add_escaped(out, self->params->title ? self->params->title : "Timeline");
    fprintf(out, "</text>\n<text x='%d' y='48' class='note'>", PLOT_LEFT);
    add_escaped(out, self->params->subtitle ? self->params->subtitle : "");
    fprintf(out, "</text>\n");
    int x = PLOT_LEFT;
    for (int kind = 0; kind < TRYST_SPAN_KINDS; kind++) {
        if (!kind_occurs(self, kind)) {
            continue;
        }
        fprintf(out,
                "<rect x='%d' y='62' width='14' height='14' rx='2' fill='%s'/>"
                "<text x='%d' y='73.5' class='legend'>%s</text>\n",
                x, styles[kind].colour, x + 20, styles[kind].name);
        x += 44 + DIGIT_WIDTH * (int)strlen(styles[kind].name);
    }
    fprintf(out, "<text x='%d' y='73.5' class='note'>numbers are micro-batches</text>\n",
            x);
}

/* ----------------------------------------------------------------------------------- *
 *  Rows
 * ----------------------------------------------------------------------------------- */

static bool is_transfer(int kind)
{
    return kind == TRYST_SPAN_SEND || kind == TRYST_SPAN_RECEIVE;
}

static void draw_transfer(const drawing *self, int rank, const tryst_span *span)
{
    const int lane = span->kind == TRYST_SPAN_SEND ? 0 : 1;
    const int y = row_top(rank) + BAR_HEIGHT + LANE_GAP + lane * (LANE_HEIGHT + LANE_GAP);
    const double left = x_of(self, span->begin_ns);
    const double width = x_of(self, span->end_ns) - left;
    fprintf(self->out,
            "<rect x='%.2f' y='%d' width='%.2f' height='%d' fill='%s' fill-opacity='.75'>"
            "<title>%s %s of stage %d, micro-batch %d, rank %d: %.3f ms</title></rect>\n",
            left, y, width > 1 ? width : 1.0, LANE_HEIGHT, styles[span->kind].colour,
            styles[span->kind].name, span->gradient ? "gradient" : "activation",
            span->stage, span->microbatch, span->peer,
            (double)(span->end_ns - span->begin_ns) / 1e6);
}

static void draw_compute(const drawing *self, int rank, const tryst_span *span)
{
    const double left = x_of(self, span->begin_ns);
    const double width = x_of(self, span->end_ns) - left;
    const bool wait = span->kind == TRYST_SPAN_WAIT;
    const int inset = wait ? BAR_HEIGHT / 3 : 0;
    const int y = row_top(rank) + inset;
    fprintf(self->out,
            "<rect x='%.2f' y='%d' width='%.2f' height='%d' fill='%s'%s>"
            "<title>%s, stage %d, micro-batch %d: %.3f ms</title></rect>\n",
            left, y, width > .4 ? width : .4, BAR_HEIGHT - 2 * inset,
            styles[span->kind].colour,
            wait || width < 3 ? "" : " stroke='#fff' stroke-width='.6'",
            styles[span->kind].name, span->stage, span->microbatch,
            (double)(span->end_ns - span->begin_ns) / 1e6);
    char number[16];
    const int digits = snprintf(number, sizeof number, "%d", span->microbatch);
    if (!wait && span->microbatch >= 0 && width > digits * DIGIT_WIDTH + 4) {
        fprintf(self->out, "<text x='%.2f' y='%d' class='number'>%s</text>\n",
                left + width / 2, y + BAR_HEIGHT / 2 + 4, number);
    }
}

static void draw_row(const drawing *self, int rank)
{
    const tryst_timeline_rank *row = &self->params->ranks[rank];
    double compute_ns = 0;
    double wait_ns = 0;
    fprintf(self->out,
            "<rect x='%d' y='%d' width='%d' height='%d' fill='#f3f4f6'/>\n"
            "<text x='%d' y='%d' class='rank'>rank %d</text>\n",
            PLOT_LEFT, row_top(rank), PLOT_WIDTH, BAR_HEIGHT, PLOT_LEFT - 12,
            row_top(rank) + BAR_HEIGHT / 2 + 5, rank);
    for (size_t i = 0; i < row->spans_count; i++) {
        const tryst_span *span = &row->spans[i];
        const double took_ns = (double)(span->end_ns - span->begin_ns);
        if (is_transfer(span->kind)) {
            draw_transfer(self, rank, span);
            continue;
        }
        draw_compute(self, rank, span);
        *(span->kind == TRYST_SPAN_WAIT ? &wait_ns : &compute_ns) += took_ns;
    }
    const double whole_ns = (double)(self->end_ns - self->begin_ns);
    fprintf(self->out,
            "<text x='%d' y='%d' class='note'>computes %.0f %%, waits %.0f %%</text>\n",
            PLOT_LEFT + PLOT_WIDTH + 14, row_top(rank) + BAR_HEIGHT / 2 + 5,
            100 * compute_ns / whole_ns, 100 * wait_ns / whole_ns);
}

/* ----------------------------------------------------------------------------------- *
 *  All of it
 * ----------------------------------------------------------------------------------- */

static bool find_bounds(drawing *self)
{
    self->begin_ns = UINT64_MAX;
    for (int rank = 0; rank < self->params->ranks_count; rank++) {
        const tryst_timeline_rank *row = &self->params->ranks[rank];
        for (size_t i = 0; i < row->spans_count; i++) {
            const tryst_span *span = &row->spans[i];
            if (span->kind < 0 || span->kind >= TRYST_SPAN_KINDS ||
                span->end_ns < span->begin_ns) {
                return false;
            }
            self->begin_ns =
                span->begin_ns < self->begin_ns ? span->begin_ns : self->begin_ns;
            self->end_ns = span->end_ns > self->end_ns ? span->end_ns : self->end_ns;
        }
    }
    return self->begin_ns < self->end_ns;
}

static void draw(const drawing *self)
{
    const int width = PLOT_LEFT + PLOT_WIDTH + RIGHT_NOTES;
    const int height = row_top(self->params->ranks_count) + BOTTOM;
    fprintf(
        self->out,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
        "viewBox='0 0 %d %d'>\n"
        "<style>text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#111827}"
        ".title{font-size:17px;font-weight:600}.note,.unit{fill:#4b5563;font-size:12px}"
        ".tick{text-anchor:middle;font-size:12px;fill:#4b5563}.rank{text-anchor:end}"
        ".number{text-anchor:middle;font-size:11px;fill:#fff}</style>\n"
        "<rect width='100%%' height='100%%' fill='#fff'/>\n",
        width, height, width, height);
    draw_head(self);
    draw_axis(self);
    for (int rank = 0; rank < self->params->ranks_count; rank++) {
        draw_row(self, rank);
    }
    fputs("</svg>\n", self->out);
}

tryst_status tryst_timeline_write_svg(const tryst_timeline_params *params,
                                      const char *path, char *error,
                                      size_t error_capacity)
{
    text out = text_begin(error, error_capacity);
    drawing self = {.params = params};
    if (params->ranks_count < 1 || !find_bounds(&self)) {
        text_add(&out, "%s: no spans to draw", path);
        return TRYST_E_INVALID;
    }
    self.out = file_open(path, "we");
    if (!self.out) {
        text_add(&out, "%s: %s", path, strerror(errno));
        return TRYST_E_IO;
    }
    draw(&self);
    const bool failed = ferror(self.out) != 0;
    if (fclose(self.out) != 0 || failed) {
        text_add(&out, "%s: %s", path, strerror(errno));
        return TRYST_E_IO;
    }
    return TRYST_OK;
}
