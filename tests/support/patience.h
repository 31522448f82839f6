/* SPDX-License-Identifier: Apache-2.0 */
/* The time that a test has been waiting, counted as an otherwise idle machine would need
 * it.
 *
 * Two corrections apply:
 * - A test reads the clock every few milliseconds while it waits. If two readings are
 * further apart, the test itself was stopped (a virtual machine that is not scheduled
 * stops for seconds while its clock runs), and probably its peer too; such a gap counts
 * as PATIENCE_STEP.
 * - If more threads are runnable than there are processors, each gets its share of them:
 * time is multiplied by this share, at least 1 / PATIENCE_SLOWER_MAX, so every wait ends.
 * The number of threads comes from /proc/loadavg. */
#ifndef TRYST_TESTS_SUPPORT_PATIENCE_H
#define TRYST_TESTS_SUPPORT_PATIENCE_H

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_STEP       (100 * UINT64_C(1000000))
#define PATIENCE_SLOWER_MAX 10.0

enum { PATIENCE_FD_LEAST = 100 };

/** /proc/loadavg; -1: not readable. Opened before main, so that no test counts it as a
 *  leaked descriptor, with a number above those that tests close and reuse. One for all
 *  sources of a program (weak). */
__attribute__((weak)) int patience_load_fd = -1;

__attribute__((constructor)) static void patience_load_open(void)
{
    int fd = patience_load_fd < 0 ? open("/proc/loadavg", O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    patience_load_fd = fcntl(fd, F_DUPFD_CLOEXEC, PATIENCE_FD_LEAST);
    close(fd);
}

static inline uint64_t patience_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/** Return the number of runnable threads: now, or the average of the last minute,
 *  whichever is more. */
static inline double patience_running(void)
{
    char text[128] = "";
    ssize_t bytes = pread(patience_load_fd, text, sizeof text - 1, 0);
    const char *slash = bytes > 0 ? strchr(text, '/') : NULL;
    if (!slash)
        return 0;
    while (slash > text && slash[-1] != ' ')
        slash--;
    double minute = strtod(text, NULL), now = strtod(slash, NULL);
    return now > minute ? now : minute;
}

/** Return by which factor this machine is slower now than an otherwise idle one: 1 to
 *  PATIENCE_SLOWER_MAX. */
static inline double patience_slower(void)
{
    cpu_set_t cpus;
    int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    double slower = patience_running() / count;
    if (slower < 1)
        return 1;
    return slower < PATIENCE_SLOWER_MAX ? slower : PATIENCE_SLOWER_MAX;
}

/** Return how long an operation may take now that takes up to `ns` on a quiet machine. */
static inline uint64_t patience_ns(uint64_t ns)
{
    return (uint64_t)((double)ns * patience_slower());
}

struct patience {
    uint64_t seen_ns, spent_ns;
    uint64_t until_ns; /**< `slower` is valid until then */
    double slower;
};

static inline struct patience patience_begin(void)
{
    return (struct patience){.seen_ns = patience_now_ns()};
}

/** Read the clock; return the time since patience_begin. */
static inline uint64_t patience_spent_ns(struct patience *patience)
{
    uint64_t now_ns = patience_now_ns(), step_ns = now_ns - patience->seen_ns;
    if (now_ns >= patience->until_ns) {
        patience->slower = patience_slower();
        patience->until_ns = now_ns + PATIENCE_STEP;
    }
    patience->seen_ns = now_ns;
    step_ns = step_ns < PATIENCE_STEP ? step_ns : PATIENCE_STEP;
    patience->spent_ns += (uint64_t)((double)step_ns / patience->slower);
    return patience->spent_ns;
}

#endif
