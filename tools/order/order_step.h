/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_step.h
 *  Runs a graph on a rank in real time: timed waits for actions, an all-reduce for each
 *  operation. */
#ifndef TRYST_TOOLS_ORDER_ORDER_STEP_H
#define TRYST_TOOLS_ORDER_ORDER_STEP_H

#include <tryst/coll.h>

#include "oracle.h"

struct order_step;

/** Return the elements (fp32) of an operation with `bytes`. */
uint64_t order_step_elements(uint64_t bytes);

/** Prepare the all-reduces of `graph`, in place in `data`, which has room for its
 *  elements. `priorities` [nodes of the graph] are those of operations; NULL: they have
 *  none. `graph`, `data` and `priorities` stay the caller's and are in use until
 *  order_step_free. On an error tryst_last_error has the reason. */
tryst_status order_step_open(tryst_ctx *ctx, tryst_group *group,
                             const struct order_graph *graph, float *data,
                             const int32_t *priorities, struct order_step **step_p);

/** Run the graph once, in `in`. It begins at `begin_ns` of tryst_now_ns, which may be
 *  past; *end_ns_p becomes the end of its last node. An action's time counts from the
 *  end of what it waited for, so a late wake-up of this thread makes no step longer.
 *  Does not drive the library: the progress thread does.
 *  On an error *reason_p is its text, valid until order_step_free. */
tryst_status order_step_run(struct order_step *step, tryst_step *in, uint64_t begin_ns,
                            uint64_t *end_ns_p, const char **reason_p);

/** Write when each node of the newest run was ready and ended to `spans` [nodes of the
 *  graph], in seconds from `begin_ns`. Nodes begin when they are ready. */
void order_step_spans(const struct order_step *step, uint64_t begin_ns,
                      struct oracle_span *spans);

/** Release the all-reduces, before the group is closed; no run may follow. NULL is
 *  allowed. */
void order_step_close(struct order_step *step);
/** Free the step, after the context is closed: operations that a failure left behind use
 *  it until then. NULL is allowed. */
void order_step_free(struct order_step *step);

#endif
