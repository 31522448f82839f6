/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the launcher share: the ranks, their output, the watcher.
 *
 *   launcher.c         the event loop: deaths, signals, phases
 *   launcher_spawn.c   environment, socket, fork and exec of each rank
 *   launcher_output.c  lines with prefixes, never mixed, never blocking the loop
 *   launcher_watch.c   the process that outlives the launcher for a moment
 */
#ifndef TRYST_TOOLS_LAUNCHER_RANKS_H
#define TRYST_TOOLS_LAUNCHER_RANKS_H

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "launcher.h"

/* ---- output ---- */

/* Our own stdout or stderr: what waits to be written to it. */
struct sink {
    int fd;
    int error;     /* of a write that failed: what comes is dropped; 0: none did */
    bool discards; /* the time for writing is over */
    char *data;
    size_t bytes, capacity;
};

/* One stream of one rank, on its way into a sink line by line. */
struct stream {
    int fd; /* our end of the pipe, -1 when at its end */
    int rank;
    struct sink *sink;
    char *line; /* the beginning of a line whose end has not come */
    size_t bytes, capacity;
};

/* A message of the launcher's own: "tryst-run: …\n". */
void sink_say(struct sink *sink, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes what the descriptor takes without waiting; call it when poll says so. */
void sink_flush(struct sink *sink);
/* Has it room for more of a rank's output? */
bool sink_has_room(const struct sink *sink);

/* Reads once; false at the end of the stream (a last line without newline is then out). */
bool stream_read(struct stream *stream);
/* Reads all that is there now. */
void stream_drain(struct stream *stream);

/* ---- the watcher ---- */

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

/* ---- ranks ---- */

struct rank {
    pid_t pid;  /* also its process group; 0: not started */
    int pid_fd; /* -1: the kernel has none */
    bool ended;
    siginfo_t how; /* si_code CLD_EXITED, CLD_KILLED, CLD_DUMPED */
    struct stream streams[2];
};

struct launcher {
    const struct launcher_params *params;
    struct rank *ranks;
    struct sink sinks[2]; /* stdout, stderr */
    struct watch watch;
    int signal_fd, listen_fd;
    char address[64], token[40];
    /* as the caller had them, for the ranks */
    sigset_t mask;
    struct sigaction pipe_action;
    struct rlimit files;
};

/* Token and listening socket; false after a message. */
bool spawn_prepare(struct launcher *launcher);
/* One rank; 0, or the exit status to end with, after a message. */
int spawn_rank(struct launcher *launcher, int rank);

#endif
