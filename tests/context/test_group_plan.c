/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a group, on which the ranks agree at its opening. Ranks are threads, over a
 * bootstrap server and over a caller's all-gather. All ranks run one plan, or all fail
 * with a text that names the ranks and the numbers. */
#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/plan/compiled_equal.h"
#include "collectives/plan/compiled_wire.h"
#include "context/group_plan.h"
#include "core/config/config.h"
#include "core/log/log.h"
#include "core/os/clock.h"
#include "rendezvous/bootstrap/session/bootstrap.h"
#include "rendezvous/bootstrap/session/bootstrap_wire.h"
#include "sites.h"
#include "topology/sized/compiled_make.h"

enum { RANKS_MAX = 64 };

struct meeting {
    int size;
    bool server; /* true: a bootstrap server; false: the caller's all-gather */
    char address[BOOTSTRAP_ADDRESS_MAX];
    const char *topology[RANKS_MAX]; /* TRYST_TOPOLOGY of each rank; NULL: not set */
    const struct sites *sites;       /* the machines of the roster; NULL: one machine */
    const struct sites *odd; /* the roster of the last rank; NULL: equal to the others' */
    pthread_barrier_t barrier;
    char *given; /* blobs of one all-gather, size × bytes */
    size_t given_bytes;
    struct member *members;
};

struct member {
    struct meeting *meeting;
    int rank;
    pthread_t thread;
    tryst_status status;
    struct err err;
    struct group_plan *plan;
    uint64_t spent_ns;
};

static int gather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct member *member = arg;
    struct meeting *meeting = member->meeting;
    pthread_barrier_wait(&meeting->barrier);
    if (member->rank == 0)
        meeting->given = test_malloc((size_t)meeting->size * bytes + 1);
    pthread_barrier_wait(&meeting->barrier);
    memcpy(meeting->given + (size_t)member->rank * bytes, mine, bytes);
    pthread_barrier_wait(&meeting->barrier);
    memcpy(all, meeting->given, (size_t)meeting->size * bytes);
    pthread_barrier_wait(&meeting->barrier);
    if (member->rank == 0)
        test_free(meeting->given);
    return 0;
}

static struct log quiet = LOG_INIT;

static void member_roster(const struct member *member, struct roster *roster)
{
    const struct meeting *meeting = member->meeting;
    const struct sites one = {.count = 1, .ranks_each = meeting->size};
    const struct sites *sites = meeting->sites ? meeting->sites : &one;
    bool last = member->rank + 1 == meeting->size;
    sites_roster(last && meeting->odd ? meeting->odd : sites, roster);
}

/* Where rank 0 searches for the planner; NULL: where it is. */
static const char *module_path;

static tryst_status module_path_set(struct config *config, struct err *err)
{
    const char *path = module_path ? module_path : getenv("TRYST_MODULE_PATH");
    return config_set(config, "module_path", path, err);
}

static void *member_main(void *arg)
{
    struct member *member = arg;
    struct meeting *meeting = member->meeting;
    struct bootstrap *bootstrap;
    struct config *config;
    struct bootstrap_params params = {.rank = member->rank,
                                      .size = meeting->size,
                                      .listen_fd = -1,
                                      .insecure = true,
                                      .timeout_ns = 20 * NS_PER_S,
                                      .log = &quiet};
    if (meeting->server) {
        params.address = meeting->address;
    } else {
        params.allgather = gather;
        params.allgather_arg = member;
    }
    member->status = config_open_defaults(&config);
    const char *topology = meeting->topology[member->rank];
    if (member->status == TRYST_OK && topology)
        member->status = config_set(config, "topology", topology, &member->err);
    if (member->status == TRYST_OK)
        member->status = module_path_set(config, &member->err);
    if (member->status == TRYST_OK)
        member->status = bootstrap_open(&params, &member->err, &bootstrap);
    if (member->status != TRYST_OK)
        return NULL;
    struct roster roster;
    member_roster(member, &roster);
    uint64_t began_ns = clock_monotonic_ns();
    member->status =
        group_plan_open(bootstrap, &params, &roster, config, &member->err, &member->plan);
    member->spent_ns = clock_monotonic_ns() - began_ns;
    roster_close(&roster);
    bootstrap_close(bootstrap, member->status ? &member->err : NULL);
    config_close(config);
    return NULL;
}

