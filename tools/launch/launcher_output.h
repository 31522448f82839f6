/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the ranks: lines with prefixes, never mixed, and never blocking the event
 * loop. */
#ifndef TRYST_TOOLS_LAUNCH_LAUNCHER_OUTPUT_H
#define TRYST_TOOLS_LAUNCH_LAUNCHER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

/** The launcher's stdout or stderr, with the bytes that wait to be written to it. */
struct sink {
    int fd;
    /** Errno of a failed write, after which text is dropped; 0: none failed. */
    int error;
    bool discards; /**< true: the time for writing is over, text is dropped */
    char *data;
    size_t bytes, capacity;
    /** Stream of the unfinished last line; NULL: all lines are finished. */
    struct stream *open;
};

/** One stream of one rank, which enters a sink line by line. */
struct stream {
    int fd; /**< the launcher's end of the pipe; -1: closed after end of file */
    int rank;
    struct sink *sink;
    char *line; /**< text of the current line that has not entered the sink */
    size_t bytes, capacity;
    uint64_t since_ns; /**< arrival of the first byte of `line` */
    uint64_t read_ns;  /**< arrival of the last bytes */
    /** Bytes of the current line that did not fit into `line`; 0: all fitted. */
    size_t spilled;
    bool begun;    /**< a part of the current line is in the sink */
    bool returned; /**< the text in the sink ends in a carriage return */
};

/** Append a message of the launcher's own: "tryst-run: …\n". */
void sink_message_add(struct sink *sink, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Write as much as the descriptor accepts without blocking. Call when poll reports
 *  room. */
void sink_flush(struct sink *sink, uint64_t now_ns);

/** True if the stream's pipe is to be read: the sink has room, and no other stream's long
 *  line holds the sink. */
bool stream_is_wanted(const struct stream *stream, uint64_t now_ns);
/** Read once. False at the end of the stream; a last line without newline is then in the
 *  sink. */
bool stream_read(struct stream *stream, uint64_t now_ns);
/** Read all that is available, and move the beginning of a line into the sink too. */
void stream_drain(struct stream *stream, uint64_t now_ns);
/** Move the beginning of a line into the sink if it is due. */
void stream_show_due(struct stream *stream, uint64_t now_ns);
/** Return the time at which the beginning of a line is due, or the hold of another
 *  stream's line ends; UINT64_MAX: neither. */
uint64_t stream_due_ns(const struct stream *stream, uint64_t now_ns);

#endif
