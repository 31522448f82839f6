/* SPDX-License-Identifier: Apache-2.0 */
/* Links: order, descriptors, backlog, hostile and dying peers, bounds and costs.
 *
 * Both ends live in one process on one poller, unless the peer must die: then the peer is
 * a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log/log.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/foreign_fd.h"
#include "core/os/random.h"
#include "support/descriptors.h"
#include "support/patience.h"
#include "transports/link/link_listen.h"
#include "transports/link/link_wire.h"

enum { ENDS_MAX = 16 };

/* The events of one end. A message begins with its number; the rest is a pattern of the
 * number. */
struct end {
    struct link *link;
    uint64_t received, received_bytes;
    uint64_t sent;
    uint64_t fds, fds_lost;
    struct random sizes; /* the sender's sequence of sizes, replayed */
    bool close_at_message, keep_open;
    int closed;
    tryst_status status;
    char text[160];
};

static struct poller poller;
static struct link_listener *listener;
static struct link_address address;
static struct end accepted[ENDS_MAX];
static int accepted_count;
static bool refuse_accept;
static bool strangers; /* no descriptor is taken */
static int log_lines;

static tryst_log_level last_level;

static void log_sink(void *arg, tryst_log_level level, const char *line)
{
    log_lines++;
    last_level = level;
}

static struct log quiet = {.level = TRYST_LOG_DEBUG, .rank = -1, .sink = log_sink};

/* Added to the machine's clock (--wrap). */
static uint64_t clock_ahead_ns;
uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    return __real_clock_monotonic_ns() + clock_ahead_ns;
}

/* ---- messages that can be checked ---- */

static size_t message_make(uint64_t number, size_t bytes, uint8_t *data)
{
    if (bytes < 8)
        bytes = bytes ? 8 : 0;
    if (bytes)
        memcpy(data, &number, 8);
    for (size_t i = 8; i < bytes; i++)
        data[i] = (uint8_t)(number * 31 + i);
    return bytes;
}

static size_t size_next(struct random *random)
{
    static const size_t special[] = {0, 8, LINK_MESSAGE_MAX, LINK_MESSAGE_MAX - 1};
    uint64_t kind = random_range(random, 8);
    return kind < 4 ? special[kind] : 8 + random_range(random, kind < 7 ? 200 : 4000);
}

static void on_message(void *arg, struct link *link, uint8_t type, const void *data,
                       size_t bytes, int fd)
{
    struct end *end = arg;
    uint8_t want[LINK_MESSAGE_MAX];
    assert_ptr_equal(link, end->link);
    assert_int_equal((uintptr_t)data % 8, 0);
    assert_int_equal(end->closed, 0);
    size_t want_bytes = message_make(end->received, size_next(&end->sizes), want);
    assert_int_equal(bytes, want_bytes);
    assert_memory_equal(data, want, bytes);
    assert_int_equal(type, end->received % 251);
    if (fd >= 0) {
        uint64_t number;
        assert_int_equal(pread(fd, &number, 8, 0), 8);
        assert_int_equal(number, end->received);
        close(fd);
        end->fds++;
    }
    end->fds_lost += fd == LINK_FD_LOST;
    end->received++;
    end->received_bytes += bytes;
    if (end->close_at_message) {
        link_close(link);
        end->link = NULL;
    }
}

static void on_closed(void *arg, struct link *link, tryst_status status, const char *text)
{
    struct end *end = arg;
    end->closed++;
    end->status = status;
    (void)snprintf(end->text, sizeof end->text, "%s", text);
    assert_true(text[0] != '\0');
    if (end->keep_open)
        return;
    link_close(link);
    end->link = NULL;
}

static const struct link_events events = {on_message, on_closed};

static void on_accepted(void *arg, struct link *link)
{
    if (refuse_accept || accepted_count == ENDS_MAX) {
        link_close(link);
        return;
    }
    struct end *end = &accepted[accepted_count++];
    end->link = link;
    link_events_set(link, &events, end);
    if (!strangers)
        link_fds_take(link);
}

/* Send message number end->sent, optionally with a descriptor that holds the number. */
static tryst_status send_next(struct end *end, struct random *sizes, bool with_fd)
{
    uint8_t data[LINK_MESSAGE_MAX];
    struct random ahead = *sizes;
    size_t bytes = message_make(end->sent, size_next(&ahead), data);
    int fd = -1;
    if (with_fd) {
        fd = memfd_create("test", MFD_CLOEXEC);
        assert_int_equal(write(fd, &end->sent, 8), 8);
    }
    tryst_status status =
        link_send(end->link, (uint8_t)(end->sent % 251), data, bytes, fd);
    if (fd >= 0)
        close(fd);
    if (status == TRYST_OK) {
        *sizes = ahead;
        end->sent++;
    }
    return status;
}

/* ---- running ---- */

