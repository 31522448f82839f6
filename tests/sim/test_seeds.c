/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of eight ranks, seed by seed: every check of checks.h over every run, and a test
 * that each check finds its planted fault (enum sim_fault).
 *
 * TRYST_TEST_COUNT: number of seeds (40). TRYST_TEST_SEED: the first seed; with a count
 * of 1 it is replayed. TRYST_TEST_LOG: write the log of each run.
 * The argument is a pattern of tests' names. */
#include "checks.h"
#include "workload.h"

enum { RANKS = 8, CHECKS = 6, SEEDS = 40, FAULT_SEEDS = 12 };

enum check { INVERSIONS, WAITS, ORDER, SHARE, ENDS, EQUAL };

static const char *const check_names[CHECKS] = {"inversions", "waits", "order",
                                                "share",      "ends",  "equal"};

typedef uint64_t workload(struct sim *sim, uint64_t seed, enum sim_fault fault);

static uint64_t mixed(struct sim *sim, uint64_t seed, enum sim_fault fault)
{
    return workload_mixed(sim, RANKS, seed, fault);
}

static uint64_t loaded(struct sim *sim, uint64_t seed, enum sim_fault fault)
{
    return workload_loaded(sim, RANKS, seed, fault);
}

static uint64_t rough(struct sim *sim, uint64_t seed, enum sim_fault fault)
{
    return workload_rough(sim, RANKS, seed, fault);
}

static uint64_t cluster(struct sim *sim, uint64_t seed, enum sim_fault fault)
{
    return workload_cluster(sim, TEST_CLUSTER, seed, fault);
}

static uint64_t large(struct sim *sim, uint64_t seed, enum sim_fault fault)
{
    return workload_mixed(sim, WORLD_RANKS_MAX, seed, fault);
}

static uint64_t contact(struct sim *all, uint64_t seed, enum sim_fault fault)
{
    return workload_contact(all, seed, fault);
}

static struct sim sim;

/* Make one run and apply all checks but ORDER and EQUAL. Return the hash of its log. */
static uint64_t run(workload *make, uint64_t seed, enum sim_fault fault,
                    struct finding findings[CHECKS])
{
    uint64_t deadline_ns = make(&sim, seed, fault);
    (void)sim_run(&sim, deadline_ns);
    check_inversions(&sim, &findings[INVERSIONS]);
    check_waits(&sim, &findings[WAITS]);
    check_share(&sim, &findings[SHARE]);
    check_ends(&sim, deadline_ns, &findings[ENDS]);
    if (make == workload_one_link)
        check_order(&sim, &findings[ORDER]);
    if (make == contact)
        check_calm(&sim, &findings[ENDS]);
    uint64_t hash = sim_log_hash(&sim.log);
    if (getenv("TRYST_TEST_LOG"))
        sim_log_write(&sim.log, stderr);
    sim_close(&sim);
    return hash;
}

/* Make a run twice, and fail unless both logs are equal. */
static void run_twice(workload *make, uint64_t seed, enum sim_fault fault,
                      struct finding findings[CHECKS])
{
    uint64_t first = run(make, seed, fault, findings);
    uint64_t second = run(make, seed, fault, findings);
    struct finding *equal = &findings[EQUAL];
    equal->looked++;
    if (first != second && !equal->found) {
        equal->found = true;
        (void)snprintf(equal->text, sizeof equal->text, "two runs differ");
    }
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void seeds_pass(workload *make, uint64_t count, const char *what)
{
    uint64_t first = number_of("TRYST_TEST_SEED", 1);
    struct finding findings[CHECKS];
    memset(findings, 0, sizeof findings);
    for (uint64_t seed = first; seed < first + count; seed++) {
        run_twice(make, seed, SIM_SOUND, findings);
        for (int i = 0; i < CHECKS; i++)
            if (findings[i].found)
                fail_msg("%s, TRYST_TEST_SEED=%llu TRYST_TEST_COUNT=1: %s: %s", what,
                         (unsigned long long)seed, check_names[i], findings[i].text);
    }
    for (int i = 0; i < CHECKS; i++)
        print_message("%s: %s checked %llu cases\n", what, check_names[i],
                      (unsigned long long)findings[i].looked);
    print_message("%s: longest wait, part of the bound: %.3f\n", what,
                  findings[WAITS].worst);
}

static void test_mixed(void **state)
{
    seeds_pass(mixed, number_of("TRYST_TEST_COUNT", SEEDS), "mixed");
}

static void test_one_link(void **state)
{
    seeds_pass(workload_one_link, number_of("TRYST_TEST_COUNT", SEEDS), "one link");
}

static void test_loaded(void **state)
{
    seeds_pass(loaded, 1 + number_of("TRYST_TEST_COUNT", SEEDS) / 20, "loaded");
}

static void test_rough(void **state)
{
    seeds_pass(rough, 1 + number_of("TRYST_TEST_COUNT", SEEDS) / 4, "rough");
}

static void test_cluster(void **state)
{
    seeds_pass(cluster, 1 + number_of("TRYST_TEST_COUNT", SEEDS) / 4, "cluster");
}

/* Ranks that leave during their first contact: all operations end, and no rank is
 * declared dead. */
static void test_contact(void **state)
{
    seeds_pass(contact, 10 * number_of("TRYST_TEST_COUNT", SEEDS), "contact");
}

/* Run 64 ranks. */
static void test_large(void **state)
{
    seeds_pass(large, 1 + number_of("TRYST_TEST_COUNT", SEEDS) / 100, "large");
}

/* ---- each check finds its planted fault -------------------------------------------- */

static const struct {
    enum sim_fault fault;
    workload *make;
    enum check check;
} planted[] = {
    {SIM_FIFO, mixed, INVERSIONS},
    {SIM_REVERSED, mixed, INVERSIONS},
    {SIM_EQUAL_SHARE, mixed, INVERSIONS},
    {SIM_WIDE_WINDOW, mixed, WAITS},
    {SIM_FIFO, mixed, WAITS},
    {SIM_FIFO, workload_one_link, ORDER},
    {SIM_REVERSED, workload_one_link, ORDER},
    {SIM_WIDE_WINDOW, workload_one_link, ORDER},
    {SIM_NO_SHARE, loaded, SHARE},
    {SIM_EQUAL_SHARE, loaded, SHARE},
    {SIM_LOST_TRANSFER, mixed, ENDS},
    {SIM_LOST_CREDIT, mixed, ENDS},
    {SIM_UNSTEADY, mixed, EQUAL},
};

static void test_planted(void **state)
{
    for (size_t i = 0; i < COUNT_OF(planted); i++) {
        struct finding findings[CHECKS];
        const struct finding *finding = &findings[planted[i].check];
        uint64_t seed = 0;
        memset(findings, 0, sizeof findings);
        while (!finding->found && seed < FAULT_SEEDS)
            run_twice(planted[i].make, ++seed, planted[i].fault, findings);
        if (!finding->found)
            fail_msg("fault %d is not found by %s", (int)planted[i].fault,
                     check_names[planted[i].check]);
        print_message("fault %d, seed %llu: %s: %s\n", (int)planted[i].fault,
                      (unsigned long long)seed, check_names[planted[i].check],
                      finding->text);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed),   cmocka_unit_test(test_one_link),
        cmocka_unit_test(test_loaded),  cmocka_unit_test(test_rough),
        cmocka_unit_test(test_contact), cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_large),   cmocka_unit_test(test_planted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
