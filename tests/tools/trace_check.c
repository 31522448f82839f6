/* SPDX-License-Identifier: Apache-2.0 */
/* Read a merged trace and print each error. Usage:
 *
 *   trace_check <trace.json> <ranks> <rank with a wrong clock, or -1> <ahead by, us>
 *
 * Checks: each rank's offset is the true one within the error that the trace states; each
 * arrow begins and ends inside a span of its rank, and ends after it begins, where clocks
 * were measured within their errors. Errors of Perfetto's import: spans of a thread that
 * overlap without nesting, an id of an asynchronous event that does not contain the
 * process or is used twice, a beginning without an end. Bytes in flight are above zero at
 * some time, grow only within the window (or are one slice) and return to zero. Exit
 * status 0: no error. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/json_text.h"

enum { RANKS_MAX = 16, ARROWS_MAX = 100000, SPANS_MAX = 100000 };

struct end {
    double at_us;
    int rank, row;
};

struct arrow {
    const char *id;
    struct end from, to;
    int begins, ends;
};

static struct arrow arrows[ARROWS_MAX];
static size_t arrows_count;
static double error_us[RANKS_MAX];
static bool has_clock[RANKS_MAX];
static int wrong;

#define WRONG(...)           \
    do {                     \
        printf(__VA_ARGS__); \
        putchar('\n');       \
        wrong++;             \
    } while (0)

static const char *text_of(const struct json *event, const char *field)
{
    const char *text = json_string_of(json_member(event, field));
    return text ? text : "";
}

static double number_of(const struct json *event, const char *field)
{
    return json_number_of(json_member(event, field));
}

static int rank_of(const struct json *event)
{
    int64_t rank = json_integer_of(json_member(event, "pid"));
    return rank >= 0 && rank < RANKS_MAX ? (int)rank : 0;
}

/* ---- clocks ------------------------------------------------------------------------ */

static void clock_check(const struct json *event, int false_rank, double ahead_us)
{
    const struct json *args = json_member(event, "args");
    int rank = rank_of(event);
    double offset_us = number_of(args, "clock_offset_ns") / 1e3;
    double truth_us = rank == false_rank ? -ahead_us : 0;
    if (!json_member(args, "clock_offset_ns")) {
        WRONG("rank %d has no offset to rank 0's clock", rank);
        return;
    }
    has_clock[rank] = true;
    error_us[rank] = number_of(args, "clock_error_ns") / 1e3;
    printf("rank %d: clock %.3f us off, within %.3f us\n", rank, offset_us,
           error_us[rank]);
    if (fabs(offset_us - truth_us) > error_us[rank])
        WRONG("rank %d: the true offset is %.3f us", rank, truth_us);
    if (rank == false_rank && ahead_us > 0 && error_us[rank] > ahead_us / 4)
        WRONG("rank %d: the stated error is too large to be useful", rank);
}

/* ---- arrows ------------------------------------------------------------------------ */

static struct arrow *arrow_of(const char *id)
{
    for (size_t i = 0; i < arrows_count; i++)
        if (strcmp(arrows[i].id, id) == 0)
            return &arrows[i];
    if (arrows_count == ARROWS_MAX)
        exit(2);
    arrows[arrows_count] = (struct arrow){.id = id};
    return &arrows[arrows_count++];
}

static void arrow_add(const struct json *event, bool begins)
{
    struct arrow *arrow = arrow_of(text_of(event, "id"));
    struct end end = {number_of(event, "ts"), rank_of(event),
                      (int)json_integer_of(json_member(event, "tid"))};
    if (begins) {
        arrow->from = end;
        arrow->begins++;
    } else {
        arrow->to = end;
        arrow->ends++;
    }
}

static bool span_around(const struct json *events, const struct end *end)
{
    json_for_each (events, event) {
        double begin = number_of(event, "ts");
        if (strcmp(text_of(event, "ph"), "X") == 0 && rank_of(event) == end->rank &&
            json_integer_of(json_member(event, "tid")) == end->row &&
            begin <= end->at_us && end->at_us <= begin + number_of(event, "dur") &&
            number_of(event, "dur") > 0)
            return true;
    }
    return false;
}

static void arrow_check(const struct json *events, const struct arrow *arrow)
{
    double slack_us = error_us[arrow->from.rank] + error_us[arrow->to.rank];
    if (arrow->begins != 1 || arrow->ends != 1) {
        WRONG("arrow %s has %d beginnings and %d ends", arrow->id, arrow->begins,
              arrow->ends);
        return;
    }
    if (arrow->to.at_us < arrow->from.at_us - slack_us)
        WRONG("arrow %s from rank %d to rank %d arrives %.3f us before it has left",
              arrow->id, arrow->from.rank, arrow->to.rank,
              arrow->from.at_us - arrow->to.at_us);
    if (!span_around(events, &arrow->from) || !span_around(events, &arrow->to))
        WRONG("arrow %s has an end outside of all spans", arrow->id);
}

/* ---- spans ------------------------------------------------------------------------- */

/* Times in ns, as recorded. */
struct span {
    long long begin, end;
    int rank, row;
    const char *name;
};

static struct span spans[SPANS_MAX];
static size_t spans_count;

static void span_add(const struct json *event)
{
    if (spans_count == SPANS_MAX)
        exit(2);
    long long begin = llround(number_of(event, "ts") * 1e3);
    spans[spans_count++] = (struct span){
        begin, begin + llround(number_of(event, "dur") * 1e3), rank_of(event),
        (int)json_integer_of(json_member(event, "tid")), text_of(event, "name")};
}

static int by_row_and_time(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    if (x->row != y->row)
        return x->row - y->row;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end); /* the outer one first */
}