#define PUMP_UNTIL(condition)                                        \
    do {                                                             \
        struct patience patience_ = patience_begin();                \
        while (!(condition)) {                                       \
            poller_run(&poller, NS_PER_MS);                          \
            if (patience_spent_ns(&patience_) > 10 * NS_PER_S)       \
                fail_msg("%s was not true within 10 s", #condition); \
        }                                                            \
    } while (0)

static void pump_ms(int ms)
{
    uint64_t until = clock_monotonic_ns() + (uint64_t)ms * NS_PER_MS;
    while (clock_monotonic_ns() < until)
        poller_run(&poller, NS_PER_MS);
}

static int live_before, fds_before;

static void start_on(const struct link_tcp *tcp, unsigned pending_max)
{
    memset(accepted, 0, sizeof accepted);
    accepted_count = 0;
    refuse_accept = false;
    log_lines = 0;
    live_before = (int)alloc_live_count();
    fds_before = descriptors_open();
    assert_int_equal(poller_open(&poller), TRYST_OK);
    assert_int_equal(link_listen(&poller, &quiet, tcp, pending_max, on_accepted, NULL,
                                 &listener, &address),
                     TRYST_OK);
}

/* Add one address of the loopback interface: 127.0.0.<last>, or ::1. */
static void tcp_add(struct link_tcp *tcp, int family, unsigned last)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(0x7f000000u + last)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    if (family == AF_INET)
        memcpy(&tcp->addresses[tcp->count++], &in, sizeof in);
    else
        memcpy(&tcp->addresses[tcp->count++], &in6, sizeof in6);
}

