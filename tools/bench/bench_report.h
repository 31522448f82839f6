/* SPDX-License-Identifier: Apache-2.0 */
/* Reports results on rank 0. */
#ifndef TRYST_TOOLS_BENCH_BENCH_REPORT_H
#define TRYST_TOOLS_BENCH_BENCH_REPORT_H

#include "bench_rank.h"
#include "tools/bench/predict/bench_predict.h"

struct bench_figures {
    double tokens_per_s; /**< 0: stages that sleep, which read nothing */
    double *measured;    /**< [ranks]: bubble */
    double measured_mean;
    /** True if the first step alone is measured; else the first step is left out. */
    bool first_alone;
    struct bench_prediction prediction;
    tryst_action_costs *costs; /**< [stages]: measured */
    int cores_count; /**< cores that all ranks share; 0: ranks are on several hosts */
};

/** Return the simulated step that the measured ones are compared with. */
const struct bench_step *bench_figures_step(const struct bench_figures *self);
/** Return the mean time of a measured step, on rank 0. */
double bench_step_measured_s(const struct bench_result *result);

/** Print the table. */
void bench_table_print(FILE *out, const struct bench_run *run,
                       const struct bench_result *result,
                       const struct bench_figures *self);

/** Print the table and write the files that the options name. */
tryst_status bench_report(struct bench_run *run, const struct bench_result *result);

#endif
