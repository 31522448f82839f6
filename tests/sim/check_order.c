/* SPDX-License-Identifier: Apache-2.0 */
/* One link against the ideal: preemptive priority scheduling, where at every moment the whole link is the
 * most urgent's that has anything to send. (For jobs that come at different times this is Jackson's preemptive
 * rule.) */
#include "checks.h"
#include "replay.h"

enum { JOBS_MAX = 64 };

struct job {
    int which;
    struct urgency urgency;
    uint64_t ready_ns, last_ns; /* when its last slice came */
    double bytes, left;
    double end_ns; /* in the ideal */
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

/* The ideal up to `until_ns`: what is left of each then, and when those ended that did. */
static void ideal(struct job *jobs, int count, double bytes_per_ns, double until_ns)
{
    double now = next_ready_ns(jobs, count, -1);
    for (int i = 0; i < count; i++)
        jobs[i].left = jobs[i].bytes;
    while (now < until_ns) {
        struct job *first = job_first(jobs, count, now);
        double next = next_ready_ns(jobs, count, now);
        next = next < until_ns ? next : until_ns;
        if (!first) {
            now = next;
            if (next == until_ns)
                return;
            continue;
        }
        double end = now + first->left / bytes_per_ns;
        if (end <= next) {
            first->left = 0;
            first->end_ns = now = end;
        } else {
            first->left -= (next - now) * bytes_per_ns;
            now = next;
        }
    }
}

static void pair_check(const struct sim *sim, const struct job *urgent,
                       const struct job *other, struct finding *finding)
{
    const struct sim_params *params = &sim->params;
    if (urgent->last_ns <= other->last_ns || finding->found ||
        other->left <= (double)(params->window_bytes + params->slice_bytes))
        return;
    finding->found = true;
    (void)snprintf(
        finding->text, sizeof finding->text,
        "transfer %d, more urgent and ready at %llu ns, ended after %d, of which "
        "%.0f bytes were left then",
        urgent->which, (unsigned long long)urgent->ready_ns, other->which, other->left);
}

void check_order(const struct sim *sim, struct finding *finding)
{
    static struct job jobs[JOBS_MAX];
    int count = jobs_find(sim, jobs);
    double bytes_per_ns = (double)sim->net.links[0].bytes_per_s / 1e9;
    uint64_t most_ns = wait_bound_ns(sim, 0, 1, 0);
    ideal(jobs, count, bytes_per_ns, 1e300);
    for (int i = 0; i < count; i++) {
        double late_ns = (double)jobs[i].last_ns - jobs[i].end_ns;
        finding->looked++;
        if (late_ns <= (double)most_ns || finding->found)
            continue;
        finding->found = true;
        (void)snprintf(finding->text, sizeof finding->text,
                       "transfer %d ended %.0f ns later than in the ideal; most: %llu",
                       jobs[i].which, late_ns, (unsigned long long)most_ns);
    }
    for (int i = 0; i < count; i++) {
        struct job urgent = jobs[i];
        ideal(jobs, count, bytes_per_ns, (double)urgent.ready_ns);
        for (int j = 0; j < count; j++)
            if (urgency_before(&urgent.urgency, &jobs[j].urgency) &&
                urgent.end_ns < jobs[j].end_ns)
                pair_check(sim, &urgent, &jobs[j], finding);
    }
}