/* Return a socket bound to the address and port, or -1. */
static int bound_at(const struct sockaddr_storage *from, uint16_t port)
{
    struct sockaddr_storage at = *from;
    bool six = at.ss_family == AF_INET6;
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ((struct sockaddr_in *)&at)->sin_port = htons(port); /* same offset in sockaddr_in6 */
    if (fd >= 0 &&
        bind(fd, (struct sockaddr *)&at,
             six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool can_bind(const struct sockaddr_storage *at, uint16_t port)
{
    int fd = bound_at(at, port);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void start(void)
{
    struct link_tcp tcp = {.count = 0};
    tcp_add(&tcp, AF_INET, 1);
    start_on(&tcp, 8);
    assert_int_equal(address.family, 4);
    assert_true(address.port != 0);
}

static void stop(void)
{
    for (int i = 0; i < accepted_count; i++)
        if (accepted[i].link)
            link_close(accepted[i].link);
    link_listener_close(listener);
    poller_close(&poller);
    assert_true(foreign_fds_wait(10 * NS_PER_S));
    assert_int_equal(alloc_live_count(), live_before);
    assert_int_equal(descriptors_open(), fds_before);
}

static tryst_status connect_to(const struct link_address *to, bool via_unix,
                               struct end *end)
{
    memset(end, 0, sizeof *end);
    tryst_status status = link_connect(&poller, &quiet, to, NULL, via_unix, 3 * NS_PER_S,
                                       &events, end, &end->link);
    if (status == TRYST_OK && !strangers)
        link_fds_take(end->link);
    return status;
}

static void join(bool via_unix, struct end *end)
{
    assert_int_equal(connect_to(&address, via_unix, end), TRYST_OK);
    PUMP_UNTIL(accepted_count == 1);
}

/* ---- order ---- */

static void order_run(bool via_unix, uint64_t seed)
{
    enum { MESSAGES = 4000 };
    struct end near;
    struct random near_sizes, far_sizes, pace;
    random_seed(&near_sizes, seed);
    random_seed(&far_sizes, seed + 1);
    random_seed(&pace, seed + 2);
    assert_int_equal(connect_to(&address, via_unix, &near), TRYST_OK);
    random_seed(&near.sizes, seed + 1);
    assert_int_equal(send_next(&near, &near_sizes, false),
                     TRYST_OK); /* before it connects */
    random_seed(&accepted[0].sizes, seed);
    PUMP_UNTIL(accepted_count == 1);
    struct end *far = &accepted[0];
    while (near.sent < MESSAGES || far->sent < MESSAGES) {
        /* at most 255 KiB in each direction */
        uint64_t burst = 1 + random_range(&pace, 60);
        bool with_fd = via_unix && random_range(&pace, 5) == 0;
        for (uint64_t i = 0; i < burst && near.sent < MESSAGES; i++)
            assert_int_equal(send_next(&near, &near_sizes, with_fd && i % 7 == 0),
                             TRYST_OK);
        for (uint64_t i = 0; i < burst && far->sent < MESSAGES; i++)
            assert_int_equal(send_next(far, &far_sizes, with_fd && i % 9 == 0), TRYST_OK);
        if (near.sent - far->received > 20 || far->sent - near.received > 20)
            PUMP_UNTIL(near.sent - far->received <= 20 &&
                       far->sent - near.received <= 20);
    }
    PUMP_UNTIL(far->received == MESSAGES && near.received == MESSAGES);
    assert_true(!via_unix || (near.fds > 20 && far->fds > 20));
    assert_int_equal(link_is_unix(near.link), via_unix);
    assert_int_equal(link_peer_pid(near.link), via_unix ? getpid() : 0);
    assert_int_equal(link_peer_pid(far->link), via_unix ? getpid() : 0);
    link_close(near.link);
    PUMP_UNTIL(far->closed == 1);
    assert_int_equal(far->status, TRYST_E_PEER);
}

static uint64_t seed_get(void)
{
    const char *text = getenv("TRYST_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 7;
    print_message("TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static void test_order_unix(void **state)
{
    start();
    order_run(true, seed_get());
    stop();
}

static void test_order_tcp(void **state)
{
    start();
    order_run(false, seed_get());
    stop();
}

static void test_order_tcp6(void **state)
{
    struct link_tcp tcp = {.count = 0};
    tcp_add(&tcp, AF_INET6, 1);
    if (!can_bind(&tcp.addresses[0], 0)) {
        print_message("skipped: no IPv6 loopback here\n");
        skip();
    }
    start_on(&tcp, 8);
    assert_int_equal(address.family, 6);
    order_run(false, seed_get());
    stop();
}

/* A host with several interfaces is reachable at each of them, on one port. */
static void test_many_addresses(void **state)
{
    struct link_tcp tcp = {.count = 0};
    struct link_address announced;
    tcp_add(&tcp, AF_INET, 2);
    tcp_add(&tcp, AF_INET, 3);
    tcp_add(&tcp, AF_INET, 1);
    tcp_add(&tcp, AF_INET6, 1);
    tcp.count -= !can_bind(&tcp.addresses[3], 0);
    start_on(&tcp, 8);
    announced = address;
    assert_int_equal(announced.ip[3], 2);
    for (unsigned i = 0; i < tcp.count; i++) {
        const struct sockaddr_in6 *in6 = (const void *)&tcp.addresses[i];
        const struct sockaddr_in *in = (const void *)&tcp.addresses[i];
        struct end near = {0};
        address = announced;
        address.family = tcp.addresses[i].ss_family == AF_INET6 ? 6 : 4;
        if (address.family == 6)
            memcpy(address.ip, &in6->sin6_addr, 16);
        else
            memcpy(address.ip, &in->sin_addr, 4);
        assert_int_equal(connect_to(&address, false, &near), TRYST_OK);
        PUMP_UNTIL(accepted_count == (int)i + 1 || near.closed);
        assert_int_equal(near.closed, 0);
        link_close(near.link);
        PUMP_UNTIL(accepted[i].closed == 1);
    }
    stop();
}

/* Listeners use only free ports of the range; a range without a free port is a clear
 * failure. */
static void test_port_range(void **state)
{
    enum { PORTS = 3 };
    struct link_tcp tcp = {.count = 0};
    struct link_listener *listeners[PORTS + 1] = {NULL};
    struct link_address addresses[PORTS + 1];
    unsigned seen = 0;
    uint16_t first = 0;
    tcp_add(&tcp, AF_INET, 1);
    tcp_add(&tcp, AF_INET, 2);
    for (uint16_t port = 20011; !first && port < 30000; port += PORTS) {
        unsigned busy = 0;
        for (int i = 0; i < PORTS; i++)
            busy += !can_bind(&tcp.addresses[0], (uint16_t)(port + i)) ||
                    !can_bind(&tcp.addresses[1], (uint16_t)(port + i));
        first = busy ? 0 : port;
    }
    assert_true(first != 0);
    tcp.ports = (struct port_range){first, (uint16_t)(first + PORTS - 1)};
    assert_int_equal(poller_open(&poller), TRYST_OK);
    for (unsigned i = 0; i <= PORTS; i++) {
        tryst_status status = link_listen(&poller, &quiet, &tcp, 4, on_accepted, NULL,
                                          &listeners[i], &addresses[i]);
        assert_int_equal(status, i < PORTS ? TRYST_OK : TRYST_E_SYSTEM);
        if (status == TRYST_OK)
            seen |= 1u << (addresses[i].port - first);
    }
    assert_int_equal(seen, (1u << PORTS) - 1);
    /* A port that is taken at the second address only is not usable. */
    link_listener_close(listeners[1]);
    int fd = bound_at(&tcp.addresses[1], addresses[1].port);
    assert_true(fd >= 0 && listen(fd, 1) == 0);
    assert_int_equal(link_listen(&poller, &quiet, &tcp, 4, on_accepted, NULL,
                                 &listeners[1], &addresses[1]),
                     TRYST_E_SYSTEM);
    close(fd);
    link_listener_close(listeners[0]);
    link_listener_close(listeners[2]);
    poller_close(&poller);
}

/* Descriptors are also queued when the socket is full. */
static void test_fds_queued(void **state)
{
    enum { MESSAGES = 100 };
    struct end near;
    struct random sizes;
    start();
    join(true, &near);
    random_seed(&sizes, 3);
    random_seed(&accepted[0].sizes, 3);
    while (send_next(&near, &sizes, false) == TRYST_OK && near.sent < MESSAGES)
        ;
    for (int i = 0; i < 60; i++)
        assert_int_equal(send_next(&near, &sizes, i % 3 != 1), TRYST_OK);
    PUMP_UNTIL(accepted[0].received == near.sent);
    assert_int_equal(accepted[0].fds, 40);
    link_close(near.link);
    stop();
}

static void test_fd_over_tcp(void **state)
{
    struct end near;
    start();
    join(false, &near);
    assert_int_equal(link_send(near.link, 0, "x", 1, 0), TRYST_E_UNSUPPORTED);
    link_close(near.link);
    stop();
}

/* ---- backlog ---- */

static void backlog_run(bool via_unix)
{
    struct end near;
    struct random sizes;
    tryst_status status;
    start();
    join(via_unix, &near);
    PUMP_UNTIL(accepted_count == 1);
    pump_ms(5);
    random_seed(&sizes, 5);
    random_seed(&accepted[0].sizes, 5);
    while ((status = send_next(&near, &sizes, false)) == TRYST_OK)
        assert_true(near.sent < 1000000);
    assert_int_equal(status, TRYST_E_PEER);
    assert_int_equal(near.closed, 0); /* never from inside the call */
    assert_int_equal(send_next(&near, &sizes, false), TRYST_E_PEER);
    PUMP_UNTIL(near.closed == 1 && accepted[0].closed == 1);
    assert_int_equal(near.status, TRYST_E_PEER);
    assert_non_null(strstr(near.text, "does not read"));
    assert_true(accepted[0].received > 0 && accepted[0].received < near.sent);
    stop();
}

static void test_backlog_unix(void **state)
{
    backlog_run(true);
}

static void test_backlog_tcp(void **state)
{
    backlog_run(false);
}

/* ---- death of the peer ---- */

enum { LAST_WORDS = 50 };

/* Run a child that connects, sends its last messages, leaves its input unread, and is
 * killed. */
static void child_run(bool via_unix, int go)
{
    struct end near;
    struct random sizes;
    char byte;
    struct poller own;
    random_seed(&sizes, 11);
    memset(&near, 0, sizeof near);
    if (poller_open(&own) != TRYST_OK ||
        link_connect(&own, &quiet, &address, NULL, via_unix, 3 * NS_PER_S, &events, &near,
                     &near.link) != TRYST_OK)
        _exit(1);
    if (!via_unix)
        poller_run(&own, NS_PER_S);
    for (int i = 0; i < LAST_WORDS; i++)
        if (send_next(&near, &sizes, via_unix && i % 5 == 0) != TRYST_OK)
            _exit(2);
    if (read(go, &byte, 1) == 1)
        raise(SIGKILL);
    _exit(3);
}

static void killed_run(bool via_unix)
{
    int go[2], exited;
    start();
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    random_seed(&accepted[0].sizes, 11);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child_run(via_unix, go[0]);
    /* the last messages wait in the socket and must arrive whenever the child dies */
    usleep(100000);
    struct end *far = &accepted[0];
    far->keep_open = true;
    PUMP_UNTIL(accepted_count == 1);
    assert_int_equal(link_peer_pid(far->link), via_unix ? pid : 0);
    uint64_t before = far->received;
    (void)link_send(far->link, 0, "unread", 6, -1);
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_int_equal(waitpid(pid, &exited, 0), pid);
    assert_true(WIFSIGNALED(exited) && WTERMSIG(exited) == SIGKILL);
    /* sees the death by EPIPE before the last messages are read */
    for (int i = 0; i < 3; i++)
        (void)link_send(far->link, 0, "more", 4, -1);
    PUMP_UNTIL(far->closed == 1);
    assert_true(before < LAST_WORDS || far->received == LAST_WORDS);
    assert_int_equal(far->received, LAST_WORDS);
    assert_int_equal(far->fds, via_unix ? LAST_WORDS / 5 : 0);
    assert_int_equal(far->status, TRYST_E_PEER);
    pump_ms(5);
    assert_int_equal(far->closed, 1);
    assert_int_equal(poller_run(&poller, 0), 0); /* the close is reported once */
    close(go[0]);
    close(go[1]);
    stop();
}

static void test_killed_unix(void **state)
{
    killed_run(true);
}

static void test_killed_tcp(void **state)
{
    killed_run(false);
}

static void refused_run(const struct link_address *to, bool via_unix, tryst_status status)
{
    struct end near;
    struct random sizes;
    random_seed(&sizes, 1);
    assert_int_equal(connect_to(to, via_unix, &near), TRYST_OK);
    assert_int_equal(near.closed, 0);
    (void)send_next(&near, &sizes, false);
    PUMP_UNTIL(near.closed == 1);
    assert_int_equal(near.status, status);
}

static void test_refused(void **state)
{
    start();
    struct link_address nobody = address;
    nobody.listener_id ^= 1;
    refused_run(&nobody, true, TRYST_E_PEER);
    struct sockaddr_in tcp = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof tcp;
    int fd =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, but never listening */
    assert_int_equal(bind(fd, (struct sockaddr *)&tcp, sizeof tcp), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&tcp, &bytes), 0);
    nobody.port = ntohs(tcp.sin_port);
    refused_run(&nobody, false, TRYST_E_PEER);
    close(fd);
    nobody.family = 0;
    refused_run(&nobody, false, TRYST_E_UNREACHABLE);
    refuse_accept = true; /* accepted, and closed by the callee */
    refused_run(&address, true, TRYST_E_PEER);
    refused_run(&address, false, TRYST_E_PEER);
    stop();
}

/* Listen with a queue of a few connections; return the id of the listener's name. */
static int small_listen(uint64_t id)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "tryst-%016llx",
                          (unsigned long long)id);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, bytes), 0);
    assert_int_equal(listen(fd, 3), 0);
    return fd;
}

/* Many connect at once: a connection that finds the queue full retries, and none of them
 * fails. */
static void test_queue_full(void **state)
{
    enum { MANY = 80 };
    static struct end ends[MANY];
    int fds[MANY], taken = 0, open = 0, again = 0;
    start();
    struct link_address small = {.listener_id = address.listener_id ^ 2};
    int fd = small_listen(small.listener_id);
    while (open < MANY) {
        int before = open;
        tryst_status status = TRYST_OK;
        while (open < MANY && status == TRYST_OK) {
            status = connect_to(&small, true, &ends[open]);
            open += status == TRYST_OK;
        }
        again += status == TRYST_AGAIN;
        assert_true(status == TRYST_OK || status == TRYST_AGAIN);
        /* the queue, and one connection that is being accepted */
        assert_true(open - before <= 4);
        pump_ms(1);
        while (taken < open)
            fds[taken++] = accept(fd, NULL, NULL);
    }
    assert_true(again >= MANY / 4 - 1);
    pump_ms(10);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(ends[i].closed, 0);
        link_close(ends[i].link);
        close(fds[i]);
    }
    close(fd);
    stop();
}

/* The last message before a close arrives, although the closing side had unread bytes. */
static void last_word_run(bool via_unix)
{
    struct end near;
    struct random near_sizes, far_sizes;
    start();
    join(via_unix, &near);
    random_seed(&near_sizes, 1);
    random_seed(&far_sizes, 2);
    random_seed(&accepted[0].sizes, 1);
    for (int i = 0; i < 20; i++)
        assert_int_equal(send_next(&accepted[0], &far_sizes, false), TRYST_OK);
    usleep(1000);
    for (int i = 0; i < 20; i++)
        assert_int_equal(send_next(&near, &near_sizes, false), TRYST_OK);
    link_close(near.link);
    PUMP_UNTIL(accepted[0].closed == 1);
    assert_int_equal(accepted[0].received, 20);
    stop();
}

static void test_last_word(void **state)
{
    last_word_run(true);
    last_word_run(false);
}

/* The last message of a rank that leaves is queued behind many bytes that a busy peer has
 * not read: the close still sends the message. */
static void test_last_word_queued(void **state)
{
    struct end near;
    struct random sizes;
    start();
    join(true, &near);
    PUMP_UNTIL(accepted_count == 1);
    random_seed(&sizes, 7);
    random_seed(&accepted[0].sizes, 7);
    while (link_is_flushed(near.link))
        assert_int_equal(send_next(&near, &sizes, false), TRYST_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(send_next(&near, &sizes, false), TRYST_OK);
    assert_false(link_is_flushed(near.link));
    link_close(near.link);
    PUMP_UNTIL(accepted[0].closed == 1);
    assert_int_equal(accepted[0].received, near.sent);
    stop();
}

/* ---- raw peers ---- */

static int raw_connect(bool via_unix)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(address.port)};
    int length = snprintf(un.sun_path + 1, sizeof un.sun_path - 1, "tryst-%016llx",
                          (unsigned long long)address.listener_id);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(via_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc =
        via_unix
            ? connect(fd, (struct sockaddr *)&un,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length))
            : connect(fd, (struct sockaddr *)&in, sizeof in);
    assert_int_equal(rc, 0);
    return fd;
}

