/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of trees over a simulated network: random trees, several collectives at
 * once, one buffer of scratch per rank, and all possible events in random order. Results
 * must have the bits of a serial fold, and every run must end. If any single rule is
 * broken, some seed must fail. */
#include <string.h>

#include "collectives/tree/lead.h"
#include "core/os/random.h"
#include "support/unit.h"

enum { RANKS_MAX = 6, TREES = 2, COLLS = 3, SLICES_MAX = 7, PARTS = COLLS * TREES };
enum { SEEDS = 400, EVENTS_MAX = 1024, TURNS_MAX = 100000 };

enum rule {
    RULES_ALL,
    GRANT_IN_ORDER,    /* a grant for a child waits for the grant of the child before */
    GRANT_ANNOUNCED,   /* only slices that the child has announced are granted */
    ADD_IN_ORDER,      /* the slice of the child before is added first */
    ADD_WHEN_LANDED,   /* a slice is added only after its bytes have landed */
    PLACE_BEHIND_SENT, /* a result is not placed over sums that are still being sent */
    FINISH_FIRST,      /* a slice descends only after the root has finished it */
    FETCH_FIRST,       /* a term is added or sent only once it is in host memory */
    LEAD_LEAST,        /* the slice that the last tree passes on next may be granted */
    RULES
};

/* One direction of an edge: slices [0, posted) may arrive, of which `moving` are in
 * flight. */
struct wire {
    uint32_t posted, moved, slices_announced;
    /* moving and landed: a bit for each slice; sent: number of slices */
    uint32_t moving, landed, sent;
    float read[SLICES_MAX]; /* values that the transport has read from memory */
};

struct part {
    struct coll_tree tree;
    struct coll_child children[RANKS_MAX];
    uint64_t bits[1];
    int parent, child_ranks[RANKS_MAX];
    uint32_t child_at;        /* index of this rank among the parent's children */
    float device[SLICES_MAX]; /* this rank's term; `own`, once it is fetched */
    uint32_t fetched;
    float own[SLICES_MAX], sums[SLICES_MAX], separate[SLICES_MAX], *result;
    struct wire up, down; /* edge to the parent, edge from the parent */
};

static struct {
    uint64_t random;
    enum rule broken;
    int ranks;
    /* buffers of scratch: limit and lent buffers by rank */
    uint32_t buffers_max, buffers[RANKS_MAX];
    bool scales, finishes, in_place;
    uint32_t ahead; /* of all leads */
    struct coll_lead leads[RANKS_MAX][COLLS];
    struct part parts[RANKS_MAX][PARTS];
    float memory[RANKS_MAX][64];
    uint64_t memory_used[RANKS_MAX]; /* bitmap of used memory by rank */
    bool overwritten;
} w;

struct event {
    void (*run)(int rank, int part, uint32_t arg);
    int rank, part;
    uint32_t arg;
};
static struct event events[EVENTS_MAX];
static size_t events_count;

static uint32_t draw(uint32_t below)
{
    w.random = w.random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((w.random >> 33) % below);
}

/* ---- the simulated network --------------------------------------------------------- */

