/* SPDX-License-Identifier: Apache-2.0 */
/* See handmade.h. */
#include "handmade.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/tryst.h>

void handmade_append(tryst_program *program, int rank, tryst_action action)
{
    if (tryst_program_append(program, rank, &action) != TRYST_OK) {
        fail_msg("rank %d, kind %d, stage %d, micro-batch %d: %s", rank, (int)action.kind,
                 action.stage, action.microbatch, tryst_last_error());
    }
}

/* ---- text -------------------------------------------------------------------------- */

static tryst_action_kind kind_of(const char **cursor)
{
    static const tryst_action_kind kinds[] = {
        /* REDUCE_GRAD before R */
        TRYST_ACTION_UPDATE,      TRYST_ACTION_REDUCE_GRAD, TRYST_ACTION_PREDICT,
        TRYST_ACTION_FORWARD,     TRYST_ACTION_BACKWARD,    TRYST_ACTION_INPUT_GRAD,
        TRYST_ACTION_WEIGHT_GRAD, TRYST_ACTION_RECOMPUTE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = tryst_action_kind_name(kinds[i]);
        if (*name && strncmp(*cursor, name, strlen(name)) == 0) {
            *cursor += strlen(name);
            return kinds[i];
        }
    }
    fail_msg("no action in \"%s\"", *cursor);
    return TRYST_ACTION_NONE;
}

static int number_at(const char **cursor)
{
    char *end;
    long number = strtol(*cursor, &end, 10);
    *cursor = end;
    return (int)number;
}

static tryst_action parse_action(const char *word)
{
    const char *cursor = word;
    tryst_action a = {.stage = number_at(&cursor), .microbatch = -1};
    a.kind = kind_of(&cursor);
    a.version = a.kind == TRYST_ACTION_UPDATE;
    if (a.kind == TRYST_ACTION_PREDICT) {
        a.ahead = 1;
    } else if (*cursor >= '0' && *cursor <= '9') {
        a.microbatch = number_at(&cursor);
    }
    while (*cursor) {
        char field = *cursor++;
        if (field == 'v') {
            a.version = number_at(&cursor);
        } else if (field == 's' || field == ':') {
            a.slot = number_at(&cursor);
        } else {
            fail_msg("not an action: \"%s\"", word);
        }
    }
    return a;
}

static void mark(tryst_program *program, int rank, tryst_program_part part)
{
    assert_int_equal(tryst_program_mark(program, rank, part), TRYST_OK);
}

tryst_program *handmade_parse(int ranks_count, int stages_count, int microbatches_count,
                              const char *text)
{
    tryst_program *program = NULL;
    char *copy = strdup(text), *rest = NULL;
    int rank = 0;
    assert_non_null(copy);
    assert_int_equal(
        tryst_program_open(ranks_count, stages_count, microbatches_count, &program),
        TRYST_OK);
    for (char *word = strtok_r(copy, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        if (*word == '|') {
            rank++;
        } else if (*word == '[') {
            mark(program, rank, TRYST_PROGRAM_BODY);
        } else if (*word == ']') {
            mark(program, rank, TRYST_PROGRAM_EPILOGUE);
        } else {
            handmade_append(program, rank, parse_action(word));
        }
    }
    free(copy);
    return program;
}

/* Write one action to `text`, which has room for 96 bytes. */
static void format_action(const tryst_action *a, char text[96])
{
    const char *name = tryst_action_kind_name(a->kind);
    int length = snprintf(text, 96, "%d%s", a->stage, name);
    if (a->kind == TRYST_ACTION_PREDICT) {
        (void)snprintf(text + length, 96 - (size_t)length, ":%d(%g,%d)", a->slot,
                       a->ahead, a->direction);
        return;
    }
    if (a->microbatch >= 0) {
        length += snprintf(text + length, 96 - (size_t)length, "%d", a->microbatch);
    }
    if (a->slot != 0) {
        length += snprintf(text + length, 96 - (size_t)length, "s%d", a->slot);
    }
    if (a->version != (a->kind == TRYST_ACTION_UPDATE)) {
        (void)snprintf(text + length, 96 - (size_t)length, "v%d", a->version);
    }
}

const char *handmade_format(const tryst_program *program, char *text, size_t capacity)
{
    FILE *out = fmemopen(text, capacity, "w");
    assert_non_null(out);
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        size_t count, body, epilogue;
        const tryst_action *a = tryst_program_actions(program, rank, &count);
        bool loops = tryst_program_loop(program, rank, &body, &epilogue);
        (void)fprintf(out, "%s", rank > 0 ? "| " : "");
        for (size_t i = 0; i <= count; i++) {
            char one[96] = "";
            if (i < count) {
                format_action(&a[i], one);
            }
            (void)fprintf(out, "%s%s%s%s", loops && i == body ? "[ " : "",
                          loops && i == epilogue ? "] " : "", one, i < count ? " " : "");
        }
    }
    (void)fclose(out);
    text[capacity - 1] = 0;
    return text;
}

