/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a merged trace and says what is wrong with it. Usage:
 *
 *   trace_check <trace.json> <ranks> <rank whose clock is false, or -1> <ahead by, us>
 *
 * Each rank's offset must be the true one within the error that it states; each arrow must leave and
 * arrive inside a span of its rank, and arrive after it has left, where clocks were measured within
 * their errors. Exit status 0: all of it holds. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 16, ARROWS_MAX = 100000 };

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

/* ---- clocks ------------------------------------------------------------------------------- */

static void clock_check(const json_t *event, int false_rank, double ahead_us)
{
    const json_t *args = json_object_get(event, "args");
    int rank = rank_of(event);
    double offset_us = number_of(args, "clock_offset_ns") / 1e3;
    double truth_us = rank == false_rank ? -ahead_us : 0;
    if (!json_object_get(args, "clock_offset_ns")) {
        WRONG("rank %d does not know rank 0's clock", rank);
        return;
    }
    has_clock[rank] = true;
    error_us[rank] = number_of(args, "clock_error_ns") / 1e3;
    printf("rank %d: clock %.3f us off, within %.3f us\n", rank, offset_us,
           error_us[rank]);
    if (fabs(offset_us - truth_us) > error_us[rank])
        WRONG("rank %d: in truth %.3f us", rank, truth_us);
    if (rank == false_rank && ahead_us > 0 && error_us[rank] > ahead_us / 4)
        WRONG("rank %d: the error says nothing", rank);
}

/* ---- arrows ------------------------------------------------------------------------------- */

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
        WRONG("arrow %s has an end in no span", arrow->id);
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
    json_array_foreach(events, index, event)
    {
        const char *phase = text_of(event, "ph");
        if (strcmp(text_of(event, "name"), "process_labels") == 0)
            clock_check(event, false_rank, ahead_us);
        else if (strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0)
            arrow_add(event, *phase == 's');
    }
    for (int rank = 0; rank < ranks; rank++)
        if (!has_clock[rank])
            WRONG("rank %d says nothing of its clock", rank);
    for (size_t i = 0; i < arrows_count; i++) {
        arrow_check(events, &arrows[i]);
        across += arrows[i].from.rank != arrows[i].to.rank;
    }
    printf("%zu arrows, %zu of them across ranks\n", arrows_count, across);
    if (across < (size_t)ranks)
        WRONG("that is too few");
    json_decref(document);
    return wrong != 0;
}
