/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in sentences: see bootstrap_text.h. */
#include "bootstrap_text.h"

#include <stdio.h>
#include <string.h>

/* The numbers alone, without "ranks " and " and N more". */
#define LIST_BYTES (RANKS_TEXT_BYTES - 32)

static void text_add(char *text, size_t bytes, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s", more);
}

/* "5", "5, 6" or "5..7" for the run first … last, with a comma before all but the first. */
static void run_add(char *text, int runs, int first, int last)
{
    char run[40];
    const char *comma = runs ? ", " : "";
    if (first == last)
        snprintf(run, sizeof run, "%s%d", comma, first);
    else
        snprintf(run, sizeof run, "%s%d%s%d", comma, first,
                 last == first + 1 ? ", " : "..", last);
    text_add(text, LIST_BYTES, run);
}

char *ranks_text(int size, bool (*holds)(const void *arg, int rank), const void *arg,
                 char text[RANKS_TEXT_BYTES], int *count_p)
{
    char list[LIST_BYTES] = "";
    int count = 0, told = 0, runs = 0;
    for (int rank = 0; rank < size; rank++) {
        if (!holds(arg, rank))
            continue;
        int first = rank;
        while (rank + 1 < size && holds(arg, rank + 1))
            rank++;
        count += rank - first + 1;
        if (runs == RANKS_TEXT_RUNS_MAX)
            continue;
        run_add(list, runs++, first, rank);
        told = count;
    }
    snprintf(text, RANKS_TEXT_BYTES, "%s%s%s", count == 0 ? "no rank" : "rank",
             count > 1 ? "s "
             : count   ? " "
                       : "",
             list);
    if (told < count) {
        char more[32];
        snprintf(more, sizeof more, " and %d more", count - told);
        text_add(text, RANKS_TEXT_BYTES, more);
    }
    if (count_p)
        *count_p = count;
    return text;
}

char *seconds_text(unsigned long long ns, char text[SECONDS_TEXT_BYTES])
{
    if (ns < 1000000000ULL)
        snprintf(text, SECONDS_TEXT_BYTES, "%llu ms", ns / 1000000);
    else
        snprintf(text, SECONDS_TEXT_BYTES, "%.4g s", (double)(ns / 1000000) / 1000.0);
    return text;
}
