/* SPDX-License-Identifier: Apache-2.0 */
/* Start the ranks of a conformance test, watch them, and report failures.
 *
 * The test's process never opens a transport: it forks the ranks (or one child with all
 * ranks as threads). So a crash or a hang is one failed test, and each test starts from a
 * clean state. */
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/foreign_fd.h"
#include "support/descriptors.h"

uint64_t conf_round;

static struct config *config_make(const struct conf_subject *subject)
{
    struct config *config = NULL;
    struct err err = ERR_INIT;
    if (config_open(NULL, &err, &config) != TRYST_OK)
        fail_msg("configuration: %s", err.text);
    for (int i = 0; subject->settings[i]; i++) {
        char name[64];
        const char *value = strchr(subject->settings[i], '=');
        (void)snprintf(name, sizeof name, "%.*s", (int)(value - subject->settings[i]),
                       subject->settings[i]);
        if (config_set(config, name, value + 1, &err) != TRYST_OK)
            fail_msg("configuration: %s", err.text);
    }
    return config;
}

const struct transport_ops *conf_ops(const struct conf_subject *subject, char *text)
{
    const struct transport_ops *ops = NULL;
    (void)snprintf(text, TRANSPORT_TEXT_MAX, "no transport of this name");
    for (int i = 0; transport_builtin[i]; i++)
        if (strcmp(transport_builtin[i]->name, subject->transport) == 0)
            return transport_builtin[i];
    struct config *config = config_make(subject);
    struct tryst_host host;
    module_host_init(&host, config, NULL);
    tryst_status status = module_load(&host, subject->transport, &ops, text);
    config_close(config);
    return status == TRYST_OK ? ops : NULL;
}

static bool device_load(const struct conf_subject *subject)
{
    const struct memory_ops *memory;
    char text[TRANSPORT_TEXT_MAX];
    struct config *config = config_make(subject);
    struct tryst_host host;
    module_host_init(&host, config, NULL);
    tryst_status status = memory_ops_load(&host, TRYST_MEMORY_CUDA, &memory, text);
    config_close(config);
    if (status != TRYST_OK)
        (void)printf("skipped: no device memory: %s\n", text);
    return status == TRYST_OK;
}

/* Test in a child: ranks forked from a process that has used a driver cannot use the
 * driver. */
