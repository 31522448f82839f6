/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign connections to every socket that a rank listens on, one by one and as a flood,
 * while a run goes on.
 *
 * Idea: the ranks write their listening addresses into shared memory; a process that
 * belongs to no rank connects there. It sends nothing, half a message, noise, or a HELLO
 * of another session or version, and closes the connection or keeps it. What must hold:
 * every tensor arrives unchanged, ranks whose first contact falls into the flood connect,
 * refused connections are counted and logged once, and their cost in descriptors and
 * memory is bounded and released. TRYST_TEST_SECONDS: duration of a flood (1). */
#include "harness.h"

#include "support/child.h"
#include "support/patience.h"
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL = 200, LARGE = 300000, SOCKETS_MAX = 32, RANKS = 3 };
/* Connections that the flood keeps open at each socket: many more than a listener's
 * limit. */
enum { KEPT = 400 };
/* Twice the pending connections of a listener (LINKS_PENDING_MAX), and a margin for drops
 * that lag behind. */
enum { DESCRIPTORS_MORE = 2 * 64 + 128, DESCRIPTORS_END = 1024 };
#define MEMORY_MORE (32u << 20)

struct target {
    struct sockaddr_storage address;
    socklen_t bytes;
};

/* Shared memory of the ranks, the test and the flooding process. */
struct scene {
    _Atomic(uint32_t) barrier;
    _Atomic(uint32_t) targets_count;
    struct target targets[SOCKETS_MAX];
    _Atomic(bool) begin, end; /* begin and end of the flood */
    _Atomic(bool) drop;       /* the flooding process closes its connections */
    _Atomic(uint64_t) strangers;
    _Atomic(uint64_t) stop_at;         /* id of the last step */
    _Atomic(uint64_t) refused, silent; /* sums of all ranks' counters */
    _Atomic(uint64_t) warnings;
    unsigned seconds;
    bool fabric; /* flood the fabric's sockets instead of the library's */
};

/* ---- the flooding process ---------------------------------------------------------- */

enum misdeed {
    SILENT,
    HALF_A_HEADER,
    NOISE,
    TOO_LONG,
    UNKNOWN_FLAG,
    NO_HELLO,
    WRONG_COOKIE,
    OLD_VERSION,
    SHORT_HELLO,
    HALF_A_HELLO,
    BOOTSTRAP_HELLO,
    MISDEEDS
};
/* Numbers of the wire formats, repeated here to be independent of the library
 * (transports/link/link_wire.h, rendezvous/protocol/wire/wire.h). */
enum { LINK_MAGIC = 0x7254, LINK_HELLO = 1, LINK_LEAVE = 3, HELLO_MAGIC = 0x54535254 };

struct message {
    struct {
        uint32_t bytes;
        uint8_t type, flags;
        uint16_t magic;
    } header;
    struct {
        uint32_t magic, wire_version;
        uint8_t cookie[16];
        int32_t rank, size;
        uint64_t incarnation, nonce;
        uint8_t proof[32];
    } hello;
};

/* Write the message of a misdeed to `at`, and return its bytes. */
static size_t misdeed_write(enum misdeed misdeed, uint8_t *at)
{
    struct message message = {.header = {.bytes = sizeof message.hello,
                                         .type = LINK_HELLO,
                                         .magic = LINK_MAGIC},
                              .hello = {.magic = HELLO_MAGIC,
                                        .wire_version = TEST_WIRE_VERSION,
                                        .rank = 1,
                                        .size = 2}};
    static const uint8_t bootstrap_hello[48] = "TRYSTBST\001";
    size_t bytes = sizeof message;
    switch (misdeed) {
    case SILENT: return 0;
    case HALF_A_HEADER: bytes = sizeof message.header / 2; break;
    case NOISE: memset(&message, 0xa5, sizeof message); break;
    case TOO_LONG: message.header.bytes = UINT32_MAX; break;
    case UNKNOWN_FLAG: message.header.flags = 0x80; break;
    case NO_HELLO: message.header.type = LINK_LEAVE; break;
    case WRONG_COOKIE:
        memset(message.hello.cookie, 7, sizeof message.hello.cookie);
        break;
    case OLD_VERSION: message.hello.wire_version = TEST_WIRE_VERSION - 1; break;
    case SHORT_HELLO:
        message.header.bytes = 8;
        bytes = sizeof message.header + 8;
        break;
    case HALF_A_HELLO: bytes = sizeof message / 2; break;
    default: memcpy(at, bootstrap_hello, 48); return sizeof bootstrap_hello;
    }
    memcpy(at, &message, bytes);
    return bytes;
}

/* Connect to the target and send the message. Return the descriptor, or -1 if the
 * connection failed. */
