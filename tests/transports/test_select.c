/* SPDX-License-Identifier: Apache-2.0 */
/* Identities and selection, as tables of decisions; each row is checked from both
 * ends. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/config/config.h"
#include "core/os/random.h"
#include "transports/select.h"

#define SELF  (1u << TRANSPORT_SELF)
#define SHM   (1u << TRANSPORT_SHM)
#define UCX   (1u << TRANSPORT_UCX)
#define OFI   (1u << TRANSPORT_OFI)
#define ALL   (SELF | SHM | UCX | OFI)
#define USUAL (SELF | SHM | UCX)

struct row {
    const char *name;
    struct host_identity a, b;
    const char *kinds; /* expected kinds in order, separated by spaces; "": none */
    const char *says;  /* a part of the expected text where there is none */
};

/* process, host, net namespace, uid, transports, forced */
#define ID(process, host, net, user, has, force)                                      \
    {                                                                                 \
        .process_id = process, .host_id = host, .net_namespace = net, .uid = user,    \
        .transports = has, .forced = force, .pid = process, .host_name = "node" #host \
    }

#define FORCE_SELF 1
#define FORCE_SHM  2
#define FORCE_UCX  3
#define FORCE_OFI  4

static const struct row rows[] = {
    {"same process", ID(1, 1, 1, 0, USUAL, 0), ID(1, 1, 1, 0, USUAL, 0), "self shm ucx",
     ""},
    {"same process, all built", ID(1, 1, 1, 0, ALL, 0), ID(1, 1, 1, 0, ALL, 0),
     "self shm ucx ofi", ""},
    {"same host", ID(1, 1, 1, 0, USUAL, 0), ID(2, 1, 1, 0, USUAL, 0), "shm ucx", ""},
    {"same host, one without ucx", ID(1, 1, 1, 0, USUAL, 0),
     ID(2, 1, 1, 0, SELF | SHM, 0), "shm", ""},
    {"other host", ID(1, 1, 1, 0, USUAL, 0), ID(2, 2, 2, 0, USUAL, 0), "ucx", ""},
    {"other host, both ofi too", ID(1, 1, 1, 0, ALL, 0), ID(2, 2, 2, 0, ALL, 0),
     "ucx ofi", ""},
    {"other host, ofi alone", ID(1, 1, 1, 0, SELF | SHM | OFI, 0), ID(2, 2, 2, 0, ALL, 0),
     "ofi", ""},
    {"other host, one without ucx", ID(1, 1, 1, 0, SELF | SHM, 0),
     ID(2, 2, 2, 0, USUAL, 0), "", "pid 1 on node1 lacks the ucx module"},
    {"host id claims one host, other network namespace", ID(1, 7, 1, 0, USUAL, 0),
     ID(2, 7, 2, 0, USUAL, 0), "ucx", ""},
    {"host id splits one host", ID(1, 7, 1, 0, USUAL, 0), ID(2, 8, 1, 0, USUAL, 0), "ucx",
     ""},
    {"host id splits one process", ID(1, 7, 1, 0, USUAL, 0), ID(1, 8, 1, 0, USUAL, 0),
     "ucx", ""},
    {"other user", ID(1, 1, 1, 1000, USUAL, 0), ID(2, 1, 1, 1001, USUAL, 0), "ucx", ""},
    {"other user, no ucx", ID(1, 1, 1, 1000, SELF | SHM, 0),
     ID(2, 1, 1, 1001, SELF | SHM, 0), "", "(other user or namespace)"},
    {"ucx forced", ID(1, 1, 1, 0, USUAL, FORCE_UCX), ID(1, 1, 1, 0, USUAL, FORCE_UCX),
     "ucx", ""},
    {"shm forced in one process", ID(1, 1, 1, 0, USUAL, FORCE_SHM),
     ID(1, 1, 1, 0, USUAL, FORCE_SHM), "shm", ""},
    {"forced by one end", ID(1, 1, 1, 0, USUAL, FORCE_UCX), ID(2, 1, 1, 0, USUAL, 0),
     "ucx", ""},
    {"forced unlike", ID(1, 1, 1, 0, USUAL, FORCE_UCX), ID(2, 1, 1, 0, USUAL, FORCE_SHM),
     "", "set it alike"},
    {"self forced between processes", ID(1, 1, 1, 0, USUAL, FORCE_SELF),
     ID(2, 1, 1, 0, USUAL, FORCE_SELF), "", "one process only"},
    {"shm forced between hosts", ID(1, 1, 1, 0, USUAL, FORCE_SHM),
     ID(2, 2, 2, 0, USUAL, FORCE_SHM), "", "needs one host, these are node"},
    {"shm forced across network namespaces", ID(1, 7, 1, 0, USUAL, FORCE_SHM),
     ID(2, 7, 2, 0, USUAL, FORCE_SHM), "", "one network namespace on node7"},
    {"ucx forced, not built", ID(1, 1, 1, 0, USUAL, FORCE_UCX),
     ID(2, 1, 1, 0, SELF | SHM, FORCE_UCX), "", "pid 2 on node1 lacks ucx"},
    {"ofi forced", ID(1, 1, 1, 0, ALL, FORCE_OFI), ID(1, 1, 1, 0, ALL, 0), "ofi", ""},
    {"ofi forced, not built", ID(1, 1, 1, 0, ALL, FORCE_OFI),
     ID(2, 1, 1, 0, USUAL, FORCE_OFI), "", "pid 2 on node1 lacks ofi"},
    {"a transport of a later version", ID(1, 1, 1, 0, USUAL, 9), ID(2, 1, 1, 0, USUAL, 0),
     "", "unknown here"},
};

