/* SPDX-License-Identifier: Apache-2.0 */
/* Implements "pp_bench schedules": the list of all schedules, what each takes
 * (bench_costs.c), and the trace of one: the weight version that each F and B reads, and
 * how many UPDATEs late its gradient is. */
#include "bench_schedules.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/pipeline.h>

#include "bench_options.h"
#include "tools/bench/predict/bench_costs.h"

/* Steps of a loop in a trace. */
#define TRACE_STEPS 3

static const char help[] =
    "Usage: pp_bench schedules [options]\n"
    "\n"
    "List the schedules of --schedule, with their options.\n"
    "\n"
    "Options:\n"
    "      --trace NAME         show the weights that a schedule's actions read: for "
    "each\n"
    "                           micro-batch and stage the weight version of F and of B,\n"
    "                           and behind + the UPDATEs that come between this version\n"
    "                           and the one that the gradient changes; p marks weights\n"
    "                           that are predicted from the version. A loop is shown "
    "for\n"
    "                           three steps\n"
    "      --costs F,I,W|FILE   print what each schedule takes by the simulator: a step\n"
    "                           that follows others, the bubbles of the first step and\n"
    "                           of that one, the most activations on a rank, in\n"
    "                           micro-batches, and the transfers of a step from rank to\n"
    "                           rank. F, I and W are the ms of a rank for a forward and\n"
    "                           for both parts of a backward, B takes I + W, and chunks\n"
    "                           of a rank share them; transfers take no time. Or a FILE\n"
    "                           with a line \"F I W\" for each of equal parts of the\n"
    "                           model, such as one for each stage\n"
    "  -n RANKS                 of the trace or the costs (4)\n"
    "  -m, --microbatches N     of a step of them (8)\n"
    "  -h, --help               print this\n"
    "      --version            print the version, the commit and the modules\n";

struct options {
    const char *trace;
    const char *costs;
    int ranks;
    int microbatches;
};

#define AT(member) .offset = offsetof(struct options, member)
static const struct tool_option rows[] = {
    {"trace", 0, TOOL_TEXT, AT(trace), .value = bench_schedule_name},
    {"costs", 0, TOOL_TEXT, AT(costs)},
    {NULL, 'n', TOOL_COUNT, AT(ranks), 1, 256},
    {"microbatches", 'm', TOOL_COUNT, AT(microbatches), 1, 1024},
};
#undef AT

static void list_print(void)
{
    static const struct {
        uint32_t bit;
        const char *words;
    } options[] = {{TRYST_SCHEDULE_CHUNKS, "v=N"},
                   {TRYST_SCHEDULE_GROUP, "group=N|torch"},
                   {TRYST_SCHEDULE_EVERY, "every=N"},
                   {TRYST_SCHEDULE_INFLIGHT, "inflight=N"},
                   {TRYST_SCHEDULE_CAP, "cap=N"},
                   {TRYST_SCHEDULE_UPDATES, "updates=N"},
                   {TRYST_SCHEDULE_RECOMPUTE, "recompute=never|except_last|always"},
                   {TRYST_SCHEDULE_RATE, "rate=N"},
                   {TRYST_SCHEDULE_WAVES, "waves=N"}};
    const tryst_schedule *schedule;
    for (int i = 0; (schedule = tryst_program_schedule(i)) != NULL; i++) {
        printf("%s\n    %s\n   ", schedule->name, schedule->help);
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            if (schedule->options & options[k].bit) {
                printf(" %s", options[k].words);
            }
        }
        putchar('\n');
    }
    puts(
        "\nupdates: as a program of so many UPDATEs that drains at its end, not a loop.\n"
        "rate: UPDATEs over which the learning rate of a stage with late gradients "
        "rises\n"
        "to the full rate. recompute: forwards keep their input alone, and run again\n"
        "before their backward. Of a schedule with one stage a rank also sync=N: first "
        "N\n"
        "steps of " TRYST_SCHEDULE_DEFAULT " on the same stages.");
}

/* ---- trace ------------------------------------------------------------------------- */

/* The weights that F and B of one micro-batch read at one stage. */
struct cell {
    tryst_program_read read[2];
    bool predicted[2];
};

static struct cell *cell_of(struct cell *cells, const tryst_program *program,
                            const tryst_action *action)
{
    return &cells[action->microbatch * tryst_program_stages(program) + action->stage];
}

