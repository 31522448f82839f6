/* SPDX-License-Identifier: Apache-2.0 */
/* The key of a rank: two ranks compute one key, and a proof holds for its two ranks,
 * their order and its session alone. */
#include <string.h>

#include "rendezvous/bootstrap/roster/rank_key.h"
#include "support/unit.h"

enum { RANKS = 3 };

static uint8_t secrets[RANKS][RANK_KEY_BYTES], opens[RANKS][RANK_KEY_BYTES];

static int keys_make(void **state)
{
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(rank_key_make(secrets[i], opens[i]), TRYST_OK);
    return 0;
}

static void test_pairs(void **state)
{
    uint8_t keys[RANKS][RANKS][RANK_KEY_BYTES];
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++)
            assert_true(rank_key_pair(secrets[a], opens[b], keys[a][b]));
    assert_memory_equal(keys[0][1], keys[1][0], RANK_KEY_BYTES);
    assert_memory_not_equal(keys[0][1], keys[0][2], RANK_KEY_BYTES);
    assert_memory_not_equal(keys[0][1], keys[2][1], RANK_KEY_BYTES);
    assert_memory_not_equal(keys[0][1], keys[0][0], RANK_KEY_BYTES);
}

/* A rank that announces a point of small order would share a known key with all. */
static void test_no_key(void **state)
{
    static const uint8_t zero[RANK_KEY_BYTES], one[RANK_KEY_BYTES] = {1};
    uint8_t key[RANK_KEY_BYTES];
    assert_false(rank_key_pair(secrets[0], zero, key));
    assert_false(rank_key_pair(secrets[0], one, key));
}

static void test_proofs(void **state)
{
    uint8_t keys[2][RANK_KEY_BYTES], proofs[2][RANK_PROOF_BYTES], other[RANK_PROOF_BYTES];
    uint8_t cookie[RANK_COOKIE_BYTES] = "a session";
    assert_true(rank_key_pair(secrets[0], opens[1], keys[0]));
    assert_true(rank_key_pair(secrets[1], opens[0], keys[1]));
    for (int i = 0; i < 2; i++)
        rank_proof(keys[i], cookie, 0, 1, proofs[i]);
    assert_true(rank_proof_equal(proofs[0], proofs[1]));
    rank_proof(keys[0], cookie, 1, 0, other);
    assert_false(rank_proof_equal(proofs[0], other));
    rank_proof(keys[0], cookie, 2, 1, other);
    assert_false(rank_proof_equal(proofs[0], other));
    rank_proof(keys[0], cookie, 0, 2, other);
    assert_false(rank_proof_equal(proofs[0], other));
    cookie[0] ^= 1;
    rank_proof(keys[0], cookie, 0, 1, other);
    assert_false(rank_proof_equal(proofs[0], other));
}

static void test_wipe(void **state)
{
    static const uint8_t zero[RANK_KEY_BYTES];
    uint8_t secret[RANK_KEY_BYTES];
    memcpy(secret, secrets[0], sizeof secret);
    rank_key_wipe(secret);
    assert_memory_equal(secret, zero, sizeof zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_no_key),
        cmocka_unit_test(test_proofs),
        cmocka_unit_test(test_wipe),
    };
    return cmocka_run_group_tests(tests, keys_make, NULL);
}