static void raw_send(int fd, const void *data, size_t bytes, int pass_count)
{
    char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec iov = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (pass_count) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)pass_count * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN((size_t)pass_count * sizeof(int));
        memset(CMSG_DATA(cmsg), 0,
               (size_t)pass_count * sizeof(int)); /* descriptor 0, pass_count times */
    }
    assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), bytes);
}

struct hostile {
    const char *name;
    struct link_header header;
    size_t bytes; /* sent after the header */
    int fds;
    bool tcp;
    const char *says;
};

static const struct hostile hostiles[] = {
    {"wrong mark", {8, 0, 0, 0x1234}, 8, 0, false, "a wrong magic"},
    {"wrong mark over TCP", {8, 0, 0, 0x1234}, 8, 0, true, "a wrong magic"},
    {"too long", {LINK_MESSAGE_MAX + 1, 0, 0, LINK_MAGIC}, 64, 0, false, "too long"},
    {"as long as can be", {UINT32_MAX, 0, 0, LINK_MAGIC}, 64, 0, true, "too long"},
    {"unknown flag", {8, 0, 4, LINK_MAGIC}, 8, 0, false, "flag"},
    {"no descriptor", {8, 0, 1, LINK_MAGIC}, 8, 0, false, "lacks its descriptor"},
    {"a descriptor over TCP", {8, 0, 1, LINK_MAGIC}, 8, 0, true, "lacks its descriptor"},
    {"a descriptor too many", {8, 0, 1, LINK_MAGIC}, 8, 2, false, "without messages"},
    {"a descriptor for nothing", {0, 0, 0, LINK_MAGIC}, 0, 1, false, "without messages"},
    {"many descriptors", {8, 0, 1, LINK_MAGIC}, 8, 8, false, ""},
};

