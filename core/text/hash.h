/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3, for tables (64 bits) and for digests of data (128 bits).
 *
 * One idea: one hash function in the whole library, compiled once. It guards against
 * mistakes, not against malice.
 * Invariant: values are the same on every machine that we run on (little-endian, seed 0),
 * so they may be compared between ranks and kept in files. Callers: keys, configuration
 * digest, weights digest. */
#ifndef TRYST_CORE_HASH_H
#define TRYST_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "tryst/status.h"

struct hash128 {
    uint64_t low, high;
};

#define HASH128_HEX_BYTES 33

uint64_t hash_bytes(const void *data, size_t bytes);
struct hash128 hash128_bytes(const void *data, size_t bytes);

/* The same digest over data that comes in pieces. */
struct hash_stream;
tryst_status hash_stream_open(struct hash_stream **stream_p);
void hash_stream_add(struct hash_stream *stream, const void *data, size_t bytes);
struct hash128 hash_stream_digest(
    const struct hash_stream *stream); /* may go on adding */
void hash_stream_close(struct hash_stream *stream);

/* 32 lower-case digits, most significant first, as `xxhsum -H2` prints it. */
void hash128_hex(struct hash128 hash, char hex_p[HASH128_HEX_BYTES]);

#endif
