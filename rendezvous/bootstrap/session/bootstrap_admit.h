/* SPDX-License-Identifier: Apache-2.0 */
/* Admission to the session by HELLO and PROOF (bootstrap_admit.c). */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_ADMIT_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_ADMIT_H

#include "bootstrap_server.h"

void admit_hello(struct server *server, struct conn *conn);
void admit_proof(struct server *server, struct conn *conn);
/** Make rank 0's own socket a member. */
void admit_own(struct server *server, struct conn *conn);

#endif
