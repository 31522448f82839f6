/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the ranks' output as lines that begin with the rank.
 *
 * One idea: text of two ranks never shares a line. A whole line enters the sink at once.
 * The beginning of a line (a prompt, a progress bar) enters the sink after SHOW_NS or at
 * its carriage return, and that stream is then the sink's open one: the same stream
 * continues the line, other text first ends the line with a newline. The sink is written
 * only while poll reports room, so a slow reader blocks the ranks (their pipes fill) but
 * never the launcher.
 * Invariant: each line on the screen begins with one prefix; so the prefix is repeated
 * after a carriage return, after which a terminal overwrites the first one. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher_output.h"

/* The beginning of a line enters the sink after this time. */
#define SHOW_NS (100 * 1000 * 1000ull)
/* Limit of the bytes kept of one line; the rest of a longer line enters the sink as it
 * arrives. */
#define LINE_BYTES_MAX 65536
/* A longer line holds the sink until it ends, pauses for SHOW_NS or has this many bytes:
 * it is probably binary data. */
#define HOLD_BYTES_MAX (4u << 20)
/* No more is read from the ranks while this many bytes wait for our reader. */
#define SINK_BYTES_MAX (256 * 1024)
#define READ_BYTES     16384
/* Once poll has reported room, a pipe takes PIPE_BUF bytes without blocking, a terminal
 * fewer. */
#define WRITE_BYTES          4096
#define WRITE_BYTES_TERMINAL 256

static bool room_make(char **data, size_t *capacity, size_t wanted)
{
    if (wanted <= *capacity)
        return true;
    size_t more = *capacity ? *capacity : 4096;
    while (more < wanted)
        more *= 2;
    char *moved = realloc(*data, more);
    if (!moved)
        return false;
    *data = moved;
    *capacity = more;
    return true;
}

/* Append `bytes` bytes of text to the sink. Without memory the text is dropped. */
static void sink_add(struct sink *sink, const char *text, size_t bytes)
{
    if (bytes == 0 || sink->error || sink->discards)
        return;
    if (!room_make(&sink->data, &sink->capacity, sink->bytes + bytes))
        return;
    memcpy(sink->data + sink->bytes, text, bytes);
    sink->bytes += bytes;
}

/* Reserve room for `bytes` more, so that the next text enters whole or not at all. False
 * without memory. */
static bool sink_reserve(struct sink *sink, size_t bytes)
{
    return room_make(&sink->data, &sink->capacity, sink->bytes + bytes);
}

/* End the unfinished line of the sink, if there is one. */
static void sink_line_end(struct sink *sink)
{
    if (!sink->open)
        return;
    sink_add(sink, "\n", 1);
    sink->open->spilled = 0;
    sink->open = NULL;
}

void sink_message_add(struct sink *sink, const char *name, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    int used = snprintf(text, sizeof text, "%.64s: ", name);
    va_start(args, fmt);
    vsnprintf(text + used, sizeof text - (size_t)used - 1, fmt, args);
    va_end(args);
    strcat(text, "\n");
    sink_line_end(sink);
    sink_add(sink, text, strlen(text));
}

static bool sink_has_room(const struct sink *sink)
{
    return sink->bytes < SINK_BYTES_MAX;
}

/* Write without blocking: send() can refuse to wait on a socket; for other files poll has
 * reported room for `bytes`. */
static ssize_t write_some(int fd, const char *data, size_t bytes)
{
    ssize_t wrote = send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (wrote >= 0 || errno != ENOTSOCK)
        return wrote;
    return write(fd, data, bytes);
}

static bool takes_bytes(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    return poll(&poll_fd, 1, 0) == 1;
}

void sink_flush(struct sink *sink, uint64_t now_ns)
{
    /* a full sink stops reads of the open line's pipe, which must not count as a pause */
    if (sink->open && !sink_has_room(sink))
        sink->open->read_ns = now_ns;
    size_t done = 0, most = isatty(sink->fd) ? WRITE_BYTES_TERMINAL : WRITE_BYTES;
    while (done < sink->bytes && takes_bytes(sink->fd)) {
        size_t left = sink->bytes - done;
        ssize_t wrote =
            write_some(sink->fd, sink->data + done, left < most ? left : most);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (wrote < 0) {
            sink->error = errno;
            done = sink->bytes;
            break;
        }
        done += (size_t)wrote;
    }
    memmove(sink->data, sink->data + done, sink->bytes - done);
    sink->bytes -= done;
}

/* ---- lines ------------------------------------------------------------------------- */

/* Return the bytes of `text` up to and with the first carriage return, or all of them. */
static size_t segment_bytes(const char *text, size_t bytes)
{
    const char *end = memchr(text, '\r', bytes);
    return end ? (size_t)(end - text) + 1 : bytes;
}

/* Add text without a carriage return, except perhaps as its last byte. */
static void segment_add(struct stream *stream, const char *text, size_t bytes)
{
    char prefix[24];
    struct sink *sink = stream->sink;
    bool goes_on = sink->open == stream;
    bool bare = goes_on && (!stream->returned || text[0] == '\r');
    size_t prefix_bytes =
        bare ? 0 : (size_t)snprintf(prefix, sizeof prefix, "[%d] ", stream->rank);
    if (!sink_reserve(sink, bytes + prefix_bytes + 1))
        return;
    if (!goes_on)
        sink_line_end(sink);
    sink_add(sink, prefix, prefix_bytes);
    sink_add(sink, text, bytes);
    sink->open = stream;
    stream->begun = true;
    stream->returned = text[bytes - 1] == '\r';
}

