/* SPDX-License-Identifier: Apache-2.0 */
/* Implements options.h over getopt_long. */
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tryst/tryst.h>

#include "options.h"

enum { ROWS_MAX = 64, LONG_FIRST = 256, VERSION = LONG_FIRST + ROWS_MAX };

/* Parse `length` digits as a number of at most `most`. */
static bool digits_parse(const char *text, size_t length, uint64_t most,
                         uint64_t *whole_p)
{
    uint64_t whole = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (digit > most || whole > (most - digit) / 10)
            return false;
        whole = whole * 10 + digit;
    }
    *whole_p = whole;
    return length > 0;
}

bool tool_number_parse(const char *text, uint64_t least, uint64_t most,
                       uint64_t *number_p)
{
    size_t digits = strspn(text, "0123456789");
    return !text[digits] && digits_parse(text, digits, most, number_p) &&
           *number_p >= least;
}

bool tool_bytes_parse(const char *text, uint64_t least, uint64_t most, uint64_t *bytes_p)
{
    static const char units[] = "KMGT";
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    const char *rest = text + digits + (unit != NULL);
    if ((*rest && !(unit && strcmp(rest, "iB") == 0)) ||
        !digits_parse(text, digits, most >> shift, bytes_p))
        return false;
    *bytes_p <<= shift;
    return *bytes_p >= least;
}

bool tool_time_parse(const char *text, uint64_t *ns_p)
{
    char *unit;
    double value = strtod(text, &unit);
    double ns = !*unit || strcmp(unit, "s") == 0 ? 1e9
                : strcmp(unit, "ms") == 0        ? 1e6
                : strcmp(unit, "m") == 0         ? 60e9
                : strcmp(unit, "h") == 0         ? 3600e9
                                                 : 0;
    *ns_p = (uint64_t)(value >= 0 && value <= 1e6 ? value * ns : 0);
    return unit != text && value >= 0 && value <= 1e6 && ns > 0;
}

static bool rate_parse(const char *text, double *rate_p)
{
    char *end;
    *rate_p = strtod(text, &end);
    return end != text && !*end && isfinite(*rate_p) && *rate_p > 0;
}

__attribute__((format(printf, 4, 5))) static bool refuse(const struct tool *tool,
                                                         const struct tool_option *row,
                                                         const char *text,
                                                         const char *wants, ...)
{
    va_list args;
    fprintf(stderr, "%s: ", tool->name);
    if (row->name)
        fprintf(stderr, "--%s %s: must be ", row->name, text);
    else
        fprintf(stderr, "-%c %s: must be ", row->letter, text);
    va_start(args, wants);
    vfprintf(stderr, wants, args);
    va_end(args);
    fputc('\n', stderr);
    return false;
}

static bool refuse_number(const struct tool *tool, const struct tool_option *row,
                          const char *text)
{
    if (row->most == UINT64_MAX)
        return refuse(tool, row, text, "a whole number from %llu",
                      (unsigned long long)row->least);
    return refuse(tool, row, text, "a whole number from %llu to %llu",
                  (unsigned long long)row->least, (unsigned long long)row->most);
}

/* True if `text` is one of the words of `values`. */
static bool word_listed(const char *values, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = values; *at; at += strspn(at, " ")) {
        size_t bytes = strcspn(at, " ");
        if (bytes == length && strncmp(at, text, bytes) == 0)
            return true;
        at += bytes;
    }
    return false;
}

/* Report that the value must be "one, another or a third". */
static bool refuse_word(const struct tool *tool, const struct tool_option *row,
                        const char *text)
{
    char words[256];
    size_t used = 0;
    for (const char *at = row->values; *at && used < sizeof words; at++) {
        const char *between = *at != ' ' ? "" : strchr(at + 1, ' ') ? ", " : " or ";
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%.1s", between,
                                 *at == ' ' ? "" : at);
    }
    return refuse(tool, row, text, "%s; see %s --help", words, tool->name);
}

static bool option_row_parse(const struct tool *tool, const struct tool_option *row,
                             const char *text, void *options)
{
    void *place = (char *)options + row->offset;
    uint64_t number;
    switch (row->kind) {
    case TOOL_FLAG: *(bool *)place = true; return true;
    case TOOL_TEXT: *(const char **)place = text; return true;
    case TOOL_WORD:
        *(const char **)place = text;
        return word_listed(row->values, text) || refuse_word(tool, row, text);
    case TOOL_COUNT:
        if (!tool_number_parse(text, row->least, row->most, &number))
            return refuse_number(tool, row, text);
        *(int *)place = (int)number;
        return true;
    case TOOL_NUMBER:
        return tool_number_parse(text, row->least, row->most, place) ||
               refuse_number(tool, row, text);
    case TOOL_BYTES:
        return tool_bytes_parse(text, row->least, row->most, place) ||
               refuse(tool, row, text,
                      "bytes, as 40G, 1M or 64K (powers of 1024) or 1500");
    case TOOL_RATE:
        return rate_parse(text, place) || refuse(tool, row, text, "a number above 0");
    default: return row->read(text, options);
    }
}

