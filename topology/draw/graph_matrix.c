/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See graph_matrix.h. Rows are the GPUs and NICs, the NUMA nodes or the ranks of one
 * machine (the first that has any): the first of these three with at least two rows. A
 * second matrix has the latencies, if any is known.
 */
#include "graph_matrix.h"

#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "topology/base/graph_describe.h"
#include "topology/base/graph_path.h"

#define ROWS_MAX 24 /* a wider matrix does not fit on a screen */

struct matrix {
    const struct graph *graph;
    struct text *text;
    struct graph_path *paths; /* paths from the node of the current row */
    uint32_t rows[ROWS_MAX];
    uint32_t rows_count, left_out;
    size_t name_width, cell_width;
};

/* ---- rows -------------------------------------------------------------------------- */

/* Add the nodes of `kind` that are in the machine of the first row; without rows, of the
 * first such node. */
static void matrix_rows_add(struct matrix *matrix, enum graph_node_kind kind)
{
    const struct graph *graph = matrix->graph;
    for (uint32_t i = 0; i < graph->nodes_count; i++) {
        if (graph->nodes[i].kind != kind)
            continue;
        uint32_t machine = graph_machine(graph, matrix->rows_count ? matrix->rows[0] : i);
        if (matrix->rows_count < ROWS_MAX && graph_machine(graph, i) == machine)
            matrix->rows[matrix->rows_count++] = i;
        else
            matrix->left_out++;
    }
}

static void rows_choose(struct matrix *matrix)
{
    matrix_rows_add(matrix, NODE_GPU);
    matrix_rows_add(matrix, NODE_NIC);
    static const enum graph_node_kind others[] = {NODE_NUMA, NODE_RANK};
    for (int i = 0; i < 2 && matrix->rows_count < 2; i++) {
        matrix->rows_count = matrix->left_out = 0;
        matrix_rows_add(matrix, others[i]);
    }
}

/* ---- cells ------------------------------------------------------------------------- */

static void rate_cell(struct text *text, const struct graph_path *path)
{
    char word[8];
    text_add(text, graph_path_word(path, word));
    if (path->hops == GRAPH_NONE)
        return;
    text_add(text, " ");
    describe_rate(text, path->bytes_per_s);
}

static void latency_cell(struct text *text, const struct graph_path *path)
{
    if (path->hops == GRAPH_NONE)
        text_add(text, "-");
    else if (path->latency_ns == GRAPH_UNKNOWN)
        text_add(text, "?");
    else
        text_addf(text, "%.4g", path->latency_ns * 1e-3);
}

/* Append the NUMA node or package of a device: "numa1, cpus 4-7". */
static void affinity_add(const struct graph *graph, struct text *text, uint32_t node)
{
    while (node != GRAPH_NONE && graph->nodes[node].kind != NODE_NUMA &&
           graph->nodes[node].kind != NODE_PACKAGE)
        node = graph->nodes[node].parent;
    if (node == GRAPH_NONE)
        return;
    text_add(text, node_short_name(graph, node));
    if (graph->nodes[node].cpus)
        text_addf(text, ", cpus %s", graph->nodes[node].cpus);
}

static void head_add(struct matrix *matrix, const char *what)
{
    text_addf(matrix->text, "\n%s", what);
    for (uint32_t i = 0; i < matrix->rows_count; i++) {
        text_pad(matrix->text, matrix->name_width + i * matrix->cell_width);
        text_add(matrix->text, node_short_name(matrix->graph, matrix->rows[i]));
    }
}

static bool row_paths(struct matrix *matrix, uint32_t row)
{
    if (graph_path_find(matrix->graph, matrix->rows[row], matrix->paths) == TRYST_OK)
        return true;
    matrix->text->failed = true;
    return false;
}

static void row_add(struct matrix *matrix, uint32_t row,
                    void (*cell)(struct text *, const struct graph_path *))
{
    struct text *text = matrix->text;
    if (!row_paths(matrix, row))
        return;
    text_addf(text, "\n%s", node_short_name(matrix->graph, matrix->rows[row]));
    for (uint32_t i = 0; i < matrix->rows_count; i++) {
        text_pad(text, matrix->name_width + i * matrix->cell_width);
        if (i == row)
            text_add(text, "X");
        else
            cell(text, &matrix->paths[matrix->rows[i]]);
    }
}

static void rates_add(struct matrix *matrix)
{
    const struct graph *graph = matrix->graph;
    size_t end = matrix->name_width + matrix->rows_count * matrix->cell_width;
    bool devices = graph->nodes[matrix->rows[0]].kind == NODE_GPU ||
                   graph->nodes[matrix->rows[0]].kind == NODE_NIC;
    head_add(matrix, "Gbit/s");
    if (devices) {
        text_pad(matrix->text, end);
        text_add(matrix->text, "near");
    }
    for (uint32_t i = 0; i < matrix->rows_count; i++) {
        row_add(matrix, i, rate_cell);
        if (!devices)
            continue;
        text_pad(matrix->text, end);
        affinity_add(graph, matrix->text, graph->nodes[matrix->rows[i]].parent);
    }
    text_add(matrix->text, "\n");
}

static bool latency_known(struct matrix *matrix)
{
    for (uint32_t i = 0; i < matrix->rows_count; i++) {
        if (!row_paths(matrix, i))
            return false;
        for (uint32_t j = 0; j < matrix->rows_count; j++)
            if (i != j && matrix->paths[matrix->rows[j]].hops != GRAPH_NONE &&
                matrix->paths[matrix->rows[j]].latency_ns != GRAPH_UNKNOWN)
                return true;
    }
    return false;
}

static void latencies_add(struct matrix *matrix)
{
    if (!latency_known(matrix)) {
        text_add(matrix->text,
                 "\nus: no latency is known; run tryst-topo --probe under a launcher "
                 "to measure them.\n");
        return;
    }
    head_add(matrix, "us");
    for (uint32_t i = 0; i < matrix->rows_count; i++)
        row_add(matrix, i, latency_cell);
    text_add(matrix->text, "\n");
}

static void widths_measure(struct matrix *matrix)
{
    matrix->name_width = 8;
    matrix->cell_width = 10;
    for (uint32_t i = 0; i < matrix->rows_count; i++) {
        size_t length = strlen(node_short_name(matrix->graph, matrix->rows[i]));
        if (matrix->name_width < length + 2)
            matrix->name_width = length + 2;
        if (matrix->cell_width < length + 2)
            matrix->cell_width = length + 2;
    }
}

void graph_matrix_write(const struct graph *graph, struct text *text)
{
    struct matrix matrix = {.graph = graph, .text = text};
    rows_choose(&matrix);
    if (matrix.rows_count < 2)
        return;
    matrix.paths = mem_zalloc_array(graph->nodes_count + 1, sizeof *matrix.paths);
    if (!matrix.paths) {
        text->failed = true;
        return;
    }
    widths_measure(&matrix);
    rates_add(&matrix);
    if (matrix.left_out)
        text_addf(text, "(%u more are not shown)\n", matrix.left_out);
    text_add(text,
             "NV# NVLinks, PXN NVLinks and PCIe, C2C chip to chip, PIX one PCIe switch, "
             "PXB several,\nPHB a host bridge, NODE within a package, SYS between "
             "packages, NET a network,\nLOC no wire, - no path, ? unknown.\n");
    latencies_add(&matrix);
    mem_free(matrix.paths);
}
