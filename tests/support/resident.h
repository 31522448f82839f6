/* SPDX-License-Identifier: Apache-2.0 */
/* How much of this process is in memory, counted page by page. (/proc/self/statm is a sum of counters
 * that each processor keeps for itself and adds up later: up to Linux 6.15 it may be off by many pages
 * a processor, more than what a test of leaks may overlook.) */
#ifndef TRYST_TESTS_RESIDENT_H
#define TRYST_TESTS_RESIDENT_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 0 where the kernel does not tell. */
static inline size_t resident_kib(void)
{
    size_t kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "Rss:", 4) == 0)
            kib = (size_t)strtoull(line + 4, NULL, 10);
    if (file)
        (void)fclose(file);
    return kib;
}

#endif
