/* SPDX-License-Identifier: Apache-2.0 */
/** @file messages.h
 *  The messages of a link between two ranks (transports/link). protocol/wire/wire.h has
 *  the records of frames; both have one version.
 *
 *  All fields are little-endian and naturally aligned. Append, never reorder; a change of
 *  meaning raises WIRE_VERSION. Every message is hostile until its reader has checked it.
 */
#ifndef TRYST_RENDEZVOUS_PEER_MESSAGES_H
#define TRYST_RENDEZVOUS_PEER_MESSAGES_H

#include <assert.h>
#include <stdint.h>

#include "rendezvous/bootstrap/roster/rank_key.h"

#define WIRE_VERSION 13u

enum link_type {
    LINK_HELLO = 1,     /**< first message each way */
    LINK_HEARTBEAT = 2, /**< numbers of frames sent and read */
    /** The sender leaves after `sent` frames (link_heartbeat); closing is then no
     *  failure. */
    LINK_LEAVE = 3,
    LINK_ABORT = 4,      /**< a step was aborted; floods the group */
    LINK_EP_OPEN = 5,    /**< open an endpoint on `candidate` (link_ep) */
    LINK_EP_MESSAGE = 6, /**< a transport's connect message for `candidate` */
    LINK_EP_REFUSED = 7, /**< the sender does not use `candidate`; a text follows */
    LINK_DOORBELL = 8,   /**< wakes the receiver's poller; no content */
    /** Two links crossed: the lower rank's stays, this one closes. */
    LINK_DUPLICATE = 9,
    LINK_LEFT = 10,  /**< other ranks have left; goes through the control tree */
    LINK_CLOCK = 11, /**< the sender's time (clock_offset.c) */
    /** The sender has given the receiver up; the text has the reason. */
    LINK_GAVE_UP = 12,
    /** The sender's fabric of `candidate` starts: the endpoint opens later. */
    LINK_EP_STARTING = 13,
    /** The sender's large packets are lost on the way to the receiver (link_loss). */
    LINK_LOSS = 14,
    /** As GAVE_UP: the sender cannot reach the receiver (TRYST_E_UNREACHABLE). */
    LINK_UNREACHED = 15
};

#define HELLO_MAGIC 0x54535254u /* "TRST" */

struct link_hello {
    uint32_t magic;
    uint32_t wire_version;
    uint8_t cookie[16];
    int32_t rank;
    int32_t size;
    uint64_t incarnation;
    uint64_t nonce; /**< shm reads it in the sender's memory, to identify the process */
    /** Proves to the receiver that the sender is `rank` (rank_key.h). */
    uint8_t proof[RANK_PROOF_BYTES];
};
static_assert(sizeof(struct link_hello) == 80, "hello");

struct link_heartbeat {
    uint64_t sent; /**< frames that this side has handed to the transport */
    uint64_t read; /**< frames of the other side that this side has read */
};

struct link_abort {
    uint64_t step;
    uint64_t time_ns; /**< wall clock of the origin; the earliest cause counts */
    int32_t status;
    int32_t origin_rank;
    uint32_t text_bytes; /**< bytes of the text that follows, without a terminator */
    uint32_t reserved;
};
static_assert(sizeof(struct link_abort) == 32, "abort");

/** Sent by ranks that trace, at each tick and when the link comes up. The clocks are
 *  those of the traces. */
struct link_clock {
    uint64_t now_ns; /**< time of sending, by the sender's clock */
    /** now_ns of the receiver's last message that was read; 0: none yet. */
    uint64_t echo_ns;
    uint64_t held_ns;  /**< time since the echoed message was read */
    uint64_t clock_id; /**< equal ids: both ranks read the same clock; 0: not known */
    int64_t root_ns;   /**< rank 0's clock minus the sender's */
    /** Bound of the error of root_ns; UINT64_MAX: not known. */
    uint64_t root_error_ns;
};
static_assert(sizeof(struct link_clock) == 48, "clock");

/** Ranks that have left, so that ranks without a link to them do not take a refused
 *  connection for a death. A message has 1 to LINK_LEFTS_MAX of these, so the list for a
 *  late child of the tree fits its socket. */
struct link_left {
    int32_t rank;
    uint32_t more; /**< number of ranks that follow `rank` and have left too */
};
static_assert(sizeof(struct link_left) == 8, "left");
enum { LINK_LEFTS_MAX = 512 };

struct link_loss {
    /** Packets up to this many bytes leave for the receiver and are lost; 0: none (any
     *  more). */
    uint32_t mtu;
    uint32_t interface_mtu; /**< of `interface` */
    char interface[16];     /**< the sender's; empty: not known; not always terminated */
};
static_assert(sizeof(struct link_loss) == 24, "loss");

struct link_ep {
    uint32_t candidate; /**< index in select_candidates' order */
    uint32_t reserved;
};

#endif
