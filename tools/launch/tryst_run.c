/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-run: starts N local ranks of a program. launcher.c does the work; this file has
 * the command line and its errors. */
#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"
#include "tools/options.h"
#include "tools/standard_files.h"

/* Status 125 means "the wrapper itself failed", as in env(1) and timeout(1). */
#define USAGE_STATUS LAUNCHER_FAILED

static const char help[] =
    "usage: tryst-run -n N [options] program [arguments]\n"
    "\n"
    "Starts N ranks of a program on this machine, with the environment that they need\n"
    "to connect (TRYST_RANK, TRYST_SIZE, TRYST_BOOTSTRAP, a fresh TRYST_TOKEN).\n"
    "\n"
    "  -n, --ranks N      number of ranks\n"
    "  -e, --env K=V      set a variable for all ranks (may be repeated)\n"
    "  -g, --grace TIME   when a rank fails, the others have this time to end by\n"
    "                     themselves, then they get SIGTERM, 2 s later SIGKILL\n"
    "                     (default 10s; 500ms, 2m)\n"
    "      --no-prefix    ranks write to stdout and stderr themselves\n"
    "  -h, --help         print this\n"
    "\n"
    "Each line of output is preceded by its rank: \"[2] text\"; prompts and progress\n"
    "bars are shown after 100 ms. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are\n"
    "passed on. The exit status is that of the rank that failed first (128 plus the\n"
    "signal if it was killed), 0 if none failed, 125 if tryst-run itself failed, 126\n"
    "or 127 if the program cannot be run or found. If tryst-run is killed, its ranks\n"
    "are killed too.\n";

struct options {
    struct launcher_params params;
    char **env;
    size_t env_count;
};

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "tryst-run: %s%s%s%s; see tryst-run --help\n", what,
            value ? " '" : "", value ? value : "", value ? "'" : "");
    return USAGE_STATUS;
}

/* Parse a time: "10", "10s", "500ms", "2m", "1.5". */
static bool time_parse(const char *text, uint64_t *ns_p)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"m", 60e9}, {"h", 3600e9}};
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || !(value >= 0) || value > 1e6)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].unit) == 0) {
            *ns_p = (uint64_t)(value * units[i].ns);
            return true;
        }
    return false;
}

static bool ranks_read(const char *text, void *to)
{
    uint64_t ranks;
    if (!tool_number_parse(text, 1, LAUNCHER_RANKS_MAX, &ranks))
        return !usage_error("--ranks must be a whole number from 1 to 4096, not", text);
    ((struct options *)to)->params.ranks = (int)ranks;
    return true;
}

static bool env_read(const char *text, void *to)
{
    struct options *options = to;
    if (text[0] == '=' || !strchr(text, '='))
        return !usage_error("--env must be NAME=VALUE, not", text);
    options->env[options->env_count++] = (char *)(uintptr_t)text;
    return true;
}

static bool grace_read(const char *text, void *to)
{
    return time_parse(text, &((struct options *)to)->params.grace_ns) ||
           !usage_error("--grace must be a time such as 10s, 500ms or 2m, not", text);
}

/* Read the options. Returns 0, or the exit status if a message on stderr has refused
 * them. *done_p: true if help was printed, so that nothing is to run. */
static int options_parse(int argc, char **argv, struct options *options, bool *done_p)
{
    static const struct tool_option rows[] = {
        {"ranks", 'n', TOOL_OTHER, .read = ranks_read},
        {"env", 'e', TOOL_OTHER, .read = env_read},
        {"grace", 'g', TOOL_OTHER, .read = grace_read},
        {"no-prefix", 0, TOOL_FLAG, .offset = offsetof(struct options, params.no_prefix)},
    };
    static const struct tool tool = {.name = "tryst-run",
                                     .help = help,
                                     .rows = rows,
                                     .rows_count = sizeof rows / sizeof *rows,
                                     .words_end = true};
    enum tool_next next = tool_options_read(&tool, argc, argv, options);
    *done_p = next == TOOL_DONE;
    if (next != TOOL_GO)
        return next == TOOL_DONE ? 0 : USAGE_STATUS;
    if (options->params.ranks == 0)
        return usage_error("no number of ranks; give -n N", NULL);
    if (optind == argc)
        return usage_error("no program given", NULL);
    options->params.argv = argv + optind;
    return 0;
}

int main(int argc, char **argv)
{
    bool done = false;
    standard_files_open();
    struct options options = {
        .params = {.name = "tryst-run", .grace_ns = LAUNCHER_GRACE_NS}};
    options.env = calloc((size_t)argc + 1, sizeof *options.env);
    if (!options.env)
        return usage_error("out of memory", NULL);
    options.params.env = options.env;
    int status = options_parse(argc, argv, &options, &done);
    if (status == 0 && !done)
        status = launcher_run(&options.params);
    free(options.env);
    return standard_output_end("tryst-run", status, LAUNCHER_FAILED);
}
