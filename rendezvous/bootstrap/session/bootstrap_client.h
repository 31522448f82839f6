/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's connection to the bootstrap server.
 *
 * One idea: connect and prove until it works or the deadline passes, then one request and
 * one reply at a time.
 * Invariant: a failure of the session is remembered; every later request fails with it.
 * Callers: bootstrap.c. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_CLIENT_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_CLIENT_H

#include "bootstrap_auth.h"
#include "bootstrap_net.h"
#include "bootstrap_wire.h"

struct bootstrap_client {
    int fd;
    uint64_t gathers_count;
    bool midway; /* a request is not wholly sent: no other message can follow it */
    char server[BOOTSTRAP_ADDRESS_MAX]; /* for messages */
};

/* Connects to `params->address` and proves the token. */
tryst_status bootstrap_client_open(struct bootstrap_client *client,
                                   const struct bootstrap_params *params,
                                   const struct bootstrap_wait *wait, struct err *err);

/* Rank 0's: a socket that is connected to its own server already. Takes the descriptor. */
void bootstrap_client_adopt(struct bootstrap_client *client, int fd);

/* Sends a request of `head` and `body` (either may be empty) and reads its reply into
 * `result` (at most `capacity` bytes); `*bytes_p` is how many came. For a RESULT with a
 * status of its own (a refused put) that status, without a sentence. */
struct bootstrap_request {
    enum bootstrap_frame_type type;
    const void *head, *body;
    size_t head_bytes, body_bytes;
    void *result;
    size_t capacity;
};
tryst_status bootstrap_client_ask(struct bootstrap_client *client,
                                  const struct bootstrap_request *request,
                                  const struct bootstrap_wait *wait, struct err *err,
                                  size_t *bytes_p);

/* Says BYE, or ABORT with `why`, if the socket takes it at once, and closes. */
void bootstrap_client_close(struct bootstrap_client *client, const struct err *why);

/* Says it without closing yet: rank 0 then waits for its server. */
void bootstrap_client_leave(struct bootstrap_client *client, const struct err *why);

#endif
