/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tryst-info --live: finds the processes, samples a job, prints. */
#include "live.h"
#include "live_compare.h"
#include "live_job.h"
#include "live_json.h"
#include "live_print.h"
#include "live_read.h"

#include <math.h>
#include <time.h>

#include "tools/figures.h"
#include "tools/options.h"

enum { ERROR_BYTES = 1024, SENTENCE_BYTES = 8192 };

static pid_t pid_of(const char *target)
{
    uint64_t pid;
    return target && tool_number_parse(target, 1, INT32_MAX, &pid) ? (pid_t)pid : 0;
}

/* Read the ranks of the job that `target` belongs to, also those in other processes. */
static bool job_read(const char *target, struct live_ranks *ranks, char *error,
                     size_t capacity)
{
    struct live_ranks found;
    uint64_t session = 0;
    if (target) {
        if (!live_read(pid_of(target), pid_of(target) ? NULL : target, &found, error,
                       capacity))
            return false;
        bool clear = live_job_choose(&found, 0, error, capacity);
        session = found.items[0].header.session;
        if (!clear || !session) { /* ranks without a session are found by name only */
            *ranks = found;
            return clear;
        }
        live_free(&found);
    }
    return live_read(0, NULL, ranks, error, capacity) &&
           live_job_choose(ranks, session, error, capacity);
}

/* Read the job again `apart_s` after the first sample at `first_s`, and compare both.
 * False if the job has ended. */
static bool job_sample(const struct live_ranks *first, double first_s, double apart_s,
                       struct live_ranks *ranks)
{
    static char ignored[ERROR_BYTES];
    uint64_t session = first->items[0].header.session;
    for (double left_s;
         (left_s = first_s + apart_s - (double)tool_now_ns() * 1e-9) > 0;) {
        const struct timespec pause = {(time_t)left_s, (long)(fmod(left_s, 1) * 1e9)};
        (void)nanosleep(&pause, NULL);
    }
    apart_s = (double)tool_now_ns() * 1e-9 - first_s;
    if (!live_read(0, NULL, ranks, ignored, sizeof ignored) ||
        !live_job_choose(ranks, session, ignored, sizeof ignored) || !ranks->count)
        return false;
    live_compare(first, ranks, apart_s);
    return true;
}

/* Replace the first sample, taken at `first_s`, by a later one that separates waits from
 * work. The last sample is skipped for a job that runs, and for ranks that have slept on
 * the same operations for long. */
static void job_watch(struct live_ranks *ranks, double first_s)
{
    static const double samples_s[] = {0.1, LIVE_JOB_WAIT_S + 0.2};
    struct live_ranks first = *ranks, next;
    size_t samples = 0;
    while (samples < sizeof samples_s / sizeof *samples_s &&
           first.items[0].header.session && !live_job_is_clear(ranks)) {
        if (!job_sample(&first, first_s, samples_s[samples], &next)) {
            live_free(&next);
            ranks->ended = true;
            break;
        }
        if (samples++)
            live_free(ranks);
        *ranks = next;
    }
    if (samples)
        live_free(&first);
}

static void print(const struct live_ranks *ranks, const char *sentence)
{
    for (size_t i = 0; i < ranks->count; i++)
        live_print_rank(stdout, &ranks->items[i]);
    if (sentence)
        printf("%s\n", sentence);
}

int live_main(const char *target, bool job, bool json)
{
    static char error[ERROR_BYTES], sentence[SENTENCE_BYTES];
    struct live_ranks ranks = {.items = NULL};
    pid_t pid = pid_of(target);
    double first_s = (double)tool_now_ns() * 1e-9;
    bool good = job ? job_read(target, &ranks, error, sizeof error)
                    : live_read(pid, pid ? NULL : target, &ranks, error, sizeof error);
    if (!good || !ranks.count) {
        fprintf(stderr, "tryst-info: %s\n", error[0] ? error : "no rank found");
        live_free(&ranks);
        return 1;
    }
    if (job)
        job_watch(&ranks, first_s);
    if (job)
        live_job_sentence(&ranks, sentence, sizeof sentence);
    if (json)
        good = live_json_print(stdout, &ranks, job ? sentence : NULL);
    else
        print(&ranks, job ? sentence : NULL);
    live_free(&ranks);
    return good ? 0 : 1;
}
