/* SPDX-License-Identifier: Apache-2.0 */
/* tryst_profile_merge: a merged step computed by hand; bounds of random steps; refusals;
 * failing allocations. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "core/text/text.h"
#include "profile_check.h"
#include "tryst/profile.h"
#include "tryst/topo.h"
#include "tryst/tryst.h"

static tryst_profile *parse(const char *text)
{
    tryst_profile *profile;
    if (tryst_profile_parse(text, strlen(text), "p", &profile) != TRYST_OK)
        fail_msg("%s\n%s", tryst_last_error(), text);
    return profile;
}

static double bound(tryst_profile *profile, double bytes_per_s)
{
    tryst_profile_params params = {.struct_size = sizeof params,
                                   .bytes_per_s = bytes_per_s};
    double seconds;
    assert_int_equal(tryst_profile_bound(profile, &params, &seconds), TRYST_OK);
    return seconds;
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
    tryst_profile *both[2] = {parse(ranks[0]), parse(ranks[1])}, *merged;
    assert_int_equal(tryst_profile_merge(both, 2, &merged), TRYST_OK);
    assert_int_equal(tryst_profile_nodes(merged), 6);
    check(merged, 0, "all ranks;action 0", 2, "");
    check(merged, 1, "a", 10, "all ranks;action 0");
    check(merged, 2, "all ranks;action 1", 2, "all ranks;action 0");
    check(merged, 3, "b", 20, "all ranks;action 1");
    check(merged, 4, "all ranks;action 2", 3, "all ranks;action 1,b");
    check(merged, 5, "all ranks;action 3", 4, "all ranks;action 2,a");
    near(bound(merged, 1e18), 11);
    tryst_profile_close(merged);
    for (int i = 0; i < 2; i++)
        tryst_profile_close(both[i]);
}

/* ---- at random --------------------------------------------------------------------- */

enum { LAYERS_MAX = 6, ROUNDS = 2000 };

static unsigned draw(struct random *random, unsigned below)
{
    return (unsigned)random_range(random, below);
}

/* Draw the durations of `layers` layers; their bytes are given. */
static tryst_profile *chain_draw(struct random *random, unsigned layers,
                                 const unsigned *bytes)
{
    char text[4096] = "";
    size_t used = text_append(text, sizeof text, "{\"tryst_profile\":1,\"nodes\":[");
    for (unsigned i = layers; i-- > 0;) {
        used = text_append(text, sizeof text, "{\"name\":\"b%u\",\"seconds\":%u.5", i,
                           draw(random, 5));
        if (i + 1 < layers)
            used = text_append(text, sizeof text, ",\"after\":[\"b%u\"]", i + 1);
        used = text_append(text, sizeof text,
                           "},{\"name\":\"g%u\",\"bytes\":%u,\"after\":[\"b%u\"]},", i,
                           bytes[i], i);
    }
    for (unsigned i = 0; i < layers; i++)
        used = text_append(text, sizeof text,
                           "%s{\"name\":\"f%u\",\"seconds\":%u.25,\"after\":[\"%c%u\","
                           "\"g%u\"]}",
                           i ? "," : "", i, draw(random, 5), i ? 'f' : 'b', i ? i - 1 : 0,
                           i);
    used = text_append(text, sizeof text, "]}");
    assert_true(used < sizeof text);
    return parse(text);
}

/* The merged step of one rank has its bound at every rate; that of two has no smaller
 * bound than each, and its bound is the time under preempt. */
static void bounds(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < ROUNDS; round++) {
        unsigned layers = 1 + draw(&random, LAYERS_MAX), bytes[LAYERS_MAX];
        tryst_profile *both[2], *merged;
        double rate = 1 + draw(&random, 20), each[2];
        tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
        tryst_profile_params params = {.struct_size = sizeof params,
                                       .bytes_per_s = rate,
                                       .order = TRYST_PROFILE_PREEMPT};
        for (unsigned i = 0; i < layers; i++)
            bytes[i] = draw(&random, 30);
        for (int rank = 0; rank < 2; rank++) {
            both[rank] = chain_draw(&random, layers, bytes);
            each[rank] = bound(both[rank], rate);
            assert_int_equal(tryst_profile_merge(&both[rank], 1, &merged), TRYST_OK);
            near(bound(merged, rate), each[rank]);
            tryst_profile_close(merged);
        }
        assert_int_equal(tryst_profile_merge(both, 2, &merged), TRYST_OK);
        double together = bound(merged, rate);
        assert_true(together > each[0] - 1e-9 && together > each[1] - 1e-9);
        assert_int_equal(tryst_profile_replay(merged, &params, &replayed), TRYST_OK);
        near(replayed.seconds, together);
        tryst_profile_close(merged);
        for (int rank = 0; rank < 2; rank++)
            tryst_profile_close(both[rank]);
    }
}

/* ---- refusals ---------------------------------------------------------------------- */

#define NODES(text) "{\"tryst_profile\":1,\"nodes\":[" text "]}"

static void refusals(void **state)
{
    tryst_profile *both[2] = {
        parse(ranks[0]),
        parse(NODES("{\"name\":\"a\",\"bytes\":10},{\"name\":\"b\",\"bytes\":21}"))};
    tryst_profile *none = NULL, *merged = NULL;
    assert_int_equal(tryst_profile_merge(both, 2, &merged), TRYST_E_INVALID);
    assert_null(merged);
    assert_non_null(
        strstr(tryst_last_error(), "\"b\" has 20 bytes in one, and 21 in another one"));
    assert_int_equal(tryst_profile_merge(both, 0, &merged), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_merge(NULL, 1, &merged), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_merge(both, 1, NULL), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_merge(&none, 1, &merged), TRYST_E_INVALID);
    tryst_profile_close(both[0]);
    tryst_profile_close(both[1]);
}

