/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_fill.h"

tryst_status graph_fill_open(const struct source *source, struct text_place place,
                             tryst_status (*fill)(void *arg, struct graph *graph,
                                                  struct err *why),
                             void *arg, struct graph **graph_p)
{
    struct err why = ERR_INIT;
    struct graph *graph;
    if (graph_open(&graph) != TRYST_OK)
        return source_no_memory(source);
    tryst_status status = fill(arg, graph, &why);
    if (status == TRYST_OK)
        *graph_p = graph;
    else
        graph_close(graph);
    return status == TRYST_E_NOMEM ? source_no_memory(source)
                                   : source_judge(source, place, status, &why);
}
