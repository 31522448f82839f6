/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a timeline as a self-contained SVG, one row per rank: actions and waits as a bar
 * with micro-batch numbers; below it sends, receives and all-reduces as three thin lanes,
 * because they overlap with the actions.
 *
 * The one idea: the drawing is made of tryst_span records alone, measured or simulated.
 *
 * Invariant: all shares of time are over one window, from the begin of the first action
 * of the drawn step on any rank to the end of its last one; actions of other steps count
 * in it. Time zero is the window's begin; the parts outside it (mostly waits for the
 * first forward, or other steps) are shaded. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tryst/pipeline.h>

#include "pipeline/base/file.h"
#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"

/* Geometry in pixels. */
enum {
    PLOT_LEFT = 84,
    PLOT_WIDTH = 1000,
    RIGHT_NOTES = 200,
    TOP = 116,
    ROW_HEIGHT = 58,
    BAR_HEIGHT = 30,
    LANE_HEIGHT = 5,
    LANE_GAP = 3,
    BOTTOM = 44,
    DIGIT_WIDTH = 7,
    SMALL_DIGIT_WIDTH = 5
};

#define SPAN_KINDS (TRYST_SPAN_PREDICT + 1)

#define TICKS_WANTED 8
/* Limit of the time that is drawn before the window, and of other steps after it, as a
 * fraction of the window. */
#define OUTSIDE_MAX 0.15
/* The last chunk of a rank has this part of its colour's light. */
#define LIGHT_MIN 0.6
/* More chunks share the last one's shade, and the legend has fewer. */
enum { CHUNKS_MAX = 64, CHUNKS_SHOWN = 4 };

struct drawing {
    FILE *out;
    const tryst_timeline_params *params;
    uint64_t begin_ns; /* begin of the drawn time */
    uint64_t end_ns;
    uint64_t first_ns; /* begin of the window: the first action begins */
    uint64_t last_ns;  /* end of the window: the last action ends */
    bool overlaps;     /* there are spans of other steps */
    int chunks_max;    /* of any rank */
};

/* The stages of a rank that have actions. */
struct chunks {
    int32_t stages[CHUNKS_MAX]; /* [count], ascending */
    int count;
};

/* Bars of other steps. */
#define PALE " fill-opacity='.35'"

struct span_style {
    const char *name;
    const char *colour;
};

