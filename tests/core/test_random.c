/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>

#include "core/os/random.h"

/* The first outputs of xoshiro256** from the state 1, 2, 3, 4, as its authors' code gives
 * them. */
static void it_is_the_published_generator(void **state)
{
    static const uint64_t published[] = {11520,
                                         0,
                                         1509978240,
                                         1215971899390074240,
                                         1216172134540287360,
                                         607988272756665600,
                                         UINT64_C(16172922978634559625),
                                         8476171486693032832,
                                         UINT64_C(10595114339597558777),
                                         2904607092377533576};
    struct random random = {.state = {1, 2, 3, 4}};
    for (size_t i = 0; i < COUNT_OF(published); i++)
        assert_true(random_u64(&random) == published[i]);
}

/* The first outputs of splitmix64 from 1234567, which fill the state. */
static void a_seed_fills_the_state_by_splitmix(void **state)
{
    static const uint64_t published[] = {6457827717110365317, 3203168211198807973,
                                         UINT64_C(9817491932198370423),
                                         4593380528125082431};
    struct random random;
    random_seed(&random, 1234567);
    for (size_t i = 0; i < COUNT_OF(published); i++)
        assert_true(random.state[i] == published[i]);
}

static void one_seed_gives_one_stream(void **state)
{
    struct random a, b, c;
    random_seed(&a, 7);
    random_seed(&b, 7);
    random_seed(&c, 8);
    int equal = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = random_u64(&a);
        assert_true(x == random_u64(&b));
        equal += x == random_u64(&c);
    }
    assert_int_equal(equal, 0);
}

/* 60,000 throws of a die: each face within 4.5 sigma (sigma = sqrt(n p (1-p)) = 91). */
static void a_range_is_fair_and_kept(void **state)
{
    struct random random;
    int faces[6] = {0};
    random_seed(&random, 1);
    for (int i = 0; i < 60000; i++) {
        uint64_t face = random_range(&random, 6);
        assert_true(face < 6);
        faces[face]++;
    }
    for (int i = 0; i < 6; i++)
        assert_in_range(faces[i], 10000 - 410, 10000 + 410);
}

/* Two thirds of 2^64: plain multiplication would give a third of its answers twice as
 * often. */
static void a_wide_range_is_fair_too(void **state)
{
    uint64_t third = UINT64_MAX / 3;
    struct random random;
    int lower = 0;
    random_seed(&random, 2);
    for (int i = 0; i < 20000; i++) {
        uint64_t x = random_range(&random, 2 * third);
        assert_true(x < 2 * third);
        lower += x < third;
    }
    assert_in_range(lower, 10000 - 320, 10000 + 320);
    assert_true(random_range(&random, 1) == 0);
}

static void a_unit_lies_between_0_and_1(void **state)
{
    struct random random;
    double sum = 0;
    random_seed(&random, 3);
    for (int i = 0; i < 10000; i++) {
        double x = random_unit(&random);
        assert_true(x >= 0 && x < 1);
        sum += x;
    }
    assert_true(sum > 4870 && sum < 5130); /* 4.5 sigma, sigma = sqrt(n / 12) = 29 */
}

static void secrets_differ(void **state)
{
    unsigned char a[300] = {0}, b[300] = {0}, zeros[16] = {0};
    assert_int_equal(random_secret(a, sizeof a), TRYST_OK);
    assert_int_equal(random_secret(b, sizeof b), TRYST_OK);
    assert_int_equal(random_secret(b, 0), TRYST_OK);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + sizeof a - 16, zeros, 16); /* filled to the end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_published_generator),
        cmocka_unit_test(a_seed_fills_the_state_by_splitmix),
        cmocka_unit_test(one_seed_gives_one_stream),
        cmocka_unit_test(a_range_is_fair_and_kept),
        cmocka_unit_test(a_wide_range_is_fair_too),
        cmocka_unit_test(a_unit_lies_between_0_and_1),
        cmocka_unit_test(secrets_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
