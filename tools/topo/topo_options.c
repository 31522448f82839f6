/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tryst-topo's command line, reads and writes its files. */
#include "topo_tool.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int topo_fail(int exit_status, const char *fmt, ...)
{
    va_list args;
    fputs("tryst-topo: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return exit_status;
}

/* ---- options ----------------------------------------------------------------------- */

static bool gap_read(const char *text, void *to)
{
    double *gap = &((struct topo_options *)to)->gap;
    char *end;
    *gap = strtod(text, &end);
    if (end != text && !*end && *gap >= 0 && *gap < 1e6)
        return true;
    topo_fail(0, "--gap %s: must be a number from 0 to below 1e6 (0.01 is 1 %%)", text);
    return false;
}

static const char *op_name(int i)
{
    return tryst_plan_op_name((tryst_plan_op)i);
}

#define AT(member) .offset = offsetof(struct topo_options, member)
static const struct tool_option rows[] = {
    {"input", 0, TOOL_TEXT, AT(input)},
    {"format", 0, TOOL_TEXT, AT(format), .values = "text json dot svg"},
    {"output", 'o', TOOL_TEXT, AT(output)},
    {"probe", 0, TOOL_FLAG, AT(probe)},
    {"op", 0, TOOL_TEXT, AT(op), .value = op_name},
    {"root", 0, TOOL_TEXT, AT(root)},
    {"ranks", 0, TOOL_TEXT, AT(ranks)},
    {"size", 0, TOOL_BYTES, AT(size_bytes), 0, UINT64_MAX - 1},
    {"sum-gbit", 0, TOOL_RATE, AT(sum_gbit)},
    {"trees-max", 0, TOOL_COUNT, AT(trees_max), 0, INT32_MAX},
    {"gap", 0, TOOL_OTHER, .read = gap_read},
    {"json", 0, TOOL_TEXT, AT(json)},
    {"from", 0, TOOL_TEXT, AT(from)},
    {"to", 0, TOOL_TEXT, AT(to)},
    {"local-ranks", 'n', TOOL_COUNT, AT(local_ranks), 1, INT32_MAX},
    {"transport", 0, TOOL_TEXT, AT(transport), .values = TOOL_TRANSPORTS},
    {"probe-cache", 0, TOOL_TEXT, AT(probe_cache)},
    {"probe-seconds", 0, TOOL_RATE, AT(probe_seconds)},
    {"probe-again", 0, TOOL_FLAG, AT(probe_again)},
};
#undef AT

enum tool_next topo_options_read(int argc, char **argv, const char *help,
                                 const char *const *allowed,
                                 const char *(*command)(int i),
                                 struct topo_options *options)
{
    const struct tool tool = {.name = "tryst-topo",
                              .help = help,
                              .rows = rows,
                              .rows_count = sizeof rows / sizeof *rows,
                              .allowed = allowed,
                              .command = command};
    bool file = false;
    enum tool_next next = tool_options_read(&tool, argc, argv, options);
    while (*allowed)
        file |= strcmp(*allowed++, "FILE") == 0;
    if (next != TOOL_GO)
        return next;
    if (optind < argc && file)
        options->file = argv[optind++];
    if (optind < argc)
        topo_fail(0, "unexpected word '%s'; see --help", argv[optind]);
    return optind < argc ? TOOL_REFUSED : TOOL_GO;
}

/* ---- ranks ------------------------------------------------------------------------- */

/* Find a rank by name, or by number if no rank has that name; -1: none. */
static int rank_find(const tryst_topo *topo, const char *text, size_t length)
{
    char name[512];
    uint64_t number;
    if (length < sizeof name) {
        memcpy(name, text, length);
        name[length] = '\0';
        int rank = tryst_topo_rank_find(topo, name);
        if (rank >= 0)
            return rank;
    }
    bool is_number = length < sizeof name && tool_number_parse(name, 0, INT_MAX, &number);
    return is_number && (int)number < tryst_topo_ranks(topo) ? (int)number : -1;
}

static int rank_unknown(const tryst_topo *topo, const char *text, size_t length,
                        const char *input)
{
    topo_fail(0,
              "%s has no rank '%.*s': must be a name (such as %s) or a number (0 to %d)",
              input, (int)length, text, tryst_topo_rank_name(topo, 0),
              tryst_topo_ranks(topo) - 1);
    return -1;
}

int topo_rank_parse(const tryst_topo *topo, const char *text, const char *input)
{
    int rank = rank_find(topo, text, strlen(text));
    return rank >= 0 ? rank : rank_unknown(topo, text, strlen(text), input);
}

/* Parse one item, "h3", "3" or "3-5", as first and last rank. False if a rank is
 * unknown. */
static bool item_parse(const tryst_topo *topo, const char *text, size_t length,
                       int *first_p, int *last_p)
{
    *first_p = *last_p = rank_find(topo, text, length);
    if (*first_p >= 0)
        return true;
    const char *dash = memchr(text, '-', length);
    if (!dash)
        return false;
    *first_p = rank_find(topo, text, (size_t)(dash - text));
    *last_p = rank_find(topo, dash + 1, length - (size_t)(dash - text) - 1);
    return *first_p >= 0 && *last_p >= *first_p;
}

bool topo_ranks_parse(const tryst_topo *topo, const char *text, const char *input,
                      int32_t **ranks_p, int32_t *count_p)
{
    int32_t count = 0, room = tryst_topo_ranks(topo);
    int32_t *ranks = calloc((size_t)room + 1, sizeof *ranks);
    if (!ranks) {
        topo_fail(0, "cannot read --ranks: out of memory for %d ranks", room);
        return false;
    }
    for (const char *item = text; item; item = strchr(item, ',')) {
        item += item != text;
        size_t length = strcspn(item, ",");
        int first, last;
        if (!item_parse(topo, item, length, &first, &last)) {
            rank_unknown(topo, item, length, input);
            free(ranks);
            return false;
        }
        for (; first <= last; first++) {
            if (count == room) {
                topo_fail(0, "--ranks %s: lists a rank twice", text);
                free(ranks);
                return false;
            }
            ranks[count++] = first;
        }
    }
    *ranks_p = ranks;
    *count_p = count;
    return true;
}

/* ---- files ------------------------------------------------------------------------- */

int topo_text_put(const char *text, const char *path)
{
    if (!path || strcmp(path, "-") == 0) {
        fputs(text, stdout); /* main checks stdout (standard_output_end) */
        return TOPO_FINE;
    }
    FILE *file = fopen(path, "we");
    bool fine = file && fputs(text, file) >= 0;
    fine = file && fclose(file) == 0 && fine;
    return fine ? TOPO_FINE
                : topo_fail(TOPO_USAGE, "cannot write %s: %s", path, strerror(errno));
}

/* Plans are limited like the topologies that the library reads. */
#define FILE_BYTES_MAX (1ul << 30)

/* Read all of `file`. NULL after a message. */
static char *stream_read(FILE *file, const char *path, size_t *bytes_p)
{
    size_t bytes = 0, room = 1 << 16, got;
    char *text = malloc(room);
    while (text && (got = fread(text + bytes, 1, room - bytes - 1, file)) > 0) {
        bytes += got;
        if (bytes >= FILE_BYTES_MAX) {
            topo_fail(0, "cannot read %s: it is larger than 1 GiB", path);
            free(text);
            return NULL;
        }
        if (bytes + 1 < room)
            continue;
        char *grown = realloc(text, room *= 2);
        if (!grown)
            free(text);
        text = grown;
    }
    if (!text || ferror(file)) {
        topo_fail(0, "cannot read %s: %s", path, strerror(errno));
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    *bytes_p = bytes;
    return text;
}

char *topo_file_get(const char *path, size_t *bytes_p)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rbe");
    if (!file) {
        topo_fail(0, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = stream_read(file, path, bytes_p);
    if (!standard)
        fclose(file);
    return text;
}
