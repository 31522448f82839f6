/* SPDX-License-Identifier: Apache-2.0 */
/* Implements bench_timeline.h: one row per rank, actions and waits as a bar with
 * micro-batch numbers; below it sends, receives and all-reduces as three thin lanes,
 * because they overlap with the actions.
 *
 * The one idea: the drawing is made of tryst_span records alone, measured or simulated.
 *
 * Invariant: all shares of time are over one window, from the begin of the first action
 * of the drawn step on any rank to the end of its last one; actions of other steps count
 * in it. Time zero is the window's begin; the parts outside it (mostly waits for the
 * first forward, or other steps) are shaded. */
#include "bench_timeline.h"

#include <stdlib.h>
#include <string.h>

#include "tools/svg.h"

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
    SMALL_DIGIT_WIDTH = 5
};

#define SPAN_KINDS (TRYST_SPAN_PREDICT + 1)

/* Limit of the time that is drawn before the window, and of other steps after it, as a
 * fraction of the window. */
#define OUTSIDE_MAX 0.15
/* The last chunk of a rank has this part of its colour's light. */
#define LIGHT_MIN 0.6
/* More chunks share the last one's shade, and the legend has fewer. */
enum { CHUNKS_MAX = 64, CHUNKS_SHOWN = 4 };

struct drawing {
    FILE *out;
    const struct bench_timeline *timeline;
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
#define PALE "fill-opacity='.35'"

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

/* ---- shares of time ---------------------------------------------------------------- */

static bool kind_occurs(const struct drawing *self, int kind)
{
    for (int rank = 0; rank < self->timeline->ranks_count; rank++) {
        const struct bench_timeline_rank *row = &self->timeline->ranks[rank];
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

bool bench_span_is_action(int kind)
{
    return !is_transfer(kind) && kind != TRYST_SPAN_WAIT;
}

const char *bench_span_kind_name(int kind)
{
    return styles[kind].name;
}

const char *bench_span_text(const tryst_span *span, char words[96])
{
    const char *name = styles[span->kind].name;
    if (span->kind == TRYST_SPAN_REDUCE_GRAD) {
        snprintf(words, 96, "%s of the gradient of layer %d, stage %d", name,
                 span->microbatch, span->stage);
    } else if (is_transfer(span->kind)) {
        snprintf(words, 96, "%s %s of stage %d, micro-batch %d, rank %d", name,
                 span->gradient ? "gradient" : "activation", span->stage,
                 span->microbatch, span->peer);
    } else {
        snprintf(words, 96, "%s, stage %d, micro-batch %d", name, span->stage,
                 span->microbatch);
    }
    return words;
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
    const struct bench_timeline_rank *row = &self->timeline->ranks[rank];
    double compute_ns = 0;
    for (size_t i = 0; i < row->spans_count; i++) {
        const tryst_span *span = &row->spans[i];
        compute_ns += bench_span_is_action(span->kind)
                          ? overlap_ns(span, self->first_ns, self->last_ns)
                          : 0;
    }
    return compute_ns / (double)(self->last_ns - self->first_ns);
}

static double compute_part_mean(const struct drawing *self)
{
    double sum = 0;
    for (int rank = 0; rank < self->timeline->ranks_count; rank++) {
        sum += compute_part(self, rank);
    }
    return sum / self->timeline->ranks_count;
}

/* ---- colours ----------------------------------------------------------------------- */

/* Find the stages of a rank that have actions. */
static struct chunks chunks_of(const struct bench_timeline_rank *row)
{
    struct chunks chunks = {.count = 0};
    for (size_t i = 0; i < row->spans_count; i++) {
        int at = 0;
        int32_t stage = row->spans[i].stage;
        while (at < chunks.count && chunks.stages[at] < stage) {
            at++;
        }
        if (!bench_span_is_action(row->spans[i].kind) || chunks.count == CHUNKS_MAX ||
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

/* Draw the second line of the legend: numbers, chunks, other steps. */
static void draw_notes(const struct drawing *self)
{
    char colour[8], words[32];
    int count = self->chunks_max;
    double x = PLOT_LEFT + 190;
    tool_svg_text(self->out, PLOT_LEFT, 93.5, "class='note'",
                  "numbers are micro-batches");
    for (int i = 0; count > 1 && i < count && i < CHUNKS_SHOWN; i++) {
        bool is_rest = i + 1 == CHUNKS_SHOWN && count > CHUNKS_SHOWN;
        colour_write(TRYST_SPAN_FORWARD, i, count, colour);
        snprintf(words, sizeof words, is_rest ? "… of %d chunks" : "chunk %d",
                 is_rest ? count : i + 1);
        x = tool_svg_legend(self->out, x, 82, colour, "rx='2'", words);
    }
    if (self->overlaps) {
        tool_svg_legend(self->out, x, 82, styles[TRYST_SPAN_FORWARD].colour,
                        "rx='2' " PALE,
                        "steps before and after, which count as computing");
    }
}

static void draw_head(const struct drawing *self)
{
    double x = PLOT_LEFT;
    tool_svg_text(self->out, x, 28, "class='title'", "%s", self->timeline->title);
    tool_svg_text(self->out, x, 48, "class='note'", "%s; this step: %.1f %% idle",
                  self->timeline->subtitle, 100 * (1 - compute_part_mean(self)));
    for (int kind = 0; kind < SPAN_KINDS; kind++) {
        if (kind_occurs(self, kind)) {
            x = tool_svg_legend(self->out, x, 62, styles[kind].colour, "rx='2'",
                                styles[kind].name);
        }
    }
    draw_notes(self);
}

/* ---- rows -------------------------------------------------------------------------- */

static void draw_transfer(const struct drawing *self, int rank, const tryst_span *span)
{
    int lane = span->kind == TRYST_SPAN_SEND      ? 0
               : span->kind == TRYST_SPAN_RECEIVE ? 1
                                                  : 2;
    char words[96];
    bench_span_text(span, words);
    int y = row_top(rank) + BAR_HEIGHT + LANE_GAP + lane * (LANE_HEIGHT + LANE_GAP);
    double left = x_of(self, span->begin_ns);
    double width = x_of(self, span->end_ns) - left;
    tool_svg_box(self->out,
                 (struct tool_svg_box){left, y, width > 1 ? width : 1, LANE_HEIGHT},
                 styles[span->kind].colour, "fill-opacity='.75'", "%s: %.3f ms", words,
                 (double)(span->end_ns - span->begin_ns) / 1e6);
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
    char colour[8], words[96];
    colour_write(span->kind, wait ? 0 : chunk_index(chunks, span->stage), chunks->count,
                 colour);
    bool has_edge = !wait && width >= 3;
    const struct tool_svg_box at = {left, y, width > .4 ? width : .4,
                                    BAR_HEIGHT - 2 * inset};
    tool_svg_box(self->out, at, colour,
                 has_edge && span->step ? PALE " stroke='#fff' stroke-width='.6'"
                 : has_edge             ? "stroke='#fff' stroke-width='.6'"
                 : span->step           ? PALE
                                        : "",
                 "%s: %.3f ms", bench_span_text(span, words),
                 (double)(span->end_ns - span->begin_ns) / 1e6);
    char number[16], class[40];
    int digits = snprintf(number, sizeof number, "%d", span->microbatch);
    if (!wait && span->microbatch >= 0 && width > digits * SMALL_DIGIT_WIDTH + 1) {
        bool wide = width > digits * TOOL_SVG_LETTER + 4;
        snprintf(class, sizeof class, "class='number%s%s'", wide ? "" : " small",
                 span->step ? " other" : "");
        tool_svg_text(self->out, left + width / 2, y + BAR_HEIGHT / 2 + 4, class, "%s",
                      number);
    }
}

static void draw_row(const struct drawing *self, int rank)
{
    const struct bench_timeline_rank *row = &self->timeline->ranks[rank];
    struct chunks chunks = chunks_of(row);
    double part = compute_part(self, rank);
    int words_y = row_top(rank) + BAR_HEIGHT / 2 + 5;
    tool_svg_box(self->out,
                 (struct tool_svg_box){PLOT_LEFT, row_top(rank), PLOT_WIDTH, BAR_HEIGHT},
                 "#f3f4f6", "", NULL);
    tool_svg_text(self->out, PLOT_LEFT - 12, words_y, "class='rank'", "rank %d", rank);
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
    tool_svg_text(self->out, PLOT_LEFT + PLOT_WIDTH + 14, words_y, "class='note'",
                  "computes %.0f %%, idle %.0f %%", 100 * part, 100 * (1 - part));
}

/* Shade all rows from x = `left` to `right`, which is outside the window. */
static void draw_shade(const struct drawing *self, double left, double right,
                       const char *what)
{
    int bottom = row_top(self->timeline->ranks_count);
    if (right - left >= 1) {
        tool_svg_box(self->out,
                     (struct tool_svg_box){left, TOP - 8, right - left, bottom - TOP + 8},
                     "#6b7280", "fill-opacity='.15' class='outside'", "%s", what);
    }
}

static void draw_outside(const struct drawing *self)
{
    double zero = x_of(self, self->first_ns);
    draw_shade(self, PLOT_LEFT, zero, "before the first action of the step");
    draw_shade(self, x_of(self, self->last_ns), PLOT_LEFT + PLOT_WIDTH,
               "after the last action of the step");
    tool_svg_line(self->out, zero, TOP - 8, zero, row_top(self->timeline->ranks_count),
                  "stroke='#6b7280' stroke-dasharray='3 3'");
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
    for (int rank = 0; rank < self->timeline->ranks_count; rank++) {
        const struct bench_timeline_rank *row = &self->timeline->ranks[rank];
        for (size_t i = 0; i < row->spans_count; i++) {
            const tryst_span *span = &row->spans[i];
            if (span->kind < 0 || span->kind >= SPAN_KINDS ||
                span->end_ns < span->begin_ns) {
                return false;
            }
            widen(span, &self->begin_ns, &self->end_ns);
            if (bench_span_is_action(span->kind) && span->step == 0) {
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

bool bench_timeline_draw(FILE *out, const struct bench_timeline *timeline)
{
    struct drawing self = {.out = out, .timeline = timeline};
    int bottom = row_top(timeline->ranks_count);
    if (timeline->ranks_count < 1 || !find_bounds(&self)) {
        return false;
    }
    double before_s = (double)(self.first_ns - self.begin_ns) * 1e-9;
    double whole_s = (double)(self.end_ns - self.begin_ns) * 1e-9;
    tool_svg_begin(out, PLOT_LEFT + PLOT_WIDTH + RIGHT_NOTES, bottom + BOTTOM,
                   ".rank{text-anchor:end}"
                   ".number{text-anchor:middle;font-size:11px;fill:#fff}"
                   ".small{font-size:8px}.other{fill:#374151}");
    draw_head(&self);
    tool_svg_axis(out, PLOT_LEFT, PLOT_LEFT + PLOT_WIDTH, TOP - 8, bottom, -before_s,
                  whole_s - before_s, "stroke='#e5e7eb'");
    for (int rank = 0; rank < timeline->ranks_count; rank++) {
        draw_row(&self, rank);
    }
    draw_outside(&self);
    tool_svg_end(out);
    return true;
}
