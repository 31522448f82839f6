/* SPDX-License-Identifier: Apache-2.0 */
/* This machine's host name.
 *
 * Linux allows 64 characters, so a buffer of 64 bytes has no room for the terminator and
 * gethostname fails. Inline, because tools use it without this library. */
#ifndef TRYST_CORE_OS_HOST_NAME_H
#define TRYST_CORE_OS_HOST_NAME_H

#include <stdio.h>
#include <unistd.h>

/** Room for a host name: 64 characters, the terminator, and a multiple of 8 for structs
 *  that are sent. */
#define HOST_NAME_BYTES 72

/** Write the host name, terminated and padded with zeros; `unknown` if there is none. */
static inline void host_name_read(const char *unknown, char name_p[HOST_NAME_BYTES])
{
    char name[HOST_NAME_BYTES] = "";
    if (gethostname(name, sizeof name - 1) != 0 || !name[0])
        (void)snprintf(name, sizeof name, "%s", unknown);
    for (size_t i = 0, ended = 0; i < sizeof name; i++) {
        ended |= !name[i];
        name_p[i] = ended ? '\0' : name[i];
    }
}

#endif
