/* SPDX-License-Identifier: Apache-2.0 */
/* The table: scopes by id, entries by hash and whole key, queues in order of number. */
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "core/text/hash.h"
#include "rendezvous/match/table.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/eager.h"
#include "rendezvous/protocol/want.h"
#include "support/roster.h"
#include "support/unit.h"

static struct rendezvous rdv;
static struct roster_entry entries[2];
static struct tryst_group group = {.roster = {.rank = 0, .size = 2}, .rdv = &rdv};
static struct channel channel;

static int begin(void **state)
{
    memset(&rdv, 0, sizeof rdv);
    memset(&channel, 0, sizeof channel);
    assert_int_equal(scopes_init(&rdv.scopes), TRYST_OK);
    rdv.group = &group;
    channel.peer.rdv = &rdv;
    for (int i = 0; i < 2; i++) {
        entries[i].incarnation = 16 + (uint64_t)i;
        snprintf(entries[i].device_prefix, sizeof entries[i].device_prefix,
                 "/job:a/replica:0/task:%d", i);
    }
    assert_int_equal(roster_make(&group.roster, entries), TRYST_OK);
    return pool_open(sizeof(struct want), _Alignof(struct want), &rdv.wants);
}

static int end(void **state)
{
    list_for_each_safe (&rdv.scopes.all, node, after)
        scope_free(container_of(node, struct scope, node));
    scopes_close(&rdv.scopes);
    return (int)pool_close(rdv.wants);
}

static tryst_key *key_make(const char *edge, uint64_t hash)
{
    char text[TRYST_KEY_MAX + 1];
    tryst_key *key;
    assert_int_equal(tryst_key_build(&group, 0, 1, edge, 0, 0, text, sizeof text),
                     TRYST_OK);
    assert_int_equal(prepared_open(&group.roster, text, strlen(text), NULL, &key),
                     TRYST_OK);
    key->table_hash = hash ? hash : key->table_hash;
    return key;
}

static struct scope *scope_make(uint64_t id)
{
    struct scope *scope;
    assert_int_equal(scope_open(&rdv.scopes, id, &scope), TRYST_OK);
    scope_add(scope);
    return scope;
}

static void test_scopes(void **state)
{
    struct scope *one = scope_make(1);
    struct scope *nine = scope_make(9);
    rdv.scopes.end = 10;
    assert_ptr_equal(scope_find(&rdv.scopes, 1), one);
    assert_ptr_equal(scope_find(&rdv.scopes, 9), nine);
    assert_null(scope_find(&rdv.scopes, 2));
    assert_true(scope_is_closed(&rdv.scopes, 2)); /* passed over */
    assert_false(scope_is_closed(&rdv.scopes, 10));
    scope_free(one);
    assert_null(scope_find(&rdv.scopes, 1));
    assert_true(scope_is_closed(&rdv.scopes, 1));
}

/* An early scope, for a peer's records of a step that is not open here, is dropped unless
 * it holds something. */
static void test_early_scopes(void **state)
{
    struct scope *empty = scope_open_early(&rdv.scopes, 10);
    struct scope *full = scope_open_early(&rdv.scopes, 11);
    tryst_key *key = key_make("a", 0);
    assert_non_null(entry_get(full, key));
    tryst_key_release(key);
    scope_drop_early(empty);
    scope_drop_early(full);
    assert_null(scope_find(&rdv.scopes, 10));
    assert_ptr_equal(scope_find(&rdv.scopes, 11), full);
    assert_false(list_empty(&rdv.scopes.early));
    scope_state_set(full, SCOPE_OPEN);
    assert_true(list_empty(&rdv.scopes.early));
    scope_drop_early(full);
    assert_ptr_equal(scope_find(&rdv.scopes, 11), full);
}

