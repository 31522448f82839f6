/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search for the sets of ranks that share a wire.
 *
 * One idea: greedy. Begin with each rank's own wire. While flows are left that cross no
 * full cut, add the set that explains most of them, among the sets that nest with those
 * already chosen. Up to EXACT_RANKS ranks every set is a candidate; beyond, the sets of
 * an agglomerative clustering by rate.
 * Invariant: groups are pairwise nested or disjoint, and none has rank 0 (see
 * fit_cuts.h). A group is chosen only if it explains new flows in at least two rounds: in
 * the round with its highest sum every set counts as full. A group without which all
 * flows are still explained is removed again.
 */
#include "fit_cuts.h"

#include <stdlib.h>

#include "core/memory/alloc.h"

enum { EXACT_RANKS = 14, ROUNDS_MIN = 2 };

#define BIT(rank) (UINT64_C(1) << (rank))

struct search {
    const struct fit_samples *samples;
    uint64_t all;         /* the set of all ranks */
    bool **explained;     /* by round and flow: the flow is explained */
    uint64_t *candidates; /* beyond EXACT_RANKS: the candidate sets */
    uint32_t candidates_count;
    /* Capacity of each rank's wire, in the direction with more. */
    double own[FIT_RANKS_MAX];
};

static bool leaves(uint64_t set, const struct fit_flow *flow)
{
    return (set & BIT(flow->from)) && !(set & BIT(flow->to));
}

static double round_sum(const struct fit_round *round, uint64_t set)
{
    double sum = 0;
    for (uint32_t f = 0; f < round->count; f++)
        if (leaves(set, &round->flows[f]))
            sum += round->flows[f].bytes_per_s;
    return sum;
}

double fit_capacity(const struct fit_samples *samples, uint64_t set)
{
    double most = 0;
    for (uint32_t r = 0; r < samples->rounds_count; r++) {
        double sum = round_sum(&samples->rounds[r], set);
        most = sum > most ? sum : most;
    }
    return most;
}

/* ---- capacities -------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Return the upper quartile of the values that are at least FIT_FULL of the largest; 0
 * without values. */
static double near_usual(double *values, uint32_t count)
{
    uint32_t first = 0;
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, by_value);
    while (values[first] < FIT_FULL * values[count - 1])
        first++;
    return values[first + 3 * (count - first - 1) / 4];
}

tryst_status fit_usual(const struct fit_samples *samples, uint64_t set, double *usual_p)
{
    double *sums = mem_zalloc_array(samples->rounds_count, sizeof *sums);
    if (!sums)
        return TRYST_E_NOMEM;
    for (uint32_t r = 0; r < samples->rounds_count; r++)
        sums[r] = round_sum(&samples->rounds[r], set);
    *usual_p = near_usual(sums, samples->rounds_count);
    mem_free(sums);
    return TRYST_OK;
}

/* A pair is in four rounds and at most six mixed ones (fit_schedule.c); further rates are
 * ignored. */
enum { PAIR_ROUNDS_MAX = 64 };

double fit_pair_usual(const struct fit_samples *samples, uint32_t from, uint32_t to)
{
    double rates[PAIR_ROUNDS_MAX];
    uint32_t count = 0;
    for (uint32_t r = 0; r < samples->rounds_count; r++)
        for (uint32_t f = 0; f < samples->rounds[r].count; f++) {
            const struct fit_flow *flow = &samples->rounds[r].flows[f];
            if (flow->from == from && flow->to == to && count < PAIR_ROUNDS_MAX)
                rates[count++] = flow->bytes_per_s;
        }
    return near_usual(rates, count);
}

/* ---- what is explained ------------------------------------------------------------- */

struct gain {
    uint32_t flows, rounds;
};

/* Count the flows that leave `set` in rounds where its cut was full and that are not
 * explained yet; with `mark` they become explained. */
static struct gain cut_gain(const struct search *search, uint64_t set, bool mark)
{
    const struct fit_samples *samples = search->samples;
    double full = FIT_FULL * fit_capacity(samples, set);
    struct gain gain = {0, 0};
    for (uint32_t r = 0; r < samples->rounds_count; r++) {
        const struct fit_round *round = &samples->rounds[r];
        uint32_t before = gain.flows;
        if (full <= 0 || round_sum(round, set) < full)
            continue;
        for (uint32_t f = 0; f < round->count; f++) {
            if (!leaves(set, &round->flows[f]) || search->explained[r][f])
                continue;
            gain.flows++;
            search->explained[r][f] = mark;
        }
        gain.rounds += gain.flows > before;
    }
    return gain;
}

