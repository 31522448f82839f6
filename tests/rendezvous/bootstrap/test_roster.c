/* SPDX-License-Identifier: Apache-2.0 */
/* The roster: every rank comes to the same verdict, and the error names what differs. A
 * bootstrap_allgather defined here replaces the exchange. */
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "rendezvous/bootstrap/roster/device_name.h"
#include "rendezvous/bootstrap/roster/roster_gather.h"
#include "rendezvous/bootstrap/session/bootstrap.h"
#include "support/unit.h"

enum { RANKS = 12, MANY = 4096 };

static struct roster_entry gathered[RANKS];
static struct roster_entry *many; /* replaces `gathered` where it is not NULL */
static tryst_status gather_status;

tryst_status bootstrap_allgather(struct bootstrap *bootstrap, const void *mine,
                                 size_t bytes, void *all, struct err *err)
{
    assert_int_equal(bytes, sizeof *gathered);
    memcpy(all, many ? many : gathered, many ? MANY * sizeof *many : sizeof gathered);
    return gather_status;
}

static struct config *config;
static struct roster_entry base;

/* Set up a job whose entries agree. */
static int begin(void **state)
{
    struct roster roster;
    memset(&base, 0, sizeof base);
    gather_status = TRYST_OK;
    assert_int_equal(config_open_defaults(&config), TRYST_OK);
    snprintf(base.device_prefix, sizeof base.device_prefix, "/job:a/replica:0/task:0");
    base.wire_version = 3;
    base.host.host_id = 1;
    assert_int_equal(roster_open(NULL, 0, 1, config, &base, NULL, &roster), TRYST_OK);
    roster_close(&roster);
    for (int i = 0; i < RANKS; i++) {
        gathered[i] = base;
        gathered[i].host.host_id = 1 + (uint64_t)i / 4;
        snprintf(gathered[i].device_prefix, sizeof gathered[i].device_prefix,
                 "/job:a/replica:0/task:%d", i);
    }
    return 0;
}

static int end(void **state)
{
    config_close(config);
    return 0;
}

/* Open the roster at every rank; all must return the same status. Write rank 0's text. */
static tryst_status open_all(char *text, size_t capacity)
{
    tryst_status first = TRYST_OK;
    for (int rank = 0; rank < RANKS; rank++) {
        struct err err = ERR_INIT;
        struct roster roster;
        struct roster_entry mine = gathered[rank];
        tryst_status status = roster_open((struct bootstrap *)&gathered, rank, RANKS,
                                          config, &mine, &err, &roster);
        if (status == TRYST_OK)
            roster_close(&roster);
        if (rank == 0) {
            first = status;
            snprintf(text, capacity, "%s", err.text);
        }
        assert_int_equal(status, first);
    }
    return first;
}

static void test_fits(void **state)
{
    struct roster roster;
    struct roster_entry mine = gathered[6];
    assert_int_equal(roster_open((struct bootstrap *)&gathered, 6, RANKS, config, &mine,
                                 NULL, &roster),
                     TRYST_OK);
    assert_int_equal(roster.rank, 6);
    assert_int_equal(roster.size, RANKS);
    assert_int_equal(roster.local_size, 4);
    assert_int_equal(roster.local_rank, 2);
    assert_int_equal(roster_rank_of(&roster, "/job:a/replica:0/task:1/device:CPU:0", 36),
                     1);
    assert_int_equal(roster_rank_of(&roster, "/job:a/replica:0/task:11/device:CPU:0", 37),
                     11);
    roster_close(&roster);
}

/* Other ranks' host names are printed, so the roster escapes what controls a terminal,
 * the same at every rank. */
