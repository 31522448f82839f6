/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the ranks: lines with prefixes, never mixed, never blocking the event loop. */
#ifndef TRYST_TOOLS_LAUNCHER_OUTPUT_H
#define TRYST_TOOLS_LAUNCHER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

/* Our own stdout or stderr: what waits to be written to it. */
struct sink {
    int fd;
    int error;     /* of a write that failed: what comes is dropped; 0: none did */
    bool discards; /* the time for writing is over */
    char *data;
    size_t bytes, capacity;
    struct stream
        *open; /* stream whose line the text ends with; NULL: no line is unfinished */
};

/* One stream of one rank, on its way into a sink line by line. */
struct stream {
    int fd; /* our end of the pipe, -1 when at its end */
    int rank;
    struct sink *sink;
    char *line; /* text of the current line that has not entered the sink */
    size_t bytes, capacity;
    uint64_t since_ns; /* when the first byte of `line` came */
    uint64_t read_ns;  /* when the last bytes came */
    size_t
        spilled; /* bytes of the current line that did not fit into `line`; 0: all did */
    bool begun;  /* a part of the current line is in the sink */
    bool returned; /* that part ends in a carriage return */
};

/* A message of the launcher's own: "tryst-run: …\n". */
void sink_say(struct sink *sink, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes what the descriptor takes without waiting; call it when poll says so. */
void sink_flush(struct sink *sink, uint64_t now_ns);

/* True if the stream's pipe is to be read: the sink has room, and no other stream's long line holds it. */
bool stream_is_wanted(const struct stream *stream, uint64_t now_ns);
/* Read once; false at the end of the stream (a last line without newline is then in the sink). */
bool stream_read(struct stream *stream, uint64_t now_ns);
/* Read all that is there now, and move the beginning of a line into the sink too. */
void stream_drain(struct stream *stream, uint64_t now_ns);
/* Move the beginning of a line into the sink if it is due. */
void stream_show_due(struct stream *stream, uint64_t now_ns);
/* When the beginning of a line is due, or the hold of another stream's line ends; UINT64_MAX: neither is ahead. */
uint64_t stream_due_ns(const struct stream *stream, uint64_t now_ns);

#endif
