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
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char *text_of(const json_t *event, const char *field)
{
    const char *text = json_string_value(json_object_get(event, field));
    return text ? text : "";
}

static double number_of(const json_t *event, const char *field)
{
    return json_number_value(json_object_get(event, field));
}

static int rank_of(const json_t *event)
{
    json_int_t rank = json_integer_value(json_object_get(event, "pid"));
    return rank >= 0 && rank < RANKS_MAX ? (int)rank : 0;
}

/* ---- clocks ------------------------------------------------------------------------ */

static void clock_check(const json_t *event, int false_rank, double ahead_us)
{
    const json_t *args = json_object_get(event, "args");
    int rank = rank_of(event);
    double offset_us = number_of(args, "clock_offset_ns") / 1e3;
    double truth_us = rank == false_rank ? -ahead_us : 0;
    if (!json_object_get(args, "clock_offset_ns")) {
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

static void arrow_add(const json_t *event, bool begins)
{
    struct arrow *arrow = arrow_of(text_of(event, "id"));
    struct end end = {number_of(event, "ts"), rank_of(event),
                      (int)json_integer_value(json_object_get(event, "tid"))};
    if (begins) {
        arrow->from = end;
        arrow->begins++;
    } else {
        arrow->to = end;
        arrow->ends++;
    }
}

static bool span_around(const json_t *events, const struct end *end)
{
    size_t index;
    json_t *event;
    json_array_foreach((json_t *)events, index, event)
    {
        double begin = number_of(event, "ts");
        if (strcmp(text_of(event, "ph"), "X") == 0 && rank_of(event) == end->rank &&
            json_integer_value(json_object_get(event, "tid")) == end->row &&
            begin <= end->at_us && end->at_us <= begin + number_of(event, "dur") &&
            number_of(event, "dur") > 0)
            return true;
    }
    return false;
}

static void arrow_check(const json_t *events, const struct arrow *arrow)
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

static void span_add(const json_t *event)
{
    if (spans_count == SPANS_MAX)
        exit(2);
    long long begin = llround(number_of(event, "ts") * 1e3);
    spans[spans_count++] = (struct span){
        begin, begin + llround(number_of(event, "dur") * 1e3), rank_of(event),
        (int)json_integer_value(json_object_get(event, "tid")), text_of(event, "name")};
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

static json_t *open_ids; /* ids of a process: 1 begun, 2 ended */

static void async_check(const json_t *event, bool begins)
{
    char id[64];
    const json_t *local = json_object_get(json_object_get(event, "id2"), "local");
    if (!local || json_object_get(event, "id")) {
        WRONG("rank %d: \"%s\" has an id without its process", rank_of(event),
              text_of(event, "name"));
        return;
    }
    snprintf(id, sizeof id, "%d %s", rank_of(event), json_string_value(local));
    if (json_integer_value(json_object_get(open_ids, id)) != (begins ? 0 : 1))
        WRONG("rank %d: id %s of \"%s\" is used twice", rank_of(event), id,
              text_of(event, "name"));
    json_object_set_new(open_ids, id, json_integer(begins ? 1 : 2));
}

static void async_end_check(void)
{
    const char *id;
    json_t *state;
    json_object_foreach(open_ids, id, state)
    {
        if (json_integer_value(state) != 2)
            WRONG("id %s has no end", id);
    }
    json_decref(open_ids);
}

/* ---- counters ---------------------------------------------------------------------- */

struct counter {
    int rank;
    const char *name;
    double at_us, now, most;
};

static struct counter counters[RANKS_MAX * RANKS_MAX];
static size_t counters_count;

static struct counter *counter_of(const json_t *event)
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

static void counter_check(const json_t *event)
{
    const json_t *args = json_object_get(event, "args");
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
    json_error_t error;
    size_t index, across = 0;
    json_t *event;
    if (argc != 5)
        return 2;
    int ranks = (int)strtol(argv[2], NULL, 10);
    int false_rank = (int)strtol(argv[3], NULL, 10);
    double ahead_us = strtod(argv[4], NULL);
    json_t *document = json_load_file(argv[1], 0, &error);
    json_t *events = json_object_get(document, "traceEvents");
    if (!events) {
        printf("%s: %s\n", argv[1], error.text);
        return 1;
    }
    open_ids = json_object();
    json_array_foreach(events, index, event)
    {
        const char *phase = text_of(event, "ph");
        if (strcmp(text_of(event, "name"), "process_labels") == 0)
            clock_check(event, false_rank, ahead_us);
        else if (strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0)
            arrow_add(event, *phase == 's');
        else if (strcmp(phase, "b") == 0 || strcmp(phase, "e") == 0)
            async_check(event, *phase == 'b');
        else if (strcmp(phase, "X") == 0)
            span_add(event);
        else if (strcmp(phase, "C") == 0)
            counter_check(event);
    }
    counters_check();
    spans_check();
    async_end_check();
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
    json_decref(document);
    return wrong != 0;
}
