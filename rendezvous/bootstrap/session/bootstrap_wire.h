/* SPDX-License-Identifier: Apache-2.0 */
/* The messages on the bootstrap's TCP connections, field by field.
 *
 * One idea: four fixed-size messages prove the token at both ends; after them come
 * frames, a header with a payload of bounded size, one request and one reply at a time.
 * Invariant: everything is hostile until a decoder has accepted it; a decoder reads at
 * most the bytes that it is given and checks every field that decides a size or an index.
 * All integers are little-endian; append, never reorder. The first 16 bytes of HELLO and
 * CHALLENGE keep their form in every version, so that versions can name each other.
 *
 *     client                                         server (rank 0)
 *       HELLO{version, client nonce}          ──▶
 *                                             ◀──    CHALLENGE{version, server nonce}
 *       PROOF{rank, size, pid, host, job, MAC} ─▶    (checks the MAC before all else)
 *                                             ◀──    VERDICT{code, MAC, job}
 *       frame GATHER | BROADCAST              ──▶
 *                                             ◀──    frame RESULT | FAILED
 *       frame BYE | ABORT, then close         ──▶
 */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_WIRE_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/os/host_name.h"
#include "core/text/err.h"
#include "rendezvous/bootstrap/session/bootstrap.h"

#define BOOTSTRAP_WIRE_MAGIC   0x5453425453595254ULL /* "TRYSTBST" in memory */
#define BOOTSTRAP_WIRE_VERSION 3u /* 3: BROADCAST in place of PUT and GET */
#define BOOTSTRAP_NONCE_BYTES  32
#define BOOTSTRAP_MAC_BYTES    32 /* HMAC-SHA256 */
#define BOOTSTRAP_HOST_BYTES   HOST_NAME_BYTES

/** HELLO, client to server, at once after connecting; and CHALLENGE, the server's reply,
 *  whatever version HELLO names. */
struct bootstrap_wire_greeting {
    /** BOOTSTRAP_WIRE_MAGIC; else the server closes without a reply. */
    uint64_t magic;
    uint32_t version;  /**< the sender's; the client gives up if the two differ */
    uint32_t reserved; /**< 0 */
    /** Random for this connection: prevents replay. */
    uint8_t nonce[BOOTSTRAP_NONCE_BYTES];
};
_Static_assert(sizeof(struct bootstrap_wire_greeting) == 48, "wire");

/** PROOF, client to server: the client's identity, and proof that it has the token. */
struct bootstrap_wire_proof {
    uint32_t rank;                    /**< the client's: 1 … size-1 */
    uint32_t size;                    /**< ranks of the job, by the client's parameters */
    uint32_t pid;                     /**< for messages only */
    uint32_t reserved;                /**< 0 */
    char host[BOOTSTRAP_HOST_BYTES];  /**< for messages only; terminated */
    char job[BOOTSTRAP_JOB_BYTES];    /**< the job's identity; padded with zeros */
    uint8_t mac[BOOTSTRAP_MAC_BYTES]; /**< over the transcript, role client */
};
_Static_assert(sizeof(struct bootstrap_wire_proof) == 216, "wire");

enum bootstrap_verdict {
    BOOTSTRAP_VERDICT_OK = 1,     /**< a member now (or FAILED follows with the reason) */
    BOOTSTRAP_VERDICT_DENIED = 2, /**< the MAC is wrong; the server's own MAC is zero */
    /** This rank's last session is still closing: try again. */
    BOOTSTRAP_VERDICT_AGAIN = 3,
    BOOTSTRAP_VERDICT_JOB = 4 /**< the server belongs to another job */
};

/** VERDICT, server to client; then the connection carries frames, or closes. */
struct bootstrap_wire_verdict {
    uint32_t code;     /**< enum bootstrap_verdict */
    uint32_t reserved; /**< 0 */
    /** Over the transcript, role server; 0 if denied. */
    uint8_t mac[BOOTSTRAP_MAC_BYTES];
    /** Identity of the server's job, padded with zeros; 0 if denied. */
    char job[BOOTSTRAP_JOB_BYTES];
};
_Static_assert(sizeof(struct bootstrap_wire_verdict) == 136, "wire");

enum bootstrap_role { BOOTSTRAP_ROLE_CLIENT = 1, BOOTSTRAP_ROLE_SERVER = 2 };

/** The input of both MACs, never sent. The role keeps a MAC from being valid for the
 *  other side; the nonces keep it from being valid twice. */
