/* SPDX-License-Identifier: Apache-2.0 */
/* The raw fabric, for comparison with tryst-perf over ofi: fi_tsend and fi_trecv between
 * two processes, busy polling.
 *
 *   raw_fi PROVIDER pingpong|bandwidth BYTES ITERATIONS WINDOW CPU CPU
 *
 * Prints seconds one way (the median), or bytes per second. Exit 77: libfabric has no
 * such provider here. Every receive is posted before its send may start, because `net`
 * closes the connection on messages without a receive: the sender of a stream is at most
 * two windows ahead of the receiver's acknowledgement. */
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DATA = 1, ACK = 2, SLOTS = 4096 };
static struct fid_ep *ep;
static struct fid_cq *cq;
static fi_addr_t peer;
static int first, other_fd;                 /* a socket to the other process */
static unsigned long sent, received, acked; /* number of completions */
static struct slot {
    struct fi_context2 room; /* space that the provider may write to (FI_CONTEXT) */
    unsigned long *counter;  /* incremented by the completion */
} slots[SLOTS];

static void must(const char *what, long status)
{
    if (status >= 0)
        return;
    fprintf(stderr, "raw_fi: %s: %s\n", what, fi_strerror((int)-status));
    exit(1);
}

static void until(const unsigned long *counter, unsigned long count)
{
    struct fi_cq_tagged_entry entries[16];
    do {
        ssize_t got = fi_cq_read(cq, entries, 16);
        must("fi_cq_read", got == -FI_EAGAIN ? 0 : got);
        for (ssize_t i = 0; i < got; i++)
            ++*((struct slot *)entries[i].op_context)->counter;
    } while (*counter < count);
}

static void post(int tag, void *data, size_t bytes, unsigned long *counter)
{
    static size_t next;
    struct slot *slot = &slots[next++ % SLOTS];
    ssize_t status;
    slot->counter = counter;
    while ((status = counter == &sent ? fi_tsend(ep, data, bytes, NULL, peer, tag, slot)
                                      : fi_trecv(ep, data, bytes, NULL, peer, tag, 0,
                                                 slot)) == -FI_EAGAIN)
        until(counter, 0);
    must("fi_tsend or fi_trecv", status);
}

/* Exchange `bytes` with the other process; both return once both have sent. */
static void swap(void *data, size_t bytes)
{
    if (write(other_fd, data, bytes) != (ssize_t)bytes ||
        recv(other_fd, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
        must("the other process has ended", -FI_ECONNABORTED);
}

static void fabric_open(char *provider)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fi_av_attr av_attr = {0};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    char address[512] = {0}, *node = strcmp(provider, "shm") ? "127.0.0.1" : NULL;
    size_t bytes = sizeof address;
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = provider;
    if (fi_getinfo(FI_VERSION(1, 15), node, NULL, node ? FI_SOURCE : 0, hints, &info))
        exit(77);
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
    must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    must("fi_enable", fi_enable(ep));
    must("fi_getname", fi_getname(&ep->fid, address, &bytes));
    swap(address, sizeof address);
    must("fi_av_insert", fi_av_insert(av, address, 1, &peer, 0, NULL) - 1);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double pingpong(char *data, size_t bytes, unsigned long count)
{
    unsigned long warmup = count / 10 + 1;
    double *took = calloc(warmup + count, sizeof *took);
    post(DATA, data, bytes, &received);
    swap(&(char){0}, 1);
    for (unsigned long i = 0; i < warmup + count; i++) {
        double begin = now_s();
        if (first)
            post(DATA, data + bytes, bytes, &sent);
        until(&received, i + 1);
        post(DATA, data, bytes, &received);
        if (!first)
            post(DATA, data + bytes, bytes, &sent);
        until(&sent, i + 1);
        took[i] = (now_s() - begin) / 2;
    }
    qsort(took + warmup, count, sizeof *took, by_size);
    return took[warmup + count / 2];
}

/* Send `windows` of them one way, until the last is acknowledged. Numbers continue from
 * `from`. */
static void stream(char *data, size_t bytes, unsigned long window, unsigned long from,
                   unsigned long windows)
{
    for (unsigned long w = from; w < from + windows; w++) {
        if (first && w > from + 1)
            until(&acked, w - 1);
        for (unsigned long i = w * window; i < (w + 1) * window; i++) {
            until(first ? &sent : &received,
                  first ? (i < window ? 0 : i - window) : i + 1);
            post(DATA, data, bytes, first ? &sent : &received);
        }
        post(ACK, data + bytes, 1, first ? &acked : &sent);
    }
    until(first ? &acked : &sent, from + windows);
}

static double bandwidth(char *data, size_t bytes, unsigned long count,
                        unsigned long window)
{
    unsigned long windows = 1 + count / window;
    for (unsigned long i = 0; i < (first ? 4 : 2 * window); i++)
        post(first ? ACK : DATA, first ? data + bytes : data, first ? 1 : bytes,
             first ? &acked : &received);
    swap(&(char){0}, 1);
    stream(data, bytes, window, 0, 1); /* connect, and warm up */
    double begin = now_s();
    stream(data, bytes, window, 1, windows);
    return (double)(windows * window * bytes) / (now_s() - begin);
}

int main(int argc, char **argv)
{
    int sockets[2];
    cpu_set_t cpu;
    if (argc != 8 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
        return 2;
    size_t bytes = strtoul(argv[3], NULL, 10);
    unsigned long count = strtoul(argv[4], NULL, 10), window = strtoul(argv[5], NULL, 10);
    char *data = calloc(2, bytes + 1);
    if (!data || bytes == 0 || count == 0 || window == 0 || window > SLOTS / 4)
        return 2;
    first = fork() != 0;
    CPU_ZERO(&cpu);
    CPU_SET(atoi(argv[7 - first]), &cpu);
    (void)sched_setaffinity(0, sizeof cpu, &cpu);
    other_fd = sockets[first];
    close(sockets[!first]);
    fabric_open(argv[1]);
    memset(data, 1, 2 * bytes);
    double figure = strcmp(argv[2], "pingpong") == 0
                        ? pingpong(data, bytes, count)
                        : bandwidth(data, bytes, count, window);
    swap(&(char){0}, 1);
    must("fi_close", fi_close(&ep->fid)); /* otherwise shm leaves its file in /dev/shm */
    if (first)
        printf("%g\n", figure);
    return 0;
}
