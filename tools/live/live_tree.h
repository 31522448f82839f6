/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_tree.h
 *  Which process started which, from /proc. */
#ifndef TOOLS_LIVE_TREE_H
#define TOOLS_LIVE_TREE_H

#include <stddef.h>
#include <sys/types.h>

struct live_tree_process {
    pid_t pid, parent;
};

/** The processes of this host, as they were when the tree was read. */
struct live_tree {
    struct live_tree_process *items;
    size_t count;
};

/** Without memory the tree has no processes. */
struct live_tree live_tree_read(void);
void live_tree_free(struct live_tree *tree);
/** 0: the process has none, or is gone. */
pid_t live_tree_parent(const struct live_tree *tree, pid_t pid);
/** Move all processes below `pid` to the front of `items`, children first; returns how many they are. */
size_t live_tree_below(struct live_tree *tree, pid_t pid);

#endif
