/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk of a pair: slots of struct transport_ops, and functions for pair.c. */
#ifndef TRYST_TRANSPORTS_PAIR_PAIR_BULK_H
#define TRYST_TRANSPORTS_PAIR_PAIR_BULK_H

#include "pair.h"

/** Slots of struct transport_ops. */
tryst_status pair_bulk_recv(struct endpoint *base, struct bulk *bulk);
tryst_status pair_bulk_send(struct endpoint *base, struct bulk *bulk);
void pair_bulk_cancel(struct endpoint *base, struct bulk *bulk);
tryst_status pair_bulk_read(struct endpoint *base, struct bulk *bulk, size_t at,
                            size_t bytes, bulk_use use, void *arg);
tryst_status pair_bulk_return(struct endpoint *base, struct bulk *bulk);

/* --- for pair.c --- */

/** Handle one entry that is not a frame; the entry is still in the ring. */
void pair_bulk_entry(struct pair_ep *ep, struct ring_entry entry);
int pair_answers_handle(struct pair_ep *ep);
/** Answer the peer's offer in `slot` (PAIR_ANSWER_…). */
void pair_answer_send(struct pair_ep *ep, unsigned slot, uint8_t answer);
int pair_jobs_advance(struct pair_ep *ep);
int pair_finished_complete(struct pair_ep *ep);
/** Complete all bulk of the endpoint with `status`, reads under way included. */
void pair_bulk_end(struct pair_ep *ep, tryst_status status);
/** Read one piece of the most urgent receive. */
int pair_reads_advance(struct pair_rail *rail);

/* --- for shm --- */

/** Queue the receives in ep->waiting, by urgency: a region of the peer has come. */
void pair_reads_resume(struct pair_ep *ep);

#endif
