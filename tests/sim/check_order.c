/* SPDX-License-Identifier: Apache-2.0 */
/* One link against the ideal: preemptive priority scheduling, in which the most urgent
 * transfer with bytes to send has the whole link at every moment. (For jobs with
 * different release times this is Jackson's preemptive rule.) */
#include "checks.h"
#include "replay.h"

enum { JOBS_MAX = 64 };

struct job {
    int which;
    struct urgency urgency;
    uint64_t ready_ns, last_ns; /* last_ns: arrival of the last slice */
    double bytes, left;
    double end_ns; /* end in the ideal schedule */
};

static int jobs_find(const struct sim *sim, struct job jobs[JOBS_MAX])
{
    struct replay replay;
    int count = 0;
    replay_open(&replay, sim);
    for (size_t i = 0; i < sim->log.count; i++)
        replay_apply(&replay, &sim->log.entries[i]);
    for (int i = 0; i < replay.count; i++) {
        const struct replayed *transfer = &replay.transfers[i];
        if (!transfer->was_added)
            continue;
        assert_true(count < JOBS_MAX);
        jobs[count++] = (struct job){.which = i,
                                     .urgency = transfer->urgency,
                                     .ready_ns = transfer->ready_ns,
                                     .bytes = (double)transfer->bytes};
    }
    replay_close(&replay);
    for (size_t i = 0; i < sim->log.count; i++)
        for (int j = 0; j < count; j++)
            if (sim->log.entries[i].event == SIM_SLICE &&
                sim->log.entries[i].which == jobs[j].which)
                jobs[j].last_ns = sim->log.entries[i].at_ns;
    return count;
}

static struct job *job_first(struct job *jobs, int count, double now_ns)
{
    struct job *first = NULL;
    for (int i = 0; i < count; i++)
        if (jobs[i].left > 0 && (double)jobs[i].ready_ns <= now_ns &&
            (!first || urgency_before(&jobs[i].urgency, &first->urgency)))
            first = &jobs[i];
    return first;
}

static double next_ready_ns(const struct job *jobs, int count, double now_ns)
{
    double next = 1e300;
    for (int i = 0; i < count; i++)
        if ((double)jobs[i].ready_ns > now_ns && (double)jobs[i].ready_ns < next)
            next = (double)jobs[i].ready_ns;
    return next;
}

/* Compute the end of each job in the ideal schedule. */
static void ideal(struct job *jobs, int count, double bytes_per_ns)
{
    double now = next_ready_ns(jobs, count, -1);
    for (int i = 0; i < count; i++)
        jobs[i].left = jobs[i].bytes;
    while (now < 1e300) {
        struct job *first = job_first(jobs, count, now);
        double next = next_ready_ns(jobs, count, now);
        double end = first ? now + first->left / bytes_per_ns : 1e300;
        if (end > next) {
            if (first)
                first->left -= (next - now) * bytes_per_ns;
            now = next;
        } else if (first) {
            first->left = 0;
            first->end_ns = now = end;
        } else {
            return;
        }
    }
}

/* Return the bytes of the job that have arrived by `at_ns`. */
static double came_bytes(const struct sim *sim, const struct job *job, double at_ns)
{
    double bytes = 0;
    for (size_t i = 0; i < sim->log.count; i++) {
        const struct sim_entry *entry = &sim->log.entries[i];
        double left = job->bytes - (double)(entry->a * sim->params.slice_bytes);
        double slice = (double)sim->params.slice_bytes;
        if (entry->event == SIM_SLICE && entry->which == job->which &&
            (double)entry->at_ns <= at_ns)
            bytes += left < slice ? left : slice;
    }
    return bytes;
}

static void report(struct finding *finding, const char *text, const struct job *job,
                   const struct job *other, double bytes)
{
    if (finding->found)
        return;
    finding->found = true;
    (void)snprintf(finding->text, sizeof finding->text,
                   "transfers %d and %d, bytes %.0f: %s", job->which, other->which, bytes,
                   text);
}

/* When the ideal schedule ends `last`, all jobs that are more urgent and were ready have
 * also ended there. Fail if the run is too far behind that. */
static void backlog_check(const struct sim *sim, const struct job *jobs, int count,
                          const struct job *last, struct finding *finding)
{
    double most =
        (double)wait_bound_ns(sim, 0, 1, 0) * (double)sim->net.links[0].bytes_per_s / 1e9;
    double left = 0;
    for (int i = 0; i < count; i++)
        if (!urgency_before(&last->urgency, &jobs[i].urgency) &&
            (double)jobs[i].ready_ns < last->end_ns)
            left += jobs[i].bytes - came_bytes(sim, &jobs[i], last->end_ns);
    finding->looked++;
    if (left > most)
        report(finding, "too far behind the ideal schedule when that ends the transfer",
               last, last, left);
}

static void pair_check(const struct sim *sim, const struct job *urgent,
                       const struct job *other, struct finding *finding)
{
    double left = other->bytes - came_bytes(sim, other, (double)urgent->ready_ns);
    if (urgent->end_ns < other->end_ns && urgent->last_ns > other->last_ns &&
        left > (double)(sim->params.window_bytes + sim->params.slice_bytes))
        report(finding, "the first is more urgent, but ended last", urgent, other, left);
}

void check_order(const struct sim *sim, struct finding *finding)
{
    static struct job jobs[JOBS_MAX];
    int count = jobs_find(sim, jobs);
    ideal(jobs, count, (double)sim->net.links[0].bytes_per_s / 1e9);
    for (int i = 0; i < count; i++) {
        backlog_check(sim, jobs, count, &jobs[i], finding);
        for (int j = 0; j < count; j++)
            if (urgency_before(&jobs[i].urgency, &jobs[j].urgency))
                pair_check(sim, &jobs[i], &jobs[j], finding);
    }
}
