/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses at which a rank's listener can be dialled from here.
 *
 * Idea: a pure function of both identities, so it is tested as a table. An address in a
 * common subnet is preferred to the announced one. Two kinds of addresses are not unique
 * to one host: loopback, which is dialled within one network namespace only, and IPv6
 * link-local, which needs the scope of an interface here. It is unknown which interface
 * here shares a wire with which one there, so the pairs of interfaces are tried one by
 * one.
 */
#include "reach.h"

#include <netinet/in.h>
#include <string.h>

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

static bool is_loopback(uint8_t family, const uint8_t *ip)
{
    static const uint8_t loopback6[16] = {[15] = 1};
    return family == 4 ? ip[0] == 127 : family == 6 && memcmp(ip, loopback6, 16) == 0;
}

static bool is_link_local(uint8_t family, const uint8_t *ip)
{
    return family == 6 && ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

/* Choose pair number `attempt` of a link-local address there and a scope here; the first
 * address and the first scope are pair 0. Each round dials every address once; from round
 * to round each address takes the next scope, so the rounds dial all pairs. False: there
 * are fewer pairs. */
static bool link_local_pair(const struct host_identity *theirs,
                            const struct reach_scopes *scopes, uint32_t attempt,
                            struct link_address *address)
{
    const struct rail_address *at[LINK_TCP_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < theirs->rails_count && i < LINK_TCP_MAX; i++)
        if (is_link_local(theirs->rails[i].family, theirs->rails[i].ip))
            at[count++] = &theirs->rails[i];
    if (!count || !scopes->count || attempt >= count * scopes->count)
        return false;
    address->scope = scopes->ids[(attempt % count + attempt / count) % scopes->count];
    memcpy(address->ip, at[attempt % count]->ip, sizeof address->ip);
    return true;
}

bool reach_address(const struct host_identity *mine, const struct host_identity *theirs,
                   uint32_t turn, const struct reach_scopes *scopes, uint32_t attempt,
                   struct link_address *address_p, const char **why_p)
{
    uint32_t my_rail, their_rail;
    *address_p = theirs->link;
    *why_p = "the peer announced no address";
    if (!address_p->family)
        return false;
    bool here = identity_same_network(mine, theirs);
    if (select_rails(mine, theirs, turn, &my_rail, &their_rail) &&
        (here ||
         !is_loopback(theirs->rails[their_rail].family, theirs->rails[their_rail].ip))) {
        address_p->family = theirs->rails[their_rail].family;
        memcpy(address_p->ip, theirs->rails[their_rail].ip, sizeof address_p->ip);
    }
    *why_p = "the peer announced only loopback, and runs on another host";
    if (is_loopback(address_p->family, address_p->ip))
        return here && attempt == 0;
    if (here || !is_link_local(address_p->family, address_p->ip))
        return attempt == 0;
    *why_p =
        "the peer announced an IPv6 link-local address, and no interface here has one";
    return link_local_pair(theirs, scopes, attempt, address_p);
}