static void swallow_message(void *arg, struct link *link, uint8_t type, const void *data,
                            size_t bytes, int fd)
{
    struct end *end = arg;
    end->received++;
    if (fd >= 0)
        close(fd);
}

static const struct link_events swallow = {swallow_message, on_closed};

static void test_hostile(void **state)
{
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        const struct hostile *row = &hostiles[i];
        uint8_t data[256] = {0};
        start();
        int fd = raw_connect(!row->tcp);
        PUMP_UNTIL(accepted_count == 1);
        link_events_set(accepted[0].link, &swallow, &accepted[0]);
        memcpy(data, &row->header, sizeof row->header);
        raw_send(fd, data, sizeof row->header + row->bytes, row->fds);
        PUMP_UNTIL(accepted[0].closed == 1);
        if (accepted[0].status != TRYST_E_PROTOCOL && row->fds < 8)
            fail_msg("%s: status %d, %s", row->name, accepted[0].status,
                     accepted[0].text);
        if (!strstr(accepted[0].text, row->says))
            fail_msg("%s: the text is \"%s\"", row->name, accepted[0].text);
        close(fd);
        stop();
    }
}

/* Random bytes, and good messages with random faults: the link closes or goes on, and no
 * memory leaks. */
static void test_fuzz(void **state)
{
    struct random random;
    random_seed(&random, seed_get());
    start();
    for (int round = 0; round < 1500; round++) {
        uint8_t data[600];
        struct link_header header = {(uint32_t)random_range(&random, 64), 0, 0,
                                     LINK_MAGIC};
        accepted_count = 0;
        memset(&accepted[0], 0, sizeof accepted[0]);
        int fd = raw_connect(round % 2);
        PUMP_UNTIL(accepted_count == 1);
        link_events_set(accepted[0].link, &swallow, &accepted[0]);
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (uint8_t)random_u64(&random);
        if (round % 3)
            memcpy(data, &header, sizeof header);
        if (round % 3 == 2)
            data[random_range(&random, 8)] ^= (uint8_t)(1u << random_range(&random, 8));
        for (size_t at = 0; at < sizeof data && !accepted[0].closed;) {
            size_t piece = 1 + random_range(&random, 200);
            piece = piece > sizeof data - at ? sizeof data - at : piece;
            ssize_t sent = send(fd, data + at, piece, MSG_NOSIGNAL);
            if (sent <= 0)
                break;
            at += (size_t)sent;
            poller_run(&poller, 0);
        }
        close(fd);
        PUMP_UNTIL(accepted[0].closed == 1);
    }
    accepted_count = 0;
    stop();
}

