/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which a rank's listener can be dialled from here.
 *
 * Idea: a pure function of both identities gives an ordered list, so it is tested as a
 * table. A common prefix is a guess: bridges, tunnels and cables to a controller have the
 * same prefix on hosts that they do not join. So each way is only an attempt, the next
 * one follows (rendezvous/peer/link.c), and the connection that comes about decides on
 * which rails both ends go on (reach_rail).
 *
 * Order: rails that share a subnet, the fastest first, IPv4 before IPv6; all global
 * addresses, as the kernel's routes lead there; tunnels' addresses; IPv4 link-local; IPv6
 * link-local, for which it is unknown which interface here shares a wire with which one
 * there, so the pairs are tried one by one; loopback.
 */
#include "reach.h"

#include <netinet/in.h>
#include <string.h>

/* All pairs of link-local addresses and scopes, and as many other pairs. */
enum { WAYS_MAX = 2 * HOST_RAILS_MAX * HOST_RAILS_MAX };

struct ways {
    struct reach_way items[WAYS_MAX];
    uint32_t count;
};

/* ---- addresses --------------------------------------------------------------------- */

struct reach_scopes reach_scopes_of(const struct link_tcp *tcp)
{
    struct reach_scopes scopes = {.count = 0};
    for (unsigned i = 0; tcp && i < tcp->count; i++) {
        const struct sockaddr_in6 *at = (const void *)&tcp->addresses[i];
        if (at->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&at->sin6_addr))
            scopes.ids[scopes.count++] = at->sin6_scope_id;
    }
    return scopes;
}

static uint32_t rails_count(const struct host_identity *identity)
{
    return identity->rails_count < HOST_RAILS_MAX ? identity->rails_count
                                                  : HOST_RAILS_MAX;
}

static uint32_t ip_bytes(uint8_t family)
{
    return family == 4 ? 4 : family == 6 ? 16 : 0;
}

static bool is_at(const struct rail_address *rail, uint8_t family, const uint8_t *ip)
{
    return rail->family == family && ip_bytes(family) &&
           memcmp(rail->ip, ip, ip_bytes(family)) == 0;
}

/* The hosts that an address can reach. */
enum scope { SCOPE_NONE, SCOPE_GLOBAL, SCOPE_LINK4, SCOPE_LINK6, SCOPE_HOST };

static enum scope scope_of(const struct rail_address *rail)
{
    static const uint8_t loopback6[16] = {[15] = 1};
    const uint8_t *ip = rail->ip;
    if (rail->family == 4)
        return ip[0] == 127                   ? SCOPE_HOST
               : ip[0] == 169 && ip[1] == 254 ? SCOPE_LINK4
                                              : SCOPE_GLOBAL;
    if (rail->family != 6)
        return SCOPE_NONE;
    return memcmp(ip, loopback6, 16) == 0            ? SCOPE_HOST
           : ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80 ? SCOPE_LINK6
                                                     : SCOPE_GLOBAL;
}

/* Get the prefix, in bits, of the subnet that holds both addresses: the longer of their
 * two prefixes. -1: no subnet holds both. */
static int subnet_bits(const struct rail_address *a, const struct rail_address *b)
{
    int width = 8 * (int)ip_bytes(a->family);
    int bits = a->prefix_bits > b->prefix_bits ? a->prefix_bits : b->prefix_bits;
    if (!width || a->family != b->family || bits > width)
        return -1;
    if (memcmp(a->ip, b->ip, (size_t)bits / 8) != 0)
        return -1;
    if (bits % 8 && (a->ip[bits / 8] ^ b->ip[bits / 8]) >> (8 - bits % 8))
        return -1;
    return bits;
}

static bool has_address(const struct host_identity *host, const struct rail_address *rail)
{
    for (uint32_t i = 0; i < rails_count(host); i++)
        if (is_at(&host->rails[i], rail->family, rail->ip))
            return true;
    return false;
}

static uint32_t family_count(const struct host_identity *host, uint8_t family)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rails_count(host); i++)
        count += host->rails[i].family == family;
    return count;
}

/* ---- the list ---------------------------------------------------------------------- */