/* Add text. A carriage return at the beginning of a line on the screen has no effect and
 * is dropped. */
static void text_add(struct stream *stream, const char *text, size_t bytes)
{
    for (; stream->sink->open != stream && bytes > 1 && *text == '\r'; bytes--)
        text++;
    while (bytes > 0) {
        size_t length = segment_bytes(text, bytes);
        segment_add(stream, text, length);
        text += length;
        bytes -= length;
    }
}

/* Move the kept part of the line into the sink. */
static void line_show(struct stream *stream)
{
    text_add(stream, stream->line, stream->bytes);
    stream->bytes = 0;
}

/* Handle a newline. If other text has ended the line already, only reset its state. */
static void line_end(struct stream *stream)
{
    struct sink *sink = stream->sink;
    char empty[24];
    if (sink->open == stream)
        sink_line_end(sink);
    else if (!stream->begun && sink_reserve(sink, sizeof empty + 1)) {
        sink_line_end(sink);
        sink_add(sink, empty,
                 (size_t)snprintf(empty, sizeof empty, "[%d] \n", stream->rank));
    }
    stream->begun = stream->returned = false;
    stream->spilled = 0;
}

/* Keep the beginning of a line. A line that is too long, or for which there is no memory,
 * enters the sink as it is. */
static void line_keep(struct stream *stream, const char *text, size_t bytes,
                      uint64_t now_ns)
{
    if (bytes == 0)
        return;
    if (stream->bytes + bytes > LINE_BYTES_MAX ||
        !room_make(&stream->line, &stream->capacity, stream->bytes + bytes)) {
        size_t spilled = stream->spilled + stream->bytes + bytes;
        line_show(stream);
        text_add(stream, text, bytes);
        stream->spilled = spilled;
        return;
    }
    if (stream->bytes == 0)
        stream->since_ns = now_ns;
    memcpy(stream->line + stream->bytes, text, bytes);
    stream->bytes += bytes;
}

/* True if the kept part has a character that a screen shows. */
static bool line_shows(const struct stream *stream)
{
    for (size_t i = 0; i < stream->bytes; i++)
        if (stream->line[i] != '\r')
            return true;
    return false;
}

/* Take text without a newline. */
static void rest_append(struct stream *stream, const char *text, size_t bytes,
                        uint64_t now_ns)
{
    const char *end = memrchr(text, '\r', bytes);
    size_t returned = end ? (size_t)(end - text) + 1 : 0;
    if (returned) {
        line_keep(stream, text, returned, now_ns);
        if (line_shows(stream))
            line_show(stream);
    }
    if (bytes > returned)
        line_keep(stream, text + returned, bytes - returned, now_ns);
}

static void stream_append(struct stream *stream, const char *text, size_t bytes,
                          uint64_t now_ns)
{
    while (bytes > 0) {
        const char *end = memchr(text, '\n', bytes);
        if (!end) {
            rest_append(stream, text, bytes, now_ns);
            return;
        }
        size_t length = (size_t)(end - text);
        line_keep(stream, text, length, now_ns);
        line_show(stream);
        line_end(stream);
        text += length + 1;
        bytes -= length + 1;
    }
}

/* ---- streams ----------------------------------------------------------------------- */

/* True if the stream's line is longer than LINE_BYTES_MAX and still arriving. */
static bool stream_holds(const struct stream *stream, uint64_t now_ns)
{
    return stream->spilled && stream->spilled < HOLD_BYTES_MAX &&
           now_ns < stream->read_ns + SHOW_NS;
}

static bool stream_is_held(const struct stream *stream, uint64_t now_ns)
{
    const struct stream *open = stream->sink->open;
    return open && open != stream && stream_holds(open, now_ns);
}

bool stream_is_wanted(const struct stream *stream, uint64_t now_ns)
{
    return stream->fd >= 0 && sink_has_room(stream->sink) &&
           !stream_is_held(stream, now_ns);
}

uint64_t stream_due_ns(const struct stream *stream, uint64_t now_ns)
{
    if (stream->fd < 0 || !sink_has_room(stream->sink))
        return UINT64_MAX;
    if (stream_is_held(stream, now_ns))
        return stream->sink->open->read_ns + SHOW_NS;
    return line_shows(stream) ? stream->since_ns + SHOW_NS : UINT64_MAX;
}

void stream_show_due(struct stream *stream, uint64_t now_ns)
{
    if (stream->bytes && now_ns >= stream->since_ns + SHOW_NS &&
        sink_has_room(stream->sink) && !stream_is_held(stream, now_ns) &&
        line_shows(stream))
        line_show(stream);
}

static void stream_end(struct stream *stream)
{
    line_show(stream);
    if (stream->begun)
        line_end(stream);
    free(stream->line);
    stream->line = NULL;
    close(stream->fd);
    stream->fd = -1;
}

bool stream_read(struct stream *stream, uint64_t now_ns)
{
    char text[READ_BYTES];
    ssize_t got = read(stream->fd, text, sizeof text);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (got <= 0) {
        stream_end(stream);
        return false;
    }
    stream->read_ns = now_ns;
    stream_append(stream, text, (size_t)got, now_ns);
    return true;
}

void stream_drain(struct stream *stream, uint64_t now_ns)
{
    struct pollfd poll_fd = {.fd = stream->fd, .events = POLLIN};
    while (stream->fd >= 0 && sink_has_room(stream->sink) && poll(&poll_fd, 1, 0) == 1)
        if (!stream_read(stream, now_ns))
            return;
    if (line_shows(stream))
        line_show(stream);
}