/* A message that arrives byte by byte, then half a message, then the end. */
static void test_half(void **state)
{
    for (int via_unix = 0; via_unix < 2; via_unix++) {
        uint8_t data[sizeof(struct link_header) + 100];
        struct link_header header = {100, 0, 0, LINK_MAGIC};
        start();
        int fd = raw_connect(via_unix);
        PUMP_UNTIL(accepted_count == 1);
        link_events_set(accepted[0].link, &swallow, &accepted[0]);
        memset(data, 7, sizeof data);
        memcpy(data, &header, sizeof header);
        for (size_t i = 0; i < sizeof data; i++) {
            assert_int_equal(accepted[0].received, 0);
            assert_int_equal(send(fd, data + i, 1, MSG_NOSIGNAL), 1);
            PUMP_UNTIL(poller_run(&poller, 0) == 0);
        }
        PUMP_UNTIL(accepted[0].received == 1);
        assert_int_equal(send(fd, data, 50, MSG_NOSIGNAL), 50);
        close(fd);
        PUMP_UNTIL(accepted[0].closed == 1);
        assert_int_equal(accepted[0].received, 1);
        assert_int_equal(accepted[0].status, TRYST_E_PEER);
        assert_non_null(strstr(accepted[0].text, "inside a message"));
        stop();
    }
}

/* ---- bounds ---- */

static void test_pending_bound(void **state)
{
    struct link_tcp tcp = {.count = 0};
    int fds[10];
    struct link_header header = {0, 0, 0, LINK_MAGIC};
    tcp_add(&tcp, AF_INET, 1);
    start_on(&tcp, 4);
    fds[0] = raw_connect(true);
    PUMP_UNTIL(accepted_count == 1);
    link_events_set(accepted[0].link, &swallow, &accepted[0]);
    /* this connection has sent bytes and is kept */
    raw_send(fds[0], &header, sizeof header, 0);
    PUMP_UNTIL(accepted[0].received == 1);
    uint64_t before_ns = clock_monotonic_ns(); /* the timeout runs from the accept */
    for (int i = 1; i < 10; i++) {
        fds[i] = raw_connect(i % 2);
        PUMP_UNTIL(accepted_count == i + 1);
    }
    PUMP_UNTIL(accepted[5].closed == 1);
    for (int i = 0; i < 10; i++) /* the oldest was dropped first */
        assert_int_equal(accepted[i].closed, i >= 1 && i <= 5);
    assert_int_equal(accepted[1].status, TRYST_E_TIMEOUT);
    link_listener_tick(listener, before_ns + 4 * NS_PER_S);
    pump_ms(5);
    assert_int_equal(accepted[9].closed, 0);
    link_listener_tick(listener, clock_monotonic_ns() + 6 * NS_PER_S);
    PUMP_UNTIL(accepted[9].closed == 1);
    for (int i = 1; i < 10; i++)
        assert_int_equal(accepted[i].closed, 1);
    assert_int_equal(accepted[0].closed, 0);
    struct link_listener_counters counters = link_listener_counters(listener);
    assert_int_equal(counters.accepted, 10);
    assert_int_equal(counters.silent, 9);
    assert_int_equal(log_lines, 1); /* one line, the rest suppressed */
    for (int i = 0; i < 10; i++)
        close(fds[i]);
    stop();
}

/* A dropped connection stays dropped, even if it has sent bytes meanwhile: its peer would
 * see an accepted link break. */
static void test_dropped_unread(void **state)
{
    int fds[5];
    struct link_header header = {0, 0, 0, LINK_MAGIC};
    start_on(NULL, 4);
    for (int i = 0; i < 5; i++) {
        fds[i] = raw_connect(true);
        raw_send(fds[i], &header, sizeof header, 0);
    }
    PUMP_UNTIL(accepted_count == 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(accepted[i].received, 0);
        link_events_set(accepted[i].link, &swallow, &accepted[i]);
    }
    PUMP_UNTIL(accepted[0].closed == 1 && accepted[4].received == 1);
    assert_int_equal(accepted[0].received, 0);
    assert_int_equal(accepted[0].status, TRYST_E_TIMEOUT);
    for (int i = 1; i < 5; i++)
        PUMP_UNTIL(accepted[i].received == 1);
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    stop();
}

/* The listener was not polled for longer than an accepted connection may be silent, but
 * the connection has sent bytes meanwhile: a later connection does not cause it to be
 * dropped unread. */
