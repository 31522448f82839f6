/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ofi module by itself: how the module uses libfabric, which the conformance suite
 * cannot test. Two ranks in one thread, each with a rail; the stopped rank is a process.
 */
#define MODULE_NAME "ofi"
#include "module_rank.h"
#include "support/patience.h"

// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { WAIT_S = 60 };

static uint64_t deadline_ns;
static struct module_rank ranks[2];
static int links[2];

static void deadline_set(void)
{
    deadline_ns = clock_monotonic_ns() + patience_ns(WAIT_S * NS_PER_S);
}

static void turn(void)
{
    assert_true(clock_monotonic_ns() < deadline_ns);
    (void)rank_progress(&ranks[0]);
    (void)rank_progress(&ranks[1]);
}

#define UNTIL(condition)     \
    do {                     \
        deadline_set();      \
        while (!(condition)) \
            turn();          \
    } while (0)

static void rails_open(const struct sockaddr *address)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, links), 0);
    for (int me = 0; me < 2; me++) {
        assert_int_equal(rank_start(&ranks[me]), TRYST_OK);
        assert_int_equal(rank_rail_open_at(&ranks[me], "lo", address, true), TRYST_OK);
    }
}

static void pair_connect(uint64_t cookie0, uint64_t cookie1)
{
    assert_int_equal(rank_ep_open(&ranks[0], 0, links[0], cookie0), TRYST_OK);
    assert_int_equal(rank_ep_open(&ranks[1], 1, links[1], cookie1), TRYST_OK);
}

static void pair_close(void)
{
    for (int me = 0; me < 2; me++)
        if (ranks[me].ep)
            ranks[me].rail->ops->ep_close(ranks[me].ep);
    UNTIL(!ranks[0].ep && !ranks[1].ep);
    for (int me = 0; me < 2; me++) {
        rank_stop(&ranks[me]);
        close(links[me]);
    }
}

static const struct sockaddr_in loopback4 = {.sin_family = AF_INET,
                                             .sin_addr.s_addr = 0x0100007f};

static void pair_open(const void *address)
{
    rails_open(address);
    pair_connect(77, 77);
    UNTIL(ranks[0].ready && ranks[1].ready);
    assert_int_equal(ranks[0].ready_status, TRYST_OK);
    assert_int_equal(ranks[1].ready_status, TRYST_OK);
}

struct test_bulk {
    struct bulk bulk;
    int done;
    tryst_status status;
    size_t bytes;
};

static void bulk_done(struct bulk *bulk, tryst_status status, size_t bytes)
{
    struct test_bulk *test = (struct test_bulk *)bulk;
    test->done++;
    test->status = status;
    test->bytes = bytes;
}

static void bulk_set(struct test_bulk *test, uint64_t tag, void *data, size_t bytes)
{
    *test = (struct test_bulk){
        .bulk = {.done = bulk_done, .tag = tag, .data = data, .bytes = bytes}};
}

/* Move a bulk one way; as in the library, a frame announces the posted receive to the
 * sender. */
static void bulk_move(struct module_rank *from, struct module_rank *to, uint64_t tag,
                      size_t bytes)
{
    struct test_bulk send, recv;
    unsigned char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
    int frames = from->frames;
    memset(out, 0x31 + (int)tag, bytes);
    memset(in, 0, bytes);
    bulk_set(&recv, tag, in, bytes);
    bulk_set(&send, tag, out, bytes);
    assert_int_equal(to->rail->ops->bulk_recv(to->ep, &recv.bulk), TRYST_OK);
    assert_int_equal(transport_frame_send(to->rail->ops, to->ep, "posted", 6), TRYST_OK);
    UNTIL(from->frames > frames);
    assert_int_equal(from->rail->ops->bulk_send(from->ep, &send.bulk), TRYST_OK);
    UNTIL(send.done && recv.done);
    assert_int_equal(send.status, TRYST_OK);
    assert_int_equal(recv.status, TRYST_OK);
    assert_int_equal(recv.bytes, bytes);
    assert_memory_equal(in, out, bytes);
    free(in);
    free(out);
}