/* ---- asynchronous pipelines -------------------------------------------------------- */

/* One rank's list while it is written. */
struct hand {
    const struct handmade *params;
    tryst_program *program;
    int rank;
    /* Micro-batch 0 of the step is this one of the run, and the step's version 0 is
     * version origin / every. Far from 0 in a body, where no rule is cut off at 0. */
    int64_t origin;
};

static void put(struct hand *h, tryst_action_kind kind, int microbatch,
                const struct recurrence_read *read)
{
    tryst_action action = {
        .kind = kind, .stage = h->rank, .microbatch = microbatch, .slot = read->slot};
    if (read->slot == 0) {
        action.version = (int32_t)(read->version - h->origin / h->params->pipe.every);
    }
    handmade_append(h->program, h->rank, action);
}

static void put_predict(struct hand *h, const struct recurrence_read *read)
{
    if (read->slot > 0 && read->is_written) {
        handmade_append(h->program, h->rank,
                        (tryst_action){.kind = TRYST_ACTION_PREDICT,
                                       .stage = h->rank,
                                       .microbatch = -1,
                                       .slot = read->slot,
                                       .direction = read->direction,
                                       .ahead = read->ahead});
    }
}

static void put_forward(struct hand *h, int microbatch)
{
    const struct recurrence_read read =
        h->params->rule->forward(&h->params->pipe, h->rank, h->origin + microbatch);
    put_predict(h, &read);
    put(h, TRYST_ACTION_FORWARD, microbatch, &read);
}

static void put_backward(struct hand *h, int microbatch)
{
    const struct handmade *p = h->params;
    const struct recurrence_read read =
        p->rule->backward(&p->pipe, h->rank, h->origin + microbatch);
    put_predict(h, &read);
    if (p->recomputes) {
        put(h, TRYST_ACTION_RECOMPUTE, microbatch, &read);
    }
    put(h, p->is_split ? TRYST_ACTION_INPUT_GRAD : TRYST_ACTION_BACKWARD, microbatch,
        &read);
    if (p->is_split) {
        put(h, TRYST_ACTION_WEIGHT_GRAD, microbatch, &read);
    }
    if ((microbatch + 1) % p->pipe.every == 0) {
        handmade_append(h->program, h->rank,
                        (tryst_action){.kind = TRYST_ACTION_UPDATE,
                                       .stage = h->rank,
                                       .microbatch = -1,
                                       .version = (microbatch + 1) / p->pipe.every});
    }
}

static void write_rank(struct hand *h)
{
    const struct handmade *p = h->params;
    int m = p->microbatches_count, warmup = p->pipe.stages_count - 1 - h->rank;
    if (p->pipe.inflight > 0 && warmup > p->pipe.inflight - 1) {
        warmup = p->pipe.inflight - 1;
    }
    for (int j = 0; j < warmup && j < m; j++) {
        put_forward(h, j);
    }
    if (p->is_loop) {
        mark(h->program, h->rank, TRYST_PROGRAM_BODY);
        h->origin = (int64_t)64 * m;
        for (int j = 0; j < m; j++) {
            put_forward(h, warmup + j);
            put_backward(h, j);
        }
        mark(h->program, h->rank, TRYST_PROGRAM_EPILOGUE);
    }
    for (int j = 0; j < m; j++) {
        if (warmup + j < m) {
            put_forward(h, warmup + j);
        }
        put_backward(h, j);
    }
}

tryst_program *handmade_pipeline(const struct handmade *params)
{
    int stages = params->pipe.stages_count;
    struct hand h = {.params = params};
    assert_int_equal(params->microbatches_count % params->pipe.every, 0);
    assert_int_equal(
        tryst_program_open(stages, stages, params->microbatches_count, &h.program),
        TRYST_OK);
    for (h.rank = 0; h.rank < stages; h.rank++) {
        h.origin = 0;
        write_rank(&h);
    }
    return h.program;
}
