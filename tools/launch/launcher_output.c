/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the ranks' output as lines that begin with the rank.
 *
 * One idea: text of two ranks never shares a line. A whole line is written at once. The
 * beginning of a line (a prompt, a progress bar) is written after SHOW_MS or at its
 * carriage return, and that stream is then the sink's open one: the same stream continues
 * the line, other text first ends the line with a newline. A separate process does this,
 * so a reader that does not read blocks the ranks, but not the launcher.
 * Invariant: each line on the screen begins with one prefix; so the prefix is repeated
 * after a carriage return, after which a terminal overwrites the first one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher_output.h"
#include "tools/figures.h"

/* The beginning of a line is written after this time. */
#define SHOW_MS 100
/* Longest part of a line that is written whole, and the capacity of a pipe. */
enum { LINE_BYTES = 16384, PIPE_BYTES = 65536 + LINE_BYTES };

/* The launcher's stdout or stderr. */
struct sink {
    int fd;
    int error;           /* errno of the first failed write; 0: none failed */
    struct stream *open; /* stream of the unfinished last line; NULL: none */
    size_t bytes;
    char text[2 * LINE_BYTES]; /* to be written */
};

/* One stream of one rank, or the launcher's messages. */
struct stream {
    int fd;   /* -1: closed after end of file */
    int rank; /* -1: the launcher: no prefix */
    struct sink *sink;
    uint64_t since_ns; /* arrival of the first byte of `line` */
    char last;         /* the last character that was written */
    size_t bytes;
    char line[LINE_BYTES]; /* the text that has not been written */
};

struct output {
    struct sink sinks[2];
    int count; /* of streams: two for each rank, and the messages */
    struct stream streams[];
};

/* ---- lines ------------------------------------------------------------------------- */

/* Write `text`. Waits for the reader, also where the file is nonblocking. */
static void sink_flush(struct sink *sink)
{
    for (size_t at = 0; at < sink->bytes && !sink->error;) {
        ssize_t wrote = write(sink->fd, sink->text + at, sink->bytes - at);
        if (wrote >= 0)
            at += (size_t)wrote;
        else if (errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = sink->fd, .events = POLLOUT}, 1, -1);
        else if (errno != EINTR)
            sink->error = errno;
    }
    sink->bytes = 0;
}

/* Put at most LINE_BYTES. */
static void sink_put(struct sink *sink, const char *text, size_t bytes)
{
    if (bytes > sizeof sink->text - sink->bytes)
        sink_flush(sink);
    memcpy(sink->text + sink->bytes, text, bytes);
    sink->bytes += bytes;
}

static bool breaks_line(char c)
{
    return c == '\r' || c == '\n';
}

/* End the unfinished line, if there is one. */
static void sink_line_end(struct sink *sink)
{
    if (sink->open)
        sink_put(sink, "\n", 1);
    sink->open = NULL;
}

/* Write text in which a newline or carriage return is the last byte. */
static void segment_write(struct stream *stream, const char *text, size_t bytes)
{
    struct sink *sink = stream->sink;
    bool goes_on = sink->open == stream;
    char before = stream->last, prefix[16];
    if (!goes_on && *text == '\r')
        return; /* without effect where a line begins */
    stream->last = text[bytes - 1];
    if (!goes_on && *text == '\n' && before != '\n')
        return; /* other text has ended this line already */
    if (!goes_on)
        sink_line_end(sink);
    if (stream->rank >= 0 && (!goes_on || (before == '\r' && !breaks_line(*text))))
        sink_put(sink, prefix,
                 (size_t)snprintf(prefix, sizeof prefix, "[%d] ", stream->rank));
    sink_put(sink, text, bytes);
    sink->open = stream->last == '\n' ? NULL : stream;
}

/* Write the first bytes of `line`. */
static void stream_write(struct stream *stream, size_t bytes)
{
    size_t begin = 0;
    for (size_t i = 0; i < bytes; i++)
        if (breaks_line(stream->line[i]) || i + 1 == bytes) {
            segment_write(stream, stream->line + begin, i + 1 - begin);
            begin = i + 1;
        }
    memmove(stream->line, stream->line + bytes, stream->bytes - bytes);
    stream->bytes -= bytes;
}

/* ---- streams ----------------------------------------------------------------------- */

