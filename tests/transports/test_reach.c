/* SPDX-License-Identifier: Apache-2.0 */
/* Table: in which ways a rank is dialled, and in which order. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transports/reach.h"

enum { ADDRESSES_MAX = 4 };

struct rank_case {
    uint64_t network; /* 0: unknown */
    const char *host; /* name of the host */
    /* for example "10.0.0.1/24", "10.8.0.1/24 tunnel", "10.0.1.1/24 1000" (Mbit/s) */
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
         host.rails_count++) {
        const char *text = from->rails[host.rails_count];
        const char *more = strchr(text, ' ');
        struct rail_address *rail = &host.rails[host.rails_count];
        ip_read(text, &rail->family, rail->ip, &rail->prefix_bits);
        rail->flags = more && strcmp(more, " tunnel") == 0 ? RAIL_TUNNEL : 0;
        rail->speed_mbit_per_s = more ? (uint32_t)strtoul(more, NULL, 10) : 0;
    }
    if (host.rails_count) {
        ip_read(from->rails[0], &host.link.family, host.link.ip, &bits);
        host.link.port = 4567;
        host.link.scope = 99;
    }
    return host;
}

/* Format the attempts, for example "0>10.0.0.1 10.0.0.1 fe80::1%2": the rail to which the
 * socket is bound, the address, and the scope of a link-local one. */
static void attempts_text(const struct host_identity *mine,
                          const struct host_identity *theirs, uint32_t turn,
                          const struct reach_scopes *scopes, char *text, size_t bytes)
{
    struct reach_way way;
    const char *why = NULL;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < 100 && reach_way(mine, theirs, turn, scopes, i, &way, &why);
         i++) {
        char ip[64];
        assert_int_equal(way.address.port, 4567);
        inet_ntop(way.address.family == 6 ? AF_INET6 : AF_INET, way.address.ip, ip,
                  sizeof ip);
        used += (size_t)snprintf(text + used, bytes - used, "%s", i ? " " : "");
        if (way.rail >= 0)
            used += (size_t)snprintf(text + used, bytes - used, "%d>", way.rail);
        used += (size_t)snprintf(text + used, bytes - used, "%s", ip);
        if (strncmp(ip, "fe80", 4) == 0)
            used +=
                (size_t)snprintf(text + used, bytes - used, "%%%u", way.address.scope);
    }
    if (!text[0])
        (void)snprintf(text, bytes, "(%s)", why);
}

