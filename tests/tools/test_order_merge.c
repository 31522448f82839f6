/* SPDX-License-Identifier: Apache-2.0 */
/* order_merge: a merged step computed by hand; bounds of random steps; operations of some
 * ranks. test_perf_sched.sh has the files that are refused. */
#include "order_check.h"

#include "tools/order/order_merge.h"
#include "tools/order/order_replay.h"

static double bound(const struct order_profile *profile, double bytes_per_s)
{
    return order_bound(profile, &(struct oracle_network){.bytes_per_s = bytes_per_s});
}

/* Merge the profiles, and close them. */
static struct order_profile *merge(struct order_profile *one, struct order_profile *other)
{
    struct order_profile *both[2] = {one, other};
    struct order_profile *merged = order_merge(both, other ? 2 : 1);
    order_profile_close(one);
    order_profile_close(other);
    return merged;
}

/* Check a node; `after` has the names that it comes after, separated by commas. */
static void check(const struct order_profile *profile, uint32_t index, const char *name,
                  double amount, const char *after)
{
    const struct order_node *node = &profile->nodes[index];
    char text[256] = "";
    assert_string_equal(node->name, name);
    near(node->is_operation ? (double)node->bytes : node->seconds, amount);
    for (uint32_t i = 0; i < node->after_count; i++) {
        strcat(text, i ? "," : "");
        strcat(text, profile->nodes[node->after[i]].name);
    }
    assert_string_equal(text, after);
}

/* Rank 0 has "a" ready at 2 of 10 s and needs it at 7, "b" at 3 and 3; rank 1 of 8 s has
 * "a" at 1 and 4, so 4 s are left, and "b" at 4 and 8. */
static const char *const ranks[] = {
    "{\"tryst_profile\":1,\"nodes\":["
    "{\"name\":\"1\",\"seconds\":2},{\"name\":\"a\",\"bytes\":10,\"after\":[\"1\"]},"
    "{\"name\":\"2\",\"seconds\":1,\"after\":[\"1\"]},"
    "{\"name\":\"b\",\"bytes\":20,\"after\":[\"2\"]},"
    "{\"name\":\"3\",\"seconds\":4,\"after\":[\"2\",\"b\"]},"
    "{\"name\":\"4\",\"seconds\":3,\"after\":[\"3\",\"a\"]}]}",
    "{\"tryst_profile\":1,\"nodes\":["
    "{\"name\":\"1\",\"seconds\":1},{\"name\":\"a\",\"bytes\":10,\"after\":[\"1\"]},"
    "{\"name\":\"2\",\"seconds\":3,\"after\":[\"1\"]},"
    "{\"name\":\"b\",\"bytes\":20,\"after\":[\"2\"]},"
    "{\"name\":\"3\",\"seconds\":4,\"after\":[\"2\",\"a\"]}]}"};

/* Heads: a 2, b 4. Tails: a 4 (rank 1), b 7 (rank 0). So 11 s, "b" is needed at 4, "a" at
 * 7. */
static void by_hand(void **state)
{
    struct order_profile *merged =
        merge(profile_parse(ranks[0]), profile_parse(ranks[1]));
    assert_int_equal(merged->count, 6);
    check(merged, 0, "all ranks;action 0", 2, "");
    check(merged, 1, "a", 10, "all ranks;action 0");
    check(merged, 2, "all ranks;action 1", 2, "all ranks;action 0");
    check(merged, 3, "b", 20, "all ranks;action 1");
    check(merged, 4, "all ranks;action 2", 3, "all ranks;action 1,b");
    check(merged, 5, "all ranks;action 3", 4, "all ranks;action 2,a");
    near(bound(merged, 1e18), 11);
    order_profile_close(merged);
}

/* ---- at random --------------------------------------------------------------------- */

enum { LAYERS_MAX = 6, ROUNDS = 2000 };