static void meeting_run(struct meeting *meeting)
{
    static int port;
    meeting->members = test_calloc((size_t)meeting->size, sizeof *meeting->members);
    pthread_barrier_init(&meeting->barrier, NULL, (unsigned)meeting->size);
    snprintf(meeting->address, sizeof meeting->address, "127.0.0.1:%d",
             20000 + ((int)getpid() * 8 + port++) % 10000);
    for (int rank = 0; rank < meeting->size; rank++) {
        struct member *member = &meeting->members[rank];
        *member = (struct member){.meeting = meeting, .rank = rank, .err = ERR_INIT};
        assert_int_equal(pthread_create(&member->thread, NULL, member_main, member), 0);
    }
    for (int rank = 0; rank < meeting->size; rank++)
        pthread_join(meeting->members[rank].thread, NULL);
    pthread_barrier_destroy(&meeting->barrier);
}

static void meeting_end(struct meeting *meeting)
{
    for (int rank = 0; rank < meeting->size; rank++)
        group_plan_close(meeting->members[rank].plan);
    test_free(meeting->members);
}

/* ---- one plan ---------------------------------------------------------------------- */

static bool child_is(const int32_t *children, uint32_t count, int32_t rank)
{
    for (uint32_t k = 0; k < count; k++)
        if (children[k] == rank)
            return true;
    return false;
}

/* Fail unless each rank and its parent agree about the edge between them. */
static void tree_check(const struct meeting *meeting, uint32_t c, uint32_t t, int rank)
{
    const struct coll_plan *plan = &meeting->members[rank].plan->coll;
    const struct coll_tree_plan *tree = &plan->classes[c].trees[t];
    assert_int_equal(tree->up_parents[rank], tree->up_parent);
    assert_int_equal(tree->down_parents[rank], tree->down_parent);
    assert_int_equal(tree->up_parent < 0, rank == tree->root);
    assert_int_equal(tree->down_parent < 0, rank == tree->root);
    if (rank == tree->root)
        return;
    const struct coll_tree_plan *up =
        &meeting->members[tree->up_parent].plan->coll.classes[c].trees[t];
    const struct coll_tree_plan *down =
        &meeting->members[tree->down_parent].plan->coll.classes[c].trees[t];
    assert_true(child_is(up->up_children, up->up_children_count, rank));
    assert_true(child_is(down->down_children, down->down_children_count, rank));
    assert_int_equal(up->cum_share, tree->cum_share);
}

static void agreed(const struct meeting *meeting)
{
    const struct coll_plan *first = NULL;
    for (int rank = 0; rank < meeting->size; rank++) {
        const struct member *member = &meeting->members[rank];
        if (member->status != TRYST_OK)
            fail_msg("rank %d: %s", rank, member->err.text);
        const struct coll_plan *plan = &member->plan->coll;
        first = first ? first : plan;
        assert_int_equal(plan->rank, rank);
        assert_int_equal(plan->size, meeting->size);
        assert_int_equal(plan->digest, first->digest);
        assert_int_equal(plan->classes_count, first->classes_count);
    }
    for (uint32_t c = 0; c < first->classes_count; c++)
        for (uint32_t t = 0; t < first->classes[c].trees_count; t++)
            for (int rank = 0; rank < meeting->size; rank++)
                tree_check(meeting, c, t, rank);
}

