/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of random collectives; see coll_rounds.h. */
#include "coll_rounds.h"

#include <stdlib.h>

#include "rendezvous/coll_op.h"
#include "support/unit.h"

static void round_run(struct harness_rank *rank, uint64_t seed, uint64_t step_id)
{
    struct plan_drawn *drawn = malloc(sizeof *drawn);
    char *trials = calloc(coll_trials.count, coll_trials.bytes);
    unsigned order[COLL_TRIALS_MAX];
    uint64_t random = (seed + (uint64_t)rank->rank) * 7919 | 1;
    CHECK(drawn && trials && coll_trials.count <= COLL_TRIALS_MAX);
    plan_draw(drawn, rank->size, seed * 7 + 1);
    drawn->eager_max = rank->params->config ? 0 : 4096; /* test_least_scratch */
    colls_plan_set(group_colls(rank->group), &drawn->plans[rank->rank]);
    tryst_step *step = harness_step(rank, step_id);
    for (unsigned i = 0; i < coll_trials.count; i++) {
        unsigned at = (unsigned)(harness_random(&random) % (i + 1));
        order[i] = order[at];
        order[at] = i;
        coll_trials.open(trials + i * coll_trials.bytes, rank, seed, i);
    }
    for (unsigned i = 0; i < coll_trials.count; i++) {
        coll_trials.start(trials + order[i] * coll_trials.bytes, rank, step);
        if (harness_random(&random) % 2)
            tryst_progress(rank->ctx);
    }
    for (unsigned i = 0; i < coll_trials.count; i++)
        coll_trials.end(trials + i * coll_trials.bytes, rank, drawn);
    harness_step_close(step);
    free(trials);
    free(drawn);
}

static void random_main(struct harness_rank *rank)
{
    uint64_t seed = *(uint64_t *)rank->arg;
    const char *rounds = getenv("TRYST_TEST_ROUNDS");
    uint64_t count = harness_is_sanitized() ? 4 : coll_trials.rounds;
    if (rounds)
        count = strtoull(rounds, NULL, 10);
    for (uint64_t i = 0; i < count; i++)
        round_run(rank, seed + i, i + 1);
}

static void random_run(int size, const char *const *config)
{
    uint64_t *seed = harness_share(sizeof *seed);
    *seed = unit_seed() + (uint64_t)size * 1000;
    struct harness_params params = {.size = size,
                                    .main = random_main,
                                    .arg = seed,
                                    .config = config,
                                    .timeout_s = 90};
    int failed = harness_run(&params);
    harness_unshare(seed, sizeof *seed);
    assert_int_equal(failed, 0);
}

void test_one_rank(void **state)
{
    (void)state;
    random_run(1, NULL);
}

void test_few_ranks(void **state)
{
    (void)state;
    random_run(2, NULL);
    random_run(3, NULL);
}

void test_many_ranks(void **state)
{
    (void)state;
    random_run(5, NULL);
    random_run(8, NULL);
}

void test_least_scratch(void **state)
{
    static const char *const config[] = {"scratch_bytes", "4K", "eager_max", "0", NULL};
    (void)state;
    random_run(4, config);
}
