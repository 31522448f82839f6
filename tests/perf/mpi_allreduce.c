/* SPDX-License-Identifier: Apache-2.0 */
/* MPI_Allreduce of fp32, measured as tryst-perf allreduce measures Tryst: separate input
 * and result, one round that is not counted, no barrier between rounds, and each round
 * lasts as long as its slowest rank. With "inplace" the input is where the result will
 * be, and is zero while the clock runs. Rank 0 prints the median and the maximum as JSON.
 * mpich_lab.sh and one_host.sh run this program, which links no part of Tryst.
 *
 * usage: mpi_allreduce <bytes> <rounds> [inplace] */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 10000, LEAVE_S = 1 };

static int doubles_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Return how many elements differ from the sum of 1 to `ranks`. */
static int wrong_count(const float *result, int count, int ranks)
{
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += result[i] != (float)(ranks * (ranks + 1) / 2);
    return wrong;
}

/* Run the rounds; `seconds` gets this rank's time of each counted round. */
static void measure(const float *in, float *result, int count, int rounds,
                    double *seconds)
{
    for (int i = -1; i < rounds; i++) {
        double begin = MPI_Wtime();
        MPI_Allreduce(in, result, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (i >= 0)
            seconds[i] = MPI_Wtime() - begin;
    }
}

/* End this process without MPI_Finalize, which hangs in one of a few runs with MPICH
 * 4.0.2 over UCX 1.13.1: one rank closes a connection and polls, while the others wait
 * in PMI's barrier and no longer poll. The sleep lets all ranks leave the last barrier
 * before any connection breaks. */
static void finish(void)
{
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    sleep(LEAVE_S);
    _exit(0);
}

int main(int argc, char **argv)
{
    static double seconds[ROUNDS_MAX];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool in_place = argc > 3 && strcmp(argv[3], "inplace") == 0;
    int count = argc > 2 ? (int)(strtoull(argv[1], NULL, 10) / sizeof(float)) : 0;
    int rounds = argc > 2 ? atoi(argv[2]) : 0;
    float *in = calloc((size_t)count + 1, sizeof *in);
    float *result = calloc((size_t)count + 1, sizeof *result);
    if (count < 1 || rounds < 1 || rounds > ROUNDS_MAX || !in || !result) {
        fprintf(stderr, "usage: mpi_allreduce <bytes> <rounds, at most %d> [inplace]\n",
                ROUNDS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < count; i++) {
        in[i] = (float)(rank + 1);
        result[i] = in_place ? 0 : -1; /* touch the pages before the clock runs */
    }
    measure(in_place ? MPI_IN_PLACE : in, result, count, rounds, seconds);
    if (in_place) { /* what the check expects */
        memcpy(result, in, (size_t)count * sizeof *in);
        MPI_Allreduce(MPI_IN_PLACE, result, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    int wrong = wrong_count(result, count, ranks);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, seconds, rounds, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(seconds, (size_t)rounds, sizeof *seconds, doubles_compare);
    free(in);
    free(result);
    if (wrong) {
        fprintf(stderr, "mpi_allreduce: %d elements are wrong\n", wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("{\"seconds\": %.9g, \"seconds_p99\": %.9g}\n",
               (seconds[rounds / 2] + seconds[(rounds - 1) / 2]) / 2,
               seconds[rounds - 1 - rounds / 100]);
    finish();
}
