/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_host.h
 *  The name of a host on the command line. */
#ifndef TRYST_TOOLS_PERF_OPTIONS_PERF_HOST_H
#define TRYST_TOOLS_PERF_OPTIONS_PERF_HOST_H

#include <stdbool.h>

enum { PERF_HOST_BYTES = 300 };

/** Split HOST, HOST:PORT, [v6], [v6]:PORT or v6 into host and port (0: none). False if
 *  the text has no host, or its port is not one. */
bool perf_host_split(const char *text, char host[PERF_HOST_BYTES], unsigned *port_p);

/** True if the text, without a port, is an address, or a name that resolves. */
bool perf_host_is(const char *text);

#endif
