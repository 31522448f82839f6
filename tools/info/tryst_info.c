/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-info: prints version, transports, settings and statuses of this build. All of it
 * comes from the library through the public API; nothing is written down twice. */
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <tryst/device.h>
#include <tryst/tryst.h>

#include "peer_check.h"
#include "tools/live/live.h"
#include "tools/options.h"
#include "tools/standard_files.h"
#include "trace_merge.h"

static const char help[] =
    "Usage: tryst-info [options] [words]\n"
    "\n"
    "Without an option: version, build options, and the transports with their state\n"
    "here.\n"
    "\n"
    "Options:\n"
    "      --check       before a job: test this machine and its settings, and print a\n"
    "                    fix for each problem\n"
    "      --check HOST  before a job on two hosts: test the network between this host\n"
    "                    and HOST, where tryst-info --check listen runs: which pairs of\n"
    "                    addresses connect, their round trip and largest packet, both\n"
    "                    ways, and what a job would use. HOST:PORT and listen:PORT name\n"
    "                    the TCP port to use on both hosts instead of 4712\n"
    "  -c, --config      every setting: its variable, value, origin of the value,\n"
    "                    default\n"
    "      --markdown    the settings as Markdown tables of names, defaults and\n"
    "                    meanings, by groups\n"
    "      --status      every status code, by band\n"
    "\n"
    "  --live PID|NAME   what the ranks of a process are doing: peers, waiting\n"
    "                    operations with rank and age; also of a process that hangs or\n"
    "                    is stopped\n"
    "  --live --job [PID|NAME]\n"
    "                    all ranks of that job on this host, and which rank waits for\n"
    "                    which\n"
    "      --json        the same as JSON\n"
    "\n"
    "  --merge-traces FILE...\n"
    "                    the traces of several ranks (tryst_trace_write) as one, to\n"
    "                    standard output\n"
    "  -h, --help        print this\n"
    "      --version     print the version, the commit and the modules\n"
    "\n"
    "Exit status: 0 done; 1 a setting or the library is broken, nothing was found, or\n"
    "standard output cannot be written; 2 the command line is wrong. With --check: 0\n"
    "all is well, 1 the other host was not reached, 3 with warnings, 4 with failures.\n";

/* ---- settings ---------------------------------------------------------------------- */

static int config_row(void *arg, const tryst_config_item *item)
{
    (void)arg;
    printf("%s=%s", item->environment, item->value);
    if (strcmp(item->origin, "default") != 0)
        printf("  (%s; default %s)", item->origin,
               *item->fallback ? item->fallback : "empty");
    printf("\n    %s: %s%s%s\n", item->type, item->help,
           *item->allowed ? "; allowed: " : "", item->allowed);
    return 0;
}

