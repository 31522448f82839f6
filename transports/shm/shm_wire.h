/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect messages of `shm`: what two endpoints tell each other over the link.
 *
 *   initiator                                         responder
 *     HELLO{ring_bytes, address} + segment's fd  ──▶    maps it, checks both nonces in it,
 *                                                       reads the initiator's nonce at `address`
 *     reads the responder's nonce              ◀──    ACCEPT{address, mechs, text}
 *     CONFIRM{mechs, text}, ready                ──▶    ready
 *
 *   either end at any time before ready: REFUSE{text}: both ends are then unreachable by shm
 *   a sender, once per region and peer: REGION{region, bytes} + its fd, or, of device memory,
 *   DEVICE{region, bytes, text} (+ fd); at release DROP{region}
 *
 * One fixed form serves all; fields that a type does not name are zero. The shared segment's own
 * layout is pair_wire.h. Content is hostile until checked.
 */
#ifndef TRANSPORTS_SHM_WIRE_H
#define TRANSPORTS_SHM_WIRE_H

#include <assert.h>
#include <stdint.h>

#define SHM_VERSION 1u

enum shm_type {
    SHM_HELLO = 1,
    SHM_ACCEPT = 2,
    SHM_CONFIRM = 3,
    SHM_REFUSE = 4,
    SHM_REGION = 5,
    SHM_DROP = 6,
    SHM_DEVICE = 7,
};

/* shm_message.mechs: how the teller can read the other side's memory. The ring always works. */
enum {
    SHM_CAN_READ = 1,   /* process_vm_readv, verified by the nonce */
    SHM_CAN_MAP = 2,    /* by mapping regions whose descriptor it is sent */
    SHM_CAN_DEVICE = 4, /* device memory, by importing regions whose handle it is sent */
};

struct shm_message {
    uint32_t type;     /* enum shm_type */
    uint32_t version;  /* SHM_VERSION */
    uint64_t cookie;   /* of the session */
    uint64_t nonce;    /* the teller's */
    uint64_t address;  /* HELLO, ACCEPT: where the teller's nonce lies in its memory */
    uint64_t bytes;    /* HELLO: of each ring; REGION, DEVICE: of the region */
    uint64_t region;   /* REGION, DEVICE, DROP: its id */
    uint32_t mechs;    /* ACCEPT, CONFIRM */
    uint32_t reserved; /* 0 */
    char text
        [96]; /* ACCEPT, CONFIRM: how reading was verified or why it fails; REFUSE: why;
                 DEVICE: struct memory_ipc (transports/memory/memory_ops.h) */
};
static_assert(sizeof(struct shm_message) == 152, "a connect message's layout is pinned");

#endif
