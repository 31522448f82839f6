/* SPDX-License-Identifier: Apache-2.0 */
/** @file ucx_wire.h
 *  The messages between two ucx endpoints. Little-endian, as all wire formats here.
 *
 *  Connecting, over the link (struct ucx_connect, then a part of the worker address):
 *
 *      A                                       B
 *      ADDRESS{id of A's endpoint, part} ────▶  ◀──── ADDRESS{id of B's endpoint, part}
 *      (whole: create two UCP endpoints, one for frames and one for bulk)
 *
 *  and then over the fabric (struct ucx_am), the first proof that it works:
 *
 *      HELLO on the frames endpoint  ────▶      ◀────  the same
 *      HELLO on the bulk endpoint    ────▶
 *      CONFIRM, after both HELLOs    ────▶      ready when both HELLOs and CONFIRM came
 *             and ours have left
 *      FRAME …                       ────▶
 *
 *  The side with the smaller endpoint id begins. The other creates its UCP endpoints when
 *  both HELLOs have come, over the same connections. (If two connections cross, UCX drops
 *  one, and aborts the process if the peer dies at that time.)
 *
 *  HELLO is a tagged message, the others are active messages. With an endpoint's first
 *  active message UCX sends internal messages (a request for the id of the peer's
 *  endpoint). Internal messages wait in a queue until the connection is made, and UCX
 *  aborts the process if the peer dies meanwhile (README.md). A tagged message causes no
 *  internal message, and once HELLO has left, the connection is made.
 *
 *  A side that cannot go on sends REFUSED over the link, with the reason as text.
 */
#ifndef TRYST_TRANSPORTS_UCX_UCX_WIRE_H
#define TRYST_TRANSPORTS_UCX_UCX_WIRE_H

#include "transports/fabric/fabric_base.h"

#define UCX_CONNECT_MAGIC 0x58435554u /* "TUCX" */
/** Changes: 3: the sizes of segments over TCP and in shared memory, which UCX does not
 *  negotiate; 4: HELLO is a tagged message; 5: tags hold the pair's secret. */
#define UCX_WIRE_VERSION 5u
#define UCX_AM_ID        1u
/** The largest worker address that is accepted: UCX's own are some hundred bytes per
 *  device. */
#define UCX_ADDRESS_MAX (64u * 1024u)

/** Head of each connect message; the rest of the message is a part of the address, or
 *  text. */
struct ucx_connect {
    struct fabric_connect connect;
    uint32_t total_bytes;  /**< bytes of the whole address, at most UCX_ADDRESS_MAX */
    uint32_t offset_bytes; /**< offset of this part in the whole; parts come in order */
    /** Id of the sender's endpoint; headers of messages to it carry this id. */
    uint64_t ep_id;
};
_Static_assert(sizeof(struct ucx_connect) == 24, "wire");

enum ucx_am_kind {
    UCX_AM_HELLO = 1,
    UCX_AM_HELLO_BULK = 2,
    UCX_AM_CONFIRM = 3,
    UCX_AM_FRAME = 4
};

/** Header of each active message, and the whole of a HELLO. */
struct ucx_am {
    uint64_t cookie; /**< cookie of the session; checked first, with ep_id */
    /** Id of the receiving endpoint: its slot in the low 16 bits, the rest random. */
    uint64_t ep_id;
    uint32_t kind; /**< enum ucx_am_kind */
    /** Number of the frame, from 0. UCX keeps the order of one lane; the number proves
     *  it. */
    uint32_t sequence;
};
_Static_assert(sizeof(struct ucx_am) == 24, "wire");

/** A UCP tag has the receiving endpoint's slot above the 48 bits of the layer above,
 *  which are combined (exclusive or) with the random part of the endpoint's id. The
 *  random part is a secret of the pair: only the pair's link and messages carry it. Any
 *  member of the job can send to any slot, and UCX does not report the sender. But a tag
 *  of another sender meets a given posted receive once in 2^48 messages, and otherwise
 *  decodes to an arbitrary number. */
#define UCX_TAG_BITS 48u
#define UCX_TAG_MASK (((uint64_t)1 << UCX_TAG_BITS) - 1)
/** A bulk without a receive was sent by the endpoint's peer if its number is less than
 *  this away from the newest that was posted for the peer. Another sender hits that range
 *  once in 2^31 messages. */
#define UCX_TAG_NEAR ((uint64_t)1 << 16)
/** The tag of HELLO, which carries the receiving endpoint's id in its header. No endpoint
 *  has the slot of this tag. */
#define UCX_HELLO_TAG UINT64_MAX

/** Return the random part of an endpoint's id. */
static inline uint64_t ucx_ep_secret(uint64_t ep_id)
{
    return ep_id >> 16;
}

static inline uint64_t ucx_tag(uint64_t receiver_ep_id, uint64_t tag)
{
    return (receiver_ep_id << UCX_TAG_BITS) | (tag ^ ucx_ep_secret(receiver_ep_id));
}

/** Return the number that the layer above chose. */
static inline uint64_t ucx_tag_number(uint64_t receiver_ep_id, uint64_t tag)
{
    return (tag ^ ucx_ep_secret(receiver_ep_id)) & UCX_TAG_MASK;
}

#endif