static void test_text(void **state)
{
    strcpy(gathered[3].host.host_name, "h\x1b[2J\n\xc2\x9b \xc3\xa9");
    memset(gathered[4].host.host_name, '\n', sizeof gathered[4].host.host_name);
    for (int rank = 0; rank < RANKS; rank++) {
        struct roster roster;
        struct roster_entry mine = gathered[rank];
        assert_int_equal(roster_open((struct bootstrap *)&gathered, rank, RANKS, config,
                                     &mine, NULL, &roster),
                         TRYST_OK);
        assert_string_equal(roster_host_name(&roster, 3),
                            "h\\x1b[2J\\x0a\\xc2\\x9b \xc3\xa9");
        assert_int_equal(strlen(roster_host_name(&roster, 4)),
                         (sizeof roster.hosts->host_name - 1) / 4 * 4);
        roster_close(&roster);
    }
}

struct row {
    const char *name;
    void (*spoil)(void);
    tryst_status status;
    const char *says[4]; /* parts of the error text */
};

static void spoil_wire(void)
{
    gathered[7].wire_version++;
}

static void spoil_count(void)
{
    gathered[7].agreed_count--;
}

static void spoil_order(void)
{
    gathered[3].byte_order = 0x04030201;
}

static void spoil_setting(void)
{
    struct config *other;
    assert_int_equal(config_open_defaults(&other), TRYST_OK);
    assert_int_equal(config_set(other, "wants_max", "77", NULL), TRYST_OK);
    config_agreed(other, gathered[5].agreed, ROSTER_DIGESTS_MAX);
    config_close(other);
}

static void spoil_prefix(void)
{
    strcpy(gathered[4].device_prefix, gathered[2].device_prefix);
}

static void spoil_nested(void)
{
    strcpy(gathered[4].device_prefix, "/job:a/replica:0/task:2/device:GPU:0");
}

static void spoil_root(void)
{
    strcpy(gathered[4].device_prefix, "/job:a");
}

static void spoil_name(void)
{
    strcpy(gathered[4].device_prefix, "x");
}

static void spoil_controls(void)
{
    strcpy(gathered[4].device_prefix, "/job:\x7f\xff");
}

static void spoil_endless(void)
{
    memset(gathered[4].device_prefix, 'x', sizeof gathered[4].device_prefix);
    memset(gathered[4].host.host_name, 'x', sizeof gathered[4].host.host_name);
    gathered[4].host.rails_count = UINT32_MAX;
}

static const struct row rows[] = {
    {"all alike", NULL, TRYST_OK, {0}},
    {"wire version",
     spoil_wire,
     TRYST_E_HANDSHAKE,
     {"rank 7", "has wire version 4", "rank 0 has 3", "install"}},
    {"number of settings",
     spoil_count,
     TRYST_E_HANDSHAKE,
     {"rank 7", "compares", "settings", "install"}},
    {"byte order", spoil_order, TRYST_E_HANDSHAKE, {"rank 3", "byte order"}},
    {"a setting",
     spoil_setting,
     TRYST_E_HANDSHAKE,
     {"TRYST_WANTS_MAX", "256 on rank 0", "77 on rank 5"}},
    {"one prefix twice",
     spoil_prefix,
     TRYST_E_GROUP,
     {"ranks 2 and 4", "/job:a/replica:0/task:2", "give each rank its own"}},
    {"a prefix inside another", spoil_nested, TRYST_E_GROUP, {"ranks 2 and 4", "GPU:0"}},
    {"a prefix over all", spoil_root, TRYST_E_GROUP, {"ranks 4 and 0"}},
    {"a prefix that no key has",
     spoil_name,
     TRYST_E_GROUP,
     {"rank 4", "invalid device prefix: \"x\"", "expected \"/job:NAME\"", "whole parts"}},
    {"a prefix of control characters",
     spoil_controls,
     TRYST_E_GROUP,
     {"rank 4", "/job:\\x7f\\xff"}},
    {"text without an end",
     spoil_endless,
     TRYST_E_GROUP,
     {"rank 4", "xxx", "expected \"/job:NAME\""}},
};

