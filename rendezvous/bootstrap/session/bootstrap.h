/* SPDX-License-Identifier: Apache-2.0 */
/* The bootstrap of a job: an all-gather and a broadcast for its ranks.
 *
 * One idea: whatever started the ranks, the code above sees one object that gathers
 * blobs. Behind it is rank 0's server (a thread in rank 0's process; rank 0 itself is its
 * client over a socket pair) or the caller's own all-gather function.
 *
 * Invariants: every wait ends at a deadline, and its error names the ranks that are
 * missing. The first failure fails every rank, with the same sentence. A connection that
 * has not proved the token receives nothing secret and holds one fixed-size slot for at
 * most 5 s.
 *
 * One thread at a time per object.
 *
 * A client (what each rank goes through inside bootstrap_open):
 *
 *     resolve, connect ──failed, dropped──▶ wait a little ──▶ again  until the deadline
 *        │ HELLO{version, nonce}
 *        ▼
 *     greeted ◀── CHALLENGE{version, nonce}           versions differ ──▶ HANDSHAKE error
 *        │ PROOF{rank, size, pid, host, job, MAC as client}
 *        ▼
 *     proving ◀── VERDICT{code, MAC as server, job} denied, wrong MAC ──▶ TOKEN error
 *        │ ok                                       another job ──▶ GROUP error
 *        │                                                     again ──▶ wait, connect
 *        ▼
 *      member ── request ──▶ reply, one at a time; any reply may be FAILED{status, text}
 *        │ BYE                                  (other size, rank taken twice: GROUP);
 *        ▼                                      end of file ──▶ "rank 0 died"
 *      closed
 */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/log/log.h"
#include "core/os/clock.h"
#include "core/text/err.h"
#include "tryst/tryst.h"

#define BOOTSTRAP_COOKIE_BYTES 16
#define BOOTSTRAP_TOKEN_MIN    16
#define BOOTSTRAP_TOKEN_MAX    1024
#define BOOTSTRAP_ADDRESS_MAX  320 /* "host:port" with its terminator */
#define BOOTSTRAP_SETTING      "TRYST_BOOTSTRAP"
#define BOOTSTRAP_JOB_BYTES    96 /* a job's identity with its terminator */
#define BOOTSTRAP_NET_MAX      512
#define BOOTSTRAP_GATHER_MAX   (64u << 20) /* most bytes of all ranks in an all-gather */

struct bootstrap_params {
    int rank, size;      /**< at least 2: a single rank needs no bootstrap */
    const char *address; /**< address of rank 0: "host:port" or "[v6]:port" */
    /** Settings that give the address and its port, for messages; NULL:
     *  "TRYST_BOOTSTRAP". */
    const char *address_setting, *port_setting;
    /** Identity of the job: rank 0 refuses the ranks of every other job. NULL or "": none
     *  is known, which is an identity too. Longer ones than BOOTSTRAP_JOB_BYTES are
     *  cut. */
    const char *job;
    int listen_fd;     /**< rank 0: a listening socket for `address`, else -1 */
    const void *token; /**< the job's secret; may be NULL only with `insecure` */
    size_t token_bytes;
    bool insecure; /**< no token: every process that reaches the port may join */
    /** Rank 0: the interface to listen on, in TRYST_NET's syntax. NULL: `address`
     *  decides. */
    const char *bind_interface;
    uint64_t timeout_ns; /**< for each call below; 0: 60 s; at most a day */
    const struct log *log;
    const struct clock *clock; /**< NULL: the machine's clock */
    /** Any thread sets it (relaxed) to cancel the call soon; may be NULL. */
    const atomic_bool *cancel;
    /** Not NULL: this function gathers, and no address, token or server is used. */
    tryst_allgather_fn allgather;
    void *allgather_arg;
};

struct bootstrap;

/** Connect the ranks; return when all have joined. Parameters are copied. `listen_fd` is
 *  taken over, also on failure, if it is a listening socket with the port of `address`;
 *  any other descriptor is left alone and rank 0 listens at `address` itself.
 *  TRYST_OK             all ranks share a session cookie
 *  TRYST_E_BOOTSTRAP    ranks did not arrive or died (named), or rank 0 was not reached
 *  TRYST_E_TOKEN        no token, or not the same one at both ends
 *  TRYST_E_GROUP        sizes differ, or two processes claim one rank: both are named;
 *                       or rank 0 belongs to another job: both identities are named
 *  TRYST_E_HANDSHAKE    another protocol version at the other end
 *  TRYST_E_CANCELED     `cancel` was set
 *  TRYST_E_CONFIG, TRYST_E_NOMEM, TRYST_E_SYSTEM, TRYST_E_INVALID */
tryst_status bootstrap_open(const struct bootstrap_params *params, struct err *err,
                            struct bootstrap **bootstrap_p);

/** Gather `bytes` bytes of every rank (the same number on each; may be 0) in rank order
 *  into `all` (size × bytes). Errors are those of bootstrap_open; after one the object
 *  can only be closed. */
tryst_status bootstrap_allgather(struct bootstrap *bootstrap, const void *mine,
                                 size_t bytes, void *all, struct err *err);

/** Send the `bytes` bytes of rank 0 (the same number on each rank) to all ranks. Errors
 *  are those of bootstrap_open; after one the object can only be closed. */
tryst_status bootstrap_broadcast(struct bootstrap *bootstrap, void *data, size_t bytes,
                                 struct err *err);

/** Return 128 random bits that are shared by the ranks of this session only. */
const uint8_t *bootstrap_cookie(const struct bootstrap *bootstrap);

/** Leave. Rank 0 waits until all other ranks have left too, at most the timeout (1 s
 *  after a failure). With `why` (a failure of this rank, may be NULL) the other ranks
 *  fail with its sentence and this rank's name. NULL bootstrap is allowed. */
void bootstrap_close(struct bootstrap *bootstrap, const struct err *why);

#endif
