/* SPDX-License-Identifier: Apache-2.0 */
/* Implements "pp_bench schedules --costs": a line for each schedule, by the simulator.
 *
 * One idea: costs belong to the model, not to the stages, since schedules cut it into
 * different numbers of them. The model is a row of equal parts with the costs of F, I and
 * W for a micro-batch, and a stage takes its share of the parts that it covers. Three
 * numbers are as many equal parts as there are ranks: so they are the costs of a rank,
 * and its chunks share them. */
#include "bench_costs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/pipeline.h>

#include "bench_predict.h"

/* Most parts of a file, and the longest line. */
enum { PARTS_MAX = 65536, LINE_MAX_BYTES = 256 };

/* The costs of a model, part after part. */
struct parts {
    struct part {
        double ms[3]; /* F, I, W */
    } * all;
    int count;
};

/* ---- the costs --------------------------------------------------------------------- */

/* Parse three numbers with a comma or blanks between them. False if `text` is something
 * else. */
static bool part_parse(const char *text, struct part *part)
{
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        part->ms[i] = strtod(text, &end);
        if (end == text || !(part->ms[i] >= 0 && part->ms[i] <= 1e9)) {
            return false;
        }
        text = end + strspn(end, " \t");
        text += i < 2 && *text == ',';
    }
    return text[strspn(text, " \t\r\n")] == '\0';
}

static bool part_add(struct parts *self, const struct part *part)
{
    struct part *all = realloc(self->all, ((size_t)self->count + 1) * sizeof *self->all);
    if (!all) {
        return false;
    }
    self->all = all;
    self->all[self->count++] = *part;
    return true;
}

/* Read the next part. False at the end of the file and after a message. */
static bool line_read(const char *tool, const char *path, FILE *file, struct parts *self,
                      bool *bad_p)
{
    char line[LINE_MAX_BYTES];
    struct part part;
    if (!fgets(line, sizeof line, file)) {
        return false;
    }
    *bad_p = true;
    if (!part_parse(line, &part)) {
        fprintf(stderr,
                "%s: --costs %s: line %d must be three numbers from 0 to 1e9, the ms of "
                "F, I and W\n",
                tool, path, self->count + 1);
        return false;
    }
    if (self->count == PARTS_MAX || !part_add(self, &part)) {
        fprintf(stderr, "%s: --costs %s: no room for more than %d lines\n", tool, path,
                self->count);
        return false;
    }
    *bad_p = false;
    return true;
}

static bool file_read(const char *tool, const char *path, struct parts *self)
{
    bool bad = false;
    FILE *file = fopen(path, "re");
    if (!file) {
        fprintf(stderr,
                "%s: --costs %s: must be the ms of F, I and W, as 10,10,10, or a file "
                "with a line of them for each part of the model: %s\n",
                tool, path, strerror(errno));
        return false;
    }
    while (line_read(tool, path, file, self, &bad)) {
    }
    if (!bad && (ferror(file) || self->count == 0)) {
        fprintf(stderr, "%s: --costs %s: %s\n", tool, path,
                ferror(file) ? "cannot read the file" : "the file has no line");
        bad = true;
    }
    fclose(file);
    return !bad;
}

static bool parts_read(const char *tool, const char *costs, int ranks, struct parts *self)
{
    struct part part;
    if (!part_parse(costs, &part)) {
        return file_read(tool, costs, self);
    }
    for (int i = 0; i < ranks; i++) {
        if (!part_add(self, &part)) {
            fprintf(stderr, "%s: --costs: out of memory\n", tool);
            return false;
        }
    }
    return true;
}

/* Return the costs of stage `stage` of `stages`: its share of the parts from
 * stage / stages to (stage + 1) / stages of the model. */
static tryst_action_costs stage_costs(const struct parts *self, int stage, int stages)
{
    double ms[3] = {0, 0, 0};
    int64_t count = self->count, begin = stage * count, end = begin + count;
    for (int64_t at = begin; at < end;) { /* in parts / stages */
        int64_t part = at / stages, next = (part + 1) * stages;
        next = next < end ? next : end;
        for (int i = 0; i < 3; i++) {
            ms[i] += self->all[part].ms[i] * (double)(next - at) / stages;
        }
        at = next;
    }
    return (tryst_action_costs){.forward_s = ms[0] / 1e3,
                                .backward_s = (ms[1] + ms[2]) / 1e3,
                                .input_grad_s = ms[1] / 1e3,
                                .weight_grad_s = ms[2] / 1e3};
}

/* ---- a schedule's line ------------------------------------------------------------- */

/* Count the outputs and gradients that go from rank to rank in a step; -1: out of
 * memory. */
