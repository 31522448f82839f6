/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-run: starts N local ranks of a program. launcher.c does the work; this file has
 * the command line and its errors. */
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"
#include "tools/options.h"
#include "tools/standard_files.h"

static const char help[] =
    "Usage: tryst-run -n N [options] program [arguments]\n"
    "\n"
    "Starts N ranks of a program on this machine, with the environment that they need\n"
    "to connect (TRYST_RANK, TRYST_SIZE, TRYST_BOOTSTRAP, a fresh TRYST_TOKEN).\n"
    "\n"
    "Options:\n"
    "  -n, -np, --ranks N number of ranks\n"
    "  -e, --env K=V      set a variable for all ranks (may be repeated)\n"
    "  -x, --export K=V   the same, as for mpirun; -x K alone warns if K is not set,\n"
    "                     since ranks have all variables of tryst-run\n"
    "  -g, --grace TIME   when a rank fails, the others have this time to end by\n"
    "                     themselves, then they get SIGTERM, 2 s later SIGKILL\n"
    "                     (default 10s; 500ms, 2m)\n"
    "      --no-prefix    ranks write to stdout and stderr themselves\n"
    "  -h, --help         print this\n"
    "      --version      print the version, the commit and the modules\n"
    "\n"
    "Each line of output is preceded by its rank: \"[2] text\"; prompts and progress\n"
    "bars are shown after 100 ms. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are\n"
    "passed on. The exit status is that of the rank that failed first (128 plus the\n"
    "signal if it was killed), 0 if none failed, 125 if tryst-run itself failed, 126\n"
    "or 127 if the program cannot be run or found. If tryst-run is killed, its ranks\n"
    "are killed too.\n"
    "\n"
    "On several machines another launcher starts the ranks, with the same environment\n"
    "(docs/launch.md):\n"
    "  mpirun -np 8 --host a:4,b:4 program                      Open MPI\n"
    "  srun --mpi=pmix -N 2 -n 8 program                        Slurm\n"
    "  torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d \\\n"
    "           --rdzv-endpoint a:29400 --no-python program     on each; and "
    "TRYST_TOKEN\n";

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "tryst-run: %s%s%s%s; see tryst-run --help\n", what,
            value ? " '" : "", value ? value : "", value ? "'" : "");
    return LAUNCHER_FAILED;
}

/* The beginnings of settings of variables that each rank gets, or must not have. */
static const char *const launcher_sets[] = {
    "TRYST_RANK=",       "TRYST_SIZE=",      "TRYST_LOCAL_RANK=",
    "TRYST_LOCAL_SIZE=", "TRYST_BOOTSTRAP=", "TRYST_TOKEN=",
    "TRYST_TOKEN_FILE=", "TRYST_INSECURE=",  "TRYST_BOOTSTRAP_FD="};

static bool env_read(const char *text, void *to)
{
    (void)to;
    if (text[0] == '=' || !strchr(text, '='))
        return !usage_error("--env must be NAME=VALUE, not", text);
    for (size_t i = 0; i < sizeof launcher_sets / sizeof *launcher_sets; i++)
        if (strncmp(text, launcher_sets[i], strlen(launcher_sets[i])) == 0)
            return !usage_error("--env cannot set what the launcher sets:", text);
    return putenv((char *)(uintptr_t)text) == 0;
}

/* -x of mpirun: NAME=VALUE, or the NAME of a variable that ranks have anyway. */
static bool export_read(const char *text, void *to)
{
    if (strchr(text, '=') || !*text)
        return env_read(text, to);
    if (!getenv(text))
        fprintf(stderr, "tryst-run: -x %s: the variable is not set\n", text);
    return true;
}

static bool grace_read(const char *text, void *to)
{
    return tool_time_parse(text, &((struct launcher_params *)to)->grace_ns) ||
           !usage_error("--grace must be a time such as 10s, 500ms or 2m, not", text);
}

static const struct tool_option rows[] = {
    {.name = "ranks",
     .letter = 'n',
     .kind = TOOL_COUNT,
     .offset = offsetof(struct launcher_params, ranks),
     .least = 1,
     .most = LAUNCHER_RANKS_MAX},
    {"env", 'e', TOOL_OTHER, .read = env_read},
    {"export", 'x', TOOL_OTHER, .read = export_read},
    {"grace", 'g', TOOL_OTHER, .read = grace_read},
    {"no-prefix", 0, TOOL_FLAG, .offset = offsetof(struct launcher_params, no_prefix)},
};
static const char *const synonyms[] = {"-np", "--ranks", NULL};
static const struct tool tool = {.name = "tryst-run",
                                 .help = help,
                                 .rows = rows,
                                 .rows_count = sizeof rows / sizeof *rows,
                                 .words_end = true,
                                 .synonyms = synonyms};

int main(int argc, char **argv)
{
    struct launcher_params params = {.name = "tryst-run", .grace_ns = LAUNCHER_GRACE_NS};
    standard_files_open();
    enum tool_next next = tool_options_read(&tool, argc, argv, &params);
    params.argv = argv + optind;
    int status = next == TOOL_DONE      ? 0
                 : next == TOOL_REFUSED ? LAUNCHER_FAILED
                 : params.ranks == 0 ? usage_error("no number of ranks; give -n N", NULL)
                 : optind == argc    ? usage_error("no program given", NULL)
                                     : launcher_run(&params);
    return standard_output_end("tryst-run", status, LAUNCHER_FAILED);
}
