/* SPDX-License-Identifier: Apache-2.0 */
/* The pace of lanes: the bucket as a table, and the estimate against a link in virtual
 * time. The link is one FIFO whose true rate is not in the graph; its edges have shares
 * of the rate and a base round trip, and in some cases late DONEs. */
#include "commsched/sched/pace.h"

#include <math.h>
#include <string.h>

#include "core/os/random.h"
#include "support/unit.h"

enum { EDGES_MAX = 8, UNDER_WAY_MAX = 4096, LINKS = 2 };

struct edge {
    struct pace pace;
    int link;
    double share;
    uint64_t started_bytes, in_flight_bytes, window_bytes;
    uint64_t idle_until_ns; /* time before which the edge has nothing to send */
    struct {
        uint64_t bytes, back_ns;
    } ring[UNDER_WAY_MAX];
    uint32_t first, count;
    uint64_t marked_bytes; /* bytes that had returned at the last mark */
};

static struct net {
    struct edge edges[EDGES_MAX];
    int count;
    double bytes_per_s[LINKS]; /* the true rates */
    uint64_t free_ns[LINKS];   /* time at which all started bytes have left the link */
    uint64_t queue_high_bytes[LINKS];
    uint64_t now_ns, marked_ns;
    uint64_t trip_ns, slice_bytes;
    uint32_t seed;
    uint64_t late_ns; /* the largest random delay of a DONE */
    struct random random;
    /* no DONE is read for the first stall_ns of each stall_every_ns */
    uint64_t stall_every_ns, stall_ns;
} n;

/* Set the edge's window as path.c does for a paced lane. */
static void window_follow(struct edge *edge)
{
    double trip =
        (double)pace_rate(&edge->pace) * (double)pace_trip_ns(&edge->pace) * 1e-9;
    double slices = 1 + ceil(trip / (double)n.slice_bytes);
    bool known = pace_trip_ns(&edge->pace) != 0;
    edge->window_bytes = n.slice_bytes * (uint64_t)(!known ? 4 : slices > 2 ? slices : 2);
}

static void begin(double bytes_per_s, uint64_t trip_ns, uint64_t slice_bytes)
{
    memset(&n, 0, sizeof n);
    random_seed(&n.random, 7);
    n.bytes_per_s[0] = n.bytes_per_s[1] = bytes_per_s;
    n.now_ns = NS_PER_S;
    n.trip_ns = trip_ns;
    n.slice_bytes = slice_bytes;
}

/* Add an edge. `graph` is the link's rate in the plan. */
static void edge_add(double share, double graph, int link)
{
    struct edge *edge = &n.edges[n.count++];
    edge->share = share;
    edge->link = link;
    struct pace_plan plan = {(uint64_t)(share * graph), (uint64_t)graph,
                             n.seed + (uint32_t)n.count};
    pace_init(&edge->pace, &plan);
    window_follow(edge);
}

static uint64_t done_ns(uint64_t left_ns)
{
    uint64_t at_ns = left_ns + n.trip_ns;
    if (n.late_ns)
        at_ns += random_range(&n.random, n.late_ns);
    if (n.stall_every_ns && at_ns % n.stall_every_ns < n.stall_ns)
        at_ns += n.stall_ns - at_ns % n.stall_every_ns;
    return at_ns;
}

static void slice_start(struct edge *edge)
{
    uint64_t *free_ns = &n.free_ns[edge->link];
    double rate = n.bytes_per_s[edge->link];
    uint32_t at = (edge->first + edge->count++) % UNDER_WAY_MAX;
    assert_true(edge->count <= UNDER_WAY_MAX);
    pace_started(&edge->pace, n.now_ns, edge->started_bytes, n.slice_bytes, UINT64_MAX,
                 URGENCY_TRAINING);
    edge->started_bytes += n.slice_bytes;
    edge->in_flight_bytes += n.slice_bytes;
    *free_ns = *free_ns > n.now_ns ? *free_ns : n.now_ns;
    *free_ns += (uint64_t)((double)n.slice_bytes / rate * 1e9);
    uint64_t queue = (uint64_t)((double)(*free_ns - n.now_ns) * rate * 1e-9);
    if (queue > n.queue_high_bytes[edge->link])
        n.queue_high_bytes[edge->link] = queue;
    uint64_t back_ns = done_ns(*free_ns);
    uint32_t before = (at + UNDER_WAY_MAX - 1) % UNDER_WAY_MAX;
    if (edge->count > 1 && back_ns < edge->ring[before].back_ns)
        back_ns = edge->ring[before].back_ns;
    edge->ring[at].bytes = n.slice_bytes;
    edge->ring[at].back_ns = back_ns;
}

