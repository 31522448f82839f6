/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a machine that a test describes. */
#ifndef TRYST_TESTS_SUPPORT_FILE_PUT_H
#define TRYST_TESTS_SUPPORT_FILE_PUT_H

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support/unit.h"

/** Make all folders on the way to `root`/`file` (mkdir -p), then the file. */
static inline void file_put(const char *root, const char *file, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", root, file);
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

#endif