static void unset_is_equal_links(void **state)
{
    static const int sizes[] = {2, 3, 5, 8, 17, 64};
    for (size_t k = 0; k < COUNT_OF(sizes); k++)
        for (int server = 0; server < 2; server++) {
            struct meeting meeting = {.size = sizes[k], .server = server};
            uint64_t most_ns = 0;
            meeting_run(&meeting);
            agreed(&meeting);
            for (int rank = 0; rank < meeting.size; rank++) {
                const struct member *member = &meeting.members[rank];
                assert_int_equal(member->plan->flags, COMPILED_RATES_ASSUMED);
                assert_int_equal(member->plan->coll.bound_bytes_per_s, 0);
                assert_int_equal(member->plan->coll.classes[0].bytes_per_s, 0);
                if (member->spent_ns > most_ns)
                    most_ns = member->spent_ns;
            }
            print_message("%d ranks, %s: the last rank received its plan after %.1f ms\n",
                          sizes[k], server ? "server" : "caller's all-gather",
                          (double)most_ns / 1e6);
            meeting_end(&meeting);
        }
}

/* ---- machines of the roster -------------------------------------------------------- */

static struct meeting meeting_at(const struct sites *sites, bool server)
{
    return (struct meeting){.size = sites_ranks(sites), .server = server, .sites = sites};
}

static uint64_t equal_digest(uint32_t ranks, bool apart)
{
    const struct compiled_params params = {.apart = apart, .one_host = !apart};
    struct err err = ERR_INIT;
    struct compiled_plan *plan;
    uint8_t *bytes;
    size_t count;
    assert_int_equal(compiled_plan_equal(ranks, &params, &err, &plan), TRYST_OK);
    assert_int_equal(compiled_plan_encode(plan, &err, &bytes, &count), TRYST_OK);
    uint64_t digest = compiled_plan_digest(bytes, count);
    mem_free(bytes);
    compiled_plan_close(plan);
    return digest;
}

/* If no machine and no NIC differs, the ranks run the plan for equal links. */
static void alike_is_equal_links(void **state)
{
    static const struct sites rows[] = {
        {.count = 1, .ranks_each = 4, .mbit = {10000}},
        {.count = 4, .ranks_each = 1, .mbit = {10000}},
        {.count = 4, .ranks_each = 1, .mbit = {10000}, .unknown_last = true},
    };
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        struct meeting meeting = meeting_at(&rows[k], k % 2);
        meeting_run(&meeting);
        agreed(&meeting);
        assert_int_equal(meeting.members[3].plan->coll.digest,
                         equal_digest(4, rows[k].count > 1));
        assert_int_equal(meeting.members[3].plan->out_bytes_per_s, 0);
        const struct coll_class *classes = meeting.members[3].plan->coll.classes;
        assert_int_equal(classes[0].exchange, rows[k].count == 1);
        assert_false(classes[1].exchange);
        meeting_end(&meeting);
    }
}

/* Return the number of edges between machines in a half of a tree. */
static int crossings(const struct sites *sites, const int32_t *parents)
{
    int count = 0;
    for (int rank = 0; rank < sites_ranks(sites); rank++)
        count +=
            parents[rank] >= 0 && site_of(sites, rank) != site_of(sites, parents[rank]);
    return count;
}

/* Each tree crosses the network once for each machine but one, in either direction. */
static void trees_cross_seldom(void **state)
{
    static const struct {
        struct sites sites;
        uint32_t flags;
        uint64_t out;
    } rows[] = {
        {{.count = 2, .ranks_each = 2, .mbit = {10000}}, 0, 1250000000},
        {{.count = 2, .ranks_each = 2, .mbit = {10000}, .in_turn = true}, 0, 1250000000},
        {{.count = 3, .ranks_each = 3, .mbit = {1000, 1000}}, 0, 250000000},
        {{.count = 2, .ranks_each = 2, .mbit = {1000}, .unknown = true},
         COMPILED_RATES_ASSUMED,
         0},
    };
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        const struct sites *sites = &rows[k].sites;
        struct meeting meeting = meeting_at(sites, k % 2);
        meeting_run(&meeting);
        agreed(&meeting);
        for (int rank = 0; rank < meeting.size; rank++) {
            const struct group_plan *plan = meeting.members[rank].plan;
            assert_int_equal(plan->flags, rows[k].flags);
            assert_int_equal(plan->out_bytes_per_s, rows[k].out);
        }
        const struct coll_plan *plan = &meeting.members[0].plan->coll;
        for (uint32_t c = 0; c < plan->classes_count; c++)
            for (uint32_t t = 0; t < plan->classes[c].trees_count; t++) {
                const struct coll_tree_plan *tree = &plan->classes[c].trees[t];
                if (crossings(sites, tree->up_parents) != sites->count - 1 ||
                    crossings(sites, tree->down_parents) != sites->count - 1)
                    fail_msg("row %zu: class %u, tree %u", k, c, t);
            }
        meeting_end(&meeting);
    }
}

