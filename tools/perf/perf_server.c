/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts without a launcher; see perf_server.h.
 *
 * Idea: both sides are a job of two ranks. Rank, size, address and token are set by
 * configuration. The server's options travel to the other side as numbers.
 * Invariant: the token is on no command line, and in no environment unless the user put
 * it there. */
#include "perf_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <termios.h>
#include <unistd.h>

#include "tools/job.h"
#include "tools/listen.h"
#include "tools/perf/options/perf_host.h"

enum { PORT = 4711, TOKEN_BYTES = 160, WINDOW_MOST = 4096 };
/* For the other side to come; TRYST_BOOTSTRAP_TIMEOUT replaces it. */
#define SERVER_WAITS "10m"

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* ---- addresses --------------------------------------------------------------------- */

/* Write "host:port", with brackets where the host is an address of IPv6. */
static void address_write(char text[PERF_HOST_BYTES], const char *host, unsigned port)
{
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(text, PERF_HOST_BYTES, "%s%.250s%s:%u", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "", port);
}

static int listen_at(unsigned port)
{
    int fd = tool_listen(port, 16);
    if (fd < 0)
        fprintf(stderr,
                "tryst-perf: cannot listen at port %u: %s; give another one: --port\n",
                port, strerror(errno));
    return fd;
}

/* Write an address at which other hosts may reach this one: of the first interface that
 * is up and not loopback, IPv4 if there is one; else loopback's. */
static void own_address(char text[PERF_HOST_BYTES])
{
    struct ifaddrs *all = NULL;
    int best = 0;
    strcpy(text, "127.0.0.1");
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
        int worth = family == AF_INET ? 2 : family == AF_INET6 ? 1 : 0;
        const struct sockaddr_in6 *v6 = (const void *)at->ifa_addr;
        if (!(at->ifa_flags & IFF_UP) || at->ifa_flags & IFF_LOOPBACK || worth <= best ||
            (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)))
            continue;
        const void *address =
            family == AF_INET
                ? (const void *)&((const struct sockaddr_in *)(const void *)at->ifa_addr)
                      ->sin_addr
                : (const void *)&v6->sin6_addr;
        if (inet_ntop(family, address, text, PERF_HOST_BYTES))
            best = worth;
    }
    freeifaddrs(all);
}

/* ---- the token --------------------------------------------------------------------- */

static bool has_token(void)
{
    return is_set("TRYST_TOKEN") || is_set("TRYST_TOKEN_FILE");
}

static bool token_draw(char text[TOKEN_BYTES])
{
    unsigned drawn[4];
    if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) {
        fprintf(stderr, "tryst-perf: cannot draw a token: %s\n", strerror(errno));
        return false;
    }
    snprintf(text, TOKEN_BYTES, "%08x%08x%08x%08x", drawn[0], drawn[1], drawn[2],
             drawn[3]);
    return true;
}

/* Settings of the terminal from before its echo was turned off. A signal handler reads
 * them. */
static struct termios terminal;

/* Restore the echo, then end by the signal: SA_RESETHAND has restored its default. */
static void echo_restore(int number)
{
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    (void)raise(number);
}

/* Read a line from the terminal without echo. */
static bool line_read_quiet(char text[TOKEN_BYTES])
{
    const struct sigaction restore = {.sa_handler = echo_restore,
                                      .sa_flags = (int)SA_RESETHAND};
    struct sigaction before[2];
    struct termios quiet = terminal;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    sigaction(SIGINT, &restore, &before[0]);
    sigaction(SIGTERM, &restore, &before[1]);
    fputs("token that the server has printed: ", stderr);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    bool has_line = fgets(text, TOKEN_BYTES, stdin) != NULL;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal);
    fputc('\n', stderr);
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
    return has_line;
}

/* Read the token from standard input. */
static bool token_ask(char text[TOKEN_BYTES])
{
    bool has_line = tcgetattr(STDIN_FILENO, &terminal) == 0
                        ? line_read_quiet(text)
                        : fgets(text, TOKEN_BYTES, stdin) != NULL;
    if (has_line)
        text[strcspn(text, " \t\r\n")] = '\0';
    if (has_line && *text)
        return true;
    fputs("tryst-perf: no token: type the one that the server has printed, or set "
          "TRYST_TOKEN_FILE\n",
          stderr);
    return false;
}

/* ---- options ----------------------------------------------------------------------- */

/* The server's options, as numbers: both sides run the same version, or the group does
 * not open. */
struct wire_options {
    uint64_t bandwidth, iters, warmup, time_ns, window, both_ways, memory[2];
    uint64_t sizes_count, sizes[PERF_SIZES_MAX];
};

static void wire_fill(struct wire_options *wire, const struct perf_options *options)
{
    *wire = (struct wire_options){.bandwidth = perf_kind_is(options->kind, "bandwidth"),
                                  .iters = options->iters,
                                  .warmup = options->warmup,
                                  .time_ns = options->time_ns,
                                  .window = (uint64_t)options->window,
                                  .both_ways = options->both_ways,
                                  .memory = {options->memory[0], options->memory[1]},
                                  .sizes_count = (uint64_t)options->sizes_count};
    memcpy(wire->sizes, options->sizes, sizeof wire->sizes);
}