/* Scopes are found by id whatever the ids are, also where the index cannot grow. */
static void test_many_scopes(void **state)
{
    static const uint64_t strides[] = {1, 1ull << 32, 0x100000001ull, UINT64_MAX / 3};
    enum { SCOPES = 1000 };
    for (size_t s = 0; s < 2 * COUNT_OF(strides); s++) {
        uint64_t stride = strides[s / 2];
        for (uint64_t i = 0; i < SCOPES; i++) {
            struct scope *scope;
            assert_int_equal(scope_open(&rdv.scopes, i * stride, &scope), TRYST_OK);
            if (s % 2)
                alloc_fail_at(1);
            scope_add(scope);
            alloc_fail_off();
        }
        for (uint64_t i = 0; i < SCOPES; i += 2)
            scope_free(scope_find(&rdv.scopes, i * stride));
        for (uint64_t i = 0; i < SCOPES; i++) {
            struct scope *scope = scope_find(&rdv.scopes, i * stride);
            assert_int_equal(scope ? scope->id : UINT64_MAX,
                             i % 2 ? i * stride : UINT64_MAX);
        }
        list_for_each_safe (&rdv.scopes.all, node, after)
            scope_free(container_of(node, struct scope, node));
        scopes_close(&rdv.scopes);
        assert_int_equal(scopes_init(&rdv.scopes), TRYST_OK);
    }
}

/* With one hash for all keys, or one bucket, each key still has its own entry. */
static void test_collisions(void **state)
{
    static const uint64_t hashes[] = {0, 42};
    enum { KEYS = 100 };
    for (size_t h = 0; h < COUNT_OF(hashes); h++) {
        struct scope *scope = scope_make(1 + h);
        struct entry *made[KEYS];
        for (int i = 0; i < KEYS; i++) {
            char edge[16];
            snprintf(edge, sizeof edge, "e%d", i);
            tryst_key *key = key_make(edge, hashes[h]);
            made[i] = entry_get(scope, key);
            assert_ptr_equal(entry_get(scope, key), made[i]);
            tryst_key_release(key);
            key = key_make(edge, hashes[h]); /* another handle of the same key */
            assert_ptr_equal(entry_get(scope, key), made[i]);
            tryst_key_release(key);
        }
        assert_int_equal(scope->entries.count, KEYS);
        assert_true(scope->entries.mask + 1 >= KEYS);
        for (int i = 0; i < KEYS; i++) {
            const tryst_key *key = made[i]->key;
            for (int j = 0; j < i; j++)
                assert_ptr_not_equal(made[i], made[j]);
            assert_ptr_equal(entry_find(scope, key->table_hash, key->string, key->bytes),
                             made[i]);
            assert_null(entry_find(scope, key->table_hash, key->string, key->bytes - 1u));
            assert_null(entry_find(scope, key->table_hash + 1, key->string, key->bytes));
        }
        assert_non_null(entry_hashed(scope, made[7]->key->table_hash, 0));
        /* a key of other ranks */
        assert_null(entry_hashed(scope, made[7]->key->table_hash, 1));
    }
}

/* Keys of records: a key that does not name these two ranks leaves no entry behind. */
static void test_record_keys(void **state)
{
#define DEV(rank) "/job:a/replica:0/task:" rank "/device:CPU:0"
    static const struct {
        const char *key;
        bool may_make;
        tryst_status status;
    } rows[] = {{DEV("0") ";10;" DEV("1") ";e;0:0", true, TRYST_OK},
                /* the entry exists already */
                {DEV("0") ";10;" DEV("1") ";e;0:0", false, TRYST_OK},
                {DEV("0") ";10;" DEV("1") ";f;0:0", false, TRYST_E_NOMEM},
                {DEV("0") ";11;" DEV("1") ";e;0:0", true, TRYST_E_INCARNATION},
                {DEV("1") ";11;" DEV("0") ";e;0:0", true, TRYST_E_KEY},
                {DEV("0") ";10;" DEV("2") ";e;0:0", true, TRYST_E_KEY},
                {"nonsense", true, TRYST_E_KEY}};
    struct scope *scope = scope_make(1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct record_key named = {hash_keyed(rows[i].key, strlen(rows[i].key)),
                                   rows[i].key, strlen(rows[i].key), 0, 1};
        tryst_status status = TRYST_IN_PROGRESS;
        struct entry *entry =
            entry_resolve(scope, &group.roster, &named, rows[i].may_make, &status);
        assert_int_equal(status, rows[i].status);
        assert_int_equal(entry != NULL, status == TRYST_OK);
        assert_int_equal(scope->entries.count, 1);
    }
}

