/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that exchanges one tensor with each other rank, and prints the outcome of the
 * receives: lines "rank 0: TRYST_OK" or "rank 0: TRYST_E_UNREACHABLE text", then "first S
 * processor S": the seconds of the exchange, and of the processor until its end.
 * lab_reach.sh runs it on hosts that a firewall keeps apart, lab_hosts.sh on hosts with
 * the interfaces of real machines, lab_mtu.sh on hosts between which large packets are
 * lost.
 * With REACH_CLONE set the process seems to run in the first network namespace of its
 * machine, which has the same number on every machine.
 * usage: reach [<bytes> [<deadline in seconds>]] */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <tryst/tryst.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20, RANKS_MAX = 8 };

static uint64_t tensor_bytes = 4096;
static tryst_op_params op_params = {.struct_size = sizeof op_params};

/* Replaces the C library's stat for this program and for libtryst. */
__attribute__((visibility("default"))) int stat(const char *path, struct stat *info)
{
    static const ino_t first_namespace = 4026531840;
    int failed = (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, 0);
    if (!failed && getenv("REACH_CLONE") && strcmp(path, "/proc/self/ns/net") == 0)
        info->st_ino = first_namespace;
    return failed;
}

static tryst_op *post(tryst_group *group, tryst_step *step, int src, int dst, char *data)
{
    const tryst_tensor tensor = {.struct_size = sizeof tensor,
                                 .data = data,
                                 .count = tensor_bytes,
                                 .dtype = TRYST_DTYPE_U8};
    char key[TRYST_KEY_MAX + 1];
    tryst_op *op = NULL;
    tryst_status status = tryst_key_build(group, src, dst, "t", 0, 0, key, sizeof key);
    if (status == TRYST_OK)
        status = src == tryst_group_rank(group)
                     ? tryst_send(step, key, &tensor, &op_params, &op)
                     : tryst_recv(step, key, &tensor, &op_params, &op);
    if (status != TRYST_OK)
        fprintf(stderr, "cannot post: %s\n", tryst_status_name(status));
    return op;
}

static void outcome_print(int peer, tryst_op *op)
{
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    if (tryst_wait(op, UINT64_C(60000000000)) == TRYST_E_TIMEOUT)
        printf("rank %d: no outcome after 60 s\n", peer);
    else if (tryst_op_error(op, &error) == TRYST_OK)
        printf("rank %d: TRYST_OK\n", peer);
    else
        printf("rank %d: %s %s\n", peer, tryst_status_name(error.status), error.text);
}

static void exchange(tryst_group *group, tryst_step *step)
{
    static char in[RANKS_MAX][BYTES_MAX], out[BYTES_MAX];
    tryst_op *sends[RANKS_MAX] = {NULL}, *receives[RANKS_MAX] = {NULL};
    int me = tryst_group_rank(group), size = tryst_group_size(group);
    for (int peer = 0; peer < size && peer < RANKS_MAX; peer++) {
        if (peer == me)
            continue;
        sends[peer] = post(group, step, me, peer, out);
        receives[peer] = post(group, step, peer, me, in[peer]);
    }
    for (int peer = 0; peer < size && peer < RANKS_MAX; peer++) {
        if (receives[peer])
            outcome_print(peer, receives[peer]);
        if (sends[peer])
            (void)tryst_wait(sends[peer], UINT64_C(5000000000) + op_params.deadline_ns);
        tryst_op_release(receives[peer]);
        tryst_op_release(sends[peer]);
    }
}

static double monotonic_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double processor_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    if (argc > 1)
        tensor_bytes = strtoull(argv[1], NULL, 0);
    if (tensor_bytes > BYTES_MAX)
        return 2;
    if (argc > 2)
        op_params.deadline_ns = strtoull(argv[2], NULL, 0) * UINT64_C(1000000000);
    if (tryst_open(NULL, &ctx) != TRYST_OK)
        return 1;
    if (tryst_group_open(ctx, NULL, &group) != TRYST_OK ||
        tryst_step_open(group, 1, &step) != TRYST_OK) {
        tryst_close(ctx);
        return 1;
    }
    double begin_s = monotonic_s();
    exchange(group, step);
    printf("first %.3f processor %.3f\n", monotonic_s() - begin_s, processor_s());
    tryst_step_close(step, NULL);
    tryst_group_close(group);
    tryst_close(ctx);
    return 0;
}
