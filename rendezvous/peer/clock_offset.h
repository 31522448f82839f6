/* SPDX-License-Identifier: Apache-2.0 */
/** @file clock_offset.h
 *  How far the ranks' clocks are apart (clock_offset.c).
 */
#ifndef RENDEZVOUS_PEER_CLOCK_OFFSET_H
#define RENDEZVOUS_PEER_CLOCK_OFFSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer;
struct rendezvous;

/** The group is open: whose clock is whose. */
void rendezvous_clock_open(struct rendezvous *rdv);
/** Tell the peer what time it is here, if this rank traces. */
void peer_clock_send(struct peer *peer);
void peer_clock_read(struct peer *peer, const void *data, size_t bytes);

/** For tests: this rank's clock is to be ahead by `skew_ns`. Before rendezvous_group_open. */
void rendezvous_clock_skew(struct rendezvous *rdv, int64_t skew_ns);
/** Rank 0's clock minus ours, and how far that may be off; false: not known, so 0. `*shift_ns_p`
 *  makes rank 0's time of the trace's (the two differ under rendezvous_clock_skew). Any thread. */
bool rendezvous_clock(const struct rendezvous *rdv, int64_t *shift_ns_p,
                      int64_t *offset_ns_p, uint64_t *error_ns_p);

#endif
