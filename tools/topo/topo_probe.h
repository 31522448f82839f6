/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-topo --probe: measures the network between the ranks of a job. */
#ifndef TRYST_TOOLS_TOPO_PROBE_H
#define TRYST_TOOLS_TOPO_PROBE_H

#include <stdbool.h>

#include <tryst/topo.h>

struct probe_options {
    const char *transport; /* NULL: TRYST_TRANSPORT */
    const char *cache;     /* a file, "none", NULL: one of the user's */
    double seconds_max;    /* for all rounds */
    bool again;            /* measure even where the cache has it */
};

/* Collective over the job that a launcher started this process in. At rank 0, *topo_p is the graph; elsewhere
 * it is NULL. Returns the exit status; what went wrong was said. */
int probe_run(const struct probe_options *options, tryst_topo **topo_p);

#endif
