/* SPDX-License-Identifier: Apache-2.0 */
/* shm between two processes: every mechanism both ways, verification and the fallback
 * where it is impossible (seccomp, no pidfd, wrong pid), peers that are killed, stopped
 * or replaced, shortage of memory, and the cost of an idle peer. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memory/alloc.h"
#include "pair_pump.h"
#include "support/descriptors.h"
#include "support/patience.h"
#include "transports/memory/memory.h"
#include "transports/pair/pair.h"
#include "transports/shm/shm.h"

#define MIB ((size_t)1 << 20)

/* --- helpers --- */

/* Let system call `number` fail with `error` from here on, in this thread's process. */
static void deny(long number, unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void open_ready(struct node *node)
{
    CHECK(node_open(node));
    CHECK(nodes_until(node, NULL, &node->ready, 10000));
}

/* Post a receive of `bytes` under `tag`, announce it to the peer, and wait for it. */
static void recv_one(struct node *node, uint64_t tag, size_t bytes)
{
    struct test_bulk recv;
    uint8_t *data = malloc(bytes);
    test_bulk_init(&recv, tag, data, bytes, NULL);
    CHECK(node->ops->bulk_recv(node->ep, &recv.bulk) == TRYST_OK);
    CHECK(transport_frame_send(node->ops, node->ep, &tag, sizeof tag) == TRYST_OK);
    CHECK(nodes_until(node, NULL, &recv.done, 20000));
    CHECK(recv.status == TRYST_OK && recv.bytes == bytes);
    CHECK(pattern_is(data, bytes, tag));
    free(data);
}

/* Wait for the peer's next frame and then send `bytes` under `tag`. */
static void send_one(struct node *node, uint64_t tag, void *data, size_t bytes,
                     struct tryst_mem *mem)
{
    struct test_bulk send;
    bool come = false;
    for (uint64_t end = now_ns() + patience_ns(UINT64_C(20000000000));
         !come && now_ns() < end;) {
        node_pump(node);
        come = node->frames > 0;
    }
    CHECK(come);
    node->frames--;
    pattern_fill(data, bytes, tag);
    test_bulk_init(&send, tag, data, bytes, mem);
    CHECK(node->ops->bulk_send(node->ep, &send.bulk) == TRYST_OK);
    CHECK(nodes_until(node, NULL, &send.done, 20000));
    CHECK(send.status == TRYST_OK);
}

static void linger(struct node *node)
{
    for (uint64_t end = now_ns() + patience_ns(UINT64_C(10000000000));
         !node->link_is_closed && now_ns() < end;)
        node_pump(node);
}

/* --- both ways, by every mechanism --- */

static void exchange(struct node *node, bool sends_first)
{
    struct memory_cache *cache;
    struct tryst_mem *mem;
    CHECK(memory_cache_open(NULL, NULL, &cache) == TRYST_OK);
    CHECK(memory_alloc(cache, 5 * MIB, TRYST_MEMORY_HOST, 0, &mem) == TRYST_OK);
    for (unsigned round = 0; round < 4; round++) {
        size_t bytes = round == 0 ? 100 : round * MIB + 13;
        if ((round % 2 == 0) == sends_first)
            send_one(node, round, (uint8_t *)mem->data + round, bytes, mem);
        else
            recv_one(node, round, bytes);
    }
    memory_release(mem);
    CHECK(memory_cache_close(cache) == 0);
}

static void child_exchange(struct node *node)
{
    open_ready(node);
    exchange(node, false);
    linger(node);
    node_close(node);
}

static void mech_both_ways(uint64_t mech, const char *text)
{
    struct node a = {.mech = mech}, b = {.mech = mech};
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_exchange);
    open_ready(&a);
    assert_int_equal(a.ready_status, TRYST_OK);
    assert_string_equal(a.text, text);
    exchange(&a, true);
    node_close(&a);
    assert_int_equal(child_wait(child), 0);
}

static void test_map(void **state)
{
    mech_both_ways(0, "map+cma: process_vm_readv verified");
}

static void test_cma(void **state)
{
    mech_both_ways(2, "cma: process_vm_readv verified");
}

static void test_stage(void **state)
{
    mech_both_ways(3, "stage: as TRYST_SHM_MECH requires");
}

