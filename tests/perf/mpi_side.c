/* SPDX-License-Identifier: Apache-2.0 */
/* Ping-pong and all-reduce of MPI, as osu_latency and osu_allreduce have them, measured
 * as tryst-perf measures Tryst: the time for one way is half a round trip, an all-reduce
 * of fp32 lasts as long as its slowest rank, no barrier between operations. Rank 0 prints
 * lines "pingpong|allreduce <bytes> <median> <p99>", in seconds. mpi_side.sh runs this
 * program, which links no part of Tryst.
 *
 * usage: mpi_side <iterations> <bytes>…       (2 ranks) */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ITERATIONS_MAX = 100000, LEAVE_S = 1 };

static int doubles_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void figures_print(int rank, const char *kind, int bytes, double *seconds,
                          int count)
{
    if (rank != 0)
        return;
    qsort(seconds, (size_t)count, sizeof *seconds, doubles_compare);
    printf("%s %d %.9g %.9g\n", kind, bytes,
           (seconds[count / 2] + seconds[(count - 1) / 2]) / 2,
           seconds[count - 1 - count / 100]);
}

/* One message there and back; return half of the time. */
static double pingpong_once(int rank, void *data, int bytes)
{
    double begin = MPI_Wtime();
    if (rank == 0)
        MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(data, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Send(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    return (MPI_Wtime() - begin) / 2;
}

static double allreduce_once(const float *in, float *result, int bytes)
{
    double begin = MPI_Wtime();
    MPI_Allreduce(in, result, bytes / (int)sizeof *in, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    return MPI_Wtime() - begin;
}

/* Abort unless the result is the sum of both ranks' numbers, 1 and 2. */
static void result_check(const float *result, int bytes)
{
    for (int i = 0; i < bytes / (int)sizeof *result; i++)
        if (result[i] != 3) {
            fprintf(stderr, "mpi_side: element %d is %g, not 3\n", i, (double)result[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

static void size_measure(int rank, int iterations, int bytes)
{
    static double seconds[ITERATIONS_MAX];
    float *in = malloc((size_t)bytes + 1), *result = malloc((size_t)bytes + 1);
    if (!in || !result)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < bytes / (int)sizeof *in; i++) {
        in[i] = (float)(rank + 1);
        result[i] = 0; /* its pages exist before the clock runs */
    }
    for (int i = -iterations / 10 - 10; i < iterations; i++) {
        double once = allreduce_once(in, result, bytes);
        if (i >= 0)
            seconds[i] = once;
    }
    result_check(result, bytes);
    MPI_Allreduce(MPI_IN_PLACE, seconds, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    figures_print(rank, "allreduce", bytes, seconds, iterations);
    for (int i = -iterations / 10 - 10; i < iterations; i++) {
        double once = pingpong_once(rank, in, bytes);
        if (i >= 0)
            seconds[i] = once;
    }
    figures_print(rank, "pingpong", bytes, seconds, iterations);
    free(in);
    free(result);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int iterations = argc > 2 ? atoi(argv[1]) : 0;
    if (ranks != 2 || iterations < 1 || iterations > ITERATIONS_MAX) {
        fprintf(stderr,
                "usage: mpi_side <iterations, at most %d> <bytes>... on 2 ranks\n",
                ITERATIONS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 2; i < argc; i++)
        size_measure(rank, iterations, atoi(argv[i]));
    /* MPI_Finalize is left out, for the reason in mpi_allreduce.c. */
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    sleep(LEAVE_S);
    _exit(0);
}