static void tree_make(int part)
{
    int order[RANKS_MAX];
    for (int i = 0; i < w.ranks; i++) {
        int at = (int)draw((uint32_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    uint32_t slices = 1 + draw(SLICES_MAX);
    for (int i = 0; i < w.ranks; i++)
        memset(&w.parts[i][part], 0, sizeof w.parts[i][part]);
    for (int i = 0; i < w.ranks; i++) {
        struct part *p = &w.parts[order[i]][part];
        p->parent = i ? order[draw((uint32_t)i)] : -1;
        p->tree.slices = slices;
        p->tree.children = p->children;
        p->tree.arrived_bits = i ? p->bits : NULL;
        p->tree.is_root = !i;
        p->fetched = draw(2) ? slices : 0;
        for (uint32_t s = 0; s < slices; s++) {
            p->device[s] =
                (float)draw(1000000) / 7.0f - 70000.0f / (float)(1 + draw(1000));
            p->own[s] = p->fetched ? p->device[s] : -1e20f;
        }
        if (i) {
            struct part *up = &w.parts[p->parent][part];
            p->child_at = up->tree.children_count;
            up->child_ranks[up->tree.children_count++] = order[i];
        }
    }
    for (int i = 0; i < w.ranks; i++) {
        struct part *p = &w.parts[i][part];
        bool leaf = !p->tree.children_count;
        p->tree.owns = leaf && (w.scales || p->tree.is_root);
        p->tree.finishes = p->tree.is_root && w.finishes;
        bool from_sums = !leaf || p->tree.owns;
        p->result = from_sums ? p->sums : w.in_place ? p->own : p->separate;
        p->tree.reuses = p->parent >= 0 && (from_sums || w.in_place);
        p->tree.fetched = w.broken == FETCH_FIRST ? slices : p->fetched;
        coll_tree_reset(&p->tree);
    }
}

/* Part p is tree p % TREES of collective p / TREES. */
static void leads_make(void)
{
    for (int rank = 0; rank < w.ranks; rank++) {
        for (int part = 0; part < PARTS; part++) {
            struct coll_lead *lead = &w.leads[rank][part / TREES];
            struct coll_tree *tree = &w.parts[rank][part].tree;
            lead->ahead = w.ahead;
            tree->next = lead->first;
            if (w.ranks > 1)
                lead->first = tree;
        }
        for (int coll = 0; coll < COLLS; coll++)
            coll_lead_begin(&w.leads[rank][coll]);
    }
}

static void world_make(uint64_t seed, enum rule broken)
{
    memset(&w, 0, sizeof w);
    w.random = seed * 2654435761u + 1;
    w.broken = broken;
    w.ranks = 1 + (int)draw(RANKS_MAX);
    w.buffers_max = broken == ADD_IN_ORDER ? 64 : 1 + draw(3) / 2;
    w.scales = draw(2);
    w.finishes = draw(2);
    w.in_place = draw(2);
    w.ahead = broken == LEAD_LEAST ? 0 : draw(3) ? 1 + draw(SLICES_MAX) : UINT32_MAX;
    for (int part = 0; part < PARTS; part++)
        tree_make(part);
    leads_make();
}

static const float *sent_from(const struct part *p)
{
    return p->tree.children_count || p->tree.owns ? p->sums : p->own;
}

static float scaled(float own)
{
    return w.scales ? own * 0.37f : own;
}

/* ---- possible events --------------------------------------------------------------- */

static void announced_update(int rank, int part, uint32_t child)
{
    struct part *p = &w.parts[rank][part];
    p->children[child].slices_announced =
        coll_tree_ready_up(&w.parts[p->child_ranks[child]][part].tree);
}

static float *buffer_get(int rank)
{
    uint32_t at = 0;
    while (w.memory_used[rank] >> at & 1)
        at++;
    w.memory_used[rank] |= UINT64_C(1) << at;
    w.buffers[rank]++;
    return &w.memory[rank][at];
}

static void buffer_put(int rank, const float *buffer)
{
    w.memory_used[rank] &= ~(UINT64_C(1) << (buffer - w.memory[rank]));
    w.buffers[rank]--;
}

static void grant_run(int rank, int part, uint32_t child)
{
    struct part *p = &w.parts[rank][part];
    struct coll_child *from = &p->children[child];
    from->buffers[from->granted % COLL_GRANTS_MAX] = buffer_get(rank);
    from->granted++;
    w.parts[p->child_ranks[child]][part].up.posted++;
}

static void up_start_run(int rank, int part, uint32_t index)
{
    struct wire *up = &w.parts[rank][part].up;
    up->moving |= 1u << index;
    up->moved++;
}

static void up_land_run(int rank, int part, uint32_t index)
{
    struct part *p = &w.parts[rank][part];
    struct part *to = &w.parts[p->parent][part];
    struct coll_child *child = &to->children[p->child_at];
    p->up.moving &= ~(1u << index);
    p->up.landed |= 1u << index;
    p->up.read[index] = sent_from(p)[index];
    if (index >= child->added && index < child->granted) {
        *(float *)child->buffers[index % COLL_GRANTS_MAX] = p->up.read[index];
        coll_tree_landed(&to->tree, p->child_at, index);
    }
}

static void up_sent_run(int rank, int part, uint32_t index)
{
    struct part *p = &w.parts[rank][part];
    /* the comparison works, because no value is NaN */
    w.overwritten |= p->up.read[index] != sent_from(p)[index];
    p->up.sent++;
    coll_tree_sent(&p->tree, index);
    (void)coll_lead_passed(&w.leads[rank][part / TREES], &p->tree);
}

static void work_run(int rank, int part, uint32_t broken_child)
{
    struct part *p = &w.parts[rank][part];
    struct coll_unit unit = {.work = COLL_ADD, .child = broken_child};
    if (broken_child == UINT32_MAX) {
        assert_true(coll_tree_next(&p->tree, &unit));
    } else {
        struct coll_child *from = &p->children[broken_child];
        unit.index = from->added;
        unit.buffer = from->buffers[from->added % COLL_GRANTS_MAX];
    }
    uint32_t i = unit.index;
    if (unit.work == COLL_OWN)
        p->sums[i] = scaled(p->own[i]);
    else if (unit.work == COLL_FINISH)
        p->sums[i] = p->sums[i] / 3.0f;
    else
        p->sums[i] =
            (unit.child ? p->sums[i] : scaled(p->own[i])) + *(float *)unit.buffer;
    if (unit.work == COLL_ADD)
        buffer_put(rank, unit.buffer);
    uint32_t passed = coll_tree_passed(&p->tree);
    coll_tree_advance(&p->tree, &unit);
    if (p->tree.is_root && coll_tree_passed(&p->tree) > passed)
        (void)coll_lead_passed(&w.leads[rank][part / TREES], &p->tree);
}

static void fetch_run(int rank, int part, uint32_t index)
{
    struct part *p = &w.parts[rank][part];
    p->own[index] = p->device[index];
    p->fetched++;
    if (w.broken != FETCH_FIRST)
        coll_tree_fetched(&p->tree, p->fetched);
}

static void place_run(int rank, int part, uint32_t arg)
{
    (void)arg;
    w.parts[rank][part].down.posted++;
}

static void down_start_run(int rank, int part, uint32_t index)
{
    struct wire *down = &w.parts[rank][part].down;
    down->moving |= 1u << index;
    down->moved++;
}

static void down_land_run(int rank, int part, uint32_t index)
{
    struct part *p = &w.parts[rank][part];
    p->down.moving &= ~(1u << index);
    p->result[index] = w.parts[p->parent][part].result[index];
    coll_tree_arrived(&p->tree, index);
}

static void event_add(void (*run)(int rank, int part, uint32_t arg), int rank, int part,
                      uint32_t arg)
{
    assert_true(events_count < EVENTS_MAX);
    events[events_count++] = (struct event){run, rank, part, arg};
}

static bool may_grant(const struct part *p, uint32_t child)
{
    const struct coll_child *from = &p->children[child];
    bool room = from->granted < p->tree.slices;
    if (w.broken == GRANT_IN_ORDER || w.broken == ADD_IN_ORDER)
        return room && from->granted < from->slices_announced;
    if (w.broken == GRANT_ANNOUNCED)
        return room &&
               from->granted < (child ? p->children[child - 1].added : p->tree.slices);
    return coll_tree_may_grant(&p->tree, child);
}

static void child_events(int rank, int part, uint32_t child)
{
    const struct part *p = &w.parts[rank][part];
    const struct coll_child *from = &p->children[child];
    if (from->slices_announced <
        coll_tree_ready_up(&w.parts[p->child_ranks[child]][part].tree))
        event_add(announced_update, rank, part, child);
    if (may_grant(p, child) && w.buffers[rank] < w.buffers_max)
        event_add(grant_run, rank, part, child);
    bool landed = from->landed >> from->added % COLL_GRANTS_MAX & 1;
    if ((w.broken == ADD_IN_ORDER && from->added < from->granted && landed) ||
        (w.broken == ADD_WHEN_LANDED && from->added < from->granted))
        event_add(work_run, rank, part, child);
}

static void wire_events(int rank, int part, const struct wire *wire, uint32_t ready,
                        void (*start)(int rank, int part, uint32_t arg),
                        void (*land)(int rank, int part, uint32_t arg))
{
    if (wire->moved < wire->posted && wire->moved < ready)
        event_add(start, rank, part, wire->moved);
    for (uint32_t i = 0; i < SLICES_MAX; i++)
        if (wire->moving >> i & 1)
            event_add(land, rank, part, i);
}

static void part_events(int rank, int part)
{
    struct part *p = &w.parts[rank][part];
    struct coll_unit unit;
    for (uint32_t c = 0; c < p->tree.children_count; c++)
        child_events(rank, part, c);
    if (coll_tree_next(&p->tree, &unit))
        event_add(work_run, rank, part, UINT32_MAX);
    if (p->fetched < p->tree.slices)
        event_add(fetch_run, rank, part, p->fetched);
    if (p->parent < 0)
        return;
    wire_events(rank, part, &p->up, coll_tree_ready_up(&p->tree), up_start_run,
                up_land_run);
    if (p->up.landed >> p->up.sent & 1 && p->up.sent < p->tree.slices)
        event_add(up_sent_run, rank, part, p->up.sent);
    struct coll_tree *from = &w.parts[p->parent][part].tree;
    if (p->down.posted < p->tree.slices &&
        (w.broken == PLACE_BEHIND_SENT || coll_tree_may_place(&p->tree, p->down.posted)))
        event_add(place_run, rank, part, 0);
    bool unfinished = w.broken == FINISH_FIRST && from->is_root;
    wire_events(rank, part, &p->down,
                unfinished ? coll_tree_ready_up(from) : coll_tree_ready_down(from),
                down_start_run, down_land_run);
}

/* ---- results ----------------------------------------------------------------------- */

static float fold(int rank, int part, uint32_t i)
{
    const struct part *p = &w.parts[rank][part];
    float sum = scaled(p->device[i]);
    for (uint32_t c = 0; c < p->tree.children_count; c++)
        sum = sum + fold(p->child_ranks[c], part, i);
    return sum;
}

static bool is_complete(void)
{
    for (int rank = 0; rank < w.ranks; rank++)
        for (int part = 0; part < PARTS; part++) {
            const struct part *p = &w.parts[rank][part];
            if (!coll_tree_is_done(&p->tree) ||
                (p->parent >= 0 &&
                 (p->tree.arrived < p->tree.slices || p->up.sent < p->tree.slices)))
                return false;
        }
    return true;
}

/* Run the network to its end. Return the fault, or NULL. */
static const char *world_run(void)
{
    static float wanted[PARTS][SLICES_MAX];
    for (int part = 0; part < PARTS; part++)
        for (int rank = 0; rank < w.ranks; rank++)
            for (uint32_t i = 0; i < w.parts[rank][part].tree.slices; i++)
                if (w.parts[rank][part].tree.is_root)
                    wanted[part][i] =
                        w.finishes ? fold(rank, part, i) / 3.0f : fold(rank, part, i);
    for (int turn = 0; turn < TURNS_MAX && !is_complete(); turn++) {
        events_count = 0;
        for (int rank = 0; rank < w.ranks; rank++)
            for (int part = 0; part < PARTS; part++)
                part_events(rank, part);
        if (!events_count)
            return "stuck";
        struct event *event = &events[draw((uint32_t)events_count)];
        event->run(event->rank, event->part, event->arg);
    }
    if (!is_complete())
        return "the run does not end";
    for (int rank = 0; rank < w.ranks; rank++)
        for (int part = 0; part < PARTS; part++)
            if (memcmp(w.parts[rank][part].result, wanted[part],
                       w.parts[rank][part].tree.slices * sizeof(float)) != 0)
                return "another result";
    return w.overwritten ? "sums were overwritten before they were sent" : NULL;
}

static void test_random_networks(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world_make(seed, RULES_ALL);
        const char *wrong = world_run();
        if (wrong)
            fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    }
}

static void test_each_rule_counts(void **state)
{
    for (enum rule rule = RULES_ALL + 1; rule < RULES; rule++) {
        uint64_t wrong = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            world_make(seed, rule);
            wrong += world_run() != NULL;
        }
        if (!wrong)
            fail_msg("rule %d is broken, but none of %d seeds fails", (int)rule, SEEDS);
    }
}

/* Each child is granted a slice as soon as the child before has a grant, long before any
 * slice has landed. (When a grant waited for the sum of the child before, a root of 63
 * children needed the time of 63 slices for the first sum.) */
static void test_grants_ahead(void **state)
{
    enum { CHILDREN = 3, SLICES = 2 };
    struct coll_child children[CHILDREN] = {{0}};
    struct coll_tree tree = {.slices = SLICES,
                             .fetched = SLICES,
                             .children_count = CHILDREN,
                             .children = children,
                             .limit = SLICES};
    coll_tree_reset(&tree);
    for (uint32_t c = 0; c < CHILDREN; c++)
        children[c].slices_announced = SLICES;
    assert_false(coll_tree_may_grant(&tree, 1));
    for (uint32_t c = 0; c < CHILDREN; c++) {
        assert_true(coll_tree_may_grant(&tree, c));
        coll_tree_grant(&tree, c, &tree);
    }
    assert_false(coll_tree_may_grant(&tree, CHILDREN - 1));
    coll_tree_landed(&tree, 1, 0);
    struct coll_unit unit;
    assert_false(coll_tree_next(&tree, &unit)); /* slices are still added in order */
}

/* A child has no more granted slices than it has buffers. */
static void test_grants_bounded(void **state)
{
    struct coll_child child = {0};
    struct coll_tree tree = {.slices = 2 * COLL_GRANTS_MAX,
                             .fetched = 2 * COLL_GRANTS_MAX,
                             .children_count = 1,
                             .children = &child,
                             .limit = UINT32_MAX};
    coll_tree_reset(&tree);
    child.slices_announced = tree.slices;
    for (int i = 0; i < COLL_GRANTS_MAX; i++) {
        assert_true(coll_tree_may_grant(&tree, 0));
        coll_tree_grant(&tree, 0, &tree);
    }
    assert_false(coll_tree_may_grant(&tree, 0));
    coll_tree_landed(&tree, 0, 0);
    coll_tree_advance(&tree, &(struct coll_unit){.work = COLL_ADD});
    assert_true(coll_tree_may_grant(&tree, 0));
}

/* No child gets scratch for a slice of which this rank's own term is not fetched: the
 * buffer would wait for the device. */
static void test_grants_behind_the_fetch(void **state)
{
    struct coll_child child = {0};
    struct coll_tree tree = {
        .slices = 2, .children_count = 1, .children = &child, .limit = 2};
    coll_tree_reset(&tree);
    child.slices_announced = 2;
    assert_false(coll_tree_may_grant(&tree, 0));
    assert_false(coll_tree_may_borrow(&tree, 0));
    coll_tree_fetched(&tree, 1);
    assert_true(coll_tree_may_grant(&tree, 0));
    coll_tree_grant(&tree, 0, &tree);
    assert_false(coll_tree_may_grant(&tree, 0));
    coll_tree_fetched(&tree, 2);
    assert_true(coll_tree_may_borrow(&tree, 0));
}

/* A slice that had landed before a reset is no slice of the next run. */
static void test_reset(void **state)
{
    struct coll_child child = {0};
    struct coll_tree tree = {
        .slices = 2, .fetched = 2, .children_count = 1, .children = &child, .limit = 2};
    struct coll_unit unit;
    for (int run = 0; run < 2; run++) {
        coll_tree_reset(&tree);
        child.slices_announced = tree.slices;
        coll_tree_grant(&tree, 0, &tree);
        assert_false(coll_tree_next(&tree, &unit));
        coll_tree_landed(&tree, 0, 0);
        assert_true(coll_tree_next(&tree, &unit));
    }
}

/* The tree that has passed on the fewest slices limits all trees, until it has
 * finished. */
static void test_lead(void **state)
{
    struct coll_tree trees[2] = {{.slices = 9, .next = &trees[1]}, {.slices = 2}};
    struct coll_lead lead = {.ahead = 3, .first = trees};
    coll_lead_begin(&lead);
    assert_int_equal(trees[0].limit, 3);
    coll_tree_sent(&trees[0], 0);
    assert_false(coll_lead_passed(&lead, &trees[0]));
    coll_tree_sent(&trees[0], 1);
    assert_false(coll_lead_passed(&lead, &trees[0]));
    coll_tree_sent(&trees[1], 0);
    assert_true(coll_lead_passed(&lead, &trees[1]));
    assert_int_equal(trees[0].limit, 4);
    coll_tree_sent(&trees[1], 1);
    assert_true(coll_lead_passed(&lead, &trees[1]));
    assert_int_equal(trees[0].limit, 5); /* the other tree alone */
    assert_int_equal(trees[1].limit, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_networks),
                                       cmocka_unit_test(test_each_rule_counts),
                                       cmocka_unit_test(test_grants_bounded),
                                       cmocka_unit_test(test_grants_behind_the_fetch),
                                       cmocka_unit_test(test_reset),
                                       cmocka_unit_test(test_grants_ahead),
                                       cmocka_unit_test(test_lead)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