static void test_ring(void **state)
{
    mech_both_ways(4, "ring: as TRYST_SHM_MECH requires");
}

/* --- where process_vm_readv is denied --- */

static void child_denied_eperm(struct node *node)
{
    deny(SYS_process_vm_readv, EPERM);
    child_exchange(node);
}

static void child_denied_enosys(struct node *node)
{
    deny(SYS_process_vm_readv, ENOSYS);
    child_exchange(node);
}

/* Each direction falls back by itself: the parent may read the child's memory, the child
 * may not read the parent's. */
static void denied(void (*fn)(struct node *), const char *reason)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    char expected[TRANSPORT_TEXT_MAX];
    pid_t child = nodes_fork(&a, &b, &transport_shm, fn);
    open_ready(&a);
    snprintf(expected, sizeof expected,
             "in cma: process_vm_readv verified; out stage: process_vm_readv: %s",
             reason);
    assert_string_equal(a.text, expected);
    exchange(&a, true);
    node_close(&a);
    assert_int_equal(child_wait(child), 0);
}

static void test_denied_by_seccomp(void **state)
{
    denied(child_denied_eperm, "Operation not permitted");
    denied(child_denied_enosys, "Function not implemented");
}

static void child_denied_later(struct node *node)
{
    open_ready(node);
    deny(SYS_process_vm_readv, EPERM);
    exchange(node, false);
    linger(node);
    node_close(node);
}

/* Verified first, denied afterwards: the sender gets the answer DENIED and uses the
 * ring. */
static void test_denied_later(void **state)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_denied_later);
    open_ready(&a);
    assert_string_equal(a.text, "cma: process_vm_readv verified");
    exchange(&a, true);
    assert_false(a.failed);
    node_close(&a);
    assert_int_equal(child_wait(child), 0);
}

static void child_no_memfd_map(struct node *node)
{
    node->drop_fds = false;
    open_ready(node);
    node->drop_fds = true; /* regions arrive without their descriptors */
    exchange(node, false);
    linger(node);
    node_close(node);
}

static void test_region_without_descriptor(void **state)
{
    struct node a = {0}, b = {0};
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_no_memfd_map);
    open_ready(&a);
    exchange(&a, true);
    node_close(&a);
    assert_int_equal(child_wait(child), 0);
}

static void child_no_pidfd(struct node *node)
{
    close(node->params.peer_pidfd);
    node->params.peer_pidfd = -1;
    child_exchange(node);
}

static void test_no_pidfd(void **state)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_no_pidfd);
    close(a.params.peer_pidfd);
    a.params.peer_pidfd = -1;
    open_ready(&a);
    assert_string_equal(a.text, "stage: no pidfd of the peer (another pid namespace?)");
    exchange(&a, true);
    node_close(&a);
    assert_int_equal(child_wait(child), 0);
}

/* The announced pid is another process: its memory does not hold the nonce. */
static void test_wrong_pid(void **state)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_exchange);
    a.params.peer_pid = getpid();
    open_ready(&a);
    assert_non_null(strstr(a.text, "in stage: process_vm_readv: "));
    assert_non_null(strstr(a.text, "out cma: process_vm_readv verified"));
    exchange(&a, true);
    node_close(&a);
    assert_int_equal(child_wait(child), 0);
}

/* --- peers that end --- */

static void child_offers_and_waits(struct node *node)
{
    size_t bytes = 64 * MIB;
    void *data = malloc(bytes);
    struct test_bulk send;
    pattern_fill(data, MIB, 1);
    open_ready(node);
    while (node->frames == 0)
        node_pump(node);
    test_bulk_init(&send, 1, data, bytes, NULL);
    CHECK(node->ops->bulk_send(node->ep, &send.bulk) == TRYST_OK);
    for (;;)
        node_pump(node);
}