static void slice_return(struct edge *edge)
{
    edge->in_flight_bytes -= edge->ring[edge->first].bytes;
    edge->first = (edge->first + 1) % UNDER_WAY_MAX;
    edge->count--;
    if (pace_credited(&edge->pace, n.now_ns, edge->started_bytes - edge->in_flight_bytes))
        window_follow(edge);
}

/* Run all events that are due. Return the time of the next event. */
static uint64_t edge_run(struct edge *edge)
{
    while (edge->count && edge->ring[edge->first].back_ns <= n.now_ns)
        slice_return(edge);
    uint64_t next_ns = edge->count ? edge->ring[edge->first].back_ns : UINT64_MAX;
    for (;;) {
        uint64_t at_ns = pace_start_ns(&edge->pace, n.now_ns);
        if (edge->idle_until_ns > n.now_ns)
            at_ns = edge->idle_until_ns;
        if (at_ns > n.now_ns)
            return at_ns < next_ns ? at_ns : next_ns;
        if (edge->count && edge->in_flight_bytes + n.slice_bytes > edge->window_bytes)
            return next_ns;
        slice_start(edge);
        next_ns = edge->ring[edge->first].back_ns;
    }
}

static void run(uint64_t ns)
{
    uint64_t until_ns = n.now_ns + ns;
    while (n.now_ns < until_ns) {
        uint64_t next_ns = until_ns;
        for (int i = 0; i < n.count; i++) {
            uint64_t at_ns = edge_run(&n.edges[i]);
            next_ns = at_ns < next_ns ? at_ns : next_ns;
        }
        n.now_ns = next_ns;
    }
}

static void mark(void)
{
    n.marked_ns = n.now_ns;
    memset(n.queue_high_bytes, 0, sizeof n.queue_high_bytes);
    for (int i = 0; i < n.count; i++)
        n.edges[i].marked_bytes = n.edges[i].started_bytes - n.edges[i].in_flight_bytes;
}

/* Return the edge's bytes per second since the mark. */
static double edge_speed(const struct edge *edge)
{
    uint64_t bytes = edge->started_bytes - edge->in_flight_bytes - edge->marked_bytes;
    return (double)bytes / (double)(n.now_ns - n.marked_ns) * 1e9;
}

/* Return the bytes per second of all edges over a link since the mark. */
static double link_speed(int link)
{
    double speed = 0;
    for (int i = 0; i < n.count; i++)
        speed += n.edges[i].link == link ? edge_speed(&n.edges[i]) : 0;
    return speed;
}

/* Return the smallest ratio of an edge's rate to its due rate: the plan is as slow as
 * that edge. */
static double slowest(void)
{
    double part = 1e9;
    for (int i = 0; i < n.count; i++) {
        double due = n.edges[i].share * n.bytes_per_s[n.edges[i].link];
        part = fmin(part, edge_speed(&n.edges[i]) / due);
    }
    return part;
}

#define expect_within(value, low, high, ...)                                          \
    do {                                                                              \
        double value_ = (double)(value);                                              \
        if (!(value_ >= (low) && value_ <= (high))) {                                 \
            print_message(__VA_ARGS__);                                               \
            fail_msg("%s is %g, not within %g and %g", #value, value_, (double)(low), \
                     (double)(high));                                                 \
        }                                                                             \
    } while (0)

/* ---- the bucket -------------------------------------------------------------------- */

/* Each step starts a slice at a time, and checks when the slice may start. The planned
 * rate is 1 MB/s, a byte each microsecond; a lane that measures its base has a quarter of
 * that. Starts are not moved. A step of 0 bytes only checks the time. */
