/* SPDX-License-Identifier: Apache-2.0 */
/** @file blocks_run.h
 *  One start of a collective of blocks: its tensors and the memory of its parts.
 */
#ifndef TRYST_COLLECTIVES_BLOCKS_RUN_H
#define TRYST_COLLECTIVES_BLOCKS_RUN_H

#include "run.h"

/** Check the tensors of a start and copy them to `run`. Writes a text for
 *  tryst_last_error. */
tryst_status coll_blocks_copy(struct coll_run *run, const tryst_tensor *in,
                              const tryst_tensor *out);
/** Set the memory of each part. The terms of a packed collective are copied into
 *  private memory. */
void coll_blocks_memory_set(struct coll_run *run);
/** Copy the result of a packed collective to `out`. */
void coll_blocks_finish(struct coll_run *run);

#endif
