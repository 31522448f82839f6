/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO, PROOF, who becomes a member of the session (bootstrap_admit.c).
 *
 * Callers: bootstrap_server.c. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_ADMIT_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_ADMIT_H

#include "bootstrap_server.h"

void admit_hello(struct server *server, struct conn *conn);
void admit_proof(struct server *server, struct conn *conn);
/* Rank 0's own socket is a member from the start. */
void admit_own(struct server *server, struct conn *conn);

#endif
