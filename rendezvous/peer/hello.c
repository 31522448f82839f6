/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HELLO: who is at the other end of a link.
 *
 * Invariant: nothing of a link is believed before its HELLO has shown cookie, rank and incarnation.
 * Callers: link.c (connections of ours), accept.c (those of others).
 */
#include "hello.h"

#include <string.h>

#include "messages.h"
#include "rendezvous/op/engine.h"

void hello_send(struct peer *peer, struct link *link)
{
    const struct tryst_group *group = peer->rdv->group;
    struct link_hello hello = {.magic = HELLO_MAGIC,
                               .wire_version = WIRE_VERSION,
                               .rank = group->roster.rank,
                               .size = group->roster.size,
                               .incarnation =
                                   group->roster.entries[group->roster.rank].incarnation,
                               .nonce = peer->link.nonce};
    memcpy(hello.cookie, group->cookie, sizeof hello.cookie);
    (void)link_send(link, LINK_HELLO, &hello, sizeof hello, -1);
}

/** The peer that a HELLO proves to come from, or NULL with what is wrong with it. */
struct peer *hello_check(struct rendezvous *rdv, uint8_t type, const void *data,
                         size_t bytes, const char **wrong_p)
{
    struct link_hello hello;
    const struct tryst_group *group = rdv->group;
    *wrong_p = "did not say HELLO first";
    if (type != LINK_HELLO || bytes != sizeof hello || !group)
        return NULL;
    memcpy(&hello, data, sizeof hello);
    if (hello.magic != HELLO_MAGIC)
        return NULL;
    *wrong_p = "speaks another wire version";
    if (hello.wire_version != WIRE_VERSION)
        return NULL;
    *wrong_p = "did not show this session's cookie";
    if (memcmp(hello.cookie, group->cookie, sizeof hello.cookie) != 0)
        return NULL;
    *wrong_p = "is no rank of this group";
    if (hello.rank < 0 || hello.rank >= group->roster.size ||
        hello.rank == group->roster.rank ||
        hello.incarnation != group->roster.entries[hello.rank].incarnation)
        return NULL;
    group->peers[hello.rank].link.peer_nonce = hello.nonce;
    return &group->peers[hello.rank];
}
