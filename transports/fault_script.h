/* SPDX-License-Identifier: Apache-2.0 */
/** @file fault_script.h
 *  What a rail of fault.h does wrong.
 *
 *  A script is text, items separated by commas; fault/README.md has the grammar. The same seed gives
 *  the same faults for the same calls:
 *
 *      seed=7         of the random numbers (1)
 *      rank=2         all but `unregistered` happens at this rank alone (at each)
 *      again=0.2      answer AGAIN to this share of frame_begin, bulk_send and bulk_recv
 *      delay_us=200   hold each frame and each bulk that is sent for a random time up to this;
 *                     frames stay in order, and so do bulks
 *      reorder=0.3    this share of the bulks that are sent waits until 1 to 4 later ones have
 *                     passed it, or for 1 ms
 *      unregistered=0.5 fail this share of the registrations of regions with the rail
 *      drop_every=50  lose every 50th frame that is sent on the rail
 *      drop_after=100 lose every frame that is sent after the first 100
 *      kill=50        at the rail's 50th event (a frame or bulk that is started, a frame that
 *                     comes) the endpoint of that event breaks, and says so: events->failed
 *      silent=50      likewise, but without a word: its frames are lost from then on, both ways,
 *                     and bulks that it is to send never arrive
 *      mute=1         connect messages of this rank are lost: no endpoint of it becomes ready, here or
 *                     at the peer (0)
 *      stuck=1        endpoints that are closed never come to an end, as with a fabric that hangs:
 *                     the inner transport does not even hear of the close (0)
 *      clock_us=5000  the rank's clock is ahead by so much, in traces and to its peers (0): no
 *                     matter of transports, but of the same script
 */
#ifndef TRANSPORTS_FAULT_SCRIPT_H
#define TRANSPORTS_FAULT_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "transports/transport.h"

struct fault_script {
    uint64_t seed;
    bool one_rank; /**< only at `rank` */
    uint64_t rank;
    double again, reorder, unregistered; /**< shares, 0 to 1 */
    uint64_t delay_us;
    uint64_t drop_every, drop_after; /**< 0: never */
    uint64_t kill, silent;           /**< 0: never */
    uint64_t mute;                   /**< not 0: nobody can connect */
    uint64_t stuck;                  /**< not 0: ep_close does nothing */
    uint64_t clock_us;               /**< this rank's clock is ahead */
};

/** TRYST_OK, or TRYST_E_CONFIG: `why` (TRANSPORT_TEXT_MAX) says at which character (from 1) which
 *  item is wrong and what is allowed. Empty text is a script without faults. */
tryst_status fault_script_parse(const char *text, struct fault_script *script_p,
                                char *why);

#endif
