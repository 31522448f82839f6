/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-topo: shows a machine or a cluster, plans trees on it, checks plans, explains
 * routes. The library does all of it, through tryst/topo.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/draw/topo_svg.h"
#include "tools/job.h"
#include "tools/launch/launcher.h"
#include "tools/standard_files.h"
#include "topo_probe.h"
#include "topo_tool.h"

#define SIZE_USUAL          (UINT64_C(1) << 20)
#define PROBE_SECONDS_USUAL 60

static tryst_topo *topo_open(const struct topo_options *options)
{
    tryst_topo *topo = NULL;
    tryst_status status = options->input ? tryst_topo_load(options->input, &topo)
                                         : tryst_topo_detect(&topo);
    if (status != TRYST_OK)
        topo_fail(0, "%s", tryst_last_error());
    return topo;
}

static const char *input_name(const struct topo_options *options)
{
    return options->input ? options->input : "this machine";
}

/* Print `text`, which the library allocated, and free it. */
static int text_end(tryst_status status, char *text, const char *path)
{
    if (status != TRYST_OK)
        return topo_fail(TOPO_USAGE, "%s", tryst_last_error());
    int result = topo_text_put(text, path);
    tryst_text_free(text);
    return result;
}

/* ---- show -------------------------------------------------------------------------- */

/* Draw to memory first, so that a picture that fails writes nothing. */
static int svg_put(const tryst_topo *topo, const tryst_plan *plan, const char *path)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    bool fine = file && topo_svg_draw(file, topo, plan);
    fine = file && fclose(file) == 0 && fine;
    int result = fine ? topo_text_put(text, path)
                      : topo_fail(TOPO_USAGE, "cannot draw: out of memory");
    free(text);
    return result;
}

static int topo_put(const tryst_topo *topo, const struct topo_options *options,
                    const tryst_plan *plan)
{
    char *text = NULL;
    const char *format = options->format ? options->format : "text";
    if (strcmp(format, "svg") == 0)
        return svg_put(topo, plan, options->output);
    tryst_status status = tryst_topo_write(topo, format, plan, &text);
    return text_end(status, text, options->output);
}

static int probe_options_make(const struct topo_options *options,
                              struct probe_options *probe)
{
    *probe = (struct probe_options){.transport = options->transport,
                                    .cache = options->probe_cache,
                                    .seconds_max = options->probe_seconds > 0
                                                       ? options->probe_seconds
                                                       : PROBE_SECONDS_USUAL,
                                    .again = options->probe_again};
    if (options->input)
        return topo_fail(TOPO_USAGE,
                         "cannot combine --input and --probe; give one of them");
    return TOPO_FINE;
}

/* Run one rank of the job; rank 0 prints the graph. */
static int probe_rank(void *arg, int rank)
{
    const struct topo_options *options = arg;
    struct probe_options probe;
    tryst_topo *topo;
    (void)rank;
    int result = probe_options_make(options, &probe);
    if (result != TOPO_FINE)
        return result;
    result = probe_run(&probe, &topo);
    if (result == TOPO_FINE && topo)
        result = topo_put(topo, options, NULL);
    tryst_topo_close(topo);
    return result;
}

static int probe_main(struct topo_options *options)
{
    struct probe_options probe;
    int rank, size;
    int place = job_place("tryst-topo", &rank, &size);
    if (place < 0)
        return TOPO_USAGE;
    if (place)
        return probe_rank(options, rank);
    if (options->local_ranks < 2)
        return topo_fail(TOPO_USAGE,
                         "--probe measures between ranks; start it by tryst-run, "
                         "mpirun, srun or torchrun, or with -n 2 or more");
    int result = probe_options_make(options, &probe);
    if (result != TOPO_FINE)
        return result;
    const struct launcher_params job = {.name = "tryst-topo",
                                        .ranks = options->local_ranks,
                                        .main_fn = probe_rank,
                                        .arg = options,
                                        .grace_ns = LAUNCHER_GRACE_NS,
                                        .no_prefix = true};
    return launcher_run(&job);
}

