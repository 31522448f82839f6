/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tree of processes: one pass over /proc for all parents.
 *
 * Idea: the processes found below `pid` are the front of the list. Each of them moves its
 * children from the rest to the end of the front, until the front is done. */
#include "live_tree.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the parent; 0: the process is gone. A process's name may hold any character,
 * parentheses too. */
static pid_t parent_read(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    const char *end = strrchr(text, ')');
    return end && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0; /* ") S 1234" */
}

static bool process_add(struct live_tree *tree, size_t *capacity, pid_t pid)
{
    if (tree->count == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 256;
        struct live_tree_process *items = realloc(tree->items, more * sizeof *items);
        if (!items)
            return false;
        tree->items = items;
        *capacity = more;
    }
    tree->items[tree->count++] = (struct live_tree_process){pid, parent_read(pid)};
    return true;
}

struct live_tree live_tree_read(void)
{
    struct live_tree tree = {NULL, 0};
    size_t capacity = 0;
    struct dirent *entry;
    DIR *dir = opendir("/proc");
    while (dir && (entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && !process_add(&tree, &capacity, pid))
            break;
    }
    if (dir)
        closedir(dir);
    return tree;
}

void live_tree_free(struct live_tree *tree)
{
    free(tree->items);
    *tree = (struct live_tree){NULL, 0};
}

pid_t live_tree_parent(const struct live_tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->items[i].pid == pid)
            return tree->items[i].parent;
    return 0;
}

/* Move the children of `pid` to the places from `found` on; return the new length of the
 * front. */
static size_t children_move(struct live_tree *tree, size_t found, pid_t pid)
{
    for (size_t i = found; i < tree->count; i++) {
        struct live_tree_process child = tree->items[i];
        if (child.parent != pid)
            continue;
        tree->items[i] = tree->items[found];
        tree->items[found++] = child;
    }
    return found;
}

size_t live_tree_below(struct live_tree *tree, pid_t pid)
{
    size_t found = children_move(tree, 0, pid);
    for (size_t i = 0; i < found; i++)
        found = children_move(tree, found, tree->items[i].pid);
    return found;
}
