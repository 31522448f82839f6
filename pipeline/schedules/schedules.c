/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a schedule by name and lets it write a program.
 *
 * The one idea: a schedule orders a rank's compute actions and nothing else, so it is one
 * small function, and its name occurs nowhere else in the library. */
#include "schedules.h"

#include <limits.h>
#include <string.h>

#include "options.h"
#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "pipeline/base/sentence.h"

/* ---- known schedules --------------------------------------------------------------- */

static const tryst_schedule *const own[] = {
    &schedule_naive,         &schedule_gpipe,     &schedule_torchgpipe,
    &schedule_1f1b,          &schedule_dapple_b,  &schedule_interleaved,
    &schedule_bfs,           &schedule_zb_h1,     &schedule_zb_h2,
    &schedule_zb_v,          &schedule_dualpipev, &schedule_v_half,
    &schedule_v_min,         &schedule_pipedream, &schedule_pipedream_vsync,
    &schedule_pipedream_2bw, &schedule_pipemare,  &schedule_xpipe,
    &schedule_spectrain,     &schedule_hanayo,    &schedule_chimera,
    &schedule_dualpipe,
};
#define OWN_COUNT ((int)(sizeof own / sizeof *own))

const tryst_schedule *tryst_program_schedule(int index)
{
    return index >= 0 && index < OWN_COUNT ? own[index] : NULL;
}

static const tryst_schedule *find(const char *name, size_t bytes)
{
    for (int i = 0; i < OWN_COUNT; i++) {
        if (strlen(own[i]->name) == bytes && strncmp(own[i]->name, name, bytes) == 0) {
            return own[i];
        }
    }
    return NULL;
}

static tryst_status refuse_unknown(const char *name)
{
    char known[512];
    struct sentence out = sentence_begin(known, sizeof known);
    for (int i = 0; i < OWN_COUNT; i++) {
        sentence_add(&out, "%s%s", i ? ", " : "", own[i]->name);
    }
    return refuse(TRYST_E_PROGRAM,
                  "cannot generate a program: unknown schedule \"%.64s\"; known are %s",
                  name, known);
}

/* ---- generation -------------------------------------------------------------------- */

/* Limit of the counts, so that sums of some of them fit an int. */
#define COUNT_MAX (INT32_MAX / 4)

/* Append one UPDATE for each stage that the list of `rank` names, in ascending order. */
static tryst_status updates_append(tryst_program *program, int rank)
{
    size_t count = 0;
    (void)tryst_program_actions(program, rank, &count);
    tryst_status status = TRYST_OK;
    for (int stage = 0; stage < tryst_program_stages(program); stage++) {
        const tryst_action *actions = tryst_program_actions(program, rank, NULL);
        const tryst_action update = {
            .kind = TRYST_ACTION_UPDATE, .stage = stage, .microbatch = -1, .version = 1};
        size_t i = 0;
        while (i < count && actions[i].stage != stage) {
            i++;
        }
        if (i < count && status == TRYST_OK) {
            status = tryst_program_append(program, rank, &update);
        }
    }
    return status;
}

static tryst_status write(const tryst_schedule *schedule,
                          const tryst_schedule_params *params, tryst_program *program)
{
    tryst_status status = TRYST_OK;
    for (int rank = 0; rank < params->ranks_count && status == TRYST_OK; rank++) {
        status = schedule->generate(params, program, rank);
        if (status == TRYST_OK && !schedule->asynchronous) {
            status = updates_append(program, rank);
        }
    }
    tryst_program_rate_set(program, params->rate);
    return status;
}

/* Add the REDUCE_GRADs of stages that are on several ranks: one copy of the program has
 * them. Replaces *program_p where there are any. */
static tryst_status reductions_add(tryst_program **program_p)
{
    tryst_program *program = *program_p;
    bool several = false;
    for (int stage = 0; stage < tryst_program_stages(program) && !several; stage++) {
        several = tryst_program_replicas(program, stage, NULL, 0) > 1;
    }
    if (!several) {
        return TRYST_OK;
    }
    tryst_status status = tryst_program_replicate(program, 1, program_p);
    if (status == TRYST_OK) {
        tryst_program_close(program);
    }
    return status;
}

static tryst_status generate(const tryst_schedule *schedule,
                             tryst_schedule_params *params, tryst_program **program_p)
{
    if (params->ranks_count < 1 || params->microbatches_count < 1 ||
        params->ranks_count > COUNT_MAX || params->microbatches_count > COUNT_MAX) {
        return refuse(TRYST_E_INVALID,
                      "cannot generate a program for %d ranks and %d micro-batches: each "
                      "count must be from 1 to %d",
                      params->ranks_count, params->microbatches_count, COUNT_MAX);
    }
    const char *reason = schedule->check ? schedule->check(params) : NULL;
    if (reason) {
        return refuse(
            TRYST_E_PROGRAM, "cannot generate %s for %d ranks and %d micro-batches: %s",
            schedule->name, params->ranks_count, params->microbatches_count, reason);
    }
    params->chunks_count = params->chunks_count > 0 ? params->chunks_count : 1;
    if (params->chunks_count > COUNT_MAX / params->ranks_count ||
        params->chunks_count > COUNT_MAX / params->microbatches_count) {
        return refuse(TRYST_E_INVALID,
                      "cannot generate a program for %d ranks of %d stages each and %d "
                      "micro-batches: stages, and micro-batches of all stages of a rank, "
                      "must be at most %d",
                      params->ranks_count, params->chunks_count,
                      params->microbatches_count, COUNT_MAX);
    }
    tryst_program *program = NULL;
    tryst_status status = tryst_program_open(params->ranks_count,
                                             params->ranks_count * params->chunks_count,
                                             params->microbatches_count, &program);
    if (status == TRYST_OK) {
        status = write(schedule, params, program);
    }
    if (status == TRYST_OK && !schedule->asynchronous) {
        status = reductions_add(&program);
    }
    if (status != TRYST_OK) {
        tryst_program_close(program);
        return status;
    }
    *program_p = program;
    return TRYST_OK;
}

tryst_status tryst_program_generate(const char *schedule,
                                    const tryst_schedule_params *params,
                                    tryst_program **program_p)
{
    tryst_schedule_params own_params;
    if (!schedule || !program_p) {
        return refuse_null("generate a program", schedule ? "program_p" : "schedule");
    }
    tryst_status status = params_read_given(&own_params, sizeof own_params, params,
                                            "tryst_schedule_params");
    const tryst_schedule *found = find(schedule, options_name_bytes(schedule));
    if (status == TRYST_OK && !found) {
        status = refuse_unknown(schedule);
    }
    if (status == TRYST_OK) {
        status = options_read(found, schedule, &own_params);
    }
    return status == TRYST_OK ? generate(found, &own_params, program_p) : status;
}
