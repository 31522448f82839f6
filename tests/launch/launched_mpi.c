/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job that uses Tryst and an MPI, which share the launcher's descriptor
 * (PMI_FD). launch.sh compiles it with MPICH's compiler.
 * usage: launched_mpi first|later
 *        first: MPI_Init precedes tryst_group_open; later: it follows
 * Prints "rank 2 of 4 by both". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>

static void check(tryst_status status, const char *what)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "launched_mpi: %s: %s\n", what, tryst_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_group_params params = {.struct_size = sizeof params};
    int rank = -1, size = -1, sum = -1;
    int first = argc == 2 && strcmp(argv[1], "first") == 0;
    if (first)
        MPI_Init(&argc, &argv);
    check(tryst_open(NULL, &ctx), "tryst_open");
    check(tryst_group_open(ctx, &params, &group), "tryst_group_open");
    if (!first)
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank != tryst_group_rank(group) || size != tryst_group_size(group) ||
        sum != size * (size - 1) / 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    tryst_group_close(group);
    if (first)
        MPI_Finalize();
    /* what the process has received stays valid without the descriptor */
    check(tryst_group_open(ctx, &params, &group), "tryst_group_open, again");
    printf("rank %d of %d by both\n", tryst_group_rank(group), tryst_group_size(group));
    tryst_group_close(group);
    tryst_close(ctx);
    if (!first)
        MPI_Finalize();
    return 0;
}