/* The machine with the slow NIC receives and sends each byte once. */
static void rates_follow_nics(void **state)
{
    const struct sites sites = {
        .count = 4, .ranks_each = 1, .mbit = {10000}, .mbit_last = 1000};
    struct meeting meeting = meeting_at(&sites, true);
    meeting_run(&meeting);
    agreed(&meeting);
    for (int rank = 0; rank < 4; rank++) {
        const struct group_plan *plan = meeting.members[rank].plan;
        const struct coll_class *largest =
            &plan->coll.classes[plan->coll.classes_count - 1];
        assert_int_equal(plan->flags, 0);
        assert_int_equal(plan->out_bytes_per_s, rank == 3 ? 125000000 : 1250000000);
        assert_in_range(plan->bound_bytes_per_s, 124900000, 125000000);
        assert_in_range(largest->bytes_per_s, 120000000, plan->bound_bytes_per_s);
    }
    meeting_end(&meeting);
}

/* "node:N" is a synthetic cluster; this one has N ranks at one switch. */
static const char star4[] = "star4.json", star5[] = "star5.json",
                  uneven4[] = "uneven4.json", late4[] = "late4.json";

static void star_write(const char *path, int ranks, double last_gbit, int latency_us)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{\"ranks\":[");
    for (int i = 0; i < ranks; i++)
        fprintf(file, "%s\"h%d\"", i ? "," : "", i);
    fprintf(file, "],\"nodes\":[\"s\"],\"links\":[");
    for (int i = 0; i < ranks; i++)
        fprintf(file, "%s{\"a\":\"h%d\",\"b\":\"s\",\"gbit_per_s\":%g,\"latency_us\":%d}",
                i ? "," : "", i, i + 1 < ranks ? 10 : last_gbit, latency_us);
    fprintf(file, "]}");
    fclose(file);
}

static struct meeting meeting_of(int size, bool server, const char *topology)
{
    struct meeting meeting = {.size = size, .server = server};
    for (int rank = 0; rank < size; rank++)
        meeting.topology[rank] = topology;
    return meeting;
}

static void rank_0_plans(void **state)
{
    for (int server = 0; server < 2; server++)
        for (int alone = 0; alone < 2; alone++) {
            struct meeting meeting = meeting_of(4, server, uneven4);
            if (alone) /* the file is on the machine of rank 0 */
                meeting.topology[1] = meeting.topology[2] = meeting.topology[3] = NULL;
            meeting_run(&meeting);
            agreed(&meeting);
            const struct group_plan *plan = meeting.members[3].plan;
            assert_int_equal(plan->flags, 0);
            /* 0.2 of 10 Gbit/s: the slow rank receives and sends each byte once */
            assert_in_range(plan->bound_bytes_per_s, 24900000, 25000000);
            const struct coll_class *largest =
                &plan->coll.classes[plan->coll.classes_count - 1];
            assert_int_equal(plan->coll.bound_bytes_per_s, plan->bound_bytes_per_s);
            assert_in_range(largest->bytes_per_s, 24000000, plan->bound_bytes_per_s);
            meeting_end(&meeting);
        }
}

/* The plan is larger than one piece of a broadcast by a caller's all-gather. */
static void a_long_plan_travels(void **state)
{
    for (int server = 0; server < 2; server++) {
        struct meeting meeting =
            meeting_of(48, server, "node:6 gpu:8 nvlink:450GB nic:8x50GB");
        meeting_run(&meeting);
        agreed(&meeting);
        meeting_end(&meeting);
    }
}

