/* SPDX-License-Identifier: Apache-2.0 */
/** @file post_share.h
 *  How many slices a receiver may have posted for one peer while several peers send to it
 *  (a reduction, an incast).
 *
 *  Idea: the slices posted over all peers with ready slices are one window of the rail,
 *  in equal parts, so that the senders cannot have more in flight than the receiver's own
 *  link moves in a round trip, whatever their windows are. Each peer has two slices at
 *  least: one arrives while the DONE of the one before it is on its way. A share depends
 *  on the number of senders only, never on what another peer has posted, so a stalled
 *  peer keeps no other from moving.
 *
 *  Pure. Caller: recv_run.c.
 */
#ifndef RENDEZVOUS_POST_SHARE_H
#define RENDEZVOUS_POST_SHARE_H

#include <stdint.h>

/** Slices of a peer that overlap: one in flight, one acknowledged. */
enum { POST_SHARE_LEAST = 2 };

/** Returns the number of slices of `slice_bytes` that may be posted for each of `senders`
 *  peers with ready slices on a rail with this window. */
static inline uint32_t post_share_slots(uint64_t window_bytes, uint32_t senders,
                                        uint64_t slice_bytes)
{
    uint64_t share = window_bytes / (senders ? senders : 1);
    uint64_t slots = slice_bytes ? share / slice_bytes : 0;
    if (slots < POST_SHARE_LEAST)
        return POST_SHARE_LEAST;
    return slots < UINT32_MAX ? (uint32_t)slots : UINT32_MAX;
}

#endif