static void stream_close(struct stream *stream)
{
    stream_write(stream, stream->bytes);
    if (stream->sink->open == stream)
        sink_line_end(stream->sink);
    close(stream->fd);
    stream->fd = -1;
}

/* Read once. False: nothing has come. */
static bool stream_read(struct stream *stream)
{
    ssize_t got = read(stream->fd, stream->line + stream->bytes,
                       sizeof stream->line - stream->bytes);
    if (got == 0)
        stream_close(stream);
    if (got <= 0)
        return false;
    size_t whole = stream->bytes + (size_t)got;
    while (whole > 0 && !breaks_line(stream->line[whole - 1]))
        whole--;
    if (whole || stream->bytes == 0)
        stream->since_ns = tool_now_ns();
    stream->bytes += (size_t)got;
    stream_write(stream, stream->bytes == LINE_BYTES ? LINE_BYTES : whole);
    return true;
}

/* Write all that the ranks have written before a message: a full pipe of each. */
static void ranks_drain(struct output *output)
{
    for (int i = 0; i + 1 < output->count; i++) {
        struct stream *stream = &output->streams[i];
        for (int left = PIPE_BYTES; left > 0 && stream->fd >= 0; left -= LINE_BYTES)
            if (!stream_read(stream))
                break;
        stream_write(stream, stream->bytes);
    }
}

/* ---- the process ------------------------------------------------------------------- */

static void streams_handle(struct output *output, const struct pollfd *polls)
{
    uint64_t now = tool_now_ns();
    if (polls[output->count - 1].revents)
        ranks_drain(output);
    for (int i = 0; i < output->count; i++) {
        struct stream *stream = &output->streams[i];
        if (polls[i].revents && stream->fd >= 0)
            stream_read(stream);
        if (now >= stream->since_ns + SHOW_MS * 1000000)
            stream_write(stream, stream->bytes);
    }
    for (int i = 0; i < 2; i++)
        sink_flush(&output->sinks[i]);
}

/* Write until all streams have ended. */
static void output_run(struct output *output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct pollfd *polls = calloc((size_t)output->count, sizeof *polls);
    for (bool open = polls, waits; open;) {
        open = waits = false;
        for (int i = 0; i < output->count; i++) {
            polls[i] = (struct pollfd){.fd = output->streams[i].fd, .events = POLLIN};
            open |= polls[i].fd >= 0;
            waits |= output->streams[i].bytes > 0;
        }
        if (open && poll(polls, (nfds_t)output->count, waits ? SHOW_MS / 10 : -1) >= 0)
            streams_handle(output, polls);
        else if (open && errno != EINTR)
            _exit(errno);
    }
    _exit(polls ? output->sinks[0].error : ENOMEM);
}

/* Return the sink of standard error: that of standard output if both are one terminal,
 * pipe or file, so that the lines of both do not mix. */
static struct sink *errors(struct output *output)
{
    struct stat out, err;
    bool one = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
               out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    return &output->sinks[!one];
}

pid_t output_start(int ranks, int *fds)
{
    int count = 2 * ranks + 1, opened = 0;
    struct output *output =
        calloc(1, sizeof *output + (size_t)count * sizeof output->streams[0]);
    pid_t pid = -1;
    if (!output)
        return -1;
    output->sinks[0].fd = STDOUT_FILENO;
    output->sinks[1].fd = STDERR_FILENO;
    output->count = count;
    for (int ends[2]; opened < count && pipe2(ends, O_CLOEXEC) == 0; opened++) {
        struct stream *stream = &output->streams[opened];
        bool is_message = opened == 2 * ranks;
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        stream->fd = ends[0];
        stream->rank = is_message ? -1 : opened / 2;
        stream->sink = is_message || opened % 2 ? errors(output) : &output->sinks[0];
        stream->last = '\n';
        fds[opened] = ends[1];
    }
    fflush(NULL);
    if (opened == count)
        pid = fork();
    for (int i = 0; i < opened; i++)
        close(pid == 0 ? fds[i] : output->streams[i].fd);
    if (pid == 0)
        output_run(output);
    if (pid > 0)
        fcntl(fds[2 * ranks], F_SETFL, O_NONBLOCK);
    free(output);
    return pid;
}
