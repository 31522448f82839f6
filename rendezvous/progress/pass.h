/* SPDX-License-Identifier: Apache-2.0 */
/** @file pass.h
 *  One pass of the engine, and what comes before the sleep of the thread that makes
 *  passes (pass.c). All in the progress domain.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_PASS_H
#define TRYST_RENDEZVOUS_PROGRESS_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "tryst/status.h"

struct rendezvous;

/** Make one pass: submissions, rails, deadlines, ticks, frames to send, completions. The
 *  caller runs the poller. Returns the number of events. */
int pass_run(struct rendezvous *rdv);
/** Make the next pass read the clock. */
void pass_clock_due(struct rendezvous *rdv);
/** Send, when a thread leaves, all that is queued or waits to go with other frames,
 *  except acknowledgements that are delayed for a reply. Call it before the lock is
 *  released. */
void pass_flush(struct rendezvous *rdv);
/** Send the delayed acknowledgements. False: none were delayed for a while, so the timer
 *  stops until the next ack_timer_call. */
bool acks_send(struct rendezvous *rdv);
/** Prepare the caller's sleep on the poller: announce small receives, send what is
 *  queued, arm the rails. Returns TRYST_OK (sleep), TRYST_AGAIN (make a pass first), or
 *  TRYST_E_UNSUPPORTED (sleep in short naps). */
tryst_status pass_arm(struct rendezvous *rdv);
/** Note that the sleeper is awake, so that submissions need not wake it. */
void pass_awake(struct rendezvous *rdv);
/** Return the time at which the next timer must run (CLOCK_MONOTONIC ns); 0: none. */
uint64_t pass_next_ns(const struct rendezvous *rdv);
/** Close endpoints, finish peers, free scopes: nothing else is walking them now. Part of
 *  a pass, and of rendezvous_group_close. */
void pass_reap(struct rendezvous *rdv);

#endif
