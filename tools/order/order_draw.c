/* SPDX-License-Identifier: Apache-2.0 */
/* Draws steps of a profile as a self-contained SVG.
 *
 * The first row is the profile's critical path. Below it each row, an order in virtual
 * time or a measured step, has lanes of computation (actions that overlap have a lane
 * each) and a lane of the network, all to one scale of time. In virtual time a red strip
 * below a lane marks the chain that gives the row its length. A dashed line is the
 * optimum. */
#include "order_draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order_path.h"
#include "tools/figures.h"
#include "tools/json.h"
#include "tools/svg.h"

/* Two times that differ by less than this part of a step are one. */
#define ROUNDING 1e-9

/* Geometry in pixels. */
enum {
    PLOT_LEFT = 150,
    PLOT_WIDTH = 1000,
    RIGHT_NOTES = 210,
    TOP = 112,
    BAR_HEIGHT = 24,
    LANE_HEIGHT = 34,
    STRIP_HEIGHT = 3,
    ORDER_GAP = 22,
    BOTTOM = 40
};

enum { NAME_BYTES = 256 }; /* longer names are cut */

/* Forward and backward have the colours of tools/bench/bench_timeline.c, since in
 * data-parallel training the actions that need an operation are the forward pass. */
#define ACTION_FILL  "#ef9f3c"
#define NEEDING_FILL "#3f7fca"
#define WAIT_FILL    "#d4d7dc"
#define CHAIN_FILL   "#d01c1c"

struct drawing {
    FILE *out;
    const struct order_job *job;
    const struct order_rows *rows;
    const struct order_figures *figures;
    const struct order_profile *profile;
    const struct oracle_network *network;
    uint32_t count;
    double end_s;             /* of the slowest row: the right end */
    double *urgency;          /* [count] of an operation: 0 to 1, the longest tail */
    bool *needs;              /* [count]: comes after an operation, at any distance */
    uint32_t *lanes, *sorted; /* [count]: an action's lane; actions by their start */
    double *lane_ends;        /* [count] */
    uint32_t actions, lanes_count;
    int y; /* where the next row begins */
};

static double x_of(const struct drawing *self, double at_s)
{
    return PLOT_LEFT + (self->end_s > 0 ? at_s / self->end_s : 0) * PLOT_WIDTH;
}

/* ---- lanes ------------------------------------------------------------------------- */

/* The spans that `by_start` sorts by: qsort passes no argument. */
static const struct oracle_span *sorted_spans;

static int by_start(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct oracle_span *x = &sorted_spans[i], *y = &sorted_spans[j];
    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    if (x->end_s != y->end_s)
        return x->end_s < y->end_s ? -1 : 1;
    return (i > j) - (i < j);
}

/* Give each action of the row the first lane that is free at its start. */
static void lanes_assign(struct drawing *self, const struct order_row *row)
{
    uint32_t count = 0;
    self->actions = 0;
    for (uint32_t i = 0; i < self->count; i++)
        if (!self->profile->nodes[i].is_operation)
            self->sorted[self->actions++] = i;
    sorted_spans = row->spans;
    qsort(self->sorted, self->actions, sizeof *self->sorted, by_start);
    for (uint32_t i = 0; i < self->actions; i++) {
        uint32_t lane = 0, node = self->sorted[i];
        while (lane < count &&
               self->lane_ends[lane] > row->spans[node].start_s + row->seconds * ROUNDING)
            lane++;
        if (lane == count)
            count++;
        self->lanes[node] = lane;
        self->lane_ends[lane] = row->spans[node].end_s;
    }
    self->lanes_count = count ? count : 1;
}

/* ---- bars -------------------------------------------------------------------------- */

struct bar {
    double from_s, to_s;
    int y, height;
    const char *fill, *text_fill;
};

