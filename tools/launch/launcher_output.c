/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of output with the rank in front.
 *
 * One idea: a line enters the sink whole, so lines never mix; the sink is written when poll
 * says that it takes bytes, so a slow reader stops the ranks' output (their pipes fill) but
 * never the launcher. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher_output.h"

/* A line without an end is cut here: somebody prints binary data. */
#define LINE_BYTES_MAX 65536
/* More than this is not read from the ranks while it waits for our reader. */
#define SINK_BYTES_MAX (256 * 1024)
#define READ_BYTES     16384
/* poll's promise for a pipe is room for PIPE_BUF bytes; a terminal promises less. */
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

/* Makes `bytes` bytes of text wait for the sink; dropped without memory. */
static void sink_add(struct sink *sink, const char *text, size_t bytes)
{
    if (bytes == 0 || sink->error || sink->discards)
        return;
    if (!room_make(&sink->data, &sink->capacity, sink->bytes + bytes))
        return;
    memcpy(sink->data + sink->bytes, text, bytes);
    sink->bytes += bytes;
}

void sink_say(struct sink *sink, const char *name, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    int used = snprintf(text, sizeof text, "%.64s: ", name);
    va_start(args, fmt);
    vsnprintf(text + used, sizeof text - (size_t)used - 1, fmt, args);
    va_end(args);
    strcat(text, "\n");
    sink_add(sink, text, strlen(text));
}

bool sink_has_room(const struct sink *sink)
{
    return sink->bytes < SINK_BYTES_MAX;
}

/* A socket can be told not to wait; for the rest poll has promised `bytes`. */
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

void sink_flush(struct sink *sink)
{
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

/* ---- streams ---- */

static void line_out(struct stream *stream, const char *text, size_t bytes)
{
    char prefix[24];
    int prefix_bytes = snprintf(prefix, sizeof prefix, "[%d] ", stream->rank);
    struct sink *sink = stream->sink;
    /* All of it or nothing: memory is asked for before the first piece goes in. */
    if (!room_make(&sink->data, &sink->capacity,
                   sink->bytes + stream->bytes + bytes + (size_t)prefix_bytes + 1))
        return;
    sink_add(sink, prefix, (size_t)prefix_bytes);
    sink_add(sink, stream->line, stream->bytes);
    sink_add(sink, text, bytes);
    sink_add(sink, "\n", 1);
    stream->bytes = 0;
}

/* Keeps the beginning of a line; a line that is too long, or has no memory, goes as it is. */
static void line_keep(struct stream *stream, const char *text, size_t bytes)
{
    if (stream->bytes + bytes > LINE_BYTES_MAX ||
        !room_make(&stream->line, &stream->capacity, stream->bytes + bytes)) {
        line_out(stream, text, bytes);
        return;
    }
    memcpy(stream->line + stream->bytes, text, bytes);
    stream->bytes += bytes;
}

static void stream_take(struct stream *stream, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const char *end = memchr(text, '\n', bytes);
        if (!end) {
            line_keep(stream, text, bytes);
            return;
        }
        size_t length = (size_t)(end - text);
        line_out(stream, text, length);
        text += length + 1;
        bytes -= length + 1;
    }
}

static void stream_end(struct stream *stream)
{
    if (stream->bytes)
        line_out(stream, "", 0);
    free(stream->line);
    stream->line = NULL;
    close(stream->fd);
    stream->fd = -1;
}

bool stream_read(struct stream *stream)
{
    char text[READ_BYTES];
    ssize_t got = read(stream->fd, text, sizeof text);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (got <= 0) {
        stream_end(stream);
        return false;
    }
    stream_take(stream, text, (size_t)got);
    return true;
}

void stream_drain(struct stream *stream)
{
    struct pollfd poll_fd = {.fd = stream->fd, .events = POLLIN};
    while (stream->fd >= 0 && sink_has_room(stream->sink) && poll(&poll_fd, 1, 0) == 1)
        if (!stream_read(stream))
            return;
}