struct bootstrap_wire_transcript {
    char label[16];   /**< "tryst bootstrap" */
    uint32_t version; /**< BOOTSTRAP_WIRE_VERSION */
    uint32_t role;    /**< enum bootstrap_role */
    uint32_t rank;    /**< rank, size, pid, host and job are those in PROOF */
    uint32_t size;
    uint32_t pid;
    uint32_t code; /**< the code in VERDICT; 0 in the client's MAC */
    char host[BOOTSTRAP_HOST_BYTES];
    char job[BOOTSTRAP_JOB_BYTES];
    char server_job[BOOTSTRAP_JOB_BYTES]; /**< job in VERDICT; 0 in the client's MAC */
    uint8_t client_nonce[BOOTSTRAP_NONCE_BYTES];
    uint8_t server_nonce[BOOTSTRAP_NONCE_BYTES];
};
_Static_assert(sizeof(struct bootstrap_wire_transcript) == 368, "no padding in a MAC");

enum bootstrap_frame_type {
    /** Request: this rank's bytes for all-gather `sequence`. */
    BOOTSTRAP_FRAME_GATHER = 1,
    /** Request: all-gather `sequence` is rank 0's bytes alone; the others' have none. */
    BOOTSTRAP_FRAME_BROADCAST = 2,
    BOOTSTRAP_FRAME_BYE = 4, /**< request: leave; no reply */
    /** Request: leave with `status` and a sentence; no reply. */
    BOOTSTRAP_FRAME_ABORT = 5,
    BOOTSTRAP_FRAME_RESULT = 6, /**< reply: all bytes */
    BOOTSTRAP_FRAME_FAILED = 7  /**< reply: the session failed; the sentence follows */
};

/** Header of every payload. */
struct bootstrap_wire_frame {
    uint32_t type;  /**< enum bootstrap_frame_type */
    int32_t status; /**< ABORT, FAILED: a tryst_status; else 0 */
    /** GATHER, BROADCAST: their number, from 0; RESULT: the same; else 0 */
    uint64_t sequence;
    uint64_t timeout_ns; /**< GATHER, BROADCAST: remaining time that the client waits */
    /** Time that the client waits, from the beginning; for messages only. */
    uint64_t patience_ns;
    uint64_t bytes; /**< bytes of the payload */
};
_Static_assert(sizeof(struct bootstrap_wire_frame) == 40, "wire");

#define BOOTSTRAP_WIRE_TEXT_MAX (ERR_TEXT_BYTES - 1)
/** Longest wait that a client may request: the most that TRYST_BOOTSTRAP_TIMEOUT
 *  allows. */
#define BOOTSTRAP_WIRE_TIMEOUT_MAX_NS (24 * 3600 * NS_PER_S)

/** Each rank's part of the first all-gather, whatever carries it. */
struct bootstrap_wire_member {
    uint64_t magic;   /**< BOOTSTRAP_WIRE_MAGIC */
    uint32_t version; /**< BOOTSTRAP_WIRE_VERSION */
    uint32_t rank;    /**< must equal the place in the result */
    uint32_t size;    /**< must be equal on all ranks */
    uint32_t reserved;
    /** The session's cookie in rank 0's part; zero in the others. */
    uint8_t cookie[BOOTSTRAP_COOKIE_BYTES];
};
_Static_assert(sizeof(struct bootstrap_wire_member) == 40, "wire");

/** Decoders: `data` holds exactly the struct's bytes, unchecked. False: refuse. */
bool bootstrap_greeting_decode(const void *data,
                               struct bootstrap_wire_greeting *greeting_p);
bool bootstrap_proof_decode(const void *data, struct bootstrap_wire_proof *proof_p);
bool bootstrap_verdict_decode(const void *data, struct bootstrap_wire_verdict *verdict_p);

/** Decode a request to the server of `size` ranks: type, payload limit, timeout. */
bool bootstrap_request_decode(const void *data, uint32_t size,
                              struct bootstrap_wire_frame *frame_p);
/** Decode a reply to a client that expects `bytes` bytes of result. */
bool bootstrap_reply_decode(const void *data, size_t bytes,
                            struct bootstrap_wire_frame *frame_p);

/** Return the status if it is one that may end a session, else TRYST_E_PROTOCOL. */
tryst_status bootstrap_status_decode(int32_t status);

#endif