/* Fill getopt's tables. For row i getopt_long returns LONG_FIRST + i, or the letter. */
static void getopt_fill(const struct tool *tool, struct option *longs, char *letters)
{
    int count = 0;
    if (tool->words_end)
        *letters++ = '+';
    /* getopt returns ':' for a missing value; getopt_long prints nothing itself (opterr
     * is 0) */
    *letters++ = ':';
    for (int i = 0; i < tool->rows_count; i++) {
        const struct tool_option *row = &tool->rows[i];
        int argument = row->kind == TOOL_FLAG ? no_argument : required_argument;
        if (row->name)
            longs[count++] = (struct option){row->name, argument, NULL, LONG_FIRST + i};
        if (row->letter)
            *letters++ = row->letter;
        if (row->letter && argument == required_argument)
            *letters++ = ':';
    }
    longs[count++] = (struct option){"help", no_argument, NULL, 'h'};
    longs[count++] = (struct option){"version", no_argument, NULL, VERSION};
    longs[count] = (struct option){NULL, 0, NULL, 0};
    *letters++ = 'h';
    *letters = '\0';
}

static const struct tool_option *row_find(const struct tool *tool, int what)
{
    for (int i = 0; i < tool->rows_count; i++)
        if (what == LONG_FIRST + i || (what && what == tool->rows[i].letter))
            return &tool->rows[i];
    return NULL;
}

static bool is_allowed(const struct tool *tool, const struct tool_option *row)
{
    const char *const *name = tool->allowed;
    while (name && *name && strcmp(*name, row->name) != 0)
        name++;
    return !name || *name;
}

static bool allowed_check(const struct tool *tool, const struct tool_option *row)
{
    if (is_allowed(tool, row))
        return true;
    fprintf(stderr, "%s: --%s is not allowed here; see --help\n", tool->name, row->name);
    return false;
}

/* Replace the word where the next option begins, if it has a synonym. */
static void synonym_replace(const struct tool *tool, int argc, char **argv)
{
    int at = optind ? optind : 1;
    for (const char *const *word = tool->synonyms; word && *word; word += 2)
        if (at < argc && strcmp(argv[at], word[0]) == 0)
            argv[at] = (char *)(uintptr_t)word[1];
}

const char *tool_build(void)
{
    return "commit " TOOL_COMMIT "; modules: " TOOL_MODULES;
}

/* Two lines: the first has the form that help2man reads. */
static void version_print(const char *name)
{
    printf("%s %d.%d.%d\n", name, TRYST_VERSION_MAJOR, TRYST_VERSION_MINOR,
           TRYST_VERSION_PATCH);
    puts(tool_build());
}

/* Print the help, with the program's name of this call. */
static void help_print(const struct tool *tool)
{
    const char *at = tool->help, *found;
    size_t bytes = strcspn(tool->name, " "); /* "pp_bench schedules" */
    while (tool->help_name && (found = strstr(at, tool->help_name)) != NULL) {
        printf("%.*s%.*s", (int)(found - at), at, (int)bytes, tool->name);
        at = found + strlen(tool->help_name);
    }
    fputs(at, stdout);
}

/* ---- the table --------------------------------------------------------------------- */

static const char *column_of(const struct tool_option *row)
{
    return row->kind == TOOL_FLAG      ? "flag"
           : row->values || row->value ? "word"
           : row->kind == TOOL_TEXT    ? "file"
                                       : "value";
}

static void row_print(const struct tool_option *row)
{
    const char *value;
    printf("option\t");
    if (row->name)
        printf("--%s ", row->name);
    if (row->letter)
        printf("-%c", row->letter);
    printf("\t%s\t%s", column_of(row), row->values ? row->values : "");
    for (int i = 0; row->value && (value = row->value(i)) != NULL; i++)
        printf("%s%s", i ? " " : "", value);
    putchar('\n');
}

static void table_print(const struct tool *tool)
{
    const char *command;
    if (tool->words_end)
        puts("program");
    for (int i = 0; tool->command && (command = tool->command(i)) != NULL; i++)
        printf("command\t%s\n", command);
    for (int i = 0; i < tool->rows_count; i++)
        if (is_allowed(tool, &tool->rows[i]))
            row_print(&tool->rows[i]);
    printf("option\t--help -h\tflag\t\noption\t--version\tflag\t\n");
}

/* ---- the command line -------------------------------------------------------------- */

enum tool_next tool_options_read(const struct tool *tool, int argc, char **argv,
                                 void *options)
{
    struct option longs[ROWS_MAX + 3];
    char letters[2 * ROWS_MAX + 3];
    int what;
    if (argc == 2 && strcmp(argv[1], "--options") == 0) {
        table_print(tool);
        return TOOL_DONE;
    }
    opterr = 0;
    getopt_fill(tool, longs, letters);
    synonym_replace(tool, argc, argv);
    while ((what = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct tool_option *row = row_find(tool, what);
        if (what == 'h') {
            help_print(tool);
            return TOOL_DONE;
        }
        if (what == VERSION) {
            version_print(tool->name);
            return TOOL_DONE;
        }
        if (!row)
            fprintf(stderr, "%s: %s %s; see %s --help\n", tool->name, argv[optind - 1],
                    what == ':' ? "needs a value" : "is unknown, or takes no value",
                    tool->name);
        if (!row || !allowed_check(tool, row) ||
            !option_row_parse(tool, row, optarg, options))
            return TOOL_REFUSED;
        synonym_replace(tool, argc, argv);
    }
    return TOOL_GO;
}