static void test_bucket(void **state)
{
    static const struct {
        const char *name;
        uint64_t at_us, bytes;
        enum urgency_class kind;
        uint64_t next_us; /* earliest start before the slice of this step starts */
    } steps[] = {
        {"the first slice starts at once", 0, 65536, URGENCY_TRAINING, 0},
        {"its bytes become a debt", 0, 0, URGENCY_TRAINING, 4 * 65536},
        {"the rate pays the debt", 200000, 0, URGENCY_TRAINING, 4 * 65536},
        {"then one slice starts", 4 * 65536 + 1, 4096, URGENCY_TRAINING, 4 * 65536 + 1},
        {"a small one costs less", 4 * 65536 + 1, 0, URGENCY_TRAINING, 4 * 69632},
        {"a long pause fills the bucket", 10000000, 131071, URGENCY_TRAINING, 10000000},
        {"a full bucket holds one burst", 10000000, 1 << 20, URGENCY_TRAINING, 10000000},
        {"a slice larger than the burst adds debt", 10000000, 0, URGENCY_TRAINING,
         10000000 + 4 * (1 << 20)},
        {"background", 20000000, 131072, URGENCY_BACKGROUND, 20000000},
        {"costs a nineteenth more", 20000000, 0, URGENCY_BACKGROUND,
         20000000 + 4 * 131072 / 19 + 4},
    };
    struct pace pace;
    uint64_t begin_ns = 60 * NS_PER_S;
    (void)state;
    pace_init(&pace, &(struct pace_plan){.bytes_per_s = 1000000});
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        uint64_t now_ns = begin_ns + steps[i].at_us * NS_PER_US;
        uint64_t next_ns = pace_start_ns(&pace, now_ns) - begin_ns;
        expect_within((double)next_ns / 1e3, (double)steps[i].next_us - 1,
                      (double)steps[i].next_us + 9, "%s\n", steps[i].name);
        if (!steps[i].bytes)
            continue;
        pace_started(&pace, now_ns, 0, steps[i].bytes, UINT64_MAX, steps[i].kind);
        pace.least_tokens = 1;
    }
}

/* A slice costs four times its bytes if its class has a quarter of the lane's rate in the
 * plan. */
static void test_classes(void **state)
{
    struct pace pace;
    pace_init(&pace, &(struct pace_plan){.bytes_per_s = 4000000});
    pace_started(&pace, NS_PER_S, 0, 10000, 4000000, URGENCY_TRAINING);
    assert_in_range((uint64_t)-pace.tokens, 9998, 10000);
    pace_started(&pace, NS_PER_S, 0, 10000, 1000000, URGENCY_TRAINING);
    assert_in_range((uint64_t)-pace.tokens, 49998, 50000);
}

/* Starts are moved by up to half a slice; the mean rate does not change. */
static void test_moved(void **state)
{
    struct pace pace;
    uint64_t now_ns = 60 * NS_PER_S, begin_ns = now_ns, bytes = 0;
    double moved = 0;
    (void)state;
    pace_init(&pace, &(struct pace_plan){.bytes_per_s = 4000000, .seed = 5});
    for (int i = 0; i < 1000; i++, bytes += 65536) {
        now_ns = pace_start_ns(&pace, now_ns);
        pace_started(&pace, now_ns, bytes, 65536, UINT64_MAX, URGENCY_TRAINING);
        assert_true(pace.least_tokens >= 1 && pace.least_tokens <= 1 + 32768);
        moved += pace.least_tokens / 32768 / 1000;
    }
    expect_within(moved, 0.45, 0.55, "the mean move\n");
    expect_within((double)bytes / (double)(now_ns - begin_ns) * 1e3, 0.995, 1.005,
                  "rate\n");
}

static void test_is_off(void **state)
{
    struct pace pace;
    (void)state;
    memset(&pace, 0, sizeof pace);
    assert_false(pace_is_on(&pace));
    pace_init(&pace, &(struct pace_plan){.bytes_per_s = 1});
    assert_true(pace_is_on(&pace));
    pace_init(&pace, &(struct pace_plan){0});
    assert_false(pace_is_on(&pace));
}

/* ---- a link ------------------------------------------------------------------------ */

static const double shares_of[][EDGES_MAX] = {{1},
                                              {0.5, 0.5},
                                              {0.7, 0.3},
                                              {0.25, 0.25, 0.25, 0.25},
                                              {0.7, 0.1, 0.1, 0.1},
                                              {0.4, 0.3, 0.2, 0.1}};

/* Times of the DONEs: in time, up to a millisecond late at random, or not read for 4 ms
 * of each 30. */
enum dones { PROMPT, LATE, STALLING, DONES };

static void link_begin(double bytes_per_s, double wrong, size_t shares, enum dones dones,
                       uint32_t seed)
{
    begin(bytes_per_s, 200 * NS_PER_US, bytes_per_s > 1e8 ? 128 << 10 : 64 << 10);
    n.seed = seed;
    n.late_ns = dones == LATE ? NS_PER_MS : 0;
    n.stall_every_ns = dones == STALLING ? 30 * NS_PER_MS : 0;
    n.stall_ns = 4 * NS_PER_MS;
    for (int i = 0; i < EDGES_MAX && shares_of[shares][i] > 0; i++)
        edge_add(shares_of[shares][i], bytes_per_s * wrong, 0);
}

/* The graph is right, 30 % too high or 30 % too low, for one to four edges with equal and
 * unequal shares, at 400 Mbit/s. After a second the link is full, its queue is bounded,
 * and each edge has its share. */