/* Draw a bar with `name` in it, if there is room, and with `name` and times to hover. */
static void bar_draw(const struct drawing *self, const struct bar *bar, const char *name)
{
    double left = x_of(self, bar->from_s), width = x_of(self, bar->to_s) - left;
    char attributes[40];
    tool_svg_box(self->out,
                 (struct tool_svg_box){left, bar->y, fmax(width, .3), bar->height},
                 bar->fill, width < 4 ? "" : "stroke='#fff' stroke-width='.6'",
                 "%s: %.6f s to %.6f s", name, bar->from_s, bar->to_s);
    if (width > TOOL_SVG_SMALL_LETTER * (double)strlen(name) + 4) {
        snprintf(attributes, sizeof attributes, "class='name' style='fill:%s'",
                 bar->text_fill);
        tool_svg_text(self->out, left + width / 2, bar->y + bar->height / 2 + 4,
                      attributes, "%s", name);
    }
}

static void node_draw(const struct drawing *self, uint32_t index, double from_s,
                      double to_s, int y, bool in_buckets)
{
    const struct order_node *node = &self->profile->nodes[index];
    struct bar bar = {from_s, to_s, y, BAR_HEIGHT, NULL, "#fff"};
    char fill[8];
    bar.fill = self->needs[index] ? NEEDING_FILL : ACTION_FILL;
    if (node->is_operation) { /* from light to dark violet */
        double urgent = self->urgency[index];
        snprintf(fill, sizeof fill, "#%02x%02x%02x", (int)(212 - urgent * 148),
                 (int)(190 - urgent * 168), (int)(245 - urgent * 110));
        bar.fill = fill;
        bar.text_fill = urgent > 0.4 ? "#fff" : "#111827";
    }
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s",
             node->is_operation && in_buckets ? "bucket of " : "", node->name);
    bar_draw(self, &bar, name);
}

static void lane_head_draw(const struct drawing *self, const char *name, int y)
{
    tool_svg_box(self->out, (struct tool_svg_box){PLOT_LEFT, y, PLOT_WIDTH, BAR_HEIGHT},
                 "#f3f4f6", "", NULL);
    tool_svg_text(self->out, PLOT_LEFT - 10, y + BAR_HEIGHT / 2 + 4, "class='lane'", "%s",
                  name);
}

static void note_draw(const struct drawing *self, int y, const char *text)
{
    tool_svg_text(self->out, PLOT_LEFT + PLOT_WIDTH + 14, y + BAR_HEIGHT / 2 + 4,
                  "class='note'", "%s", text);
}

/* ---- lanes of an order ------------------------------------------------------------- */

/* Draw the times in which no action runs, and return their sum. */
static double waits_draw(const struct drawing *self, const struct oracle_span *spans,
                         double end_s)
{
    double busy_s = 0, waits_s = 0;
    for (uint32_t i = 0; i <= self->actions; i++) {
        double next_s = i < self->actions ? spans[self->sorted[i]].start_s : end_s;
        if (next_s > busy_s + self->end_s * 1e-9) {
            struct bar bar = {busy_s,         next_s,    self->y + BAR_HEIGHT / 4,
                              BAR_HEIGHT / 2, WAIT_FILL, "#374151"};
            bar_draw(self, &bar, "wait");
            waits_s += next_s - busy_s;
        }
        if (i < self->actions)
            busy_s = fmax(busy_s, spans[self->sorted[i]].end_s);
    }
    return waits_s;
}

static void chain_draw(const struct drawing *self, const struct order_row *row,
                       int network_y)
{
    struct order_path path = order_path_of_row(self->profile, self->network, row);
    for (uint32_t i = 0; i < path.count; i++) {
        const struct order_path_part *part = &path.parts[i];
        double left = x_of(self, part->from_s), width = x_of(self, part->to_s) - left;
        int y = part->is_operation ? network_y
                                   : self->y + (int)self->lanes[part->node] * LANE_HEIGHT;
        tool_svg_box(self->out,
                     (struct tool_svg_box){left, y + BAR_HEIGHT + 2, fmax(width, .3),
                                           STRIP_HEIGHT},
                     CHAIN_FILL, "", NULL);
    }
    order_path_free(&path);
}

