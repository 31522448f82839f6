/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the ranks: lines with prefixes, never mixed, never blocking the event loop. */
#ifndef TRYST_TOOLS_LAUNCHER_OUTPUT_H
#define TRYST_TOOLS_LAUNCHER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
