/* SPDX-License-Identifier: Apache-2.0 */
/* Table: which addresses of a rank are dialled, and in which order. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "transports/reach.h"

enum { ADDRESSES_MAX = 4 };

struct rank_case {
    uint64_t network; /* 0: unknown */
    const char *host; /* name of the host */
    /* for example "10.0.0.1/24"; the first is announced */
    const char *rails[ADDRESSES_MAX];
};

static void ip_read(const char *text, uint8_t *family_p, uint8_t ip[16],
                    uint8_t *prefix_bits_p)
{
    char address[64];
    unsigned bits = 0;
    assert_int_equal(sscanf(text, "%63[^/]/%u", address, &bits), 2);
    *family_p = strchr(address, ':') ? 6 : 4;
    *prefix_bits_p = (uint8_t)bits;
    assert_int_equal(inet_pton(*family_p == 6 ? AF_INET6 : AF_INET, address, ip), 1);
}

static struct host_identity identity(const struct rank_case *from, uint64_t process_id)
{
    struct host_identity host = {.process_id = process_id};
    uint8_t bits;
    host.net_namespace = from->network ? from->network : process_id;
    host.host_id = host.net_namespace;
    (void)snprintf(host.host_name, sizeof host.host_name, "%s", from->host);
    for (; host.rails_count < ADDRESSES_MAX && from->rails[host.rails_count];
         host.rails_count++)
        ip_read(from->rails[host.rails_count], &host.rails[host.rails_count].family,
                host.rails[host.rails_count].ip,
                &host.rails[host.rails_count].prefix_bits);
    if (host.rails_count) {
        ip_read(from->rails[0], &host.link.family, host.link.ip, &bits);
        host.link.port = 4567;
        host.link.scope = 99;
    }
    return host;
}

/* Format the attempts, for example "10.0.0.1 fe80::1%2": addresses with the scope of
 * link-local ones. */
static void attempts_text(const struct host_identity *mine,
                          const struct host_identity *theirs,
                          const struct reach_scopes *scopes, char *text, size_t bytes)
{
    struct link_address at;
    const char *why = NULL;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < 100 && reach_address(mine, theirs, 0, scopes, i, &at, &why);
         i++) {
        char ip[64];
        assert_int_equal(at.port, 4567);
        inet_ntop(at.family == 6 ? AF_INET6 : AF_INET, at.ip, ip, sizeof ip);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? " " : "", ip);
        if (strncmp(ip, "fe80", 4) == 0)
            used += (size_t)snprintf(text + used, bytes - used, "%%%u", at.scope);
    }
    if (!text[0])
        (void)snprintf(text, bytes, "(%s)", why);
}

static void test_addresses(void **state)
{
    static const struct {
        struct rank_case mine, theirs;
        uint32_t scopes;
        const char *dialled;
    } table[] = {
        /* other hosts */
        {{1, "a", {"10.0.0.1/24"}}, {2, "b", {"10.0.0.2/24"}}, 0, "10.0.0.2"},
        {{1, "a", {"10.0.0.1/24"}},
         {2, "b", {"10.9.0.2/24", "10.0.0.2/24"}},
         0,
         "10.0.0.2"},
        {{1, "a", {"10.0.0.1/24"}}, {2, "b", {"10.9.0.2/24"}}, 0, "10.9.0.2"},
        {{1, "a", {"10.0.0.1/24"}},
         {2, "b", {NULL}},
         0,
         "(the peer announced no address)"},
        {{1, "a", {"127.0.0.1/8"}},
         {2, "b", {"127.0.0.1/8"}},
         0,
         "(the peer announced only loopback, and runs on another host)"},
        {{1, "a", {"::1/128"}},
         {2, "b", {"::1/128"}},
         0,
         "(the peer announced only loopback, and runs on another host)"},
        {{1, "a", {"fe80::1/64"}}, {2, "b", {"fe80::2/64"}}, 1, "fe80::2%10"},
        {{1, "a", {"fe80::1/64"}},
         {2, "b", {"fe80::2/64", "fe80::3/64"}},
         2,
         "fe80::2%10 fe80::3%11 fe80::2%11 fe80::3%10"},
        {{1, "a", {"10.0.0.1/24"}},
         {2, "b", {"fe80::2/64"}},
         0,
         "(the peer announced an IPv6 link-local address, and no interface here has "
         "one)"},
        /* one network namespace */
        {{1, "a", {"127.0.0.1/8"}}, {1, "a", {"127.0.0.1/8"}}, 0, "127.0.0.1"},
        {{1, "a", {"fe80::1/64"}}, {1, "a", {"fe80::1/64"}}, 1, "fe80::1%99"},
        /* unknown namespaces */
        {{0, "a", {"127.0.0.1/8"}}, {0, "a", {"127.0.0.1/8"}}, 0, "127.0.0.1"},
        {{0, "a", {"127.0.0.1/8"}},
         {0, "b", {"127.0.0.1/8"}},
         0,
         "(the peer announced only loopback, and runs on another host)"},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const struct reach_scopes scopes = {.ids = {10, 11}, .count = table[i].scopes};
        const struct host_identity mine = identity(&table[i].mine, 100),
                                   theirs = identity(&table[i].theirs, 101);
        char text[256];
        attempts_text(&mine, &theirs, &scopes, text, sizeof text);
        if (strcmp(text, table[i].dialled) != 0)
            fail_msg("row %zu: %s, not %s", i, text, table[i].dialled);
    }
}

