/* SPDX-License-Identifier: Apache-2.0 */
/* Reports results on rank 0. */
#ifndef TRYST_TOOLS_BENCH_BENCH_REPORT_H
#define TRYST_TOOLS_BENCH_BENCH_REPORT_H

#include "bench_rank.h"

struct bench_figures {
    double tokens_per_s; /**< 0: stages that sleep, which read nothing */
    double *measured;    /**< [ranks]: bubble */
    double *predicted;   /**< [ranks]: bubble */
    /** [ranks]: waits of the simulated schedule, in as many steps as were measured */
    double *waiting_s;
    double measured_mean;
    double predicted_mean;
    double step_s;   /**< of the simulated schedule */
    int cores_count; /**< cores that all ranks share; 0: ranks are on several hosts */
};

/** Print the table. */
void bench_table_print(FILE *out, const struct bench_run *run,
                       const struct bench_result *result,
                       const struct bench_figures *self);

/** Print the table and write the files that the options name. */
tryst_status bench_report(struct bench_run *run, const struct bench_result *result);

#endif
