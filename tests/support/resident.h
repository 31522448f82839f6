/* SPDX-License-Identifier: Apache-2.0 */
/* The resident memory of this process, counted page by page. (/proc/self/statm is a sum
 * of per-processor counters that are merged later: up to Linux 6.15 the sum may be wrong
 * by many pages per processor, more than a test of leaks tolerates.) */
#ifndef TRYST_TESTS_SUPPORT_RESIDENT_H
#define TRYST_TESTS_SUPPORT_RESIDENT_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Return the resident memory in KiB; 0 where /proc is not readable. */
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
