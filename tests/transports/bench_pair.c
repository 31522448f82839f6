/* SPDX-License-Identifier: Apache-2.0 */
/* Measure shm and self by themselves: two processes (shm) or two threads (self), one on
 * each of the first two cores.
 *
 *   bench_pair latency   <shm|self> <count>                 8-byte frames, there and back
 *   bench_pair rate      <shm|self> <count>                 8-byte frames, one way
 *   bench_pair bandwidth <shm|self> <count> <mech> <bytes>  bulk, 4 posted; as shm_mech
 *   bench_pair smoke                                        a little of each, as a test
 *
 * On a machine with other load the median means little; use the best of many short
 * runs. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pair_pump.h"
#include "transports/memory/memory.h"

enum { POSTED = 4, RUNS = 40 };

static struct {
    const struct transport_ops *ops;
    uint64_t count, mech;
    size_t bytes;
} job;

static uint64_t patience = 1024; /* idle turns of progress before the link is polled */
static bool pinned = true;
static double run_ns[RUNS]; /* of each run, per operation */
static double whole_ns;     /* per operation, over all runs, until the last arrival */

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

static void frame_put(struct node *node)
{
    static const uint64_t frame;
    while (transport_frame_send(node->ops, node->ep, &frame, sizeof frame) == TRYST_AGAIN)
        node->ops->progress(node->rail);
}

static void frames_until(struct node *node, uint64_t frames)
{
    for (uint64_t turn = 1; node->frames < frames; turn++) {
        node->ops->progress(node->rail);
        if (turn % 1024 == 0)
            node_pump(node); /* connect messages */
    }
}

static void latency(struct node *node, bool first)
{
    uint64_t each = job.count / RUNS, seen = node->frames;
    for (unsigned run = 0; run < RUNS; run++) {
        uint64_t before = now_ns();
        for (uint64_t i = 0; i < each; i++) {
            if (first)
                frame_put(node);
            frames_until(node, ++seen);
            if (!first)
                frame_put(node);
        }
        if (first)
            run_ns[run] = (double)(now_ns() - before) / (double)each / 2;
    }
}

static void rate(struct node *node, bool first)
{
    uint64_t each = job.count / RUNS;
    if (!first) {
        frames_until(node, node->frames + RUNS * each);
        return;
    }
    for (unsigned run = 0; run < RUNS; run++) {
        uint64_t before = now_ns();
        for (uint64_t i = 0; i < each; i++)
            frame_put(node);
        run_ns[run] = (double)(now_ns() - before) / (double)each;
    }
}

/* Each frame of the receiver grants one more message. */
static void bandwidth_send(struct node *node)
{
    struct memory_cache *cache;
    struct tryst_mem *mem = NULL;
    struct test_bulk sends[POSTED] = {0};
    uint64_t each = job.count / RUNS, sent = 0, granted_before = node->frames;
    CHECK(memory_cache_open(NULL, NULL, &cache) == TRYST_OK);
    void *plain = aligned_alloc(4096, (job.bytes + 4095) / 4096 * 4096);
    CHECK(memory_alloc(cache, job.bytes, TRYST_MEMORY_HOST, 0, &mem) == TRYST_OK);
    void *data = job.mech == 0 ? mem->data : plain;
    memset(data, 1, job.bytes);
    frames_until(node, granted_before + 1);
    uint64_t begun = now_ns();
    for (unsigned run = 0; run < RUNS; run++) {
        uint64_t before = now_ns();
        for (uint64_t i = 0; i < each; i++, sent++) {
            struct test_bulk *send = &sends[sent % POSTED];
            frames_until(node, granted_before + sent + 1);
            while (sent >= POSTED && !send->done)
                node_pump(node);
            test_bulk_init(send, sent, data, job.bytes, job.mech == 0 ? mem : NULL);
            while (node->ops->bulk_send(node->ep, &send->bulk) == TRYST_AGAIN)
                node->ops->progress(node->rail);
        }
        run_ns[run] = (double)(now_ns() - before) / (double)each;
    }
    for (unsigned i = 0; i < POSTED; i++)
        while (i < sent && !sends[i].done)
            node_pump(node);
    whole_ns = (double)(now_ns() - begun) / (double)sent;
    memory_release(mem);
    memory_cache_close(cache);
    free(plain);
}