static void test_link(void **state)
{
    static const double wrongs[] = {1, 1.3, 0.7};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrongs) * COUNT_OF(shares_of) * DONES * 4; i++) {
        size_t shares = i % COUNT_OF(shares_of);
        size_t wrong = i / COUNT_OF(shares_of) % COUNT_OF(wrongs);
        enum dones dones = i / COUNT_OF(shares_of) / COUNT_OF(wrongs) % DONES;
        link_begin(50e6, wrongs[wrong], shares, dones, (uint32_t)i);
        run(NS_PER_S);
        mark();
        run(2 * NS_PER_S);
        expect_within(link_speed(0) / 50e6, 0.97, 1.01,
                      "graph %g, shares %zu, dones %d, seed %zu\n", wrongs[wrong], shares,
                      (int)dones, i);
        expect_within(slowest(), 0.8, 1.01, "graph %g, shares %zu, dones %d, seed %zu\n",
                      wrongs[wrong], shares, (int)dones, i);
        expect_within(n.queue_high_bytes[0], 0, 640 << 10, "graph %g, shares %zu\n",
                      wrongs[wrong], shares);
    }
}

/* Slices of other sizes: those that a peer cuts before the pace reaches that peer, and
 * the small ones of a plan. */
static void test_slices(void **state)
{
    static const uint64_t slices[] = {16 << 10, 32 << 10, 128 << 10, 256 << 10};
    static const double wrongs[] = {1, 1.3, 0.7};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(slices) * COUNT_OF(wrongs) * COUNT_OF(shares_of);
         i++) {
        double wrong = wrongs[i % COUNT_OF(wrongs)];
        size_t shares = i / COUNT_OF(wrongs) % COUNT_OF(shares_of);
        link_begin(50e6, wrong, shares, LATE, 1);
        n.slice_bytes = slices[i / COUNT_OF(wrongs) / COUNT_OF(shares_of)];
        run(2 * NS_PER_S);
        mark();
        run(2 * NS_PER_S);
        expect_within(link_speed(0) / 50e6, 0.97, 1.01,
                      "slices %zu, graph %g, shares %zu\n", (size_t)n.slice_bytes, wrong,
                      shares);
        expect_within(slowest(), 0.75, 1.01, "slices %zu, graph %g, shares %zu\n",
                      (size_t)n.slice_bytes, wrong, shares);
    }
}

/* Slow and fast links, from 100 Mbit/s to 10 Gbit/s, and a graph with a larger error. */
static void test_rates(void **state)
{
    static const double rates[] = {12.5e6, 1.25e8, 1.25e9};
    static const double wrongs[] = {0.6, 0.7, 1, 1.3, 1.6};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rates) * COUNT_OF(wrongs) * COUNT_OF(shares_of);
         i++) {
        double rate = rates[i % COUNT_OF(rates)];
        double wrong = wrongs[i / COUNT_OF(rates) % COUNT_OF(wrongs)];
        size_t shares = i / COUNT_OF(rates) / COUNT_OF(wrongs);
        link_begin(rate, wrong, shares, PROMPT, 1);
        run(2 * NS_PER_S);
        mark();
        run(2 * NS_PER_S);
        expect_within(link_speed(0) / rate, 0.97, 1.01, "rate %g, graph %g, shares %zu\n",
                      rate, wrong, shares);
    }
}

/* Over many cases the mean keeps the plan's proportions to 5 %: in the worst case one
 * edge measured its base behind the others. */
static void test_proportions(void **state)
{
    double sum = 0;
    (void)state;
    for (uint32_t seed = 0; seed < 60; seed++) {
        link_begin(50e6, seed % 2 ? 1.3 : 1, 1 + seed % 5, seed % DONES, seed);
        run(NS_PER_S);
        mark();
        run(2 * NS_PER_S);
        sum += slowest() / 60;
    }
    expect_within(sum, 0.95, 1, "the slowest edge over its due, in the mean\n");
}

/* An edge behind a slow receiver does not reduce the share of the others. */
static void test_elsewhere(void **state)
{
    (void)state;
    begin(50e6, 200 * NS_PER_US, 64 << 10);
    n.bytes_per_s[1] = 5e6; /* the graph has 15e6 */
    edge_add(0.6, 50e6, 0);
    edge_add(0.4, 50e6, 0);
    edge_add(1, 15e6, 1);
    run(NS_PER_S);
    mark();
    run(2 * NS_PER_S);
    expect_within(link_speed(0) / 50e6, 0.97, 1.01, "the others\n");
    expect_within(link_speed(1) / 5e6, 0.97, 1.01, "behind the slow receiver\n");
}

