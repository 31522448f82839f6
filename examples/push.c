/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter servers: ranks 0 and 1 hold the weights, in blocks; all other ranks are
 * workers. A worker pushes a gradient for each block, under a key of its own, and pulls
 * the block's newest weights. A server adds what arrives in the order of arrival and
 * answers at once, so no worker waits for another one.
 *
 * Worker w pushes the number 256^w, R times to each block: byte w of a weight is the
 * number of w's pushes that it contains. A worker checks in each pull that all of its own
 * pushes are there, in every number of the block; a server checks the sums at the end.
 *
 * Run:     tryst-run -n 5 ./push
 * Prints:  push: 2 servers, 3 workers, 60 pushes, every pull and all weights are right */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>

enum { SERVERS = 2, WORKERS_MAX = 8, BLOCKS = 4, ROUNDS = 5, COUNT = 5000 };

static void must(tryst_status status)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "push: %s\n", tryst_last_error());
    exit(1);
}

/* Start a send (by rank `from`) or a receive (by rank `to`) of one block: "push 3" or
 * "pull 3", with the round as the key's index. */
static tryst_op *start(tryst_step *step, tryst_group *group, int from, int to,
                       const char *verb, int b, int round, uint64_t *data)
{
    char name[32];
    tryst_key *key;
    tryst_op *op;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = data,
                           .count = COUNT,
                           .dtype = TRYST_DTYPE_U64};
    snprintf(name, sizeof name, "%s %d", verb, b);
    must(tryst_key_make(group, from, to, name, (uint64_t)round, &key));
    if (from == tryst_group_rank(group))
        must(tryst_send_key(step, key, &tensor, NULL, &op));
    else
        must(tryst_recv_key(step, key, &tensor, NULL, &op));
    tryst_key_release(key); /* the operation keeps what it needs */
    return op;
}

/* A server's view of one worker and one block. */
struct link {
    int worker, block, round;
    tryst_op *answer; /* the last one, or NULL */
    uint64_t pushed[COUNT], pulled[COUNT];
};

static uint64_t weights[BLOCKS][COUNT];

/* Add the push that has arrived, answer with the newest weights, and return the receive
 * of the next push; NULL after the last round. */
static tryst_op *serve(tryst_step *step, tryst_group *group, struct link *link)
{
    int me = tryst_group_rank(group);
    if (link->answer)
        must(tryst_wait(link->answer, TRYST_FOREVER)); /* `pulled` is free again */
    tryst_op_release(link->answer);
    for (int i = 0; i < COUNT; i++)
        weights[link->block][i] += link->pushed[i];
    memcpy(link->pulled, weights[link->block], sizeof link->pulled);
    link->answer = start(step, group, me, link->worker, "pull", link->block, link->round,
                         link->pulled);
    if (++link->round == ROUNDS)
        return NULL;
    return start(step, group, link->worker, me, "push", link->block, link->round,
                 link->pushed);
}

/* Serve all workers; return the number of wrong weights. */
static int64_t server_run(tryst_step *step, tryst_group *group, int workers)
{
    static struct link links[WORKERS_MAX * BLOCKS];
    tryst_op *ops[WORKERS_MAX * BLOCKS];
    int me = tryst_group_rank(group);
    size_t count = 0, i;
    for (int b = me; b < BLOCKS; b += SERVERS) {
        for (int w = 0; w < workers; w++, count++) {
            links[count] = (struct link){.worker = SERVERS + w, .block = b};
            ops[count] =
                start(step, group, SERVERS + w, me, "push", b, 0, links[count].pushed);
        }
    }
    /* Whatever has arrived first is next; without any operation left `i` is `count`. */
    for (;;) {
        must(tryst_wait_any(ops, count, TRYST_FOREVER, &i));
        if (i == count)
            break;
        tryst_op_release(ops[i]);
        ops[i] = serve(step, group, &links[i]);
    }
    int64_t wrong = 0;
    uint64_t expected = 0;
    for (int w = 0; w < workers; w++)
        expected += (uint64_t)ROUNDS << 8 * w;
    for (int b = me; b < BLOCKS; b += SERVERS)
        for (int n = 0; n < COUNT; n++)
            wrong += weights[b][n] != expected;
    for (i = 0; i < count; i++) {
        must(tryst_wait(links[i].answer, TRYST_FOREVER));
        tryst_op_release(links[i].answer);
    }
    return wrong;
}

/* Push and pull all blocks in each round; return the count of wrong numbers. */
static int64_t worker_run(tryst_step *step, tryst_group *group)
{
    static uint64_t gradient[COUNT], pulled[BLOCKS][COUNT];
    int me = tryst_group_rank(group), w = me - SERVERS;
    int64_t wrong = 0;
    for (int i = 0; i < COUNT; i++)
        gradient[i] = (uint64_t)1 << 8 * w;
    for (int round = 0; round < ROUNDS; round++) {
        tryst_op *ops[2 * BLOCKS];
        for (int b = 0; b < BLOCKS; b++) { /* the pull may be posted before the push */
            ops[2 * b] = start(step, group, b % SERVERS, me, "pull", b, round, pulled[b]);
            ops[2 * b + 1] =
                start(step, group, me, b % SERVERS, "push", b, round, gradient);
        }
        must(tryst_wait_all(ops, 2 * BLOCKS, TRYST_FOREVER));
        for (int b = 0; b < BLOCKS; b++) {
            for (int i = 0; i < COUNT; i++)
                wrong += (pulled[b][i] >> 8 * w & 255) != (uint64_t)round + 1;
            tryst_op_release(ops[2 * b]);
            tryst_op_release(ops[2 * b + 1]);
        }
    }
    return wrong;
}

int main(void)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    tryst_op *op;
    must(tryst_open(NULL, &ctx));
    must(tryst_group_open(ctx, NULL, &group));
    int me = tryst_group_rank(group), workers = tryst_group_size(group) - SERVERS;
    if (workers < 1 || workers > WORKERS_MAX)
        must(tryst_last_error_set(TRYST_E_INVALID, "needs %d to %d ranks", SERVERS + 1,
                                  SERVERS + WORKERS_MAX));
    must(tryst_step_open(group, 1, &step)); /* one scope for all rounds */
    int64_t wrong =
        me < SERVERS ? server_run(step, group, workers) : worker_run(step, group);
    /* The sum over all ranks; until it is there, no rank leaves. */
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = &wrong,
                           .count = 1,
                           .dtype = TRYST_DTYPE_I64};
    must(tryst_allreduce(step, "wrong", NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op));
    must(tryst_wait(op, TRYST_FOREVER));
    tryst_op_release(op);
    if (me == 0 && wrong)
        fprintf(stderr, "push: %lld numbers are wrong\n", (long long)wrong);
    else if (me == 0)
        printf("push: %d servers, %d workers, %d pushes, every pull and all weights are "
               "right\n",
               SERVERS, workers, workers * BLOCKS * ROUNDS);
    must(tryst_step_close(step, NULL));
    tryst_group_close(group);
    tryst_close(ctx);
    return wrong != 0;
}
