/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of this process's threads, for tests that would else have to sleep and hope.
 *
 * Both wait for something to become true and give up after 20 s, which no machine is that busy for. */
#ifndef TRYST_TESTS_ASLEEP_H
#define TRYST_TESTS_ASLEEP_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Who waits under a clock of the test's looks at it every 20 ms: after FIRST_MS it has, or is awake. */
enum { ASLEEP_FIRST_MS = 100, ASLEEP_LOOKS = 5, ASLEEP_TURNS = 20000 };

/* The state of thread `id` of this process, as /proc has it; 'X' where it is gone. */
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

/* How many threads this process has, and in *awake_p how many of the others do not sleep. */
static inline int threads_look(int *awake_p)
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

/* All other threads have come to where they wait for something: none ran at several looks in a row. */
static inline bool threads_asleep(void)
{
    int looks = 0, awake;
    usleep(ASLEEP_FIRST_MS * 1000);
    for (int i = 0; i < ASLEEP_TURNS && looks < ASLEEP_LOOKS; i++) {
        (void)threads_look(&awake);
        looks = awake ? 0 : looks + 1;
        usleep(1000);
    }
    return looks == ASLEEP_LOOKS;
}

/* The number of threads, as soon as it is at most `most`: the kernel lists one for a moment after it
 * has been joined. */
static inline int threads_settle(int most)
{
    int awake, count = threads_look(&awake);
    for (int i = 0; i < ASLEEP_TURNS && count > most; i++) {
        usleep(1000);
        count = threads_look(&awake);
    }
    return count;
}

#endif