/* Two ranks, and the ways from the first to the second. */
struct reach {
    const struct host_identity *mine, *theirs;
    bool here; /* both are in one network namespace */
    struct ways ways;
};

static void way_add(struct reach *reach, int32_t rail, const struct rail_address *to,
                    uint32_t scope)
{
    if (reach->ways.count == WAYS_MAX)
        return;
    struct reach_way *way = &reach->ways.items[reach->ways.count++];
    way->rail = rail;
    way->address = reach->theirs->link;
    way->address.family = to->family;
    way->address.scope = scope;
    memcpy(way->address.ip, to->ip, sizeof way->address.ip);
}

/* A pair of rails that share a subnet. */
struct pair {
    uint32_t mine, theirs;
    uint32_t speed_mbit_per_s; /* of the slower end; 0: unknown */
    uint8_t family;            /* 4 or 6 */
    int bits;                  /* of the subnet's prefix */
};

/* Compare speed, family and prefix, in this order: a frame of 1,514 bytes has 1.4 % more
 * payload over IPv4 than over IPv6. */
static int pair_compare(const struct pair *a, const struct pair *b)
{
    if (a->speed_mbit_per_s != b->speed_mbit_per_s)
        return a->speed_mbit_per_s > b->speed_mbit_per_s ? -1 : 1;
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    return (a->bits < b->bits) - (a->bits > b->bits);
}

/* True if rails of both ends may be joined by a network of this scope. An address that
 * both hosts have leads from a host to itself. */
static bool pair_counts(const struct reach *reach, const struct rail_address *mine,
                        const struct rail_address *theirs, enum scope scope)
{
    if (scope_of(mine) != scope || scope_of(theirs) != scope)
        return false;
    if (scope == SCOPE_GLOBAL && ((mine->flags | theirs->flags) & RAIL_TUNNEL))
        return false;
    return reach->here ||
           (!has_address(reach->theirs, mine) && !has_address(reach->mine, theirs));
}

/* List the pairs that share a subnet of this scope, best first; return their number. */
static uint32_t pairs_find(const struct reach *reach, enum scope scope,
                           struct pair pairs[HOST_RAILS_MAX * HOST_RAILS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rails_count(reach->mine); i++)
        for (uint32_t j = 0; j < rails_count(reach->theirs); j++) {
            const struct rail_address *a = &reach->mine->rails[i];
            const struct rail_address *b = &reach->theirs->rails[j];
            uint32_t speed = a->speed_mbit_per_s < b->speed_mbit_per_s
                                 ? a->speed_mbit_per_s
                                 : b->speed_mbit_per_s;
            struct pair pair = {i, j, speed, a->family, subnet_bits(a, b)};
            if (pair.bits < 0 || !pair_counts(reach, a, b, scope))
                continue;
            uint32_t at = count++;
            for (; at && pair_compare(&pair, &pairs[at - 1]) < 0; at--)
                pairs[at] = pairs[at - 1];
            pairs[at] = pair;
        }
    return count;
}

/* Add the pairs that share a subnet; equally good ones take turns at the front. */
static void subnets_add(struct reach *reach, enum scope scope, uint32_t turn)
{
    struct pair pairs[HOST_RAILS_MAX * HOST_RAILS_MAX];
    uint32_t count = pairs_find(reach, scope, pairs);
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        end = begin + 1;
        while (end < count && pair_compare(&pairs[begin], &pairs[end]) == 0)
            end++;
        for (uint32_t k = 0; k < end - begin; k++) {
            const struct pair *pair = &pairs[begin + (turn + k) % (end - begin)];
            way_add(reach, (int32_t)pair->mine, &reach->theirs->rails[pair->theirs], 0);
        }
    }
}

/* True if a pair with this address is listed, and no other rail here could be its
 * other end. */
static bool is_listed(const struct reach *reach, const struct rail_address *to)
{
    for (uint32_t i = 0; i < reach->ways.count; i++)
        if (is_at(to, reach->ways.items[i].address.family,
                  reach->ways.items[i].address.ip))
            return family_count(reach->mine, to->family) == 1;
    return false;
}

