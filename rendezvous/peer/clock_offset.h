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

/** For tests: advance this rank's clock by `skew_ns`. Call before
 *  rendezvous_group_open. */
void rendezvous_clock_skew(struct rendezvous *rdv, int64_t skew_ns);
/** Return in `*offset_ns_p` rank 0's clock minus this rank's, and in `*error_ns_p` the
 *  bound of its error. False: not known, and the offset is 0. Adding `*shift_ns_p` to a
 *  time of the trace gives rank 0's time (the shift differs from the offset under
 *  rendezvous_clock_skew). Any thread. */
bool rendezvous_clock(const struct rendezvous *rdv, int64_t *shift_ns_p,
                      int64_t *offset_ns_p, uint64_t *error_ns_p);

#endif
