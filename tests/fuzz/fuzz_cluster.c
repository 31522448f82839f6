/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a cluster, or is refused with its name and line. The routes of a cluster
 * are found, or refused with an error text, and its dump loads as an equal graph. */
#include "fuzz.h"

#include <math.h>

#include "core/memory/alloc.h"
#include "topology/draw/graph_write.h"
#include "topology/formats/graph_read.h"
#include "topology/graph_equal.h"
#include "topology/routes/overlay.h"
#include "topology/routes/overlay_price.h"

#define RANKS_MAX 64u

static void dump_check(const struct graph *graph)
{
    struct graph *again;
    struct err err = ERR_INIT;
    char *text;
    FUZZ_CHECK(graph_write(graph, GRAPH_JSON, NULL, &err, &text) == TRYST_OK);
    tryst_status status =
        graph_read(text, strlen(text), "dump", GRAPH_AUTO, &err, &again);
    if (status != TRYST_OK)
        fprintf(stderr, "what was dumped does not load: %s\n", err.text);
    FUZZ_CHECK(status == TRYST_OK);
    FUZZ_CHECK(graph_equal(graph, again));
    graph_close(again);
    mem_free(text);
}

/* Check that an edge costs what it loads, at price 1. */
static void costs_check(struct overlay *overlay)
{
    uint32_t n = overlay->ranks_count, links = overlay->links_count;
    double *cost = calloc((size_t)n * n + 2ul * links + 1, sizeof *cost);
    FUZZ_CHECK(cost != NULL);
    double *price = cost + (size_t)n * n, *load = price + links;
    for (uint32_t l = 0; l < links; l++)
        price[l] = 1;
    overlay_costs(overlay, price, cost);
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;
        uint32_t j = (i + 1) % n;
        memset(load, 0, links * sizeof *load);
        overlay_load(overlay, i, j, 1, load);
        for (uint32_t l = 0; l < links; l++)
            sum += load[l];
        FUZZ_CHECK(isinf(cost[(size_t)i * n + j]) ||
                   fabs(sum - cost[(size_t)i * n + j]) <= 1e-9 * (1 + sum));
    }
    free(cost);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err err = ERR_INIT;
    struct graph *graph;
    struct overlay *overlay;
    tryst_status status =
        graph_read((const char *)data, bytes, "x", GRAPH_CLUSTER, &err, &graph);
    FUZZ_CHECK(status == TRYST_OK || status == TRYST_E_INVALID);
    if (status != TRYST_OK) {
        FUZZ_CHECK(err.text[0] != '\0');
        return 0;
    }
    dump_check(graph);
    if (graph->ranks_count <= RANKS_MAX) {
        status = overlay_open(graph, NULL, 0, &err, &overlay);
        FUZZ_CHECK(status == TRYST_OK || (status == TRYST_E_INVALID && err.text[0]));
        if (status == TRYST_OK) {
            costs_check(overlay);
            overlay_close(overlay);
        }
    }
    graph_close(graph);
    return 0;
}