static long transfers_count(const tryst_program *program)
{
    int stages = tryst_program_stages(program);
    int microbatches = tryst_program_microbatches(program);
    size_t cells = (size_t)stages * (size_t)microbatches;
    int *owners = calloc(cells, sizeof *owners);
    long count = 0;
    for (int rank = 0; owners && rank < tryst_program_ranks(program); rank++) {
        size_t actions_count = 0;
        const tryst_action *actions =
            tryst_program_actions(program, rank, &actions_count);
        for (size_t i = 0; i < actions_count; i++) {
            if (actions[i].kind == TRYST_ACTION_FORWARD) {
                owners[actions[i].stage * microbatches +
                       actions[i].microbatch % microbatches] = rank;
            }
        }
    }
    for (size_t i = 0; owners && i + (size_t)microbatches < cells; i++) {
        count += 2 * (owners[i] != owners[i + (size_t)microbatches]);
    }
    long result = owners ? count : -1;
    free(owners);
    return result;
}

/* Return the most activations that a rank holds, in micro-batches: a stage is
 * ranks / stages of what a rank has. */
static double peak(const tryst_program *program, const struct bench_step *step)
{
    int ranks = tryst_program_ranks(program);
    int32_t most = 0;
    for (int rank = 0; rank < ranks; rank++) {
        most = step->ranks[rank].peak > most ? step->ranks[rank].peak : most;
    }
    return (double)most * ranks / tryst_program_stages(program);
}

static tryst_status predict(const struct parts *self, const tryst_program *program,
                            struct bench_prediction *prediction_p)
{
    int stages = tryst_program_stages(program);
    tryst_action_costs *costs = calloc((size_t)stages, sizeof *costs);
    for (int stage = 0; costs && stage < stages; stage++) {
        costs[stage] = stage_costs(self, stage, stages);
    }
    const tryst_sim_params params = {.struct_size = sizeof params, .costs = costs};
    *prediction_p = (struct bench_prediction){0};
    tryst_status status =
        costs ? bench_predict(program, &params, prediction_p) : TRYST_E_NOMEM;
    free(costs);
    return status;
}

/* Print a program's figures. Returns the status of the simulation. */
static tryst_status program_print(const struct parts *self, const char *name,
                                  const tryst_program *program)
{
    struct bench_prediction of;
    long transfers = transfers_count(program);
    tryst_status status = transfers < 0 ? TRYST_E_NOMEM : predict(self, program, &of);
    if (status == TRYST_OK) {
        printf("%-16s %12.3f %12.1f %12.1f %14.1f %12ld\n", name, of.later.step_s * 1e3,
               100 * of.first.bubble, 100 * of.later.bubble, peak(program, &of.later),
               transfers);
    }
    if (transfers >= 0) {
        bench_prediction_close(&of);
    }
    return status;
}

/* Print the line of a schedule; a schedule that is not defined for these counts has its
 * reason there. Returns TRYST_OK then, too. */
static tryst_status schedule_print(const struct parts *self, const char *name, int ranks,
                                   int microbatches)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = ranks,
                                          .microbatches_count = microbatches};
    tryst_program *program = NULL;
    tryst_status status = tryst_program_generate(name, &params, &program);
    if (status == TRYST_E_PROGRAM || status == TRYST_E_INVALID) {
        printf("%-16s %s\n", name, tryst_last_error());
        return TRYST_OK;
    }
    if (status == TRYST_OK) {
        status = tryst_program_check(program, NULL, NULL);
    }
    if (status == TRYST_OK) {
        status = program_print(self, name, program);
    }
    tryst_program_close(program);
    return status;
}

bool bench_costs_print(const char *tool, const char *costs, int ranks, int microbatches)
{
    struct parts parts = {0};
    const tryst_schedule *schedule;
    tryst_status status = TRYST_OK;
    bool known = parts_read(tool, costs, ranks, &parts);
    if (known) {
        printf("%d ranks, %d micro-batches a step, costs %s\n\n"
               "%-16s %12s %12s %12s %14s %12s\n%-16s %12s %12s %12s %14s %12s\n",
               ranks, microbatches, costs, "", "later step,", "bubble of", "bubble of",
               "most micro-", "transfers", "schedule", "ms", "first, %", "later, %",
               "batches held", "of a step");
    }
    for (int i = 0; known && status == TRYST_OK && (schedule = tryst_program_schedule(i));
         i++) {
        status = schedule_print(&parts, schedule->name, ranks, microbatches);
    }
    if (status != TRYST_OK) {
        fprintf(stderr, "%s: --costs: %s\n", tool,
                status == TRYST_E_NOMEM ? "out of memory" : tryst_last_error());
    }
    free(parts.all);
    return known && status == TRYST_OK;
}
