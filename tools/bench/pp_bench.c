/* SPDX-License-Identifier: Apache-2.0 */
/* pp_bench: trains a small model with its layers spread over ranks, and reports the cost.
 *
 * Ranks are processes of a launcher, processes that pp_bench starts itself, or (with
 * --transport self) threads of this process. bench_rank.c runs a rank; this file only
 * decides what a rank is. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_rank.h"
#include "bench_schedules.h"
#include "tools/job.h"
#include "tools/launch/launcher.h"
#include "tools/standard_files.h"

/* Time for the other ranks to end after one has died. Most end by themselves within two
 * seconds, but a rank in the bootstrap would wait for the dead one until the bootstrap's
 * deadline. */
#define GRACE_NS (3ull * 1000 * 1000 * 1000)

/* ---- ranks as threads -------------------------------------------------------------- */

struct thread_ranks {
    const struct bench_options *options;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char *table; /* blobs of the current all-gather; NULL: none, or no memory */
    int arrived_count;    /* threads that have written their blob */
    int left_count;       /* threads that have yet to read the table */
    uint64_t round;       /* all-gathers completed so far */
};

struct thread_rank {
    struct thread_ranks *owner;
    pthread_t thread;
    int rank;
    int exit_status;
};

/* Gather between threads, as a tryst_allgather_fn. The last thread to write its blob lets
 * all threads read the table, and the last to read it frees it. */
static int thread_allgather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct thread_rank *self = arg;
    struct thread_ranks *ranks = self->owner;
    int size = ranks->options->ranks;
    pthread_mutex_lock(&ranks->lock);
    while (ranks->left_count > 0) { /* threads still read the previous table */
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    }
    if (ranks->arrived_count == 0) {
        ranks->table = malloc(bytes * (size_t)size);
    }
    bool room = ranks->table != NULL;
    if (room) {
        memcpy(ranks->table + bytes * (size_t)self->rank, mine, bytes);
    }
    uint64_t round = ranks->round;
    if (++ranks->arrived_count == size) {
        ranks->round++;
        ranks->arrived_count = 0;
        ranks->left_count = size;
        pthread_cond_broadcast(&ranks->changed);
    }
    while (ranks->round == round) {
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    }
    if (ranks->table) {
        memcpy(all, ranks->table, bytes * (size_t)size);
    }
    if (--ranks->left_count == 0) {
        free(ranks->table);
        ranks->table = NULL;
        pthread_cond_broadcast(&ranks->changed);
    }
    pthread_mutex_unlock(&ranks->lock);
    return room ? 0 : -1;
}

static void *thread_main(void *arg)
{
    struct thread_rank *self = arg;
    const struct bench_place place = {.rank = self->rank,
                                      .size = self->owner->options->ranks,
                                      .allgather = thread_allgather,
                                      .allgather_arg = self};
    self->exit_status = bench_rank_run(self->owner->options, &place);
    return NULL;
}

static int run_threads(const struct bench_options *options)
{
    struct thread_ranks ranks = {.options = options,
                                 .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER};
    struct thread_rank *all = calloc((size_t)options->ranks, sizeof *all);
    int exit_status = 0;
    if (!all) {
        fprintf(stderr, "%s: cannot start %d ranks: out of memory\n", bench_name(),
                options->ranks);
        return 1;
    }
    for (int rank = 0; rank < options->ranks; rank++) {
        all[rank] = (struct thread_rank){.owner = &ranks, .rank = rank};
        if (pthread_create(&all[rank].thread, NULL, thread_main, &all[rank]) != 0) {
            /* the started ranks wait for this one, and nothing else can end them */
            fprintf(stderr, "%s: cannot start rank %d: no thread\n", bench_name(), rank);
            exit(1);
        }
    }
    for (int rank = 0; rank < options->ranks; rank++) {
        pthread_join(all[rank].thread, NULL);
        exit_status = all[rank].exit_status ? all[rank].exit_status : exit_status;
    }
    free(all);
    return exit_status;
}

/* ---- ranks as processes ------------------------------------------------------------ */

static int process_main(void *arg, int rank)
{
    const struct bench_options *options = arg;
    const struct bench_place place = {.rank = rank, .size = options->ranks};
    return bench_rank_run(options, &place);
}

static int run_processes(struct bench_options *options)
{
    const struct launcher_params job = {.name = bench_name(),
                                        .ranks = options->ranks,
                                        .main_fn = process_main,
                                        .arg = options,
                                        .grace_ns = GRACE_NS,
                                        .no_prefix = true};
    return launcher_run(&job) != 0;
}

/* Run as rank `rank` of a launcher; if `rank` is -1, there is no launcher: start the
 * ranks. */
static int run(struct bench_options *options, int rank)
{
    if (rank >= 0) {
        return process_main(options, rank);
    }
    bool threads = options->transport && strcmp(options->transport, "self") == 0;
    return threads ? run_threads(options) : run_processes(options);
}

/* Execute this program again with better OpenBLAS kernels, if OpenBLAS chose kernels that
 * are much slower than the processor allows. (OpenBLAS chooses when it is loaded.) Ranks
 * and the replay inherit the choice. */
static void use_best_kernels(char **argv)
{
    const char *core = tryst_blas_core_hint();
    if (core && setenv("OPENBLAS_CORETYPE", core, 1) == 0) {
        execv("/proc/self/exe", argv); /* failure: go on with slow kernels */
    }
}

static int bench_main(int argc, char **argv)
{
    struct bench_options options;
    int rank = -1;
    int size = 0;
    if (argc > 1 && strcmp(argv[1], "schedules") == 0) {
        return bench_schedules(argc - 1, argv + 1);
    }
    int place = job_place(bench_name(), &rank, &size);
    if (place < 0) {
        return 2;
    }
    if (place == 0) {
        rank = -1;
        size = 0;
    }
    switch (bench_options_read(argc, argv, size, &options)) {
    case TOOL_DONE: return 0;
    case TOOL_REFUSED: return 2;
    case TOOL_GO: break;
    }
    int exit_status = run(&options, rank);
    bench_options_close(&options);
    return exit_status;
}

int main(int argc, char **argv)
{
    standard_files_open();
    use_best_kernels(argv);
    return standard_output_end(bench_name(), bench_main(argc, argv), 1);
}