static void all_fail(struct meeting *meeting, tryst_status status,
                     const char *const *says)
{
    for (int server = 0; server < 2; server++) {
        meeting->server = server;
        meeting_run(meeting);
        for (int rank = 0; rank < meeting->size; rank++) {
            const struct member *member = &meeting->members[rank];
            assert_int_equal(member->status, status);
            for (const char *const *say = says; *say; say++)
                if (!strstr(member->err.text, *say))
                    fail_msg("rank %d: \"%s\" does not contain \"%s\"", rank,
                             member->err.text, *say);
        }
        meeting_end(meeting);
    }
}

/* For equal links a group opens without the planner; for others it fails. (The first
 * test, since a loaded module stays.) */
static void without_the_planner(void **state)
{
    static const struct sites sites = {.count = 2, .ranks_each = 2, .mbit = {10000}};
    static const char *const says[] = {
        "cannot plan collectives: rank 0: cannot load the planner",
        "installed with libtryst_topology", "no tryst_topology.so", "/nowhere", NULL};
    module_path = "/nowhere";
    struct meeting meeting = {.size = 4};
    meeting_run(&meeting);
    agreed(&meeting);
    meeting_end(&meeting);
    meeting = meeting_at(&sites, false);
    all_fail(&meeting, TRYST_E_UNSUPPORTED, says);
    meeting = meeting_of(4, false, star4);
    meeting_run(&meeting);
    assert_int_equal(meeting.members[0].status, TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(meeting.members[0].err.text, "no tryst_topology.so"));
    assert_non_null(
        strstr(meeting.members[3].err.text, "rank 0 cannot load the planner"));
    assert_int_equal(meeting.members[3].status, TRYST_E_UNSUPPORTED);
    meeting_end(&meeting);
    module_path = NULL;
}

static void another_number_of_ranks(void **state)
{
    static const char *const says[] = {"TRYST_TOPOLOGY of rank 0 has 5 ranks",
                                       "the group has 4", NULL};
    struct meeting meeting = meeting_of(4, false, star5);
    all_fail(&meeting, TRYST_E_GROUP, says);
}

static void another_network(void **state)
{
    static const char *const says[] = {"TRYST_TOPOLOGY of ranks 0 and 2 differ",
                                       "same file", NULL};
    static const char *const others[] = {uneven4, late4};
    for (size_t k = 0; k < COUNT_OF(others); k++) {
        struct meeting meeting = meeting_of(4, false, star4);
        meeting.topology[2] = others[k];
        all_fail(&meeting, TRYST_E_GROUP, says);
    }
}

static void another_roster(void **state)
{
    static const struct sites sites = {.count = 2, .ranks_each = 2, .mbit = {10000}};
    static const struct sites odds[] = {
        {.count = 2, .ranks_each = 2, .mbit = {10000}, .mbit_last = 1000},
        {.count = 1, .ranks_each = 4, .mbit = {10000}},
    };
    static const char *const says[] = {"the rosters of ranks 0 and 3 differ",
                                       "the same bytes", NULL};
    for (size_t k = 0; k < COUNT_OF(odds); k++) {
        struct meeting meeting = meeting_at(&sites, false);
        meeting.odd = &odds[k];
        all_fail(&meeting, TRYST_E_GROUP, says);
    }
}

/* The file on rank 0's machine also holds for the other ranks, whatever their roster
 * contains. */
static void a_topology_comes_first(void **state)
{
    static const struct sites sites = {.count = 2, .ranks_each = 2, .mbit = {10000}};
    struct meeting meeting = meeting_at(&sites, true);
    meeting.topology[0] = uneven4;
    meeting_run(&meeting);
    agreed(&meeting);
    assert_int_equal(meeting.members[3].plan->out_bytes_per_s, 25000000);
    assert_int_equal(meeting.members[0].plan->out_bytes_per_s, 1250000000);
    meeting_end(&meeting);
}

