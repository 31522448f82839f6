/* SPDX-License-Identifier: Apache-2.0 */
/* Reading small files of /sys; private to sysfs.c and sysfs_machine.c. */
#ifndef TRYST_TOPOLOGY_SYSFS_FILE_H
#define TRYST_TOPOLOGY_SYSFS_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* The first line of a file, without its end; false (and "") where it cannot be read. */
bool sysfs_line(char *line, size_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
