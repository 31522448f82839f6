/* SPDX-License-Identifier: Apache-2.0 */
/* Generates the named schedules: one function each, which writes one rank's list.
 *
 * The one idea: a generator only orders a rank's compute actions, without any transfer. A
 * new schedule is a function and a row in the table. */
#include <string.h>

#include "pipeline/base/refuse.h"
#include "pipeline/base/text.h"
#include "program.h"

static tryst_status append(tryst_program *program, int rank, tryst_action_kind kind,
                           int microbatch)
{
    const tryst_action action = {kind, rank, microbatch, 0};
    return tryst_program_append(program, rank, &action);
}

/* Append an action of `kind` for each micro-batch in [first, last), in order. */
static tryst_status append_run(tryst_program *program, int rank, tryst_action_kind kind,
                               int first, int last)
{
    tryst_status status = TRYST_OK;
    for (int i = first; i < last && status == TRYST_OK; i++) {
        status = append(program, rank, kind, i);
    }
    return status;
}

/* Append `count` pairs of a forward and a backward: F(lead), B(0), F(lead + 1), B(1),
 * … */
static tryst_status append_pairs(tryst_program *program, int rank, int lead, int count)
{
    tryst_status status = TRYST_OK;
    for (int i = 0; i < count && status == TRYST_OK; i++) {
        status = append(program, rank, TRYST_ACTION_FORWARD, lead + i);
        if (status == TRYST_OK) {
            status = append(program, rank, TRYST_ACTION_BACKWARD, i);
        }
    }
    return status;
}

static tryst_status generate_naive(tryst_program *program, int rank)
{
    return append_pairs(program, rank, 0, program->microbatches_count);
}

static tryst_status generate_gpipe(tryst_program *program, int rank)
{
    int count = program->microbatches_count;
    tryst_status status = append_run(program, rank, TRYST_ACTION_FORWARD, 0, count);
    return status == TRYST_OK ? append_run(program, rank, TRYST_ACTION_BACKWARD, 0, count)
                              : status;
}

static tryst_status generate_1f1b(tryst_program *program, int rank)
{
    int count = program->microbatches_count;
    int behind = program->ranks_count - 1 - rank;
    int warm_up = behind < count ? behind : count;
    tryst_status status = append_run(program, rank, TRYST_ACTION_FORWARD, 0, warm_up);
    if (status == TRYST_OK) {
        status = append_pairs(program, rank, warm_up, count - warm_up);
    }
    return status == TRYST_OK
               ? append_run(program, rank, TRYST_ACTION_BACKWARD, count - warm_up, count)
               : status;
}

struct generator {
    const char *name;
    tryst_status (*generate)(tryst_program *program, int rank);
};

static const struct generator generators[] = {
    {"naive", generate_naive},
    {"gpipe", generate_gpipe},
    {"1f1b", generate_1f1b},
};
#define GENERATORS_COUNT ((int)(sizeof generators / sizeof *generators))

const char *tryst_program_schedule_name(int index)
{
    return index >= 0 && index < GENERATORS_COUNT ? generators[index].name : NULL;
}

static const struct generator *generator_find(const char *name)
{
    for (int i = 0; i < GENERATORS_COUNT; i++) {
        if (strcmp(generators[i].name, name) == 0) {
            return &generators[i];
        }
    }
    return NULL;
}

static tryst_status refuse_unknown(const char *name)
{
    char known[128];
    struct text out = text_begin(known, sizeof known);
    for (int i = 0; i < GENERATORS_COUNT; i++) {
        text_add(&out, "%s%s", i ? ", " : "", generators[i].name);
    }
    return refuse(TRYST_E_PROGRAM,
                  "cannot generate a program: unknown schedule \"%s\"; known are %s",
                  name, known);
}

tryst_status tryst_program_generate(const char *schedule, int ranks_count,
                                    int microbatches_count, tryst_program **program_p)
{
    if (!schedule || !program_p) {
        return refuse_null("generate a program", schedule ? "program_p" : "schedule");
    }
    const struct generator *found = generator_find(schedule);
    if (!found) {
        return refuse_unknown(schedule);
    }
    tryst_program *program = NULL;
    tryst_status status =
        tryst_program_open(ranks_count, ranks_count, microbatches_count, &program);
    if (status != TRYST_OK) {
        return status;
    }
    for (int rank = 0; rank < ranks_count && status == TRYST_OK; rank++) {
        status = found->generate(program, rank);
        if (status == TRYST_OK) {
            status = program_append_updates(program, rank);
        }
    }
    if (status != TRYST_OK) {
        tryst_program_close(program);
        return status;
    }
    *program_p = program;
    return TRYST_OK;
}