static void test_verdicts(void **state)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[ERR_TEXT_BYTES];
        struct roster_entry before[RANKS];
        memcpy(before, gathered, sizeof before);
        if (rows[i].spoil)
            rows[i].spoil();
        tryst_status status = open_all(text, sizeof text);
        if (status != rows[i].status)
            fail_msg("%s: %d, %s", rows[i].name, status, text);
        for (int j = 0; j < 4 && rows[i].says[j]; j++)
            if (!strstr(text, rows[i].says[j]))
                fail_msg("%s: \"%s\" does not say \"%s\"", rows[i].name, text,
                         rows[i].says[j]);
        memcpy(gathered, before, sizeof before);
    }
}

/* ---- cost -------------------------------------------------------------------------- */

static uint64_t compared;

bool __real_device_name_covers(tryst_view prefix, tryst_view device);
bool __wrap_device_name_covers(tryst_view prefix, tryst_view device);
int __real_device_name_compare(tryst_view a, tryst_view b);
int __wrap_device_name_compare(tryst_view a, tryst_view b);

bool __wrap_device_name_covers(tryst_view prefix, tryst_view device)
{
    compared++;
    return __real_device_name_covers(prefix, device);
}

int __wrap_device_name_compare(tryst_view a, tryst_view b)
{
    compared++;
    return __real_device_name_compare(a, b);
}

/* In a large job each prefix is compared with about log(size) others, and finding a rank
 * takes as many comparisons. */
static void test_cost(void **state)
{
    enum { LOG = 12 };
    struct roster roster;
    struct roster_entry mine = gathered[0];
    many = calloc(MANY, sizeof *many);
    for (int i = 0; i < MANY; i++) {
        many[i] = base;
        snprintf(many[i].device_prefix, sizeof many[i].device_prefix,
                 "/job:a/replica:%d/task:%d", i % 8, i * 7 % MANY);
    }
    compared = 0;
    assert_int_equal(
        roster_open((struct bootstrap *)many, 0, MANY, config, &mine, NULL, &roster),
        TRYST_OK);
    assert_in_range(compared, MANY, MANY * (LOG + 2));
    for (int i = 0; i < MANY; i += 13) {
        char name[ROSTER_PREFIX_MAX + 16];
        compared = 0;
        int bytes = snprintf(name, sizeof name, "%s/device:GPU:1", many[i].device_prefix);
        assert_int_equal(roster_rank_of(&roster, name, (size_t)bytes), i);
        assert_in_range(compared, 1, 2 * (LOG + 1));
    }
    assert_int_equal(roster_rank_of(&roster, "/job:b", 6), -1);
    roster_close(&roster);
    free(many);
    many = NULL;
}

/* State the rule plainly: the first rank whose prefix covers another's, and the first
 * such other rank. */
static void covers_plain(int *first_p, int *other_p)
{
    *first_p = *other_p = -1;
    for (int i = 0; i < RANKS; i++)
        for (int j = 0; j < RANKS; j++) {
            const char *prefix = gathered[i].device_prefix;
            const char *name = gathered[j].device_prefix;
            size_t bytes = strlen(prefix);
            if (i == j || strncmp(prefix, name, bytes) != 0 ||
                (name[bytes] && name[bytes] != '/'))
                continue;
            *first_p = i;
            *other_p = j;
            return;
        }
}

/* For random prefixes, many of them equal, the verdict names the ranks that the plain
 * rule names. */
