/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-topo --probe: measures the network between the ranks of a job. */
#ifndef TRYST_TOOLS_TOPO_TOPO_PROBE_H
#define TRYST_TOOLS_TOPO_TOPO_PROBE_H

#include <stdbool.h>

#include <tryst/topo.h>

struct probe_options {
    const char *transport; /**< NULL: TRYST_TRANSPORT */
    const char *cache;  /**< a file, "none", or NULL: a file in the user's cache folder */
    double seconds_max; /**< limit for all rounds together */
    bool again;         /**< measure even if the cache has the graph */
};

/** Measure the network of the job that a launcher started this process in. Collective. At
 *  rank 0, *topo_p is the graph; elsewhere it is NULL. Returns the exit status, after a
 *  message on stderr if that is not 0. */
int probe_run(const struct probe_options *options, tryst_topo **topo_p);

#endif
