/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of the token, for both ends of a bootstrap connection.
 *
 * One idea: HMAC-SHA256 with the token as key over a transcript that holds both nonces,
 * the role, rank, size, both jobs' identities and the verdict, so that no MAC is valid
 * twice, for another rank or job, or for the other side. A peer without the token can
 * compute no MAC; since the server proves second, such a peer never receives one either.
 * Invariant: comparisons take the same time whatever differs. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_AUTH_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_SESSION_BOOTSTRAP_AUTH_H

#include "bootstrap_wire.h"

struct bootstrap_token {
    const void *data; /**< may be NULL if bytes is 0 (an insecure job) */
    size_t bytes;
};

/** Initialize libsodium. Must have succeeded once before the other functions are called.
 *  TRYST_OK, TRYST_E_SYSTEM. */
tryst_status bootstrap_auth_init(struct err *err);

/** Compute the MAC of a side. `verdict` has the code and the server's job (its MAC is not
 *  read); NULL for the client's MAC. */
void bootstrap_mac(const struct bootstrap_token *token, enum bootstrap_role role,
                   const struct bootstrap_wire_proof *proof,
                   const struct bootstrap_wire_verdict *verdict,
                   const uint8_t client_nonce[BOOTSTRAP_NONCE_BYTES],
                   const uint8_t server_nonce[BOOTSTRAP_NONCE_BYTES],
                   uint8_t mac_p[BOOTSTRAP_MAC_BYTES]);

bool bootstrap_mac_equal(const uint8_t a[BOOTSTRAP_MAC_BYTES],
                         const uint8_t b[BOOTSTRAP_MAC_BYTES]);

/** Overwrite a secret in a way that the compiler cannot remove. */
void bootstrap_wipe(void *secret, size_t bytes);

#endif
