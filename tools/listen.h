/* SPDX-License-Identifier: Apache-2.0 */
/** @file listen.h
 *  A TCP socket on which a tool waits for another host.
 */
#ifndef TRYST_TOOLS_LISTEN_H
#define TRYST_TOOLS_LISTEN_H

/** Listen at a port (0: any free one) of all addresses, IPv4 and IPv6, or of IPv4 alone
 *  on a host without IPv6. Returns the socket, which the caller closes, or -1 with the
 *  errno of the call that failed. */
int tool_listen(unsigned port, int backlog);

#endif
