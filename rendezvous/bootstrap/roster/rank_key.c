/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a rank.
 *
 * Idea: all ranks of a job have the cookie, and the incarnations of all. So each rank
 * draws a key pair at the bootstrap, and the roster has the open halves. Any two ranks
 * compute a key that no third rank can compute (X25519). A MAC under that key, over the
 * sender's and the receiver's rank, proves the sender to this receiver alone. So the
 * proof needs no nonce: only a reader of the connection could repeat the proof, and the
 * network is trusted.
 */
#include "rank_key.h"

#include <sodium.h>
#include <string.h>

_Static_assert(RANK_KEY_BYTES == crypto_scalarmult_BYTES, "X25519");
_Static_assert(RANK_PROOF_BYTES == crypto_auth_hmacsha256_BYTES, "HMAC-SHA256");
_Static_assert(RANK_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "a hash is its key");

tryst_status rank_key_make(uint8_t secret_p[RANK_KEY_BYTES],
                           uint8_t open_p[RANK_KEY_BYTES])
{
    if (sodium_init() < 0)
        return TRYST_E_SYSTEM;
    randombytes_buf(secret_p, RANK_KEY_BYTES);
    return crypto_scalarmult_base(open_p, secret_p) == 0 ? TRYST_OK : TRYST_E_SYSTEM;
}

bool rank_key_pair(const uint8_t secret[RANK_KEY_BYTES],
                   const uint8_t open[RANK_KEY_BYTES], uint8_t pair_p[RANK_KEY_BYTES])
{
    uint8_t shared[RANK_KEY_BYTES];
    if (crypto_scalarmult(shared, secret, open) != 0)
        return false;
    (void)crypto_hash_sha256(pair_p, shared, sizeof shared);
    sodium_memzero(shared, sizeof shared);
    return true;
}

void rank_proof(const uint8_t pair[RANK_KEY_BYTES],
                const uint8_t cookie[RANK_COOKIE_BYTES], int32_t from, int32_t to,
                uint8_t proof_p[RANK_PROOF_BYTES])
{
    struct {
        char label[16];
        uint8_t cookie[RANK_COOKIE_BYTES];
        int32_t from, to;
    } message = {.label = "tryst link", .from = from, .to = to};
    memcpy(message.cookie, cookie, sizeof message.cookie);
    (void)crypto_auth_hmacsha256(proof_p, (const uint8_t *)&message, sizeof message,
                                 pair);
}

bool rank_proof_equal(const uint8_t a[RANK_PROOF_BYTES],
                      const uint8_t b[RANK_PROOF_BYTES])
{
    return sodium_memcmp(a, b, RANK_PROOF_BYTES) == 0;
}

uint64_t rank_run(const uint8_t cookie[RANK_COOKIE_BYTES])
{
    struct {
        char label[16];
        uint8_t cookie[RANK_COOKIE_BYTES];
    } message = {.label = "tryst run"};
    uint8_t hash[crypto_hash_sha256_BYTES];
    uint64_t run;
    memcpy(message.cookie, cookie, sizeof message.cookie);
    (void)crypto_hash_sha256(hash, (const uint8_t *)&message, sizeof message);
    memcpy(&run, hash, sizeof run);
    return run ? run : 1;
}

void rank_key_wipe(uint8_t secret[RANK_KEY_BYTES])
{
    sodium_memzero(secret, RANK_KEY_BYTES);
}
