/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_LIVE_H
#define TRYST_LIVE_H

#include <stdint.h>

#define TRYST_LIVE_NAME    "tryst-live-rank"
#define TRYST_LIVE_MAGIC   UINT64_C(0x4556494c54535254)
#define TRYST_LIVE_LAYOUT  2u
#define TRYST_LIVE_KEY_MAX 384u

enum tryst_live_phase {
    TRYST_LIVE_GATHERING = 1,
    TRYST_LIVE_OPEN = 2,
    TRYST_LIVE_CLOSING = 3
};

enum tryst_live_wait {
    TRYST_LIVE_BUSY = 0,
    TRYST_LIVE_IN_WAIT = 1,
    TRYST_LIVE_ARMED = 2
};

enum tryst_live_kind {
    TRYST_LIVE_SEND = 0,
    TRYST_LIVE_RECV = 1,
    TRYST_LIVE_CLOSE = 2,
    TRYST_LIVE_COLL = 3
};

enum tryst_live_state {
    TRYST_LIVE_SUBMITTED = 0,
    TRYST_LIVE_POSTED = 1,
    TRYST_LIVE_WANTED = 2,
    TRYST_LIVE_DEFERRED = 3,
    TRYST_LIVE_INLINE = 4,
    TRYST_LIVE_MATCHED = 5,
    TRYST_LIVE_ENDING = 6
};

enum tryst_live_hold {
    TRYST_LIVE_HOLD_NONE = 0,
    TRYST_LIVE_HOLD_UNPOSTED = 1,
    TRYST_LIVE_HOLD_BEHIND = 2,
    TRYST_LIVE_HOLD_WINDOW = 3,
    TRYST_LIVE_HOLD_RAIL = 4,
    TRYST_LIVE_HOLD_TRANSPORT = 5,
    TRYST_LIVE_HOLD_UNREADY = 6
};

struct tryst_live_where {
    uint64_t begun, ended;
    uint64_t since_ns;
    uint64_t op;
    uint32_t waits;
    int32_t tid;
};

struct tryst_live_header {
    uint64_t magic;
    uint32_t layout;
    uint32_t header_bytes;
    char version[24];
    uint32_t peers_offset, peers_count, peer_bytes;
    uint32_t ops_offset, ops_count, op_bytes;
    uint64_t page_bytes;
    int32_t pid;
    int32_t rank, size;
    uint32_t reserved;
    uint64_t opened_ns;
    uint64_t held_address;

    uint64_t session;
    uint64_t phase;
    uint64_t seen_ns;
    uint64_t steps_end;
    uint64_t steps_open;
    uint64_t pending;
    uint64_t completed;
    uint64_t transports;
    struct tryst_live_where where;
};

struct tryst_live_peer {
    uint64_t begun, ended;
    int32_t rank;
    uint8_t life;
    uint8_t link;
    uint8_t endpoint;
    uint8_t reserved;
    int32_t pid;
    uint16_t lost_to_mtu, lost_from_mtu;
    uint64_t frames_sent, frames_acked, frames_read;
    uint64_t in_flight_bytes;
    uint64_t bytes_sent, bytes_received;
    char transport[8];
    char mechanism[64];
    uint64_t window_bytes, slice_bytes;
    uint64_t bytes_per_s;
    uint64_t rtt_ns;
};

struct tryst_live_op {
    uint64_t begun, ended;
    uint8_t kind;
    uint8_t state;
    uint16_t hold;
    int32_t peer;
    uint64_t step;
    uint64_t number;
    uint64_t bytes;
    uint64_t done_bytes;
    uint64_t since_ns;
    uint64_t key_hash;
    uint64_t key_bytes;
    char key[TRYST_LIVE_KEY_MAX];
    uint64_t behind;
};

#endif