/* The sender is killed while its memory is being read piece by piece. */
static void test_sender_killed(void **state)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    struct test_bulk recv;
    size_t bytes = 64 * MIB;
    void *data = malloc(bytes);
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_offers_and_waits);
    open_ready(&a);
    test_bulk_init(&recv, 1, data, bytes, NULL);
    assert_int_equal(a.ops->bulk_recv(a.ep, &recv.bulk), TRYST_OK);
    assert_int_equal(transport_frame_send(a.ops, a.ep, "go", 2), TRYST_OK);
    struct pair_op *op = pair_op_of(&recv.bulk);
    for (uint64_t end = now_ns() + patience_ns(UINT64_C(10000000000));
         op->moved == 0 && now_ns() < end;)
        node_pump(&a);
    assert_true(op->moved > 0 && !recv.done);
    kill(child, SIGKILL);
    assert_int_equal(child_wait(child), 128 + SIGKILL);
    assert_true(nodes_until(&a, NULL, &recv.done, 5000));
    assert_int_equal(recv.status, TRYST_E_PEER);
    assert_false(a.failed); /* the link reports a death, not the transport */
    free(data);
    node_close(&a);
    assert_int_equal(recv.done_count, 1);
}

static void child_posts_and_stops(struct node *node)
{
    struct test_bulk recv;
    open_ready(node);
    test_bulk_init(&recv, 1, malloc(64 * MIB), 64 * MIB, NULL);
    CHECK(node->ops->bulk_recv(node->ep, &recv.bulk) == TRYST_OK);
    CHECK(transport_frame_send(node->ops, node->ep, "go", 2) == TRYST_OK);
    while (pair_op_of(&recv.bulk)->moved == 0)
        node_pump(node);
    raise(SIGSTOP); /* in the middle of the transfer */
    while (!recv.done)
        node_pump(node);
    CHECK(recv.status == TRYST_E_PEER); /* the grant was withdrawn */
    linger(node);
    node_close(node);
}

/* The receiver is stopped in the middle of reading. The sender closes within a bounded
 * time and reuses the buffer at once; the receiver never completes the bulk with bytes
 * that it read afterwards. */
static void receiver_stopped(bool kill_it)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    struct test_bulk send;
    size_t bytes = 64 * MIB;
    void *data = calloc(1, bytes);
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_posts_and_stops);
    int link = dup(a.link);
    open_ready(&a);
    while (a.frames == 0)
        node_pump(&a);
    test_bulk_init(&send, 1, data, bytes, NULL);
    assert_int_equal(a.ops->bulk_send(a.ep, &send.bulk), TRYST_OK);
    siginfo_t info;
    while (waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != child)
        node_pump(&a);
    assert_false(send.done);
    uint64_t before = now_ns();
    node_close(&a);
    assert_true(now_ns() - before < patience_ns(UINT64_C(5000000000)));
    assert_int_equal(send.done_count, 1);
    assert_int_equal(send.status, TRYST_E_CANCELED);
    memset(data, 0x55, bytes);
    free(data);
    kill(child, kill_it ? SIGKILL : SIGCONT);
    close(link);
    assert_int_equal(child_wait(child), kill_it ? 128 + SIGKILL : 0);
}

static void test_receiver_stopped(void **state)
{
    receiver_stopped(false);
    receiver_stopped(true);
}

static void child_offers_and_execs(struct node *node)
{
    struct test_bulk send;
    void *data = calloc(1, MIB);
    open_ready(node);
    while (node->frames == 0)
        node_pump(node);
    test_bulk_init(&send, 1, data, MIB, NULL);
    CHECK(node->ops->bulk_send(node->ep, &send.bulk) == TRYST_OK);
    execlp("sleep", "sleep", "20", (char *)NULL);
    _exit(9);
}

/* The peer executes another program: same pid, pidfd not readable, other memory. */
static void test_sender_execs(void **state)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    struct test_bulk recv;
    void *data = malloc(MIB);
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_offers_and_execs);
    open_ready(&a);
    test_bulk_init(&recv, 1, data, MIB, NULL);
    assert_int_equal(a.ops->bulk_recv(a.ep, &recv.bulk), TRYST_OK);
    assert_int_equal(transport_frame_send(a.ops, a.ep, "go", 2), TRYST_OK);
    struct pollfd closing = {.fd = a.link, .events = POLLRDHUP};
    assert_int_equal(poll(&closing, 1, 10000), 1); /* exec closed the child's end */
    nodes_settle(&a, NULL, 100);
    node_close(&a);
    assert_int_equal(recv.done_count, 1);
    assert_true(recv.status == TRYST_E_PEER || recv.status == TRYST_E_CANCELED);
    kill(child, SIGKILL);
    (void)child_wait(child);
    free(data);
}

