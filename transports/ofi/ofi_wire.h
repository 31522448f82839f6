/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_wire.h
 *  The messages between two ofi endpoints. Little-endian, as all wire formats here.
 *
 *  Connecting, over the link (struct ofi_connect, then an address of the fabric):
 *
 *      A (initiator)                            B
 *      ADDRESS{provider, id, address of    ───▶  ◀─── the same
 *              A's rail}
 *
 *  and then over the fabric, as untagged messages between the two rails (struct
 *  ofi_head):
 *
 *      HELLO                         ────▶      (the initiator sends first, so that two
 *                                    ◀────  HELLO     connections never cross)
 *      CONFIRM                       ────▶  ◀──── CONFIRM
 *      DATA{records, a frame} …      ────▶      (an end is ready when its CONFIRM has
 *                                                left and the other's has come)
 *
 *  A side that cannot go on sends REFUSED over the link, with the reason as text.
 *
 *  Bulk goes between two separate fabric endpoints, one at each side of the pair. A side
 *  opens its endpoint when bulk first needs it, or when the other side's PLACE comes, and
 *  sends the endpoint's address in a PLACE. The initiator then sends an empty greeting to
 *  the other side's endpoint. The other side sends no bulk before the greeting has come,
 *  so two connections never cross there either. Records announce bulk:
 *
 *      receiver                                 sender
 *      fi_trecv, POSTED{tag, room}   ────▶      keeps (tag, room)
 *                                    ◀────  fi_tsend, when the bulk is given and fits
 *
 *      bulk longer than its room:    ◀────  TOO_LONG{tag, bytes}; nothing else is sent
 *      no POSTED for the tag here:   ◀────  QUERY{tag, number}
 *             NOT_POSTED{tag, number} ───▶      not sent if POSTED is on its way
 *                                    ◀────  DROPPED{tag, bytes}, unless POSTED has come
 *      withdrawn: REVOKE{tag, number}────▶
 *                                    ◀────  REVOKED{tag, number}, or STARTED{tag, number}
 *
 *  So each message that the fabric gets has a posted receive of sufficient size.
 */
#ifndef TRYST_TRANSPORTS_OFI_OFI_WIRE_H
#define TRYST_TRANSPORTS_OFI_OFI_WIRE_H

#include "transports/fabric/fabric_base.h"

#define OFI_CONNECT_MAGIC 0x49464f54u /* "TOFI" */
#define OFI_WIRE_VERSION  1u
/** The largest address that is accepted: fabrics' own are 16 to some 100 bytes. */
#define OFI_ADDRESS_MAX 512u

/** Head of each connect message; the address, or a text, follows. */
struct ofi_connect {
    struct fabric_connect connect;
    /** Id of the sender's endpoint; heads of messages to it carry this id. */
    uint64_t ep_id;
    char provider[32]; /**< "tcp;ofi_rxm", zero-padded; both ends must have the same */
};
_Static_assert(sizeof(struct ofi_connect) == 48, "wire");

enum ofi_kind {
    OFI_HELLO = 1,
    OFI_CONFIRM = 2,
    OFI_PLACE = 3, /**< the address of the sender's bulk endpoint follows */
    OFI_DATA = 4   /**< `records` records follow, then a frame, if any bytes are left */
};

/** Head of each message of the fabric. */
struct ofi_head {
    uint64_t cookie; /**< cookie of the session; checked first, with ep_id */
    /** Id of the receiving endpoint: its slot in the low 16 bits, the rest random. */
    uint64_t ep_id;
    /** Number of the message to this endpoint, from 0. The fabric keeps the order
     *  (FI_ORDER_SAS); the number proves it. */
    uint32_t sequence;
    uint16_t kind;    /**< enum ofi_kind */
    uint16_t records; /**< at most OFI_RECORDS_MAX */
};
_Static_assert(sizeof(struct ofi_head) == 24, "wire");

#define OFI_RECORDS_MAX 16u
#define OFI_TAG_BITS    48u

enum ofi_record_kind {
    OFI_POSTED = 1,
    OFI_REVOKE = 2,
    OFI_REVOKED = 3,
    OFI_STARTED = 4,
    OFI_QUERY = 5,
    OFI_NOT_POSTED = 6,
    OFI_DROPPED = 7,
    OFI_TOO_LONG = 8
};

struct ofi_record {
    uint64_t kind_tag; /**< tag (48 bits), and above it enum ofi_record_kind */
    uint64_t value;    /**< room, bytes or number, as the diagram shows */
};
_Static_assert(sizeof(struct ofi_record) == 16, "wire");

static inline struct ofi_record ofi_record_make(enum ofi_record_kind kind, uint64_t tag,
                                                uint64_t value)
{
    return (struct ofi_record){(uint64_t)kind << OFI_TAG_BITS | tag, value};
}

static inline uint64_t ofi_record_tag(const struct ofi_record *record)
{
    return record->kind_tag & (((uint64_t)1 << OFI_TAG_BITS) - 1);
}

static inline uint32_t ofi_record_kind(const struct ofi_record *record)
{
    return (uint32_t)(record->kind_tag >> OFI_TAG_BITS);
}

#endif