static struct host_identity link_local_host(uint32_t count)
{
    const struct rank_case first = {2, "b", {"fe80::1/64"}};
    struct host_identity host = identity(&first, 101);
    for (; host.rails_count < count; host.rails_count++) {
        host.rails[host.rails_count] = host.rails[0];
        host.rails[host.rails_count].ip[15] = (uint8_t)(host.rails_count + 1);
    }
    return host;
}

/* Each of `count` link-local addresses is dialled once with each of the scopes. */
static void pairs_check(uint32_t count, struct reach_scopes scopes)
{
    const struct rank_case here = {1, "a", {"fe80::99/64"}};
    const struct host_identity mine = identity(&here, 100),
                               theirs = link_local_host(count);
    bool dialled[LINK_TCP_MAX][LINK_TCP_MAX] = {{false}};
    struct link_address at;
    const char *why;
    for (uint32_t i = 0; i < count * scopes.count; i++) {
        assert_true(reach_address(&mine, &theirs, 0, &scopes, i, &at, &why));
        if (dialled[at.ip[15] - 1][at.scope])
            fail_msg("%u addresses, %u scopes: attempt %u repeats fe80::%u%%%u", count,
                     scopes.count, i, at.ip[15], at.scope);
        dialled[at.ip[15] - 1][at.scope] = true;
    }
    assert_false(
        reach_address(&mine, &theirs, 0, &scopes, count * scopes.count, &at, &why));
}

static void test_pairs(void **state)
{
    struct reach_scopes scopes = {.count = 0};
    for (uint32_t i = 0; i < LINK_TCP_MAX; i++)
        scopes.ids[i] = i;
    for (uint32_t count = 1; count <= LINK_TCP_MAX; count++)
        for (scopes.count = 1; scopes.count <= LINK_TCP_MAX; scopes.count++)
            pairs_check(count, scopes);
}

/* The scopes of the link-local addresses at which a rank listens. */
static void test_scopes(void **state)
{
    struct link_tcp tcp = {.count = 3};
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_scope_id = 7};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    inet_pton(AF_INET6, "fe80::1", &at.sin6_addr);
    memcpy(&tcp.addresses[0], &at, sizeof at);
    memcpy(&tcp.addresses[1], &v4, sizeof v4);
    inet_pton(AF_INET6, "fd00::1", &at.sin6_addr);
    memcpy(&tcp.addresses[2], &at, sizeof at);
    const struct reach_scopes scopes = reach_scopes_of(&tcp);
    assert_int_equal(scopes.count, 1);
    assert_int_equal(scopes.ids[0], 7);
    assert_int_equal(reach_scopes_of(NULL).count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses),
                                       cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_scopes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
