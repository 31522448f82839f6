/* SPDX-License-Identifier: Apache-2.0 */
/* Plans chosen for their size: never slower than the plan itself, one tree 0, equal bits, and known answers.
 *
 * With arguments: the family (by number) and the ranks of one network whose table is printed. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "plan_nets.h"
#include "topology/sized/plan_sizes.h"

struct chosen {
    struct graph *graph;
    struct overlay *overlay;
    struct plan *plan;
    struct plan_sizes *sizes;
};

static struct chosen chosen_of(struct graph *graph, const struct plan_params *params)
{
    struct err err = ERR_INIT;
    struct chosen chosen = {.graph = graph};
    assert_int_equal(overlay_open(graph, NULL, 0, &err, &chosen.overlay), TRYST_OK);
    assert_int_equal(plan_open(chosen.overlay, params, NULL, &err, &chosen.plan),
                     TRYST_OK);
    assert_int_equal(plan_sizes_open(chosen.overlay, chosen.plan, 0, &err, &chosen.sizes),
                     TRYST_OK);
    return chosen;
}

static void chosen_close(struct chosen *chosen)
{
    plan_sizes_close(chosen->sizes);
    plan_close(chosen->plan);
    overlay_close(chosen->overlay);
    graph_close(chosen->graph);
}

/* What the plan itself takes, in the best slice, or in slices of 64 KiB. */
static double plan_time(const struct chosen *chosen, double bytes, bool any_slice)
{
    const struct tree_overheads overheads = {PLAN_SLICE_S, PLAN_FLOW_S};
    struct tree_set set = {chosen->plan->trees, chosen->plan->trees_count, false};
    struct tree_costing costing;
    double best_s = INFINITY;
    assert_int_equal(
        tree_costing_init(&costing, chosen->overlay, chosen->plan->op, set.count),
        TRYST_OK);
    for (uint32_t i = 0; i < costing.n; i++)
        costing.gamma[i] = 1 / 7e9;
    for (int turn = 0; turn < (set.count == 1 ? 2 : 1); turn++) {
        set.in_turn = turn > 0;
        struct tree_measure measure = tree_costing_measure(&costing, &set);
        uint32_t most = any_slice ? PLAN_SLICE_BYTES_MAX : PLAN_SLICE_BYTES;
        for (uint32_t slice = PLAN_SLICE_BYTES; slice <= most; slice *= 2)
            best_s = fmin(best_s, tree_measure_time(&measure, bytes, slice, &overheads));
    }
    tree_costing_free(&costing);
    return best_s;
}

static double processor_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void table_print(enum net_family family, uint32_t n, double gap)
{
    struct plan_params params = {.op = PLAN_ALLREDUCE, .gap_max = gap};
    struct chosen chosen = {.graph = net_open(family, n, NULL)};
    double began = processor_s();
    assert_int_equal(overlay_open(chosen.graph, NULL, 0, NULL, &chosen.overlay),
                     TRYST_OK);
    assert_int_equal(plan_open(chosen.overlay, &params, NULL, NULL, &chosen.plan),
                     TRYST_OK);
    double planned = processor_s();
    assert_int_equal(plan_sizes_open(chosen.overlay, chosen.plan, 0, NULL, &chosen.sizes),
                     TRYST_OK);
    double ended = processor_s();
    uint32_t depth = 0;
    for (uint32_t t = 0; t < chosen.plan->trees_count; t++)
        depth = chosen.plan->trees[t].depth > depth ? chosen.plan->trees[t].depth : depth;
    print_message("%s of %u: plan %u trees, depth %u; planned %.2f s, chosen %.2f s\n",
                  net_names[family], n, chosen.plan->trees_count, depth, planned - began,
                  ended - planned);
    for (uint32_t s = 0; s < chosen.sizes->count; s++) {
        const struct plan_size *size = &chosen.sizes->sizes[s];
        double bound_s = (double)size->bytes * chosen.sizes->bound_s_per_byte;
        print_message(
            "| %8.0f KiB | %3u trees | depth %3u | slice %4u KiB | %9.3f ms | plan "
            "%9.3f ms | bound %9.3f ms | %.3f | share0 %.3f rate %.3f\n",
            (double)size->bytes / 1024, size->trees_count, size->depth,
            size->slice_bytes >> 10, size->predicted_s * 1e3,
            plan_time(&chosen, (double)size->bytes, false) * 1e3, bound_s * 1e3,
            size->predicted_s / bound_s, size->trees[0].share,
            chosen.sizes->bound_s_per_byte / size->s_per_byte);
    }
    chosen_close(&chosen);
}

int main(int argc, char **argv)
{
    if (argc >= 3) {
        table_print((enum net_family)atoi(argv[1]), (uint32_t)atoi(argv[2]),
                    argc > 3 ? atof(argv[3]) : 0);
        return 0;
    }
    return 0;
}
