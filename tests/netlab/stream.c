/* SPDX-License-Identifier: Apache-2.0 */
/* A plain TCP stream, to measure the rate of a lab's links.
 *
 *   netlab_stream receive PORT FLOWS SECONDS    prints the payload of each flow in
 *                                               Mbit/s, in order of connection
 *   netlab_stream send ADDRESS PORT SECONDS     keeps the connection full for that time
 *
 * All flows are measured over the same time, which starts half a second after the last
 * one connected, when slow start is over and the buckets are empty. The senders must go
 * on for a second longer. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FLOWS_MAX = 8, CHUNK_BYTES = 1 << 18 };
#define WARM_S     0.5
#define PATIENCE_S 10.0

static char chunk[CHUNK_BYTES];

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int fail(const char *what)
{
    fprintf(stderr, "netlab_stream: %s: %s\n", what, strerror(errno));
    return 1;
}

/* Make a socket that listens at any address, or is connected to `host`; -1 on failure. */
static int socket_make(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = host ? AF_UNSPEC : AF_INET6,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *at;
    int fd, result;
    if (getaddrinfo(host, port, &hints, &at) != 0)
        return -1;
    fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (host)
        result = connect(fd, at->ai_addr, at->ai_addrlen);
    else
        result = bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, FLOWS_MAX);
    freeaddrinfo(at);
    if (result == 0)
        return fd;
    close(fd);
    return -1;
}

static int send_run(const char *host, const char *port, double seconds)
{
    double until = now_s() + PATIENCE_S;
    int fd = socket_make(host, port);
    while (fd < 0 && now_s() < until) { /* the receiver may not listen yet */
        usleep(20000);
        fd = socket_make(host, port);
    }
    if (fd < 0)
        return fail(host);
    until = now_s() + seconds;
    while (now_s() < until)
        if (send(fd, chunk, sizeof chunk, MSG_NOSIGNAL) < 0)
            break; /* the receiver has measured for long enough */
    close(fd);
    return 0;
}

/* Read what arrives until `end_s`; add each flow's bytes to `bytes`. */
static int flows_read(struct pollfd *flows, int count, double end_s, uint64_t *bytes)
{
    while (now_s() < end_s) {
        if (poll(flows, (nfds_t)count, 100) < 0)
            return fail("poll");
        for (int i = 0; i < count; i++) {
            ssize_t got =
                flows[i].revents ? recv(flows[i].fd, chunk, sizeof chunk, 0) : 1;
            if (got <= 0)
                return fail("a flow ended early");
            if (flows[i].revents)
                bytes[i] += (uint64_t)got;
        }
    }
    return 0;
}

static int receive_run(const char *port, int count, double seconds)
{
    struct pollfd flows[FLOWS_MAX];
    uint64_t bytes[FLOWS_MAX] = {0}, waste[FLOWS_MAX] = {0};
    int listener = socket_make(NULL, port);
    if (listener < 0)
        return fail("listening");
    for (int i = 0; i < count; i++) {
        flows[i] = (struct pollfd){.fd = accept(listener, NULL, NULL), .events = POLLIN};
        if (flows[i].fd < 0)
            return fail("accept");
    }
    if (flows_read(flows, count, now_s() + WARM_S, waste) != 0)
        return 1;
    double begin_s = now_s();
    if (flows_read(flows, count, begin_s + seconds, bytes) != 0)
        return 1;
    double took_s = now_s() - begin_s;
    for (int i = 0; i < count; i++)
        printf("%.2f\n", (double)bytes[i] * 8e-6 / took_s);
    return 0;
}

int main(int argc, char **argv)
{
    int flows = argc == 5 ? (int)strtol(argv[3], NULL, 10) : 0;
    if (argc == 5 && strcmp(argv[1], "receive") == 0 && flows > 0 && flows <= FLOWS_MAX)
        return receive_run(argv[2], flows, strtod(argv[4], NULL));
    if (argc == 5 && strcmp(argv[1], "send") == 0)
        return send_run(argv[2], argv[3], strtod(argv[4], NULL));
    fprintf(stderr, "usage: netlab_stream receive PORT FLOWS SECONDS\n"
                    "       netlab_stream send ADDRESS PORT SECONDS\n");
    return 2;
}
