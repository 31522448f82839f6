/* SPDX-License-Identifier: Apache-2.0 */
/** @file leave.h
 *  How a rank leaves its group; rendezvous/membership.c moves the state. A close beside
 *  a stopped peer ends within 2 s, and the other peers have half a second for LEAVE.
 */
#ifndef TRYST_RENDEZVOUS_OP_LEAVE_H
#define TRYST_RENDEZVOUS_OP_LEAVE_H

#include "core/os/clock.h"

/** How long peers have to answer, and in all until they have read the last frames. */
#define LEAVE_QUIET_NS (1 * NS_PER_S)
#define LEAVE_READ_NS  (1500 * NS_PER_MS)

enum leave_state {
    LEAVE_NONE, /**< this rank is a member */
    /** All operations were canceled, all steps are closed, and new records are answered
     *  CLOSED: until nothing is left to send, LEAVE_QUIET_NS at most. */
    LEAVE_BEGUN,
    /** LEAVE was sent to all links that were up, and is sent to each that comes up: until
     *  the peers have read this rank's last frames, LEAVE_READ_NS after the begin at
     *  most. */
    LEAVE_SENT,
    /** All peers were given up, and no new rank becomes a peer: until every endpoint and
     *  link is closed. */
    LEAVE_CUT,
    LEAVE_DONE /**< no transport accesses this rank's memory */
};

#endif
