/* SPDX-License-Identifier: Apache-2.0 */
/** @file live_print.h
 *  Prints a rank as text, and defines the phrases of that text. */
#ifndef TRYST_TOOLS_LIVE_LIVE_PRINT_H
#define TRYST_TOOLS_LIVE_LIVE_PRINT_H

#include "live.h"

void live_print_rank(FILE *out, const struct live_rank *rank);
/** Return the operation's kind ("receive", …), and what the operation waits for, as
 *  phrases. */
const char *live_kind_text(const struct live_op *op);
const char *live_missing_text(const struct live_rank *rank, const struct live_op *op);
/** Return the send that `op` queues behind; NULL: none, or it is not on the page. */
const struct live_op *live_behind(const struct live_rank *rank, const struct live_op *op);
/** Write the sentence about packets between `rank` and a peer that are lost; there are
 *  some. */
void live_loss_text(int rank, const struct tryst_live_peer *peer, char *text,
                    size_t capacity);
/** Write a phrase about what the rank is doing: "is stopped (…)". */
void live_place_text(const struct live_rank *rank, char *text, size_t capacity);
/** Write "act0;0:7" for a canonical key, else the key. */
void live_key_short(const struct live_op *op, char *text, size_t capacity);
void live_transports_text(const struct live_rank *rank, char *text, size_t capacity);

#endif