/* Other traffic takes half of the link and then ends: the edges follow within half a
 * second. */
static void test_changes(void **state)
{
    (void)state;
    link_begin(50e6, 1, 5, PROMPT, 1);
    run(2 * NS_PER_S);
    for (int i = 0; i < 2; i++) {
        n.bytes_per_s[0] = i ? 50e6 : 25e6;
        run(NS_PER_S / 2);
        mark();
        run(NS_PER_S);
        expect_within(link_speed(0) / n.bytes_per_s[0], 0.97, 1.01, "change %d\n", i);
        expect_within(n.queue_high_bytes[0], 0, 900 << 10, "change %d\n", i);
    }
}

/* A new route has a longer round trip, which becomes the base after two ages. A peer
 * whose thread is late by the time of several slices lowers the rate only as long as it
 * is late. */
static void test_longer(void **state)
{
    (void)state;
    link_begin(50e6, 1, 1, PROMPT, 1);
    run(NS_PER_S);
    n.trip_ns += 10 * NS_PER_MS;
    run(2 * PACE_AGE_NS);
    mark();
    run(NS_PER_S);
    expect_within(link_speed(0) / 50e6, 0.97, 1.01, "after two ages\n");
    n.stall_every_ns = 200 * NS_PER_MS;
    n.stall_ns = 150 * NS_PER_MS;
    run(NS_PER_S);
    n.stall_every_ns = 0;
    run(NS_PER_S / 2);
    mark();
    run(NS_PER_S);
    expect_within(link_speed(0) / 50e6, 0.97, 1.01, "after the stalls\n");
}

/* An edge that sends less than its share does not lower its estimate, and reaches its
 * share when it sends more; the same after a minute at full load. */
static void test_little(void **state)
{
    (void)state;
    link_begin(50e6, 1, 1, PROMPT, 1);
    for (int i = 0; i < 100; i++) {
        n.edges[0].idle_until_ns = n.now_ns + 15 * NS_PER_MS;
        run(20 * NS_PER_MS);
    }
    mark();
    run(60 * NS_PER_S);
    expect_within(link_speed(0) / 50e6, 0.97, 1.01, "both\n");
    expect_within(slowest(), 0.8, 1.01, "the slower\n");
    expect_within(n.queue_high_bytes[0], 0, 640 << 10, "a minute\n");
}

/* A base counts in its age and in the next one. After a longer pause the lane has none.
 * */
static void test_ages(void **state)
{
    for (uint64_t ages = 1; ages <= 2; ages++) {
        struct pace pace;
        uint64_t now_ns = 3 * PACE_AGE_NS;
        pace_init(&pace, &(struct pace_plan){.bytes_per_s = 50000000});
        pace_started(&pace, now_ns, 0, 65536, UINT64_MAX, URGENCY_TRAINING);
        assert_true(pace_credited(&pace, now_ns + 5 * NS_PER_MS, 65536));
        assert_int_not_equal(pace_trip_ns(&pace), 0);
        pace_started(&pace, now_ns + ages * PACE_AGE_NS, 65536, 65536, UINT64_MAX,
                     URGENCY_TRAINING);
        assert_int_equal(pace_trip_ns(&pace) != 0, ages == 1);
    }
}

/* A dropped measurement leaves the estimate as it was; the next slice is measured. */
static void test_forgets(void **state)
{
    struct pace pace;
    (void)state;
    pace_init(&pace, &(struct pace_plan){.bytes_per_s = 50000000});
    pace_started(&pace, NS_PER_S, 0, 65536, UINT64_MAX, URGENCY_TRAINING);
    pace_forget(&pace);
    assert_false(pace_credited(&pace, 9 * NS_PER_S, 65536));
    assert_int_equal(pace_trip_ns(&pace), 0);
    pace_started(&pace, 9 * NS_PER_S, 65536, 65536, UINT64_MAX, URGENCY_TRAINING);
    assert_false(pace_credited(&pace, 9 * NS_PER_S + NS_PER_MS, 131071));
    assert_true(pace_credited(&pace, 9 * NS_PER_S + 2 * NS_PER_MS, 131072));
    assert_true(pace_trip_ns(&pace) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket),      cmocka_unit_test(test_classes),
        cmocka_unit_test(test_moved),       cmocka_unit_test(test_is_off),
        cmocka_unit_test(test_link),        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_proportions), cmocka_unit_test(test_elsewhere),
        cmocka_unit_test(test_changes),     cmocka_unit_test(test_longer),
        cmocka_unit_test(test_little),      cmocka_unit_test(test_forgets),
        cmocka_unit_test(test_slices),      cmocka_unit_test(test_ages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
