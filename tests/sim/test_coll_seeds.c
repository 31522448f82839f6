/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of collectives, seed by seed: networks of every kind, random orders of submission,
 * and one failure at a random moment. All parts end in time, each with the right cause,
 * and equal seeds have equal logs.
 *
 * TRYST_TEST_COUNT: number of seeds (150). TRYST_TEST_SEED: the first seed; with a count
 * of 1 it is replayed. TRYST_TEST_LOG: write the log of each run. */
#include <inttypes.h>
#include <stdlib.h>

#include "cluster.h"
#include "planned.h"
#include "sim.h"

enum { RANKS_MAX = 8, SEEDS = 150, COLLS_MAX = 6, PACKET = 8 << 10, MIB = 1 << 20 };
/* After a death every part ends within this time of the death or of the part's
 * submission. */
#define DEATH_NS (2 * NS_PER_S)
/* All other parts end much earlier. */
#define HANG_NS (300 * NS_PER_S)

enum wrong {
    NOTHING,
    KILL,
    STOP,     /* stopped, and later continued */
    CUT,      /* cut, and later mended */
    CUT_LONG, /* cut for longer than a peer may be silent */
    CANCEL,   /* cancel of one rank's part */
    DEADLINE, /* deadline of one rank's part */
    WRONGS
};

static const char *const wrong_names[WRONGS] = {"nothing",  "kill",   "stop",    "cut",
                                                "long cut", "cancel", "deadline"};

struct job {
    uint64_t seed;
    struct random random;
    enum wrong wrong;
    int ranks;
    int rank, which; /* rank and collective that the failure hits */
    uint64_t at_ns;  /* time of the failure */
};

static struct sim sim;
static uint64_t ended[WRONGS][2]; /* parts that ended with success, and with an error */
/* longest time from a death, or from a later submission, to the end of a part */
static uint64_t longest_ns;

static uint64_t draw(struct job *job, uint64_t n)
{
    return random_range(&job->random, n);
}

/* ---- a job ------------------------------------------------------------------------- */

static struct sim_params params_draw(struct job *job, const struct planned *planned)
{
    static const uint64_t scratch[] = {0, 4096, 1 << 20};
    struct sim_params params = {.ranks = job->ranks,
                                .rail_window_bytes = 16 * MIB,
                                .plan = planned->compiled,
                                .scratch_bytes = scratch[draw(job, COUNT_OF(scratch))]};
    if (!draw(job, 4))
        params.posted_slices = 1 + (uint32_t)draw(job, 3);
    if (!draw(job, 4))
        params.frame_credits = 2 + (uint32_t)draw(job, 8);
    if (!draw(job, 4))
        params.wants_max = 1 + (uint32_t)draw(job, 8);
    if (!draw(job, 4))
        params.posted_max = 2 + (uint32_t)draw(job, 6);
    if (draw(job, 2))
        params.borrows = draw(job, 2) ? UINT64_MAX : draw(job, UINT64_C(1) << RANKS_MAX);
    return params;
}

static uint64_t bytes_draw(struct job *job)
{
    static const uint64_t most[] = {1, 64, 8192, 65536, MIB, 4 * MIB};
    return draw(job, most[draw(job, COUNT_OF(most))] + 1);
}

/* Let every rank submit every collective, in a different order on each rank. */
static void colls_draw(struct job *job)
{
    int count = 1 + (int)draw(job, COLLS_MAX);
    uint64_t most_ns = 1 + draw(job, 20 * NS_PER_MS);
    for (int i = 0; i < count; i++) {
        tryst_coll_kind kind = (tryst_coll_kind)(1 + draw(job, 4));
        bool rooted = kind == TRYST_COLL_REDUCE || kind == TRYST_COLL_BROADCAST;
        uint64_t bytes = kind == TRYST_COLL_BARRIER ? 0 : bytes_draw(job);
        int which = sim_coll_add(&sim, kind, (int)draw(job, SIM_STEPS), bytes);
        struct sim_coll *coll = &sim.colls[which];
        coll->root = rooted ? (int)draw(job, (uint64_t)job->ranks) : 0;
        coll->flags = !draw(job, 3)   ? TRYST_OP_BACKGROUND
                      : !draw(job, 2) ? TRYST_OP_PRIORITY
                                      : 0;
        int32_t priority = (int32_t)draw(job, 5) - 2;
        coll->priority = coll->flags & TRYST_OP_PRIORITY ? priority : 0;
    }
    for (int i = 0; i < count; i++)
        for (int rank = 0; rank < job->ranks; rank++)
            sim_act(&sim, draw(job, most_ns), SIM_DO_COLL, i, rank);
    job->which = (int)draw(job, (uint64_t)count);
    job->rank = (int)draw(job, (uint64_t)job->ranks);
    job->at_ns = draw(job, 2 * most_ns);
}

static void cut_draw(struct job *job, uint64_t ns)
{
    int link = (int)draw(job, (uint64_t)sim.net.links_count);
    sim_act(&sim, job->at_ns, SIM_DO_LINK_CUT, link, 0);
    sim_act(&sim, job->at_ns + ns, SIM_DO_LINK_MEND, link, 0);
}

