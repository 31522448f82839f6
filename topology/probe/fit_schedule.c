/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of a probe.
 *
 * One idea: a flow alone shows its narrowest wire; flows of all ranks show the wires that
 * ranks share. So each ordered pair is measured once without another flow at its hosts
 * (circle method, then first fit by host), once among n flows that load every rank once
 * in each direction (i to i + s), once with all flows of its sender, and once with all
 * flows of its receiver.
 */
#include "fit_schedule.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"

/* If each rank sends to the rank at the same distance, racks of equal size load each
 * other's wires equally, and one wire fewer would explain all flows; rounds of random
 * permutations prevent this. Fewer than MIXED_RANKS ranks make two racks only as two
 * ranks in each. */
enum { MIXED_ROUNDS = 6, MIXED_RANKS = 5 };

struct build {
    struct fit_schedule *schedule;
    uint32_t n;
    const uint32_t *hosts; /* by rank; NULL: no two ranks share a host */
};

static void pair_put(struct fit_schedule *schedule, uint32_t from, uint32_t to)
{
    schedule->pairs[schedule->pairs_count++] = (struct fit_pair){from, to};
}

/* End a round, which has the pairs added since the round before. Without such pairs, do
 * nothing. */
static void round_end(struct fit_schedule *schedule)
{
    if (schedule->pairs_count == schedule->first[schedule->rounds_count])
        return;
    schedule->first[++schedule->rounds_count] = schedule->pairs_count;
}

/* ---- apart ------------------------------------------------------------------------- */

static uint32_t host_of(const struct build *build, uint32_t rank)
{
    return build->hosts ? build->hosts[rank] : rank;
}

/* Find pair `k` of round `r` of the circle method over `seats` (even) ranks. Returns
 * false if one of the two seats is empty. */
static bool circle_pair(const struct build *build, uint32_t seats, uint32_t r, uint32_t k,
                        struct fit_pair *pair)
{
    uint32_t turn = seats - 1;
    pair->from = k == 0 ? turn : (r + k) % turn;
    pair->to = k == 0 ? r : (r + turn - k) % turn;
    return pair->from < build->n && pair->to < build->n;
}

static bool is_near(const struct build *build, struct fit_pair a, struct fit_pair b)
{
    uint32_t from = host_of(build, a.from), to = host_of(build, a.to);
    uint32_t other_from = host_of(build, b.from), other_to = host_of(build, b.to);
    return from == other_from || from == other_to || to == other_from || to == other_to;
}

/* True if `pair` shares no host with the pairs of the round being made. */
static bool fits_in(const struct build *build, struct fit_pair pair)
{
    const struct fit_schedule *schedule = build->schedule;
    for (uint32_t i = schedule->first[schedule->rounds_count]; i < schedule->pairs_count;
         i++)
        if (is_near(build, pair, schedule->pairs[i]))
            return false;
    return true;
}

/* Distribute the pairs in `left` over rounds by first fit. */
static void rounds_apart(const struct build *build, struct fit_pair *left, uint32_t count)
{
    while (count) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (fits_in(build, left[i]))
                pair_put(build->schedule, left[i].from, left[i].to);
            else
                left[kept++] = left[i];
        }
        count = kept;
        round_end(build->schedule);
    }
}

static tryst_status apart_build(const struct build *build)
{
    uint32_t seats = build->n + build->n % 2, count = 0;
    struct fit_pair *left = mem_zalloc_array((size_t)build->n * build->n, sizeof *left);
    if (!left)
        return TRYST_E_NOMEM;
    for (uint32_t back = 0; back < 2; back++)
        for (uint32_t r = 0; r + 1 < seats; r++)
            for (uint32_t k = 0; k < seats / 2; k++) {
                struct fit_pair pair;
                if (!circle_pair(build, seats, r, k, &pair))
                    continue;
                left[count++] = back ? (struct fit_pair){pair.to, pair.from} : pair;
            }
    rounds_apart(build, left, count);
    mem_free(left);
    return TRYST_OK;
}

/* ---- together ---------------------------------------------------------------------- */

/* Add a round of a random permutation without fixed points. */
static void derangement_build(const struct build *build, struct random *dice)
{
    uint32_t to[FIT_RANKS_MAX], n = build->n;
    for (uint32_t i = 0; i < n; i++)
        to[i] = i;
    for (uint32_t i = n - 1; i > 0; i--) { /* Sattolo: one cycle through all */
        uint32_t j = (uint32_t)random_range(dice, i), swap = to[i];
        to[i] = to[j];
        to[j] = swap;
    }
    for (uint32_t i = 0; i < n; i++)
        pair_put(build->schedule, i, to[i]);
    round_end(build->schedule);
}

static void together_build(const struct build *build)
{
    uint32_t n = build->n;
    struct random dice;
    random_seed(&dice, n);
    for (uint32_t i = 0; i < MIXED_ROUNDS && n >= MIXED_RANKS; i++)
        derangement_build(build, &dice);
    for (uint32_t shift = 1; shift < n; shift++) {
        for (uint32_t i = 0; i < n; i++)
            pair_put(build->schedule, i, (i + shift) % n);
        round_end(build->schedule);
    }
    for (uint32_t in = 0; in < 2; in++)
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < n; j++)
                if (i != j)
                    pair_put(build->schedule, in ? j : i, in ? i : j);
            round_end(build->schedule);
        }
}

tryst_status fit_schedule_open(uint32_t ranks_count, const uint32_t *hosts,
                               struct err *err, struct fit_schedule *schedule_p)
{
    struct fit_schedule schedule = {.pairs = NULL};
    const struct build build = {&schedule, ranks_count, hosts};
    size_t pairs = (size_t)ranks_count * (ranks_count - 1);
    if (ranks_count < 2 || ranks_count > FIT_RANKS_MAX)
        return err_set(err, TRYST_E_INVALID, "cannot probe %u ranks (2 to %d)",
                       ranks_count, FIT_RANKS_MAX);
    size_t most = 4 * pairs + (size_t)MIXED_ROUNDS * ranks_count;
    schedule.pairs = mem_zalloc_array(most, sizeof *schedule.pairs);
    schedule.first = mem_zalloc_array(most + 1, sizeof *schedule.first);
    if (!schedule.pairs || !schedule.first || apart_build(&build) != TRYST_OK) {
        fit_schedule_close(&schedule);
        return TRYST_E_NOMEM;
    }
    if (ranks_count > 2)
        together_build(&build);
    *schedule_p = schedule;
    return TRYST_OK;
}

void fit_schedule_close(struct fit_schedule *schedule)
{
    mem_free(schedule->pairs);
    mem_free(schedule->first);
    memset(schedule, 0, sizeof *schedule);
}
