/* SPDX-License-Identifier: Apache-2.0 */
/** @file order.h
 *  A profile and its figures: the time of the step under each order of its operations,
 *  and the optimum. */
#ifndef TRYST_TOOLS_ORDER_ORDER_H
#define TRYST_TOOLS_ORDER_ORDER_H

#include <stdio.h>

#include "order_replay.h"

/** A command: a profile, and what to do with it. */
struct order_job {
    const char *path; /**< of the profile, for messages */
    struct order_profile *profile;
    double gbit_per_s, latency_us; /**< of the network in virtual time */
    uint64_t bucket_bytes;         /**< 0: the default, 25 MiB */
    const char *json;              /**< a file name, "-" for stdout, or NULL */
    const char *draw;              /**< the file of the picture, or NULL */
    const char *report;            /**< the file of the page, or NULL */
    /** over ranks: */
    const char *transport;  /**< NULL: the setting's value */
    uint64_t steps, warmup; /**< of each policy, measured and before those */
};

/** The contents of a profile. */
struct order_sums {
    uint32_t actions, operations;
    uint64_t bytes;   /**< of all operations */
    double actions_s; /**< all actions, one after the other */
};

/** The figures of a profile at one rate and latency. */
struct order_figures {
    double optimum_s; /**< lower bound over all orders */
    /** below 0: the profile cannot be in buckets, as an operation comes after another */
    double seconds[ORDER_COUNT];
    /** the part of the step under fifo that the optimum saves; NaN: a step of no time */
    double possible_gain;
};

struct order_sums order_sum(const struct order_profile *profile);
/** Write the members of a JSON object that describe the profile, without a comma at the
 *  end. */
void order_sums_print(FILE *file, const struct order_job *job);
/** Return the parameters of a replay at this rate and latency, with the job's buckets. */
struct order_params order_params(const struct order_job *job, double bytes_per_s,
                                 double latency_s);
/** Replay the profile under all orders. */
struct order_figures order_compute(const struct order_profile *profile,
                                   const struct order_params *params);
/** Return the distance of `seconds` to `optimum_s` as a part of the latter; NaN: the
 *  optimum takes no time, or `seconds` is below 0. */
double order_gap(double seconds, double optimum_s);

#endif