static bool wire_is_valid(const struct wire_options *wire)
{
    bool valid = wire->window >= 1 && wire->window <= WINDOW_MOST &&
                 wire->sizes_count >= 1 && wire->sizes_count <= PERF_SIZES_MAX;
    for (uint64_t i = 0; valid && i < wire->sizes_count; i++)
        valid = wire->sizes[i] >= 1 && wire->sizes[i] <= PERF_BYTES_MAX;
    for (int i = 0; i < 2; i++)
        valid = valid && (wire->memory[i] == TRYST_MEMORY_HOST ||
                          wire->memory[i] == TRYST_MEMORY_CUDA);
    return valid;
}

static void wire_take(const struct wire_options *wire, struct perf_options *options)
{
    options->kind = perf_kind_find(wire->bandwidth ? "bandwidth" : "pingpong");
    options->iters = wire->iters;
    options->warmup = wire->warmup;
    options->time_ns = wire->time_ns;
    options->window = (int)wire->window;
    options->both_ways = wire->both_ways != 0;
    for (int i = 0; i < 2; i++)
        options->memory[i] = (tryst_memory_kind)wire->memory[i];
    options->sizes_count = (int)wire->sizes_count;
    memcpy(options->sizes, wire->sizes, sizeof options->sizes);
}

static bool options_share(struct perf_options *options, const struct perf_rank *rank)
{
    struct wire_options wire;
    tryst_step *step;
    tryst_op *close_op;
    wire_fill(&wire, options);
    tryst_status status = tryst_step_open(rank->group, PERF_STEP_FIRST - 1, &step);
    if (status != TRYST_OK)
        return perf_judge(rank, "open a step", status) == TRYST_OK;
    status = perf_numbers_move(rank, step, 0, 1, &wire, sizeof wire);
    if (tryst_step_close(step, &close_op) == TRYST_OK)
        perf_op_end(rank, close_op, "close the step", PERF_WAIT_NS);
    if (status == TRYST_OK && !wire_is_valid(&wire))
        status = perf_fail(rank, "measure", TRYST_E_PROTOCOL,
                           "the server's options are not valid");
    if (status == TRYST_OK)
        wire_take(&wire, options);
    return status == TRYST_OK;
}

/* ---- joining ----------------------------------------------------------------------- */

/* Print the command for the other host on stderr: stdout may be JSON. */
static void command_print(unsigned port, const char *token)
{
    char host[PERF_HOST_BYTES], address[PERF_HOST_BYTES];
    own_address(host);
    address_write(address, host, port);
    fprintf(stderr, "on the other host: tryst-perf %s\n", port == PORT ? host : address);
    if (*token)
        fprintf(stderr, "token, for its standard input: %s\n", token);
    else
        fputs("token: that of TRYST_TOKEN_FILE or TRYST_TOKEN, the same there\n", stderr);
}

/* Return the beginning of the message about a status other than TRYST_OK. */
static const char *failure(const struct perf_options *options, tryst_status status)
{
    return options->serves           ? "the other host has not joined"
           : status == TRYST_E_TOKEN ? "cannot join the server: wrong token"
                                     : "cannot join the server";
}

static bool job_join(const struct perf_options *options, const char *address, int fd,
                     const char *token, struct perf_rank *rank)
{
    char fd_text[16];
    snprintf(fd_text, sizeof fd_text, "%d", fd);
    bool timed = is_set("TRYST_BOOTSTRAP_TIMEOUT");
    const char *const settings[] = {"transport",
                                    options->transport,
                                    "rank",
                                    options->serves ? "0" : "1",
                                    "size",
                                    "2",
                                    "local_rank",
                                    "-1",
                                    "local_size",
                                    "-1",
                                    "job",
                                    "tryst-perf",
                                    "bootstrap",
                                    address,
                                    "bootstrap_fd",
                                    fd_text,
                                    "token",
                                    *token ? token : NULL,
                                    "token_file",
                                    *token ? "" : NULL,
                                    "bootstrap_timeout",
                                    options->serves && !timed ? SERVER_WAITS : NULL,
                                    NULL};
    const tryst_group_params group = {.struct_size = sizeof group};
    tryst_status status = job_open(settings, &group, &rank->ctx, &rank->group);
    if (status != TRYST_OK)
        fprintf(stderr, "tryst-perf: %s: %s\n", failure(options, status),
                tryst_last_error());
    return status == TRYST_OK;
}

bool perf_server_join(struct perf_options *options, struct perf_rank *rank)
{
    char host[PERF_HOST_BYTES] = "127.0.0.1", address[PERF_HOST_BYTES],
         token[TOKEN_BYTES] = "";
    unsigned given = 0;
    int fd = -1;
    if (options->host && !perf_host_split(options->host, host, &given))
        return false;
    unsigned port = given ? given : options->port ? (unsigned)options->port : PORT;
    address_write(address, host, port);
    if (options->serves && (fd = listen_at(port)) < 0)
        return false;
    if (!has_token() && !(options->serves ? token_draw(token) : token_ask(token)))
        return false;
    if (options->serves)
        command_print(port, token);
    bool joined = job_join(options, address, fd, token, rank);
    explicit_bzero(token, sizeof token);
    if (!joined)
        return false;
    rank->rank = tryst_group_rank(rank->group);
    rank->peer = 1 - rank->rank;
    joined = options_share(options, rank);
    if (!joined) {
        tryst_group_close(rank->group);
        tryst_close(rank->ctx);
    }
    return joined;
}
