/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of members to the server, and the session's failure (bootstrap_serve.c). */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_SERVE_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_SERVE_H

#include "bootstrap_server.h"

/** Read a request's header, in state CONN_HEADER or CONN_WAITING. */
void serve_header(struct server *server, struct conn *conn);
/** Serve a request after its payload has come. */
void serve_payload(struct server *server, struct conn *conn);
/** Fail the session if a member's connection has ended before the member left. */
void serve_ended(struct server *server, struct conn *conn);
/** Fail the session because a waiting member's deadline has passed. */
void serve_overdue(struct server *server, const struct conn *conn);
/** True if ranks are missing, and the session has not failed. */
bool serve_awaits_ranks(const struct server *server);
/** Log which ranks have come and which have not, once. */
void serve_warn(struct server *server);
/** Fail the session for all ranks, unless it has failed before. */
void serve_fail(struct server *server, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Send FAILED to a member, if the session has failed and the connection is in a state
 *  that can take it. */
void serve_failure_send(struct server *server, struct conn *conn);

#define MEMBER_TEXT_BYTES 192
/** Describe a rank: "rank 2 (pid 71 on node3, 10.0.0.3:4711)". Returns `text`. */
char *member_text(const struct server *server, int rank, char text[MEMBER_TEXT_BYTES]);

#endif
