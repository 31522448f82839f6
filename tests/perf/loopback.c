/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of 8 bytes from a rank to itself, by prepared key: under `valgrind
 * --tool=callgrind` they give the engine's cost in instructions, which other load on the
 * machine cannot change. Two runs of different lengths give the cost of one message
 * (loopback.sh). */
#include <stdio.h>
#include <stdlib.h>
#include <tryst/tryst.h>

static tryst_status message(tryst_step *step, const tryst_key *key,
                            const tryst_tensor *from, const tryst_tensor *to)
{
    tryst_op *ops[2] = {NULL, NULL};
    tryst_status status = tryst_send_key(step, key, from, NULL, &ops[0]);
    if (status == TRYST_OK)
        status = tryst_recv_key(step, key, to, NULL, &ops[1]);
    if (status == TRYST_OK)
        status = tryst_wait_all(ops, 2, TRYST_FOREVER);
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
    return status;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1000;
    uint64_t out = 1, in = 0;
    char name[TRYST_KEY_MAX + 1];
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    tryst_key *key;
    tryst_tensor from = {
        .struct_size = sizeof from, .data = &out, .count = 8, .dtype = TRYST_DTYPE_U8};
    tryst_tensor to = from;
    to.data = &in;
    if (tryst_open(NULL, &ctx) || tryst_group_open(ctx, NULL, &group) ||
        tryst_step_open(group, 1, &step) ||
        tryst_key_build(group, 0, 0, "loop", 0, 0, name, sizeof name) ||
        tryst_key_prepare(group, name, &key))
        return 1;
    tryst_status status = TRYST_OK;
    for (long i = 0; i < count && status == TRYST_OK; i++, out++)
        status = message(step, key, &from, &to);
    tryst_key_release(key);
    tryst_step_close(step, NULL);
    tryst_group_close(group);
    tryst_close(ctx);
    return status != TRYST_OK || in + 1 != out;
}