/* --- refusals --- */

static void test_wrong_nonce(void **state)
{
    struct node a = {0}, b = {0};
    nodes_link(&a, &b, &transport_shm);
    a.params.peer_nonce = 0x3333;
    assert_true(node_open(&a) && node_open(&b));
    assert_true(nodes_until(&a, &b, &a.ready, 2000) &&
                nodes_until(&a, &b, &b.ready, 2000));
    assert_int_equal(a.ready_status, TRYST_E_UNREACHABLE);
    assert_int_equal(b.ready_status, TRYST_E_UNREACHABLE);
    node_close(&a);
    node_close(&b);
}

/* Run `fn` in a child, because limits and filters cannot be removed again. */
static void in_child(void (*fn)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        fn();
        _exit(0);
    }
    assert_int_equal(child_wait(pid), 0);
}

static void refused_with(const char *text)
{
    struct node a = {0}, b = {0};
    nodes_link(&a, &b, &transport_shm);
    CHECK(node_open(&a) && node_open(&b));
    CHECK(nodes_until(&a, &b, &a.ready, 2000) && nodes_until(&a, &b, &b.ready, 2000));
    CHECK(a.ready_status == TRYST_E_UNREACHABLE && b.ready_status == TRYST_E_UNREACHABLE);
    CHECK(strstr(b.text, text));
    CHECK(strstr(a.text, text) && strstr(a.text, "reported by the peer"));
    node_close(&a);
    node_close(&b);
}

static void short_of_file_size(void)
{
    struct rlimit limit = {8192, 8192}; /* a write beyond the limit could raise SIGXFSZ */
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    refused_with("File too large");
}

static void short_of_memory(void)
{
    deny(SYS_fallocate, ENOSPC);
    refused_with("No space left on device");
}

static void short_of_descriptors(void)
{
    struct node a = {0}, b = {0};
    nodes_link(&a, &b, &transport_shm);
    CHECK(node_open(&a) && node_open(&b));
    struct rlimit limit = {3, 3};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(nodes_until(&a, &b, &a.ready, 2000) && nodes_until(&a, &b, &b.ready, 2000));
    CHECK(b.ready_status == TRYST_E_UNREACHABLE && strstr(b.text, "Too many open files"));
    CHECK(a.ready_status == TRYST_E_UNREACHABLE);
}

static void test_short_of_something(void **state)
{
    in_child(short_of_file_size);
    in_child(short_of_memory);
    in_child(short_of_descriptors);
}

/* Each allocation of connecting and sending fails once: a status results, then everything
 * is freed. */
static void test_allocation_failures(void **state)
{
    for (uint64_t nth = 1;; nth++) {
        uint64_t alive = alloc_live_count();
        int descriptors = descriptors_open();
        struct node a = {0}, b = {0};
        struct memory_cache *cache = NULL;
        struct tryst_mem *mem = NULL;
        struct test_bulk send, recv;
        nodes_link(&a, &b, &transport_shm);
        alloc_fail_at(nth);
        bool good = node_open(&a) && node_open(&b);
        good = good && nodes_until(&a, &b, &a.ready, 200) &&
               nodes_until(&a, &b, &b.ready, 200) && a.ready_status == TRYST_OK &&
               b.ready_status == TRYST_OK;
        good = good && memory_cache_open(NULL, NULL, &cache) == TRYST_OK &&
               memory_alloc(cache, MIB, TRYST_MEMORY_HOST, 0, &mem) == TRYST_OK;
        if (good) {
            uint8_t *data = malloc(MIB);
            pattern_fill(mem->data, MIB, 3);
            test_bulk_init(&recv, 3, data, MIB, NULL);
            test_bulk_init(&send, 3, mem->data, MIB, mem);
            assert_int_equal(b.ops->bulk_recv(b.ep, &recv.bulk), TRYST_OK);
            assert_int_equal(a.ops->bulk_send(a.ep, &send.bulk), TRYST_OK);
            assert_true(nodes_until(&a, &b, &recv.done, 5000));
            if (recv.status == TRYST_OK)
                assert_true(pattern_is(data, MIB, 3));
            else
                assert_true(b.failed && b.failed_status == TRYST_E_NOMEM);
            node_close_ep(&a);
            assert_true(send.done);
            free(data);
        }
        if (mem)
            memory_release(mem);
        if (cache)
            memory_cache_close(cache);
        node_close(&a);
        node_close(&b);
        assert_int_equal(alloc_live_count(), alive);
        assert_int_equal(descriptors_open(), descriptors);
        if (!alloc_fail_off())
            break;
    }
}

