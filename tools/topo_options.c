/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-topo: its command line, files in and out. */
#include "topo_tool.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
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

enum {
    FORMAT = 256,
    INPUT,
    PROBE,
    OP,
    ROOT,
    RANKS,
    SIZE,
    TREES_MAX,
    GAP,
    SUM_RATE,
    JSON,
    FROM,
    TO,
    TRANSPORT,
    PROBE_CACHE,
    PROBE_SECONDS,
    PROBE_AGAIN
};

static const struct option longs[] = {
    {"input", required_argument, NULL, INPUT},
    {"format", required_argument, NULL, FORMAT},
    {"output", required_argument, NULL, 'o'},
    {"probe", no_argument, NULL, PROBE},
    {"op", required_argument, NULL, OP},
    {"root", required_argument, NULL, ROOT},
    {"ranks", required_argument, NULL, RANKS},
    {"size", required_argument, NULL, SIZE},
    {"trees-max", required_argument, NULL, TREES_MAX},
    {"gap", required_argument, NULL, GAP},
    {"sum-rate", required_argument, NULL, SUM_RATE},
    {"json", required_argument, NULL, JSON},
    {"from", required_argument, NULL, FROM},
    {"to", required_argument, NULL, TO},
    {"local-ranks", required_argument, NULL, 'n'},
    {"transport", required_argument, NULL, TRANSPORT},
    {"probe-cache", required_argument, NULL, PROBE_CACHE},
    {"probe-seconds", required_argument, NULL, PROBE_SECONDS},
    {"probe-again", no_argument, NULL, PROBE_AGAIN},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const char **option_place(struct topo_options *options, int what)
{
    switch (what) {
    case INPUT: return &options->input;
    case FORMAT: return &options->format;
    case 'o': return &options->output;
    case OP: return &options->op;
    case ROOT: return &options->root;
    case RANKS: return &options->ranks;
    case SIZE: return &options->size;
    case TREES_MAX: return &options->trees_max;
    case GAP: return &options->gap;
    case SUM_RATE: return &options->sum_rate;
    case JSON: return &options->json;
    case FROM: return &options->from;
    case TO: return &options->to;
    case 'n': return &options->local_ranks;
    case TRANSPORT: return &options->transport;
    case PROBE_CACHE: return &options->probe_cache;
    case PROBE_SECONDS: return &options->probe_seconds;
    default: return NULL;
    }
}

static const char *option_name(int what)
{
    const struct option *option = longs;
    while (option->name && option->val != what)
        option++;
    return option->name;
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
    int what;
    while ((what = getopt_long(argc, argv, "hn:o:", longs, NULL)) != -1) {
        if (what == '?')
            return false; /* getopt has said it */
        if (what == 'h') {
            options->help = true;
            return true;
        }
        if (!is_allowed(allowed, option_name(what))) {
            topo_fail(0, "--%s does not belong here; see --help", option_name(what));
            return false;
        }
        if (what == PROBE)
            options->probe = true;
        else if (what == PROBE_AGAIN)
            options->probe_again = true;
        else
            *option_place(options, what) = optarg;
    }
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
    bool standard = !path || strcmp(path, "-") == 0;
    FILE *file = standard ? stdout : fopen(path, "we");
    if (!file)
        return topo_fail(TOPO_USAGE, "%s cannot be written: %s", path, strerror(errno));
    bool fine = fputs(text, file) >= 0;
    fine = fflush(file) == 0 && fine;
    int error = errno;
    if (!standard)
        fine = fclose(file) == 0 && fine;
    return fine ? TOPO_FINE
                : topo_fail(TOPO_USAGE, "%s cannot be written: %s",
                            standard ? "standard output" : path, strerror(error));
}

char *topo_file_get(const char *path, size_t *bytes_p)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rbe");
    size_t bytes = 0, room = 1 << 16, got;
    char *text = malloc(room);
    if (!file || !text) {
        topo_fail(0, "%s cannot be read: %s", path, strerror(errno));
        if (file && !standard)
            fclose(file);
        free(text);
        return NULL;
    }
    while (text && (got = fread(text + bytes, 1, room - bytes - 1, file)) > 0) {
        bytes += got;
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
        text = NULL;
    }
    if (!standard)
        fclose(file);
    if (text)
        text[bytes] = '\0';
    *bytes_p = bytes;
    return text;
}
