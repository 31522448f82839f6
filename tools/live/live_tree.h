/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_tree.h
 *  Reads from /proc which process started which. */
#ifndef TRYST_TOOLS_LIVE_LIVE_TREE_H
#define TRYST_TOOLS_LIVE_LIVE_TREE_H

#include <stddef.h>
#include <sys/types.h>

struct live_tree_process {
    pid_t pid, parent;
};

/** The processes of this host when the tree was read. */
struct live_tree {
    struct live_tree_process *items;
    size_t count;
};

/** Read the tree. Without memory it has no processes. */
struct live_tree live_tree_read(void);
void live_tree_free(struct live_tree *tree);
/** Return the parent of `pid`; 0: it has none, or is gone. */
pid_t live_tree_parent(const struct live_tree *tree, pid_t pid);
/** Move all processes below `pid` to the front of `items`, parents before their children;
 *  return their number. */
size_t live_tree_below(struct live_tree *tree, pid_t pid);

#endif
