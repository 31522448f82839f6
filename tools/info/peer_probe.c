/* SPDX-License-Identifier: Apache-2.0 */
/* Paths between the addresses of two hosts; see peer_probe.h. */
#include "peer_probe.h"
#include "tools/figures.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { CONNECT_S = 2, ANSWER_S = 2, SIZES = 16, SIZE_WAIT_MS = 1200, PINGS = 5 };

/* Fits the packets of every path: IPv6's least MTU without the largest headers. */
enum { SEGMENT_BYTES = 1220 };

/* ---- addresses --------------------------------------------------------------------- */

static socklen_t address_bytes(const struct sockaddr *at)
{
    return at->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                     : sizeof(struct sockaddr_in);
}

static bool is_wanted(const struct ifaddrs *one)
{
    const struct sockaddr *at = one->ifa_addr;
    if (!at || !(one->ifa_flags & IFF_UP) || !(one->ifa_flags & IFF_RUNNING))
        return false;
    if (at->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)at)->sin_addr.s_addr) >> 24 != 127;
    if (at->sa_family != AF_INET6)
        return false;
    const struct in6_addr *ip = &((const struct sockaddr_in6 *)at)->sin6_addr;
    return !IN6_IS_ADDR_LOOPBACK(ip) && !IN6_IS_ADDR_LINKLOCAL(ip);
}

static unsigned mtu_of(const char *interface)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    int rc = ioctl(fd, SIOCGIFMTU, &request);
    close(fd);
    return rc == 0 ? (unsigned)request.ifr_mtu : 0;
}

void probe_addresses(struct probe_list *list)
{
    struct ifaddrs *all = NULL;
    list->count = 0;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (!is_wanted(one) || list->count == PROBE_ADDRESSES_MAX)
            continue;
        struct probe_address *item = &list->items[list->count++];
        memset(item, 0, sizeof *item);
        memcpy(&item->at, one->ifa_addr, address_bytes(one->ifa_addr));
        (void)snprintf(item->interface, sizeof item->interface, "%s", one->ifa_name);
        item->mtu = mtu_of(one->ifa_name);
    }
    freeifaddrs(all);
}

char *probe_text(const struct probe_address *address, char text[PROBE_TEXT_MAX])
{
    const struct sockaddr *at = (const struct sockaddr *)&address->at;
    if (getnameinfo(at, address_bytes(at), text, PROBE_TEXT_MAX, NULL, 0,
                    NI_NUMERICHOST) != 0)
        (void)snprintf(text, PROBE_TEXT_MAX, "?");
    return text;
}

/* ---- sockets ----------------------------------------------------------------------- */

static bool ready(int fd, short events, int milliseconds)
{
    struct pollfd one = {.fd = fd, .events = events};
    return poll(&one, 1, milliseconds) > 0;
}

int probe_connect(const struct sockaddr *from, const struct sockaddr *to,
                  int segment_bytes, int seconds)
{
    int on = 1, error = 0;
    socklen_t bytes = sizeof error;
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (segment_bytes)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes,
                         sizeof segment_bytes);
    if (from && bind(fd, from, address_bytes(from)) != 0)
        error = errno;
    else if (connect(fd, to, address_bytes(to)) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (ready(fd, POLLOUT, seconds * 1000))
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    }
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

bool probe_move(int fd, void *data, size_t bytes, bool write, int seconds)
{
    char *at = data;
    while (bytes) {
        if (!ready(fd, write ? POLLOUT : POLLIN, seconds * 1000))
            return false;
        ssize_t moved = write ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(fd, at, bytes, MSG_DONTWAIT);
        if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (moved < 0)
            continue;
        at += moved;
        bytes -= (size_t)moved;
    }
    return true;
}

/* ---- the answering side ------------------------------------------------------------ */

struct answerer {
    int fd;
    uint64_t id;
};

/* Answer one connection: each word that comes by the id. Ends with the connection, or
 * after a silence. */
static void *connection_run(void *arg)
{
    struct answerer *self = arg;
    uint64_t word;
    while (probe_move(self->fd, &word, sizeof word, false, 15) &&
           probe_move(self->fd, &self->id, sizeof self->id, true, 5))
        continue;
    close(self->fd);
    free(self);
    return NULL;
}

static bool thread_detach(void *(*run)(void *), struct answerer *arg)
{
    pthread_t thread;
    if (!arg || pthread_create(&thread, NULL, run, arg) != 0)
        return false;
    (void)pthread_detach(thread);
    return true;
}

static struct answerer *answerer_make(int fd, uint64_t id)
{
    struct answerer *self = malloc(sizeof *self);
    if (self)
        *self = (struct answerer){.fd = fd, .id = id};
    return self;
}

static void *answer_run(void *arg)
{
    struct answerer *self = arg;
    for (;;) {
        int fd = accept4(self->fd, NULL, NULL, SOCK_CLOEXEC);
        struct answerer *one = fd < 0 ? NULL : answerer_make(fd, self->id);
        if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
            (void)poll(NULL, 0, 100);
        else if (fd >= 0 && !thread_detach(connection_run, one)) {
            close(fd);
            free(one);
        }
    }
    return NULL;
}

bool probe_answer(int fd, uint64_t id)
{
    struct answerer *self = answerer_make(fd, id);
    if (thread_detach(answer_run, self))
        return true;
    free(self);
    return false;
}

/* ---- one path ---------------------------------------------------------------------- */

/* One path to probe, in a thread. */
struct job {
    const struct probe_address *mine, *there;
    unsigned port;
    uint64_t id, own;
    struct probe_path *path;
    pthread_t thread;
    bool started;
};