static void not_on_rank_0(void **state)
{
    static const char *const says[] = {"set on rank 3, but not on rank 0", NULL};
    struct meeting meeting = {.size = 4};
    meeting.topology[3] = star4;
    all_fail(&meeting, TRYST_E_GROUP, says);
}

/* The rank without the file gets the reason; the others get an error that names this
 * rank. */
static void a_file_that_is_not_there(void **state)
{
    static const char *const paths[] = {"/nowhere/x.json", "-"};
    static const char *const reasons[] = {"cannot open /nowhere/x.json",
                                          "\"-\" is standard input; name a file"};
    struct meeting meeting = meeting_of(3, false, "star3.json");
    star_write("star3.json", 3, 10, 10);
    for (int row = 0; row < 4; row++) {
        meeting.topology[1] = paths[row / 2];
        meeting.server = row % 2;
        meeting_run(&meeting);
        for (int rank = 0; rank < 3; rank++) {
            const struct member *member = &meeting.members[rank];
            const char *says =
                rank == 1 ? reasons[row / 2] : "rank 1 cannot read its TRYST_TOPOLOGY";
            assert_int_not_equal(member->status, TRYST_OK);
            if (!strstr(member->err.text, says))
                fail_msg("rank %d: \"%s\" does not contain \"%s\"", rank,
                         member->err.text, says);
        }
        meeting_end(&meeting);
    }
    unlink("star3.json");
}

/* Rank 0 cannot make a plan: two ranks have no route. */
static void not_connected(void **state)
{
    static const char *const says[] = {"cannot plan collectives: rank 0: ", "no route",
                                       NULL};
    FILE *file = fopen("apart.json", "w");
    assert_non_null(file);
    fprintf(file, "{\"ranks\":[\"a\",\"b\",\"c\"],\"nodes\":[\"s\"],\"links\":["
                  "{\"a\":\"a\",\"b\":\"s\",\"gbit_per_s\":1},"
                  "{\"a\":\"b\",\"b\":\"s\",\"gbit_per_s\":1},"
                  "{\"from\":\"c\",\"to\":\"s\",\"gbit_per_s\":1}]}");
    fclose(file);
    struct meeting meeting = meeting_of(3, false, "apart.json");
    all_fail(&meeting, TRYST_E_INVALID, says);
    unlink("apart.json");
}

/* An all-gather of one rank in place of all. */
struct alike {
    int size, rounds;
    int failing_round; /* the round in which the last rank announces a failure; 0: none */
};

/* Let all ranks announce the same as this rank. The bootstrap's first round has the
 * number of each rank. */
static int gather_alike(void *arg, const void *mine, void *all, size_t bytes)
{
    struct alike *alike = arg;
    int32_t failed = TRYST_E_NOMEM;
    for (int rank = 0; rank < alike->size; rank++) {
        char *at = (char *)all + (size_t)rank * bytes;
        struct bootstrap_wire_member member;
        memcpy(at, mine, bytes);
        memcpy(&member, mine, bytes < sizeof member ? bytes : sizeof member);
        if (bytes != sizeof member || member.magic != BOOTSTRAP_WIRE_MAGIC)
            continue;
        member.rank = (uint32_t)rank;
        memcpy(at, &member, sizeof member);
    }
    if (++alike->rounds == alike->failing_round)
        memcpy((char *)all + (size_t)(alike->size - 1) * bytes, &failed, sizeof failed);
    return 0;
}

/* Rank 0 of three sites; gather_alike supplies the parts of the other ranks. */
struct alone {
    struct alike alike;
    struct bootstrap_params params;
    struct roster roster;
    struct config *config;
    struct bootstrap *bootstrap;
};