static const char *candidates_text(const struct host_identity *a,
                                   const struct host_identity *b, char *says, char *text)
{
    enum transport_kind kinds[TRANSPORT_KINDS];
    int count = select_candidates(a, b, kinds, says);
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (i)
            strcat(text, " ");
        strcat(text, transport_kind_name(kinds[i]));
    }
    return text;
}

static void test_candidates(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        char text[64], says[TRANSPORT_TEXT_MAX], says_back[TRANSPORT_TEXT_MAX];
        if (strcmp(candidates_text(&row->a, &row->b, says, text), row->kinds) != 0)
            fail_msg("%s: \"%s\", not \"%s\"", row->name, text, row->kinds);
        if (strcmp(candidates_text(&row->b, &row->a, says_back, text), row->kinds) != 0)
            fail_msg("%s, from the other end: \"%s\"", row->name, text);
        if (!strstr(says, row->says) || !strstr(says_back, row->says))
            fail_msg("%s: the texts are \"%s\" and \"%s\"", row->name, says, says_back);
        if (strlen(says) > TRANSPORT_TEXT_MAX - 2)
            fail_msg("%s: \"%s\" was cut", row->name, says);
    }
}

/* With the longest names every text still fits and is terminated. */
static void test_texts_fit(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct host_identity a = rows[i].a, b = rows[i].b;
        char text[64], says[TRANSPORT_TEXT_MAX];
        memset(a.host_name, 'x', sizeof a.host_name - 1);
        memset(b.host_name, 'y', sizeof b.host_name - 1);
        a.pid = b.pid = 4194303;
        memset(says, '#', sizeof says);
        candidates_text(&a, &b, says, text);
        if (!memchr(says, '\0', sizeof says) || strlen(says) > TRANSPORT_TEXT_MAX - 2)
            fail_msg("%s: \"%.*s\" was cut", rows[i].name, (int)sizeof says, says);
    }
}

static struct host_identity identity_random(struct random *random)
{
    struct host_identity identity = {
        .process_id = 1 + random_range(random, 2),
        .host_id = 1 + random_range(random, 2),
        .net_namespace = 1 + random_range(random, 2),
        .uid = (uint32_t)random_range(random, 2),
        .transports = SELF | (uint32_t)random_range(random, 16),
        .forced = (uint32_t)random_range(random, 5),
        .link.listener_id = random_u64(random),
    };
    return identity;
}

