/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of bfc.c, and the two ways in which they are found: free ones by size, all by address.
 *
 * By size: a list for each quarter of a power of two, in it by size and then address, so the first
 * that fits, from the list of the wanted size on, fits best. A bit per list that is not empty. */
#ifndef TRYST_CORE_BFC_CHUNK_H
#define TRYST_CORE_BFC_CHUNK_H

#include "core/memory/bfc.h"
#include "core/memory/hash_table.h"
#include "core/memory/list.h"

enum { BFC_SIZES = 4 * 48 };

/* Work of streams that may still use bytes that are free. Several chunks may share one. */
struct bfc_wait {
    unsigned references;
    bool is_named;   /* `stream` still means that stream */
    bool is_over;    /* the event has passed */
    uint64_t number; /* later waits have greater ones */
    void *stream;
    void *event; /* NULL and not over: could not be recorded, and nobody will know */
    struct bfc_wait *also; /* of another stream, before */
};

struct bfc_chunk {
    struct bfc_chunk *before, *behind; /* neighbours in the region; NULL at its ends */
    struct hash_node by_address;       /* its hash is of `data` */
    struct list_node by_size;          /* in none while it is out */
    struct list_node by_wait;          /* among those that wait, oldest first */
    uintptr_t data;
    uint64_t bytes;
    bool is_free;
    /* What work may still use it; NULL: none. While it is out: what was left of that when it was handed
     * out, to a stream that comes later anyway, and what bfc_use told of since. */
    struct bfc_wait *wait;
};

struct bfc_index {
    struct list sizes[BFC_SIZES];
    uint64_t used[BFC_SIZES / 64];
    struct hash_table by_address; /* all chunks */
};

/* hash_table_close(&index->by_address) undoes it. */
void bfc_index_init(struct bfc_index *index);

/* Free chunks, by size. */
void bfc_index_add(struct bfc_index *index, struct bfc_chunk *chunk);
void bfc_index_remove(struct bfc_index *index, struct bfc_chunk *chunk);
/* The smallest of at least `bytes` for which `fits` is true, or NULL. */
struct bfc_chunk *bfc_index_find(struct bfc_index *index, uint64_t bytes,
                                 bool (*fits)(struct bfc_chunk *chunk, void *arg),
                                 void *arg);

/* The chunk at this address, or NULL. */
struct bfc_chunk *bfc_index_at(const struct bfc_index *index, uintptr_t data);

#endif
