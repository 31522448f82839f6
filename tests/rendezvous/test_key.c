/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: TensorFlow's grammar with Tryst's stricter rules, as one table; the builder;
 * prefixes. */
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "core/text/hash.h"
#include "rendezvous/match/prepared.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/group.h"
#include "support/roster.h"
#include "support/unit.h"
#include "tryst/key.h"

#define DEV0          "/job:worker/replica:0/task:0/device:CPU:0"
#define DEV1          "/job:worker/replica:0/task:1/device:CPU:0"
#define NUMBER_REASON "device: number above 2147483647"
#define TAIL          ";1f;" DEV1 ";e;0:0"

struct row {
    const char *key;
    const char *reason; /* NULL: the key parses */
    size_t position;
};

static const struct row rows[] = {
    {DEV0 TAIL, NULL, 0},
    {"/job:a/replica:0/task:0/device:GPU:12" TAIL, NULL, 0},
    {"/job:a.b-c_d/replica:10/task:200/device:XLA_CPU:0" TAIL, NULL, 0},
    {"/cpu:0" TAIL, NULL, 0},
    {"/gpu:31" TAIL, NULL, 0},
    {DEV0 ";0123456789abcdef;" DEV1 ";e;0:0", NULL, 0},
    {DEV0 ";ABCDEF;" DEV1 ";e;0:0", NULL, 0},
    {DEV0 ";1;" DEV1 ";edge/with:colons and spaces;0:0", NULL, 0},
    {DEV0 ";1;" DEV1 ";e;anything at all", NULL, 0},
    /* the parts of a key */
    {"", "fewer than five parts separated by ';'", 0},
    {";;;", "fewer than five parts separated by ';'", 3},
    {DEV0 ";1;" DEV1 ";e", "fewer than five parts separated by ';'", 87},
    {DEV0 TAIL ";", "more than five parts", 92},
    {DEV0 TAIL ";x;y", "more than five parts", 92},
    /* the first error counts */
    {";x;;;", "device: empty", 0},
    {DEV0 ";;;;", "incarnation: empty", 42},
    {DEV0 ";g;;;", "incarnation: not a hexadecimal digit", 42},
    {DEV0 ";12 4;" DEV1 ";e;0:0", "incarnation: not a hexadecimal digit", 44},
    {DEV0 ";-1;" DEV1 ";e;0:0", "incarnation: not a hexadecimal digit", 42},
    {DEV0 ";0x1;" DEV1 ";e;0:0", "incarnation: not a hexadecimal digit", 43},
    {DEV0 ";0123456789abcdef0;" DEV1 ";e;0:0", "incarnation: more than 16 digits", 58},
    {DEV0 ";1;;e;0:0", "device: empty", 44},
    {DEV0 ";1;" DEV1 ";;0:0", "edge name: empty", 86},
    {DEV0 ";1;" DEV1 ";e;", "frame and iteration: empty", 88},
    /* devices */
    {"job:a" TAIL, "device: expected \"/job:NAME\"", 0},
    {"/job:" TAIL, "device: expected \"/job:NAME\"", 0},
    {"/job:a" TAIL, "device: expected \"/replica:N\"", 6},
    {"/job:a/replica:x/task:0/device:CPU:0" TAIL, "device: expected \"/replica:N\"", 6},
    {"/job:a/replica:0" TAIL, "device: expected \"/task:N\"", 16},
    {"/job:a/replica:0/task:-1/device:CPU:0" TAIL, "device: expected \"/task:N\"", 16},
    {"/job:a/replica:0/task:0" TAIL, "device: expected \"/device:TYPE:ID\"", 23},
    {"/job:a/replica:0/task:0/device:CPU" TAIL, "device: expected \"/device:TYPE:ID\"",
     23},
    {"/job:a/replica:0/task:0/device:CPU:" TAIL, "device: expected \"/device:TYPE:ID\"",
     23},
    {"/job:a/replica:0/task:0/device:CPU:*" TAIL, "device: expected \"/device:TYPE:ID\"",
     23},
    {"/job:a/replica:0/task:0/cpu:0" TAIL, "device: expected \"/device:TYPE:ID\"", 23},
    {"/job:a/replica:0/task:0/device:CPU:0x" TAIL, "device: trailing characters", 36},
    {"/job:a/replica:0/task:0/device:CPU:0/" TAIL, "device: trailing characters", 36},
    {"/cpu:" TAIL, "device: expected \"/job:NAME\"", 0},
    {"/cpu:0x" TAIL, "device: expected \"/job:NAME\"", 0},
    {"/task:0/job:a" TAIL, "device: expected \"/job:NAME\"", 0},
    /* numbers are TensorFlow's int */
    {"/job:a/replica:2147483647/task:2147483647/device:CPU:2147483647" TAIL, NULL, 0},
    {"/job:a/replica:00000000000000000000001/task:0/device:CPU:0" TAIL, NULL, 0},
    {"/job:99999999999999999999/replica:0/task:0/device:X9999999999:0" TAIL, NULL, 0},
    {"/gpu:2147483647" TAIL, NULL, 0},
    {"/job:a/replica:2147483648/task:0/device:CPU:0" TAIL, NUMBER_REASON, 15},
    {"/job:a/replica:0/task:99999999999999999999/device:CPU:0" TAIL, NUMBER_REASON, 22},
    {"/job:a/replica:0/task:0/device:CPU:18446744073709551616" TAIL, NUMBER_REASON, 35},
    {"/cpu:4294967296" TAIL, NUMBER_REASON, 5},
    {"/gpu:2147483648" TAIL, NUMBER_REASON, 5},
    {DEV0 ";1;/job:a/replica:0/task:2147483648/device:CPU:0;e;0:0", NUMBER_REASON, 66},
};