static void alone_setup(struct alone *alone)
{
    static const struct sites sites = {
        .count = 3, .ranks_each = 1, .mbit = {10000}, .mbit_last = 1000};
    struct err err = ERR_INIT;
    *alone = (struct alone){.alike = {.size = sites_ranks(&sites)}};
    alone->params = (struct bootstrap_params){.size = alone->alike.size,
                                              .listen_fd = -1,
                                              .allgather = gather_alike,
                                              .allgather_arg = &alone->alike,
                                              .log = &quiet};
    sites_roster(&sites, &alone->roster);
    assert_int_equal(config_open_defaults(&alone->config), TRYST_OK);
    assert_int_equal(module_path_set(alone->config, &err), TRYST_OK);
    assert_int_equal(bootstrap_open(&alone->params, &err, &alone->bootstrap), TRYST_OK);
}

static void alone_teardown(struct alone *alone)
{
    bootstrap_close(alone->bootstrap, NULL);
    config_close(alone->config);
    roster_close(&alone->roster);
}

/* Open the plan as rank 0 and close it. */
static tryst_status alone_open(struct alone *alone, struct err *err)
{
    struct group_plan *plan = NULL;
    tryst_status status = group_plan_open(alone->bootstrap, &alone->params,
                                          &alone->roster, alone->config, err, &plan);
    group_plan_close(plan);
    return status;
}

/* (The planner allocates for itself: tests/topology/test_planner.c.) */
static void no_memory(void **state)
{
    struct alone alone;
    struct err none = ERR_INIT;
    int failures = 0;
    bool failed = true;
    alone_setup(&alone);
    assert_int_equal(alone_open(&alone, &none), TRYST_OK);
    uint64_t live = alloc_live_count();
    for (uint64_t k = 1; failed; k += 1 + k / 16) {
        struct err err = ERR_INIT;
        alloc_fail_at(k);
        tryst_status status = alone_open(&alone, &err);
        failed = alloc_fail_off();
        assert_true(status == TRYST_OK ||
                    (failed && status == TRYST_E_NOMEM && err.text[0]));
        assert_int_equal(alloc_live_count(), live);
        failures += status != TRYST_OK;
    }
    print_message("%d openings failed\n", failures);
    assert_true(failures > 20);
    alone_teardown(&alone);
}

/* A rank has the bytes of the plan and cannot decode them. The last round reports this
 * rank. */
static void another_rank_cannot_decode(void **state)
{
    struct alone alone;
    struct err err = ERR_INIT;
    alone_setup(&alone);
    int before = alone.alike.rounds;
    assert_int_equal(alone_open(&alone, &err), TRYST_OK);
    alone.alike.failing_round = 2 * alone.alike.rounds - before;
    assert_int_equal(alone_open(&alone, &err), TRYST_E_GROUP);
    assert_non_null(strstr(err.text, "rank 2 cannot decode the plan of rank 0"));
    alone_teardown(&alone);
}

static int files_make(void **state)
{
    static char folder[] = "/tmp/tryst-group-plan-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    star_write(star4, 4, 10, 10);
    star_write(star5, 5, 10, 10);
    star_write(uneven4, 4, 0.2, 10);
    star_write(late4, 4, 10, 11);
    *state = folder;
    return 0;
}

static int files_remove(void **state)
{
    unlink(star4);
    unlink(star5);
    unlink(uneven4);
    unlink(late4);
    return chdir("/") || rmdir(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_planner),
        cmocka_unit_test(unset_is_equal_links),
        cmocka_unit_test(alike_is_equal_links),
        cmocka_unit_test(trees_cross_seldom),
        cmocka_unit_test(rates_follow_nics),
        cmocka_unit_test(rank_0_plans),
        cmocka_unit_test(another_roster),
        cmocka_unit_test(a_topology_comes_first),
        cmocka_unit_test(a_long_plan_travels),
        cmocka_unit_test(another_number_of_ranks),
        cmocka_unit_test(another_network),
        cmocka_unit_test(not_on_rank_0),
        cmocka_unit_test(a_file_that_is_not_there),
        cmocka_unit_test(not_connected),
        cmocka_unit_test(another_rank_cannot_decode),
        cmocka_unit_test(no_memory),
    };
    quiet.level = TRYST_LOG_ERROR;
    return cmocka_run_group_tests(tests, files_make, files_remove);
}
