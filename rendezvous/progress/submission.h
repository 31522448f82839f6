/* SPDX-License-Identifier: Apache-2.0 */
/** @file submission.h
 *  Submissions: the way of users' calls into the progress domain (submission.c).
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_SUBMISSION_H
#define TRYST_RENDEZVOUS_PROGRESS_SUBMISSION_H

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
/** Queue a submission that calls the user back: it runs in a pass. Any thread. */
void rendezvous_queue(struct rendezvous *rdv, struct submission *submission);
/** Run the queued submissions; return their number. Part of a pass. */
int submissions_run(struct rendezvous *rdv);

#endif