static uint64_t seed_get(void)
{
    const char *text = getenv("TRYST_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20;
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static void test_both_ends_agree(void **state)
{
    struct random random;
    random_seed(&random, seed_get());
    for (int i = 0; i < 20000; i++) {
        struct host_identity a = identity_random(&random), b = identity_random(&random);
        char ab[64], ba[64], says[TRANSPORT_TEXT_MAX], says_back[TRANSPORT_TEXT_MAX];
        candidates_text(&a, &b, says, ab);
        candidates_text(&b, &a, says_back, ba);
        assert_string_equal(ab, ba);
        assert_int_equal(ab[0] == '\0', says[0] != '\0');
    }
}

/* Neighbours in a chain, and the leaves of a star at either end of the ranks, get
 * different numbers. */
static void test_pair_numbers(void **state)
{
    for (int32_t n = 2; n < 16; n++) {
        uint32_t odd[3] = {0, 0, 0};
        for (int32_t i = 0; i < n; i++) {
            assert_int_equal(select_pair_number(i, i + 1), select_pair_number(i + 1, i));
            odd[0] += select_pair_number(i, i + 1) % 2;
            odd[1] += select_pair_number(0, i + 1) % 2;
            odd[2] += select_pair_number(n, i) % 2;
        }
        for (int i = 0; i < 3; i++)
            assert_in_range(odd[i], n / 2 - 1, (n + 1) / 2 + 1);
        assert_true(select_pair_number(n, n - 1) % 2 != select_pair_number(n, n + 1) % 2);
    }
}

static struct config *config_make(const char *host_id, const char *transport)
{
    struct config *config;
    struct err err = ERR_INIT;
    assert_int_equal(config_open_defaults(&config), TRYST_OK);
    assert_int_equal(config_set(config, "host_id", host_id, &err), TRYST_OK);
    assert_int_equal(config_set(config, "transport", transport, &err), TRYST_OK);
    return config;
}

static struct host_identity local_get(const char *host_id, const char *transport)
{
    struct host_identity identity;
    struct config *config = config_make(host_id, transport);
    assert_int_equal(identity_local(config, USUAL, &identity), TRYST_OK);
    config_close(config);
    return identity;
}

static void test_local(void **state)
{
    struct host_identity a = local_get("", "auto"), b = local_get("", "shm");
    struct host_identity red = local_get("red", "auto"), blue = local_get("blue", "auto");
    assert_int_equal(a.pid, getpid());
    assert_int_equal(a.uid, geteuid());
    assert_int_equal(a.transports, USUAL);
    assert_int_equal(a.forced, 0);
    assert_int_equal(b.forced, 1 + TRANSPORT_SHM);
    assert_int_equal(a.host_id_set, 0);
    assert_int_equal(red.host_id_set, 1);
    assert_true(a.process_id != 0 && a.pid_namespace != 0 && a.host_name[0]);
    assert_true(identity_same_process(&a, &b) && identity_same_host(&a, &b));
    assert_true(identity_unix_reaches(&a, &b));
    assert_true(identity_same_process(&red, &blue));
    assert_false(identity_same_host(&red, &blue) || identity_same_host(&a, &red));
    assert_true(a.net_namespace == red.net_namespace);
}

/* Linux allows host names of 64 characters. */
static void test_longest_name(void **state)
{
    char name[65];
    int status;
    memset(name, 'h', 64);
    name[64] = '\0';
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (unshare(CLONE_NEWUTS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0)
            _exit(77);
        if (sethostname(name, 64) != 0)
            _exit(77);
        struct host_identity own = local_get("", "auto");
        _exit(strcmp(own.host_name, name) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        print_message("left out: no namespace of host names is permitted here\n");
    else
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* Where /proc does not show the network namespace, the names decide: whole ones, and a
 * host without a name is no other host. */
static void test_names_without_proc(void **state)
{
    struct host_identity a = {.process_id = 1, .host_id = 1, .net_namespace = 1};
    struct host_identity b = {.process_id = 2, .host_id = 2, .net_namespace = 2};
    char kinds[64], says[TRANSPORT_TEXT_MAX];
    assert_false(identity_same_network(&a, &b));
    memset(a.host_name, 'h', 64);
    memset(b.host_name, 'h', 64);
    assert_true(identity_same_network(&a, &b));
    a.host_name[63] = '1';
    b.host_name[63] = '2';
    assert_false(identity_same_network(&a, &b));
    a.forced = b.forced = 1 + TRANSPORT_SHM;
    a.transports = b.transports = USUAL;
    candidates_text(&a, &b, says, kinds);
    if (!strstr(says, "h1 and ") || !strstr(says, "h2:"))
        fail_msg("the names in \"%s\" are equal", says);
}

/* A child is another process on the same host, and so is its sibling. */
static void test_forked(void **state)
{
    struct host_identity parent = local_get("", "auto"), child[2];
    for (int i = 0; i < 2; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct host_identity own = local_get("", "auto"),
                                 again = local_get("", "auto");
            bool good = identity_same_process(&own, &again) &&
                        write(ends[1], &own, sizeof own) == (ssize_t)sizeof own;
            _exit(good ? 0 : 1);
        }
        int exited;
        assert_int_equal(waitpid(pid, &exited, 0), pid);
        assert_int_equal(exited, 0);
        assert_int_equal(read(ends[0], &child[i], sizeof child[i]), sizeof child[i]);
        assert_int_equal(child[i].pid, pid);
        assert_false(identity_same_process(&parent, &child[i]));
        assert_true(identity_same_host(&parent, &child[i]));
        close(ends[0]);
        close(ends[1]);
    }
    assert_false(identity_same_process(&child[0], &child[1]));
}

static void test_names(void **state)
{
    assert_string_equal(transport_kind_name(TRANSPORT_SELF), "self");
    assert_string_equal(transport_kind_name(TRANSPORT_OFI), "ofi");
    assert_string_equal(transport_kind_name(TRANSPORT_KINDS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_texts_fit),
        cmocka_unit_test(test_both_ends_agree),
        cmocka_unit_test(test_pair_numbers),
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_longest_name),
        cmocka_unit_test(test_names_without_proc),
        cmocka_unit_test(test_forked),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
