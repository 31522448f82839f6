/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_simulate.h
 *  Runs a profile under each order in virtual time. */
#ifndef TRYST_TOOLS_ORDER_ORDER_SIMULATE_H
#define TRYST_TOOLS_ORDER_ORDER_SIMULATE_H

#include "order.h"

/** Compute, print, write and draw, without ranks. Returns the exit status, after a
 *  message on stderr if it is not 0. */
int order_simulate(const struct order_job *job);

#endif