static void test_queues(void **state)
{
    enum { COUNT = 50 };
    struct random random;
    struct scope *scope = scope_make(1);
    tryst_key *key = key_make("e", 0);
    struct entry *entry = entry_get(scope, key);
    static tryst_op sends[COUNT];
    struct want *wants[COUNT];
    int order[COUNT];
    tryst_key_release(key);
    random_seed(&random, unit_seed());
    list_init(&channel.in.wants_list);
    for (int i = 0; i < COUNT; i++)
        order[i] = i;
    for (int i = COUNT - 1; i > 0; i--) {
        int j = (int)random_range(&random, (uint64_t)i + 1);
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (int i = 0; i < COUNT; i++) {
        uint64_t seq = 2 * (uint64_t)order[i];
        struct want *want = pool_get(rdv.wants);
        memset(want, 0, sizeof *want);
        want->peer = &channel.peer;
        want->parked.entry = entry;
        want->parked.seq = seq;
        want->id_ended = true;
        parked_add(&want->parked);
        channel.in.parked_count++;
        wants[order[i]] = want;
        sends[order[i]].queued.seq = seq;
        queue_insert(&entry->sends, &sends[order[i]].queued);
    }
    uint64_t next = 0;
    struct queue_node *item = NULL;
    while ((item = queue_next(&entry->sends, item)) != NULL) {
        assert_int_equal(item->seq, next);
        next += 2;
    }
    assert_int_equal(next, 2 * COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_ptr_equal(want_find(entry, 2 * i), wants[i]);
        assert_ptr_equal(op_find(&entry->sends, 2 * i), &sends[i]);
        assert_null(want_find(entry, 2 * i + 1));
        assert_null(op_find(&entry->sends, 2 * i + 1));
        assert_null(op_find(&entry->recvs, 2 * i));
        assert_null(unexpected_find(entry, 2 * i));
    }
    for (int i = 0; i < COUNT; i++)
        list_remove(&sends[i].queued.node);
    want_unpark(wants[7]);
    want_unpark(wants[7]); /* a second call has no effect */
    assert_null(want_find(entry, 14));
    assert_int_equal(channel.in.parked_count, COUNT - 1);
    want_free(wants[7]);
    for (struct list_node *node; (node = list_first(&entry->wants)) != NULL;)
        want_free(container_of(node, struct want, parked.node));
    assert_int_equal(rdv.scopes.parked.count, 0);
    scope_free(scope);
    assert_int_equal(channel.in.parked_count, 0);
    assert_int_equal(pool_in_use(rdv.wants), 0);
}

static void test_no_memory(void **state)
{
    uint64_t before = alloc_live_count();
    struct scope *scope;
    alloc_fail_at(1);
    assert_int_equal(scope_open(&rdv.scopes, 1, &scope), TRYST_E_NOMEM);
    assert_true(alloc_fail_off());
    assert_int_equal(alloc_live_count(), before);
    scope = scope_make(1);
    for (int i = 0; i < 40; i++) {
        char edge[16];
        snprintf(edge, sizeof edge, "e%d", i);
        tryst_key *key = key_make(edge, 0);
        alloc_fail_at(1);
        if (i == 0) { /* the pool is empty */
            assert_null(entry_get(scope, key));
            assert_true(alloc_fail_off());
            alloc_fail_at(2);
        }
        /* The table cannot grow: its chains only get longer. */
        assert_non_null(entry_get(scope, key));
        alloc_fail_off();
        tryst_key_release(key);
    }
    assert_int_equal(scope->entries.mask + 1, 16);
    assert_int_equal(scope->entries.count, 40);
}

/* A step's memory goes to the next step: no allocation, and nothing of the last step in
 * it. */
static void test_scope_again(void **state)
{
    enum { STEPS = 3 * SCOPES_SPARE, KEYS = 100 };
    tryst_key *keys[KEYS];
    uint64_t seen = 0;
    for (int i = 0; i < KEYS; i++) {
        char edge[16];
        snprintf(edge, sizeof edge, "e%d", i);
        keys[i] = key_make(edge, 0);
    }
    for (uint64_t id = 1; id <= STEPS; id++) {
        struct scope *scope = scope_make(id);
        assert_int_equal(scope->entries.count, 0);
        assert_true(scope->state == SCOPE_EARLY && !scope->askers.used && !scope->step &&
                    scope->abort_status == TRYST_OK && !*scope->abort_text);
        for (int i = 0; i < KEYS; i++) {
            assert_null(
                entry_find(scope, keys[i]->table_hash, keys[i]->string, keys[i]->bytes));
            struct entry *entry = entry_get(scope, keys[i]);
            assert_true(entry->send_next == 0 && entry->recv_next == 0);
            entry->send_next = entry->recv_next = 7;
        }
        scope->all_awaited = true;
        assert_true(rank_set_add(&scope->askers, 70, 100));
        scope->step = (void *)&seen;
        scope->abort_status = TRYST_E_ABORTED;
        strcpy(scope->abort_text, "why");
        scope_free(scope);
        if (id == 1)
            seen = alloc_seen_count();
    }
    assert_int_equal(alloc_seen_count() - seen, 0);
    for (int i = 0; i < KEYS; i++)
        tryst_key_release(keys[i]);
}

static struct keys known;

static tryst_key *known_get(const char *edge)
{
    char text[TRYST_KEY_MAX + 1];
    tryst_key *key;
    assert_int_equal(tryst_key_build(&group, 0, 1, edge, 0, 0, text, sizeof text),
                     TRYST_OK);
    assert_int_equal(keys_get(&known, &group.roster, text, strlen(text), NULL, &key),
                     TRYST_OK);
    return key;
}

/* The newest KEYS_MAX keys are one object each and need no allocation; keys in use
 * stay. */
static void test_keys(void **state)
{
    tryst_key *first, *again;
    uint64_t live = alloc_live_count();
    keys_init(&known);
    for (int round = 0; round < 2; round++) {
        first = known_get("first");
        uint64_t seen = alloc_seen_count();
        for (unsigned i = 1; i < KEYS_MAX; i++) {
            char edge[32];
            snprintf(edge, sizeof edge, "%d/%u", round, i);
            tryst_key_release(known_get(edge));
        }
        assert_true(alloc_seen_count() - seen >= KEYS_MAX - 1);
        seen = alloc_seen_count();
        again = known_get("first");
        assert_ptr_equal(again, first);
        assert_int_equal(alloc_seen_count() - seen, 0);
        tryst_key_release(again);
        tryst_key_release(known_get("one too many"));
        again = known_get("first");
        assert_ptr_not_equal(again, first);
        assert_string_equal(again->string, first->string);
        tryst_key_release(again);
        tryst_key_release(first);
    }
    keys_forget(&known);
    assert_int_equal(alloc_live_count(), live);
    tryst_key_release(known_get("first"));
    keys_close(&known);
    assert_int_equal(alloc_live_count(), live);
}

/* A key can be prepared without memory for the table; an invalid string cannot. A wrong
 * hash finds nothing. */
static void test_keys_no_memory(void **state)
{
    tryst_key *key;
    uint64_t live = alloc_live_count();
    keys_init(&known);
    alloc_fail_at(1);
    assert_int_equal(keys_get(&known, &group.roster, "nonsense", 8, NULL, &key),
                     TRYST_E_KEY);
    alloc_fail_at(2);
    key = known_get("a");
    assert_true(alloc_fail_off());
    assert_null(keys_find(&known, key->string, key->bytes, key->table_hash));
    tryst_key_release(key);
    key = known_get("a");
    assert_null(keys_find(&known, key->string, key->bytes, key->table_hash + 1));
    assert_null(keys_find(&known, key->string, key->bytes - 1u, key->table_hash));
    tryst_key *found = keys_find(&known, key->string, key->bytes, key->table_hash);
    assert_ptr_equal(found, key);
    tryst_key_release(found);
    tryst_key_release(key);
    keys_close(&known);
    assert_int_equal(alloc_live_count(), live);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_scopes),         TEST(test_early_scopes), TEST(test_many_scopes),
        TEST(test_collisions),     TEST(test_record_keys),  TEST(test_queues),
        TEST(test_no_memory),      TEST(test_scope_again),  TEST(test_keys),
        TEST(test_keys_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
