/* SPDX-License-Identifier: Apache-2.0 */
#include "sysfs_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/os/fd.h"

bool sysfs_line(char *line, size_t bytes, const char *fmt, ...)
{
    char path[512];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    line[0] = '\0';
    FILE *file =
        length > 0 && (size_t)length < sizeof path ? fd_file_open(path, "re") : NULL;
    if (!file)
        return false;
    bool read = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return read;
}
