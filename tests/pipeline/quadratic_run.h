/* SPDX-License-Identifier: Apache-2.0 */
/* A run with a known answer: each stage of a pipeline trains one weight on a quadratic
 * loss (quadratic_stage.h), with a rate near the limit of its delay. Below the limit the
 * weight goes to 0, above it the weight grows without end. */
#ifndef TRYST_TESTS_PIPELINE_QUADRATIC_RUN_H
#define TRYST_TESTS_PIPELINE_QUADRATIC_RUN_H

#include "quadratic_stage.h"

/** Stage s of so many has delay QUADRATIC_DELAYS - 1 - s, and is updated so often. */
enum { QUADRATIC_DELAYS = 8, QUADRATIC_UPDATES = 5000 };

/** Return the limit of rate × curvature for this delay. */
double quadratic_limit(int delay);
/** Open the stages, each with `factor` times its limit. The caller closes them. */
void quadratic_stages_open(double factor, tryst_stage *stages[QUADRATIC_DELAYS]);
/** Return how the weight's size changes between the first and the last updates. */
double quadratic_growth(const tryst_stage *stage);

#endif