static int stranger_connect(const struct target *target, enum misdeed misdeed)
{
    uint8_t text[256];
    struct linger reset = {.l_onoff = 1}; /* closing leaves no port in TIME_WAIT */
    size_t bytes = misdeed_write(misdeed, text);
    int fd =
        socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (target->address.ss_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (connect(fd, (const struct sockaddr *)&target->address, target->bytes) != 0 &&
        errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    struct pollfd out = {.fd = fd, .events = POLLOUT};
    if (bytes && poll(&out, 1, 100) == 1 &&
        send(fd, text, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
        close(fd); /* the connection was refused before the message */
        return -1;
    }
    return fd;
}

static void flood(struct scene *scene)
{
    static int kept[SOCKETS_MAX][KEPT];
    static const struct timespec pause = {.tv_nsec = 2000000};
    memset(kept, -1, sizeof kept);
    for (uint64_t turn = 0; !atomic_load(&scene->end); turn++) {
        for (uint32_t i = 0; i < atomic_load(&scene->targets_count); i++) {
            int *slot = &kept[i][turn % KEPT];
            if (*slot >= 0)
                close(*slot);
            *slot = stranger_connect(&scene->targets[i],
                                     (enum misdeed)((turn + i) % MISDEEDS));
            if (*slot >= 0)
                atomic_fetch_add(&scene->strangers, 1);
        }
        if (turn % 64 == 63)
            nanosleep(&pause, NULL); /* leaves processor time to the ranks */
    }
    while (!atomic_load(&scene->drop))
        nanosleep(&pause, NULL);
}

/* Fork a process that floods the targets between scene->begin and scene->end. */
static pid_t stranger_start(struct scene *scene)
{
    pid_t pid = child_fork();
    if (pid != 0)
        return pid;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (!atomic_load(&scene->begin))
        harness_sleep_ms(1);
    flood(scene);
    _exit(0);
}

/* ---- ranks ------------------------------------------------------------------------- */

static struct scene *stage; /* for log_line, whose argument is not set */

static void log_line(void *arg, tryst_log_level level, const char *line)
{
    (void)arg;
    if (level <= TRYST_LOG_WARN)
        atomic_fetch_add(&stage->warnings, 1);
    dprintf(2, "%s\n", line);
}

/* Publish the listening sockets among this process's descriptors [from, end), except
 * those in `known`. */
static void targets_find(struct scene *scene, int from, int end, const bool *known)
{
    for (int fd = from; fd < end; fd++) {
        int listens = 0;
        socklen_t bytes = sizeof listens;
        struct target target = {.bytes = sizeof target.address};
        if ((known && known[fd]) ||
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 ||
            !listens ||
            getsockname(fd, (struct sockaddr *)&target.address, &target.bytes) != 0)
            continue;
        struct sockaddr_in *in = (struct sockaddr_in *)&target.address;
        if (in->sin_family == AF_INET && in->sin_addr.s_addr == htonl(INADDR_ANY))
            in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        uint32_t at = atomic_fetch_add(&scene->targets_count, 1);
        CHECK(at < SOCKETS_MAX);
        scene->targets[at] = target;
    }
}

/* Run one step: send a small and a large tensor to the rank `hop` further on, and receive
 * them from the rank `hop` before. */
static void step_run(struct harness_rank *rank, uint64_t id, int hop, char *out, char *in)
{
    int to = (rank->rank + hop) % rank->size,
        from = (rank->rank + rank->size - hop) % rank->size;
    tryst_step *step = harness_step(rank, id);
    tryst_op *ops[4];
    harness_fill(out, LARGE, id * 16 + (uint64_t)rank->rank);
    ops[0] = harness_recv(rank, step, from, "large", in, LARGE);
    ops[1] = harness_recv(rank, step, from, "small", in + LARGE, SMALL);
    ops[2] = harness_send(rank, step, to, "small", out, SMALL);
    ops[3] = harness_send(rank, step, to, "large", out, LARGE);
    for (int i = 0; i < 4; i++)
        harness_end(ops[i], TRYST_OK);
    CHECK_EQ(harness_mismatch(in, LARGE, id * 16 + (uint64_t)from), SIZE_MAX);
    CHECK_EQ(harness_mismatch(in + LARGE, SMALL, id * 16 + (uint64_t)from), SIZE_MAX);
    harness_step_close(step);
}

struct cost {
    int fds, fds_most;
    size_t bytes, bytes_most;
};

static void cost_measure(struct cost *cost)
{
    int fds = harness_fds();
    size_t bytes = harness_resident_bytes();
    cost->fds_most = fds > cost->fds_most ? fds : cost->fds_most;
    cost->bytes_most = bytes > cost->bytes_most ? bytes : cost->bytes_most;
}

/* Wait until the descriptors of foreign connections are closed, also those whose clients
 * stay (after 5 s). `more`: descriptors of links and endpoints that were opened
 * meanwhile. */
static void cost_settle(struct harness_rank *rank, const struct cost *cost, int more)
{
    uint64_t begin_ns = harness_now_ns();
    while (harness_fds() > cost->fds + more) {
        if (harness_now_ns() - begin_ns > patience_ns(20000000000ull))
            harness_fail(__FILE__, __LINE__, "%d descriptors, but %d before the flood",
                         harness_fds(), cost->fds);
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
}

/* Give each rank another host name, so that a fabric uses its sockets. */
static void host_make(const struct harness_rank *rank)
{
    char name[32];
    snprintf(name, sizeof name, "host-%d", rank->rank);
    setenv("TRYST_HOST_ID", name, 1);
    setenv("TRYST_NET", "lo", 1);
}

static void run_main(struct harness_rank *rank)
{
    struct scene *scene = rank->arg;
    char *out = calloc(1, LARGE), *in = calloc(1, LARGE + SMALL);
    struct cost cost = {0};
    uint64_t id = 1, flooded_ns = 0;
    if (scene->fabric)
        host_make(rank);
    else
        setenv("TRYST_NET", "lo", 1);
    harness_open(rank);
    if (!scene->fabric)
        targets_find(scene, rank->listen_fd + 1, DESCRIPTORS_END, NULL);
    bool known[DESCRIPTORS_END];
    for (int fd = 0; fd < DESCRIPTORS_END; fd++)
        known[fd] = fcntl(fd, F_GETFD) >= 0;
    if (scene->fabric) { /* a fabric's sockets are opened with its first endpoint */
        step_run(rank, id++, 1, out, in);
        targets_find(scene, 0, DESCRIPTORS_END, known);
    }
    cost.fds = harness_fds();
    cost.bytes = harness_resident_bytes();
    harness_barrier(rank, &scene->barrier);
    atomic_store(&scene->begin, true);
    for (; id <= atomic_load(&scene->stop_at); id++) {
        /* Rank 1 and rank 2, which have exchanged nothing before, connect during the
         * flood. */
        step_run(rank, id, id % 2 ? 1 : 2, out, in);
        cost_measure(&cost);
        flooded_ns = flooded_ns ? flooded_ns : harness_now_ns();
        if (rank->rank == 0 && atomic_load(&scene->stop_at) == UINT64_MAX &&
            harness_now_ns() - flooded_ns > scene->seconds * 1000000000ull)
            atomic_store(&scene->stop_at, id + 8);
    }
    atomic_store(&scene->end, true);
    harness_barrier(rank, &scene->barrier);
    if (scene->seconds < 6 || scene->fabric)
        atomic_store(&scene->drop, true);
    if (!scene->fabric) {
        CHECK(cost.fds_most <= cost.fds + DESCRIPTORS_MORE);
        cost_settle(rank, &cost, 24);
    }
    if (!harness_is_sanitized())
        CHECK(cost.bytes_most <= cost.bytes + MEMORY_MORE);
    CHECK_EQ(harness_counter(rank->ctx, "peers_given_up"), 0);
    atomic_fetch_add(&scene->refused, harness_counter(rank->ctx, "links_refused"));
    atomic_fetch_add(&scene->silent, harness_counter(rank->ctx, "links_silent"));
    dprintf(
        1,
        "rank %d: %llu steps; descriptors %d, at most %d; resident %zu KiB, at most %zu; "
        "refused %llu, silent %llu\n",
        rank->rank, (unsigned long long)id - 1, cost.fds, cost.fds_most, cost.bytes >> 10,
        cost.bytes_most >> 10,
        (unsigned long long)harness_counter(rank->ctx, "links_refused"),
        (unsigned long long)harness_counter(rank->ctx, "links_silent"));
    harness_barrier(rank, &scene->barrier);
    atomic_store(&scene->drop, true);
    harness_close(rank);
    free(out);
    free(in);
}

static struct scene *scene_open(void)
{
    const char *seconds = getenv("TRYST_TEST_SECONDS");
    stage = harness_share(sizeof *stage);
    stage->seconds = seconds ? (unsigned)atoi(seconds) : 1;
    atomic_store(&stage->stop_at, UINT64_MAX);
    return stage;
}

/* Run the scene. Return the number of lines that one limited warning may have written:
 * one at once, one each ten seconds, and one to spare for a busy machine's own
 * warnings. */
static uint64_t scene_run(struct scene *scene, const struct harness_params *params)
{
    int status;
    uint64_t begin_ns = harness_now_ns();
    pid_t stranger = stranger_start(scene);
    int failed = harness_run(params);
    atomic_store(&scene->begin, true);
    atomic_store(&scene->end, true);
    atomic_store(&scene->drop, true);
    assert_int_equal(waitpid(stranger, &status, 0), stranger);
    print_message(
        "%s: %llu foreign connections at %u sockets in %u s, %llu refused, %llu silent, "
        "%llu warnings\n",
        harness_mode(), (unsigned long long)atomic_load(&scene->strangers),
        (unsigned)atomic_load(&scene->targets_count), scene->seconds,
        (unsigned long long)atomic_load(&scene->refused),
        (unsigned long long)atomic_load(&scene->silent),
        (unsigned long long)atomic_load(&scene->warnings));
    assert_int_equal(failed, 0);
    assert_int_equal(status, 0);
    return 2 + (harness_now_ns() - begin_ns) / 10000000000ull;
}

/* Flood the sockets of links: the Unix socket and the TCP sockets of each rank. */
static void test_flood(void **state)
{
    struct scene *scene = scene_open();
    struct harness_params params = {.size = RANKS,
                                    .main = run_main,
                                    .arg = scene,
                                    .no_group = true,
                                    .log_fn = log_line,
                                    .timeout_s = 60 + 2 * scene->seconds};
    uint64_t lines = scene_run(scene, &params);
    uint32_t families = atomic_load(&scene->targets_count) / RANKS - 1;
    assert_in_range(families, 1, 2); /* of loopback */
    assert_int_equal(atomic_load(&scene->targets_count), (1 + families) * RANKS);
    assert_true(atomic_load(&scene->strangers) > 100);
    assert_true(atomic_load(&scene->refused) > 10);
    assert_true(atomic_load(&scene->silent) > 10);
    /* one limited warning for refused and one for silent connections */
    assert_in_range(atomic_load(&scene->warnings), RANKS, 2 * RANKS * lines);
    harness_unshare(scene, sizeof *scene);
}

/* Flood the fabric's own sockets, over which the run moves its tensors. */
static void test_flood_of_the_fabric(void **state)
{
    if (strncmp(harness_mode(), "shm", 3) == 0)
        skip(); /* shared memory has no sockets */
    struct scene *scene = scene_open();
    struct harness_params params = {.size = RANKS,
                                    .main = run_main,
                                    .arg = scene,
                                    .no_group = true,
                                    .log_fn = log_line,
                                    .timeout_s = 60 + 2 * scene->seconds};
    scene->fabric = true;
    scene_run(scene, &params);
    assert_true(atomic_load(&scene->targets_count) > 0);
    assert_true(atomic_load(&scene->strangers) > 100);
    assert_int_equal(atomic_load(&scene->refused), 0);
    harness_unshare(scene, sizeof *scene);
}

/* ---- bootstrap --------------------------------------------------------------------- */

static void bootstrap_main(struct harness_rank *rank)
{
    struct scene *scene = rank->arg;
    char *out = calloc(1, LARGE), *in = calloc(1, LARGE + SMALL);
    uint64_t begin_ns = harness_now_ns();
    if (rank->rank == 0) {
        targets_find(scene, rank->listen_fd, rank->listen_fd + 1, NULL);
        atomic_store(&scene->begin, true);
    }
    while (rank->rank == RANKS - 1 &&
           harness_now_ns() - begin_ns < scene->seconds * 1000000000ull)
        harness_sleep_ms(10);
    harness_open(rank);
    atomic_store(&scene->end, true);
    atomic_store(&scene->drop, true);
    step_run(rank, 1, 1, out, in);
    free(out);
    free(in);
    harness_close(rank);
}

/* Flood the bootstrap port during the time in which the last rank keeps the others
 * waiting. */
static void test_flood_of_the_bootstrap(void **state)
{
    if (strcmp(harness_mode(), "shm") != 0)
        skip(); /* the bootstrap does not depend on the mode */
    struct scene *scene = scene_open();
    struct harness_params params = {.size = RANKS,
                                    .main = bootstrap_main,
                                    .arg = scene,
                                    .no_group = true,
                                    .log_fn = log_line,
                                    .timeout_s = 60 + 2 * scene->seconds};
    uint64_t lines = scene_run(scene, &params);
    assert_true(atomic_load(&scene->strangers) > 20);
    assert_in_range(atomic_load(&scene->warnings), 1, 2 * lines);
    harness_unshare(scene, sizeof *scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_flood_of_the_bootstrap),
        cmocka_unit_test(test_flood_of_the_fabric),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
