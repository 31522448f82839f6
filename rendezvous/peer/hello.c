/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HELLO identifies the rank at the other end of a link.
 *
 * Invariant: nothing from a link is trusted before its HELLO has shown cookie, rank and
 * incarnation, and the proof that only that rank can compute.
 */
#include "hello.h"

#include <string.h>

#include "messages.h"
#include "rendezvous/op/engine.h"
#include "tree.h"

/* Compute the key that this rank shares with the peer, once. False: the peer's key in the
 * roster is not valid. */
static bool pair_make(struct peer *peer)
{
    const struct tryst_group *group = peer->rdv->group;
    if (!peer->pair_made)
        peer->pair_made =
            rank_key_pair(group->secret, group->roster.ranks[peer->rank].key, peer->pair);
    return peer->pair_made;
}

void hello_send(struct peer *peer, struct link *link)
{
    const struct tryst_group *group = peer->rdv->group;
    struct link_hello hello = {.magic = HELLO_MAGIC,
                               .wire_version = WIRE_VERSION,
                               .rank = group->roster.rank,
                               .size = group->roster.size,
                               .incarnation =
                                   group->roster.ranks[group->roster.rank].incarnation,
                               .nonce = peer->link.nonce};
    memcpy(hello.cookie, group->cookie, sizeof hello.cookie);
    if (pair_make(peer))
        rank_proof(peer->pair, group->cookie, group->roster.rank, peer->rank,
                   hello.proof);
    (void)link_send(link, LINK_HELLO, &hello, sizeof hello, -1);
}

/* True if the HELLO comes from the rank that it names. */
static bool is_proved(struct peer *peer, const struct link_hello *hello)
{
    const struct tryst_group *group = peer->rdv->group;
    uint8_t proof[RANK_PROOF_BYTES];
    if (!pair_make(peer))
        return false;
    rank_proof(peer->pair, group->cookie, peer->rank, group->roster.rank, proof);
    return rank_proof_equal(proof, hello->proof);
}

struct peer *hello_check(struct rendezvous *rdv, uint8_t type, const void *data,
                         size_t bytes, const char **wrong_p)
{
    struct link_hello hello;
    const struct tryst_group *group = rdv->group;
    *wrong_p = "its first message is not a HELLO";
    if (type != LINK_HELLO || bytes != sizeof hello || !group)
        return NULL;
    memcpy(&hello, data, sizeof hello);
    if (hello.magic != HELLO_MAGIC)
        return NULL;
    *wrong_p = "its wire version differs";
    if (hello.wire_version != WIRE_VERSION)
        return NULL;
    *wrong_p = "did not show this session's cookie";
    if (memcmp(hello.cookie, group->cookie, sizeof hello.cookie) != 0)
        return NULL;
    *wrong_p = "not a rank of this group";
    if (hello.rank < 0 || hello.rank >= group->roster.size ||
        hello.rank == group->roster.rank ||
        hello.incarnation != group->roster.ranks[hello.rank].incarnation)
        return NULL;
    *wrong_p = "cannot create its peer: out of memory";
    struct peer *peer = peer_get(rdv->group, hello.rank);
    if (!peer)
        return NULL;
    *wrong_p = "did not prove to be the rank that it names";
    if (!is_proved(peer, &hello))
        return NULL;
    peer->link.peer_nonce = hello.nonce;
    peer_left_undo(peer);
    return peer;
}
