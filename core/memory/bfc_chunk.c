/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of chunks; see bfc_chunk.h.
 */
#include "bfc_chunk.h"

void bfc_index_init(struct bfc_index *index)
{
    *index = (struct bfc_index){.used = {0}};
    for (int i = 0; i < BFC_SIZES; i++)
        list_init(&index->sizes[i]);
    hash_table_init(&index->by_address);
}

/* --- by size --- */

/* Return the index of the list for chunks of `bytes`: 4 lists for each doubling, from one
 * grain on. */
static unsigned size_index(uint64_t bytes)
{
    uint64_t grains = bytes / BFC_GRAIN;
    unsigned log = 63 - (unsigned)__builtin_clzll(grains);
    unsigned quarter =
        (unsigned)(log >= 2 ? grains >> (log - 2) : grains << (2 - log)) & 3;
    unsigned at = 4 * log + quarter;
    return at < BFC_SIZES ? at : BFC_SIZES - 1;
}

static bool comes_before(const struct bfc_chunk *a, const struct bfc_chunk *b)
{
    return a->bytes < b->bytes || (a->bytes == b->bytes && a->data < b->data);
}

void bfc_index_add(struct bfc_index *index, struct bfc_chunk *chunk)
{
    unsigned at = size_index(chunk->bytes);
    struct list_node *place = index->sizes[at].head.next;
    while (place != &index->sizes[at].head &&
           comes_before(container_of(place, struct bfc_chunk, by_size), chunk))
        place = place->next;
    list_insert_before(place, &chunk->by_size);
    index->used[at / 64] |= UINT64_C(1) << at % 64;
}

void bfc_index_remove(struct bfc_index *index, struct bfc_chunk *chunk)
{
    unsigned at = size_index(chunk->bytes);
    (void)list_remove(&chunk->by_size);
    if (list_empty(&index->sizes[at]))
        index->used[at / 64] &= ~(UINT64_C(1) << at % 64);
}

/* Return the index of the first list from `at` on that is not empty; BFC_SIZES if there
 * is none. */
static unsigned next_used(const struct bfc_index *index, unsigned at)
{
    while (at < BFC_SIZES) {
        uint64_t rest = index->used[at / 64] >> at % 64;
        if (rest)
            return at + (unsigned)__builtin_ctzll(rest);
        at = (at / 64 + 1) * 64;
    }
    return BFC_SIZES;
}

struct bfc_chunk *bfc_index_find(struct bfc_index *index, uint64_t bytes,
                                 bool (*fits)(struct bfc_chunk *chunk, void *arg),
                                 void *arg)
{
    unsigned at = next_used(index, size_index(bytes));
    for (; at < BFC_SIZES; at = next_used(index, at + 1)) {
        list_for_each_safe (&index->sizes[at], node, after) {
            struct bfc_chunk *chunk = container_of(node, struct bfc_chunk, by_size);
            if (chunk->bytes >= bytes && fits(chunk, arg))
                return chunk;
        }
    }
    return NULL;
}

/* --- by address --- */

struct bfc_chunk *bfc_index_at(const struct bfc_index *index, uintptr_t data)
{
    struct hash_node *node = hash_table_find(&index->by_address, hash_of_id(data));
    return node ? container_of(node, struct bfc_chunk, by_address) : NULL;
}