/* Print the text of a table cell with its bars escaped: a bare bar would end the cell. */
static void cell_print(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

/* Print the heading of the group that begins with the setting `name`, if one does. */
static void group_print(const char *name)
{
    static const char *const groups[][2] = {
        {"rank", "Ranks, and how they come together"},
        {"topology", "The network"},
        {"shm_ring_bytes", "Ranks of one host, and devices"},
        {"window_bytes", "Bytes in flight, and their order"},
        {"stage_bytes", "Memory"},
        {"eager_max", "Small tensors, and queues that a peer can fill"},
        {"progress_thread", "Progress"},
        {"stall_warn", "Logs, traces, recorded steps"},
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(name, groups[i][0]) == 0)
            printf("%s## %s\n\n| variable | type | default | meaning |\n"
                   "|---|---|---|---|\n",
                   i ? "\n" : "", groups[i][1]);
}

static int markdown_row(void *arg, const tryst_config_item *item)
{
    (void)arg;
    group_print(item->name);
    printf("| `%s` | %s | ", item->environment, item->type);
    if (*item->fallback) {
        printf("`");
        cell_print(item->fallback);
        printf("`");
    }
    printf(" | ");
    cell_print(item->help);
    if (*item->allowed) {
        printf(" (");
        cell_print(item->allowed);
        printf(")");
    }
    printf(" |\n");
    return 0;
}

static int config_print(int (*row)(void *arg, const tryst_config_item *item))
{
    tryst_config *config;
    tryst_status status = tryst_config_open(&config);
    if (status != TRYST_OK) {
        fprintf(stderr, "tryst-info: %s\n", tryst_last_error());
        return 1;
    }
    tryst_config_visit(config, row, NULL);
    tryst_config_close(config);
    return 0;
}

/* ---- preflight --------------------------------------------------------------------- */

static int check_row(void *arg, const tryst_check_item *item)
{
    static const char *const words[] = {"ok", "warn", "FAIL"};
    tryst_check_level *worst = arg;
    if (item->level > *worst)
        *worst = item->level;
    printf("%-4s  %-15s %s\n", words[item->level], item->name, item->text);
    if (item->level != TRYST_CHECK_OK)
        printf("      %-15s -> %s\n", "", item->fix);
    return 0;
}

static int check_print(void)
{
    tryst_check_level worst = TRYST_CHECK_OK;
    (void)tryst_check_visit(NULL, check_row, &worst);
    return worst == TRYST_CHECK_OK ? 0 : worst == TRYST_CHECK_WARN ? 3 : 4;
}

/* ---- statuses ---------------------------------------------------------------------- */

static const char *band_of(tryst_status status)
{
    static const char *const bands[] = {"nothing died", "the call failed",
                                        "the peer failed", "the group failed",
                                        "the context failed"};
    return status / 100 < 5 ? bands[status / 100] : "";
}

static int status_row(void *arg, tryst_status status, const char *name, const char *text)
{
    const char **band = arg;
    if (band_of(status) != *band) {
        *band = band_of(status);
        printf("%s\n", *band);
    }
    printf("  %3d  %-22s %s\n", status, name, text);
    return 0;
}

static int statuses_print(void)
{
    const char *band = NULL;
    tryst_status_visit(status_row, &band);
    return 0;
}

/* ---- version, build, transports ---------------------------------------------------- */

static int transport_row(void *arg, const tryst_transport_info *info)
{
    (void)arg;
    printf("  %-5s %s%s%s\n", info->name, info->available ? "available" : "not available",
           *info->reason ? ": " : "", info->reason);
    return 0;
}

/* Print the kinds of memory. Host memory is always available and needs no reason. */
static void devices_print(tryst_ctx *ctx)
{
    char text[160] = "";
    int32_t count = 0;
    tryst_status status =
        tryst_device_count(ctx, TRYST_MEMORY_CUDA, &count, text, sizeof text);
    printf("memory:\n  host  available\n  cuda  %s: %s\n",
           status == TRYST_OK ? "available" : "not available", text);
}

static int overview_print(void)
{
    tryst_ctx *ctx;
    tryst_open_params params = {.struct_size = sizeof params};
    printf("tryst %s (headers %d.%d.%d)\n", tryst_version_string(), TRYST_VERSION_MAJOR,
           TRYST_VERSION_MINOR, TRYST_VERSION_PATCH);
    printf("build: %s\n", TRYST_INFO_BUILD);
    tryst_status status = tryst_open(&params, &ctx);
    if (status != TRYST_OK) {
        fprintf(stderr, "tryst-info: %s\n", tryst_last_error());
        return 1;
    }
    printf("transports:\n");
    tryst_transport_visit(ctx, transport_row, NULL);
    devices_print(ctx);
    tryst_close(ctx);
    return 0;
}

/* ---- the command line -------------------------------------------------------------- */

struct choice {
    bool config, markdown, check, status, live, job, json, merge;
};

/* Read the options and return the next step of main. */
static enum tool_next options_read(int argc, char **argv, struct choice *choice)
{
#define AT(member) TOOL_FLAG, .offset = offsetof(struct choice, member)
    static const struct tool_option rows[] = {
        {"config", 'c', AT(config)}, {"markdown", 0, AT(markdown)},
        {"check", 0, AT(check)},     {"status", 0, AT(status)},
        {"live", 0, AT(live)},       {"job", 0, AT(job)},
        {"json", 0, AT(json)},       {"merge-traces", 0, AT(merge)},
    };
#undef AT
    static const struct tool tool = {.name = "tryst-info",
                                     .help = help,
                                     .rows = rows,
                                     .rows_count = sizeof rows / sizeof *rows};
    enum tool_next next = tool_options_read(&tool, argc, argv, choice);
    if (next != TOOL_GO || choice->live || !(choice->job || choice->json))
        return next;
    fprintf(stderr, "tryst-info: --job and --json go with --live\n");
    return TOOL_REFUSED;
}

/* True if the words after the options fit the choice; otherwise a message is on
 * stderr. */
static bool words_check(int argc, char **argv, const struct choice *choice)
{
    int words = argc - optind;
    if (choice->merge) {
        if (!words)
            fprintf(stderr, "tryst-info: --merge-traces needs files\n");
        return words > 0;
    }
    int most = choice->live || choice->check;
    if (words > most) {
        fprintf(stderr, "tryst-info: unexpected word '%s'; see tryst-info --help\n",
                argv[optind + most]);
        return false;
    }
    if (choice->live && !words && !choice->job) {
        fprintf(stderr, "tryst-info: --live needs a PID, a NAME or --job\n");
        return false;
    }
    return true;
}

static int choice_run(const struct choice *choice, char **words)
{
    if (choice->markdown)
        return config_print(markdown_row);
    if (choice->config)
        return config_print(config_row);
    if (choice->status)
        return statuses_print();
    if (choice->check)
        return words[0] ? peer_check(words[0]) : check_print();
    if (choice->merge)
        return trace_merge(words, stdout);
    return choice->live ? live_main(words[0], choice->job, choice->json)
                        : overview_print();
}

int main(int argc, char **argv)
{
    struct choice choice = {.config = false};
    standard_files_open();
    enum tool_next next = options_read(argc, argv, &choice);
    if (next == TOOL_REFUSED || (next == TOOL_GO && !words_check(argc, argv, &choice)))
        return 2;
    return standard_output_end(
        "tryst-info", next == TOOL_DONE ? 0 : choice_run(&choice, argv + optind), 1);
}
