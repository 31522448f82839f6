/* SPDX-License-Identifier: Apache-2.0 */
/* What a job maps: a program that links libtryst alone has neither topologies nor a
 * library that describes machines. Where a group is planned, rank 0 has the planner's
 * module, and no other rank has.
 * usage: test_mapped none|planner [<name>…]
 *   none     no rank has the module
 *   planner  rank 0 alone has it
 *   <name>   a part of a path that no rank maps */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tryst/coll.h>
#include <tryst/tryst.h>

enum { COUNT = 1 << 18 };

/* True if a line of /proc/self/maps contains `name`; the line is printed. */
static bool is_mapped(const char *name)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, name) != NULL;
    if (maps)
        (void)fclose(maps);
    if (found)
        printf("%s", line);
    return found;
}

/* Run an all-reduce in the group of all ranks. */
static tryst_status reduce(tryst_group *group)
{
    static float sum[COUNT];
    tryst_step *step;
    tryst_op *op;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = sum,
                           .count = COUNT,
                           .dtype = TRYST_DTYPE_F32};
    tryst_status status = tryst_step_open(group, 1, &step);
    if (status)
        return status;
    status = tryst_allreduce(step, "sum", NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op);
    if (status)
        return status;
    status = tryst_wait(op, TRYST_FOREVER);
    tryst_op_release(op);
    (void)tryst_step_close(step, NULL);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const never[] = {
        "libtryst_topology", "libhwloc", "libxml2", "libjansson",
        "libnvidia-ml",      "blas",     "lapack"};
    tryst_ctx *ctx;
    tryst_group *group;
    bool planner = argc > 1 && strcmp(argv[1], "planner") == 0;
    bool bad = argc < 2;
    if (tryst_open(NULL, &ctx) || tryst_group_open(ctx, NULL, &group) || reduce(group)) {
        (void)fprintf(stderr, "%s\n", tryst_last_error());
        return 1;
    }
    int rank = tryst_group_rank(group);
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        bad = is_mapped(never[i]) || bad;
    for (int i = 2; i < argc; i++)
        bad = is_mapped(argv[i]) || bad;
    if (is_mapped("/tryst_topology.so") != (planner && rank == 0)) {
        printf("rank %d %s the planner\n", rank, planner && rank == 0 ? "lacks" : "has");
        bad = true;
    }
    bad = !is_mapped("/libtryst.so") || bad;
    tryst_group_close(group);
    tryst_close(ctx);
    return bad;
}
