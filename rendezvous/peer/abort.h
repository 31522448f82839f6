/* SPDX-License-Identifier: Apache-2.0 */
/** @file abort.h
 *  Aborts of steps: their flood from rank to rank, and notes of closed steps (abort.c).
 */
#ifndef TRYST_RENDEZVOUS_PEER_ABORT_H
#define TRYST_RENDEZVOUS_PEER_ABORT_H

#include "rendezvous/match/scopes.h"
#include "rendezvous/op/engine.h"

struct peer;

/** Largest numbers of aborts of steps that are not open here yet: of one origin, and of
 *  other ranks that one peer passes on. Each costs a struct scope. A peer with more of
 *  its own is given up. More that are passed on are dropped, since the peer that passes
 *  them on is no cause of them. */
enum { EARLY_ABORTS_MAX = 1 << 10, PASSED_ABORTS_MAX = 1 << 12 };

/** Abort a step by id, also one that is not open here yet, and send ABORT to all peers
 *  but `from`: at once if `from` is NULL, else at the end of the pass. Of several causes
 *  the earliest (time, rank) counts. */
void rendezvous_abort(struct rendezvous *rdv, uint64_t step, tryst_status status,
                      int32_t rank, uint64_t time_ns, const char *text,
                      struct peer *from);
/** Read a LINK_ABORT message. */
void abort_read(struct peer *peer, const void *data, size_t bytes);
/** Return the status that refuses a record of a step, with the rank that began it:
 *  TRYST_E_ABORTED, also when the abort was followed by the close (as far back as
 *  ABORT_NOTES reach), else TRYST_E_CLOSED. TRYST_OK: the step is open, or not open here
 *  yet. `scope` is scope_find's result. */
tryst_status step_refuses(const struct rendezvous *rdv, const struct scope *scope,
                          uint64_t step, int32_t *origin_rank_p);
/** Send the aborts that the peer does not have, while its link has room. */
void aborts_send(struct peer *peer);
/** Send them to all peers. */
void aborts_send_all(struct rendezvous *rdv);
/** Stop counting the abort of a scope that is early no more. */
void abort_early_end(struct rendezvous *rdv, struct scope *scope);
/** Keep a note of an aborted scope that is being freed, for links that come up later. */
void abort_note_scope(struct rendezvous *rdv, const struct scope *scope);
/** Abort a step that opens here if a note of its abort was kept (when no scope could
 *  be). */
void abort_note_apply(struct rendezvous *rdv, struct scope *scope);

#endif
