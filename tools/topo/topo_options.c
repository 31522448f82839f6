/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-topo: its command line, files in and out. */
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

/* ---- options ------------------------------------------------------------------------------ */

/* An option of any word; where its text goes, or what it switches on. */
struct option_row {
    const char *name;
    char letter; /* 0: it has none */
    bool flag;
    size_t offset;
};

#define TEXT(name, letter, member)                                 \
    {                                                              \
        name, letter, false, offsetof(struct topo_options, member) \
    }
#define FLAG(name, letter, member)                                \
    {                                                             \
        name, letter, true, offsetof(struct topo_options, member) \
    }

static const struct option_row rows[] = {
    TEXT("input", 0, input),
    TEXT("format", 0, format),
    TEXT("output", 'o', output),
    FLAG("probe", 0, probe),
    TEXT("op", 0, op),
    TEXT("root", 0, root),
    TEXT("ranks", 0, ranks),
    TEXT("size", 0, size),
    TEXT("sum-rate", 0, sum_rate),
    TEXT("trees-max", 0, trees_max),
    TEXT("gap", 0, gap),
    TEXT("json", 0, json),
    TEXT("from", 0, from),
    TEXT("to", 0, to),
    TEXT("local-ranks", 'n', local_ranks),
    TEXT("transport", 0, transport),
    TEXT("probe-cache", 0, probe_cache),
    TEXT("probe-seconds", 0, probe_seconds),
    FLAG("probe-again", 0, probe_again),
    FLAG("help", 'h', help),
};

enum { ROWS = sizeof rows / sizeof *rows, LONG_FIRST = 256 };

static void longs_make(struct option *longs)
{
    for (int i = 0; i < ROWS; i++)
        longs[i] =
            (struct option){rows[i].name, rows[i].flag ? no_argument : required_argument,
                            NULL, LONG_FIRST + i};
    longs[ROWS] = (struct option){NULL, 0, NULL, 0};
}

/* What getopt found; '?' is nobody's. */
static const struct option_row *row_find(int what)
{
    for (int i = 0; i < ROWS; i++)
        if (what == LONG_FIRST + i || (rows[i].letter && what == rows[i].letter))
            return &rows[i];
    return NULL;
}

static void row_take(const struct option_row *row, const char *text,
                     struct topo_options *options)
{
    char *place = (char *)options + row->offset;
    if (row->flag)
        *(bool *)(void *)place = true;
    else
        *(const char **)(void *)place = text;
}

static bool is_allowed(const char *const *allowed, const char *name)
{
    while (*allowed && strcmp(*allowed, name) != 0)
        allowed++;
    return *allowed != NULL;
}

bool topo_options_read(int argc, char **argv, const char *const *allowed,
                       struct topo_options *options)
{
    struct option longs[ROWS + 1];
    int what;
    longs_make(longs);
    while (!options->help &&
           (what = getopt_long(argc, argv, "hn:o:", longs, NULL)) != -1) {
        const struct option_row *row = row_find(what);
        if (!row)
            return false; /* getopt has said it */
        if (strcmp(row->name, "help") != 0 && !is_allowed(allowed, row->name)) {
            topo_fail(0, "--%s does not belong here; see --help", row->name);
            return false;
        }
        row_take(row, optarg, options);
    }
    if (options->help)
        return true;
    if (optind < argc && is_allowed(allowed, "FILE"))
        options->file = argv[optind++];
    if (optind < argc)
        topo_fail(0, "what is '%s'? See --help", argv[optind]);
    return optind >= argc;
}

/* ---- values ------------------------------------------------------------------------------- */

/* Digits alone, up to `max`. */
static bool whole_parse(const char *text, size_t length, uint64_t max, uint64_t *whole_p)
{
    uint64_t whole = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (whole > (max - digit) / 10)
            return false;
        whole = whole * 10 + digit;
    }
    *whole_p = whole;
    return length > 0;
}

bool topo_size_parse(const char *text, uint64_t *bytes_p)
{
    static const char units[] = "KMGT";
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    const char *rest = text + digits + (unit != NULL);
    bool ends = !*rest || (unit && strcmp(rest, "iB") == 0);
    uint64_t whole;
    if (ends && whole_parse(text, digits, UINT64_MAX >> shift, &whole)) {
        *bytes_p = whole << shift;
        return true;
    }
    topo_fail(
        0,
        "--size %s: a size is a whole number of bytes, or with K, M, G or T of 1024, "
        "1024 x 1024, ... bytes (64K, 1M)",
        text);
    return false;
}

bool topo_number_parse(const char *option, const char *text, double *number_p)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number > 0 && number < 1e9)) {
        topo_fail(0, "%s %s: a number above 0 is needed", option, text);
        return false;
    }
    *number_p = number;
    return true;
}

bool topo_count_parse(const char *option, const char *text, int32_t *count_p)
{
    uint64_t whole;
    if (!whole_parse(text, strlen(text), INT32_MAX, &whole)) {
        topo_fail(0, "%s %s: a whole number is needed", option, text);
        return false;
    }
    *count_p = (int32_t)whole;
    return true;
}

/* By name, or by number where no rank has that name; -1. */
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
    bool is_number = whole_parse(text, length, INT_MAX, &number);
    return is_number && (int)number < tryst_topo_ranks(topo) ? (int)number : -1;
}

static int rank_unknown(const tryst_topo *topo, const char *text, size_t length,
                        const char *input)
{
    topo_fail(0, "%s has no rank '%.*s': ranks go by name (%s) or number (0 to %d)",
              input, (int)length, text, tryst_topo_rank_name(topo, 0),
              tryst_topo_ranks(topo) - 1);
    return -1;
}

int topo_rank_parse(const tryst_topo *topo, const char *text, const char *input)
{
    int rank = rank_find(topo, text, strlen(text));
    return rank >= 0 ? rank : rank_unknown(topo, text, strlen(text), input);
}

/* One item, "h3", "3" or "3-5", as first and last; false: there is none of that name. */
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
        topo_fail(0, "no memory for %d ranks", room);
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
                topo_fail(0, "--ranks %s: a rank is named twice", text);
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

/* ---- files -------------------------------------------------------------------------------- */

int topo_text_put(const char *text, const char *path)
{
    if (!path || strcmp(path, "-") == 0) {
        fputs(text, stdout); /* main looks whether that was written */
        return TOPO_FINE;
    }
    FILE *file = fopen(path, "we");
    bool fine = file && fputs(text, file) >= 0;
    fine = file && fclose(file) == 0 && fine;
    return fine
               ? TOPO_FINE
               : topo_fail(TOPO_USAGE, "%s cannot be written: %s", path, strerror(errno));
}

/* A plan is no larger than the topologies that the library reads. */
#define FILE_BYTES_MAX (1ul << 30)

/* NULL: it said what is wrong. */
static char *stream_read(FILE *file, const char *path, size_t *bytes_p)
{
    size_t bytes = 0, room = 1 << 16, got;
    char *text = malloc(room);
    while (text && (got = fread(text + bytes, 1, room - bytes - 1, file)) > 0) {
        bytes += got;
        if (bytes >= FILE_BYTES_MAX) {
            topo_fail(0, "%s is larger than 1 GiB", path);
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
        topo_fail(0, "%s cannot be read: %s", path, strerror(errno));
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
        topo_fail(0, "%s cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    char *text = stream_read(file, path, bytes_p);
    if (!standard)
        fclose(file);
    return text;
}
