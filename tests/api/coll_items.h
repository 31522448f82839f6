/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as rows of tests: how an item is drawn, how each kind is started, and which
 * inputs each output element comes from.
 *
 * To add a kind, add one row to `coll_kinds` (coll_items.c). */
#ifndef TRYST_TESTS_API_COLL_ITEMS_H
#define TRYST_TESTS_API_COLL_ITEMS_H

#include <tryst/coll.h>

#include "coll_reference.h"
#include "twins.h"

enum { COLL_ALL_RANKS = -1, COLL_NAME_BYTES = 32, COLL_GUARD = 96 };

/** One collective. All ranks use the same item, but for the members that a rank may
 *  choose for itself. */
struct coll_item {
    const struct coll_kind *kind;
    struct reference reference; /**< dtype, reduction, values and factors */
    uint64_t count;
    int root;
    bool in_place;
    char name[COLL_NAME_BYTES];
};

/** The source of an output element: element `index` of the input of `rank`, or of all
 *  inputs if `rank` is COLL_ALL_RANKS. */
struct coll_source {
    int rank;
    uint64_t index;
};

struct coll_kind {
    const char *name;
    tryst_coll_kind kind;
    bool reduces, rooted;
    uint64_t (*in_count)(const struct coll_item *item, int rank);
    uint64_t (*out_count)(const struct coll_item *item, int rank);
    struct coll_source (*source)(const struct coll_item *item, int rank, uint64_t index);
    tryst_status (*start)(const struct coll_item *item, tryst_step *step,
                          const tryst_tensor *in, const tryst_tensor *out,
                          const tryst_op_params *params, tryst_op **op_p);
};

extern const struct coll_kind coll_kinds[];
extern const int coll_kinds_count;

/** The part of one rank in an item: its memory, with guards around it. With
 *  TRYST_TEST_DEVICE (twins.h) input and output may be on a device. One thread at a time
 *  uses a part, and none between its start and the operation's end. */
struct coll_part {
    const struct coll_item *item;
    int rank;
    size_t in_shift, out_shift; /**< bytes by which input and output are misaligned */
    uint8_t *in_room, *out_room;
    tryst_mem *in_mem, *out_mem; /**< peers of the host map the room; NULL: it is plain */
    struct twin in_twin, out_twin; /**< of the rooms */
    uint8_t *in, *out;             /**< out == in if the item is in place */
    size_t in_bytes, out_bytes;
    uint64_t in_hash;
    tryst_coll *prepared; /**< NULL: the call of the item's kind starts the part */
    tryst_op *op;
};

/** Allocate and fill the inputs. `random` draws the shifts, and the kind of memory. */
void coll_part_open(struct coll_part *part, const struct coll_item *item,
                    const struct harness_rank *rank, uint64_t *random);
void coll_part_close(struct coll_part *part);
void coll_part_prepare(struct coll_part *part, tryst_group *group);
tryst_status coll_part_start(struct coll_part *part, tryst_step *step,
                             const tryst_op_params *params);
/** Fill input and output of a completed part with a pattern. coll_part_is_poisoned is
 *  true if nothing has written there since. */
void coll_part_poison(struct coll_part *part);
bool coll_part_is_poisoned(struct coll_part *part);
/** Read the memory back from the devices, and fail unless the guards, and an input that
 *  the collective must keep, are unchanged. */
void coll_part_check_around(struct coll_part *part);
/** Fail unless the output, as coll_part_check_around has read it, is equal to the
 *  reference. For large sums of floats, check one cache line of every few; otherwise
 *  check each element. */
void coll_part_check(const struct coll_part *part);
/** Return a hash of the output. */
uint64_t coll_part_hash(const struct coll_part *part);

/** Write a cluster JSON file for `size` ranks, drawn from `seed` (star, racks, mesh or
 *  chain), and return its path. NULL: the seed draws no file, so all links are equal. */
char *coll_network_write(int size, uint64_t seed);
void coll_network_remove(char *path);

uint64_t coll_below(uint64_t *random, uint64_t n);

#endif
