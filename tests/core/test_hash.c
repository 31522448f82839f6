/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "core/text/hash.h"

enum { DATA_BYTES = 100000 };

static unsigned char data[DATA_BYTES];

/* XXH3 of an empty input, as xxhsum prints it. */
static void values_are_those_of_xxh3(void **state)
{
    char hex[HASH128_HEX_BYTES];
    assert_true(hash_bytes("", 0) == UINT64_C(0x2d06800538d394c2));
    hash128_hex(hash128_bytes("", 0), hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

static void one_bit_changes_everything(void **state)
{
    for (size_t bytes = 1; bytes < 300; bytes++) {
        uint64_t before = hash_bytes(data, bytes);
        struct hash128 before128 = hash128_bytes(data, bytes);
        data[bytes / 2] ^= 1;
        struct hash128 after128 = hash128_bytes(data, bytes);
        assert_true(hash_bytes(data, bytes) != before);
        assert_true(after128.low != before128.low && after128.high != before128.high);
        data[bytes / 2] ^= 1;
    }
}

static tryst_status digest_in_pieces(struct random *random, size_t bytes,
                                     struct hash128 *digest_p)
{
    struct hash_stream *stream;
    tryst_status status = hash_stream_open(&stream);
    if (status != TRYST_OK)
        return status;
    for (size_t at = 0; at < bytes;) {
        size_t piece = (size_t)random_range(random, bytes - at + 1);
        hash_stream_add(stream, data + at, piece);
        at += piece;
        (void)hash_stream_digest(stream); /* reading the digest changes nothing */
    }
    *digest_p = hash_stream_digest(stream);
    hash_stream_close(stream);
    return TRYST_OK;
}

static void pieces_give_the_digest_of_the_whole(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (unsigned char)random_u64(&random);
    for (int round = 0; round < 200; round++) {
        size_t bytes = (size_t)random_range(&random, DATA_BYTES + 1);
        struct hash128 whole = hash128_bytes(data, bytes), pieces;
        assert_int_equal(digest_in_pieces(&random, bytes, &pieces), TRYST_OK);
        assert_true(pieces.low == whole.low && pieces.high == whole.high);
    }
}

static void no_memory_is_a_status(void **state)
{
    struct random random;
    struct hash128 digest;
    random_seed(&random, 1);
    WALK_ALLOCATIONS(digest_in_pieces(&random, 100, &digest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_xxh3),
        cmocka_unit_test(pieces_give_the_digest_of_the_whole),
        cmocka_unit_test(one_bit_changes_everything),
        cmocka_unit_test(no_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