/* --- what an idle peer costs --- */

static void test_idle_cost(void **state)
{
    enum { PEERS = 20 };
    struct node *a = calloc(PEERS, sizeof *a), *b = calloc(PEERS, sizeof *b);
    uint64_t ends_bytes = 0;
    for (unsigned i = 0; i < PEERS; i++) {
        nodes_link(&a[i], &b[i], &transport_shm);
        int descriptors = descriptors_open();
        assert_true(node_open(&a[i]) && node_open(&b[i]));
        uint64_t with_rails = alloc_live_bytes();
        a[i].ops->ep_close(a[i].ep);
        b[i].ops->ep_close(b[i].ep);
        assert_true(nodes_until(&a[i], NULL, &a[i].closed, 100));
        assert_true(nodes_until(&b[i], NULL, &b[i].closed, 100));
        uint64_t rails_alone = alloc_live_bytes();
        assert_true(with_rails > rails_alone);
        a[i].closed = b[i].closed = false;
        assert_int_equal(a[i].ops->ep_open(a[i].rail, &a[i].params, &a[i].ep), TRYST_OK);
        assert_int_equal(b[i].ops->ep_open(b[i].rail, &b[i].params, &b[i].ep), TRYST_OK);
        assert_true(nodes_until(&a[i], &b[i], &a[i].ready, 1000));
        assert_true(nodes_until(&a[i], &b[i], &b[i].ready, 1000));
        ends_bytes += alloc_live_bytes() - rails_alone;
        assert_int_equal(descriptors_open(), descriptors);
    }
    uint64_t segment = pair_area_bytes(((struct pair_rail *)a[0].rail)->ring_bytes);
    uint64_t per_pair = segment + ends_bytes / PEERS;
    print_message("an idle pair: segment %llu bytes, both ends %llu bytes\n",
                  (unsigned long long)segment, (unsigned long long)(ends_bytes / PEERS));
    assert_true(per_pair <= 65536);
    for (unsigned i = 0; i < PEERS; i++) {
        node_close(&a[i]);
        node_close(&b[i]);
    }
    free(a);
    free(b);
}

static unsigned mappings_of(const char *name)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, name) != NULL;
    fclose(maps);
    return count;
}

/* A region is mapped once, however many bulks use it, and unmapped when its owner frees
 * it. */
static void test_region_life(void **state)
{
    struct node a = {0}, b = {0};
    struct memory_cache *cache;
    struct tryst_mem *mem;
    uint8_t *data = malloc(MIB);
    nodes_connect(&a, &b, &transport_shm);
    assert_int_equal(memory_cache_open(NULL, NULL, &cache), TRYST_OK);
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(memory_alloc(cache, MIB, TRYST_MEMORY_HOST, 0, &mem), TRYST_OK);
        assert_int_equal(mappings_of("memfd:tryst-region"), 1);
        for (unsigned i = 0; i < 5; i++) {
            struct test_bulk send, recv;
            pattern_fill(mem->data, MIB, i);
            test_bulk_init(&recv, i, data, MIB, NULL);
            test_bulk_init(&send, i, mem->data, MIB, mem);
            assert_int_equal(b.ops->bulk_recv(b.ep, &recv.bulk), TRYST_OK);
            assert_int_equal(a.ops->bulk_send(a.ep, &send.bulk), TRYST_OK);
            assert_true(nodes_until(&a, &b, &send.done, 5000));
            assert_true(pattern_is(data, MIB, i));
            assert_int_equal(mappings_of("memfd:tryst-region"), 2);
        }
        memory_release(mem);
        nodes_settle(&a, &b, 3);
        assert_int_equal(mappings_of("memfd:tryst-region"), 0);
    }
    assert_int_equal(mappings_of("memfd:tryst-pair"), 2);
    node_close(&a);
    node_close(&b);
    assert_int_equal(mappings_of("memfd:tryst-pair"), 0);
    memory_cache_close(cache);
    free(data);
}