/* Merge two recorded profiles; the origin of the result, or why there is none. */
static void origins_merge(const char *first, const char *second, const char *refusal)
{
    tryst_profile *both[2], *merged = NULL;
    const char *texts[] = {first, second}, *names[] = {"one", "other"};
    tryst_profile_origin origin = {.struct_size = sizeof origin};
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            tryst_profile_parse(texts[i], strlen(texts[i]), names[i], &both[i]),
            TRYST_OK);
    tryst_status status = tryst_profile_merge(both, 2, &merged);
    assert_int_equal(status, refusal ? TRYST_E_INVALID : TRYST_OK);
    if (refusal && !strstr(tryst_last_error(), refusal))
        fail_msg("not \"%s\": %s", refusal, tryst_last_error());
    if (!refusal) {
        assert_int_equal(tryst_profile_origin_get(merged, &origin), TRYST_OK);
        assert_true(origin.run == 0xff && origin.rank == -1 && origin.size == 2);
    }
    tryst_profile_close(merged);
    tryst_profile_close(both[0]);
    tryst_profile_close(both[1]);
}

#define RECORDED(run, rank, size)                                           \
    "{\"tryst_profile\":2,\"run\":\"00000000000000" run "\",\"rank\":" rank \
    ",\"size\":" size ",\"nodes\":[{\"name\":\"a\",\"bytes\":1}]}"

/* Of recorded profiles, those of all ranks of one run, in any order. */
static void origins(void **state)
{
    static const char zero[] = RECORDED("ff", "0", "2");
    (void)state;
    origins_merge(RECORDED("ff", "1", "2"), zero, NULL);
    origins_merge(
        zero, RECORDED("fe", "1", "2"),
        "cannot merge other (rank 1 of 2) with one (rank 0 of 2): the files are "
        "of two runs");
    origins_merge(zero, RECORDED("ff", "1", "3"), "of two runs");
    origins_merge(zero, zero, "cannot merge other with one: both are of rank 0");
    origins_merge(NODES("{\"name\":\"a\",\"bytes\":1}"), zero, "one has no \"run\"");
    origins_merge(RECORDED("ff", "0", "3"), RECORDED("ff", "2", "3"),
                  "one is of a run of 3 ranks, and the profile of rank 1 is missing");
}

/* Operations of some ranks, as those of subgroups. */
static void some_ranks(void **state)
{
    tryst_profile *both[2] = {
        parse(NODES("{\"name\":\"1\",\"seconds\":2},"
                    "{\"name\":\"b\",\"bytes\":1,\"after\":[\"1\"]}")),
        parse(NODES("{\"name\":\"a\",\"bytes\":5},"
                    "{\"name\":\"1\",\"seconds\":3,\"after\":[\"a\"]},"
                    "{\"name\":\"c\",\"bytes\":6,\"after\":[\"1\"]}"))};
    tryst_profile *merged;
    assert_int_equal(tryst_profile_merge(both, 2, &merged), TRYST_OK);
    assert_int_equal(tryst_profile_nodes(merged), 5);
    check(merged, 0, "a", 5, "");
    check(merged, 1, "all ranks;action 0", 2, "a");
    check(merged, 2, "b", 1, "all ranks;action 0");
    check(merged, 3, "all ranks;action 1", 1, "all ranks;action 0");
    check(merged, 4, "c", 6, "all ranks;action 1");
    tryst_profile_close(merged);
    for (int i = 0; i < 2; i++)
        tryst_profile_close(both[i]);
}

/* Without operations the merged step is the computation alone; without nodes it is
 * empty. */
static void empty(void **state)
{
    tryst_profile *profile = parse(NODES("{\"name\":\"c\",\"seconds\":3}")), *merged;
    assert_int_equal(tryst_profile_merge(&profile, 1, &merged), TRYST_OK);
    assert_int_equal(tryst_profile_nodes(merged), 1);
    check(merged, 0, "all ranks;action 0", 3, "");
    tryst_profile_close(merged);
    tryst_profile_close(profile);
    profile = parse(NODES(""));
    assert_int_equal(tryst_profile_merge(&profile, 1, &merged), TRYST_OK);
    assert_int_equal(tryst_profile_nodes(merged), 0);
    tryst_profile_close(merged);
    tryst_profile_close(profile);
}

static void memory_may_fail(void **state)
{
    tryst_profile *both[2] = {parse(ranks[0]), parse(ranks[1])};
    bool came_to_pass = true;
    bound(both[0], 1); /* from here on their room has its size */
    bound(both[1], 1);
    for (uint64_t nth = 1; came_to_pass; nth++) {
        tryst_profile *merged = NULL;
        uint64_t before = alloc_live_count();
        alloc_fail_at(nth);
        tryst_status status = tryst_profile_merge(both, 2, &merged);
        came_to_pass = alloc_fail_off();
        assert_int_equal(status, came_to_pass ? TRYST_E_NOMEM : TRYST_OK);
        tryst_profile_close(merged);
        if (came_to_pass) /* a profile has no oracle after a failure */
            for (int i = 0; i < 2; i++)
                bound(both[i], 1);
        assert_int_equal(alloc_live_count(), before);
    }
    for (int i = 0; i < 2; i++)
        tryst_profile_close(both[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),         cmocka_unit_test(bounds),
        cmocka_unit_test(refusals),        cmocka_unit_test(origins),
        cmocka_unit_test(empty),           cmocka_unit_test(some_ranks),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
