/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of the token: see bootstrap_auth.h. */
#include "bootstrap_auth.h"

#include <sodium.h>
#include <string.h>

_Static_assert(BOOTSTRAP_MAC_BYTES == crypto_auth_hmacsha256_BYTES, "HMAC-SHA256");

tryst_status bootstrap_auth_init(struct err *err)
{
    if (sodium_init() >= 0)
        return TRYST_OK;
    return err_set(err, TRYST_E_SYSTEM, "cannot initialise libsodium");
}

void bootstrap_mac(const struct bootstrap_token *token, enum bootstrap_role role,
                   const struct bootstrap_wire_proof *proof,
                   const struct bootstrap_wire_verdict *verdict,
                   const uint8_t client_nonce[BOOTSTRAP_NONCE_BYTES],
                   const uint8_t server_nonce[BOOTSTRAP_NONCE_BYTES],
                   uint8_t mac_p[BOOTSTRAP_MAC_BYTES])
{
    static const uint8_t none[1];
    crypto_auth_hmacsha256_state state;
    struct bootstrap_wire_transcript transcript = {
        .label = "tryst bootstrap",
        .version = BOOTSTRAP_WIRE_VERSION,
        .role = role,
        .rank = proof->rank,
        .size = proof->size,
        .pid = proof->pid,
        .code = verdict ? verdict->code : 0,
    };
    memcpy(transcript.host, proof->host, sizeof transcript.host);
    memcpy(transcript.job, proof->job, sizeof transcript.job);
    if (verdict)
        memcpy(transcript.server_job, verdict->job, sizeof transcript.server_job);
    memcpy(transcript.client_nonce, client_nonce, BOOTSTRAP_NONCE_BYTES);
    memcpy(transcript.server_nonce, server_nonce, BOOTSTRAP_NONCE_BYTES);
    crypto_auth_hmacsha256_init(&state, token->bytes ? token->data : none, token->bytes);
    crypto_auth_hmacsha256_update(&state, (const uint8_t *)&transcript,
                                  sizeof transcript);
    crypto_auth_hmacsha256_final(&state, mac_p);
    sodium_memzero(&state, sizeof state);
}

bool bootstrap_mac_equal(const uint8_t a[BOOTSTRAP_MAC_BYTES],
                         const uint8_t b[BOOTSTRAP_MAC_BYTES])
{
    return sodium_memcmp(a, b, BOOTSTRAP_MAC_BYTES) == 0;
}

void bootstrap_wipe(void *secret, size_t bytes)
{
    sodium_memzero(secret, bytes);
}
