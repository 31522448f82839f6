/* SPDX-License-Identifier: Apache-2.0 */
/* The function that every rank runs, for each conformance case; test_conformance.c has
 * the table of cases. */
#ifndef TRYST_TESTS_TRANSPORTS_CONFORMANCE_CASES_H
#define TRYST_TESTS_TRANSPORTS_CONFORMANCE_CASES_H

#include "traffic.h"

/** frames.c */
void body_frames_order(struct conf_ctx *ctx);
void body_frames_full(struct conf_ctx *ctx);
void body_peers(struct conf_ctx *ctx);
void body_loopback(struct conf_ctx *ctx);

/** bulk.c */
void body_bulk_sizes(struct conf_ctx *ctx);
void body_bulk_many(struct conf_ctx *ctx);
void body_bulk_mismatch(struct conf_ctx *ctx);
void body_bulk_cancel(struct conf_ctx *ctx);
void body_bulk_unexpected(struct conf_ctx *ctx);
void body_control_ahead(struct conf_ctx *ctx);
void body_bulk_huge(struct conf_ctx *ctx);

/** borrow.c */
void body_bulk_borrow(struct conf_ctx *ctx);
void body_bulk_borrow_many(struct conf_ctx *ctx);
void body_bulk_borrow_cancel(struct conf_ctx *ctx);
void body_close_borrowed(struct conf_ctx *ctx);

/** device.c */
void body_device_raw(struct conf_ctx *ctx);

/** closing.c */
void body_close_busy(struct conf_ctx *ctx);
void body_close_opening(struct conf_ctx *ctx);
void body_connect_hostile(struct conf_ctx *ctx);
void body_killed(struct conf_ctx *ctx);
void body_killed_leaves_child(struct conf_ctx *ctx);
void body_killed_others(struct conf_ctx *ctx);
void body_stopped(struct conf_ctx *ctx);
void body_cycles(struct conf_ctx *ctx);

/** sleeping.c */
void body_sleep(struct conf_ctx *ctx);

#endif