static void over_ipv6(void **state)
{
    const struct sockaddr_in6 loopback6 = {.sin6_family = AF_INET6,
                                           .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool there =
        fd >= 0 && bind(fd, (const struct sockaddr *)&loopback6, sizeof loopback6) == 0;
    (void)state;
    if (fd >= 0)
        close(fd);
    if (!there) {
        print_message("skipped: no IPv6 here\n");
        skip();
    }
    pair_open(&loopback6);
    bulk_move(&ranks[0], &ranks[1], 1, 300000);
    bulk_move(&ranks[1], &ranks[0], 2, 1000);
    pair_close();
}

static bool port_listens(uint16_t port)
{
    char line[256], wanted[32];
    bool found = false;
    FILE *file = fopen("/proc/net/tcp", "r");
    (void)snprintf(wanted, sizeof wanted, " 0100007F:%04X 00000000:0000 0A", port);
    while (file && fgets(line, sizeof line, file))
        found = found || strstr(line, wanted);
    if (file)
        (void)fclose(file);
    return found;
}

/* Two rails and the two endpoints of a pair listen on the four ports of the range; a
 * fifth listener fails. */
static void port_range(void **state)
{
    uint16_t first = (uint16_t)(23000 + getpid() % 1000 * 4);
    static struct module_rank fifth;
    char range[32];
    (void)state;
    (void)snprintf(range, sizeof range, "%d-%d", first, first + 3);
    (void)setenv("TRYST_PORT_RANGE", range, 1);
    pair_open(&loopback4);
    bulk_move(&ranks[0], &ranks[1], 1, 1000);
    for (uint16_t i = 0; i < 4; i++)
        assert_true(port_listens((uint16_t)(first + i)));
    assert_int_equal(rank_start(&fifth), TRYST_OK);
    assert_int_equal(
        rank_rail_open_at(&fifth, "lo", (const struct sockaddr *)&loopback4, true),
        TRYST_E_SYSTEM);
    assert_non_null(strstr(fifth.log_text, "in use"));
    rank_stop(&fifth);
    (void)unsetenv("TRYST_PORT_RANGE");
    pair_close();
}

static void loopback(void **state)
{
    struct test_bulk send, recv;
    char out[5000] = "to myself", in[5000] = "";
    (void)state;
    assert_int_equal(rank_start(&ranks[0]), TRYST_OK);
    assert_int_equal(
        rank_rail_open_at(&ranks[0], "lo", (const struct sockaddr *)&loopback4, true),
        TRYST_OK);
    assert_int_equal(rank_ep_open(&ranks[0], 0, -1, 5), TRYST_OK);
    deadline_set();
    while (!ranks[0].ready && clock_monotonic_ns() < deadline_ns)
        (void)rank_progress(&ranks[0]);
    assert_int_equal(ranks[0].ready_status, TRYST_OK);
    bulk_set(&recv, 9, in, sizeof in);
    bulk_set(&send, 9, out, sizeof out);
    assert_int_equal(ranks[0].rail->ops->bulk_recv(ranks[0].ep, &recv.bulk), TRYST_OK);
    assert_int_equal(ranks[0].rail->ops->bulk_send(ranks[0].ep, &send.bulk), TRYST_OK);
    while (!(recv.done && send.done) && clock_monotonic_ns() < deadline_ns)
        (void)rank_progress(&ranks[0]);
    assert_int_equal(recv.status, TRYST_OK);
    assert_string_equal(in, "to myself");
    assert_int_equal(ranks[0].unexpected, 0);
    ranks[0].rail->ops->ep_close(ranks[0].ep);
    while (ranks[0].ep && clock_monotonic_ns() < deadline_ns)
        (void)rank_progress(&ranks[0]);
    assert_null(ranks[0].ep);
    rank_stop(&ranks[0]);
}

/* Without random bytes there is no id for an endpoint, and so no endpoint. */
static void no_secret_no_endpoint(void **state)
{
    (void)state;
    assert_int_equal(rank_start(&ranks[0]), TRYST_OK);
    assert_int_equal(
        rank_rail_open_at(&ranks[0], "lo", (const struct sockaddr *)&loopback4, true),
        TRYST_OK);
    assert_true(rank_needs_secret(&ranks[0]));
    rank_stop(&ranks[0]);
}

static bool no_copies; /* for the module; libfabric itself copies, too */

/* In place of libfabric's function. */
struct fi_info *fi_dupinfo(const struct fi_info *info)
    __attribute__((visibility("default")));

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    static struct fi_info *(*real)(const struct fi_info *);
    void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD);
    Dl_info caller = {.dli_fname = ""};
    if (!real && library)
        *(void **)&real = dlsym(library, "fi_dupinfo");
    (void)dladdr(__builtin_return_address(0), &caller);
    bool refused = info && no_copies && strstr(caller.dli_fname, "tryst_ofi");
    return refused || !real ? NULL : real(info);
}

