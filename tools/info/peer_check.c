/* SPDX-License-Identifier: Apache-2.0 */
/* The network between two hosts; see peer_check.h.
 *
 * Idea: both hosts do the same, over one connection that carries small packets only: they
 * exchange their addresses, probe all pairs in their own direction, and exchange the
 * results. Then they are a job of two ranks, so transport and interface are those that
 * the library itself chooses. */
#include "peer_check.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <tryst/tryst.h>

#include "peer_probe.h"
#include "tools/figures.h"
#include "tools/listen.h"

#define CHECK_MAGIC UINT64_C(0x3230434b43545254) /* "TRTCKC02" in memory */
enum {
    PORT = 4712,
    DIAL_S = 5,           /* until a dial of the other host has failed */
    PATIENCE_S = 60,      /* for the other host's part of an exchange */
    LISTEN_S = 600,       /* for the other host to come */
    SEGMENT_BYTES = 1220, /* fits every path's packets */
    BULK_BYTES = 4 << 20,
    DEADLINE_S = 12
};

struct hello {
    uint64_t magic, id;
    uint32_t port, reserved;
    char host[64];
    struct probe_list list;
};

struct results {
    uint32_t count, reserved;
    struct probe_path paths[PROBE_PATHS_MAX];
};

struct check {
    int fd;   /* to the other host */
    int rank; /* 0: this host listens */
    struct hello mine, theirs;
    struct results out, in; /* paths from here, paths to here */
    char *kept;             /* by a failed exchange: in use until the group's close */
};

/* ---- coming together --------------------------------------------------------------- */

/* Send `mine` and receive as much; small enough for the socket's buffers. */
static bool exchange(int fd, const void *mine, void *theirs, size_t bytes, int seconds)
{
    return probe_move(fd, (void *)(uintptr_t)mine, bytes, true, seconds) &&
           probe_move(fd, theirs, bytes, false, seconds);
}

static int listen_at(unsigned port, unsigned *port_p)
{
    struct sockaddr_in6 at = {0};
    socklen_t bytes = sizeof at;
    int fd = tool_listen(port, 128);
    if (fd < 0)
        return -1;
    if (getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    *port_p = ntohs(at.sin6_port); /* at the same offset for IPv4 */
    return fd;
}

/* Connect to the host by the first of its addresses that answers; -1: none does. The
 * error is that of the first address. */
static int dial(const char *host, unsigned port)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1, error = 0;
    (void)snprintf(service, sizeof service, "%u", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0) {
        fprintf(stderr, "tryst-info: cannot resolve the host '%s': %s\n", host,
                gai_strerror(code));
        return -1;
    }
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = probe_connect(NULL, at->ai_addr, SEGMENT_BYTES, DIAL_S);
        if (fd < 0 && !error)
            error = errno;
    }
    freeaddrinfo(found);
    if (fd < 0)
        fprintf(stderr,
                "tryst-info: cannot reach %s port %u: %s; run tryst-info --check listen "
                "there first, and check the firewall of that port, or let this host "
                "listen and run --check there\n",
                host, port, strerror(error));
    return fd;
}

static bool hello_is_valid(const struct hello *hello)
{
    return hello->magic == CHECK_MAGIC && hello->port <= 65535 &&
           hello->list.count <= PROBE_ADDRESSES_MAX;
}