static tryst_status rank_read(const tryst_program *program, int rank, struct cell *cells)
{
    size_t count = 0;
    const tryst_action *actions = tryst_program_actions(program, rank, &count);
    tryst_program_read *reads = calloc(count + 1, sizeof *reads);
    tryst_status status =
        reads ? tryst_program_reads(program, rank, reads) : TRYST_E_NOMEM;
    for (size_t i = 0; i < count && status == TRYST_OK; i++) {
        bool forward = actions[i].kind == TRYST_ACTION_FORWARD;
        if (forward || actions[i].kind == TRYST_ACTION_BACKWARD) {
            struct cell *cell = cell_of(cells, program, &actions[i]);
            cell->read[!forward] = reads[i];
            cell->predicted[!forward] = actions[i].slot > 0;
        }
    }
    free(reads);
    return status;
}

static void trace_row(const struct cell *cells, int stages, int microbatch)
{
    printf("%4d", microbatch);
    for (int stage = 0; stage < stages; stage++) {
        const struct cell *cell = &cells[microbatch * stages + stage];
        char text[2][32];
        for (int i = 0; i < 2; i++) {
            snprintf(text[i], sizeof text[i], "%d%s+%d", (int)cell->read[i].version,
                     cell->predicted[i] ? "p" : "", (int)cell->read[i].delay);
        }
        printf("  %8s %8s", text[0], text[1]);
    }
    putchar('\n');
}

static void needs_print(const tryst_program *program)
{
    for (int stage = 0; stage < tryst_program_stages(program); stage++) {
        tryst_stage_need need = {.struct_size = sizeof need};
        if (tryst_program_stage_need(program, stage, &need) == TRYST_OK) {
            printf("stage %d: %d version%s, %d slot%s, delay %g\n", stage,
                   (int)need.versions_count, need.versions_count == 1 ? "" : "s",
                   (int)need.slots_count, need.slots_count == 1 ? "" : "s", need.delay);
        }
    }
}

static tryst_status trace_print(const char *name, const tryst_program *flat)
{
    int stages = tryst_program_stages(flat);
    int microbatches = tryst_program_microbatches(flat);
    struct cell *cells = calloc((size_t)stages * (size_t)microbatches, sizeof *cells);
    tryst_status status = cells ? TRYST_OK : TRYST_E_NOMEM;
    for (int rank = 0; rank < tryst_program_ranks(flat) && status == TRYST_OK; rank++) {
        status = rank_read(flat, rank, cells);
    }
    if (status == TRYST_OK) {
        printf("%s: F and B of each micro-batch read version+late\n    ", name);
        for (int stage = 0; stage < stages; stage++) {
            printf("  stage %-11d", stage);
        }
        putchar('\n');
        for (int microbatch = 0; microbatch < microbatches; microbatch++) {
            trace_row(cells, stages, microbatch);
        }
    }
    free(cells);
    return status;
}

static tryst_status trace(const struct options *options)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = options->ranks,
                                          .microbatches_count = options->microbatches};
    tryst_program *program = NULL, *flat = NULL;
    size_t body, epilogue;
    tryst_status status = tryst_program_generate(options->trace, &params, &program);
    if (status == TRYST_OK) {
        status = tryst_program_check(program, NULL, NULL);
    }
    if (status == TRYST_OK && tryst_program_loop(program, 0, &body, &epilogue)) {
        status = tryst_program_unroll(program, TRACE_STEPS, &flat);
    }
    if (status == TRYST_OK) {
        needs_print(program);
        status = trace_print(options->trace, flat ? flat : program);
    }
    tryst_program_close(flat);
    tryst_program_close(program);
    return status;
}

int bench_schedules(int argc, char **argv)
{
    struct options options = {.ranks = 4, .microbatches = 8};
    char name[32];
    snprintf(name, sizeof name, "%s schedules", bench_name());
    const struct tool tool = {.name = name,
                              .help = help,
                              .help_name = "pp_bench",
                              .rows = rows,
                              .rows_count = sizeof rows / sizeof *rows};
    enum tool_next next = tool_options_read(&tool, argc, argv, &options);
    if (next != TOOL_GO) {
        return next == TOOL_DONE ? 0 : 2;
    }
    if (optind < argc) {
        fprintf(stderr, "%s: %s: not an option; see --help\n", name, argv[optind]);
        return 2;
    }
    if (options.trace && options.costs) {
        fprintf(stderr, "%s: --costs: prints all schedules; leave out --trace\n", name);
        return 2;
    }
    if (options.costs) {
        return bench_costs_print(name, options.costs, options.ranks, options.microbatches)
                   ? 0
                   : 2;
    }
    if (!options.trace) {
        list_print();
        return 0;
    }
    if (trace(&options) != TRYST_OK) {
        fprintf(stderr, "%s: --trace: %s\n", name, tryst_last_error());
        return 2;
    }
    return 0;
}
