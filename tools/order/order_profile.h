/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_profile.h
 *  A step as a graph with durations: a profile of libtryst (tryst/profile.h), or one that
 *  is merged of those of all ranks. */
#ifndef TRYST_TOOLS_ORDER_ORDER_PROFILE_H
#define TRYST_TOOLS_ORDER_ORDER_PROFILE_H

#include <stdio.h>
#include <tryst/profile.h>

/** An action of computation, or an operation. */
struct order_node {
    char *name;
    bool is_operation;
    double seconds;  /**< action: its duration */
    uint64_t bytes;  /**< operation */
    uint32_t *after; /**< [after_count]: the nodes that it comes after */
    uint32_t after_count;
};

/** Invariant: no node comes after itself. */
struct order_profile {
    tryst_profile_origin origin;
    struct order_node *nodes; /**< [count] */
    uint32_t count;
    uint32_t edges_count; /**< the sum of after_count */
};

/** Return an array of zeros, with one element more than `count`. Exits if memory is out:
 *  a tool has nothing to keep. */
void *order_zalloc(size_t count, size_t bytes);

/** Load the profile at `path`. With %r in it: those of all ranks of one run, merged
 *  (order_merge.h). NULL: a line on stderr has the reason. */
struct order_profile *order_profile_open(const char *path);
/** NULL is allowed. */
void order_profile_close(struct order_profile *profile);

/** Set the name of node `index`, which is copied, and return the node. */
struct order_node *order_node_name(struct order_profile *profile, uint32_t index,
                                   const char *name);
/** Note that the node `index` comes after node `before`. */
void order_node_after(struct order_profile *profile, uint32_t index, uint32_t before);

/** Print the line that names the ranks and the run of the profile, if they are known. */
void order_origin_print(FILE *out, const struct order_profile *profile);
/** Write the same as members of a JSON object, each with a comma after it. */
void order_origin_json(FILE *file, const struct order_profile *profile);

#endif
