/* SPDX-License-Identifier: Apache-2.0 */
/** @file closed.h
 *  Steps that one side has closed while the other still sends in them (closed.c).
 */
#ifndef RENDEZVOUS_PROTOCOL_CLOSED_H
#define RENDEZVOUS_PROTOCOL_CLOSED_H

#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/wire/wire.h"

/** Answers to questions about steps that may be queued at once: who asks for more asks again. */
enum { ASKS_MAX = 1024 };

/** A send of the step waits for a WANT: ask the peer about it, once nothing else happens. */
void producer_ask_later(struct peer *peer, struct scope *scope);
/** Ask about those steps. */
void producer_ask_new(struct peer *peer);
/** Ask the peer about all steps in which sends wait. */
void producer_ask(struct peer *peer);
/** The peer has closed a step (after an abort, if the status says so): what it has not asked for
 *  fails. */
void producer_step_closed(struct peer *peer, const struct record_answer *closed);
/** The producer asks whether `step` is closed here: answered once it is. */
void consumer_asked(struct peer *peer, uint64_t step);
/** All answers have left. */
void consumer_asks_answered(struct peer *peer);
/** The peer has gone. */
void consumer_asks_forget(struct peer *peer);
/** `scope` closes: answer those who asked and whose receives in it have all ended. */
void consumer_askers_answer(struct rendezvous *rdv, struct scope *scope);

#endif
