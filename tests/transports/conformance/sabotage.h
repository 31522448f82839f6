/* SPDX-License-Identifier: Apache-2.0 */
/* Transports with one known fault each, to prove that the suite finds the fault.
 *
 * One idea: a copy of a good transport's table in which one function is replaced. Used by
 * test_sabotage.c alone. */
#ifndef TRYST_TESTS_TRANSPORTS_CONFORMANCE_SABOTAGE_H
#define TRYST_TESTS_TRANSPORTS_CONFORMANCE_SABOTAGE_H

#include "transports/transport.h"

/** Return a copy of `ops` with the fault; `ops` itself if `fault` is NULL. One fault per
 *  process. */
const struct transport_ops *sabotage_ops(const struct transport_ops *ops,
                                         const char *fault);

#endif
