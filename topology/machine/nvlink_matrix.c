/* SPDX-License-Identifier: Apache-2.0 */
#include "nvlink_matrix.h"

#include <stdio.h>

struct matrix {
    struct machine *machine;
    const struct matrix_end *ends;
    const unsigned long long *mb_per_s;
    size_t count;
    enum graph_origin origin;
};

/* Return the bandwidth from i to j or, if that is 0, from j to i: hwloc writes both,
 * other writers leave one at 0. */
static double rate_of(const struct matrix *matrix, size_t i, size_t j)
{
    unsigned long long there = matrix->mb_per_s[i * matrix->count + j];
    unsigned long long back = matrix->mb_per_s[j * matrix->count + i];
    return (double)(there ? there : back) * 1e6;
}

/* True if the matrix has links from `i` to ends of `kind`. */
static bool reaches(const struct matrix *matrix, size_t i, enum matrix_end_kind kind)
{
    for (size_t j = 0; j < matrix->count; j++)
        if (j != i && matrix->ends[j].kind == kind && rate_of(matrix, i, j) > 0)
            return true;
    return false;
}

/* Add the links between `gpu` and `to`. If switches join both GPUs, the matrix's number
 * for the pair is hwloc's transitive closure, not a link. */
static bool link_add(const struct matrix *matrix, size_t gpu, size_t to)
{
    const struct matrix_end *from = &matrix->ends[gpu], *far = &matrix->ends[to];
    struct machine_nvlink more = {
        .from = from->number,
        .to = far->kind == MATRIX_GPU ? far->number : MACHINE_NONE,
        .to_package = far->kind == MATRIX_PACKAGE,
        .package = far->kind == MATRIX_PACKAGE ? far->number : MACHINE_NONE,
        .bytes_per_s = {rate_of(matrix, gpu, to), matrix->origin}};
    if (far->kind == MATRIX_GPU &&
        (from->number == far->number ||
         (reaches(matrix, gpu, MATRIX_SWITCH) && reaches(matrix, to, MATRIX_SWITCH))))
        return true;
    return machine_nvlink_join(matrix->machine, &more);
}

/* Add the links of a GPU; those between two GPUs are added from the one that is first in
 * the matrix. */
static bool links_add(const struct matrix *matrix, size_t gpu)
{
    for (size_t to = 0; to < matrix->count; to++) {
        bool first = matrix->ends[to].kind != MATRIX_GPU || gpu < to;
        if (matrix->ends[to].kind == MATRIX_UNKNOWN || !first ||
            !(rate_of(matrix, gpu, to) > 0))
            continue;
        if (!link_add(matrix, gpu, to))
            return false;
    }
    return true;
}

/* Set the bandwidth from a GPU to switches to unknown: the matrix gives the GPU further
 * links, to an unknown end. */
static void sum_forget(const struct matrix *matrix, size_t gpu)
{
    struct machine *machine = matrix->machine;
    for (uint32_t i = 0; i < machine->nvlinks_count; i++) {
        struct machine_nvlink *bundle = &machine->nvlinks[i];
        if (bundle->from == matrix->ends[gpu].number && bundle->to == MACHINE_NONE &&
            !bundle->to_package)
            bundle->bytes_per_s = (struct graph_number)MACHINE_UNKNOWN;
    }
}

static bool unknown_skip(const struct matrix *matrix, size_t end)
{
    char what[64];
    if (!reaches(matrix, end, MATRIX_GPU))
        return true;
    snprintf(what, sizeof what, "NVLinkBandwidth of gp_index %llu",
             matrix->ends[end].gp_index);
    return machine_skip(matrix->machine, what,
                        "not a GPU, an NVSwitch or a package: the bandwidth of its links "
                        "to GPUs is unknown");
}

bool nvlink_matrix_join(struct machine *machine, const struct matrix_end *ends,
                        const unsigned long long *mb_per_s, size_t count,
                        enum graph_origin origin)
{
    const struct matrix matrix = {machine, ends, mb_per_s, count, origin};
    for (size_t i = 0; i < count; i++) {
        if (ends[i].kind == MATRIX_GPU && !links_add(&matrix, i))
            return false;
        if (ends[i].kind == MATRIX_UNKNOWN && !unknown_skip(&matrix, i))
            return false;
    }
    for (size_t i = 0; i < count; i++)
        if (ends[i].kind == MATRIX_GPU && reaches(&matrix, i, MATRIX_UNKNOWN))
            sum_forget(&matrix, i);
    machine_nvlinks_pair(machine);
    return true;
}