static void test_drawn(void **state)
{
    static const char *const heads[] = {"/job:a",           "/job:a-b",
                                        "/job:a.b",         "/job:a/replica:1",
                                        "/job:a/replica:1", "/job:a/replica:11"};
    uint64_t refused = 0, taken = 0;
    struct random random;
    random_seed(&random, unit_seed());
    for (int turn = 0; turn < 3000; turn++) {
        char text[ERR_TEXT_BYTES], told[32];
        int first, other;
        for (int i = 0; i < RANKS; i++) {
            const char *head = heads[random_range(&random, COUNT_OF(heads))];
            char *prefix = gathered[i].device_prefix;
            int bytes = snprintf(prefix, ROSTER_PREFIX_MAX, "%s", head);
            if (strstr(head, "replica") && random_range(&random, 64))
                snprintf(prefix + bytes, ROSTER_PREFIX_MAX - (size_t)bytes, "/task:%d",
                         (int)random_range(&random, 200));
            else if (random_range(&random, 64))
                snprintf(prefix + bytes, ROSTER_PREFIX_MAX - (size_t)bytes, "%d",
                         (int)random_range(&random, 200));
        }
        covers_plain(&first, &other);
        tryst_status status = open_all(text, sizeof text);
        snprintf(told, sizeof told, "ranks %d and %d ", first, other);
        assert_int_equal(status, first < 0 ? TRYST_OK : TRYST_E_GROUP);
        if (first >= 0 && strncmp(text, told, strlen(told)) != 0)
            fail_msg("turn %d: \"%s\", not %s", turn, text, told);
        refused += first >= 0;
        taken += first < 0;
    }
    assert_true(refused > 100 && taken > 100);
}

/* A roster of one rank: which prefixes keys can name, and which they cannot. */
static void test_prefix_names(void **state)
{
    static const struct {
        const char *prefix, *says; /* NULL: the prefix is accepted */
    } asked[] = {
        {"/job:a", NULL},
        {"/job:a/replica:1", NULL},
        {"/job:a.b-c_d/replica:0/task:12", NULL},
        {"/job:a/replica:0/task:0/device:GPU:7", NULL},
        {"/cpu:3", NULL},
        {"", "empty"},
        {"x", "expected \"/job:NAME\", at byte 0"},
        {"/", "expected \"/job:NAME\", at byte 0"},
        {"/job:a/", "expected \"/replica:N\", at byte 6"},
        {"/job:a;b", "expected \"/replica:N\", at byte 6"},
        {"/job:a/replica:0/task:0/", "expected \"/device:TYPE:ID\", at byte 23"},
        {"/job:a/replica:0/task:0;", "expected \"/device:TYPE:ID\", at byte 23"},
        {"/job:a/replica:0/task:0/device:CPU",
         "expected \"/device:TYPE:ID\", at byte 23"},
        {"/job:a/replica:0/task:0/device:CPU:0/", "trailing characters, at byte 36"},
        {"/job:a/replica:0/task:", "expected \"/task:N\", at byte 16"},
        {"/job:a/replica:0/task:2147483648", "number above 2147483647, at byte 22"},
        {"/cpu:2147483648", "number above 2147483647, at byte 5"},
    };
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        struct err err = ERR_INIT;
        struct roster roster;
        strcpy(base.device_prefix, asked[i].prefix);
        tryst_status status = roster_open(NULL, 0, 1, config, &base, &err, &roster);
        if (status == TRYST_OK)
            roster_close(&roster);
        if (status != (asked[i].says ? TRYST_E_GROUP : TRYST_OK) ||
            (asked[i].says && !strstr(err.text, asked[i].says)))
            fail_msg("\"%s\": %d, \"%s\"", asked[i].prefix, status, err.text);
    }
}

static tryst_status open_one(void)
{
    struct roster roster;
    struct roster_entry mine = gathered[0];
    tryst_status status = roster_open((struct bootstrap *)&gathered, 0, RANKS, config,
                                      &mine, NULL, &roster);
    if (status == TRYST_OK)
        roster_close(&roster);
    return status;
}

static void test_failures(void **state)
{
    WALK_ALLOCATIONS(open_one());
    uint64_t before = alloc_live_count();
    gather_status = TRYST_E_BOOTSTRAP;
    assert_int_equal(open_one(), TRYST_E_BOOTSTRAP);
    assert_int_equal(alloc_live_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fits, begin, end),
        cmocka_unit_test_setup_teardown(test_text, begin, end),
        cmocka_unit_test_setup_teardown(test_verdicts, begin, end),
        cmocka_unit_test_setup_teardown(test_cost, begin, end),
        cmocka_unit_test_setup_teardown(test_drawn, begin, end),
        cmocka_unit_test_setup_teardown(test_prefix_names, begin, end),
        cmocka_unit_test_setup_teardown(test_failures, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