static void test_table(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        tryst_parsed_key parsed = {.struct_size = sizeof parsed};
        tryst_key_error error = {sizeof error, 0, ""};
        uint64_t before = alloc_seen_count();
        tryst_status status = tryst_key_parse(rows[i].key, &parsed, &error);
        assert_int_equal(alloc_seen_count(), before);
        if (!rows[i].reason) {
            if (status != TRYST_OK)
                fail_msg("\"%s\": %s at %zu", rows[i].key, error.reason, error.position);
            continue;
        }
        assert_int_equal(status, TRYST_E_KEY);
        if (strcmp(error.reason, rows[i].reason) != 0 ||
            error.position != rows[i].position)
            fail_msg("\"%s\": %s at %zu, not %s at %zu", rows[i].key, error.reason,
                     error.position, rows[i].reason, rows[i].position);
    }
}

static bool view_is(tryst_view view, const char *text)
{
    return view.bytes == strlen(text) && memcmp(view.data, text, view.bytes) == 0;
}

static void test_views(void **state)
{
    static const char key[] = DEV0 ";00fF;/gpu:1;act 3;7:9";
    tryst_parsed_key parsed = {.struct_size = sizeof parsed};
    assert_int_equal(tryst_key_parse(key, &parsed, NULL), TRYST_OK);
    assert_true(view_is(parsed.src_device, DEV0));
    assert_int_equal(parsed.src_incarnation, 0xff);
    assert_true(view_is(parsed.dst_device, "/gpu:1"));
    assert_true(view_is(parsed.edge, "act 3"));
    assert_true(view_is(parsed.frame_iter, "7:9"));
    assert_ptr_equal(parsed.src_device.data, key);
    assert_int_equal(tryst_key_parse(key, NULL, NULL), TRYST_OK);
    assert_int_equal(tryst_key_parse(NULL, NULL, NULL), TRYST_E_KEY);
}

static void test_length(void **state)
{
    char key[TRYST_KEY_MAX + 2];
    tryst_key_error error = {.struct_size = sizeof error};
    int head = snprintf(key, sizeof key, DEV0 ";1;" DEV1 ";");
    memset(key + head, 'e', sizeof key - (size_t)head);
    memcpy(key + TRYST_KEY_MAX - 4, ";0:0", 5);
    assert_int_equal(strlen(key), TRYST_KEY_MAX);
    assert_int_equal(tryst_key_parse(key, NULL, &error), TRYST_OK);
    memcpy(key + TRYST_KEY_MAX - 4, "e;0:0", 6);
    assert_int_equal(tryst_key_parse(key, NULL, &error), TRYST_E_KEY);
    assert_int_equal(error.position, TRYST_KEY_MAX);
}

/* ---- a group ----------------------------------------------------------------------- */

static struct roster_entry entries[12];
static struct rendezvous rdv;
static struct tryst_group group = {.roster = {.rank = 0, .size = 12}, .rdv = &rdv};

static int group_make(void **state)
{
    for (int i = 0; i < 12; i++) {
        entries[i].incarnation = 0xf00d00 + (uint64_t)i;
        snprintf(entries[i].device_prefix, sizeof entries[i].device_prefix,
                 "/job:worker/replica:0/task:%d", i);
    }
    snprintf(entries[3].device_prefix, sizeof entries[3].device_prefix, "/cpu:3");
    keys_init(&rdv.scopes.keys);
    return roster_make(&group.roster, entries);
}

static int group_end(void **state)
{
    keys_close(&rdv.scopes.keys);
    return 0;
}

/* The parser reads what the builder writes, and finds the ranks that the key was built
 * for. */