/* A job may map more regions, one after the other, than a peer may have at once. */
static void test_regions_come_and_go(void **state)
{
    enum { BYTES = 8192 };
    struct node a = {0}, b = {0};
    struct memory_cache *cache;
    struct tryst_mem *mem;
    uint8_t *data = malloc(BYTES);
    nodes_connect(&a, &b, &transport_shm);
    assert_int_equal(memory_cache_open(NULL, NULL, &cache), TRYST_OK);
    for (unsigned round = 0; round <= SHM_REGIONS_MAX; round++) {
        struct test_bulk send, recv;
        assert_int_equal(memory_alloc(cache, BYTES, TRYST_MEMORY_HOST, 0, &mem),
                         TRYST_OK);
        test_bulk_init(&recv, round, data, BYTES, NULL);
        test_bulk_init(&send, round, mem->data, BYTES, mem);
        assert_int_equal(b.ops->bulk_recv(b.ep, &recv.bulk), TRYST_OK);
        assert_int_equal(a.ops->bulk_send(a.ep, &send.bulk), TRYST_OK);
        assert_true(nodes_until(&a, &b, &send.done, 5000));
        assert_false(a.failed || b.failed);
        assert_int_equal(recv.status, TRYST_OK);
        memory_release(mem);
        nodes_settle(&b, NULL, 1);
    }
    node_close(&a);
    node_close(&b);
    memory_cache_close(cache);
    free(data);
}

/* --- receives that borrow --- */

enum { BORROWED_BYTES = 300000 }; /* three pieces */

/* Read a borrowed message whole, and return it. */
static void borrowed_end(struct node *node, struct test_bulk *recv, uint64_t seed)
{
    for (size_t at = 0; at < recv->bytes; at += 100000)
        assert_int_equal(test_borrow_read(node, recv, at, 100000, seed), TRYST_OK);
    assert_int_equal(node->ops->bulk_return(node->ep, &recv->bulk), TRYST_OK);
}

/* A region, and two connected nodes that use it. */
struct lender {
    struct node a, b;
    struct memory_cache *cache;
    struct tryst_mem *mem;
};

static void lender_open(struct lender *lender)
{
    *lender = (struct lender){0};
    nodes_connect(&lender->a, &lender->b, &transport_shm);
    assert_int_equal(memory_cache_open(NULL, NULL, &lender->cache), TRYST_OK);
    assert_int_equal(
        memory_alloc(lender->cache, BORROWED_BYTES, TRYST_MEMORY_HOST, 0, &lender->mem),
        TRYST_OK);
    pattern_fill(lender->mem->data, BORROWED_BYTES, 3);
}

static void lender_close(struct lender *lender)
{
    node_close(&lender->a);
    node_close(&lender->b);
    memory_cache_close(lender->cache);
}

/* Let b post a receive that borrows, and a send the region. */
static void lend(struct lender *lender, struct test_bulk *send, struct test_bulk *recv)
{
    struct node *a = &lender->a, *b = &lender->b;
    test_borrow_init(recv, 3, BORROWED_BYTES);
    test_bulk_init(send, 3, lender->mem->data, BORROWED_BYTES, lender->mem);
    assert_int_equal(b->ops->bulk_recv(b->ep, &recv->bulk), TRYST_OK);
    assert_int_equal(a->ops->bulk_send(a->ep, &send->bulk), TRYST_OK);
}

/* The owner releases its region while the peer borrows from it: the bytes can be read
 * until the return, and then the mapping goes. */