/* Forward, backward and its halves have the colours that pipeline papers use. */
static const struct span_style styles[SPAN_KINDS] = {
    [TRYST_SPAN_FORWARD] = {"forward", "#3f7fca"},
    [TRYST_SPAN_BACKWARD] = {"backward", "#ef9f3c"},
    [TRYST_SPAN_INPUT_GRAD] = {"input gradient", "#2fa8a0"},
    [TRYST_SPAN_WEIGHT_GRAD] = {"weight gradient", "#62b05a"},
    [TRYST_SPAN_UPDATE] = {"update", "#7d5ba6"},
    [TRYST_SPAN_WAIT] = {"wait", "#d4d7dc"},
    [TRYST_SPAN_SEND] = {"send", "#c2405a"},
    [TRYST_SPAN_RECEIVE] = {"receive", "#4b5563"},
    [TRYST_SPAN_REDUCE_GRAD] = {"all-reduce", "#0d9488"},
    [TRYST_SPAN_RECOMPUTE] = {"recompute", "#8ab4e8"},
    [TRYST_SPAN_PREDICT] = {"predict", "#b08fd8"},
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

static double x_of(const struct drawing *self, uint64_t at_ns)
{
    uint64_t from_ns = at_ns > self->begin_ns ? at_ns - self->begin_ns : 0;
    double part = (double)from_ns / (double)(self->end_ns - self->begin_ns);
    return PLOT_LEFT + (part < 1 ? part : 1) * PLOT_WIDTH;
}

static int row_top(int rank)
{
    return TOP + rank * ROW_HEIGHT;
}

/* ---- axis, head and legend --------------------------------------------------------- */

/* Return the distance of ticks: 1, 2 or 5 times a power of ten, for 6 to 14 ticks. */
static double tick_step(double span)
{
    double rough = span / TICKS_WANTED;
    double power = pow(10, floor(log10(rough)));
    double lead = rough / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static void draw_tick(const struct drawing *self, double x, double label)
{
    int bottom = row_top(self->params->ranks_count);
    fprintf(self->out,
            "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#e5e7eb'/>\n"
            "<text x='%.1f' y='%d' class='tick'>%g</text>\n",
            x, TOP - 8, x, bottom, x, bottom + 18, label);
}

static void draw_axis(const struct drawing *self)
{
    double whole_ns = (double)(self->end_ns - self->begin_ns);
    double before_ns = (double)(self->first_ns - self->begin_ns);
    const char *unit = whole_ns < 2e6 ? "µs" : whole_ns < 2e9 ? "ms" : "s";
    double unit_ns = whole_ns < 2e6 ? 1e3 : whole_ns < 2e9 ? 1e6 : 1e9;
    double step_ns = tick_step(whole_ns);
    int first = -(int)(before_ns / step_ns + 0.0001);
    int last = (int)((whole_ns - before_ns) / step_ns + 0.0001);
    for (int i = first; i <= last; i++) {
        double part = (before_ns + i * step_ns) / whole_ns;
        draw_tick(self, PLOT_LEFT + part * PLOT_WIDTH, i * step_ns / unit_ns);
    }
    fprintf(self->out, "<text x='%d' y='%d' class='unit'>time in the step, %s</text>\n",
            PLOT_LEFT + PLOT_WIDTH + 28, row_top(self->params->ranks_count) + 18, unit);
}

static bool kind_occurs(const struct drawing *self, int kind)
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

static bool is_transfer(int kind)
{
    return kind == TRYST_SPAN_SEND || kind == TRYST_SPAN_RECEIVE ||
           kind == TRYST_SPAN_REDUCE_GRAD;
}

static bool is_action(int kind)
{
    return !is_transfer(kind) && kind != TRYST_SPAN_WAIT;
}

static double overlap_ns(const tryst_span *span, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t begin_ns = span->begin_ns > from_ns ? span->begin_ns : from_ns;
    uint64_t end_ns = span->end_ns < to_ns ? span->end_ns : to_ns;
    return end_ns > begin_ns ? (double)(end_ns - begin_ns) : 0;
}

/* Return the fraction of the window in which a rank runs an action, of any step. */
static double compute_part(const struct drawing *self, int rank)
{
    const tryst_timeline_rank *row = &self->params->ranks[rank];
    double compute_ns = 0;
    for (size_t i = 0; i < row->spans_count; i++) {
        const tryst_span *span = &row->spans[i];
        compute_ns +=
            is_action(span->kind) ? overlap_ns(span, self->first_ns, self->last_ns) : 0;
    }
    return compute_ns / (double)(self->last_ns - self->first_ns);
}

static double compute_part_mean(const struct drawing *self)
{
    double sum = 0;
    for (int rank = 0; rank < self->params->ranks_count; rank++) {
        sum += compute_part(self, rank);
    }
    return sum / self->params->ranks_count;
}

/* ---- colours ----------------------------------------------------------------------- */

/* Find the stages of a rank that have actions. */
static struct chunks chunks_of(const tryst_timeline_rank *row)
{
    struct chunks chunks = {.count = 0};
    for (size_t i = 0; i < row->spans_count; i++) {
        int at = 0;
        int32_t stage = row->spans[i].stage;
        while (at < chunks.count && chunks.stages[at] < stage) {
            at++;
        }
        if (!is_action(row->spans[i].kind) || chunks.count == CHUNKS_MAX ||
            (at < chunks.count && chunks.stages[at] == stage)) {
            continue;
        }
        memmove(&chunks.stages[at + 1], &chunks.stages[at],
                (size_t)(chunks.count - at) * sizeof *chunks.stages);
        chunks.stages[at] = stage;
        chunks.count++;
    }
    return chunks;
}

/* Write the colour of a kind in chunk `index` of `count`: the later, the darker. */
static void colour_write(int kind, int index, int count, char colour[8])
{
    unsigned rgb = (unsigned)strtoul(styles[kind].colour + 1, NULL, 16);
    double light = count > 1 ? 1 - (1 - LIGHT_MIN) * index / (count - 1) : 1;
    snprintf(colour, 8, "#%02x%02x%02x", (unsigned)(light * (rgb >> 16 & 255)),
             (unsigned)(light * (rgb >> 8 & 255)), (unsigned)(light * (rgb & 255)));
}

/* ---- head -------------------------------------------------------------------------- */

/* Write a square and its meaning into the second line of the legend; return where the
 * next one begins. */
static int draw_note(FILE *out, int x, const char *colour, const char *opacity,
                     const char *words)
{
    fprintf(out,
            "<rect x='%d' y='82' width='14' height='14' rx='2' fill='%s'%s/>"
            "<text x='%d' y='93.5' class='note'>%s</text>\n",
            x, colour, opacity, x + 20, words);
    return x + 44 + DIGIT_WIDTH * (int)strlen(words);
}

/* Draw the second line of the legend: numbers, chunks, other steps. */
static void draw_notes(const struct drawing *self)
{
    char colour[8], words[32];
    int count = self->chunks_max, x = PLOT_LEFT + 190;
    fprintf(self->out,
            "<text x='%d' y='93.5' class='note'>numbers are micro-batches</text>\n",
            PLOT_LEFT);
    for (int i = 0; count > 1 && i < count && i < CHUNKS_SHOWN; i++) {
        colour_write(TRYST_SPAN_FORWARD, i, count, colour);
        snprintf(words, sizeof words,
                 i + 1 == CHUNKS_SHOWN && count > CHUNKS_SHOWN ? "… of %d chunks"
                                                               : "chunk %d",
                 i + 1 == CHUNKS_SHOWN && count > CHUNKS_SHOWN ? count : i + 1);
        x = draw_note(self->out, x, colour, "", words);
    }
    if (self->overlaps) {
        (void)draw_note(self->out, x, styles[TRYST_SPAN_FORWARD].colour, PALE,
                        "steps before and after, which count as computing");
    }
}

static void draw_head(const struct drawing *self)
{
    FILE *out = self->out;
    fprintf(out, "<text x='%d' y='28' class='title'>", PLOT_LEFT);
    add_escaped(out, self->params->title ? self->params->title : "Timeline");
    fprintf(out, "</text>\n<text x='%d' y='48' class='note'>", PLOT_LEFT);
    if (self->params->subtitle) {
        add_escaped(out, self->params->subtitle);
        fprintf(out, "; ");
    }
    fprintf(out, "this step: %.1f %% idle</text>\n", 100 * (1 - compute_part_mean(self)));
    int x = PLOT_LEFT;
    for (int kind = 0; kind < SPAN_KINDS; kind++) {
        if (!kind_occurs(self, kind)) {
            continue;
        }
        fprintf(out,
                "<rect x='%d' y='62' width='14' height='14' rx='2' fill='%s'/>"
                "<text x='%d' y='73.5' class='legend'>%s</text>\n",
                x, styles[kind].colour, x + 20, styles[kind].name);
        x += 44 + DIGIT_WIDTH * (int)strlen(styles[kind].name);
    }
    draw_notes(self);
}

/* ---- rows -------------------------------------------------------------------------- */

/* Write what a transfer moves, and from or to where. */
static void transfer_text(const tryst_span *span, char words[96])
{
    const char *name = styles[span->kind].name;
    if (span->kind == TRYST_SPAN_REDUCE_GRAD) {
        snprintf(words, 96, "%s of the gradient of layer %d, stage %d", name,
                 span->microbatch, span->stage);
    } else {
        snprintf(words, 96, "%s %s of stage %d, micro-batch %d, rank %d", name,
                 span->gradient ? "gradient" : "activation", span->stage,
                 span->microbatch, span->peer);
    }
}

static void draw_transfer(const struct drawing *self, int rank, const tryst_span *span)
{
    int lane = span->kind == TRYST_SPAN_SEND      ? 0
               : span->kind == TRYST_SPAN_RECEIVE ? 1
                                                  : 2;
    char words[96];
    transfer_text(span, words);
    int y = row_top(rank) + BAR_HEIGHT + LANE_GAP + lane * (LANE_HEIGHT + LANE_GAP);
    double left = x_of(self, span->begin_ns);
    double width = x_of(self, span->end_ns) - left;
    fprintf(self->out,
            "<rect x='%.2f' y='%d' width='%.2f' height='%d' fill='%s' fill-opacity='.75'>"
            "<title>%s: %.3f ms</title></rect>\n",
            left, y, width > 1 ? width : 1.0, LANE_HEIGHT, styles[span->kind].colour,
            words, (double)(span->end_ns - span->begin_ns) / 1e6);
}

static int chunk_index(const struct chunks *chunks, int32_t stage)
{
    int at = 0;
    while (at + 1 < chunks->count && chunks->stages[at] < stage) {
        at++;
    }
    return at;
}

static void draw_compute(const struct drawing *self, int rank,
                         const struct chunks *chunks, const tryst_span *span)
{
    double left = x_of(self, span->begin_ns);
    double width = x_of(self, span->end_ns) - left;
    bool wait = span->kind == TRYST_SPAN_WAIT;
    int inset = wait ? BAR_HEIGHT / 3 : 0;
    int y = row_top(rank) + inset;
    char colour[8];
    colour_write(span->kind, wait ? 0 : chunk_index(chunks, span->stage), chunks->count,
                 colour);
    fprintf(self->out,
            "<rect x='%.2f' y='%d' width='%.2f' height='%d' fill='%s'%s%s>"
            "<title>%s, stage %d, micro-batch %d: %.3f ms</title></rect>\n",
            left, y, width > .4 ? width : .4, BAR_HEIGHT - 2 * inset, colour,
            span->step ? PALE : "",
            wait || width < 3 ? "" : " stroke='#fff' stroke-width='.6'",
            styles[span->kind].name, span->stage, span->microbatch,
            (double)(span->end_ns - span->begin_ns) / 1e6);
    char number[16];
    int digits = snprintf(number, sizeof number, "%d", span->microbatch);
    if (!wait && span->microbatch >= 0 && width > digits * SMALL_DIGIT_WIDTH + 1) {
        bool wide = width > digits * DIGIT_WIDTH + 4;
        fprintf(self->out, "<text x='%.2f' y='%d' class='number%s%s'>%s</text>\n",
                left + width / 2, y + BAR_HEIGHT / 2 + 4, wide ? "" : " small",
                span->step ? " other" : "", number);
    }
}

static void draw_row(const struct drawing *self, int rank)
{
    const tryst_timeline_rank *row = &self->params->ranks[rank];
    struct chunks chunks = chunks_of(row);
    double part = compute_part(self, rank);
    fprintf(self->out,
            "<rect x='%d' y='%d' width='%d' height='%d' fill='#f3f4f6'/>\n"
            "<text x='%d' y='%d' class='rank'>rank %d</text>\n",
            PLOT_LEFT, row_top(rank), PLOT_WIDTH, BAR_HEIGHT, PLOT_LEFT - 12,
            row_top(rank) + BAR_HEIGHT / 2 + 5, rank);
    for (size_t i = 0; i < row->spans_count; i++) {
        const tryst_span *span = &row->spans[i];
        if (span->end_ns < self->begin_ns || span->begin_ns > self->end_ns) {
            continue;
        }
        if (is_transfer(span->kind)) {
            draw_transfer(self, rank, span);
        } else {
            draw_compute(self, rank, &chunks, span);
        }
    }
    fprintf(self->out,
            "<text x='%d' y='%d' class='note'>computes %.0f %%, idle %.0f %%</text>\n",
            PLOT_LEFT + PLOT_WIDTH + 14, row_top(rank) + BAR_HEIGHT / 2 + 5, 100 * part,
            100 * (1 - part));
}

/* Shade all rows from x = `left` to `right`, which is outside the window. */
static void draw_shade(const struct drawing *self, double left, double right,
                       const char *what)
{
    int bottom = row_top(self->params->ranks_count);
    if (right - left < 1) {
        return;
    }
    fprintf(
        self->out,
        "<rect class='outside' x='%.1f' y='%d' width='%.1f' height='%d' fill='#6b7280' "
        "fill-opacity='.15'><title>%s</title></rect>\n",
        left, TOP - 8, right - left, bottom - TOP + 8, what);
}

static void draw_outside(const struct drawing *self)
{
    double zero = x_of(self, self->first_ns);
    draw_shade(self, PLOT_LEFT, zero, "before the first action of the step");
    draw_shade(self, x_of(self, self->last_ns), PLOT_LEFT + PLOT_WIDTH,
               "after the last action of the step");
    fprintf(self->out,
            "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#6b7280' "
            "stroke-dasharray='3 3'/>\n",
            zero, TOP - 8, zero, row_top(self->params->ranks_count));
}

/* ---- the whole drawing ------------------------------------------------------------- */

static void widen(const tryst_span *span, uint64_t *begin_ns, uint64_t *end_ns)
{
    *begin_ns = span->begin_ns < *begin_ns ? span->begin_ns : *begin_ns;
    *end_ns = span->end_ns > *end_ns ? span->end_ns : *end_ns;
}

/* Find the window and the drawn time. If no action of the step takes time, the window
 * covers all spans. False if a span is invalid, or if the spans cover no time. */
static bool find_bounds(struct drawing *self)
{
    self->begin_ns = self->first_ns = UINT64_MAX;
    for (int rank = 0; rank < self->params->ranks_count; rank++) {
        const tryst_timeline_rank *row = &self->params->ranks[rank];
        for (size_t i = 0; i < row->spans_count; i++) {
            const tryst_span *span = &row->spans[i];
            if (span->kind < 0 || span->kind >= SPAN_KINDS ||
                span->end_ns < span->begin_ns) {
                return false;
            }
            widen(span, &self->begin_ns, &self->end_ns);
            if (is_action(span->kind) && span->step == 0) {
                widen(span, &self->first_ns, &self->last_ns);
            }
            self->overlaps = self->overlaps || span->step != 0;
        }
        int chunks = chunks_of(row).count;
        self->chunks_max = chunks > self->chunks_max ? chunks : self->chunks_max;
    }
    if (self->first_ns >= self->last_ns) {
        self->first_ns = self->begin_ns;
        self->last_ns = self->end_ns;
        return self->begin_ns < self->end_ns;
    }
    uint64_t outside_ns =
        (uint64_t)(OUTSIDE_MAX * (double)(self->last_ns - self->first_ns));
    if (self->first_ns - self->begin_ns > outside_ns) {
        self->begin_ns = self->first_ns - outside_ns;
    }
    if (self->overlaps && self->end_ns - self->last_ns > outside_ns) {
        self->end_ns = self->last_ns + outside_ns;
    }
    return true;
}

static void draw(const struct drawing *self)
{
    int width = PLOT_LEFT + PLOT_WIDTH + RIGHT_NOTES;
    int height = row_top(self->params->ranks_count) + BOTTOM;
    fprintf(
        self->out,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
        "viewBox='0 0 %d %d'>\n"
        "<style>text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#111827}"
        ".title{font-size:17px;font-weight:600}.note,.unit{fill:#4b5563;font-size:12px}"
        ".tick{text-anchor:middle;font-size:12px;fill:#4b5563}.rank{text-anchor:end}"
        ".number{text-anchor:middle;font-size:11px;fill:#fff}"
        ".small{font-size:8px}.other{fill:#374151}</style>\n"
        "<rect width='100%%' height='100%%' fill='#fff'/>\n",
        width, height, width, height);
    draw_head(self);
    draw_axis(self);
    for (int rank = 0; rank < self->params->ranks_count; rank++) {
        draw_row(self, rank);
    }
    draw_outside(self);
    fputs("</svg>\n", self->out);
}

tryst_status tryst_timeline_write_svg(const tryst_timeline_params *params,
                                      const char *path)
{
    tryst_timeline_params own;
    struct drawing self = {.params = &own};
    if (params_read(&own, sizeof own, params, "tryst_timeline_params") != TRYST_OK) {
        return TRYST_E_INVALID;
    }
    if (own.ranks_count < 1 || !find_bounds(&self)) {
        return refuse(TRYST_E_INVALID, "cannot draw %s: it has no spans", path);
    }
    self.out = file_open(path, "we");
    if (!self.out) {
        return refuse(TRYST_E_IO, "cannot draw %s: %s", path, strerror(errno));
    }
    draw(&self);
    bool failed = ferror(self.out) != 0;
    if (fclose(self.out) != 0 || failed) {
        return refuse(TRYST_E_IO, "cannot draw %s: %s", path, strerror(errno));
    }
    return TRYST_OK;
}
