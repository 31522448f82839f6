/* SPDX-License-Identifier: Apache-2.0 */
/* What members ask the server for, and how a session fails (bootstrap_serve.c).
 *
 * Callers: bootstrap_server.c, bootstrap_admit.c. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SERVE_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SERVE_H

#include "bootstrap_server.h"

/* A header has come, in state CONN_HEADER or CONN_WAITING. */
void serve_header(struct server *server, struct conn *conn);
/* The payload has come. */
void serve_payload(struct server *server, struct conn *conn);
/* The connection of a member ended. */
void serve_ended(struct server *server, struct conn *conn);
/* The deadline of a waiting member passed. */
void serve_overdue(struct server *server, const struct conn *conn);
/* Everybody fails with this, unless something came before. */
void serve_fail(struct server *server, tryst_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Tell a member of the failure, if there is one and it can be told now. */
void serve_tell(struct server *server, struct conn *conn);

/* Forget all names. */
void serve_store_wipe(struct store *store);

/* "rank 2 (pid 71 on node3, 10.0.0.3:4711)". */
#define MEMBER_TEXT_BYTES 192
char *member_text(const struct server *server, int rank, char text[MEMBER_TEXT_BYTES]);

#endif
