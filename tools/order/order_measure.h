/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_measure.h
 *  Runs a profile over ranks under each policy. */
#ifndef TRYST_TOOLS_ORDER_ORDER_MEASURE_H
#define TRYST_TOOLS_ORDER_ORDER_MEASURE_H

#include <tryst/tryst.h>

#include "order.h"

enum order_policy {
    ORDER_POLICY_FIFO,
    ORDER_POLICY_BUCKETS,
    ORDER_POLICY_PRIORITY, /**< by tail, with windows that bound nothing */
    ORDER_POLICY_OURS,     /**< by tail, with the default windows */
    ORDER_POLICIES
};

struct order_policy_figures {
    double step_s;          /**< median; NaN: the profile cannot be in buckets */
    double simulated_s;     /**< in virtual time, at the measured rate and latency */
    double gap_order;       /**< to the optimum at the measured rate */
    double gap_certificate; /**< to the optimum at the plan's bound; NaN: no bound */
};

struct order_measured {
    double bytes_per_s;   /**< of all operations at once; NaN: there are none */
    double latency_s;     /**< of an all-reduce of one element */
    double optimum_s;     /**< at this rate and latency */
    double certificate_s; /**< the optimum at the plan's bound; NaN: no bound */
    double possible_gain; /**< of order_figures, at this rate */
    struct order_policy_figures policies[ORDER_POLICIES];
    struct oracle_network network; /**< this rate and latency */
    /** This rank's last step of each policy, if the job draws or reports; else
     *  zeros. */
    struct order_row rows[ORDER_POLICIES];
};

/** Return "fifo", "buckets", "priority", "ours". */
const char *order_policy_name(enum order_policy policy);
/** Measure. All ranks of `group` call it with equal jobs; each gets the same figures. On
 *  an error the reason is on stderr. */
tryst_status order_measure(const struct order_job *job, tryst_group *group,
                           struct order_measured *measured_p);
/** Free the rows. */
void order_measured_free(struct order_measured *measured);

#endif
