/* SPDX-License-Identifier: Apache-2.0 */
/* A small layer above a transport (pair_pump.h). */
#include "pair_pump.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "rail_start.h"
#include "support/patience.h"
#include "transports/memory/memory.h"

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the table of core --- */

static uint64_t host_config_number(const struct tryst_host *host, const char *name)
{
    const struct node *node = host->config_arg;
    if (strcmp(name, "shm_ring_bytes") == 0)
        return node->ring_bytes ? node->ring_bytes : 22 * 1024;
    return strcmp(name, "shm_mech") == 0 ? node->mech : 0;
}

static void host_log(const struct tryst_host *host, tryst_log_level level,
                     const char *text)
{
    (void)host;
    (void)level;
    if (getenv("TRYST_TEST_LOG"))
        fprintf(stderr, "log: %s\n", text);
}

static uint64_t host_now_ns(const struct tryst_host *host)
{
    const struct node *node = host->config_arg;
    return node->fake_ns ? node->fake_ns : now_ns();
}

/* --- events --- */

static struct node *node_of(struct endpoint *ep)
{
    return ep->arg;
}

static void on_frame(struct endpoint *ep, const void *data, size_t bytes)
{
    struct node *node = node_of(ep);
    node->frames++;
    node->frames_bytes += bytes;
    if (node->on_frame)
        node->on_frame(node, data, bytes);
}

static void on_ready(struct endpoint *ep, tryst_status status, const char *text)
{
    struct node *node = node_of(ep);
    CHECK(!node->ready);
    node->ready = true;
    node->ready_status = status;
    snprintf(node->text, sizeof node->text, "%s", text);
}

static void on_failed(struct endpoint *ep, tryst_status status, const char *text)
{
    struct node *node = node_of(ep);
    CHECK(!node->failed);
    node->failed = true;
    node->failed_status = status;
    snprintf(node->text, sizeof node->text, "%s", text);
}

static void on_mech_dropped(struct endpoint *ep)
{
    node_of(ep)->mechs_dropped++;
}

static void on_unexpected(struct endpoint *ep, uint64_t tag, size_t bytes)
{
    (void)bytes;
    node_of(ep)->unexpected++;
    node_of(ep)->last_tag = tag;
}

static void on_closed(struct endpoint *ep)
{
    node_of(ep)->closed = true;
    node_of(ep)->ep = NULL;
}

static bool link_write(int fd, char type, const void *data, size_t bytes, int pass)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov[2] = {{&type, 1}, {(void *)(uintptr_t)data, bytes}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = data ? 2 : 1};
    if (pass >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof pass);
        memcpy(CMSG_DATA(header), &pass, sizeof pass);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

static tryst_status on_connect_send(struct endpoint *ep, const void *data, size_t bytes,
                                    int fd)
{
    struct node *node = node_of(ep);
    CHECK(bytes <= 4096);
    return link_write(node->link, 'C', data, bytes, fd) ? TRYST_OK : TRYST_E_PEER;
}

static void on_doorbell(struct endpoint *ep)
{
    struct node *node = node_of(ep);
    node->doorbells++;
    (void)link_write(node->link, 'D', NULL, 0, -1);
}

static const struct rail_events events = {
    .frame = on_frame,
    .ready = on_ready,
    .failed = on_failed,
    .mech_dropped = on_mech_dropped,
    .unexpected = on_unexpected,
    .closed = on_closed,
    .connect_send = on_connect_send,
    .doorbell = on_doorbell,
};

/* --- nodes --- */

static void node_prepare(struct node *node, const struct transport_ops *ops, int link)
{
    node->ops = ops;
    node->link = link;
    struct tryst_host host;
    module_host_init(&host, NULL, NULL);
    node->host = (struct tryst_host){.abi_version = TRYST_MODULE_ABI_VERSION,
                                     .config_arg = node,
                                     .config_number = host_config_number,
                                     .log = host_log,
                                     .now_ns = host_now_ns,
                                     .mem_handle = host.mem_handle};
    node->params = (struct ep_params){.arg = node,
                                      .same_host = true,
                                      .cookie = 77,
                                      .nonce = 0x1111,
                                      .peer_nonce = 0x2222,
                                      .peer_pidfd = -1};
}

