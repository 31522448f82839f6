/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of ranks in sentences: "rank 3", "ranks 2, 5..7". */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_TEXT_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/** Room for the longest list that is written before it is cut. */
#define RANKS_TEXT_BYTES 160

#define RANKS_TEXT_RUNS_MAX 8
/** Write the ranks for which `holds(arg, rank)` is true, in order; runs of three and more
 *  as "5..7"; after RANKS_TEXT_RUNS_MAX runs "and N more"; "no rank" if there is none.
 *  Returns `text`; `*count_p` (`count_p` may be NULL) is the number of these ranks. */
char *ranks_text(int size, bool (*holds)(const void *arg, int rank), const void *arg,
                 char text[RANKS_TEXT_BYTES], int *count_p);

/** Room for an escaped identity of a job. */
#define BOOTSTRAP_JOB_TEXT_BYTES 160
/** Write the identity of a job, which a peer may have sent: "SLURM_JOB_ID=7", or "no
 *  identity". Returns `text`. */
char *job_text(const char *job, char text[BOOTSTRAP_JOB_TEXT_BYTES]);

#define SECONDS_TEXT_BYTES 32
/** Write a time: "60 s", "1.5 s", "250 ms". Returns `text`. */
char *seconds_text(unsigned long long ns, char text[SECONDS_TEXT_BYTES]);

#endif