bool conf_device_there(const struct conf_subject *subject)
{
    int status;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        exit(device_load(subject) ? 0 : 1);
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* ---- a rank ---- */

struct start {
    const struct conf_subject *subject;
    struct conf_shared *shared;
    conf_body body;
    int rank, size;
    bool threads, good;
};

static void log_to_failure(void *arg, tryst_log_level level, const char *line)
{
    const struct conf_ctx *ctx = arg;
    if (getenv("TRYST_TEST_VERBOSE") || level == TRYST_LOG_ERROR)
        (void)fprintf(stderr, "[rank %d] %s\n", ctx->rank, line);
}

static struct conf_ctx *ctx_make(const struct start *start)
{
    struct conf_ctx *ctx = calloc(1, sizeof *ctx);
    ctx->rank = start->rank;
    ctx->size = start->size;
    ctx->threads = start->threads;
    ctx->subject = start->subject;
    ctx->shared = start->shared;
    ctx->log.level = getenv("TRYST_TEST_VERBOSE") ? TRYST_LOG_TRACE : TRYST_LOG_WARN;
    atomic_store(&ctx->log.rank, start->rank);
    ctx->log.sink = log_to_failure;
    ctx->log.arg = ctx;
    ctx->config = config_make(start->subject);
    module_host_init(&ctx->host, ctx->config, &ctx->log);
    const char *seed = getenv("TRYST_TEST_SEED");
    random_seed(&ctx->random, (seed ? strtoull(seed, NULL, 0) : 1) * 1000000 +
                                  conf_round * 1000 + (uint64_t)ctx->rank);
    return ctx;
}

static void rank_run(struct start *start)
{
    struct conf_ctx *ctx = ctx_make(start);
    if (setjmp(ctx->escape) == 0) {
        start->body(ctx);
        start->good = true;
    }
    config_close(ctx->config);
    free(ctx);
    atomic_store(&start->shared->ranks[start->rank].passed, 1);
}

/* A library that leaks memory in each life also leaks a connection now and then:
 * libfabric's TCP leaks connections that it has accepted and not read from when its
 * listener closes (transports/ofi/README.md). The harness itself holds no TCP
 * connection. */
static bool descriptors_are_back(const struct start *start, struct descriptors before)
{
    struct descriptors now = descriptors_count();
    int lost = now.tcp - before.tcp;
    return now.all - now.tcp == before.all - before.tcp && lost >= 0 &&
           lost <= (start->subject->leaks_kib ? 2 : 0);
}

/* After one rail, the descriptors that a fabric's library keeps for the whole process are
 * open. */
static void warm_body(struct conf_ctx *ctx)
{
    ctx->size = 1;
    conf_open(ctx);
    conf_close_alone(ctx);
}

static void *thread_run(void *arg)
{
    rank_run(arg);
    return NULL;
}

static bool ranks_run(struct start *starts, int count)
{
    pthread_t threads[CONF_RANKS_MAX];
    bool good = true;
    for (int i = 1; i < count; i++)
        if (pthread_create(&threads[i], NULL, thread_run, &starts[i]) != 0)
            abort();
    rank_run(&starts[0]);
    for (int i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++)
        good = good && starts[i].good;
    return good;
}

/* Run the child: `count` ranks from `first` on, then the checks for leaks. */
static void child_run(const struct start *first, int count)
{
    struct start starts[CONF_RANKS_MAX];
    struct start warm = *first;
    struct conf_rank *corner = &first->shared->ranks[first->rank];
    warm.body = warm_body;
    warm.shared = calloc(1, sizeof *warm.shared); /* not visible to the other ranks */
    rank_run(&warm);
    memcpy(corner->failure, warm.shared->ranks[warm.rank].failure,
           sizeof corner->failure);
    free(warm.shared);
    struct descriptors before = descriptors_count();
    uint64_t live = alloc_live_count();
    for (int i = 0; i < count; i++) {
        starts[i] = *first;
        starts[i].rank += i;
        first->shared->pids[first->rank + i] = getpid();
    }
    bool good = warm.good && ranks_run(starts, count);
    if (good && alloc_live_count() != live) {
        (void)snprintf(corner->failure, sizeof corner->failure,
                       "leak: %llu allocations alive, %llu before",
                       (unsigned long long)alloc_live_count(), (unsigned long long)live);
        good = false;
    }
    if (good && !descriptors_are_back(first, before)) {
        struct descriptors now = descriptors_count();
        (void)snprintf(corner->failure, sizeof corner->failure,
                       "leak: %d descriptors open, %d before; of TCP %d, %d before",
                       now.all, before.all, now.tcp, before.tcp);
        good = false;
    }
    if (!good)
        atomic_store(&first->shared->failed, 1);
    (void)foreign_fds_wait(NS_PER_S); /* TSan reports a thread that is not joined */
    exit(good ? 0 : 1);
}

/* ---- watching ---- */

static void dump(const struct conf_shared *shared, int ranks)
{
    for (int i = 0; i < ranks && i < 8; i++)
        (void)fprintf(stderr, "  rank %d: %s%s%s\n", i, shared->ranks[i].where,
                      shared->ranks[i].failure[0] ? " FAILED " : "",
                      shared->ranks[i].failure);
}

/* True if the child has ended. The child stays a zombie: peers must see the death before
 * the child is reaped. */
static bool child_ended(pid_t pid, siginfo_t *info)
{
    memset(info, 0, sizeof *info);
    return waitid(P_PID, (id_t)pid, info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info->si_pid == pid;
}

static bool child_good(const struct conf_rank *rank, const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED)
        return info->si_status == 0;
    return info->si_status == SIGKILL && rank->mortal;
}

/* Watch until all children have ended, one has crashed (the others are notified), or the
 * time is up. */
static bool children_watch(struct conf_shared *shared, const pid_t *pids, int count,
                           unsigned limit_s, char *text, size_t text_bytes)
{
    struct patience patience = patience_begin();
    bool good = true;
    for (int ended = 0; ended < count;) {
        ended = 0;
        for (int i = 0; i < count; i++) {
            siginfo_t info;
            if (!child_ended(pids[i], &info))
                continue;
            ended++;
            if (child_good(&shared->ranks[i], &info) || !good)
                continue;
            good = false;
            (void)snprintf(text, text_bytes, "rank %d %s %d", i,
                           info.si_code == CLD_EXITED ? "exited with" : "died of signal",
                           info.si_status);
            atomic_store(&shared->failed, 1);
        }
        if (patience_spent_ns(&patience) > limit_s * NS_PER_S) {
            (void)snprintf(text, text_bytes, "not finished after %u s", limit_s);
            return false;
        }
        for (int i = 0; i < count && atomic_load(&shared->failed); i++)
            (void)kill(pids[i], SIGCONT); /* a stopped rank must see the failure, too */
        usleep(500);
    }
    return good;
}

static const char *first_failure(const struct conf_shared *shared, int ranks)
{
    for (int i = 0; i < ranks; i++)
        if (shared->ranks[i].failure[0])
            return shared->ranks[i].failure;
    return "";
}

bool conf_try(const struct conf_subject *subject, enum conf_mode mode, int ranks,
              unsigned limit_s, conf_body body, char *text)
{
    struct conf_shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct start start = {.subject = subject,
                          .shared = shared,
                          .body = body,
                          .size = ranks,
                          .threads = mode == CONF_THREADS};
    int children = start.threads ? 1 : ranks;
    pid_t pids[CONF_RANKS_MAX];
    char ending[128] = "";
    assert_ptr_not_equal(shared, MAP_FAILED);
    (void)fflush(NULL);
    for (int i = 0; i < children; i++) {
        start.rank = i;
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            child_run(&start, start.threads ? ranks : 1);
    }
    bool good = children_watch(shared, pids, children, limit_s * conf_patience, ending,
                               sizeof ending);
    if (!good && !subject->sabotage)
        dump(shared, ranks);
    for (int i = 0; i < children; i++) {
        (void)kill(pids[i], SIGCONT);
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
    (void)snprintf(text, CONF_TEXT_MAX, "%s: %s", ending, first_failure(shared, ranks));
    munmap(shared, sizeof *shared);
    return good;
}

void conf_run(const struct conf_subject *subject, enum conf_mode mode, int ranks,
              unsigned limit_s, conf_body body)
{
    char text[CONF_TEXT_MAX];
    if (!conf_try(subject, mode, ranks, limit_s, body, text))
        fail_msg("%s, %s: %s", subject->name,
                 mode == CONF_THREADS ? "threads" : "processes", text);
}
