/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's bootstrap server.
 *
 * One idea: one thread and one poll loop over a fixed array of connection slots; each
 * connection is a small state machine that never waits, so no peer can delay another.
 *
 * Invariants: an unproved connection holds one slot for at most 5 s, and at most 64 +
 * size slots are held so (the oldest is dropped first); memory grows only for members;
 * after the first failure every member receives the same sentence and nothing else
 * happens.
 *
 * The other files of the server use struct server through this header:
 *
 *   bootstrap_server.c  slots, accept, poll loop, thread
 *   bootstrap_admit.c   HELLO, PROOF, admission of members
 *   bootstrap_serve.c   requests of members, and the session's failure
 *
 * One connection:
 *
 *     free ─accept─▶ hello ─HELLO─▶ proof ─PROOF ok─▶ header ◀───────────── reply written
 *                      │ 5 s, nonsense, evicted │ denied,  │ GATHER, BROADCAST       ▲
 *                      ▼                        │ not ours ▼                         │
 *                    free ◀─end of file─ linger ◀──┐     payload ─▶ waiting ─▶ (writing)
 *                                         ▲        │       │ BYE, ABORT
 *                                         └────────┴───────┘ FAILED written
 *
 * "writing" is a separate state only while the socket does not take all at once; the
 * state that follows it is in `after`. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_SERVER_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_SERVER_H

#include <pthread.h>
#include <sys/socket.h>

#include "bootstrap_auth.h"
#include "bootstrap_net.h"
#include "bootstrap_wire.h"

/** Unproved connections beyond one per rank. */
#define SERVER_UNPROVED_EXTRA 64
/** Time from accept to proof. A peer on the other side of the earth needs half a
 *  second. */
#define SERVER_HANDSHAKE_NS (5 * NS_PER_S)
/** Time for which rank 0 stays after a failure, to report it to connected and late
 *  ranks. */
#define SERVER_LINGER_NS (1 * NS_PER_S)

enum conn_state {
    CONN_FREE,
    CONN_HELLO,   /**< bytes of HELLO are coming */
    CONN_PROOF,   /**< CHALLENGE was sent, bytes of PROOF are coming */
    CONN_HEADER,  /**< a member; a request's header is coming */
    CONN_PAYLOAD, /**< the request's payload is coming */
    CONN_WAITING, /**< the request waits for other ranks; only BYE or ABORT may come */
    CONN_WRITING, /**< bytes to send wait for room in the socket */
    CONN_LINGER   /**< all was sent; input is discarded until the peer closes */
};

struct conn {
    enum conn_state state, after;
    int fd;
    bool proved, failed_sent; /**< failed_sent: FAILED was sent, or is not needed */
    int rank;                 /**< a member's rank, else -1 */
    uint64_t since_ns, wait_end_ns;
    struct sockaddr_storage peer;
    uint8_t client_nonce[BOOTSTRAP_NONCE_BYTES], server_nonce[BOOTSTRAP_NONCE_BYTES];
    /** Input: a fixed-size message. A payload goes to `payload` instead. */
    uint8_t in[sizeof(struct bootstrap_wire_proof)];
    size_t in_bytes; /**< bytes of the message, or of the payload, that have come */
    struct bootstrap_wire_frame request;
    uint8_t *payload;
    size_t payload_bytes;
    uint8_t *scratch; /**< owns the payload of ABORT */
    /** Output: a head, copied here, then bytes that another object owns. */
    uint8_t head[sizeof(struct bootstrap_wire_greeting)];
    size_t head_bytes, body_bytes, sent_bytes;
    const uint8_t *body;
};

/** State of a rank. */
struct member {
    bool joined, left;
    bool gave; /**< the rank's part of the present all-gather has come */
    uint32_t pid;
    char host[BOOTSTRAP_HOST_BYTES];
    struct sockaddr_storage peer;
};

/** Two all-gathers: one that is being collected, and one that is being sent. Two buffers
 *  are enough, since a rank requests an all-gather only after it has received the result
 *  of the one before. */
struct gather {
    uint64_t sequence;
    int given_count;
    int first_rank; /**< the rank of the first part; -1: none has begun */
    uint32_t type;  /**< GATHER or BROADCAST, and the size of a part: the first one's */
    size_t bytes;
    size_t total; /**< size of the result */
    uint8_t *in, *out;
    size_t in_capacity, out_capacity;
};

struct server {
    int size;
    uint64_t timeout_ns;
    struct bootstrap_token token;
    char job[BOOTSTRAP_JOB_BYTES]; /**< padded with zeros, as it is sent */
    const struct log *log;
    const struct clock *clock;
    char address[BOOTSTRAP_ADDRESS_MAX];
    const char *address_setting; /**< the setting that gave the address */
    struct bootstrap_listeners listeners;
    uint64_t accept_pause_ns; /**< no accept before this time: descriptors ran out */
    /** Errno of the last accept that failed for lack of resources; 0: none. */
    int accept_error;

    struct conn *conns;
    size_t conns_count, unproved_max;
    struct pollfd *polls;
    size_t *poll_conns; /**< index of the slot behind each entry of `polls` */

    struct member *members;
    int joined_count, left_count;
    struct gather gather;

    struct err failure;    /**< status TRYST_OK: none */
    bool own_left;         /**< rank 0 has sent BYE or ABORT */
    uint64_t end_ns;       /**< if own_left: the server ends at this time at the latest */
    uint64_t silent_count; /**< unproved connections dropped before they sent a proof */
    uint64_t refused_count;
    char refused[448];          /**< the last refused connection, and the reason */
    struct bootstrap_wait wait; /**< since the server was opened */
    uint64_t renew_ns;          /**< time at which the listeners are renewed */
    bool warned;

    pthread_t thread;
};

/** Start to serve `params->size` ranks. Takes the descriptors in `listeners` and `own_fd`
 *  (rank 0's end of a socket pair), also on failure. The token belongs to the caller and
 *  must outlive the server. TRYST_E_NOMEM, TRYST_E_SYSTEM. */
tryst_status server_start(const struct bootstrap_params *params,
                          const struct bootstrap_listeners *listeners, int own_fd,
                          struct err *err, struct server **server_p);

/** Wait until the server ends (rank 0 has left, and all others have left or the time for
 *  that is over), and free it. */
void server_join(struct server *server);

/** Open the server without a thread, for server_start and for tests. server_progress
 *  polls all connections once (with `wait`, until the first event); false: the server has
 *  ended. */
tryst_status server_open(const struct bootstrap_params *params,
                         const struct bootstrap_listeners *listeners, int own_fd,
                         struct err *err, struct server **server_p);
bool server_progress(struct server *server, bool wait);
void server_close(struct server *server);

/* ---- for the other files of the server --------------------------------------------- */

/** Send `head` (copied) and `body` (must stay valid), then go to state `after`. */
void conn_write(struct server *server, struct conn *conn, const void *head,
                size_t head_bytes, const void *body, size_t body_bytes,
                enum conn_state after);
void conn_close(struct conn *conn);

#endif
