/* SPDX-License-Identifier: Apache-2.0 */
/** @file tree.h
 *  One tree of one collective at one rank: what may be granted, added, sent and placed next. Pure.
 *
 *  The state is prefix counters over the slices 0 to n-1 of the tree's range:
 *
 *      up, per child c   told[c] >= granted[c] >= added[c]     landed: which of [added, granted)
 *      up, to the parent ready = added of the last child (a leaf: own) >= sent
 *      down              ready = arrived (the root: finished) 
 *
 *  Rules (DESIGN section 6, rules 7 and 8):
 *   - Slice i of child c is granted when the child has announced it and slice i of the child before has been
 *     granted. So what a granted slice waits for is granted too, lands without further grants, and gives its slot
 *     back: no order of grants over all trees and collectives can deadlock, with a single slot of scratch either.
 *   - Slice i of child c is added in the order of slices, behind child c-1: a left fold, each addition
 *     rounded, whatever lands first.
 *   - Sums are in memory that the operation owns. Where that is the result, too, slice i of the result is
 *     placed only when the sum i has been sent.
 */
#ifndef COMMSCHED_COLL_TREE_H
#define COMMSCHED_COLL_TREE_H

#include <stdbool.h>
#include <stdint.h>

/** Slices of one child that are granted and not added, at most. */
enum { COLL_GRANTS_MAX = 64 };

struct coll_child {
    uint32_t told, granted, added;
    uint64_t landed; /**< of the slices [added, granted): bit index % COLL_GRANTS_MAX */
    void *slots[COLL_GRANTS_MAX]; /**< scratch of each of them, likewise */
};

struct coll_tree {
    uint32_t slices;
    uint32_t children_count;
    struct coll_child *children; /**< in the order of addition */
    uint64_t *arrived_bits; /**< a bit per slice; NULL where no result comes from above */
    bool is_root;
    bool owns;     /**< without children: the own term is copied or scaled first */
    bool finishes; /**< the root: complete sums are scaled */
    bool reuses;   /**< results are placed where sums are sent from */
    uint32_t own;  /**< slices with this rank's own term in `sums`; all, unless `owns` */
    uint32_t finished, sent, arrived;
};

enum coll_work { COLL_OWN, COLL_ADD, COLL_FINISH };

/** A piece of arithmetic that is due. */
struct coll_unit {
    enum coll_work work;
    uint32_t child; /**< COLL_ADD */
    uint32_t index; /**< of the slice */
    void *slot;     /**< COLL_ADD: the child's slice */
};

/** Start over: all counters as before the first slice; the other fields are set. */
void coll_tree_reset(struct coll_tree *tree);
/** Slices with a complete sum over this rank's subtree: ready for the parent. */
uint32_t coll_tree_ready_up(const struct coll_tree *tree);
/** Slices of the result: ready for the children. */
uint32_t coll_tree_ready_down(const struct coll_tree *tree);
/** True if nothing is left to compute. */
bool coll_tree_is_done(const struct coll_tree *tree);

/** True if the next slice of `child` may have scratch now. */
bool coll_tree_may_grant(const struct coll_tree *tree, uint32_t child);
/** The next slice of `child` has `slot`. */
void coll_tree_grant(struct coll_tree *tree, uint32_t child, void *slot);
/** Slice `index` of `child` is in its slot. In any order. */
void coll_tree_landed(struct coll_tree *tree, uint32_t child, uint32_t index);
/** The only slice of `child` came as DATA and is at `payload`; no grant came before. */
void coll_tree_taken(struct coll_tree *tree, uint32_t child, void *payload);
/** Find the unit to compute next: the one nearest to the end, since this frees scratch soonest. False: no unit
 *  is due. */
bool coll_tree_next(const struct coll_tree *tree, struct coll_unit *unit_p);
/** `unit` was computed: its slot is free. */
void coll_tree_advance(struct coll_tree *tree, const struct coll_unit *unit);

/** The transport has read the sum `index`; in order. */
void coll_tree_sent(struct coll_tree *tree, uint32_t index);
/** True if slice `index` of the result may be placed. */
bool coll_tree_may_place(const struct coll_tree *tree, uint32_t index);
/** Slice `index` of the result is in place. In any order. */
void coll_tree_arrived(struct coll_tree *tree, uint32_t index);

#endif
