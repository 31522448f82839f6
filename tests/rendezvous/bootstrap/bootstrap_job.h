/* SPDX-License-Identifier: Apache-2.0 */
/* A job whose ranks are threads of the test, on a loopback port of the test. */
#ifndef TRYST_TESTS_RENDEZVOUS_BOOTSTRAP_BOOTSTRAP_JOB_H
#define TRYST_TESTS_RENDEZVOUS_BOOTSTRAP_BOOTSTRAP_JOB_H

#include "support/asleep.h"
#include "support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "rendezvous/bootstrap/session/bootstrap.h"

#define JOB_RANKS_MAX 16
#define JOB_TOKEN     "a token for tests only"

struct job;
typedef tryst_status (*job_fn)(struct job *job, struct bootstrap *bootstrap, int rank,
                               struct err *err);

struct job_rank {
    struct job *job;
    struct bootstrap_params params;
    bool absent; /**< the rank is not started */
    tryst_status status;
    struct err err;
    uint8_t cookie[BOOTSTRAP_COOKIE_BYTES];
    pthread_t thread;
};

struct job {
    int size;
    char address[64];
    int listen_fd;
    struct log log; /**< rank 0's log, which counts the ranks that have joined */
    _Atomic int joined_count;
    job_fn body; /**< run by each rank between joining and leaving; may be NULL */
    struct job_rank ranks[JOB_RANKS_MAX];
};

/** Reserve `port` among the processes of these tests until this process ends, by a name
 *  in the abstract namespace. */
static inline bool port_reserve(unsigned port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "tryst-test-port-%u", port);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                                    (size_t)length)) == 0)
        return true;
    if (fd >= 0)
        close(fd);
    return false;
}

/** Choose a port below the usual range of the ports that the kernel assigns itself. A job
 *  that listens on it, leaves and listens again most likely finds it free. */
static inline in_port_t job_port(void)
{
    static _Atomic unsigned turn;
    unsigned port;
    do
        port =
            10000 + ((unsigned)getpid() * 31 + atomic_fetch_add(&turn, 1) * 977) % 20000;
    while (!port_reserve(port) && atomic_load(&turn) < 20000);
    return htons((in_port_t)port);
}

/** Listen on a free loopback port and write its address as text. */
static inline int job_listen(int family, char address[64])
{
    enum { TRIES = 100 };
    int fd = socket(family, SOCK_STREAM, 0);
    for (int i = 0; fd >= 0 && i < TRIES; i++) {
        in_port_t port = job_port();
        struct sockaddr_in v4 = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = port};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                                  .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                                  .sin6_port = port};
        struct sockaddr *at = family == AF_INET ? (void *)&v4 : (void *)&v6;
        if (bind(fd, at, family == AF_INET ? sizeof v4 : sizeof v6) != 0)
            continue;
        snprintf(address, 64, family == AF_INET ? "127.0.0.1:%u" : "[::1]:%u",
                 ntohs(port));
        if (listen(fd, 1024) == 0)
            return fd;
        break;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static inline void job_note(void *arg, tryst_log_level level, const char *line)
{
    struct job *job = arg;
    if (strstr(line, " joined "))
        atomic_fetch_add(&job->joined_count, 1);
    if (level <= TRYST_LOG_WARN)
        print_message("%s\n", line);
}

/** Wait until `count` ranks have joined. */
static inline void job_await(struct job *job, int count)
{
    for (int i = 0; atomic_load(&job->joined_count) < count; i++) {
        assert_true(i < 2000);
        usleep(10000);
    }
}

/** Wait until `count` ranks have joined and every running thread sleeps. */
static inline void job_settle(struct job *job, int count)
{
    job_await(job, count);
    assert_true(threads_asleep());
}

/** Set parameters with which all `size` ranks succeed; a test changes them before
 *  job_run. */
static inline void job_init(struct job *job, int size, int family)
{
    memset(job, 0, sizeof *job);
    job->size = size;
    job->listen_fd = job_listen(family, job->address);
    assert_true(job->listen_fd >= 0);
    job->log = (struct log)LOG_INIT;
    job->log.level = TRYST_LOG_INFO;
    job->log.sink = job_note;
    job->log.arg = job;
    for (int rank = 0; rank < size; rank++) {
        job->ranks[rank].job = job;
        job->ranks[rank].params = (struct bootstrap_params){
            .rank = rank,
            .size = size,
            .address = job->address,
            .log = &job->log,
            .listen_fd = rank == 0 ? job->listen_fd : -1,
            .token = JOB_TOKEN,
            .token_bytes = sizeof JOB_TOKEN - 1,
            .timeout_ns = 20 * NS_PER_S,
        };
    }
}

static inline void *job_rank_main(void *arg)
{
    struct job_rank *rank = arg;
    struct bootstrap *bootstrap = NULL;
    rank->status = bootstrap_open(&rank->params, &rank->err, &bootstrap);
    if (rank->status != TRYST_OK)
        return NULL;
    memcpy(rank->cookie, bootstrap_cookie(bootstrap), sizeof rank->cookie);
    if (rank->job->body)
        rank->status =
            rank->job->body(rank->job, bootstrap, rank->params.rank, &rank->err);
    bootstrap_close(bootstrap, NULL);
    return NULL;
}

static inline void job_start(struct job *job)
{
    for (int i = 0; i < job->size; i++)
        if (!job->ranks[i].absent)
            assert_int_equal(pthread_create(&job->ranks[i].thread, NULL, job_rank_main,
                                            &job->ranks[i]),
                             0);
}

static inline void job_join(struct job *job)
{
    for (int i = 0; i < job->size; i++)
        if (!job->ranks[i].absent)
            pthread_join(job->ranks[i].thread, NULL);
}

static inline void job_run(struct job *job)
{
    job_start(job);
    job_join(job);
}

/** Check that all started ranks ended with `status`, each with a sentence that contains
 *  `text`. */
static inline void job_expect(const struct job *job, tryst_status status,
                              const char *text)
{
    for (int i = 0; i < job->size; i++) {
        const struct job_rank *rank = &job->ranks[i];
        if (rank->absent)
            continue;
        if (rank->status != status || (text && !strstr(rank->err.text, text)))
            print_error("rank %d: status %d, expected %d: %s\n", i, rank->status, status,
                        rank->err.text);
        assert_int_equal(rank->status, status);
        if (text)
            assert_non_null(strstr(rank->err.text, text));
    }
}

#endif