static void test_spoke_while_nobody_looked(void **state)
{
    int fds[2];
    struct link_header header = {0, 0, 0, LINK_MAGIC};
    start();
    fds[0] = raw_connect(true);
    PUMP_UNTIL(accepted_count == 1);
    link_events_set(accepted[0].link, &swallow, &accepted[0]);
    fds[1] = raw_connect(true); /* the listener is polled before the link */
    raw_send(fds[0], &header, sizeof header, 0);
    clock_ahead_ns = 6 * NS_PER_S;
    PUMP_UNTIL(accepted_count == 2 && accepted[0].received + accepted[0].closed > 0);
    clock_ahead_ns = 0;
    assert_int_equal(accepted[0].closed, 0);
    assert_int_equal(accepted[0].received, 1);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    stop();
}

static void test_foreign_user(void **state)
{
    enum { SAME_USER = 77 };
    int exited;
    start();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char byte;
        if (setresuid(65534, 65534, 65534) != 0)
            _exit(SAME_USER);
        int fd = raw_connect(true);
        _exit(recv(fd, &byte, 1, 0) == 0 ? 0 : 2); /* closed without a reply */
    }
    PUMP_UNTIL(waitpid(pid, &exited, WNOHANG) == pid);
    if (WIFEXITED(exited) && WEXITSTATUS(exited) == SAME_USER) {
        stop();
        print_message("skipped: this process cannot become another user\n");
        skip();
    }
    assert_int_equal(exited, 0);
    assert_int_equal(accepted_count, 0);
    assert_int_equal(link_listener_counters(listener).foreign, 1);
    assert_int_equal(log_lines, 1);
    assert_int_equal(last_level, TRYST_LOG_WARN);
    stop();
}