/* Make text of the other host printable. */
static void text_clean(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* Exchange HELLO. False: another program, or another version of tryst-info. */
static bool greet(struct check *check)
{
    if (!exchange(check->fd, &check->mine, &check->theirs, sizeof check->mine, DIAL_S) ||
        !hello_is_valid(&check->theirs))
        return false;
    text_clean(check->theirs.host, sizeof check->theirs.host);
    for (unsigned i = 0; i < check->theirs.list.count; i++)
        text_clean(check->theirs.list.items[i].interface, IF_NAMESIZE);
    return true;
}

static bool accept_one(struct check *check, int listener)
{
    struct pollfd one = {.fd = listener, .events = POLLIN};
    printf("waiting %d s at port %u; run on the other host: tryst-info --check %s\n",
           LISTEN_S, check->mine.port, check->mine.host);
    (void)fflush(stdout);
    while (poll(&one, 1, LISTEN_S * 1000) > 0) {
        check->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (check->fd >= 0 && greet(check))
            return true;
        if (check->fd >= 0)
            close(check->fd);
    }
    fprintf(stderr,
            "tryst-info: no other host has come within %d s; run there: tryst-info "
            "--check %s, and check the firewall of port %u\n",
            LISTEN_S, check->mine.host, check->mine.port);
    return false;
}

/* Listen at `port`; a host that dials takes another one where that is in use. */
static int listener_open(struct check *check, unsigned port)
{
    int fd = listen_at(port, &check->mine.port);
    if (fd < 0 && check->rank == 1)
        fd = listen_at(0, &check->mine.port);
    if (fd < 0)
        fprintf(stderr,
                "tryst-info: cannot listen at port %u: %s; name another port on both "
                "hosts, as in listen:%u\n",
                port, strerror(errno), port + 1);
    return fd;
}

/* Connect to the host that listens, before this host listens: a dial of this host itself
 * is then refused. */
static bool come_together(struct check *check, const char *host, unsigned port)
{
    if (check->rank == 1)
        check->fd = dial(host, port);
    int listener = check->fd < 0 ? -1 : listener_open(check, port);
    if (listener < 0 || (check->rank == 0 && !accept_one(check, listener)))
        return false;
    if (check->rank == 1 && !greet(check)) {
        fprintf(stderr,
                "tryst-info: %s port %u belongs to another program, or another version "
                "of Tryst; run tryst-info --check listen there, or name the port as in "
                "HOST:PORT\n",
                host, port);
        return false;
    }
    return probe_answer(listener, check->mine.id);
}

static bool paths_measure(struct check *check)
{
    char go = 0, theirs;
    /* each waits for the other's answering thread */
    if (!exchange(check->fd, &go, &theirs, 1, DIAL_S))
        return false;
    check->out.count =
        probe_all(&check->mine.list, &check->theirs.list, check->theirs.port,
                  check->theirs.id, check->mine.id, check->out.paths);
    if (!exchange(check->fd, &check->out, &check->in, sizeof check->out, PATIENCE_S))
        return false;
    if (check->in.count > PROBE_PATHS_MAX)
        return false;
    for (unsigned i = 0; i < check->in.count; i++) {
        struct probe_path *path = &check->in.paths[i];
        text_clean(path->why, sizeof path->why);
        if (path->from >= check->theirs.list.count || path->to >= check->mine.list.count)
            return false;
    }
    return true;
}

/* ---- the table --------------------------------------------------------------------- */

static void path_print(const struct probe_path *path, const struct probe_list *from,
                       const struct probe_list *to, const char *direction)
{
    char a[PROBE_TEXT_MAX], b[PROBE_TEXT_MAX], ends[2 * PROBE_TEXT_MAX], size[64] = "-";
    (void)snprintf(ends, sizeof ends, "%s -> %s", probe_text(&from->items[path->from], a),
                   probe_text(&to->items[path->to], b));
    if (path->lost)
        (void)snprintf(size, sizeof size, "%u (LOST: %u)", path->passes, path->lost);
    else if (path->passes)
        (void)snprintf(size, sizeof size, "%u", path->passes);
    printf("%-4s %-10.10s %-10.10s %-36s ", direction, from->items[path->from].interface,
           to->items[path->to].interface, ends);
    if (path->connects)
        printf("%9.0f us  %s\n", path->round_trip_us, size);
    else
        printf("no: %s\n", path->why);
}

/* Faults of the paths. */
struct faults {
    unsigned losing; /* paths that lose packets which their interface sends */
    unsigned passes; /* bytes of the largest packet that all of those carry */
    unsigned oneway; /* pairs of addresses that connect in one direction only */
};

static void fault_count(const struct probe_path *path, const struct results *back,
                        struct faults *faults)
{
    if (!path->connects)
        return;
    if (path->lost && (!faults->losing++ || path->passes < faults->passes))
        faults->passes = path->passes;
    for (unsigned i = 0; i < back->count; i++)
        faults->oneway += back->paths[i].from == path->to &&
                          back->paths[i].to == path->from && !back->paths[i].connects;
}

static struct faults table_print(const struct check *check)
{
    struct faults faults = {0};
    printf("%-4s %-10s %-10s %-36s %12s  %s\n", "", "from", "to", "addresses",
           "round trip", "largest packet");
    for (int back = 0; back < 2; back++) {
        const struct results *results = back ? &check->in : &check->out;
        const struct probe_list *here = &check->mine.list, *there = &check->theirs.list;
        for (unsigned i = 0; i < results->count; i++) {
            path_print(&results->paths[i], back ? there : here, back ? here : there,
                       back ? "in" : "out");
            fault_count(&results->paths[i], back ? &check->out : &check->in, &faults);
        }
    }
    return faults;
}

/* ---- as a job ---------------------------------------------------------------------- */

static int gather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct check *check = arg;
    char *to = all;
    memcpy(to + (size_t)check->rank * bytes, mine, bytes);
    return !exchange(check->fd, mine, to + (size_t)(1 - check->rank) * bytes, bytes,
                     PATIENCE_S);
}