static int show_main(struct topo_options *options)
{
    if (options->probe)
        return probe_main(options);
    if (options->local_ranks || options->transport || options->probe_cache ||
        options->probe_seconds > 0 || options->probe_again)
        return topo_fail(TOPO_USAGE,
                         "-n, --transport, --probe-seconds, --probe-cache and "
                         "--probe-again go with --probe");
    tryst_topo *topo = topo_open(options);
    if (!topo)
        return TOPO_USAGE;
    int result = topo_put(topo, options, NULL);
    tryst_topo_close(topo);
    return result;
}

/* ---- plan -------------------------------------------------------------------------- */

static bool op_parse(const char *text, tryst_plan_op *op_p)
{
    const char *name;
    for (int op = 0; (name = tryst_plan_op_name((tryst_plan_op)op)); op++)
        if (strcmp(name, text) == 0) {
            *op_p = (tryst_plan_op)op;
            return true;
        }
    topo_fail(0,
              "--op %s: must be allreduce, broadcast, reduce, allgather or "
              "reduce_scatter",
              text);
    return false;
}

/* Set the root, as an index in the group. */
static bool root_parse(const tryst_topo *topo, const struct topo_options *options,
                       tryst_plan_params *params)
{
    bool rooted = params->op == TRYST_PLAN_BROADCAST || params->op == TRYST_PLAN_REDUCE;
    if (!options->root)
        return true;
    if (!rooted) {
        topo_fail(0, "--root goes with --op broadcast or reduce only");
        return false;
    }
    int rank = topo_rank_parse(topo, options->root, input_name(options));
    if (rank < 0)
        return false;
    params->root = rank;
    for (int32_t i = 0; params->ranks && i < params->ranks_count; i++)
        if (params->ranks[i] == rank) {
            params->root = i;
            return true;
        }
    if (params->ranks)
        topo_fail(0, "--root %s is not among --ranks", options->root);
    return !params->ranks;
}

/* Fill in `params`. The caller frees *ranks_p, also after a failure. */
static bool params_read(const tryst_topo *topo, const struct topo_options *options,
                        tryst_plan_params *params, int32_t **ranks_p)
{
    if (options->op && !op_parse(options->op, &params->op))
        return false;
    if (options->ranks && !topo_ranks_parse(topo, options->ranks, input_name(options),
                                            ranks_p, &params->ranks_count))
        return false;
    params->ranks = *ranks_p;
    params->trees_max = options->trees_max;
    params->gap_max = options->gap;
    params->sum_bytes_per_s = options->sum_gbit / 8 * 1e9;
    return root_parse(topo, options, params);
}

static int plan_put(const tryst_topo *topo, const tryst_plan *plan,
                    const struct topo_options *options)
{
    char *text = NULL;
    int result = TOPO_FINE;
    if (options->json) {
        tryst_status status = tryst_plan_json(plan, &text);
        result = text_end(status, text, options->json);
        if (result != TOPO_FINE || !options->format)
            return result;
    }
    if (options->format)
        return topo_put(topo, options, plan);
    tryst_status status = tryst_plan_text(plan, &text);
    return text_end(status, text, options->output);
}

static int plan_main(struct topo_options *options)
{
    tryst_plan_params params = {.struct_size = sizeof params};
    tryst_plan *plan = NULL;
    int32_t *ranks = NULL;
    int result = TOPO_USAGE;
    tryst_topo *topo = topo_open(options);
    if (topo && params_read(topo, options, &params, &ranks)) {
        tryst_status status = tryst_plan_open(topo, &params, &plan);
        if (status == TRYST_OK)
            result = plan_put(topo, plan, options);
        else
            topo_fail(0, "%s: %s", input_name(options), tryst_last_error());
    }
    tryst_plan_close(plan);
    free(ranks);
    tryst_topo_close(topo);
    return result;
}

/* ---- verify ------------------------------------------------------------------------ */

