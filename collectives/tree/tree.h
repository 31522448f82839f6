/* SPDX-License-Identifier: Apache-2.0 */
/** @file tree.h
 *  One tree of one collective at one rank: which slice may be granted, added, sent and
 *  placed next. Pure.
 *
 *  The state is prefix counters over the slices 0 to n-1 of the tree's range:
 *
 *      up, per child c   slices_announced[c] >= granted[c] >= added[c]
 *                        landed: bits of the slices [added, granted)
 *      up, to the parent ready = added of the last child (a leaf: own) >= sent
 *      own               fetched >= own; a term in host memory is fetched from the start
 *      down              ready = arrived (the root: finished)
 *
 *  Rules:
 *   - Slice i of child c is granted when the child has announced slice i and slice i of
 *     child c-1 has been granted. So a granted slice waits only for granted slices; these
 *     land without further grants and return their buffers. No order of grants over all
 *     trees and collectives can deadlock, even with a single buffer of scratch.
 *   - Where the bytes of child c can be read at the child, slice i is borrowed once slice
 *     i of child c-1 is here or added; of child 0, even before its announcement. A
 *     borrowed slice holds the window of its child until it is added. So it must wait for
 *     this rank alone: if it waited for a slice under way, that slice could wait for a
 *     window that another collective, with another order of addition, holds in turn.
 *   - The slices of child c are added in order, each behind the same slice of child c-1:
 *     a left fold, each addition rounded, whatever lands first.
 *   - Sums are in memory that the operation owns. If this memory is also the result,
 *     slice i of the result is placed only after sum i has been sent.
 */
#ifndef TRYST_COLLECTIVES_TREE_TREE_H
#define TRYST_COLLECTIVES_TREE_TREE_H

#include <stdbool.h>
#include <stdint.h>

/** The most slices of one child that are granted and not added. */
enum { COLL_GRANTS_MAX = 8 };

struct coll_child {
    uint32_t slices_announced, granted, added; /**< announced, granted and added slices */
    uint64_t landed; /**< landed slices of [added, granted): bit i % COLL_GRANTS_MAX */
    /** scratch of slice i, at i % COLL_GRANTS_MAX; NULL: it is borrowed */
    void *buffers[COLL_GRANTS_MAX];
};

struct coll_tree {
    uint32_t slices;
    uint32_t children_count;
    struct coll_child *children; /**< in the order of addition */
    uint64_t *arrived_bits; /**< a bit per slice; NULL where no result comes from above */
    bool is_root;
    bool owns;     /**< no children, and the own term is copied or scaled first */
    bool finishes; /**< the root scales complete sums */
    bool reuses;   /**< results are placed in the memory that sums are sent from */
    struct coll_tree *next; /**< the next tree of the collective's lead (lead.h) */
    uint32_t
        limit; /**< no child is granted slice `limit` or a later one; set by lead.c */
    /** Slices of this rank's own term that are in host memory; set before a reset. */
    uint32_t fetched;
    /** Slices with this rank's own term ready for additions: `fetched` or, if the tree
     *  `owns`, those that are in `sums`. */
    uint32_t own;
    uint32_t finished, sent, arrived;
};

enum coll_work { COLL_OWN, COLL_ADD, COLL_FINISH };

/** A piece of arithmetic that is due. */
struct coll_unit {
    enum coll_work work;
    uint32_t child; /**< COLL_ADD: index of the child */
    uint32_t index; /**< index of the slice */
    void *buffer;   /**< COLL_ADD: the child's slice; NULL: it is borrowed */
};

/** Reset all counters. The other fields are set before, and stay. */
void coll_tree_reset(struct coll_tree *tree);
/** Note that the first `slices` slices of this rank's own term are in host memory. */
void coll_tree_fetched(struct coll_tree *tree, uint32_t slices);
/** Return the number of slices that are ready for the parent: their sum over this
 *  rank's subtree is complete. */
uint32_t coll_tree_ready_up(const struct coll_tree *tree);
/** Return the number of slices of the result that are ready for the children. */
uint32_t coll_tree_ready_down(const struct coll_tree *tree);
/** Return the number of slices that are passed on: they have left for the parent; at the
 *  root, they are added. */
uint32_t coll_tree_passed(const struct coll_tree *tree);
/** True if nothing is left to compute. */
bool coll_tree_is_done(const struct coll_tree *tree);

/** True if the next slice of `child` may have scratch now. */
bool coll_tree_may_grant(const struct coll_tree *tree, uint32_t child);
/** True if the next slice of `child` may be borrowed now. */
bool coll_tree_may_borrow(const struct coll_tree *tree, uint32_t child);
/** Grant `buffer` to the next slice of `child`; NULL: the slice is borrowed. */
void coll_tree_grant(struct coll_tree *tree, uint32_t child, void *buffer);
/** Note that slice `index` of `child` is in its buffer, or can be read; in any order. */
void coll_tree_landed(struct coll_tree *tree, uint32_t child, uint32_t index);
/** Note that the only slice of `child` came as DATA, without a grant, and is at
 *  `payload`. */
void coll_tree_taken(struct coll_tree *tree, uint32_t child, void *payload);
/** Find the unit to compute next: the one nearest to the end, since this frees scratch
 *  soonest. False: no unit is due. */
bool coll_tree_next(const struct coll_tree *tree, struct coll_unit *unit_p);
/** Note that `unit` was computed; its buffer is free. */
void coll_tree_advance(struct coll_tree *tree, const struct coll_unit *unit);

/** Note that the transport has read sum `index`; in order. */
void coll_tree_sent(struct coll_tree *tree, uint32_t index);
/** True if slice `index` of the result may be placed. */
bool coll_tree_may_place(const struct coll_tree *tree, uint32_t index);
/** Note that slice `index` of the result is in place; in any order. */
void coll_tree_arrived(struct coll_tree *tree, uint32_t index);

#endif
