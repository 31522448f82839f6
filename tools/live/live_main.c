/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of tryst-info --live: which processes, and in which form.
 * Caller: tryst_info.c. */
#include "live.h"
#include "live_job.h"
#include "live_json.h"
#include "live_print.h"
#include "live_read.h"

#include "tools/options.h"

enum { ERROR_BYTES = 1024, SENTENCE_BYTES = 8192 };

static pid_t pid_of(const char *target)
{
    uint64_t pid;
    return target && tool_number_parse(target, 1, INT32_MAX, &pid) ? (pid_t)pid : 0;
}

/* The job of the ranks found, with those of its ranks that are in other processes. */
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
        if (!clear ||
            !session) { /* those that have not come together are told by name only */
            *ranks = found;
            return clear;
        }
        live_free(&found);
    }
    return live_read(0, NULL, ranks, error, capacity) &&
           live_job_choose(ranks, session, error, capacity);
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
    struct live_ranks ranks = {NULL, 0};
    pid_t pid = pid_of(target);
    bool good = job ? job_read(target, &ranks, error, sizeof error)
                    : live_read(pid, pid ? NULL : target, &ranks, error, sizeof error);
    if (!good || !ranks.count) {
        fprintf(stderr, "tryst-info: %s\n", error[0] ? error : "no rank is left");
        live_free(&ranks);
        return 1;
    }
    if (job)
        live_job_sentence(&ranks, sentence, sizeof sentence);
    if (json)
        good = live_json_print(stdout, &ranks, job ? sentence : NULL);
    else
        print(&ranks, job ? sentence : NULL);
    live_free(&ranks);
    return good ? 0 : 1;
}
