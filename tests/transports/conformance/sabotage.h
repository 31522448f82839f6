/* SPDX-License-Identifier: Apache-2.0 */
/* Transports with one known fault each, to show that the suite finds it.
 *
 * One idea: a copy of a good transport's table in which one function is replaced.
 * Callers: conf_open, for test_sabotage.c alone. */
#ifndef TESTS_CONFORMANCE_SABOTAGE_H
#define TESTS_CONFORMANCE_SABOTAGE_H

#include "transports/transport.h"

/* `fault` NULL: `ops` itself. One fault per process. */
const struct transport_ops *sabotage_ops(const struct transport_ops *ops,
                                         const char *fault);

#endif
