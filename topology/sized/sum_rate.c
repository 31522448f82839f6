/* SPDX-License-Identifier: Apache-2.0 */
/* Rates at which ranks sum; see sum_rate.h. */
#include "sum_rate.h"

#include <string.h>

#define PASSES 3 /* two reads and a write */

/* NVIDIA's data sheets: memory rate of each model, and the rate of its NVLinks in one
 * direction where it identifies the model (else 0). The first row with a name that is
 * part of the GPU's label applies; without a label, the first row with an NVLink rate
 * that the GPU's NVLinks reach. */
static const struct gpu_row {
    const char *model;
    double memory_gb_per_s, nvlink_gb_per_s;
} gpu_rows[] = {
    {"B200", 8000, 900},
    {"GH200", 4000, 0},
    {"H200", 4800, 0},
    {"H100 NVL", 3900, 0},
    {"H100 PCIe", 2000, 0},
    {"H100", 3350, 450},
    {"A100 80GB PCIe", 1935, 0},
    {"A100-SXM4-80GB", 2039, 0},
    {"A100", 1555, 300},
    {"V100", 900, 150},
    {"L40S", 864, 0},
    {"L4", 300, 0},
    {"A10", 600, 0},
    {"T4", 320, 0},
};
/* A model without a row counts as the slowest of the list. */
#define UNKNOWN_GB_PER_S 300

static double nvlinks_gb_per_s(const struct graph *graph, uint32_t gpu)
{
    double sum = 0;
    for (uint32_t i = graph->out_first[gpu]; i < graph->out_first[gpu + 1]; i++) {
        const struct graph_link *link = &graph->links[graph->out_next[i]];
        if (link->kind == WIRE_NVLINK && link->bytes_per_s.value > 0)
            sum += link->bytes_per_s.value / 1e9;
    }
    return sum;
}

static double memory_gb_per_s(const struct graph *graph, uint32_t gpu)
{
    const char *label = graph->nodes[gpu].label;
    double nvlinks = nvlinks_gb_per_s(graph, gpu);
    for (size_t k = 0; k < sizeof gpu_rows / sizeof *gpu_rows; k++) {
        const struct gpu_row *row = &gpu_rows[k];
        if (label ? strstr(label, row->model) != NULL
                  : row->nvlink_gb_per_s > 0 && nvlinks >= 0.99 * row->nvlink_gb_per_s)
            return row->memory_gb_per_s;
    }
    return UNKNOWN_GB_PER_S;
}

double sum_rate_of(const struct graph *graph, uint32_t node)
{
    while (node != GRAPH_NONE && graph->nodes[node].kind != NODE_GPU)
        node = graph->nodes[node].parent;
    return node == GRAPH_NONE ? SUM_CORE_BYTES_PER_S
                              : memory_gb_per_s(graph, node) * 1e9 / PASSES;
}