/* Forbid new descriptors from here on; return the old limit. */
static struct rlimit descriptors_end(void)
{
    struct rlimit before;
    int lowest = dup(0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit now = {.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    return before;
}

/* Out of descriptors: the connection is refused with the reason, and epoll does not keep
 * reporting the listener. */
static void no_descriptors(bool via_unix)
{
    struct end near;
    start();
    int first = raw_connect(via_unix);
    assert_int_equal(connect_to(&address, via_unix, &near), TRYST_OK);
    assert_int_equal(link_send(near.link, 0, "hello", 5, -1), TRYST_OK);
    struct rlimit before = descriptors_end();
    PUMP_UNTIL(near.closed && link_listener_counters(listener).failed >= 2);
    for (int i = 0; i < 10; i++)
        poller_run(&poller, NS_PER_MS);
    int idle = poller_run(&poller, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(idle, 0);
    assert_int_equal(accepted_count, 0);
    assert_int_equal(link_listener_counters(listener).failed, 2);
    assert_int_equal(near.closed, 1);
    assert_int_equal(near.status, TRYST_E_SYSTEM);
    assert_non_null(strstr(near.text, "ulimit -n"));
    close(first);
    first = raw_connect(true);
    PUMP_UNTIL(accepted_count == 1);
    close(first);
    PUMP_UNTIL(accepted[0].closed == 1);
    stop();
}

static void test_no_descriptors(void **state)
{
    no_descriptors(true);
    no_descriptors(false);
}

/* If a descriptor cannot be received, its message still arrives, and the messages behind
 * it do too. */
static void test_descriptor_lost(void **state)
{
    struct end near;
    struct random sizes;
    start();
    join(true, &near);
    random_seed(&sizes, 3);
    random_seed(&accepted[0].sizes, 3);
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_next(&near, &sizes, i % 2), TRYST_OK);
    struct rlimit before = descriptors_end();
    PUMP_UNTIL(accepted[0].received == 10 || accepted[0].closed);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(accepted[0].closed, 0);
    assert_int_equal(accepted[0].fds_lost, 5);
    assert_int_equal(log_lines, 1);
    assert_int_equal(send_next(&near, &sizes, true), TRYST_OK);
    PUMP_UNTIL(accepted[0].fds == 1);
    link_close(near.link);
    stop();
}

/* Send more descriptors than the kernel allows one user in flight. The machine's root has
 * no limit; the root of a user namespace cannot become another user, and has the limit.
 * Return 0, or the number of the step that failed. */
static int send_too_many(struct link *link)
{
    enum { TIMES = 64, LIMIT = 16 };
    struct rlimit limit = {LIMIT, LIMIT};
    tryst_status status = TRYST_OK;
    int sent = 0;
    if (setresuid(65534, 65534, 65534) != 0 && errno != EPERM && errno != EINVAL)
        return 1;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    while (status == TRYST_OK && sent < TIMES)
        status = link_send(link, 0, "region", 6, 0), sent++;
    if (status != TRYST_E_SYSTEM)
        return 3;
    return link_send(link, 0, "no region", 9, -1) == TRYST_OK ? 0 : 4;
}

static void test_too_many_on_their_way(void **state)
{
    struct end near;
    int exited;
    start();
    join(true, &near);
    link_events_set(accepted[0].link, &swallow, &accepted[0]);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(send_too_many(near.link));
    assert_int_equal(waitpid(pid, &exited, 0), pid);
    assert_int_equal(exited, 0);
    PUMP_UNTIL(accepted[0].received > 10);
    assert_int_equal(accepted[0].closed, 0);
    link_close(near.link);
    stop();
}

/* ---- from inside an event ---- */

static void test_close_inside(void **state)
{
    struct end near;
    struct random sizes;
    start();
    join(true, &near);
    random_seed(&sizes, 2);
    random_seed(&accepted[0].sizes, 2);
    accepted[0].close_at_message = true;
    for (int i = 0; i < 5; i++)
        assert_int_equal(send_next(&near, &sizes, true), TRYST_OK);
    PUMP_UNTIL(near.closed == 1);
    assert_int_equal(accepted[0].received, 1);
    assert_int_equal(accepted[0].closed, 0);
    stop();
}

static void echo_message(void *arg, struct link *link, uint8_t type, const void *data,
                         size_t bytes, int fd)
{
    assert_int_equal(link_send(link, type, data, bytes, fd), TRYST_OK);
    if (fd >= 0)
        close(fd);
}

static const struct link_events echo = {echo_message, on_closed};

static void test_echo(void **state)
{
    struct end near;
    struct random sizes;
    start();
    join(true, &near);
    link_events_set(accepted[0].link, &echo, &accepted[0]);
    random_seed(&sizes, 2);
    random_seed(&near.sizes, 2);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(send_next(&near, &sizes, i % 3 == 0), TRYST_OK);
        if (i % 40 == 39)
            PUMP_UNTIL(near.received == near.sent);
    }
    PUMP_UNTIL(near.received == near.sent);
    assert_int_equal(near.fds, 167);
    link_close(near.link);
    stop();
}

/* ---- costs and failures ---- */

static void test_idle_cost(void **state)
{
    struct end near;
    struct random sizes;
    start();
    int live = (int)alloc_live_count(), fds = descriptors_open();
    join(true, &near);
    random_seed(&sizes, 2);
    random_seed(&accepted[0].sizes, 2);
    for (int i = 0; i < 200; i++)
        assert_int_equal(send_next(&near, &sizes, false), TRYST_OK);
    PUMP_UNTIL(accepted[0].received == 200);
    assert_int_equal(alloc_live_count(), live + 2);
    assert_int_equal(descriptors_open(), fds + 2);
    link_close(near.link);
    stop();
}

static void test_open_close(void **state)
{
    int live = (int)alloc_live_count(), fds = descriptors_open();
    for (int i = 0; i < 1000; i++) {
        struct end near;
        struct random sizes;
        bool via_unix = i % 2;
        start();
        join(via_unix, &near);
        random_seed(&sizes, 2);
        random_seed(&accepted[0].sizes, 2);
        for (int k = 0; k < i % 5; k++)
            assert_int_equal(send_next(&near, &sizes, via_unix), TRYST_OK);
        if (i % 3)
            pump_ms(0);
        link_close(near.link);
        if (i % 3 == 2)
            PUMP_UNTIL(accepted[0].closed == 1);
        stop();
    }
    assert_int_equal(alloc_live_count(), live);
    assert_int_equal(descriptors_open(), fds);
}

/* Run everything that allocates, with the nth allocation failing: messages come in order
 * or the link closes, and memory and descriptors come back. True if no allocation
 * failed. */
static bool failure_step(uint64_t nth)
{
    struct link_tcp tcp = {.count = 0};
    struct end near = {0};
    struct random sizes;
    live_before = (int)alloc_live_count();
    fds_before = descriptors_open();
    memset(accepted, 0, sizeof accepted);
    accepted_count = 0;
    random_seed(&sizes, 9);
    random_seed(&accepted[0].sizes, 9);
    tcp_add(&tcp, AF_INET, 1);
    assert_int_equal(poller_open(&poller), TRYST_OK);
    listener = NULL;
    alloc_fail_at(nth);
    tryst_status status =
        link_listen(&poller, &quiet, &tcp, 4, on_accepted, NULL, &listener, &address);
    assert_true(status == TRYST_OK || status == TRYST_E_NOMEM);
    if (status == TRYST_OK)
        status = connect_to(&address, nth % 2, &near);
    assert_true(status == TRYST_OK || status == TRYST_E_NOMEM);
    if (status == TRYST_OK) {
        while (near.sent < 150 && !near.closed) {
            status = send_next(&near, &sizes, nth % 2 && near.sent % 3 == 0);
            if (status == TRYST_OK)
                continue;
            assert_true(status == TRYST_E_NOMEM || status == TRYST_E_PEER);
            if (status == TRYST_E_PEER)
                break;
        }
        PUMP_UNTIL(near.closed || accepted[0].received == near.sent);
    }
    bool failed = alloc_fail_off();
    if (near.link)
        link_close(near.link);
    stop();
    return !failed;
}

static void test_allocation_failures(void **state)
{
    uint64_t nth = 1;
    while (!failure_step(nth))
        nth++;
    assert_true(nth > 10);
    print_message("walked over %llu allocations\n", (unsigned long long)nth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_unix),
        cmocka_unit_test(test_order_tcp),
        cmocka_unit_test(test_order_tcp6),
        cmocka_unit_test(test_many_addresses),
        cmocka_unit_test(test_port_range),
        cmocka_unit_test(test_fds_queued),
        cmocka_unit_test(test_fd_over_tcp),
        cmocka_unit_test(test_backlog_unix),
        cmocka_unit_test(test_backlog_tcp),
        cmocka_unit_test(test_killed_unix),
        cmocka_unit_test(test_killed_tcp),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_queue_full),
        cmocka_unit_test(test_last_word),
        cmocka_unit_test(test_last_word_queued),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_fuzz),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_pending_bound),
        cmocka_unit_test(test_dropped_unread),
        cmocka_unit_test(test_spoke_while_nobody_looked),
        cmocka_unit_test(test_foreign_user),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_descriptor_lost),
        cmocka_unit_test(test_too_many_on_their_way),
        cmocka_unit_test(test_close_inside),
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_idle_cost),
        cmocka_unit_test(test_open_close),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