static void row_notes_draw(const struct drawing *self, double seconds, double waits_s,
                           int network_y)
{
    char text[96];
    snprintf(text, sizeof text, "%.4g s, waits %.4g s", seconds, waits_s);
    note_draw(self, self->y, text);
    snprintf(text, sizeof text, "optimum + %.1f %%",
             100 * order_gap(seconds, self->figures->optimum_s));
    note_draw(self, network_y, text);
}

static void row_draw(struct drawing *self, const struct order_row *row)
{
    lanes_assign(self, row);
    int network_y = self->y + (int)self->lanes_count * LANE_HEIGHT;
    tool_svg_text(self->out, 14, self->y + BAR_HEIGHT / 2 + 4, "class='order'", "%s",
                  row->name);
    if (row->is_measured)
        tool_svg_text(self->out, 14, self->y + BAR_HEIGHT / 2 + 22, "class='note'",
                      "measured");
    for (uint32_t lane = 0; lane < self->lanes_count; lane++)
        lane_head_draw(self, lane ? "" : "actions", self->y + (int)lane * LANE_HEIGHT);
    lane_head_draw(self, "network", network_y);
    double waits_s = waits_draw(self, row->spans, row->seconds);
    for (uint32_t i = 0; i < self->actions; i++) {
        uint32_t node = self->sorted[i];
        node_draw(self, node, row->spans[node].start_s, row->spans[node].end_s,
                  self->y + (int)self->lanes[node] * LANE_HEIGHT, false);
    }
    for (uint32_t i = 0; i < row->pieces_count; i++)
        node_draw(self, row->pieces[i].node, row->pieces[i].from_s, row->pieces[i].to_s,
                  network_y, row->in_buckets);
    row_notes_draw(self, row->seconds, waits_s, network_y);
    if (!row->is_measured)
        chain_draw(self, row, network_y);
    self->y = network_y + LANE_HEIGHT + ORDER_GAP;
}

static void critical_path_draw(struct drawing *self)
{
    struct order_path path = order_path_longest(self->profile, self->network);
    char text[64];
    lane_head_draw(self, "critical path", self->y);
    for (uint32_t i = 0; i < path.count; i++)
        node_draw(self, path.parts[i].node, path.parts[i].from_s, path.parts[i].to_s,
                  self->y, false);
    snprintf(text, sizeof text, "%.4g s on a free network",
             path.count ? path.parts[path.count - 1].to_s : 0);
    note_draw(self, self->y, text);
    order_path_free(&path);
    self->y += LANE_HEIGHT + ORDER_GAP;
}

/* ---- head and axis ----------------------------------------------------------------- */

static void legend_draw(const struct drawing *self)
{
    static const struct {
        const char *fill, *text;
    } rows[] = {{ACTION_FILL, "action"},
                {NEEDING_FILL, "action behind an operation"},
                {"#40167f", "operation, long tail (urgent)"},
                {"#d4bef5", "short tail"},
                {WAIT_FILL, "no action runs"},
                {CHAIN_FILL, "the chain that gives the step its length"}};
    double x = PLOT_LEFT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        x = tool_svg_legend(self->out, x, 62, rows[i].fill, "rx='2'", rows[i].text);
}

static void head_draw(const struct drawing *self)
{
    struct order_sums sums = order_sum(self->profile);
    tool_svg_text(self->out, PLOT_LEFT, 28, "class='title'", "%s: %s", self->job->path,
                  self->rows->rows[0].is_measured
                      ? "a measured step of each policy"
                      : "a step under each order of its operations");
    tool_svg_text(
        self->out, PLOT_LEFT, 48, "class='note'",
        "%u action%s, %.4g s together; %u operation%s, %.4g MB together; network "
        "%.4g Gbit/s, latency %.4g µs; possible gain over fifo: %.1f %%",
        sums.actions, tool_plural(sums.actions), sums.actions_s, sums.operations,
        tool_plural(sums.operations), (double)sums.bytes / 1e6,
        self->network->bytes_per_s * 8e-9, self->network->latency_s * 1e6,
        100 * self->figures->possible_gain);
    legend_draw(self);
}

