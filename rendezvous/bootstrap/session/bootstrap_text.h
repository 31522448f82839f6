/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in sentences: "rank 3", "ranks 2, 5..7".
 *
 * Callers: bootstrap_server.c, and whoever names several ranks in a message. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_TEXT_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Enough for the longest list that is written before it is cut. */
#define RANKS_TEXT_BYTES 160

/* Writes the ranks for which `holds(arg, rank)` is true, in order; runs of three and more as
 * "5..7"; after RANKS_TEXT_RUNS_MAX runs "and N more". "no rank" when there is none.
 * Returns `text`; `*count_p` (may be NULL) is how many there are. */
#define RANKS_TEXT_RUNS_MAX 8
char *ranks_text(int size, bool (*holds)(const void *arg, int rank), const void *arg,
                 char text[RANKS_TEXT_BYTES], int *count_p);

/* "60 s", "1.5 s", "250 ms". */
#define SECONDS_TEXT_BYTES 32
char *seconds_text(unsigned long long ns, char text[SECONDS_TEXT_BYTES]);

#endif