static const struct {
    const char *name;
    struct rank_case mine, theirs;
    uint32_t turn;
    uint32_t scopes;
    const char *dialled;
} table[] = {
    {"a subnet",
     {1, "a", {"10.0.0.1/24"}},
     {2, "b", {"10.0.0.2/24"}},
     0,
     0,
     "0>10.0.0.2"},
    {"a subnet before the announced address",
     {1, "a", {"10.0.0.1/24"}},
     {2, "b", {"10.9.0.2/24", "10.0.0.2/24"}},
     0,
     0,
     "0>10.0.0.2 10.9.0.2"},
    {"no subnet", {1, "a", {"10.0.0.1/24"}}, {2, "b", {"10.9.0.2/24"}}, 0, 0, "10.9.0.2"},
    {"the longer prefix first",
     {1, "a", {"10.0.0.1/8", "10.9.0.1/24"}},
     {2, "b", {"10.1.0.2/8", "10.9.0.2/24"}},
     0,
     0,
     "1>10.9.0.2 0>10.1.0.2 10.1.0.2 10.9.0.2"},
    {"the faster first; unknown speeds last",
     {1, "a", {"10.1.0.1/24 1000", "10.2.0.1/16 100000", "10.3.0.1/24"}},
     {2, "b", {"10.3.0.2/24 1000", "10.2.0.2/16 100000", "10.1.0.2/24 1000"}},
     0,
     0,
     "1>10.2.0.2 0>10.1.0.2 2>10.3.0.2 10.3.0.2 10.2.0.2 10.1.0.2"},
    {"IPv4 before IPv6, whose prefixes are longer",
     {1, "a", {"fd00::1/64", "10.0.0.1/24"}},
     {2, "b", {"10.0.0.2/24", "fd00::2/64"}},
     1,
     0,
     "1>10.0.0.2 0>fd00::2"},
    {"prefix inside a byte: same",
     {1, "a", {"10.0.16.1/20"}},
     {2, "b", {"10.0.31.2/20"}},
     0,
     0,
     "0>10.0.31.2"},
    {"prefix inside a byte: other",
     {1, "a", {"10.0.16.1/20"}},
     {2, "b", {"10.0.32.2/20"}},
     0,
     0,
     "10.0.32.2"},
    {"equally good rails: turn 0",
     {1, "a", {"10.0.0.1/24", "10.0.1.1/24"}},
     {2, "b", {"10.0.0.2/24", "10.0.1.2/24"}},
     0,
     0,
     "0>10.0.0.2 1>10.0.1.2 10.0.0.2 10.0.1.2"},
    {"equally good rails: turn 1",
     {1, "a", {"10.0.0.1/24", "10.0.1.1/24"}},
     {2, "b", {"10.0.0.2/24", "10.0.1.2/24"}},
     1,
     0,
     "1>10.0.1.2 0>10.0.0.2 10.0.0.2 10.0.1.2"},
    {"twins in one subnet",
     {1, "a", {"10.0.0.1/24", "10.0.0.2/24"}},
     {2, "b", {"10.0.0.3/24"}},
     0,
     0,
     "0>10.0.0.3 1>10.0.0.3 10.0.0.3"},
    {"an address that both hosts have",
     {1, "a", {"10.4.0.1/24", "10.0.0.1/24"}},
     {2, "b", {"10.4.0.1/24", "10.0.0.2/24"}},
     0,
     0,
     "1>10.0.0.2 10.0.0.2"},
    {"nothing else",
     {1, "a", {"10.4.0.1/24"}},
     {2, "b", {"10.4.0.1/24"}},
     0,
     0,
     "(both hosts announced the same addresses and no others)"},
    {"IPv4 link-local alone",
     {1, "a", {"169.254.3.1/16"}},
     {2, "b", {"169.254.9.2/16"}},
     0,
     0,
     "0>169.254.9.2"},
    {"IPv4 link-local last",
     {1, "a", {"169.254.3.1/16", "10.0.0.1/31"}},
     {2, "b", {"169.254.9.2/16", "10.0.1.1/31"}},
     0,
     0,
     "10.0.1.1 0>169.254.9.2"},
    {"tunnels last",
     {1, "a", {"10.0.0.1/31", "10.8.0.1/24 tunnel"}},
     {2, "b", {"10.8.0.2/24 tunnel", "10.0.1.1/31"}},
     0,
     0,
     "10.0.1.1 10.8.0.2"},
    {"one family in common",
     {1, "a", {"10.0.0.1/24", "fd00::1/64"}},
     {2, "b", {"fd00::2/64"}},
     0,
     0,
     "1>fd00::2"},
    {"a family that is not here",
     {1, "a", {"fd00::1/64"}},
     {2, "b", {"10.0.0.2/24", "fd00::2/64"}},
     0,
     0,
     "0>fd00::2"},
    {"no family in common",
     {1, "a", {"fd00::1/64"}},
     {2, "b", {"10.0.0.2/24"}},
     0,
     0,
     "(the peer announced no address of a family that this rank has)"},
    {"addresses on lo",
     {1, "a", {"10.0.0.1/32"}},
     {2, "b", {"10.0.0.2/32"}},
     0,
     0,
     "10.0.0.2"},
    {"no address",
     {1, "a", {"10.0.0.1/24"}},
     {2, "b", {NULL}},
     0,
     0,
     "(the peer announced no address)"},
    {"loopback alone",
     {1, "a", {"127.0.0.1/8"}},
     {2, "b", {"127.0.0.1/8"}},
     0,
     0,
     "(the peer announced only loopback, and runs on another host)"},
    {"IPv6 loopback alone",
     {1, "a", {"::1/128"}},
     {2, "b", {"::1/128"}},
     0,
     0,
     "(the peer announced only loopback, and runs on another host)"},
    {"loopback beside a subnet",
     {1, "a", {"127.0.0.1/8", "10.0.0.1/24"}},
     {2, "b", {"127.0.0.1/8", "10.0.0.2/24"}},
     0,
     0,
     "1>10.0.0.2 10.0.0.2"},
    {"IPv6 link-local",
     {1, "a", {"fe80::1/64"}},
     {2, "b", {"fe80::2/64"}},
     0,
     1,
     "fe80::2%10"},
    {"IPv6 link-local, pairs",
     {1, "a", {"fe80::1/64"}},
     {2, "b", {"fe80::2/64", "fe80::3/64"}},
     0,
     2,
     "fe80::2%10 fe80::3%11 fe80::2%11 fe80::3%10"},
    {"IPv6 link-local there alone",
     {1, "a", {"10.0.0.1/24"}},
     {2, "b", {"fe80::2/64"}},
     0,
     0,
     "(the peer announced an IPv6 link-local address, and no interface here has "
     "one)"},
    {"a prefix that is too wide",
     {1, "a", {"10.0.0.1/200"}},
     {2, "b", {"10.0.0.2/200"}},
     0,
     0,
     "10.0.0.2"},
    {"one network namespace: loopback",
     {1, "a", {"127.0.0.1/8"}},
     {1, "a", {"127.0.0.1/8"}},
     0,
     0,
     "0>127.0.0.1"},
    {"one network namespace: its address",
     {1, "a", {"10.0.0.1/24"}},
     {1, "a", {"10.0.0.1/24"}},
     0,
     0,
     "0>10.0.0.1"},
    {"one network namespace: link-local",
     {1, "a", {"fe80::1/64"}},
     {1, "a", {"fe80::1/64"}},
     0,
     1,
     "fe80::1%99"},
    {"unknown namespaces, one name",
     {0, "a", {"127.0.0.1/8"}},
     {0, "a", {"127.0.0.1/8"}},
     0,
     0,
     "0>127.0.0.1"},
    {"unknown namespaces, two names",
     {0, "a", {"127.0.0.1/8"}},
     {0, "b", {"127.0.0.1/8"}},
     0,
     0,
     "(the peer announced only loopback, and runs on another host)"},
};