/* Measure the shortest round trip, and see that the other host answers. */
static bool ping(int fd, const struct job *job, struct probe_path *path)
{
    for (int i = 0; i < PINGS; i++) {
        uint64_t word = 0;
        double start = (double)tool_now_ns() * 1e-3;
        if (!probe_move(fd, &word, sizeof word, true, ANSWER_S) ||
            !probe_move(fd, &word, sizeof word, false, ANSWER_S)) {
            (void)snprintf(path->why, sizeof path->why, "accepted, but no answer");
            return false;
        }
        if (word != job->id) {
            (void)snprintf(path->why, sizeof path->why, "reaches %s",
                           word == job->own ? "this host itself" : "another machine");
            return false;
        }
        double took = (double)tool_now_ns() * 1e-3 - start;
        if (i == 0 || took < path->round_trip_us)
            path->round_trip_us = took;
    }
    return true;
}

/* A connection with bounded segments that has sent one packet of `size` bytes. */
struct sized {
    int fd;
    unsigned size;
};

static bool info_read(int fd, struct tcp_info *info)
{
    socklen_t bytes = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0;
}

/* Send one packet of `size` bytes, all headers counted. False: no connection. */
static bool sized_send(const struct sockaddr *from, const struct sockaddr *to,
                       unsigned size, struct sized *sized)
{
    static char zeros[1 << 16];
    struct tcp_info info;
    int headers = to->sa_family == AF_INET6 ? 60 : 40;
    int fd = probe_connect(from, to, (int)size - headers, CONNECT_S);
    if (fd < 0)
        return false;
    *sized = (struct sized){.fd = fd};
    if (info_read(fd, &info) && info.tcpi_snd_mss <= sizeof zeros) {
        unsigned stamps = info.tcpi_options & TCPI_OPT_TIMESTAMPS ? 12 : 0;
        sized->size = info.tcpi_snd_mss + stamps + (unsigned)headers;
        (void)send(fd, zeros, info.tcpi_snd_mss, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return true;
}

/* Take the packets that have arrived. True if all have. */
static bool sized_check(struct sized *all, unsigned count, struct probe_path *path)
{
    unsigned least_lost = 0;
    for (unsigned i = 0; i < count; i++) {
        struct tcp_info info;
        bool arrived = info_read(all[i].fd, &info) && !info.tcpi_unacked;
        if (arrived && all[i].size > path->passes)
            path->passes = all[i].size;
        else if (!arrived && (!least_lost || all[i].size < least_lost))
            least_lost = all[i].size;
    }
    path->lost = least_lost;
    return least_lost == 0;
}

/* Send a packet of each usual size, the interface's own included, all at once. */
static void sizes_measure(const struct probe_address *mine, const struct sockaddr *to,
                          struct probe_path *path)
{
    static const unsigned usual[] = {1280, 1380, 1400, 1420, 1440, 1450, 1460, 1480,
                                     1492, 1500, 2044, 4092, 8000, 8900, 9000};
    struct sized all[SIZES];
    unsigned count = 0;
    const struct sockaddr *from = (const struct sockaddr *)&mine->at;
    for (unsigned i = 0; i < sizeof usual / sizeof *usual; i++)
        if (usual[i] < mine->mtu && sized_send(from, to, usual[i], &all[count]))
            count++;
    if (mine->mtu <= 65535 && sized_send(from, to, mine->mtu, &all[count]))
        count++;
    for (int ms = 0; ms < SIZE_WAIT_MS && !sized_check(all, count, path); ms += 20)
        (void)poll(NULL, 0, 20);
    while (count)
        close(all[--count].fd);
}

static void *job_run(void *arg)
{
    const struct job *job = arg;
    struct probe_path *path = job->path;
    const struct sockaddr *from = (const struct sockaddr *)&job->mine->at;
    struct sockaddr_storage to = job->there->at;
    if (to.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&to)->sin6_port = htons((uint16_t)job->port);
    else
        ((struct sockaddr_in *)&to)->sin_port = htons((uint16_t)job->port);
    int fd = probe_connect(from, (const struct sockaddr *)&to, SEGMENT_BYTES, CONNECT_S);
    if (fd < 0) {
        (void)snprintf(path->why, sizeof path->why, "%s", strerror(errno));
        return NULL;
    }
    path->connects = ping(fd, job, path);
    close(fd);
    if (path->connects)
        sizes_measure(job->mine, (const struct sockaddr *)&to, path);
    return NULL;
}

static unsigned jobs_make(struct job jobs[PROBE_PATHS_MAX], const struct probe_list *from,
                          const struct probe_list *to, struct job all,
                          struct probe_path *paths)
{
    unsigned count = 0;
    for (unsigned i = 0; i < from->count; i++)
        for (unsigned j = 0; j < to->count; j++) {
            if (from->items[i].at.ss_family != to->items[j].at.ss_family)
                continue;
            paths[count] = (struct probe_path){.from = i, .to = j};
            jobs[count] = all;
            jobs[count].mine = &from->items[i];
            jobs[count].there = &to->items[j];
            jobs[count].path = &paths[count];
            count++;
        }
    return count;
}

unsigned probe_all(const struct probe_list *from, const struct probe_list *to,
                   unsigned port, uint64_t id, uint64_t own,
                   struct probe_path paths[PROBE_PATHS_MAX])
{
    static struct job jobs[PROBE_PATHS_MAX];
    const struct job all = {.port = port, .id = id, .own = own};
    unsigned count = jobs_make(jobs, from, to, all, paths);
    for (unsigned i = 0; i < count; i++) {
        jobs[i].started = pthread_create(&jobs[i].thread, NULL, job_run, &jobs[i]) == 0;
        if (!jobs[i].started)
            (void)job_run(&jobs[i]);
    }
    for (unsigned i = 0; i < count; i++)
        if (jobs[i].started)
            (void)pthread_join(jobs[i].thread, NULL);
    return count;
}