/* Add the global addresses with these flags, from wherever the kernel's route leaves. */
static void routes_add(struct reach *reach, uint8_t flags)
{
    for (uint32_t j = 0; j < rails_count(reach->theirs); j++) {
        const struct rail_address *to = &reach->theirs->rails[j];
        if (scope_of(to) != SCOPE_GLOBAL || (to->flags & RAIL_TUNNEL) != flags ||
            is_listed(reach, to))
            continue;
        if (!family_count(reach->mine, to->family) && rails_count(reach->mine))
            continue;
        if (reach->here || !has_address(reach->mine, to))
            way_add(reach, -1, to, 0);
    }
}

/* Add all pairs of a link-local address there and a scope here. Each round has every
 * address once; from round to round each address takes the next scope. */
static void link_locals_add(struct reach *reach, const struct reach_scopes *scopes)
{
    const struct rail_address *at[HOST_RAILS_MAX];
    uint32_t count = 0;
    for (uint32_t j = 0; j < rails_count(reach->theirs); j++)
        if (scope_of(&reach->theirs->rails[j]) == SCOPE_LINK6)
            at[count++] = &reach->theirs->rails[j];
    for (uint32_t k = 0; !reach->here && k < count * scopes->count; k++)
        way_add(reach, -1, at[k % count],
                scopes->ids[(k % count + k / count) % scopes->count]);
    if (reach->here && count)
        way_add(reach, -1, at[0], reach->theirs->link.scope);
}

static const char *nowhere_text(const struct reach *reach)
{
    bool only_loopback = true, has_link_local = false, shared = false;
    for (uint32_t j = 0; j < rails_count(reach->theirs); j++) {
        const struct rail_address *rail = &reach->theirs->rails[j];
        only_loopback = only_loopback && scope_of(rail) == SCOPE_HOST;
        has_link_local = has_link_local || scope_of(rail) == SCOPE_LINK6;
        shared = shared || has_address(reach->mine, rail);
    }
    if (!rails_count(reach->theirs) || !reach->theirs->link.family)
        return "the peer announced no address";
    if (only_loopback)
        return "the peer announced only loopback, and runs on another host";
    if (has_link_local)
        return "the peer announced an IPv6 link-local address, and no interface here has "
               "one";
    return shared ? "both hosts announced the same addresses and no others"
                  : "the peer announced no address of a family that this rank has";
}

static void ways_find(struct reach *reach, uint32_t turn,
                      const struct reach_scopes *scopes)
{
    if (!reach->theirs->link.family)
        return;
    subnets_add(reach, SCOPE_GLOBAL, turn);
    routes_add(reach, 0);
    routes_add(reach, RAIL_TUNNEL);
    subnets_add(reach, SCOPE_LINK4, turn);
    link_locals_add(reach, scopes);
    if (reach->here)
        subnets_add(reach, SCOPE_HOST, turn);
}

bool reach_way(const struct host_identity *mine, const struct host_identity *theirs,
               uint32_t turn, const struct reach_scopes *scopes, uint32_t attempt,
               struct reach_way *way_p, const char **why_p)
{
    struct reach reach = {
        .mine = mine, .theirs = theirs, .here = identity_same_network(mine, theirs)};
    ways_find(&reach, turn, scopes);
    if (!reach.ways.count)
        *why_p = nowhere_text(&reach);
    if (attempt >= reach.ways.count)
        return false;
    *way_p = reach.ways.items[attempt];
    return true;
}

/* ---- the rail ---------------------------------------------------------------------- */

static uint32_t family_first(const struct host_identity *host, uint8_t family)
{
    for (uint32_t i = 0; i < rails_count(host); i++)
        if (host->rails[i].family == family)
            return i;
    return 0;
}

uint32_t reach_rail(const struct host_identity *mine, const struct link_address *local)
{
    for (uint32_t i = 0; i < rails_count(mine); i++)
        if (is_at(&mine->rails[i], local->family, local->ip))
            return i;
    return family_first(mine, local->family);
}

uint32_t reach_rail_near(const struct host_identity *mine,
                         const struct host_identity *theirs)
{
    for (uint32_t i = 0; i < rails_count(mine); i++)
        if (family_count(theirs, mine->rails[i].family))
            return i;
    return 0;
}
