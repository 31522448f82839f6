/* SPDX-License-Identifier: Apache-2.0 */
/** @file submission.h
 *  Submissions: the way of users' calls into the progress domain (submission.c).
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_SUBMISSION_H
#define TRYST_RENDEZVOUS_PROGRESS_SUBMISSION_H

#include <stdbool.h>

#include "tryst/status.h"

struct rendezvous;
struct submission;

/** Return TRYST_OK, TRYST_E_FORKED or TRYST_E_CONTEXT. Any thread. */
tryst_status rendezvous_usable(const struct rendezvous *rdv);
/** Refuse submissions from now on. */
void rendezvous_refuse(struct rendezvous *rdv);
/** Run a submission here if the progress lock is free, no submission is queued and the
 *  engine's thread does not sleep; else queue it for the next pass. Any thread. */
void rendezvous_submit(struct rendezvous *rdv, struct submission *submission);
/** Enter the progress domain, to run a submission in the calling thread. False: the lock
 *  is taken, other submissions are queued, or the last holder of the lock sleeps outside
 *  (tryst_arm) and must be woken: the caller queues it. Any thread. */
bool submissions_enter(struct rendezvous *rdv);
/** Leave after it. Records for peers without unacknowledged frames leave at once; records
 *  for other peers leave in the next pass, packed with more. A transfer that the
 *  submission completed starts at once, unless more urgent ones take the window.
 *  Callbacks do not run here: the next pass delivers completions, so tryst_arm requires a
 *  pass. */
void submissions_leave(struct rendezvous *rdv);
/** Queue a submission that calls the user back: it runs in a pass. Any thread. */
void rendezvous_queue(struct rendezvous *rdv, struct submission *submission);
/** Run the queued submissions; return their number. Part of a pass. */
int submissions_run(struct rendezvous *rdv);

#endif