/* Send and receive `bytes` in both directions. Returns the time in seconds, or -1 after
 * the reason was printed. */
static double swap(struct check *check, tryst_group *group, uint64_t id, size_t bytes)
{
    char key[TRYST_KEY_MAX + 1];
    tryst_op *ops[2] = {NULL, NULL};
    tryst_step *step;
    char *data = calloc(2, bytes);
    tryst_op_params params = {.struct_size = sizeof params,
                              .deadline_ns = DEADLINE_S * UINT64_C(1000000000)};
    tryst_tensor out = {
        .struct_size = sizeof out, .data = data, .count = bytes, .dtype = TRYST_DTYPE_U8};
    tryst_tensor in = out;
    int me = check->rank, other = 1 - me;
    if (!data || tryst_step_open(group, id, &step) != TRYST_OK) {
        free(data);
        return -1;
    }
    in.data = data + bytes;
    uint64_t begin_ns = tool_now_ns();
    tryst_status status =
        tryst_key_build(group, me, other, "check", 0, 0, key, sizeof key);
    if (status == TRYST_OK)
        status = tryst_send(step, key, &out, &params, &ops[0]);
    if (status == TRYST_OK)
        status = tryst_key_build(group, other, me, "check", 0, 0, key, sizeof key);
    if (status == TRYST_OK)
        status = tryst_recv(step, key, &in, &params, &ops[1]);
    for (int i = 0; i < 2 && status == TRYST_OK; i++) {
        tryst_error error = {.struct_size = sizeof error, .text = ""};
        status = tryst_wait(ops[i], 4 * params.deadline_ns);
        if (status != TRYST_OK && tryst_op_error(ops[i], &error) != TRYST_AGAIN)
            printf("job: FAIL: %zu bytes: %s: %s\n", bytes, tryst_status_name(status),
                   error.text);
    }
    double seconds = (double)(tool_now_ns() - begin_ns) * 1e-9;
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
    tryst_step_close(step, NULL);
    if (status != TRYST_OK)
        check->kept = data;
    else
        free(data);
    return status == TRYST_OK ? seconds : -1;
}

static bool job_report(struct check *check, tryst_group *group)
{
    tryst_peer_info info = {.struct_size = sizeof info};
    double first = swap(check, group, 1, 8);
    double small = first < 0 ? -1 : swap(check, group, 2, 8);
    double bulk = small < 0 ? -1 : swap(check, group, 3, BULK_BYTES);
    if (tryst_group_peer(group, 1 - check->rank, &info) == TRYST_OK && *info.transport)
        printf("job: would use %s (%s)\n", info.transport, info.mechanism);
    if (bulk >= 0)
        printf("job: connected in %.2f s; 8 bytes both ways in %.0f us, %d MiB in %.1f "
               "ms\n",
               first, small * 1e6, BULK_BYTES >> 20, bulk * 1e3);
    return bulk >= 0;
}

/* Print the library's reasons below the job's line. */
static void line_print(void *arg, tryst_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    printf("     %s\n", line);
}

