/* SPDX-License-Identifier: Apache-2.0 */
/** @file abort.h
 *  Aborts of steps, told from rank to rank (abort.c).
 */
#ifndef RENDEZVOUS_PEER_ABORT_H
#define RENDEZVOUS_PEER_ABORT_H

#include "rendezvous/match/scopes.h"
#include "rendezvous/op/engine.h"

struct peer;

/** Aborted steps, not open here yet, that one peer may tell us of. Each costs a struct scope and its
 *  first buckets. */
enum { EARLY_ABORTS_MAX = 1 << 16 };

/** Abort a step by id, also one that is not open here yet, and tell all peers but `from`. The earliest
 *  (time, rank) wins. */
void rendezvous_abort(struct rendezvous *rdv, uint64_t step, tryst_status status,
                      int32_t rank, uint64_t time_ns, const char *text,
                      struct peer *from);
/** LINK_ABORT has come. */
void abort_read(struct peer *peer, const void *data, size_t bytes);
/** What a record of a step is refused with, and by whom: TRYST_E_ABORTED, also when the abort was
 *  followed by the close (as far back as ABORT_NOTES remember), else TRYST_E_CLOSED. TRYST_OK: the
 *  step takes it, or is not open here yet. `scope`: scope_find's answer. */
tryst_status step_refuses(const struct rendezvous *rdv, const struct scope *scope,
                          uint64_t step, int32_t *origin_rank_p);
/** A link came up: all that it has missed. */
void abort_send_all(struct peer *peer);
/** An aborted scope is being freed: links that come up later are told of it all the same. */
void abort_note_scope(struct rendezvous *rdv, const struct scope *scope);
/** A step opens here: if it was aborted before, and only a note of that could be kept, it is now. */
void abort_note_take(struct rendezvous *rdv, struct scope *scope);

#endif
