/* SPDX-License-Identifier: Apache-2.0 */
/* See quadratic_run.h. */
#include <math.h>

#include "quadratic_run.h"

enum { WINDOW = 200 };

/* w(t + 1) = w(t) - a·w(t - d) is stable below a = 2 sin(π / (4d + 2)). (PipeMare, Yang
 * et al. 2021) */
double quadratic_limit(int delay)
{
    return 2 * sin(3.14159265358979323846 / (4 * delay + 2));
}

void quadratic_stages_open(double factor, tryst_stage *stages[QUADRATIC_DELAYS])
{
    for (int s = 0; s < QUADRATIC_DELAYS; s++) {
        double limit = quadratic_limit(QUADRATIC_DELAYS - 1 - s);
        const struct quadratic_params params = {
            .stage = s,
            .stages_count = QUADRATIC_DELAYS,
            .curvature = 2,
            .discrepancy = -1, /* the reads of F and B matter equally */
            .lr = factor * limit / 2,
            .weight = 1,
            .versions_count = QUADRATIC_UPDATES + 1};
        stages[s] = quadratic_stage_open(&params);
    }
}

static double largest(const tryst_stage *stage, uint64_t first)
{
    double most = 0;
    for (uint64_t v = first; v < first + WINDOW; v++) {
        most = fmax(most, fabs(quadratic_stage_weight(stage, v)));
    }
    return most;
}

double quadratic_growth(const tryst_stage *stage)
{
    return largest(stage, QUADRATIC_UPDATES - WINDOW) / largest(stage, WINDOW);
}