static void test_round_trip(void **state)
{
    char text[TRYST_KEY_MAX + 1];
    tryst_parsed_key parsed = {.struct_size = sizeof parsed};
    for (int src = 4; src < 12; src++) {
        for (int dst = 4; dst < 12; dst++) {
            tryst_key *key;
            assert_int_equal(
                tryst_key_build(&group, src, dst, "w", 3, 4, text, sizeof text),
                TRYST_OK);
            assert_int_equal(tryst_key_parse(text, &parsed, NULL), TRYST_OK);
            assert_int_equal(parsed.src_incarnation, 0xf00d00 + src);
            assert_true(view_is(parsed.edge, "w"));
            assert_true(view_is(parsed.frame_iter, "3:4"));
            assert_int_equal(tryst_key_prepare(&group, text, &key), TRYST_OK);
            assert_int_equal(key->src_rank, src);
            assert_int_equal(key->dst_rank, dst);
            assert_int_equal(key->src_incarnation, parsed.src_incarnation);
            assert_int_equal(key->hash, hash_bytes(text, strlen(text)));
            assert_string_equal(tryst_key_string(key), text);
            tryst_key_release(key);
        }
    }
    assert_non_null(strstr(text, ";0000000000f00d0b;"));
}

static void test_build_refuses(void **state)
{
    char text[TRYST_KEY_MAX + 1];
    static const struct {
        int src, dst;
        const char *edge;
        size_t capacity;
    } bad[] = {{-1, 4, "e", 1024}, {12, 4, "e", 1024},  {4, 12, "e", 1024},
               {4, 5, "", 1024},   {4, 5, "a;b", 1024}, {4, 5, "e", 20},
               {4, 5, NULL, 1024}, {3, 4, "e", 1024}};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(tryst_key_build(&group, bad[i].src, bad[i].dst, bad[i].edge, 0,
                                         0, text, bad[i].capacity),
                         TRYST_E_INVALID);
}

/* `/task:1` is not a prefix of `/task:10`; a legacy name matches only itself. */
static void test_prefixes(void **state)
{
    static const struct {
        const char *device;
        int rank;
    } asked[] = {{"/job:worker/replica:0/task:1/device:CPU:0", 1},
                 {"/job:worker/replica:0/task:10/device:CPU:0", 10},
                 {"/job:worker/replica:0/task:11/device:GPU:7", 11},
                 {"/job:worker/replica:0/task:1", 1},
                 {"/job:worker/replica:0/task:", -1},
                 {"/job:worker/replica:0/task:12/device:CPU:0", -1},
                 {"/job:worker/replica:00/task:1/device:CPU:0", -1},
                 {"/job:work/replica:0/task:1/device:CPU:0", -1},
                 {"/cpu:3", 3},
                 {"/cpu:30", -1},
                 {"/cpu:0", -1},
                 {"", -1}};
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        assert_int_equal(
            roster_rank_of(&group.roster, asked[i].device, strlen(asked[i].device)),
            asked[i].rank);
}

static tryst_status prepare(void)
{
    tryst_key *key;
    static const char string[] = DEV0 ";1;" DEV1 ";e;0:0";
    tryst_status status =
        prepared_open(&group.roster, string, sizeof string - 1, NULL, &key);
    if (status == TRYST_OK)
        tryst_key_release(key);
    return status;
}

static void test_prepare(void **state)
{
    tryst_key *key;
    assert_int_equal(tryst_key_prepare(&group, "/cpu:0" TAIL, &key), TRYST_E_KEY);
    assert_int_equal(tryst_key_prepare(&group, "nonsense", &key), TRYST_E_KEY);
    assert_int_equal(tryst_key_prepare(&group, NULL, &key), TRYST_E_INVALID);
    assert_int_equal(tryst_key_prepare(&group, DEV0 ";1;" DEV1 ";~e;0:0", &key),
                     TRYST_E_KEY);
    assert_non_null(strstr(tryst_last_error(), "begins with '~'"));
    WALK_ALLOCATIONS(prepare());
}

/* Random bytes get a verdict. No byte behind the end is read (each key lies in memory of
 * its size), and the reported position is inside the key. */
static void test_random(void **state)
{
    static const char alphabet[] = "/:;0123456789abcdef job:task:replica:deviceCPU";
    struct random random;
    random_seed(&random, unit_seed());
    for (int i = 0; i < 50000; i++) {
        const char *base = rows[random_range(&random, COUNT_OF(rows))].key;
        size_t bytes = strlen(base);
        char *key = malloc(bytes + 1);
        tryst_key_error error = {sizeof error, 0, NULL};
        memcpy(key, base, bytes + 1);
        for (uint64_t n = random_range(&random, 4); n > 0 && bytes; n--)
            key[random_range(&random, bytes)] =
                alphabet[random_range(&random, sizeof alphabet - 1)];
        key[random_range(&random, bytes + 1)] = '\0';
        if (tryst_key_parse(key, NULL, &error) != TRYST_OK) {
            assert_non_null(error.reason);
            assert_true(error.position <= strlen(key));
        }
        free(key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),         cmocka_unit_test(test_views),
        cmocka_unit_test(test_length),        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_build_refuses), cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_prepare),       cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, group_make, group_end);
}
