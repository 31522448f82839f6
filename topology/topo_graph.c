/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions that read the nodes and links of a topology (tryst/topo.h). */
#include <stdio.h>

#include "core/text/params.h"
#include "core/text/refuse.h"
#include "topo_own.h"
#include "topology/base/graph_describe.h"

int tryst_topo_nodes(const tryst_topo *topo)
{
    return topo ? (int)topo_graph(topo)->nodes_count : 0;
}

int tryst_topo_links(const tryst_topo *topo)
{
    return topo ? (int)topo_graph(topo)->links_count : 0;
}

/* Check the arguments of a call that reads item `number` of `count` into `to`, a struct
 * of this type. */
static tryst_status item_check(const tryst_topo *topo, const char *what, int number,
                               int count, const void *to, const char *type)
{
    struct err err = ERR_INIT;
    char action[32];
    snprintf(action, sizeof action, "read a %s", what);
    if (!topo || !to)
        return refuse_null(action, !topo ? "topo" : type);
    tryst_status status = params_check_output(to, type, &err);
    if (status == TRYST_OK && (number < 0 || number >= count))
        status = err_set(&err, TRYST_E_INVALID,
                         "not a %s of the topology: %d (it has %d, from 0)", what, number,
                         count);
    return topo_result(status, &err);
}

tryst_status tryst_topo_node_get(const tryst_topo *topo, int number,
                                 tryst_topo_node *node_p)
{
    tryst_status status = item_check(topo, "node", number, tryst_topo_nodes(topo), node_p,
                                     "tryst_topo_node");
    if (status != TRYST_OK)
        return status;
    const struct graph *graph = topo_graph(topo);
    const struct graph_node *node = &graph->nodes[number];
    tryst_topo_node own = {.name = node->name,
                           .short_name = node_short_name(graph, (uint32_t)number),
                           .kind = graph_node_kind_name(node->kind),
                           .label = node->label,
                           .pci = node->pci,
                           .cpus = node->cpus,
                           .parent = (int32_t)node->parent, /* GRAPH_NONE is -1 */
                           .machine = (int32_t)graph_machine(graph, (uint32_t)number)};
    (void)tryst_sized_write(node_p, &own, sizeof own);
    return TRYST_OK;
}

tryst_status tryst_topo_link_get(const tryst_topo *topo, int number,
                                 tryst_topo_link *link_p)
{
    struct err err = ERR_INIT;
    struct text text = {0};
    tryst_status status = item_check(topo, "link", number, tryst_topo_links(topo), link_p,
                                     "tryst_topo_link");
    if (status != TRYST_OK)
        return status;
    const struct graph_link *link = &topo_graph(topo)->links[number];
    const struct graph_link *back = graph_back(topo_graph(topo), (uint32_t)number);
    tryst_topo_link own = {.kind = graph_link_kind_name(link->kind),
                           .from = (int32_t)link->from,
                           .to = (int32_t)link->to,
                           .bytes_per_s = link->bytes_per_s.value,
                           .down = link->down,
                           .two_way = back != NULL};
    describe_link(&text, link, back);
    text_add(&text, "");
    if (text.failed)
        status = err_set(&err, TRYST_E_NOMEM, "cannot read a link: out of memory");
    else
        snprintf(own.text, sizeof own.text, "%s", text.data);
    text_drop(&text);
    if (status == TRYST_OK)
        (void)tryst_sized_write(link_p, &own, sizeof own);
    return topo_result(status, &err);
}
