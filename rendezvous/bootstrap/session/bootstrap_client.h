/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's connection to the bootstrap server.
 *
 * One idea: connect and prove until that works or the deadline passes; then one request
 * and one reply at a time. Invariant: after a failure the connection can only be
 * closed. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_CLIENT_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_CLIENT_H

#include "bootstrap_auth.h"
#include "bootstrap_net.h"
#include "bootstrap_wire.h"

struct bootstrap_client {
    int fd;
    uint64_t gathers_count;
    bool midway; /**< a request was sent in part: no other message can follow it */
    char server[BOOTSTRAP_ADDRESS_MAX]; /**< rank 0's address, for messages */
};

/** Connect to `params->address` and prove the token. Errors are those of
 *  bootstrap_open. */
tryst_status bootstrap_client_open(struct bootstrap_client *client,
                                   const struct bootstrap_params *params,
                                   const struct bootstrap_wait *wait, struct err *err);

/** Take a socket that is already connected to rank 0's own server. */
void bootstrap_client_adopt(struct bootstrap_client *client, int fd);

/** A request with its payload, and room for the whole reply. */
struct bootstrap_request {
    enum bootstrap_frame_type type; /**< GATHER or BROADCAST */
    const void *body;
    size_t body_bytes;
    void *result; /**< may be `body` */
    size_t result_bytes;
};
/** Send a request and read its reply. */
tryst_status bootstrap_client_request(struct bootstrap_client *client,
                                      const struct bootstrap_request *request,
                                      const struct bootstrap_wait *wait, struct err *err);

/** Send BYE, or ABORT with `why`, if the socket takes it at once, and close. */
void bootstrap_client_close(struct bootstrap_client *client, const struct err *why);

/** Send BYE or ABORT without closing yet: rank 0 then waits for its server. */
void bootstrap_client_leave(struct bootstrap_client *client, const struct err *why);

#endif
