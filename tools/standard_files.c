/* SPDX-License-Identifier: Apache-2.0 */
/* Implements standard_files.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "standard_files.h"

void standard_files_open(void)
{
    /* Opened for reading only, so that a write fails with EBADF. */
    int fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd < 3)
        fd = open("/dev/null", O_RDONLY);
    if (fd >= 0)
        close(fd);
}

void standard_output_refused(const char *tool, int error)
{
    fprintf(stderr, "%s: cannot write standard output: %s\n", tool,
            error ? strerror(error) : "an earlier write failed");
}

int standard_output_end(const char *tool, int exit_status, int failed)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_status;
    standard_output_refused(tool, errno);
    return failed;
}