/* The rail's description of the fabric cannot be copied: the rail does not open, and the
 * log has the reason. */
static void description_without_memory(void **state)
{
    (void)state;
    assert_int_equal(rank_start(&ranks[0]), TRYST_OK);
    no_copies = true;
    assert_int_equal(
        rank_rail_open_at(&ranks[0], "lo", (const struct sockaddr *)&loopback4, true),
        TRYST_E_NOMEM);
    no_copies = false;
    assert_non_null(strstr(ranks[0].log_text, "cannot open: out of memory"));
    rank_stop(&ranks[0]);
}

static void wrong_cookie_is_dropped(void **state)
{
    uint64_t until = clock_monotonic_ns() + patience_ns(NS_PER_S);
    (void)state;
    rails_open((const struct sockaddr *)&loopback4);
    ranks[1].log.level = TRYST_LOG_INFO;
    pair_connect(77, 78);
    deadline_set();
    while (clock_monotonic_ns() < until)
        turn();
    assert_int_equal(ranks[0].ready + ranks[1].ready, 0);
    pair_close();
    assert_non_null(strstr(ranks[1].log_text, "with a wrong cookie or endpoint"));
}

/* Change the first message of the peer's endpoint, deliver it, and expect `why` in the
 * error text. */
static void connect_changed(size_t at, unsigned char value, size_t bytes_less,
                            const char *why)
{
    char message[4352];
    ssize_t bytes = -1;
    rails_open((const struct sockaddr *)&loopback4);
    assert_int_equal(rank_ep_open(&ranks[0], 0, links[0], 1), TRYST_OK);
    deadline_set();
    while (bytes < 0 && clock_monotonic_ns() < deadline_ns) {
        (void)ranks[0].rail->ops->progress(ranks[0].rail);
        bytes = recv(links[1], message, sizeof message, MSG_DONTWAIT);
    }
    assert_true(bytes > 48);
    message[at] = (char)value;
    ranks[0].rail->ops->ep_message(ranks[0].ep, message, (size_t)bytes - bytes_less, -1);
    while (!ranks[0].ready && clock_monotonic_ns() < deadline_ns)
        (void)ranks[0].rail->ops->progress(ranks[0].rail);
    assert_int_equal(ranks[0].ready_status, TRYST_E_UNREACHABLE);
    if (!strstr(ranks[0].text, why))
        fail_msg("\"%s\" does not contain \"%s\"", ranks[0].text, why);
    pair_close();
}

static void bad_connect_messages(void **state)
{
    (void)state;
    connect_changed(0, 'X', 0, "not a connect message");
    connect_changed(4, 9, 0, "not a connect message");
    connect_changed(16, 'X', 0, "set FI_PROVIDER to one value");
    connect_changed(0, 'T', 60, "a connect message of");
}

/* Return a hash of all variables of the environment. */
static uint64_t environment_sum(void)
{
    uint64_t sum = 0;
    for (char **at = environ; *at; at++)
        for (const char *c = *at; *c; c++)
            sum = sum * 31 + (unsigned char)*c;
    return sum;
}

/* After libfabric is loaded and rails and endpoints are opened, signal handlers, mask and
 * environment are unchanged. */
