/* SPDX-License-Identifier: Apache-2.0 */
/* Implements perf_host.h. */
#include "perf_host.h"

#include <netdb.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool perf_host_split(const char *text, char host[PERF_HOST_BYTES], unsigned *port_p)
{
    const char *colon = strchr(text, ':'), *bracket = strchr(text, ']');
    bool is_v6 = *text != '[' && colon && strchr(colon + 1, ':');
    const char *port = is_v6 ? NULL : bracket ? strchr(bracket, ':') : colon;
    size_t length =
        is_v6 ? strlen(text) : strcspn(text + (*text == '['), bracket ? "]" : ":");
    char *end;
    *port_p = 0;
    if (!length || length >= PERF_HOST_BYTES)
        return false;
    memcpy(host, text + (*text == '['), length);
    host[length] = '\0';
    if (!port)
        return true;
    unsigned long number = strtoul(port + 1, &end, 10);
    *port_p = (unsigned)number;
    return port[1] >= '0' && port[1] <= '9' && !*end && number >= 1 &&
           number <= UINT16_MAX;
}

bool perf_host_is(const char *text)
{
    char host[PERF_HOST_BYTES];
    unsigned port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (!perf_host_split(text, host, &port) ||
        getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}
