/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect messages of `shm`, exchanged by two endpoints over the link.
 *
 *   initiator                               responder
 *     HELLO{bytes, address}            ──▶  makes a segment, with rings of the smaller
 *                                           size; reads the nonce at `address`
 *     maps it, checks both nonces      ◀──  ACCEPT{bytes, address, mechs, text}
 *     in it, reads the responder's          + the segment's descriptor
 *     CONFIRM{mechs, text}, ready      ──▶  ready
 *
 *   either end, at any time before ready: REFUSE{text}: this pair does not use shm
 *   a sender, once per region and peer: REGION{region, bytes} and the region's
 *   descriptor, or, for device memory, DEVICE{region, bytes, text} and maybe a
 *   descriptor; when the region is released: DROP{region}
 *
 * All types share one fixed form; fields that a type does not name are zero. pair_wire.h
 * has the layout of the shared segment. Content is hostile until checked.
 */
#ifndef TRYST_TRANSPORTS_SHM_SHM_WIRE_H
#define TRYST_TRANSPORTS_SHM_SHM_WIRE_H

#include <assert.h>
#include <stdint.h>

#define SHM_VERSION 2u

enum shm_type {
    SHM_HELLO = 1,
    SHM_ACCEPT = 2,
    SHM_CONFIRM = 3,
    SHM_REFUSE = 4,
    SHM_REGION = 5,
    SHM_DROP = 6,
    SHM_DEVICE = 7,
};

/** shm_message.mechs: how its sender can read the other side's memory. The ring always
 *  works. Readers ignore other bits. */
enum {
    SHM_CAN_READ = 1,   /**< process_vm_readv, verified by the nonce */
    SHM_CAN_MAP = 2,    /**< by mapping regions from received descriptors */
    SHM_CAN_DEVICE = 4, /**< device memory, by importing regions from received handles */
    SHM_CAN_STAGE = 8,  /**< plain memory, by mapping the region that it is copied to */
};

struct shm_message {
    uint32_t type;    /**< enum shm_type */
    uint32_t version; /**< SHM_VERSION */
    uint64_t cookie;  /**< cookie of the session */
    uint64_t nonce;   /**< nonce of the message's sender */
    uint64_t address; /**< HELLO, ACCEPT: where the sender's nonce lies in its memory */
    /** HELLO: bytes of the largest ring that the initiator accepts; ACCEPT: bytes of each
     *  ring; REGION, DEVICE: bytes of the region. */
    uint64_t bytes;
    uint64_t region;   /**< REGION, DEVICE, DROP: id of the region */
    uint32_t mechs;    /**< ACCEPT, CONFIRM: bits SHM_CAN_… */
    uint32_t reserved; /**< 0 */
    /** ACCEPT, CONFIRM: how reading was verified or why it fails; REFUSE: the reason;
     *  DEVICE: struct memory_ipc (transports/memory/memory_ops.h) */
    char text[96];
};
static_assert(sizeof(struct shm_message) == 152, "a connect message's layout is pinned");

#endif
