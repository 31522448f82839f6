/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public functions for placing ranks on devices (tryst/topo.h): check arguments, find
 * the devices in the graph, and describe the result and its reason in one line.
 */
#include "tryst/topo.h"

#include <assert.h>

#include "core/memory/alloc.h"
#include "core/text/growing_text.h"
#include "core/text/params.h"
#include "core/text/refuse.h"
#include "topo_own.h"
#include "topology/base/graph_describe.h"
#include "topology/place/place.h"

static tryst_status place_params_check(const tryst_place_params *params, struct err *err)
{
    if (params->ranks_count < 1 || params->devices_count < 1 || !params->bus_ids)
        return err_set(err, TRYST_E_INVALID,
                       "cannot place %d ranks on %d devices: both must be at least 1, "
                       "and bus_ids must be set",
                       params->ranks_count, params->devices_count);
    if (params->pairs && params->pairs_count < 0)
        return err_set(err, TRYST_E_INVALID,
                       "cannot place ranks: pairs_count is %d (0 or more)",
                       params->pairs_count);
    for (int32_t i = 0; params->pairs && i < params->pairs_count; i++) {
        const tryst_place_pair *pair = &params->pairs[i];
        if (pair->a < 0 || pair->a >= params->ranks_count || pair->b < 0 ||
            pair->b >= params->ranks_count || pair->weight < 1)
            return err_set(
                err, TRYST_E_INVALID,
                "cannot place pair %d: ranks %d and %d with weight %d (ranks 0 "
                "to %d, weights from 1)",
                i, pair->a, pair->b, pair->weight, params->ranks_count - 1);
    }
    return TRYST_OK;
}

/* Append the ranks of each device: "2 on 0, 2 on 3" or, with at most one rank each, "0
 * 3". */
static void devices_write(struct text *text, const struct place *place, int32_t ranks,
                          int32_t devices)
{
    for (int32_t rank = 0, end; rank < ranks; rank = end) {
        end = rank + 1;
        while (end < ranks && place->devices[end] == place->devices[rank])
            end++;
        if (ranks > devices)
            text_addf(text, "%s%d on %u", rank ? ", " : " ", end - rank,
                      place->devices[rank]);
        else
            text_addf(text, " %u", place->devices[rank]);
    }
}

/* Append the links in use, best first: "3 x NV2 400 Gbit/s, 1 x SYS". With `in_turn`,
 * those that the devices' own order would use. */
static void links_write(struct text *text, const struct place *place, bool in_turn)
{
    bool any = false;
    for (uint32_t i = 0; i < place->links_count; i++) {
        const struct place_links *links = &place->links[i];
        uint32_t count = in_turn ? links->in_turn : links->chosen;
        double bytes_per_s = links->path.bytes_per_s;
        char word[8];
        if (count == 0)
            continue;
        text_addf(text, "%s%u x %s", any ? ", " : "", count,
                  links->path.hops == GRAPH_NONE ? "unknown"
                                                 : graph_path_word(&links->path, word));
        if (links->path.hops != GRAPH_NONE && bytes_per_s > 0 &&
            bytes_per_s < GRAPH_UNLIMITED) {
            text_add(text, " ");
            describe_rate(text, bytes_per_s);
            text_add(text, " Gbit/s");
        }
        any = true;
    }
    text_add(text, any ? "" : "nothing");
}

static tryst_status place_write(const struct place *place,
                                const tryst_place_params *params, struct err *err,
                                char **text_p)
{
    struct text text = {0};
    bool unknown = place->unknown_count == (uint32_t)params->devices_count;
    text_addf(&text, "%d rank%s on device%s", params->ranks_count,
              params->ranks_count > 1 ? "s" : "", params->devices_count > 1 ? "s" : "");
    devices_write(&text, place, params->ranks_count, params->devices_count);
    if (unknown && params->devices_count > 1) {
        text_add(&text, ", in their own order: no link between them is known");
    } else if (params->ranks_count > 1) {
        text_add(&text, "; between neighbours ");
        links_write(&text, place, false);
        text_add(&text, place->in_order ? ", and no better order was found"
                                        : "; the devices' own order gives ");
        if (!place->in_order)
            links_write(&text, place, true);
    }
    if (!unknown && place->unknown_count)
        text_addf(&text, "; %u of the devices are not in the topology",
                  place->unknown_count);
    return text_release(&text, err, text_p);
}

static tryst_status place_run(const tryst_topo *topo, const tryst_place_params *params,
                              uint32_t *nodes, struct place_pair *pairs, struct err *err,
                              struct place *place_p)
{
    const struct graph *graph = topo ? topo_graph(topo) : NULL;
    const struct place_request ask = {.graph = graph,
                                      .nodes = nodes,
                                      .devices_count = (uint32_t)params->devices_count,
                                      .ranks_count = (uint32_t)params->ranks_count,
                                      .pairs = params->pairs ? pairs : NULL,
                                      .pairs_count = (uint32_t)params->pairs_count};
    for (int32_t i = 0; i < params->devices_count; i++)
        nodes[i] = graph ? place_node(graph, params->bus_ids[i]) : GRAPH_NONE;
    for (int32_t i = 0; params->pairs && i < params->pairs_count; i++)
        pairs[i] = (struct place_pair){.a = (uint32_t)params->pairs[i].a,
                                       .b = (uint32_t)params->pairs[i].b,
                                       .weight = (uint32_t)params->pairs[i].weight};
    tryst_status status = place_decide(&ask, place_p);
    return status == TRYST_OK ? status
                              : err_set(err, status, "cannot place ranks: out of memory");
}

static tryst_status place_all(const tryst_topo *topo, const tryst_place_params *params,
                              struct err *err, int32_t *devices, char **text_p)
{
    struct place place = {0};
    tryst_status status = place_params_check(params, err);
    if (status != TRYST_OK)
        return status;
    size_t pairs_count = params->pairs ? (size_t)params->pairs_count : 0;
    uint32_t *nodes = mem_zalloc_array((size_t)params->devices_count, sizeof *nodes);
    struct place_pair *pairs = mem_zalloc_array(pairs_count + 1, sizeof *pairs);
    status = nodes && pairs
                 ? place_run(topo, params, nodes, pairs, err, &place)
                 : err_set(err, TRYST_E_NOMEM, "cannot place ranks: out of memory");
    assert(status != TRYST_OK || place.devices);
    if (status == TRYST_OK && text_p)
        status = place_write(&place, params, err, text_p);
    for (int32_t i = 0; status == TRYST_OK && i < params->ranks_count; i++)
        devices[i] = (int32_t)place.devices[i];
    place_drop(&place);
    mem_free(pairs);
    mem_free(nodes);
    return status;
}

tryst_status tryst_topo_place(const tryst_topo *topo, const tryst_place_params *params,
                              int32_t *devices, char **text_p)
{
    struct err err = ERR_INIT;
    tryst_place_params own;
    if (!params || !devices)
        return refuse_null("place stages", params ? "devices" : "params");
    tryst_status status =
        params_read(&own, sizeof own, params, "tryst_place_params", &err);
    if (status == TRYST_OK)
        status = place_all(topo, &own, &err, devices, text_p);
    return topo_result(status, &err);
}
