/* SPDX-License-Identifier: Apache-2.0 */
/** @file planner_load.h
 *  The planner of this process, and the text of the network that TRYST_TOPOLOGY names.
 */
#ifndef TRYST_CONTEXT_PLANNER_LOAD_H
#define TRYST_CONTEXT_PLANNER_LOAD_H

#include "collectives/plan/planner.h"

struct config;
struct log;

/** The text of a network; mem_free frees `text`. */
struct topology_text {
    const char *name; /**< for messages: the path, or static */
    char *text;       /**< not terminated */
    size_t bytes;
};

/** Read the network that TRYST_TOPOLOGY names. The message names the setting.
 *  TRYST_E_CONFIG: the file is standard input; or a status of source_load. */
tryst_status topology_text_read(const char *path, struct err *err,
                                struct topology_text *text_p);

/** Parse the network, as the graph_parse of `planner`. The message names the setting. */
tryst_status topology_text_parse(const struct topology_text *text,
                                 const struct planner_ops *planner, struct err *err,
                                 struct graph **graph_p, uint32_t *ranks_count_p);

/** Load the planner, unless it is loaded. Blocks while the module loads. The message
 *  names the file, where it was searched, and what to install. The statuses of
 *  module_load. */
tryst_status planner_load(const struct config *config, const struct log *log,
                          struct err *err, const struct planner_ops **planner_p);

#endif