static void process_is_left_alone(void **state)
{
    struct sigaction before[65], after;
    sigset_t mask_before = {0}, mask_after = {0};
    uint64_t environment = environment_sum();
    (void)state;
    for (int i = 1; i < 65; i++)
        (void)sigaction(i, NULL, &before[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    pair_open(&loopback4);
    bulk_move(&ranks[0], &ranks[1], 1, 70000);
    pair_close();
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    assert_memory_equal(&mask_before, &mask_after, sizeof mask_before);
    for (int i = 1; i < 65; i++)
        if (i != 32 && i != 33 && sigaction(i, NULL, &after) == 0)
            assert_ptr_equal(before[i].sa_handler, after.sa_handler);
    assert_true(environment == environment_sum());
    assert_string_equal(ranks[0].log_text, "");
}

/* Run `body` in a child, because libfabric reads the variable once. */
static void child_run(const char *provider, int (*body)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        (void)setenv("FI_PROVIDER", provider, 1);
        _exit(body());
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* libfabric's shared memory installs handlers when an endpoint opens; it is refused where
 * TRYST_HOST_ID overrides the identity of the host. */
static int shm_body(void)
{
    static struct module_rank rank;
    struct sigaction before, after;
    if (sigaction(SIGTERM, NULL, &before) != 0 || rank_start(&rank) != TRYST_OK)
        return 1;
    if (rank_rail_open(&rank, "lo", false) != TRYST_E_UNSUPPORTED ||
        !strstr(rank.log_text, "TRYST_HOST_ID"))
        return 2;
    if (rank_rail_open(&rank, "lo", true) != TRYST_OK)
        return 3;
    if (sigaction(SIGTERM, NULL, &after) != 0 || before.sa_handler != after.sa_handler)
        return 4;
    if (rank.rail->ops->arm(rank.rail) != TRYST_E_UNSUPPORTED) /* no descriptor */
        return 5;
    rank_stop(&rank);
    return 0;
}

static int nothing_body(void)
{
    static struct module_rank rank;
    if (rank_start(&rank) != TRYST_OK)
        return 1;
    return rank_rail_open(&rank, "lo", true) == TRYST_E_UNSUPPORTED ? 0 : 2;
}

static void providers_by_name(void **state)
{
    (void)state;
    child_run("shm", shm_body);
    child_run("there_is_no_such_provider", nothing_body);
}

/* ---- a stopped peer ---- */

static _Noreturn void victim(bool sends, size_t bytes)
{
    static struct module_rank rank;
    static struct test_bulk bulk;
    unsigned char *data = malloc(bytes);
    /* end with the parent, also when the test fails */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(data, 7, bytes);
    if (rank_start(&rank) != TRYST_OK ||
        rank_rail_open_at(&rank, "lo", (const struct sockaddr *)&loopback4, true) !=
            TRYST_OK ||
        rank_ep_open(&rank, 1, links[1], 3) != TRYST_OK)
        _exit(1);
    while (!rank.ready || (sends && !rank.frames))
        (void)rank_progress(&rank);
    bulk_set(&bulk, 1, data, bytes);
    if (sends) {
        (void)rank.rail->ops->bulk_send(rank.ep, &bulk.bulk);
    } else {
        (void)rank.rail->ops->bulk_recv(rank.ep, &bulk.bulk);
        (void)transport_frame_send(rank.rail->ops, rank.ep, "posted", 6);
    }
    for (;;)
        (void)rank_progress(&rank);
}

static void progress_and_arm(struct module_rank *rank)
{
    (void)rank_progress(rank);
    (void)rank->rail->ops->arm(rank->rail);
}

static bool first_came(const volatile unsigned char *data)
{
    assert_true(clock_monotonic_ns() < deadline_ns);
    return *data;
}

/* Stop the peer in the middle of a bulk: the endpoint closes at once, and the buffer is
 * free, also when the peer continues. */
static void stopped_in_bulk(bool victim_sends, unsigned after_ms)
{
    enum { BYTES = 64 << 20 };
    struct test_bulk bulk;
    unsigned char *data = calloc(1, BYTES);
    struct module_rank *rank = &ranks[0];
    uint64_t at;
    pid_t pid;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, links), 0);
    if ((pid = fork()) == 0)
        victim(victim_sends, BYTES);
    assert_int_equal(rank_start(rank), TRYST_OK);
    assert_int_equal(
        rank_rail_open_at(rank, "lo", (const struct sockaddr *)&loopback4, true),
        TRYST_OK);
    assert_int_equal(rank_ep_open(rank, 0, links[0], 3), TRYST_OK);
    deadline_set();
    while (!(victim_sends ? rank->ready : rank->frames) &&
           clock_monotonic_ns() < deadline_ns)
        (void)rank_progress(rank);
    bulk_set(&bulk, 1, data, BYTES);
    if (victim_sends) {
        assert_int_equal(rank->rail->ops->bulk_recv(rank->ep, &bulk.bulk), TRYST_OK);
        assert_int_equal(transport_frame_send(rank->rail->ops, rank->ep, "posted", 6),
                         TRYST_OK);
    } else {
        assert_int_equal(rank->rail->ops->bulk_send(rank->ep, &bulk.bulk), TRYST_OK);
    }
    at = clock_monotonic_ns() + after_ms * NS_PER_MS;
    while (!bulk.done &&
           (clock_monotonic_ns() < at || (victim_sends && !first_came(data))))
        progress_and_arm(rank);
    kill(pid, SIGSTOP);
    rank->rail->ops->ep_close(rank->ep);
    at = clock_monotonic_ns() + patience_ns(2 * NS_PER_S);
    while (!rank->closed && clock_monotonic_ns() < at)
        progress_and_arm(rank);
    assert_int_equal(rank->closed, 1);
    assert_int_equal(bulk.done, 1);
    memset(data, 0x5a, BYTES);
    kill(pid, SIGCONT);
    at = clock_monotonic_ns() + 50 * NS_PER_MS;
    while (clock_monotonic_ns() < at)
        progress_and_arm(rank);
    for (size_t i = 0; i < BYTES; i++)
        if (data[i] != 0x5a)
            fail_msg("byte %zu was written after `closed`", i);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    rank_stop(rank);
    close(links[0]);
    close(links[1]);
    free(data);
}

static void stopped_peer(void **state)
{
    (void)state;
    stopped_in_bulk(true, 0);
    stopped_in_bulk(false, 8);
    stopped_in_bulk(false, 24); /* rxm is still connecting here */
}

/* Endpoints open and close while the rail stays: a parked endpoint of the fabric serves
 * no peer. */
static void endpoints_come_and_go(void **state)
{
    (void)state;
    rails_open((const struct sockaddr *)&loopback4);
    for (uint64_t i = 0; i < 20; i++) {
        for (int me = 0; me < 2; me++)
            ranks[me].ready = ranks[me].frames = ranks[me].closed = 0;
        pair_connect(i, i);
        UNTIL(ranks[0].ready && ranks[1].ready);
        bulk_move(&ranks[i % 2], &ranks[1 - i % 2], 3, 100000);
        for (int me = 0; me < 2; me++)
            ranks[me].rail->ops->ep_close(ranks[me].ep);
        UNTIL(!ranks[0].ep && !ranks[1].ep);
        assert_int_equal(ranks[0].unexpected + ranks[1].unexpected, 0);
    }
    for (int me = 0; me < 2; me++) {
        rank_stop(&ranks[me]);
        close(links[me]);
    }
}

int main(int argc, char **argv)
{
    static struct module_rank probe;
    char text[TRANSPORT_TEXT_MAX];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            providers_by_name), /* first, while no library is loaded in the parent */
        cmocka_unit_test(process_is_left_alone),
        cmocka_unit_test(over_ipv6),
        cmocka_unit_test(port_range),
        cmocka_unit_test(loopback),
        cmocka_unit_test(no_secret_no_endpoint),
        cmocka_unit_test(description_without_memory),
        cmocka_unit_test(wrong_cookie_is_dropped),
        cmocka_unit_test(bad_connect_messages),
        cmocka_unit_test(stopped_peer),
        cmocka_unit_test(endpoints_come_and_go),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (rank_start(&probe) != TRYST_OK)
        return 1;
    if (!module_find(&probe.host, MODULE_NAME, text)) {
        printf("skipped: %s\n", text);
        return 77;
    }
    rank_stop(&probe);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
