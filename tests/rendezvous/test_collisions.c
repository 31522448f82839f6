/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that chooses ids, numbers, steps and keys so that searches among them are long.
 * Work is counted in nodes of a bucket: a search walks at most one bucket. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/text/hash.h"
#include "hostile_frame.h"
#include "rendezvous/protocol/want.h"

/* WANTs in one attack, and the most nodes of a bucket: a table has a bucket for each
 * node, so a fair one has 8 of 4096 nodes in a bucket once in 200 attacks. */
enum { COUNT = 4096, BUCKET_MAX = 16 };

static struct world world;

static struct peer *enemy(void)
{
    return world_peer(&world, 0, 1);
}

static tryst_step *begin(void)
{
    world_open(&world, 2, NULL);
    world_join(&world, 0, 1);
    world.sides[1].still = true;
    tryst_step *step = world_step(&world, 0, 1);
    world_settle(&world);
    return step;
}

static void end(tryst_step *step)
{
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    world_close(&world);
}

/* Deliver a WANT of the enemy, in a frame of its own. */
static void want(const char *key, uint64_t id, uint64_t step, uint64_t seq)
{
    struct frame frame;
    frame_begin(&frame);
    frame_add_want(&frame, key, id, step, seq, 10000, 0);
    frame_inject(&frame, &world, 0, 1);
    enemy()->frames.acked = (uint32_t)enemy()->frames.sent;
}

static size_t bucket_max(const struct hash_table *table)
{
    size_t most = 0;
    for (size_t i = 0; i <= table->mask; i++) {
        size_t count = 0;
        for (const struct hash_node *node = table->buckets[i]; node; node = node->next)
            count++;
        most = count > most ? count : most;
    }
    return most;
}

static void check(const char *name, const struct hash_table *table)
{
    assert_int_equal(enemy()->life, PEER_ALIVE);
    assert_int_equal(table->count, COUNT);
    if (bucket_max(table) > BUCKET_MAX)
        fail_msg("%s: %zu of %d in one bucket", name, bucket_max(table), COUNT);
}

/* Return the id with this hash_of_id. */
static uint64_t id_of_hash(uint64_t hash)
{
    uint64_t factor = UINT64_C(0x9e3779b97f4a7c15), inverse = factor;
    for (int i = 0; i < 5; i++) /* Newton: 3 bits are right at first, then 6, 12, ... */
        inverse *= 2 - factor * inverse;
    return (hash ^ hash >> 32) * inverse;
}

static uint64_t id_plain(uint64_t i)
{
    return i + 1;
}

/* All have one bucket of a table with a fixed hash. */
static uint64_t id_of_bucket(uint64_t i)
{
    return id_of_hash((i + 1) << 24);
}

/* Products of these with any factor differ in the upper bits alone. */
static uint64_t id_high(uint64_t i)
{
    return (i + 1) << 48;
}

static const struct {
    const char *name;
    uint64_t (*of)(uint64_t i);
} ids[] = {{"plain", id_plain}, {"one bucket", id_of_bucket}, {"high", id_high}};

static void test_ids(void **state)
{
    assert_int_equal(hash_of_id(id_of_bucket(5)), 6 << 24);
    for (size_t n = 0; n < COUNT_OF(ids); n++) {
        tryst_step *step = begin();
        const char *key = world_key(&world, 0, 1, "e");
        for (uint64_t i = 0; i < COUNT; i++)
            want(key, ids[n].of(i), 1, i);
        check(ids[n].name, &peer_in(enemy())->wants);
        end(step);
    }
}

static void test_steps(void **state)
{
    for (size_t n = 0; n < COUNT_OF(ids); n++) {
        tryst_step *step = begin();
        const char *key = world_key(&world, 0, 1, "e");
        for (uint64_t i = 1; i < COUNT; i++)
            want(key, i, 2 + ids[n].of(i), 0);
        check(ids[n].name, &world.sides[0].rdv->scopes.index);
        end(step);
    }
}

/* Near and far numbers of one key in turn; and numbers that share a bucket. */
static void test_numbers(void **state)
{
    for (size_t n = 0; n < COUNT_OF(ids); n++) {
        tryst_step *step = begin();
        const char *key = world_key(&world, 0, 1, "e");
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t seq = n == 0 ? (i % 2 ? NUMBERS_AHEAD_MAX - i : i)
                                  : ids[n].of(i) % NUMBERS_AHEAD_MAX + i;
            want(key, i + 1, 1, seq);
        }
        check(ids[n].name, &world.sides[0].rdv->scopes.parked);
        end(step);
    }
}

/* The same number and key in many steps. */
static void test_numbers_of_steps(void **state)
{
    tryst_step *step = begin();
    const char *key = world_key(&world, 0, 1, "e");
    for (uint64_t i = 0; i < COUNT; i++)
        want(key, i + 1, 2 + i, 0);
    check("steps", &world.sides[0].rdv->scopes.parked);
    end(step);
}

/* Write a key that has the XXH3-64 of all others made here: where 8 bytes of a block
 * equal XXH3's constants, the block's other 8 bytes are multiplied by zero. */
static void key_collide(char *key_p, uint64_t i)
{
    enum { BYTES = 200 };
    const char *plain = world_key(&world, 0, 1, "e");
    const char *end = strrchr(plain, ';');
    size_t tail = strlen(end);
    size_t prefix = (size_t)(end - 1 - plain), block = (prefix + 15) / 16;
    size_t at = 16 * block, secret = block < 8 ? at : 16 * (block - 8) + 3;
    assert_true(at + 32 + tail < BYTES); /* the last 16 bytes count twice */
    memset(key_p, 'x', BYTES);
    memcpy(key_p, plain, prefix);
    memcpy(key_p + at, XXH3_kSecret + secret, 8);
    for (int digit = 0; digit < 8; digit++)
        key_p[at + 8 + (size_t)digit] = (char)('a' + (i >> 4 * digit & 15));
    strcpy(key_p + BYTES - tail, end);
}

static void test_keys(void **state)
{
    char key[TRYST_KEY_MAX + 1];
    uint64_t hash = 0;
    tryst_step *step = begin();
    for (uint64_t i = 0; i < COUNT; i++) {
        key_collide(key, i);
        hash = hash ? hash : hash_bytes(key, strlen(key));
        assert_int_equal(hash_bytes(key, strlen(key)), hash);
        want(key, i + 1, 1, 0);
    }
    check("entries", &scope_find(&world.sides[0].rdv->scopes, 1)->entries);
    check("keys", &world.sides[0].rdv->scopes.keys.index);
    end(step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),     cmocka_unit_test(test_steps),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_numbers_of_steps),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