static void wrong_draw(struct job *job)
{
    struct sim_part *part = &sim.colls[job->which].parts[job->rank];
    uint64_t short_ns = 1 + draw(job, 3 * NS_PER_S);
    switch (job->wrong) {
    case KILL: sim_act(&sim, job->at_ns, SIM_DO_RANK_KILL, job->rank, 0); break;
    case STOP:
        sim_act(&sim, job->at_ns, SIM_DO_RANK_STOP, job->rank, 0);
        sim_act(&sim, job->at_ns + short_ns, SIM_DO_RANK_GO, job->rank, 0);
        break;
    case CUT: cut_draw(job, short_ns); break;
    case CUT_LONG: cut_draw(job, 60 * NS_PER_S); break;
    case CANCEL:
        sim_act(&sim, job->at_ns, SIM_DO_CANCEL_COLL, job->which, job->rank);
        break;
    case DEADLINE: part->deadline_ns = 1 + draw(job, 10 * NS_PER_MS); break;
    default: break;
    }
}

/* ---- conditions -------------------------------------------------------------------- */

static void part_fail(const struct job *job, const struct sim_part *part,
                      const char *what)
{
    fail_msg(
        "TRYST_TEST_SEED=%" PRIu64 " TRYST_TEST_COUNT=1: %s (%s, %d ranks, at %" PRIu64
        " ns to rank %d of collective %d): rank %d, collective %d, submitted at %" PRIu64
        ", ended at %" PRIu64 " with %s from rank %d (%s)",
        job->seed, what, wrong_names[job->wrong], job->ranks, job->at_ns, job->rank,
        job->which, part->rank, part->which, part->submitted_ns, part->done_ns,
        tryst_status_name(part->status), part->origin_rank,
        tryst_status_name(part->origin_status));
}

static bool cause_is_right(const struct job *job, const struct sim_part *part)
{
    bool same = part->which == job->which;
    switch (job->wrong) {
    case KILL: return part->status == TRYST_E_PEER && part->origin_rank == job->rank;
    case CUT_LONG: return part->status == TRYST_E_PEER;
    case CANCEL:
        return same && part->status == TRYST_E_CANCELED && part->origin_rank == job->rank;
    case DEADLINE: return same && part->status == TRYST_E_DEADLINE;
    default: return false;
    }
}

static void part_check(const struct job *job, const struct sim_part *part)
{
    uint64_t from_ns = part->submitted_ns > job->at_ns ? part->submitted_ns : job->at_ns;
    if (!part->done)
        part_fail(job, part, "the part has not ended");
    ended[job->wrong][part->status != TRYST_OK]++;
    if (part->status != TRYST_OK && !cause_is_right(job, part))
        part_fail(job, part, "not the cause");
    if (job->wrong != KILL || part->done_ns < from_ns)
        return;
    if (part->done_ns > from_ns + DEATH_NS)
        part_fail(job, part, "too late");
    if (part->done_ns - from_ns > longest_ns)
        longest_ns = part->done_ns - from_ns;
}

static void parts_check(const struct job *job)
{
    for (int i = 0; i < sim.colls_count; i++)
        for (int rank = 0; rank < job->ranks; rank++)
            if (!sim.ranks[rank].killed)
                part_check(job, &sim.colls[i].parts[rank]);
}

/* Make one run, and return the hash of its log. */
static uint64_t job_run(uint64_t seed, enum wrong wrong, const struct planned *planned)
{
    struct net net;
    struct job job = {
        .seed = seed, .wrong = wrong, .ranks = (int)planned->graph->ranks_count};
    random_seed(&job.random, seed + 1);
    cluster_make(&net, planned->overlay, PACKET);
    struct sim_params params = params_draw(&job, planned);
    sim_open(&sim, &params, &net);
    colls_draw(&job);
    wrong_draw(&job);
    (void)sim_run(&sim, HANG_NS);
    uint64_t hash = sim_log_hash(&sim.log);
    if (getenv("TRYST_TEST_LOG"))
        sim_log_write(&sim.log, stderr);
    parts_check(&job);
    sim_close(&sim);
    return hash;
}

static void seed_run(uint64_t seed)
{
    struct random random;
    struct planned planned;
    random_seed(&random, seed);
    enum net_family family = (enum net_family)random_range(&random, NET_FAMILIES);
    uint32_t ranks = 2 + (uint32_t)random_range(&random, RANKS_MAX - 1);
    enum wrong wrong = (enum wrong)random_range(&random, WRONGS);
    planned_open(&planned,
                 net_open(family, ranks, random_range(&random, 2) ? &random : NULL));
    uint64_t first = job_run(seed, wrong, &planned);
    uint64_t second = job_run(seed, wrong, &planned);
    if (first != second)
        fail_msg("TRYST_TEST_SEED=%" PRIu64 " TRYST_TEST_COUNT=1: two runs differ", seed);
    planned_close(&planned);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void test_seeds(void **state)
{
    uint64_t first = number_of("TRYST_TEST_SEED", 1);
    uint64_t count = number_of("TRYST_TEST_COUNT", SEEDS);
    for (uint64_t seed = first; seed < first + count; seed++)
        seed_run(seed);
    for (int i = 0; i < WRONGS; i++)
        print_message("%s: %" PRIu64 " parts ended well, %" PRIu64 " with an error\n",
                      wrong_names[i], ended[i][0], ended[i][1]);
    print_message("longest after a death: %.1f ms\n", (double)longest_ns / 1e6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