static int pidfd_of(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

void nodes_link(struct node *a, struct node *b, const struct transport_ops *ops)
{
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    node_prepare(a, ops, sockets[0]);
    node_prepare(b, ops, sockets[1]);
    a->params.initiator = true;
    b->params.nonce = a->params.peer_nonce;
    b->params.peer_nonce = a->params.nonce;
    a->params.peer_pid = b->params.peer_pid = getpid();
    a->params.same_process = b->params.same_process = true;
    a->params.peer_pidfd = pidfd_of(getpid());
    b->params.peer_pidfd = pidfd_of(getpid());
}

bool node_open(struct node *node)
{
    struct rail_params params = {.host = &node->host, .events = &events};
    if (!node->shares_rail && rail_start(node->ops, &params, &node->rail) != TRYST_OK)
        return false;
    return node->ops->ep_open(node->rail, &node->params, &node->ep) == TRYST_OK;
}

static bool link_read(struct node *node)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    uint64_t buffer[1 + 4096 / 8];
    char type;
    struct iovec iov[2] = {{&type, 1}, {buffer, sizeof buffer}};
    struct msghdr message = {.msg_iov = iov,
                             .msg_iovlen = 2,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    int fd = -1;
    ssize_t got = recvmsg(node->link, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            node->link_is_closed = true;
        return false;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    if (type == 'D')
        node->doorbells_received++;
    if (fd >= 0 && node->drop_fds) {
        close(fd);
        fd = -1;
    }
    if (type == 'C' && node->ep)
        node->ops->ep_message(node->ep, buffer, (size_t)got - 1, fd);
    else if (fd >= 0)
        close(fd);
    return true;
}

int node_pump(struct node *node)
{
    int count = 0;
    while (node->link >= 0 && !node->link_is_closed && link_read(node))
        count++;
    if (node->rail)
        count += node->ops->progress(node->rail);
    if (count == 0)
        sched_yield(); /* the other end may need this core */
    return count;
}

bool nodes_until(struct node *a, struct node *b, const bool *flag, unsigned ms)
{
    uint64_t end = now_ns() + patience_ns(ms * UINT64_C(1000000));
    while (!*(const volatile bool *)flag && now_ns() < end) {
        node_pump(a);
        if (b)
            node_pump(b);
    }
    return *flag;
}

void nodes_settle(struct node *a, struct node *b, unsigned rounds)
{
    while (rounds--) {
        node_pump(a);
        if (b)
            node_pump(b);
    }
}

void node_sleep(struct node *node, int ms)
{
    struct pollfd poll_fd = {.fd = node->link, .events = POLLIN};
    if (node->ops->arm(node->rail) == TRYST_OK)
        (void)poll(&poll_fd, 1, ms);
}

void node_close_ep(struct node *node)
{
    if (!node->ep)
        return;
    node->closed = false;
    node->ops->ep_close(node->ep);
    CHECK(!node->closed); /* never from inside the call */
    CHECK(nodes_until(node, NULL, &node->closed, 20000));
}

void node_close(struct node *node)
{
    node_close_ep(node);
    if (node->rail && !node->shares_rail)
        node->ops->rail_close(node->rail);
    node->rail = NULL;
    if (node->link >= 0)
        close(node->link);
    if (node->params.peer_pidfd >= 0)
        close(node->params.peer_pidfd);
    node->link = node->params.peer_pidfd = -1;
}

void nodes_connect(struct node *a, struct node *b, const struct transport_ops *ops)
{
    nodes_link(a, b, ops);
    CHECK(node_open(a) && node_open(b));
    CHECK(!a->ready && !b->ready);
    CHECK(nodes_until(a, b, &a->ready, 5000) && nodes_until(a, b, &b->ready, 5000));
    CHECK(a->ready_status == TRYST_OK && b->ready_status == TRYST_OK);
}

void node_loopback(struct node *node, const struct transport_ops *ops)
{
    node_prepare(node, ops, -1);
    node->params.loopback = node->params.same_process = true;
    node->params.peer_nonce = node->params.nonce;
    CHECK(node_open(node) && !node->ready);
    CHECK(nodes_until(node, NULL, &node->ready, 1000) && node->ready_status == TRYST_OK);
}

pid_t nodes_fork(struct node *a, struct node *b, const struct transport_ops *ops,
                 void (*fn)(struct node *node))
{
    nodes_link(a, b, ops);
    a->params.same_process = b->params.same_process = false;
    close(a->params.peer_pidfd);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(a->link);
        fn(b);
        fflush(NULL);
        _exit(0);
    }
    close(b->link);
    close(b->params.peer_pidfd);
    a->params.peer_pid = pid;
    a->params.peer_pidfd = pidfd_of(pid);
    return pid;
}

int child_wait(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- bulk --- */

static void bulk_done(struct bulk *bulk, tryst_status status, size_t bytes)
{
    struct test_bulk *test = (struct test_bulk *)bulk;
    test->done_count++;
    test->status = status;
    test->bytes = bytes;
    test->done = true;
}

void test_bulk_init(struct test_bulk *bulk, uint64_t tag, void *data, size_t bytes,
                    struct tryst_mem *mem)
{
    memset(bulk, 0xa5, sizeof *bulk); /* callers pass scratch uninitialized */
    bulk->bulk.done = bulk_done;
    bulk->bulk.tag = tag;
    bulk->bulk.data = data;
    bulk->bulk.bytes = bytes;
    bulk->bulk.mem = mem;
    bulk->bulk.memory = NULL;
    bulk->bulk.device = 0;
    bulk->bulk.hot = false;
    bulk->bulk.borrowed = NULL;
    bulk->done = bulk->borrowed = false;
    bulk->done_count = bulk->borrowed_count = 0;
}

static void bulk_borrowed(struct bulk *bulk, size_t bytes)
{
    struct test_bulk *test = (struct test_bulk *)bulk;
    CHECK(!test->done);
    test->borrowed = true;
    test->borrowed_count++;
    test->bytes = bytes;
}

void test_borrow_init(struct test_bulk *bulk, uint64_t tag, size_t bytes)
{
    test_bulk_init(bulk, tag, NULL, bytes, NULL);
    bulk->bulk.borrowed = bulk_borrowed;
}

/* A piece that was read. */
struct piece {
    size_t bytes;
    uint64_t seed;
    unsigned count;
};

static void piece_check(void *arg, const void *data, size_t bytes)
{
    struct piece *piece = arg;
    CHECK(bytes == piece->bytes && pattern_is(data, bytes, piece->seed));
    piece->count++;
}

tryst_status test_borrow_read(struct node *node, struct test_bulk *bulk, size_t at,
                              size_t bytes, uint64_t seed)
{
    struct piece piece = {.bytes = bytes, .seed = seed + at};
    tryst_status status =
        node->ops->bulk_read(node->ep, &bulk->bulk, at, bytes, piece_check, &piece);
    CHECK(piece.count == (status == TRYST_OK));
    return status;
}

void pattern_fill(void *data, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)data)[i] = (uint8_t)((i + seed) * 0x9E3779B97F4A7C15u >> 56);
}

bool pattern_is(const void *data, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const uint8_t *)data)[i] !=
            (uint8_t)((i + seed) * 0x9E3779B97F4A7C15u >> 56))
            return false;
    return true;
}