/* Count and mark as cut_gain does, for both directions of the wire of `set`. */
static struct gain wire_gain(const struct search *search, uint64_t set, bool mark)
{
    struct gain out = cut_gain(search, set, mark);
    struct gain in = cut_gain(search, search->all & ~set, mark);
    return (struct gain){out.flows + in.flows, out.rounds + in.rounds};
}

static uint32_t explained_count(const struct search *search)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < search->samples->rounds_count; r++)
        for (uint32_t f = 0; f < search->samples->rounds[r].count; f++)
            count += search->explained[r][f];
    return count;
}

static void explained_reset(const struct search *search, const uint64_t *groups,
                            uint32_t count)
{
    const struct fit_samples *samples = search->samples;
    for (uint32_t r = 0; r < samples->rounds_count; r++)
        for (uint32_t f = 0; f < samples->rounds[r].count; f++)
            search->explained[r][f] = false;
    for (uint32_t rank = 0; rank < samples->ranks_count; rank++)
        (void)wire_gain(search, BIT(rank), true);
    for (uint32_t g = 0; g < count; g++)
        (void)wire_gain(search, groups[g], true);
}

/* ---- candidates -------------------------------------------------------------------- */

/* Return the mean rate of the flows between i and j, in both directions and all rounds,
 * as a part of the smaller of their wires' capacities. Flows through a wire that other
 * flows share make the result smaller. */
static double likeness(const struct search *search, uint32_t i, uint32_t j)
{
    const struct fit_samples *samples = search->samples;
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t r = 0; r < samples->rounds_count; r++)
        for (uint32_t f = 0; f < samples->rounds[r].count; f++) {
            const struct fit_flow *flow = &samples->rounds[r].flows[f];
            if (!((flow->from == i && flow->to == j) ||
                  (flow->from == j && flow->to == i)))
                continue;
            sum += flow->bytes_per_s;
            count++;
        }
    double most = search->own[i] < search->own[j] ? search->own[i] : search->own[j];
    return count && most > 0 ? sum / count / most : 0;
}

/* Cluster the ranks by agglomeration with average linkage; each merged set becomes a
 * candidate. */
static tryst_status clusters_find(struct search *search)
{
    uint32_t n = search->samples->ranks_count, count = n;
    uint64_t sets[FIT_RANKS_MAX];
    double *near = mem_zalloc_array((size_t)n * n, sizeof *near);
    if (!near)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        sets[i] = BIT(i);
        for (uint32_t j = 0; j < i; j++)
            near[i * n + j] = near[j * n + i] = likeness(search, i, j);
    }
    for (; count > 2; count--) {
        uint32_t a = 0, b = 1;
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t j = i + 1; j < count; j++)
                if (near[i * n + j] > near[a * n + b])
                    a = i, b = j;
        double wa = __builtin_popcountll(sets[a]), wb = __builtin_popcountll(sets[b]);
        for (uint32_t k = 0; k < count; k++)
            near[a * n + k] = near[k * n + a] =
                (wa * near[a * n + k] + wb * near[b * n + k]) / (wa + wb);
        sets[a] |= sets[b];
        for (uint32_t k = 0; k < count; k++) /* move the last set to b's place */
            near[b * n + k] = near[k * n + b] = near[(count - 1) * n + k];
        sets[b] = sets[count - 1];
        search->candidates[search->candidates_count++] =
            sets[a] & 1 ? search->all & ~sets[a] : sets[a];
    }
    mem_free(near);
    return TRYST_OK;
}

static bool nests(uint64_t set, const struct fit_cuts *cuts)
{
    for (uint32_t g = 0; g < cuts->groups_count; g++) {
        uint64_t both = set & cuts->groups[g];
        if (set == cuts->groups[g] || (both && both != set && both != cuts->groups[g]))
            return false;
    }
    return true;
}

/* Return the wire's capacity as a part of the capacities of the ranks behind it. The
 * smaller this part, the more likely the ranks share a wire. */
static double narrowness(const struct search *search, uint64_t set)
{
    double own = 0;
    for (uint32_t rank = 0; rank < search->samples->ranks_count; rank++)
        own += set & BIT(rank) ? search->own[rank] : 0;
    return own > 0 ? fit_capacity(search->samples, set) / own : 1;
}

struct best {
    uint64_t set;
    struct gain gain;
    double narrow;
};

static void candidate_try(const struct search *search, const struct fit_cuts *cuts,
                          uint64_t set, struct best *best)
{
    uint64_t other = search->all & ~set;
    if (!(set & (set - 1)) || !(other & (other - 1)) || !nests(set, cuts))
        return; /* a single rank, which has a wire already, or a set that does not nest */
    struct gain gain = wire_gain(search, set, false);
    if (gain.rounds < ROUNDS_MIN || gain.flows < best->gain.flows)
        return;
    double narrow = narrowness(search, set);
    if (gain.flows == best->gain.flows && narrow >= best->narrow)
        return;
    *best = (struct best){set, gain, narrow};
}

