/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a topology, or is refused with an error text, whatever format is assumed.
 * Every picture of a topology can be drawn, and its dump reads back as the same topology.
 * The first byte chooses the format. hwloc reads its own files, and trusts them: mutated
 * ones end the process, so none get there. */
#include "fuzz.h"

#include "core/memory/alloc.h"
#include "tools/draw/topo_svg.h"
#include "topology/draw/graph_write.h"
#include "topology/formats/graph_read.h"

static void svg_draw(const char *dump)
{
    tryst_topo *topo;
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    FUZZ_CHECK(tryst_topo_parse(dump, strlen(dump), "dump", &topo) == TRYST_OK);
    FUZZ_CHECK(file && topo_svg_draw(file, topo, NULL) && fclose(file) == 0);
    tryst_topo_close(topo);
    free(text);
}

static void dump_compare(const struct graph *graph)
{
    struct graph *again;
    struct err err = ERR_INIT;
    char *dump, *second;
    FUZZ_CHECK(graph_write(graph, GRAPH_JSON, NULL, NULL, &dump) == TRYST_OK);
    tryst_status status =
        graph_read(dump, strlen(dump), "dump", GRAPH_JSON, &err, &again);
    if (status != TRYST_OK)
        fprintf(stderr, "the dump does not load: %s\n%s\n", err.text, dump);
    FUZZ_CHECK(status == TRYST_OK);
    FUZZ_CHECK(graph_write(again, GRAPH_JSON, NULL, NULL, &second) == TRYST_OK);
    FUZZ_CHECK(strcmp(dump, second) == 0);
    svg_draw(dump);
    mem_free(dump);
    mem_free(second);
    graph_close(again);
}

static void pictures_make(const struct graph *graph)
{
    static const enum graph_format formats[] = {GRAPH_TEXT, GRAPH_DOT};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char *text;
        FUZZ_CHECK(graph_write(graph, formats[i], NULL, NULL, &text) == TRYST_OK);
        mem_free(text);
    }
}

/* A short synthetic description can make more nodes than pictures are meant for. */
#define NODES_MAX 2000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const enum graph_format formats[] = {GRAPH_AUTO, GRAPH_JSON, GRAPH_CLUSTER,
                                                GRAPH_NCCL_XML, GRAPH_SYNTHETIC};
    struct err err = ERR_INIT;
    struct graph *graph;
    struct fuzz_input input = {data, bytes};
    enum graph_format format = formats[fuzz_byte(&input) % 5];
    char *text = fuzz_text(input.data, input.bytes);
    if (format == GRAPH_AUTO && strstr(text, "<topology")) {
        free(text);
        return 0;
    }
    tryst_status status = graph_read(text, input.bytes, "f", format, &err, &graph);
    FUZZ_CHECK(status == TRYST_OK || status == TRYST_E_INVALID ||
               status == TRYST_E_UNSUPPORTED);
    FUZZ_CHECK(status == TRYST_OK || err.text[0]);
    if (status == TRYST_OK) {
        if (graph->nodes_count < NODES_MAX) {
            dump_compare(graph);
            pictures_make(graph);
        }
        graph_close(graph);
    }
    free(text);
    return 0;
}
