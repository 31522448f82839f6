/* SPDX-License-Identifier: Apache-2.0 */
/* Formats bytes for people. */
#ifndef TRYST_PIPELINE_BASE_AMOUNT_H
#define TRYST_PIPELINE_BASE_AMOUNT_H

#include <stdint.h>
#include <stdio.h>

/** A text such as "1.50 GiB" or "12.00 KiB". */
struct amount {
    char text[24];
};

static inline struct amount amount_of(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    struct amount written;
    double value = (double)bytes / 1024;
    unsigned unit = 0;
    for (; value >= 1024 && unit < 3; unit++) {
        value /= 1024;
    }
    snprintf(written.text, sizeof(written.text), "%.2f %s", value, units[unit]);
    return written;
}

#endif
