/* SPDX-License-Identifier: Apache-2.0 */
/** @file closed.h
 *  Steps that one side has closed while the other still sends in them (closed.c).
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_CLOSED_H
#define TRYST_RENDEZVOUS_PROTOCOL_CLOSED_H

#include "channel.h"

/** The most answers to ASK that may be queued at once for a peer; beyond that, the peer
 *  repeats ASK at its tick. */
enum { REQUESTS_MAX = 1024 };

/** Note that the send waits: CLOSED from its peer, for its step, will fail it. */
void producer_await(tryst_op *op);
/** True if a send of the step may have waited for the peer since the peer's last CLOSED
 *  for the step. Always true once there was no memory to note the peers. */
bool scope_awaits(const struct scope *scope, const struct peer *peer);
/** Note that the send waits for a WANT, and queue ASK for its step for the next idle
 *  pass. */
void producer_request_later(tryst_op *op);
/** Queue ASK for the newest steps that producer_request_later noted, if sends still wait
 *  for the peer. */
void producer_request_new(struct peer *peer);
/** Queue ASK for all steps in which sends to the peer wait. */
void producer_request_all(struct peer *peer);
/** Answer an ASK for `step`, now or once the step is closed here. Without memory, or with
 *  REQUESTS_MAX answers queued, the peer's next ASK is answered instead. */
void consumer_request_answer(struct peer *peer, uint64_t step);
/** Free a large list of answers to ASK: all have been packed. */
void consumer_requests_end(struct peer *peer);
/** Drop the answers to ASK: the peer is gone, or none is left. */
void consumer_requests_drop(struct peer *peer);
/** Answer the peers that sent ASK for the closing `scope`: each one from which no receive
 *  is left in it. */
void consumer_askers_answer(struct rendezvous *rdv, struct scope *scope);

#endif