/* Draw the axis, and the optimum over all rows. */
static void axis_draw(const struct drawing *self)
{
    int bottom = self->y - ORDER_GAP / 2;
    double x = x_of(self, self->figures->optimum_s);
    tool_svg_axis(self->out, PLOT_LEFT, PLOT_LEFT + PLOT_WIDTH, bottom, bottom + 6, 0,
                  self->end_s, "stroke='#9ca3af'");
    tool_svg_line(self->out, x, TOP - 8, x, bottom,
                  "stroke='#047857' stroke-width='1.5' stroke-dasharray='5 3'");
    tool_svg_text(self->out, x - 4, TOP - 12, "class='optimum'", "optimum %.4g s",
                  self->figures->optimum_s);
}

/* ---- the whole picture ------------------------------------------------------------- */

/* A node may be listed before one that it comes after, so all nodes are visited until
 * none changes. */
bool *order_needs(const struct order_profile *profile)
{
    bool *needs = order_zalloc(profile->count, sizeof *needs);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < profile->count; i++) {
            const struct order_node *node = &profile->nodes[i];
            for (uint32_t a = 0; a < node->after_count && !needs[i]; a++)
                if (needs[node->after[a]] || profile->nodes[node->after[a]].is_operation)
                    needs[i] = changed = true;
        }
    }
    return needs;
}

/* Scale the tails of the operations: the longest becomes 1, the shortest 0. */
static void urgency_scale(struct drawing *self)
{
    double least = INFINITY, most = -INFINITY;
    for (uint32_t i = 0; i < self->count; i++)
        if (self->profile->nodes[i].is_operation) {
            least = fmin(least, self->urgency[i]);
            most = fmax(most, self->urgency[i]);
        }
    for (uint32_t i = 0; i < self->count; i++)
        self->urgency[i] = most > least ? (self->urgency[i] - least) / (most - least) : 1;
}

static void drawing_open(struct drawing *self)
{
    self->urgency = order_tails(self->profile, self->network);
    self->needs = order_needs(self->profile);
    self->lanes = order_zalloc(self->count, sizeof *self->lanes);
    self->sorted = order_zalloc(self->count, sizeof *self->sorted);
    self->lane_ends = order_zalloc(self->count, sizeof *self->lane_ends);
    urgency_scale(self);
}

static void drawing_close(struct drawing *self)
{
    free(self->urgency);
    free(self->needs);
    free(self->lanes);
    free(self->sorted);
    free(self->lane_ends);
}

/* Return the height of the picture: each row has the lanes of its order. */
static int height_of(struct drawing *self)
{
    int height = TOP + LANE_HEIGHT + ORDER_GAP + BOTTOM;
    for (uint32_t i = 0; i < self->rows->count; i++) {
        lanes_assign(self, &self->rows->rows[i]);
        height += (int)(self->lanes_count + 1) * LANE_HEIGHT + ORDER_GAP;
    }
    return height;
}

static void svg_print(FILE *file, const void *what)
{
    struct drawing *self = *(struct drawing *const *)what;
    self->out = file;
    self->y = TOP;
    tool_svg_begin(file, PLOT_LEFT + PLOT_WIDTH + RIGHT_NOTES, height_of(self),
                   ".order{font-weight:600}"
                   ".optimum{text-anchor:end;font-size:12px;fill:#047857}");
    head_draw(self);
    critical_path_draw(self);
    for (uint32_t i = 0; i < self->rows->count; i++)
        row_draw(self, &self->rows->rows[i]);
    axis_draw(self);
    tool_svg_end(file);
}

int order_draw(const struct order_job *job, const struct order_rows *rows)
{
    struct drawing self = {.job = job,
                           .rows = rows,
                           .figures = &rows->figures,
                           .profile = job->profile,
                           .network = &rows->network,
                           .count = job->profile->count};
    struct drawing *drawing = &self;
    for (uint32_t i = 0; i < rows->count; i++)
        self.end_s = fmax(self.end_s, rows->rows[i].seconds);
    drawing_open(&self);
    int failed = tool_file_write(job->draw, svg_print, &drawing);
    drawing_close(&self);
    return failed;
}
