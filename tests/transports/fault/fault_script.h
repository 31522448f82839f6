/* SPDX-License-Identifier: Apache-2.0 */
/** @file fault_script.h
 *  The faults that a rail of fault.h injects.
 *
 *  A script is text, items separated by commas; fault/README.md has the grammar. The same
 *  seed gives the same faults for the same calls:
 *
 *    seed=7           seed of the random numbers (1)
 *    rank=2           inject at this rank only; `unregistered` happens at each rank
 *    again=0.2        answer AGAIN to this share of frame_begin, bulk_send and bulk_recv
 *    delay_us=200     hold each sent frame and bulk for a random time up to this; frames
 *                     stay in order, and so do bulks
 *    reorder=0.3      hold this share of the sent bulks until 1 to 4 later ones have
 *                     passed, or for 1 ms
 *    unregistered=0.5 fail this share of the registrations of regions with the rail
 *    drop_every=50    drop every 50th frame that is sent on the rail
 *    drop_after=100   drop every frame that is sent after the first 100
 *    kill=50          at the rail's 50th event (a frame or bulk that is started, a frame
 *                     that arrives, a read of a borrowed bulk) break the endpoint of that
 *                     event: events->failed
 *    kill_read=5      at the rail's 5th read of a borrowed bulk break its endpoint: the
 *                     read answers TRYST_E_PEER
 *    silent=50        at the rail's 50th event silence that endpoint: its frames are
 *                     dropped from then on, both ways, and its bulks never arrive
 *    mute=1           drop the connect messages of this rank: none of its endpoints
 *                     becomes ready, here or at the peer (0)
 *    stuck=1          ep_close does nothing, as in a fabric that hangs: the inner
 *                     transport gets no close, and `closed` never comes (0)
 *    clock_us=5000    set the rank's clock ahead by this, in traces and to its peers (0;
 *                     tests/rendezvous/fault_clock.c)
 */
#ifndef TRYST_TESTS_TRANSPORTS_FAULT_FAULT_SCRIPT_H
#define TRYST_TESTS_TRANSPORTS_FAULT_FAULT_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "transports/transport.h"

struct fault_script {
    uint64_t seed;
    bool one_rank; /**< the faults but `unregistered` happen at `rank` only */
    uint64_t rank;
    double again, reorder, unregistered; /**< shares, 0 to 1 */
    uint64_t delay_us;
    uint64_t drop_every, drop_after; /**< frames, counted per rail; 0: never */
    uint64_t kill, silent;           /**< events, counted per rail; 0: never */
    uint64_t kill_read;              /**< reads, counted per rail; 0: never */
    uint64_t mute;                   /**< not 0: connect messages are dropped */
    uint64_t stuck;                  /**< not 0: ep_close does nothing */
    uint64_t clock_us;               /**< microseconds that this rank's clock is ahead */
};

/** Parse a script. TRYST_OK, or TRYST_E_CONFIG: `why` (TRANSPORT_TEXT_MAX) names the item
 *  that is wrong, its character (from 1) and the allowed values. Empty text is a script
 *  without faults. */
tryst_status fault_script_parse(const char *text, struct fault_script *script_p,
                                char *why);

#endif
