/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines; see log.h. A line is built on the stack, cleaned, and passed on whole. */
#include "core/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/os/sigpipe.h"
#include "core/text/text.h"

struct line {
    char text[LOG_LINE_BYTES]; /* always terminated */
    size_t used;
};

static const char *level_name(tryst_log_level level)
{
    static const char *const names[] = {"trace", "error", "warn", "info", "debug"};
    return names[level >= TRYST_LOG_ERROR && level <= TRYST_LOG_DEBUG ? level : 0];
}

/* Shorten the line to `bytes`, or fewer where that would split a UTF-8 character. */
static void line_cut(struct line *line, size_t bytes)
{
    line->used = text_cut(line->text, bytes);
    line->text[line->used] = '\0';
}

__attribute__((format(printf, 3, 0))) static void line_vadd(struct line *line,
                                                            size_t room, const char *fmt,
                                                            va_list args)
{
    static const char cut_mark[] = "...";
    int length = vsnprintf(line->text + line->used, room, fmt, args);
    if (length < 0) {
        line_cut(line, line->used);
        return;
    }
    if ((size_t)length < room) {
        line->used += (size_t)length;
        return;
    }
    line_cut(line, line->used + room - sizeof cut_mark);
    memcpy(line->text + line->used, cut_mark, sizeof cut_mark);
    line->used += sizeof cut_mark - 1;
}

__attribute__((format(printf, 2, 3))) static void line_add(struct line *line,
                                                           const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    line_vadd(line, sizeof line->text - line->used, fmt, args);
    va_end(args);
}

static void line_clean(struct line *line)
{
    for (size_t i = 0, bytes; i < line->used; i += bytes ? bytes : 1) {
        bytes = text_char_bytes(line->text + i, line->used - i);
        if (!bytes)
            line->text[i] = ' ';
    }
}

void log_stderr_record(struct log *log)
{
    struct stat about;
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    log->standard = (struct log_stderr){.taken = true};
    /* A placeholder (core/os/fd.h) counts as a closed number. */
    log->standard.closed =
        flags < 0 || (flags & O_PATH) || fstat(STDERR_FILENO, &about) != 0;
    if (log->standard.closed)
        return;
    log->standard.device = about.st_dev;
    log->standard.inode = about.st_ino;
}

/* True if descriptor 2 is still the log: the program may have closed it and opened
 * another file there. */
static bool stderr_is_log(const struct log_stderr *standard)
{
    struct stat now;
    if (standard->closed || fstat(STDERR_FILENO, &now) != 0)
        return false;
    if (now.st_dev == standard->device && now.st_ino == standard->inode)
        return true;
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    return flags >= 0 && (flags & O_APPEND);
}

/* Write a line by one write(2). A full or closed stderr loses the line, without a
 * signal. */
static void line_to_stderr(const struct log *log, struct line *line)
{
    struct sigpipe_guard guard;
    ssize_t written;
    if (log && log->standard.taken && !stderr_is_log(&log->standard))
        return;
    line->text[line->used] = '\n';
    sigpipe_guard_begin(&guard);
    do
        written = write(STDERR_FILENO, line->text, line->used + 1);
    while (written < 0 && errno == EINTR);
    sigpipe_guard_end(&guard);
    line->text[line->used] = '\0';
}

void log_write(const struct log *log, tryst_log_level level, uint64_t left_out,
               const char *fmt, ...)
{
    /* room kept for " (and 18446744073709551615 similar lines)" */
    size_t tail_bytes = 48;
    int kept_errno = errno;
    struct line line;
    va_list args;
    if (!log_enabled(log, level))
        return;
    line.used = 0;
    int rank = log ? atomic_load_explicit(&log->rank, memory_order_relaxed) : -1;
    line_add(&line, "tryst: ");
    if (rank >= 0)
        line_add(&line, "[rank %d] ", rank);
    line_add(&line, "%s: ", level_name(level));
    errno = kept_errno; /* %m in `fmt` reads errno */
    va_start(args, fmt);
    line_vadd(&line, sizeof line.text - line.used - tail_bytes, fmt, args);
    va_end(args);
    if (left_out)
        line_add(&line, " (and %llu similar lines)", (unsigned long long)left_out);
    line_clean(&line);
    if (log && log->sink)
        log->sink(log->arg, level, line.text);
    else
        line_to_stderr(log, &line);
    errno = kept_errno;
}

/* Return the earliest time of the next line: the largest time on overflow, and never
 * 0. */
static uint64_t next_line_ns(uint64_t now_ns, uint64_t interval_ns)
{
    if (interval_ns > UINT64_MAX - now_ns)
        return UINT64_MAX;
    return now_ns + interval_ns > 0 ? now_ns + interval_ns : 1;
}

/* All relaxed: the two words choose the thread that writes, and order nothing else. If
 * several threads log when a line is due, the thread with the successful swap writes the
 * line. */
bool log_limit_pass(struct log_limit *limit, const struct clock *clock,
                    uint64_t interval_ns, uint64_t *left_out_p)
{
    uint64_t now_ns = clock_now_ns(clock);
    uint64_t next_ns = atomic_load_explicit(&limit->next_ns, memory_order_relaxed);
    bool due = next_ns == 0 || now_ns >= next_ns;
    if (due && atomic_compare_exchange_strong_explicit(
                   &limit->next_ns, &next_ns, next_line_ns(now_ns, interval_ns),
                   memory_order_relaxed, memory_order_relaxed)) {
        *left_out_p =
            atomic_exchange_explicit(&limit->left_out_count, 0, memory_order_relaxed);
        return true;
    }
    atomic_fetch_add_explicit(&limit->left_out_count, 1, memory_order_relaxed);
    return false;
}