static int verify_main(struct topo_options *options)
{
    size_t bytes = 0;
    if (!options->file)
        return topo_fail(TOPO_USAGE, "verify needs the file of a plan: tryst-topo verify "
                                     "PLAN.json --input FILE");
    tryst_topo *topo = topo_open(options);
    char *json = topo ? topo_file_get(options->file, &bytes) : NULL;
    int result = TOPO_USAGE;
    if (json) {
        tryst_status status = tryst_plan_verify(topo, json, bytes, options->file);
        result = status == TRYST_OK ? TOPO_FINE : TOPO_WRONG;
        if (status != TRYST_OK)
            topo_fail(0, "%s", tryst_last_error());
        else
            printf("%s holds: trees, shares, loads, times and the bound are as written\n",
                   options->file);
    }
    free(json);
    tryst_topo_close(topo);
    return result;
}

/* ---- explain ----------------------------------------------------------------------- */

static int explain_main(struct topo_options *options)
{
    char *text = NULL;
    if (!options->from || !options->to)
        return topo_fail(TOPO_USAGE, "explain needs --from and --to");
    tryst_topo *topo = topo_open(options);
    if (!topo)
        return TOPO_USAGE;
    int from = topo_rank_parse(topo, options->from, input_name(options));
    int to = from < 0 ? -1 : topo_rank_parse(topo, options->to, input_name(options));
    int result = TOPO_USAGE;
    if (to >= 0) {
        tryst_status status =
            tryst_topo_explain(topo, from, to, options->size_bytes, &text);
        result = text_end(status, text, options->output);
    }
    tryst_topo_close(topo);
    return result;
}

/* ---- the command line -------------------------------------------------------------- */

static const char *const show_options[] = {
    "input",     "format",      "output",        "probe",       "local-ranks",
    "transport", "probe-cache", "probe-seconds", "probe-again", NULL};
static const char *const plan_options[] = {"input",     "op",     "root",     "ranks",
                                           "trees-max", "gap",    "sum-gbit", "json",
                                           "format",    "output", NULL};
static const char *const verify_options[] = {"input", "FILE", NULL};
static const char *const explain_options[] = {"input", "from",   "to",
                                              "size",  "output", NULL};

static const struct word {
    const char *name, *help;
    const char *const *options;
    int (*main)(struct topo_options *options);
} words[] = {
    {"", topo_help, show_options, show_main},
    {"plan", topo_help_plan, plan_options, plan_main},
    {"verify", topo_help_verify, verify_options, verify_main},
    {"explain", topo_help_explain, explain_options, explain_main},
};

/* Return the name of command `i`; NULL: there is none. */
static const char *command_name(int i)
{
    int count = (int)(sizeof words / sizeof *words);
    return i + 1 < count ? words[i + 1].name : NULL; /* the first has none */
}

static int topo_main(int argc, char **argv)
{
    struct topo_options options = {.size_bytes = SIZE_USUAL};
    const struct word *word = &words[0];
    if (argc > 1 && argv[1][0] != '-') {
        word = NULL;
        for (size_t w = 1; w < sizeof words / sizeof *words; w++)
            if (strcmp(argv[1], words[w].name) == 0)
                word = &words[w];
        if (!word)
            return topo_fail(TOPO_USAGE,
                             "unknown command '%s': must be plan, verify or explain; see "
                             "tryst-topo --help",
                             argv[1]);
        argc--; /* getopt skips argv[0], here the command */
        argv++;
    }
    enum tool_next next =
        topo_options_read(argc, argv, word->help, word->options, command_name, &options);
    if (next != TOOL_GO)
        return next == TOOL_DONE ? TOPO_FINE : TOPO_USAGE;
    return word->main(&options);
}

int main(int argc, char **argv)
{
    standard_files_open();
    setenv("HWLOC_HIDE_ERRORS", "2", 0); /* hwloc prints about files that it repairs */
    return standard_output_end("tryst-topo", topo_main(argc, argv), TOPO_USAGE);
}
