/* SPDX-License-Identifier: Apache-2.0 */
/* Read small files of /sys; private to sysfs.c and sysfs_machine.c. */
#ifndef TRYST_TOPOLOGY_MACHINE_SYSFS_FILE_H
#define TRYST_TOPOLOGY_MACHINE_SYSFS_FILE_H

#include <stdbool.h>
#include <stddef.h>

/** Read the first line of a file, without its line break; `fmt` makes the path. Returns
 *  false, with "" in `line`, if the file is empty or cannot be read. */
bool sysfs_line(char *line, size_t bytes, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