static void spans_check(void)
{
    const struct span *around[64];
    size_t depth = 0;
    qsort(spans, spans_count, sizeof *spans, by_row_and_time);
    for (size_t i = 0; i < spans_count; i++) {
        const struct span *span = &spans[i];
        while (depth && (around[depth - 1]->rank != span->rank ||
                         around[depth - 1]->row != span->row ||
                         around[depth - 1]->end <= span->begin))
            depth--;
        if (depth && around[depth - 1]->end < span->end)
            WRONG("rank %d, row %d: \"%s\" ends after \"%s\", in which it begins",
                  span->rank, span->row, span->name, around[depth - 1]->name);
        if (depth == sizeof around / sizeof *around)
            exit(2);
        around[depth++] = span;
    }
}

/* ---- asynchronous events ----------------------------------------------------------- */

struct async {
    int rank;
    const char *id, *name;
    size_t order; /* in the trace */
    bool begins;
};

static struct async asyncs[2 * SPANS_MAX];
static size_t asyncs_count;

static void async_add(const struct json *event, bool begins)
{
    const char *id = text_of(json_member(event, "id2"), "local");
    if (!*id || json_member(event, "id")) {
        WRONG("rank %d: \"%s\" has an id without its process", rank_of(event),
              text_of(event, "name"));
        return;
    }
    if (asyncs_count == 2 * SPANS_MAX)
        exit(2);
    asyncs[asyncs_count] =
        (struct async){rank_of(event), id, text_of(event, "name"), asyncs_count, begins};
    asyncs_count++;
}

static int by_id_and_order(const void *a, const void *b)
{
    const struct async *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    int order = strcmp(x->id, y->id);
    return order ? order : x->order < y->order ? -1 : 1;
}

/* Each id of a process begins once, then ends once. */
static void asyncs_check(void)
{
    qsort(asyncs, asyncs_count, sizeof *asyncs, by_id_and_order);
    for (size_t i = 0; i < asyncs_count; i++) {
        const struct async *async = &asyncs[i], *next = async + 1;
        bool same = i + 1 < asyncs_count && next->rank == async->rank &&
                    strcmp(next->id, async->id) == 0;
        if (async->begins && same && !next->begins)
            i++;
        else
            WRONG("rank %d: id %s of \"%s\" is used twice, or has no end", async->rank,
                  async->id, async->name);
    }
}

/* ---- counters ---------------------------------------------------------------------- */

struct counter {
    int rank;
    const char *name;
    double at_us, now, most;
};

static struct counter counters[RANKS_MAX * RANKS_MAX];
static size_t counters_count;

static struct counter *counter_of(const struct json *event)
{
    for (size_t i = 0; i < counters_count; i++)
        if (counters[i].rank == rank_of(event) &&
            strcmp(counters[i].name, text_of(event, "name")) == 0)
            return &counters[i];
    if (counters_count == sizeof counters / sizeof *counters)
        exit(2);
    counters[counters_count] =
        (struct counter){.rank = rank_of(event), .name = text_of(event, "name")};
    return &counters[counters_count++];
}

static void counter_check(const struct json *event)
{
    const struct json *args = json_member(event, "args");
    double now = number_of(args, "in flight"), window = number_of(args, "window");
    struct counter *counter = counter_of(event);
    if (number_of(event, "ts") < counter->at_us)
        WRONG("rank %d: \"%s\" goes back in time", counter->rank, counter->name);
    if (now > window && now > counter->now && counter->now > 0)
        WRONG("rank %d: \"%s\": %.0f in flight of %.0f", counter->rank, counter->name,
              now, window);
    counter->at_us = number_of(event, "ts");
    counter->now = now;
    if (now > counter->most)
        counter->most = now;
}

static void counters_check(void)
{
    for (size_t i = 0; i < counters_count; i++)
        if (counters[i].now > 0 || counters[i].most <= 0)
            WRONG("rank %d: \"%s\" ends with %.0f and had %.0f", counters[i].rank,
                  counters[i].name, counters[i].now, counters[i].most);
    printf("%zu counters\n", counters_count);
}

int main(int argc, char **argv)
{
    size_t across = 0;
    if (argc != 5)
        return 2;
    int ranks = (int)strtol(argv[2], NULL, 10);
    int false_rank = (int)strtol(argv[3], NULL, 10);
    double ahead_us = strtod(argv[4], NULL);
    struct json *document = json_of_file(argv[1]);
    const struct json *events = json_member(document, "traceEvents");
    json_for_each (events, event) {
        const char *phase = text_of(event, "ph");
        if (strcmp(text_of(event, "name"), "process_labels") == 0)
            clock_check(event, false_rank, ahead_us);
        else if (strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0)
            arrow_add(event, *phase == 's');
        else if (strcmp(phase, "b") == 0 || strcmp(phase, "e") == 0)
            async_add(event, *phase == 'b');
        else if (strcmp(phase, "X") == 0)
            span_add(event);
        else if (strcmp(phase, "C") == 0)
            counter_check(event);
    }
    counters_check();
    spans_check();
    asyncs_check();
    for (int rank = 0; rank < ranks; rank++)
        if (!has_clock[rank])
            WRONG("rank %d has no record of its clock", rank);
    for (size_t i = 0; i < arrows_count; i++) {
        arrow_check(events, &arrows[i]);
        across += arrows[i].from.rank != arrows[i].to.rank;
    }
    printf("%zu arrows, %zu of them across ranks\n", arrows_count, across);
    if (across < (size_t)ranks)
        WRONG("too few arrows across ranks");
    mem_free(document);
    return wrong != 0;
}
