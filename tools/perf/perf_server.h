/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_server.h
 *  Two hosts without a launcher: `tryst-perf server` on one, `tryst-perf HOST` on the
 *  other. */
#ifndef TRYST_TOOLS_PERF_PERF_SERVER_H
#define TRYST_TOOLS_PERF_PERF_SERVER_H

#include "perf_rank.h"

/** Join the other side: rank 0 is the server, rank 1 connects. Fills ctx, group, rank and
 *  peer; the caller closes the group and the context. Sets options->kind, sizes,
 *  iterations and so on to the server's. False after a message on stderr, with nothing
 *  open. */
bool perf_server_join(struct perf_options *options, struct perf_rank *rank);

#endif
