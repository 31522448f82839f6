/* SPDX-License-Identifier: Apache-2.0 */
/** @file bench_timeline.h
 *  Draws a step of all ranks as a self-contained SVG. */
#ifndef TRYST_TOOLS_BENCH_BENCH_TIMELINE_H
#define TRYST_TOOLS_BENCH_BENCH_TIMELINE_H

#include <stdbool.h>
#include <stdio.h>
#include <tryst/pipeline.h>

struct bench_timeline_rank {
    const tryst_span *spans; /**< [spans_count] */
    size_t spans_count;
};

struct bench_timeline {
    const char *title, *subtitle;
    const struct bench_timeline_rank *ranks; /**< [ranks_count] */
    int ranks_count;
};

/** Draw one row per rank. Shares of time are over the window from the first action of the
 *  drawn step on any rank to the last one. Steps of a loop overlap, so actions of other
 *  steps count in it; they are drawn pale. Where a rank has several stages (chunks), bars
 *  of a later one are darker. False: no span takes time, or a span is invalid. */
bool bench_timeline_draw(FILE *out, const struct bench_timeline *timeline);

/** Return the name of a kind of spans: "forward", "send". */
const char *bench_span_kind_name(int kind);
/** True for an action of the program; false for a wait or a transfer. */
bool bench_span_is_action(int kind);
/** Write what a span is: "forward, stage 1, micro-batch 2". Returns `words`. */
const char *bench_span_text(const tryst_span *span, char words[96]);

#endif