static void test_region_dropped(void **state)
{
    struct lender lender;
    struct test_bulk send, recv;
    struct shm_ep *ep;
    lender_open(&lender);
    lend(&lender, &send, &recv);
    assert_true(nodes_until(&lender.a, &lender.b, &recv.borrowed, 5000));
    memory_release(lender.mem);
    nodes_settle(&lender.a, &lender.b, 3);
    ep = (struct shm_ep *)lender.b.ep;
    assert_int_equal(ep->regions_count, 0);
    assert_int_equal(ep->mapped_bytes > 0, 1);
    assert_int_equal(mappings_of("memfd:tryst-region"), 1);
    borrowed_end(&lender.b, &recv, 3);
    assert_int_equal(mappings_of("memfd:tryst-region"), 0);
    assert_int_equal(ep->mapped_bytes, 0);
    assert_true(nodes_until(&lender.a, &lender.b, &send.done, 5000));
    lender_close(&lender);
}

/* The same, and the endpoint closes instead. */
static void test_region_dropped_closed(void **state)
{
    struct lender lender;
    struct test_bulk send, recv;
    lender_open(&lender);
    lend(&lender, &send, &recv);
    assert_true(nodes_until(&lender.a, &lender.b, &recv.borrowed, 5000));
    memory_release(lender.mem);
    nodes_settle(&lender.a, &lender.b, 3);
    node_close_ep(&lender.b);
    assert_int_equal(recv.status, TRYST_E_CANCELED);
    assert_int_equal(mappings_of("memfd:tryst-region"), 0);
    lender_close(&lender);
}

/* An offer comes before its region: the receive borrows once the region has come. */
static void test_borrow_before_region(void **state)
{
    struct lender lender;
    struct test_bulk send, recv;
    lender_open(&lender);
    lend(&lender, &send, &recv);
    for (unsigned i = 0; i < 5; i++) /* without the link's messages */
        lender.b.ops->progress(lender.b.rail);
    assert_false(recv.borrowed);
    assert_int_equal(lender.b.ops->arm(lender.b.rail), TRYST_OK);
    assert_true(nodes_until(&lender.b, NULL, &recv.borrowed, 5000));
    borrowed_end(&lender.b, &recv, 3);
    assert_true(nodes_until(&lender.a, NULL, &send.done, 5000));
    assert_int_equal(recv.borrowed_count, 1);
    memory_release(lender.mem);
    lender_close(&lender);
}

/* A region comes without its descriptor: the message comes by copy. */
static void test_borrow_unmapped(void **state)
{
    struct lender lender;
    struct test_bulk send, recv;
    lender_open(&lender);
    lender.b.drop_fds = true;
    lend(&lender, &send, &recv);
    assert_true(nodes_until(&lender.a, &lender.b, &recv.borrowed, 5000));
    assert_int_equal(recv.borrowed_count, 1);
    assert_int_equal(((struct shm_ep *)lender.a.ep)->out_mechs & SHM_CAN_MAP, 0);
    assert_true(nodes_until(&lender.a, &lender.b, &send.done, 5000)); /* in the ring */
    borrowed_end(&lender.b, &recv, 3);
    memory_release(lender.mem);
    lender_close(&lender);
}

/* A message comes by copy, and there is no memory for it. The next one arrives. */
static void test_borrow_no_memory(void **state)
{
    struct lender lender;
    struct test_bulk send, recv;
    lender_open(&lender);
    lender.b.drop_fds = true;
    lend(&lender, &send, &recv);
    for (unsigned i = 0; i < 3; i++)
        node_pump(&lender.b); /* the region, the offer: DENIED */
    node_pump(&lender.a);     /* the first piece is in the ring */
    assert_false(recv.borrowed);
    alloc_fail_at(1);
    node_pump(&lender.b);
    assert_true(alloc_fail_off());
    assert_true(nodes_until(&lender.a, &lender.b, &send.done, 5000));
    assert_true(recv.done && recv.done_count == 1 && recv.borrowed_count == 0);
    assert_int_equal(recv.status, TRYST_E_NOMEM);
    lend(&lender, &send, &recv);
    assert_true(nodes_until(&lender.a, &lender.b, &recv.borrowed, 5000));
    borrowed_end(&lender.b, &recv, 3);
    memory_release(lender.mem);
    lender_close(&lender);
}

/* process_vm_readv is refused in the middle of a message: the message comes by copy, and
 * the rest is read from there. */