static void bandwidth_receive(struct node *node)
{
    uint64_t total = job.count / RUNS * RUNS;
    struct test_bulk recvs[POSTED];
    uint8_t *data = aligned_alloc(4096, (job.bytes + 4095) / 4096 * 4096);
    memset(data, 0, job.bytes);
    for (uint64_t posted = 0; posted < total + POSTED; posted++) {
        struct test_bulk *recv = &recvs[posted % POSTED];
        for (uint64_t turn = 1; posted >= POSTED && !recv->done; turn++) {
            node->ops->progress(node->rail);
            if (turn % 64 == 0)
                node_pump(node);
        }
        if (posted >= total)
            continue;
        CHECK(posted < POSTED || recv->status == TRYST_OK);
        test_bulk_init(recv, posted, data, job.bytes,
                       NULL); /* one buffer, as in ucx_perftest */
        CHECK(node->ops->bulk_recv(node->ep, &recv->bulk) == TRYST_OK);
        frame_put(node);
    }
    free(data);
}

static void bandwidth(struct node *node, bool first)
{
    if (first)
        bandwidth_send(node);
    else
        bandwidth_receive(node);
}

static void (*work)(struct node *node, bool first);

static void end_run(struct node *node, bool first)
{
    if (pinned)
        pin(first ? 0 : 1);
    CHECK(node_open(node) && nodes_until(node, NULL, &node->ready, 10000));
    CHECK(node->ready_status == TRYST_OK);
    if (first)
        printf("%s; ", node->text);
    work(node, first);
    if (!first)
        while (!node->link_is_closed)
            node_pump(node);
    node_close(node);
}

static void child_run(struct node *node)
{
    end_run(node, false);
}

static void *thread_run(void *arg)
{
    end_run(arg, false);
    return NULL;
}

static void measure(const char *what)
{
    struct node a = {.mech = job.mech}, b = {.mech = job.mech};
    work = strcmp(what, "latency") == 0 ? latency
           : strcmp(what, "rate") == 0  ? rate
                                        : bandwidth;
    printf("%s: ", what);
    if (job.ops == &transport_shm) {
        pid_t child = nodes_fork(&a, &b, job.ops, child_run);
        end_run(&a, true);
        CHECK(child_wait(child) == 0);
    } else {
        pthread_t thread;
        nodes_link(&a, &b, job.ops);
        CHECK(pthread_create(&thread, NULL, thread_run, &b) == 0);
        end_run(&a, true);
        pthread_join(thread, NULL);
    }
    qsort(run_ns, RUNS, sizeof run_ns[0], by_value);
    printf("best %.1f ns, median %.1f ns", run_ns[0], run_ns[RUNS / 2]);
    if (work == bandwidth)
        printf(", %zu bytes: median %.2f, whole %.2f GB/s", job.bytes,
               (double)job.bytes / run_ns[RUNS / 2], (double)job.bytes / whole_ns);
    printf("\n");
}

static void smoke(void)
{
    patience = 8;
    pinned = false;
    for (unsigned i = 0; i < 2; i++) {
        job.ops = i ? &transport_self : &transport_shm;
        job.count = 2 * RUNS;
        measure("latency");
        measure("rate");
        job.bytes = 100000;
        for (job.mech = 0; job.mech < 5; job.mech++)
            measure("bandwidth");
        job.mech = 0;
    }
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "smoke") == 0) {
        smoke();
        return 0;
    }
    if (argc < 4) {
        fprintf(stderr,
                "usage: bench_pair latency|rate|bandwidth shm|self count [mech bytes]\n");
        return 2;
    }
    job.ops = strcmp(argv[2], "self") == 0 ? &transport_self : &transport_shm;
    job.count = strtoull(argv[3], NULL, 0);
    job.mech = argc > 4 ? strtoull(argv[4], NULL, 0) : 0;
    job.bytes = argc > 5 ? strtoull(argv[5], NULL, 0) : 1 << 20;
    measure(argv[1]);
    return 0;
}