/* Draw the durations of `layers` layers; their bytes are given. */
static struct order_profile *chain_draw(uint64_t *seed, unsigned layers,
                                        const unsigned *bytes)
{
    char text[4096];
    size_t used = 0;
#define ADD(...) used += (size_t)snprintf(text + used, sizeof text - used, __VA_ARGS__)
    ADD("{\"tryst_profile\":1,\"nodes\":[");
    for (unsigned i = layers; i-- > 0;) {
        ADD("{\"name\":\"b%u\",\"seconds\":%u.5", i, drawn(seed, 5));
        if (i + 1 < layers)
            ADD(",\"after\":[\"b%u\"]", i + 1);
        ADD("},{\"name\":\"g%u\",\"bytes\":%u,\"after\":[\"b%u\"]},", i, bytes[i], i);
    }
    for (unsigned i = 0; i < layers; i++)
        ADD("%s{\"name\":\"f%u\",\"seconds\":%u.25,\"after\":[\"%c%u\",\"g%u\"]}",
            i ? "," : "", i, drawn(seed, 5), i ? 'f' : 'b', i ? i - 1 : 0, i);
    ADD("]}");
#undef ADD
    return profile_parse(text);
}

/* The merged step of one rank has its bound at every rate; that of two has no smaller
 * bound than each, and its bound is the time under preempt. */
static void bounds(void **state)
{
    uint64_t seed = unit_seed();
    for (int round = 0; round < ROUNDS; round++) {
        unsigned layers = 1 + drawn(&seed, LAYERS_MAX), bytes[LAYERS_MAX];
        struct order_params params = {.network = {.bytes_per_s = 1 + drawn(&seed, 20)}};
        double rate = params.network.bytes_per_s, each[2];
        struct order_profile *both[2], *merged;
        struct order_row row;
        for (unsigned i = 0; i < layers; i++)
            bytes[i] = drawn(&seed, 30);
        for (int rank = 0; rank < 2; rank++) {
            both[rank] = chain_draw(&seed, layers, bytes);
            each[rank] = bound(both[rank], rate);
            merged = order_merge(&both[rank], 1);
            near(bound(merged, rate), each[rank]);
            order_profile_close(merged);
        }
        merged = merge(both[0], both[1]);
        double together = bound(merged, rate);
        assert_true(together > each[0] - 1e-9 && together > each[1] - 1e-9);
        assert_true(order_replay(merged, &params, ORDER_PREEMPT, &row));
        near(row.seconds, together);
        order_row_free(&row);
        order_profile_close(merged);
    }
}

static void other_bytes(void **state)
{
    assert_null(merge(profile_parse(NODES("{\"name\":\"b\",\"bytes\":20}")),
                      profile_parse(NODES("{\"name\":\"b\",\"bytes\":21}"))));
}

/* Operations of some ranks, as those of subgroups. */
static void some_ranks(void **state)
{
    struct order_profile *merged =
        merge(profile_parse(NODES("{\"name\":\"1\",\"seconds\":2},"
                                  "{\"name\":\"b\",\"bytes\":1,\"after\":[\"1\"]}")),
              profile_parse(NODES("{\"name\":\"a\",\"bytes\":5},"
                                  "{\"name\":\"1\",\"seconds\":3,\"after\":[\"a\"]},"
                                  "{\"name\":\"c\",\"bytes\":6,\"after\":[\"1\"]}")));
    assert_int_equal(merged->count, 5);
    check(merged, 0, "a", 5, "");
    check(merged, 1, "all ranks;action 0", 2, "a");
    check(merged, 2, "b", 1, "all ranks;action 0");
    check(merged, 3, "all ranks;action 1", 1, "all ranks;action 0");
    check(merged, 4, "c", 6, "all ranks;action 1");
    order_profile_close(merged);
}

/* Without operations the merged step is the computation alone; without nodes it is
 * empty. */
static void empty(void **state)
{
    struct order_profile *merged =
        merge(profile_parse(NODES("{\"name\":\"c\",\"seconds\":3}")), NULL);
    assert_int_equal(merged->count, 1);
    check(merged, 0, "all ranks;action 0", 3, "");
    order_profile_close(merged);
    merged = merge(profile_parse(NODES("")), NULL);
    assert_int_equal(merged->count, 0);
    order_profile_close(merged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),     cmocka_unit_test(bounds),
        cmocka_unit_test(other_bytes), cmocka_unit_test(some_ranks),
        cmocka_unit_test(empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