static void child_refused_reading(struct node *node)
{
    struct test_bulk recv;
    open_ready(node);
    test_borrow_init(&recv, 3, BORROWED_BYTES);
    CHECK(node->ops->bulk_recv(node->ep, &recv.bulk) == TRYST_OK);
    CHECK(transport_frame_send(node->ops, node->ep, "go", 2) == TRYST_OK);
    CHECK(nodes_until(node, NULL, &recv.borrowed, 20000));
    CHECK(test_borrow_read(node, &recv, 0, 100000, 3) == TRYST_OK);
    deny(SYS_process_vm_readv, EPERM);
    recv.borrowed = false;
    CHECK(test_borrow_read(node, &recv, 100000, 100000, 3) == TRYST_AGAIN);
    CHECK(!recv.borrowed && !recv.done);
    CHECK(nodes_until(node, NULL, &recv.borrowed, 20000));
    CHECK(recv.borrowed_count == 2 && recv.bytes == BORROWED_BYTES);
    CHECK(test_borrow_read(node, &recv, 100000, 100000, 3) == TRYST_OK);
    CHECK(test_borrow_read(node, &recv, 200000, 100000, 3) == TRYST_OK);
    CHECK(node->ops->bulk_return(node->ep, &recv.bulk) == TRYST_OK);
    linger(node);
    node_close(node);
}

static void test_borrow_refused(void **state)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    void *data = malloc(BORROWED_BYTES);
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_refused_reading);
    open_ready(&a);
    send_one(&a, 3, data, BORROWED_BYTES, NULL);
    assert_false(a.failed);
    node_close(&a);
    assert_int_equal(child_wait(child), 0);
    free(data);
}

/* The sender is killed while its message is borrowed: what was read by process_vm_readv
 * does not count. */
static void test_lender_killed(void **state)
{
    struct node a = {.mech = 2}, b = {.mech = 2};
    struct test_bulk recv;
    pid_t child = nodes_fork(&a, &b, &transport_shm, child_offers_and_waits);
    open_ready(&a);
    test_borrow_init(&recv, 1, 64 * MIB);
    assert_int_equal(a.ops->bulk_recv(a.ep, &recv.bulk), TRYST_OK);
    assert_int_equal(transport_frame_send(a.ops, a.ep, "go", 2), TRYST_OK);
    assert_true(nodes_until(&a, NULL, &recv.borrowed, 10000));
    assert_int_equal(test_borrow_read(&a, &recv, 5, 1000, 1), TRYST_OK);
    kill(child, SIGKILL);
    assert_int_equal(child_wait(child), 128 + SIGKILL);
    assert_int_equal(a.ops->bulk_return(a.ep, &recv.bulk), TRYST_E_PEER);
    assert_true(nodes_until(&a, NULL, &recv.done, 5000));
    assert_int_equal(recv.status, TRYST_E_PEER);
    assert_false(a.failed); /* the link reports a death, not the transport */
    node_close(&a);
    assert_int_equal(recv.done_count, 1);
}

static void test_probe(void **state)
{
    char text[TRANSPORT_TEXT_MAX];
    assert_int_equal(transport_shm.probe(NULL, text), TRYST_OK);
    assert_string_equal(text, "map, cma (process_vm_readv), stage, ring");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_cma),
        cmocka_unit_test(test_stage),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_denied_by_seccomp),
        cmocka_unit_test(test_denied_later),
        cmocka_unit_test(test_region_without_descriptor),
        cmocka_unit_test(test_no_pidfd),
        cmocka_unit_test(test_wrong_pid),
        cmocka_unit_test(test_sender_killed),
        cmocka_unit_test(test_receiver_stopped),
        cmocka_unit_test(test_sender_execs),
        cmocka_unit_test(test_wrong_nonce),
        cmocka_unit_test(test_short_of_something),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_idle_cost),
        cmocka_unit_test(test_region_life),
        cmocka_unit_test(test_regions_come_and_go),
        cmocka_unit_test(test_region_dropped),
        cmocka_unit_test(test_region_dropped_closed),
        cmocka_unit_test(test_borrow_before_region),
        cmocka_unit_test(test_borrow_unmapped),
        cmocka_unit_test(test_borrow_no_memory),
        cmocka_unit_test(test_borrow_refused),
        cmocka_unit_test(test_lender_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
