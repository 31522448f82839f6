/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines.
 *
 * One idea: the level is tested before any argument is evaluated, and one line is one
 * call of one sink (by default one write(2) to stderr), so lines of several processes
 * never mix. The code that *decides* an error logs it, once. Invariant: errno is
 * unchanged; nothing is allocated; nothing goes to stdout; a line is UTF-8 without
 * control characters, whatever its arguments are. */
#ifndef TRYST_CORE_LOG_LOG_H
#define TRYST_CORE_LOG_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/os/clock.h"
#include "tryst/tryst.h"

/** Longest line; a longer one is cut and ends in "...". */
#define LOG_LINE_BYTES 2048

/** Descriptor 2 as log_stderr_record found it. */
struct log_stderr {
    bool taken;  /**< false: lines go to descriptor 2, whatever file that is */
    bool closed; /**< descriptor 2 was closed: lines are dropped */
    dev_t device;
    ino_t inode;
};

/** The destination of a context's lines. Initialise with LOG_INIT, then change
 *  members. */
struct log {
    tryst_log_level level; /**< TRYST_LOG_DEFAULT: warnings and errors */
    /** rank in the prefix of the lines; -1: not known yet, left out. Relaxed: orders
     *  nothing. */
    _Atomic int rank;
    /** Receives each line as log_write builds it, without newline; NULL: stderr. */
    tryst_log_fn sink;
    void *arg;                  /**< argument of `sink` */
    const struct clock *clock;  /**< clock of the rate limits; NULL: the machine's */
    struct log_stderr standard; /**< descriptor 2, used without a sink */
};

#define LOG_INIT                                                                      \
    {                                                                                 \
        .level = TRYST_LOG_WARN, .rank = -1, .sink = NULL, .arg = NULL, .clock = NULL \
    }

/** True if `level` is logged. Here and below, a NULL log is the process default: stderr,
 *  warnings and errors, no rank. */
static inline bool log_enabled(const struct log *log, tryst_log_level level)
{
    tryst_log_level most = log ? log->level : TRYST_LOG_DEFAULT;
    return level <= (most == TRYST_LOG_DEFAULT ? TRYST_LOG_WARN : most);
}

/** Record which file descriptor 2 is. From now on lines go to descriptor 2 only while it
 *  is that file, or a file that is open for appending (a log that was rotated). If
 *  descriptor 2 is closed now, no line is ever written. */
void log_stderr_record(struct log *log);

/** Write `tryst: [rank 2] warn: text` if the level is enabled, followed by " (and N
 *  similar lines)" if `left_out` is not 0. Any thread. */
void log_write(const struct log *log, tryst_log_level level, uint64_t left_out,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/** State of one rate limit; initialise it to zero. Several threads may share it. */
struct log_limit {
    /** earliest time of the next line; 0: no line yet */
    _Atomic uint64_t next_ns;
    _Atomic uint64_t left_out_count; /**< lines left out since the last line */
};

/** True if a line may be written now; `*left_out_p` is then the number of lines left out
 *  since the last line. Otherwise the line is counted as left out. */
bool log_limit_pass(struct log_limit *limit, const struct clock *clock,
                    uint64_t interval_ns, uint64_t *left_out_p);

#define LOG_AT(log, level, ...)                        \
    do {                                               \
        if (log_enabled((log), (level)))               \
            log_write((log), (level), 0, __VA_ARGS__); \
    } while (0)

#define LOG_ERROR(log, ...) LOG_AT(log, TRYST_LOG_ERROR, __VA_ARGS__)
#define LOG_WARN(log, ...)  LOG_AT(log, TRYST_LOG_WARN, __VA_ARGS__)
#define LOG_INFO(log, ...)  LOG_AT(log, TRYST_LOG_INFO, __VA_ARGS__)
#define LOG_DEBUG(log, ...) LOG_AT(log, TRYST_LOG_DEBUG, __VA_ARGS__)
#define LOG_TRACE(log, ...) LOG_AT(log, TRYST_LOG_TRACE, __VA_ARGS__)

/** Log at most one line per `interval_ns` for this `limit` (a struct log_limit *). */
#define LOG_LIMITED(to, level, limit, interval_ns, ...)                       \
    do {                                                                      \
        const struct log *log_ = (to);                                        \
        uint64_t left_out_ = 0;                                               \
        if (log_enabled(log_, (level)) &&                                     \
            log_limit_pass((limit), log_ ? log_->clock : NULL, (interval_ns), \
                           &left_out_))                                       \
            log_write(log_, (level), left_out_, __VA_ARGS__);                 \
    } while (0)

#define LOG_WARN_LIMITED(log, limit, interval_ns, ...) \
    LOG_LIMITED(log, TRYST_LOG_WARN, limit, interval_ns, __VA_ARGS__)

#endif
