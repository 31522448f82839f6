/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's bootstrap server.
 *
 * One idea: one thread of ours and one poll loop over a fixed array of connection slots; each
 * connection is a small state machine that never waits, so no peer can hold up another.
 * Invariants: who has not proved the token owns one slot for at most 5 s, and at most
 * 64 + size slots are so owned (the oldest goes first); memory grows only for members; after
 * the first failure every member is told the same sentence and nothing else happens.
 * Callers: bootstrap.c. The other files of the server see struct server through this header:
 *
 *   bootstrap_server.c  slots, accept, poll loop, thread
 *   bootstrap_admit.c   HELLO, PROOF, who becomes a member
 *   bootstrap_serve.c   what members ask for, and how a session fails
 *
 * One connection:
 *
 *     free ─accept─▶ hello ─HELLO─▶ proof ─PROOF ok─▶ header ◀───────────── reply written
 *                      │ 5 s, nonsense, evicted │          │ GATHER, PUT, GET        ▲
 *                      ▼                        │ denied   ▼                         │
 *                    free ◀─end of file─ linger ◀──┐     payload ─▶ waiting ─▶ (writing)
 *                                         ▲        │       │ BYE, ABORT
 *                                         └────────┴───────┘ FAILED written
 *
 * "writing" is a state of its own only while the socket does not take all at once; what comes
 * after it is noted in `after`. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SERVER_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SERVER_H

#include <pthread.h>
#include <sys/socket.h>

#include "bootstrap_auth.h"
#include "bootstrap_net.h"
#include "bootstrap_wire.h"
#include "core/memory/list.h"

/* Connections that have not proved the token, beyond one per rank. */
#define SERVER_UNPROVED_EXTRA 64
/* From accept to proof. A peer on the other side of the earth needs half a second. */
#define SERVER_HANDSHAKE_NS (5 * NS_PER_S)
/* After a failure, how long rank 0 stays to tell it to those who are connected or come. */
#define SERVER_LINGER_NS (1 * NS_PER_S)

enum conn_state {
    CONN_FREE,
    CONN_HELLO,   /* bytes of HELLO are coming */
    CONN_PROOF,   /* CHALLENGE is out, bytes of PROOF are coming */
    CONN_HEADER,  /* a member; a request's header is coming */
    CONN_PAYLOAD, /* the request's payload is coming */
    CONN_WAITING, /* the request waits for other ranks; only BYE or ABORT may come */
    CONN_WRITING, /* bytes of ours wait for room in the socket */
    CONN_LINGER   /* all is said; what still comes is thrown away until the peer closes */
};

struct conn {
    enum conn_state state, after;
    int fd;
    bool proved, failed_sent; /* FAILED has been sent (or will not be needed) */
    int rank;                 /* of a member, else -1 */
    uint64_t since_ns, wait_end_ns;
    struct sockaddr_storage peer;
    uint8_t client_nonce[BOOTSTRAP_NONCE_BYTES], server_nonce[BOOTSTRAP_NONCE_BYTES];
    /* coming in: a fixed-size message, or a payload */
    uint8_t in[sizeof(struct bootstrap_wire_proof)];
    size_t in_bytes;
    struct bootstrap_wire_frame request;
    uint8_t *payload;
    size_t payload_bytes;
    uint8_t *scratch; /* owns the payload of PUT, GET, ABORT */
    char name[BOOTSTRAP_WIRE_KEY_BYTES];
    /* going out: a head of ours, then bytes that someone else keeps alive */
    uint8_t head[sizeof(struct bootstrap_wire_greeting)];
    size_t head_bytes, body_bytes, sent_bytes;
    const uint8_t *body;
};

/* What is known of a rank. */
struct member {
    bool joined, left;
    bool gave; /* its part of the all-gather that is being collected */
    uint32_t pid;
    char host[BOOTSTRAP_HOST_BYTES];
    struct sockaddr_storage peer;
};

/* The all-gather that is being collected, and the one that is being handed out: a rank asks
 * for the next one only when it has the last, so two buffers are enough. */
struct gather {
    uint64_t sequence;
    int given_count;
    size_t bytes;   /* per rank, once first_rank is known */
    int first_rank; /* whose part decided `bytes`; -1: none has begun */
    uint8_t *in, *out;
    size_t in_capacity, out_capacity;
};

/* Names and their values, each put once and kept, so that a reply may point at it. A list is enough: it
 * holds a few names per rank, for the moments of coming together. */
struct store {
    struct list entries;
    size_t entries_count, bytes;
};

struct server {
    int size;
    uint64_t timeout_ns;
    struct bootstrap_token token;
    const struct log *log;
    const struct clock *clock;
    char address[BOOTSTRAP_ADDRESS_MAX];
    struct bootstrap_listeners listeners;
    uint64_t accept_pause_ns; /* no accept before this: descriptors ran out */
    int accept_error;         /* the errno that said so last, 0: never */

    struct conn *conns;
    size_t conns_count, unproved_max;
    struct pollfd *polls;
    size_t *poll_conns; /* index of the slot behind each entry of `polls` */

    struct member *members;
    int joined_count, left_count;
    struct gather gather;
    struct store store;

    struct err failure;    /* status TRYST_OK: none */
    bool own_left;         /* rank 0 said BYE or ABORT */
    uint64_t end_ns;       /* then: not beyond this */
    uint64_t silent_count; /* dropped before they had said enough */
    uint64_t refused_count;
    char refused[128]; /* the last connection that did not become a member, and why */

    pthread_t thread;
};

/* Starts serving `params->size` ranks. Takes the descriptors in `listeners` and `own_fd` (rank
 * 0's end of a socket pair), also on failure. The token is the caller's and must outlive it.
 * TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status server_start(const struct bootstrap_params *params,
                          const struct bootstrap_listeners *listeners, int own_fd,
                          struct err *err, struct server **server_p);

/* Waits until it ends (rank 0 has left, and all others too or their time is over). */
void server_join(struct server *server);

/* The same without a thread, for tests: server_turn looks once at all connections (and waits for
 * the first event if told to); false when it has ended. */
tryst_status server_open(const struct bootstrap_params *params,
                         const struct bootstrap_listeners *listeners, int own_fd,
                         struct err *err, struct server **server_p);
bool server_turn(struct server *server, bool wait);
void server_close(struct server *server);

/* ---- for the other files of the server ---- */

/* Sends `head` (copied) and `body` (must stay), then goes to state `after`. */
void conn_write(struct server *server, struct conn *conn, const void *head,
                size_t head_bytes, const void *body, size_t body_bytes,
                enum conn_state after);
void conn_close(struct conn *conn);

#endif
