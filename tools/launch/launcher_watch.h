/* SPDX-License-Identifier: Apache-2.0 */
/* The process that outlives the launcher for a moment, and kills what is left. */
#ifndef TRYST_TOOLS_LAUNCHER_WATCH_H
#define TRYST_TOOLS_LAUNCHER_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Shared with the watcher and the ranks. */
struct watch_table {
    int ranks;
    _Atomic pid_t
        groups[]; /* relaxed; 0: not started. Written by the rank itself before it
                               does anything else, read when the launcher is dead */
};

struct watch {
    struct watch_table *table;
    size_t table_bytes;
    int fd; /* while the launcher holds this open it lives */
    pid_t pid;
};

/* False with errno. */
bool watch_open(int ranks, struct watch *watch);
/* The launcher ends in order: the watcher goes, and kills nobody. */
void watch_close(struct watch *watch);

#endif
