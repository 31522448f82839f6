/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher: a process that outlives a killed launcher and kills the ranks that are
 * left. */
#ifndef TRYST_TOOLS_LAUNCH_LAUNCHER_WATCH_H
#define TRYST_TOOLS_LAUNCH_LAUNCHER_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** Memory shared with the watcher and the ranks. */
struct watch_table {
    int ranks;
    /** Process group of each rank; 0: not started. Each rank stores its own before it
     *  does anything else; the watcher loads them after the launcher is dead. Relaxed. */
    _Atomic pid_t groups[];
};

struct watch {
    struct watch_table *table;
    size_t table_bytes;
    int fd; /**< held open as long as the launcher lives */
    pid_t pid;
};

/** Start the watcher. False, with errno set, on failure. */
bool watch_open(int ranks, struct watch *watch);
/** End the watcher without killing a group, since the launcher has ended the ranks. */
void watch_close(struct watch *watch);

#endif
