/* SPDX-License-Identifier: Apache-2.0 */
/* The states of this process's threads, from /proc, for tests that would otherwise sleep
 * for a guessed time.
 *
 * Both threads_asleep and threads_settle wait for a condition and give up after 20 s,
 * longer than any delay of a busy machine. */
#ifndef TRYST_TESTS_SUPPORT_ASLEEP_H
#define TRYST_TESTS_SUPPORT_ASLEEP_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/** A thread that waits under a test's clock reads the clock every 20 ms: after FIRST_MS,
 *  it has read the clock or is awake. */
enum { ASLEEP_FIRST_MS = 100, ASLEEP_CHECKS = 5, ASLEEP_POLLS = 20000 };

/** Return the state of thread `id` of this process, as in /proc; 'X' if the thread has
 *  ended. */
static inline char thread_state(const char *id)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", id);
    FILE *file = fopen(path, "re");
    if (!file)
        return 'X';
    bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    const char *end = read ? strrchr(text, ')') : NULL;
    return end && end[1] == ' ' ? end[2] : 'X';
}

/** Return the number of threads of this process; *awake_p: how many of the other threads
 *  do not sleep. */
static inline int process_threads_count(int *awake_p)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    *awake_p = 0;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        if (atol(entry->d_name) != syscall(SYS_gettid))
            *awake_p += thread_state(entry->d_name) != 'S';
    }
    if (dir)
        closedir(dir);
    return count;
}

/** Wait until all other threads wait for an event: none was awake at several checks in a
 *  row. */
static inline bool threads_asleep(void)
{
    int looks = 0, awake;
    usleep(ASLEEP_FIRST_MS * 1000);
    for (int i = 0; i < ASLEEP_POLLS && looks < ASLEEP_CHECKS; i++) {
        (void)process_threads_count(&awake);
        looks = awake ? 0 : looks + 1;
        usleep(1000);
    }
    return looks == ASLEEP_CHECKS;
}

/** Return the number of threads as soon as it is at most `most`: the kernel lists a
 *  thread for a moment after it was joined. */
static inline int threads_settle(int most)
{
    int awake, count = process_threads_count(&awake);
    for (int i = 0; i < ASLEEP_POLLS && count > most; i++) {
        usleep(1000);
        count = process_threads_count(&awake);
    }
    return count;
}

#endif
