/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3; see hash.h. The header-only form, in this file alone, so that nothing of xxHash
 * is exported or linked. */
#define XXH_INLINE_ALL
#include "core/text/hash.h"

#include <stdio.h>
#include <xxhash.h>

#include "core/memory/alloc.h"

struct hash_stream {
    XXH3_state_t state; /* must be 64-byte aligned */
};

static struct hash128 from_xxh(XXH128_hash_t hash)
{
    return (struct hash128){.low = hash.low64, .high = hash.high64};
}

uint64_t hash_bytes(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

struct hash_secret hash_secret = {
    {UINT64_C(0xb492b66fbe98f273), UINT64_C(0x9ae16a3b2f90404f),
     UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xc949d7c7509e6557)}};

void hash_secret_set(const struct hash_secret *secret)
{
    hash_secret = *secret;
}

uint64_t hash_keyed(const void *data, size_t bytes)
{
    uint64_t hash = XXH3_64bits_withSeed(data, bytes, hash_secret.words[3]);
    return hash ? hash : 1;
}

struct hash128 hash128_bytes(const void *data, size_t bytes)
{
    return from_xxh(XXH3_128bits(data, bytes));
}

tryst_status hash_stream_open(struct hash_stream **stream_p)
{
    struct hash_stream *stream =
        mem_alloc_aligned(_Alignof(struct hash_stream), sizeof *stream);
    if (!stream)
        return TRYST_E_NOMEM;
    XXH3_128bits_reset(&stream->state);
    *stream_p = stream;
    return TRYST_OK;
}

void hash_stream_add(struct hash_stream *stream, const void *data, size_t bytes)
{
    XXH3_128bits_update(&stream->state, data, bytes);
}

struct hash128 hash_stream_digest(const struct hash_stream *stream)
{
    return from_xxh(XXH3_128bits_digest(&stream->state));
}

void hash_stream_close(struct hash_stream *stream)
{
    mem_free(stream);
}

void hash128_hex(struct hash128 hash, char hex_p[HASH128_HEX_BYTES])
{
    snprintf(hex_p, HASH128_HEX_BYTES, "%016llx%016llx", (unsigned long long)hash.high,
             (unsigned long long)hash.low);
}