static struct best candidate_best(const struct search *search,
                                  const struct fit_cuts *cuts)
{
    struct best best = {0, {1, 0}, 0}; /* a set that explains one flow is not enough */
    if (search->samples->ranks_count <= EXACT_RANKS)
        for (uint64_t set = 2; set <= search->all; set += 2)
            candidate_try(search, cuts, set, &best);
    else
        for (uint32_t i = 0; i < search->candidates_count; i++)
            candidate_try(search, cuts, search->candidates[i], &best);
    return best;
}

/* ---- the search -------------------------------------------------------------------- */

static void search_close(struct search *search)
{
    for (uint32_t r = 0; search->explained && r < search->samples->rounds_count; r++)
        mem_free(search->explained[r]);
    mem_free(search->explained);
    mem_free(search->candidates);
}

static tryst_status search_open(const struct fit_samples *samples, struct search *search)
{
    uint32_t n = samples->ranks_count;
    *search = (struct search){.samples = samples, .all = fit_all(n)};
    search->explained =
        mem_zalloc_array(samples->rounds_count, sizeof *search->explained);
    search->candidates = mem_zalloc_array(n, sizeof *search->candidates);
    bool good = search->explained && search->candidates;
    for (uint32_t r = 0; good && r < samples->rounds_count; r++) {
        search->explained[r] = mem_zalloc_array(samples->rounds[r].count, sizeof(bool));
        good = search->explained[r] != NULL;
    }
    for (uint32_t rank = 0; good && rank < n; rank++) {
        double out = fit_capacity(samples, BIT(rank));
        double in = fit_capacity(samples, search->all & ~BIT(rank));
        search->own[rank] = out > in ? out : in;
    }
    if (good && n > EXACT_RANKS)
        good = clusters_find(search) == TRYST_OK;
    if (good)
        return TRYST_OK;
    search_close(search);
    return TRYST_E_NOMEM;
}

/* Remove each group that is not needed to explain all flows, last first. */
static void groups_prune(const struct search *search, struct fit_cuts *cuts)
{
    for (uint32_t g = cuts->groups_count; g-- > 0;) {
        uint64_t set = cuts->groups[g];
        cuts->groups[g] = cuts->groups[cuts->groups_count - 1];
        explained_reset(search, cuts->groups, cuts->groups_count - 1);
        if (explained_count(search) == cuts->explained)
            cuts->groups_count--;
        else
            cuts->groups[g] = set;
    }
}

tryst_status fit_cuts_find(const struct fit_samples *samples, struct fit_cuts *cuts_p)
{
    struct fit_cuts cuts = {.groups_count = 0};
    struct search search;
    tryst_status status = search_open(samples, &search);
    if (status != TRYST_OK)
        return status;
    explained_reset(&search, NULL, 0);
    while (cuts.groups_count < FIT_RANKS_MAX) {
        struct best best = candidate_best(&search, &cuts);
        if (!best.set)
            break;
        (void)wire_gain(&search, best.set, true);
        cuts.groups[cuts.groups_count++] = best.set;
    }
    cuts.explained = explained_count(&search);
    groups_prune(&search, &cuts);
    search_close(&search);
    *cuts_p = cuts;
    return TRYST_OK;
}

double fit_pair_capacity(const struct fit_samples *samples, uint32_t from, uint32_t to)
{
    double most = 0;
    for (uint32_t r = 0; r < samples->rounds_count; r++)
        for (uint32_t f = 0; f < samples->rounds[r].count; f++) {
            const struct fit_flow *flow = &samples->rounds[r].flows[f];
            if (flow->from == from && flow->to == to && flow->bytes_per_s > most)
                most = flow->bytes_per_s;
        }
    return most;
}

tryst_status fit_mesh_explains(const struct fit_samples *samples, uint32_t *explained_p)
{
    struct search search;
    tryst_status status = search_open(samples, &search);
    if (status != TRYST_OK)
        return status;
    explained_reset(&search, NULL, 0);
    for (uint32_t r = 0; r < samples->rounds_count; r++)
        for (uint32_t f = 0; f < samples->rounds[r].count; f++) {
            const struct fit_flow *flow = &samples->rounds[r].flows[f];
            double most = fit_pair_capacity(samples, flow->from, flow->to);
            search.explained[r][f] |= flow->bytes_per_s >= FIT_FULL * most;
        }
    *explained_p = explained_count(&search);
    search_close(&search);
    return TRYST_OK;
}
