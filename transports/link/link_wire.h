/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes on a link's socket: a header, then `bytes` bytes, then the next header.
 *
 * Invariant: little-endian, 8 bytes, never reordered. All of it is hostile until checked:
 * a wrong magic, an unknown flag or a length over LINK_MESSAGE_MAX ends the link. */
#ifndef TRYST_TRANSPORTS_LINK_LINK_WIRE_H
#define TRYST_TRANSPORTS_LINK_LINK_WIRE_H

#include <assert.h>
#include <stdint.h>

#define LINK_MAGIC 0x7254u /* "Tr" */

/** A descriptor comes with the header's first byte (SCM_RIGHTS). */
#define LINK_FLAG_FD 0x01u
/** The listener has no descriptor for this connection: it sends this header alone and
 *  closes the connection. */
#define LINK_FLAG_REFUSED 0x02u

struct link_header {
    uint32_t bytes; /**< bytes of the payload that follows, at most LINK_MESSAGE_MAX */
    uint8_t type;   /**< defined by the layer above */
    uint8_t flags;  /**< LINK_FLAG_… */
    uint16_t magic; /**< LINK_MAGIC */
};

static_assert(sizeof(struct link_header) == 8, "the header is part of the wire format");

#endif
