/* SPDX-License-Identifier: Apache-2.0 */
/** @file abort.h
 *  Aborts of steps: their flood from rank to rank, and notes of closed steps (abort.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_ABORT_H
#define TRYST_RENDEZVOUS_PEER_ABORT_H

#include "rendezvous/match/scopes.h"
#include "rendezvous/op/engine.h"

struct peer;

/** The most aborts of steps that are not open here yet; each costs a struct scope.
 *  EARLY_ABORTS_MAX: of one origin, reported by itself, and as many reported by others.
 *  PASSED_ABORTS_MAX: of other origins, reported by one peer. A peer with more aborts of
 *  its own is given up. Further aborts of others are dropped, since the peer that reports
 *  them did not cause them. */
enum { EARLY_ABORTS_MAX = 1 << 10, PASSED_ABORTS_MAX = 1 << 12 };

/** Abort a step by id, also one that is not open here yet, and send ABORT to all peers
 *  but `from` (for a closed step: to the neighbours in the control tree): at once if
 *  `from` is NULL, else at the end of the pass. Of several causes the earliest (time,
 *  rank) counts. An abort without room is dropped (EARLY_ABORTS_MAX). */
void rendezvous_abort(struct rendezvous *rdv, uint64_t step, tryst_status status,
                      int32_t rank, uint64_t time_ns, const char *text,
                      struct peer *from);
/** Note that a record of rank `from` has ended an operation of an open step with the
 *  cause of the step's abort: LINK_ABORT may come later, on another connection, and a
 *  program that reads TRYST_E_ABORTED from an operation must read it from the step, too.
 *  aborts_reported_run, before the pass delivers completions, aborts the step. The time
 *  of the cause is not known, so the cause in LINK_ABORT counts as the earlier one. */
void abort_report(struct rendezvous *rdv, struct scope *scope, struct cause cause,
                  const char *text, int32_t from);
void aborts_reported_run(struct rendezvous *rdv);
/** Read a LINK_ABORT message. */
void abort_read(struct peer *peer, const void *data, size_t bytes);
/** Return the cause that refuses a record of a step: TRYST_E_ABORTED, also when the abort
 *  was followed by the close (as far back as ABORT_NOTES reach), else TRYST_E_CLOSED, or
 *  TRYST_E_LEFT while this rank leaves its group.
 *  Status TRYST_OK: the step is open, or not open here yet; the origin is then this rank.
 *  `scope` is scope_find's result. */
struct cause step_refuses(const struct rendezvous *rdv, const struct scope *scope,
                          uint64_t step);
/** Write why records of a step are refused here with `status`: the reason of the abort,
 *  or that this rank has closed or skipped the step. "" if the step is not refused with
 *  `status`. Returns `text`. */
const char *step_refusal_text(struct rendezvous *rdv, uint64_t step, tryst_status status,
                              char text[static ABORT_TEXT_BYTES]);
/** Send the aborts that the peer does not have, while its link has room. */
void aborts_send(struct peer *peer);
/** Call aborts_send for all peers. */
void aborts_send_all(struct rendezvous *rdv);
/** Stop counting the abort of a scope that is no longer early. */
void abort_early_end(struct rendezvous *rdv, struct scope *scope);
/** Keep a note of an aborted scope that is being freed, for links that come up later. */
void abort_note_scope(struct rendezvous *rdv, const struct scope *scope);
/** Abort a step that opens here if a note of its abort was kept (there was no memory for
 *  its scope). */
void abort_note_apply(struct rendezvous *rdv, struct scope *scope);

#endif
