/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3, for tables (64 bits) and for digests of data (128 bits).
 *
 * One idea: one hash function in the whole library, compiled once. It guards against
 * mistakes, not against malice.
 * Invariant: values are equal on all supported machines (little-endian, seed 0), so they
 * may be compared between ranks and kept in files. */
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
