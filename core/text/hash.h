/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3, for tables (64 bits) and for digests of data (128 bits).
 *
 * One idea: one hash function in the whole library, compiled once. Plain hashes guard
 * against mistakes, not malice. A table of keys that another process chooses uses the
 * keyed forms (hash_keyed, hash_keyed_id): that process cannot choose many keys of one
 * bucket.
 * Invariant: values of the forms without a key are equal on all supported machines
 * (little-endian, seed 0), so they may be compared between ranks and kept in files.
 * Keyed values never leave the process. */
#ifndef TRYST_CORE_TEXT_HASH_H
#define TRYST_CORE_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "tryst/status.h"

struct hash128 {
    uint64_t low, high;
};

#define HASH128_HEX_BYTES 33

uint64_t hash_bytes(const void *data, size_t bytes);

/** The secret of the keyed forms: constants until hash_secret_set, so that tests are
 *  repeatable. */
struct hash_secret {
    uint64_t words[4];
};
extern struct hash_secret hash_secret;

/** Set the secret. No table may hold a keyed hash, and no other thread may use one. */
void hash_secret_set(const struct hash_secret *secret);
/** Hash bytes that another process chose; never 0. */
uint64_t hash_keyed(const void *data, size_t bytes);
/** Hash an id that another process chose: different ids have different hashes. */
static inline uint64_t hash_keyed_id(uint64_t id)
{
    const uint64_t *words = hash_secret.words;
    uint64_t spread = (id ^ words[0]) * (words[1] | 1);
    spread = (spread ^ spread >> 32) * (words[2] | 1);
    return spread ^ spread >> 32;
}

struct hash128 hash128_bytes(const void *data, size_t bytes);

/** Compute hash128_bytes of data that arrives in pieces. */
struct hash_stream;
tryst_status hash_stream_open(struct hash_stream **stream_p);
void hash_stream_add(struct hash_stream *stream, const void *data, size_t bytes);
/** Return the digest of the pieces so far; further pieces may follow. */
struct hash128 hash_stream_digest(const struct hash_stream *stream);
void hash_stream_close(struct hash_stream *stream);

/** Write `hash` as 32 lower-case digits, most significant first, as `xxhsum -H2` prints
 *  it. */
void hash128_hex(struct hash128 hash, char hex_p[HASH128_HEX_BYTES]);

#endif
