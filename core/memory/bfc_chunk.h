/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of bfc.c and their index: free chunks by size, all chunks by address.
 *
 * By size: one list for each quarter of a power of two, sorted by size and then by
 * address, and one bit for each list that is not empty. The first chunk that fits, from
 * the list of the requested size on, is therefore the best fit. */
#ifndef TRYST_CORE_MEMORY_BFC_CHUNK_H
#define TRYST_CORE_MEMORY_BFC_CHUNK_H

#include "core/memory/bfc.h"
#include "core/memory/hash_table.h"
#include "core/memory/list.h"

enum { BFC_SIZES = 4 * 48 };

/** Work of streams that may still use free bytes. Several chunks may share one wait. */
struct bfc_wait {
    unsigned references;
    bool is_named;      /**< `stream` is still the handle of the recorded stream */
    bool has_completed; /**< the event has passed */
    uint64_t number;    /**< a later wait has a greater number */
    void *stream;
    /** NULL once has_completed; NULL before that: the event could not be recorded, so the
     *  wait never passes */
    void *event;
    struct bfc_wait *also; /**< an earlier wait of another stream; NULL: none */
};

struct bfc_chunk {
    struct bfc_chunk *before, *behind; /**< neighbours in the region; NULL at its ends */
    struct hash_node by_address;       /**< hashed by `data` */
    struct list_node by_size;          /**< in no list while the chunk is out */
    /** in bfc.waiting (oldest wait first) while the chunk is free and has a wait */
    struct list_node by_wait;
    uintptr_t data;
    uint64_t bytes;
    bool is_free;
    /** Work that may still use the chunk; NULL: none. While the chunk is out: the work
     *  that was left when bfc_get handed the chunk out (the stream's new work runs after
     *  it anyway), and the work that bfc_use has added since. */
    struct bfc_wait *wait;
};

struct bfc_index {
    struct list sizes[BFC_SIZES];
    uint64_t used[BFC_SIZES / 64];
    struct hash_table by_address; /**< all chunks */
};

/** Initialise an index; hash_table_close(&index->by_address) undoes this. */
void bfc_index_init(struct bfc_index *index);

/** Add a free chunk to the index by size, or remove one. */
void bfc_index_add(struct bfc_index *index, struct bfc_chunk *chunk);
void bfc_index_remove(struct bfc_index *index, struct bfc_chunk *chunk);
/** Find the smallest free chunk of at least `bytes` for which `fits` is true, or NULL. */
struct bfc_chunk *bfc_index_find(struct bfc_index *index, uint64_t bytes,
                                 bool (*fits)(struct bfc_chunk *chunk, void *arg),
                                 void *arg);

/** Find the chunk at the address `data`, or NULL. */
struct bfc_chunk *bfc_index_at(const struct bfc_index *index, uintptr_t data);

#endif