static bool job_run(struct check *check)
{
    tryst_config *config = NULL;
    tryst_ctx *ctx = NULL;
    tryst_group *group = NULL;
    bool good = false;
    tryst_open_params params = {.struct_size = sizeof params, .log_fn = line_print};
    tryst_group_params job = {.struct_size = sizeof job,
                              .allgather = gather,
                              .allgather_arg = check,
                              .rank = check->rank,
                              .size = 2};
    if (tryst_config_open(&config) == TRYST_OK &&
        tryst_config_set(config, "peer_timeout", "5s") == TRYST_OK &&
        tryst_config_set(config, "connect_timeout", "5s") == TRYST_OK &&
        tryst_config_set(config, "log_level", "info") == TRYST_OK) {
        params.config = config;
        if (tryst_open(&params, &ctx) == TRYST_OK &&
            tryst_group_open(ctx, &job, &group) == TRYST_OK)
            good = job_report(check, group);
    }
    if (!group)
        printf("job: FAIL: %s\n", tryst_last_error());
    if (group)
        tryst_group_close(group);
    free(check->kept);
    tryst_close(ctx);
    tryst_config_close(config);
    return good;
}

/* ---- all --------------------------------------------------------------------------- */

/* Split "HOST:PORT", "[v6]:PORT" or HOST. False: not a port. */
static bool word_split(const char *word, char host[256], unsigned *port_p)
{
    const char *colon = strrchr(word, ':');
    bool bracket = word[0] == '[';
    char *end = NULL;
    bool has_port = colon && (bracket ? colon[-1] == ']' : strchr(word, ':') == colon);
    unsigned long port = has_port ? strtoul(colon + 1, &end, 10) : PORT;
    int bytes = has_port ? (int)(colon - word) : (int)strlen(word);
    if (bracket && bytes >= 2 && word[bytes - 1] == ']')
        word++, bytes -= 2;
    if ((has_port && (*end || end == colon + 1)) || port < 1 || port > 65535 ||
        bytes < 1 || bytes > 255)
        return false;
    (void)snprintf(host, 256, "%.*s", bytes, word);
    *port_p = (unsigned)port;
    return true;
}

static int verdict(const struct faults *faults, bool good)
{
    if (faults->losing)
        printf("-> packets that the interface sends are lost: set its MTU to %u on both "
               "hosts (ip link set DEVICE mtu %u), or raise the network's\n",
               faults->passes, faults->passes);
    if (faults->oneway)
        printf(
            "-> %u pair%s of addresses connect%s in one direction only: a firewall or a "
            "route is missing; TRYST_PORT_RANGE names the ports to open\n",
            faults->oneway, faults->oneway == 1 ? "" : "s",
            faults->oneway == 1 ? "s" : "");
    if (!good)
        printf("-> a job between these hosts fails: follow the message; TRYST_NET names "
               "interfaces of paths that connect in both directions (out and in)\n");
    return !good ? 4 : faults->losing || faults->oneway ? 3 : 0;
}

int peer_check(const char *word)
{
    static struct check check;
    char host[256];
    unsigned port;
    if (!word_split(word, host, &port)) {
        fprintf(stderr, "tryst-info: --check: not HOST or HOST:PORT: '%s'\n", word);
        return 2;
    }
    check.rank = strcmp(host, "listen") != 0;
    check.mine.magic = CHECK_MAGIC;
    if (getrandom(&check.mine.id, sizeof check.mine.id, 0) < 0 ||
        gethostname(check.mine.host, sizeof check.mine.host - 1) != 0)
        return 1;
    probe_addresses(&check.mine.list);
    if (!come_together(&check, host, port))
        return 1;
    printf("this host: %s; the other host: %s\n", check.mine.host, check.theirs.host);
    (void)fflush(stdout);
    if (!paths_measure(&check)) {
        fprintf(stderr,
                "tryst-info: the other host has ended its check; see its output\n");
        return 1;
    }
    struct faults faults = table_print(&check);
    (void)fflush(stdout);
    bool good = job_run(&check);
    return verdict(&faults, good);
}
