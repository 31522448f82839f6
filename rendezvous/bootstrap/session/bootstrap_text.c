/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of ranks in sentences: see bootstrap_text.h. */
#include "bootstrap_text.h"

#include <stdio.h>
#include <string.h>

#include "core/text/text.h"

/* Bytes of the numbers alone, without "ranks " and " and N more". */
#define LIST_BYTES (RANKS_TEXT_BYTES - 32)

/* Append "5", "5, 6" or "5..7" for the run first … last, after a comma
 * unless it is the first run. */
static void run_add(char *text, int runs, int first, int last)
{
    text_append(text, LIST_BYTES, "%s%d", runs ? ", " : "", first);
    if (first < last)
        text_append(text, LIST_BYTES, "%s%d", last == first + 1 ? ", " : "..", last);
}

char *ranks_text(int size, bool (*holds)(const void *arg, int rank), const void *arg,
                 char text[RANKS_TEXT_BYTES], int *count_p)
{
    char list[LIST_BYTES] = "";
    int count = 0, peer_text = 0, runs = 0;
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
        peer_text = count;
    }
    snprintf(text, RANKS_TEXT_BYTES, "%s%s%s", count == 0 ? "no rank" : "rank",
             count > 1 ? "s "
             : count   ? " "
                       : "",
             list);
    if (peer_text < count)
        text_append(text, RANKS_TEXT_BYTES, " and %d more", count - peer_text);
    if (count_p)
        *count_p = count;
    return text;
}

char *job_text(const char *job, char text[BOOTSTRAP_JOB_TEXT_BYTES])
{
    text_escape(job, strlen(job), text, BOOTSTRAP_JOB_TEXT_BYTES);
    if (!*text)
        snprintf(text, BOOTSTRAP_JOB_TEXT_BYTES, "no identity");
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
