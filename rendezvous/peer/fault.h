/* SPDX-License-Identifier: Apache-2.0 */
/** @file fault.h
 *  Faults of a peer against the protocol: the table of their texts (fault.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_FAULT_H
#define TRYST_RENDEZVOUS_PEER_FAULT_H

#include "rendezvous/peer/peer.h"

/** Each text follows "rank 3 " and precedes the details, if any, in parentheses. */
#define PEER_FAULTS(FAULT)                                                               \
    FAULT(FRAME, "sent a malformed frame: its lengths or counts contradict each other")  \
    FAULT(RECORD, "sent a malformed record")                                             \
    FAULT(CREDIT, "exceeded its credit: more records wait here for an answer than "      \
                  "its credits allow")                                                   \
    FAULT(EAGER_BYTES, "exceeded its eager credit: more bytes wait here for their "      \
                       "receives than TRYST_EAGER_CREDIT")                               \
    FAULT(EAGER_COUNT, "sent more DATA records than may wait for an acknowledgement")    \
    FAULT(DATA_NAME, "sent DATA with a name that was not declared, or is not valid any " \
                     "more")                                                             \
    FAULT(DATA_TWICE, "sent one tensor twice: DATA with this number has come before")    \
    FAULT(DATA_AHEAD, "sent a tensor with a number more than 2^30 ahead of this "        \
                      "rank's receives of its key")                                      \
    FAULT(DATA_AFTER_BULK, "sent DATA for a receive that got slices before")             \
    FAULT(DATA_LARGE, "sent DATA for a receive of bulk: tensors larger than "            \
                      "TRYST_EAGER_MAX, which all ranks have in common, come as bulk")   \
    FAULT(DATA_ANSWER, "sent a record about DATA that is not DONE, KEPT, CANCEL or "     \
                       "CANCELED")                                                       \
    FAULT(DATA_DONE, "acknowledged DATA that was not sent")                              \
    FAULT(DATA_KEPT, "reported DATA as kept that was not sent")                          \
    FAULT(DATA_RETURNED, "returned DATA that no CANCEL requested")                       \
    FAULT(SLICE, "sent a slice of the wrong size")                                       \
    FAULT(SLICES_DONE, "acknowledged slices that were not sent")                         \
    FAULT(BULK, "sent bulk that no receive is posted for")                               \
    FAULT(OFFER, "offered bulk for a receive that cannot take bulk")                     \
    FAULT(OFFER_SMALL,                                                                   \
          "offered a tensor that fits a frame: such a tensor comes as DATA")             \
    FAULT(OFFER_READY, "offered more slices of a flow than the flow has")                \
    FAULT(DEFERRED_LATE, "sent DEFERRED for a flow after the OFFER of its slices")       \
    FAULT(WANT_TWICE, "announced one receive twice: a WANT with this number waits here") \
    FAULT(WANT_AHEAD, "announced a receive with a number more than 2^30 ahead of this "  \
                      "rank's sends of its key")                                         \
    FAULT(WANT_SLICES,                                                                   \
          "requested slices larger than TRYST_SLICE_BYTES, which all ranks "             \
          "have in common")                                                              \
    FAULT(WANT_ID, "gave one id to two receives: a WANT with this id waits here")        \
    FAULT(TRANSPORT, "broke the transport's protocol")                                   \
    FAULT(                                                                               \
        CONNECT_FLOOD,                                                                   \
        "sent more than 64 connect messages for transports that are not open here yet")  \
    FAULT(DESCRIPTOR, "sent a descriptor with a message that has none")                  \
    FAULT(REFUSED_IN_USE, "refused a transport over which frames had been sent")         \
    FAULT(ABORTS, "aborted more than 1024 steps that are not open here yet")

enum peer_fault {
#define FAULT(name, text) PEER_FAULT_##name,
    PEER_FAULTS(FAULT)
#undef FAULT
        PEER_FAULTS_COUNT
};

/** Give the peer up for this fault, with TRYST_E_PROTOCOL. `details` (NULL: none)
 *  describe this one case. */
__attribute__((cold)) void peer_fault(struct peer *peer, enum peer_fault fault,
                                      const char *details);

#endif
