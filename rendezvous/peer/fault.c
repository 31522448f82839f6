/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of a peer against the protocol. A correct library of the same build commits
 * none.
 *
 * Idea: all texts are in one table, so that a test prints and checks them all.
 */
#include "fault.h"

#include <stdio.h>

static const char *const texts[PEER_FAULTS_COUNT] = {
#define FAULT(name, text) [PEER_FAULT_##name] = (text),
    PEER_FAULTS(FAULT)
#undef FAULT
};

void peer_fault(struct peer *peer, enum peer_fault fault, const char *details)
{
    char text[2 * TRANSPORT_TEXT_MAX];
    snprintf(text, sizeof text, "%s%s%s%s; run the same build on all ranks", texts[fault],
             details ? " (" : "", details ? details : "", details ? ")" : "");
    peer_give_up(peer, TRYST_E_PROTOCOL, text);
}
