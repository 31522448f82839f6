/* SPDX-License-Identifier: Apache-2.0 */
/* Machines made up by words; README.md has the grammar. Callers: graph_read.c. */
#ifndef TRYST_TOPOLOGY_SYNTHETIC_H
#define TRYST_TOPOLOGY_SYNTHETIC_H

#include "source.h"

/** A graph that is not sealed; nothing on failure: TRYST_E_INVALID with the place, TRYST_E_NOMEM. */
tryst_status synthetic_read(const struct source *source, struct graph **graph_p);

#endif
