/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of 8 bytes between two ranks over shared memory, one direction after the
 * other. Both ranks are contexts of this process, and one thread progresses them in turn:
 * so under `valgrind --tool=callgrind` the count of instructions is the same in each run,
 * which is never the case for spinning processes. Two runs of different lengths give the
 * cost of one message, sender and receiver together (loopback.sh). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>

enum { RANKS = 2, GATHER_BYTES_MAX = 1 << 20 };

struct end {
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    tryst_key *to_other, *from_other;
    uint64_t sent, received;
};

static struct end ends[RANKS];
static pthread_barrier_t barrier;
static char gathered[RANKS * GATHER_BYTES_MAX];

/* Implement the caller's all-gather in this process's memory. */
static int gather(void *arg, const void *mine, void *all, size_t bytes)
{
    size_t rank = (size_t)((struct end *)arg - ends);
    if (bytes > GATHER_BYTES_MAX)
        return 1;
    memcpy(gathered + rank * bytes, mine, bytes);
    pthread_barrier_wait(&barrier);
    memcpy(all, gathered, RANKS * bytes);
    pthread_barrier_wait(&barrier);
    return 0;
}

static tryst_status key_open(tryst_group *group, int src, int dst, tryst_key **key_p)
{
    char name[TRYST_KEY_MAX + 1];
    tryst_status status =
        tryst_key_build(group, src, dst, "ping", 0, 0, name, sizeof name);
    return status == TRYST_OK ? tryst_key_prepare(group, name, key_p) : status;
}

static void *end_open(void *arg)
{
    struct end *end = arg;
    int rank = (int)(end - ends);
    tryst_group_params params = {.struct_size = sizeof params,
                                 .allgather = gather,
                                 .allgather_arg = end,
                                 .rank = rank,
                                 .size = RANKS};
    tryst_status status = tryst_open(NULL, &end->ctx);
    if (status == TRYST_OK)
        status = tryst_group_open(end->ctx, &params, &end->group);
    if (status == TRYST_OK)
        status = tryst_step_open(end->group, 1, &end->step);
    if (status == TRYST_OK)
        status = key_open(end->group, rank, !rank, &end->to_other);
    if (status == TRYST_OK)
        status = key_open(end->group, !rank, rank, &end->from_other);
    if (status != TRYST_OK) {
        fprintf(stderr, "pingpong: rank %d: %s\n", rank, tryst_status_str(status));
        exit(1);
    }
    return NULL;
}

static void end_close(struct end *end)
{
    tryst_key_release(end->to_other);
    tryst_key_release(end->from_other);
    tryst_step_close(end->step, NULL);
}

static void *end_leave(void *arg)
{
    struct end *end = arg;
    tryst_group_close(end->group);
    tryst_close(end->ctx);
    return NULL;
}

static void both(void *(*run)(void *))
{
    pthread_t threads[RANKS];
    for (int i = 0; i < RANKS; i++)
        if (pthread_create(&threads[i], NULL, run, &ends[i]) != 0)
            exit(1);
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
}

/* Send one message; progress both contexts until both operations are complete. */
static tryst_status message(struct end *from, struct end *to)
{
    tryst_op *ops[2] = {NULL, NULL};
    tryst_tensor out = {.struct_size = sizeof out,
                        .data = &from->sent,
                        .count = 8,
                        .dtype = TRYST_DTYPE_U8};
    tryst_tensor in = out;
    in.data = &to->received;
    tryst_status status = tryst_recv_key(to->step, to->from_other, &in, NULL, &ops[0]);
    if (status == TRYST_OK)
        status = tryst_send_key(from->step, from->to_other, &out, NULL, &ops[1]);
    for (int i = 0; i < 2 && status == TRYST_OK; i++)
        while ((status = tryst_op_test(ops[i])) == TRYST_IN_PROGRESS) {
            tryst_progress(from->ctx);
            tryst_progress(to->ctx);
        }
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
    return status;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1000;
    tryst_status status = TRYST_OK;
    setenv("TRYST_TRANSPORT", "shm", 1);
    pthread_barrier_init(&barrier, NULL, RANKS);
    both(end_open);
    for (long i = 0; i < count && status == TRYST_OK; i++) {
        struct end *from = &ends[i % 2], *to = &ends[(i + 1) % 2];
        from->sent = (uint64_t)i;
        status = message(from, to);
        if (status == TRYST_OK && to->received != (uint64_t)i)
            status = TRYST_E_MISMATCH;
    }
    for (int i = 0; i < RANKS; i++)
        end_close(&ends[i]);
    both(end_leave);
    if (status != TRYST_OK)
        fprintf(stderr, "pingpong: %s\n", tryst_status_str(status));
    return status != TRYST_OK;
}