static void test_ways(void **state)
{
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const struct reach_scopes scopes = {.ids = {10, 11}, .count = table[i].scopes};
        const struct host_identity mine = identity(&table[i].mine, 100),
                                   theirs = identity(&table[i].theirs, 101);
        char text[256];
        attempts_text(&mine, &theirs, table[i].turn, &scopes, text, sizeof text);
        if (strcmp(text, table[i].dialled) != 0)
            fail_msg("%s: %s, not %s", table[i].name, text, table[i].dialled);
    }
}

/* Identities are read from the wire: counts and families beyond their ranges. */
static void test_hostile(void **state)
{
    const struct rank_case here = {1, "a", {"10.0.0.1/24"}};
    const struct host_identity mine = identity(&here, 100);
    const struct reach_scopes scopes = {.count = 0};
    struct host_identity theirs = {.process_id = 9,
                                   .net_namespace = 9,
                                   .rails_count = UINT32_MAX,
                                   .link.family = 77};
    struct reach_way way;
    const char *why = NULL;
    memset(theirs.rails, 0xff, sizeof theirs.rails);
    assert_false(reach_way(&mine, &theirs, UINT32_MAX, &scopes, 0, &way, &why));
    assert_non_null(why);
    assert_int_equal(reach_rail_near(&mine, &theirs), 0);
}

/* The local address of a link decides on the rail; an address that is no rail's, on the
 * first one of its family. */
static void test_rail_of_a_link(void **state)
{
    const struct rank_case here = {1, "a", {"10.0.0.1/24", "fd00::1/64", "10.0.1.1/24"}};
    const struct rank_case there = {1, "a", {"fd00::1/64"}};
    const struct host_identity mine = identity(&here, 100), near = identity(&there, 101);
    struct link_address local = {.family = 4, .ip = {10, 0, 1, 1}};
    assert_int_equal(reach_rail(&mine, &local), 2);
    local.ip[3] = 7;
    assert_int_equal(reach_rail(&mine, &local), 0);
    local.family = 6;
    assert_int_equal(reach_rail(&mine, &local), 1);
    assert_int_equal(reach_rail_near(&mine, &near), 1);
    assert_int_equal(reach_rail_near(&mine, &mine), 0);
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
    struct reach_way way;
    const char *why;
    for (uint32_t i = 0; i < count * scopes.count; i++) {
        assert_true(reach_way(&mine, &theirs, 0, &scopes, i, &way, &why));
        const struct link_address at = way.address;
        if (dialled[at.ip[15] - 1][at.scope])
            fail_msg("%u addresses, %u scopes: attempt %u repeats fe80::%u%%%u", count,
                     scopes.count, i, at.ip[15], at.scope);
        dialled[at.ip[15] - 1][at.scope] = true;
    }
    assert_false(reach_way(&mine, &theirs, 0, &scopes, count * scopes.count, &way, &why));
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_rail_of_a_link), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_scopes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
