/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as rows of tests: what is drawn, how each kind starts, which inputs each output element comes from.
 *
 * A new kind is one row of `coll_kinds` (coll_items.c). */
#ifndef TRYST_TESTS_API_COLL_ITEMS_H
#define TRYST_TESTS_API_COLL_ITEMS_H

#include <tryst/coll.h>

#include "coll_reference.h"
#include "harness.h"

enum { COLL_ALL_RANKS = -1, COLL_NAME_BYTES = 32, COLL_GUARD = 96 };

/* One collective, equal on all ranks but for what a rank may choose by itself. */
struct coll_item {
    const struct coll_kind *kind;
    struct reference reference; /* dtype, reduce, values, factors */
    uint64_t count;
    int root;
    bool in_place;
    char name[COLL_NAME_BYTES];
};

/* Where an output element comes from: element `index` of `rank`'s input, or of all (COLL_ALL_RANKS). */
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

/* One rank's part: memory with guards around it. */
struct coll_part {
    const struct coll_item *item;
    int rank;
    size_t in_shift, out_shift; /* bytes by which memory is not aligned */
    uint8_t *in_room, *out_room;
    uint8_t *in, *out; /* out == in where the item is in place */
    size_t in_bytes, out_bytes;
    uint64_t in_hash;
    tryst_coll *prepared; /* NULL: started by the call of its kind */
    tryst_op *op;
};

/* Fill the inputs. `random` draws shifts. */
void coll_part_open(struct coll_part *part, const struct coll_item *item, int rank,
                    uint64_t *random);
void coll_part_close(struct coll_part *part);
void coll_part_prepare(struct coll_part *part, tryst_group *group);
tryst_status coll_part_start(struct coll_part *part, tryst_step *step,
                             const tryst_op_params *params);
/* Write over all memory of the part, which is the caller's again; later: true if that is as it was left. */
void coll_part_poison(struct coll_part *part);
bool coll_part_is_poisoned(const struct coll_part *part);
/* The guards and an input that stays are as they were. */
void coll_part_check_around(const struct coll_part *part);
/* The output is the reference's: every element, or one cache line in `every` of large sums of floats. */
void coll_part_check(const struct coll_part *part);
/* A hash of the output. */
uint64_t coll_part_hash(const struct coll_part *part);

/* A new cluster JSON of `size` ranks, by `seed`: stars, racks, meshes, chains; its path. NULL: none, equal links. */
char *coll_network_write(int size, uint64_t seed);
void coll_network_remove(char *path);

uint64_t coll_below(uint64_t *random, uint64_t n);

#endif
