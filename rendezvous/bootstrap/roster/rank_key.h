/* SPDX-License-Identifier: Apache-2.0 */
/** @file rank_key.h
 *  The key of a rank, which proves the rank to each other rank (rank_key.c).
 */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_ROSTER_RANK_KEY_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_ROSTER_RANK_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text/err.h"

enum {
    RANK_KEY_BYTES = 32,   /**< X25519 */
    RANK_PROOF_BYTES = 32, /**< HMAC-SHA256 */
    RANK_COOKIE_BYTES = 16
};

/** Draw a rank's key: `secret_p` stays with the rank, `open_p` goes into the roster.
 *  TRYST_OK or TRYST_E_SYSTEM. */
tryst_status rank_key_make(uint8_t secret_p[RANK_KEY_BYTES],
                           uint8_t open_p[RANK_KEY_BYTES]);

/** Compute the key of two ranks by the secret of the one and the open key of the other.
 *  Both ranks compute the same key, and no third rank can. False: `open` is not a valid
 *  open key. */
bool rank_key_pair(const uint8_t secret[RANK_KEY_BYTES],
                   const uint8_t open[RANK_KEY_BYTES], uint8_t pair_p[RANK_KEY_BYTES]);

/** Compute the proof that rank `from` shows to rank `to`; `pair` is the key of both. */
void rank_proof(const uint8_t pair[RANK_KEY_BYTES],
                const uint8_t cookie[RANK_COOKIE_BYTES], int32_t from, int32_t to,
                uint8_t proof_p[RANK_PROOF_BYTES]);
bool rank_proof_equal(const uint8_t a[RANK_PROOF_BYTES],
                      const uint8_t b[RANK_PROOF_BYTES]);

/** Return the number of the run of the ranks that share `cookie`, never 0. Files may show
 *  the number: the cookie does not follow from it. */
uint64_t rank_run(const uint8_t cookie[RANK_COOKIE_BYTES]);

/** Overwrite a secret. */
void rank_key_wipe(uint8_t secret[RANK_KEY_BYTES]);

#endif
