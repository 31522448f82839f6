/* SPDX-License-Identifier: Apache-2.0 */
/* An optimiser of the recurrence trainer's own, in fp64, with the whole history of one
 * stage's weights and moments. It moves weights by the formulae of tryst/stage.h and
 * calls neither `update` nor `predict` of the stage: the stage only computes forwards and
 * gradients, with weights that are written into it. */
#ifndef TRYST_TESTS_PIPELINE_RECURRENCE_OWN_H
#define TRYST_TESTS_PIPELINE_RECURRENCE_OWN_H

#include "recurrence_rules.h"

#include <tryst/stage.h>

struct own;

/** Begin with the weights of `stage`: fp32, in host memory. `optimizer` may be NULL
 *  (defaults). Fails the test without memory. */
struct own *own_open(tryst_stage *stage, const tryst_optimizer *optimizer,
                     double delta_decay, int64_t updates_max);
void own_close(struct own *own);

/** Write the weights that `read` names into the stage. */
void own_write(struct own *own, const struct recurrence_read *read);

/** Make the next version from the gradients that the stage has summed, and clear these.
 *  `rate` is the factor of the learning rate. */
void own_update(struct own *own, int microbatches_count, double rate);

/** Write the newest version, rounded to fp32, into the stage. */
void own_write_newest(struct own *own);

#endif
