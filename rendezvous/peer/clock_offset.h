/* SPDX-License-Identifier: Apache-2.0 */
/** @file clock_offset.h
 *  Offsets between the clocks of ranks, for traces (clock_offset.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_CLOCK_OFFSET_H
#define TRYST_RENDEZVOUS_PEER_CLOCK_OFFSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer;
struct rendezvous;

/** Begin to measure clock offsets: the group is open. */
void rendezvous_clock_open(struct rendezvous *rdv);
/** Send this rank's time to the peer, if this rank traces. */
void peer_clock_send(struct peer *peer);
void peer_clock_read(struct peer *peer, const void *data, size_t bytes);

/** Return in `*offset_ns_p` rank 0's clock minus this rank's, and in `*error_ns_p` the
 *  bound of its error. False: not known, and the offset is 0. Any thread. */
bool rendezvous_clock(const struct rendezvous *rdv, int64_t *offset_ns_p,
                      uint64_t *error_ns_p);

#endif
