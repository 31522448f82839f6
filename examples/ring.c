/* SPDX-License-Identifier: Apache-2.0 */
/* A ring: each rank sends four numbers to the next rank, receives four from the one
 * before, and in the next step sends what it received. After as many steps as there are
 * ranks, each rank has its own numbers again.
 *
 * Run:     tryst-run -n 4 ./ring
 * Prints:  ring: 4 ranks, each has its own numbers after 4 steps */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>

enum { COUNT = 4 };

/* End the program unless `status` is TRYST_OK. The other ranks' operations with this rank
 * then fail, too, and name it as the origin, so none of them hangs. */
static void must(tryst_status status)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "ring: %s\n", tryst_last_error());
    exit(1);
}

/* Send `out` under the key `next`, and receive `in` under the key `previous`. */
static void exchange(tryst_group *group, uint64_t id, const tryst_key *next, float *out,
                     const tryst_key *previous, float *in)
{
    tryst_tensor send = {.struct_size = sizeof send,
                         .data = out,
                         .count = COUNT,
                         .dtype = TRYST_DTYPE_F32};
    tryst_tensor recv = send;
    recv.data = in;
    /* A step is a scope for keys: its id is equal on all ranks, and increases. */
    tryst_step *step;
    tryst_op *ops[2];
    must(tryst_step_open(group, id, &step));
    /* Neither call waits, and the order of the two has no effect. */
    must(tryst_send_key(step, next, &send, NULL, &ops[0]));
    must(tryst_recv_key(step, previous, &recv, NULL, &ops[1]));
    /* Until its operation is complete, the memory is the library's. */
    must(tryst_wait_all(ops, 2, TRYST_FOREVER));
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
    must(tryst_step_close(step, NULL));
}

int main(void)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_key *next, *previous;
    must(tryst_open(NULL, &ctx));              /* settings: from the environment */
    must(tryst_group_open(ctx, NULL, &group)); /* waits until all ranks have come */
    int me = tryst_group_rank(group), size = tryst_group_size(group);
    /* A key names its producer, its consumer and the tensor; both ends make the same. */
    must(tryst_key_make(group, me, (me + 1) % size, "ring", 0, &next));
    must(tryst_key_make(group, (me + size - 1) % size, me, "ring", 0, &previous));

    float own[COUNT], out[COUNT], in[COUNT];
    for (int i = 0; i < COUNT; i++)
        own[i] = (float)(me * COUNT + i);
    memcpy(in, own, sizeof in);
    for (int round = 1; round <= size; round++) {
        memcpy(out, in, sizeof out);
        exchange(group, (uint64_t)round, next, out, previous, in);
    }
    int differs = 0;
    for (int i = 0; i < COUNT; i++)
        differs |= in[i] != own[i];
    if (differs)
        fprintf(stderr, "ring: rank %d does not have its own numbers again\n", me);
    else if (me == 0)
        printf("ring: %d ranks, each has its own numbers after %d steps\n", size, size);
    tryst_key_release(next);
    tryst_key_release(previous);
    tryst_group_close(group);
    tryst_close(ctx);
    return differs;
}
