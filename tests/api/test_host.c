/* SPDX-License-Identifier: Apache-2.0 */
/* Tryst as a guest of a program with an event loop, threads, timers, signal handlers and
 * a signal mask. The program's resources must not change while contexts open, load
 * modules, move tensors and close; two contexts of one process may be in two jobs at
 * once.
 *
 * One idea: the program never waits in the library. It sleeps in its own epoll, with the
 * context's descriptor among others, and checks its resources before, during and
 * after. */
#include "harness.h"

#include "support/patience.h"
#include "support/unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { LOST_MS = 15000, ROUNDS = 100, LARGE = 1 << 20, HOST_THREADS = 2 };

static void run_two(void (*main)(struct harness_rank *rank), const char *const *config)
{
    _Atomic(uint32_t) *counter = harness_share(4 * sizeof *counter);
    struct harness_params params = {.size = 2,
                                    .main = main,
                                    .arg = counter,
                                    .config = config,
                                    .no_group = true,
                                    .timeout_s = 40};
    int failed = harness_run(&params);
    harness_unshare(counter, 4 * sizeof *counter);
    assert_int_equal(failed, 0);
}

/* ---- the host's own loop ----------------------------------------------------------- */

struct loop {
    int epoll_fd, timer_fd, event_fd;
    /* a progress thread drives the engine, so the loop never progresses */
    bool passive;
    uint64_t ticks, pokes; /* events of the program's own timer and eventfd */
};

static void loop_add(const struct loop *loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK(epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void loop_open(struct loop *loop)
{
    const struct itimerspec every = {.it_interval.tv_nsec = 1000000,
                                     .it_value.tv_nsec = 1000000};
    *loop = (struct loop){.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                          .timer_fd =
                              timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
                          .event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    CHECK(loop->epoll_fd >= 0 && loop->timer_fd >= 0 && loop->event_fd >= 0);
    CHECK(timerfd_settime(loop->timer_fd, 0, &every, NULL) == 0);
    loop_add(loop, loop->timer_fd);
    loop_add(loop, loop->event_fd);
}

static void loop_close(struct loop *loop)
{
    close(loop->event_fd);
    close(loop->timer_fd);
    close(loop->epoll_fd);
}

/* Serve the program's own descriptors. If `sleeps`, first wait until one of them or a
 * context's descriptor is ready. */
static void loop_serve(struct loop *loop, bool sleeps)
{
    struct epoll_event events[8];
    int count = epoll_wait(loop->epoll_fd, events, 8, sleeps ? LOST_MS : 0);
    CHECK(count > 0 || !sleeps || (count < 0 && errno == EINTR));
    for (int i = 0; i < count; i++) {
        uint64_t value = 0;
        if (events[i].data.fd == loop->timer_fd &&
            read(loop->timer_fd, &value, sizeof value) == (ssize_t)sizeof value)
            loop->ticks += value;
        if (events[i].data.fd == loop->event_fd &&
            read(loop->event_fd, &value, sizeof value) == (ssize_t)sizeof value)
            loop->pokes += value;
    }
}

/* Take one turn: contexts progress, and the program sleeps only if all of them are
 * armed. */
static void loop_step(struct loop *loop, tryst_ctx *const *contexts, int count)
{
    bool sleeps = true;
    for (int i = 0; i < count && !loop->passive; i++)
        sleeps = tryst_progress(contexts[i]) == 0 && sleeps;
    for (int i = 0; i < count && sleeps && !loop->passive; i++)
        sleeps = tryst_arm(contexts[i]) == TRYST_OK;
    loop_serve(loop, sleeps);
}

static void loop_until(struct loop *loop, tryst_ctx *const *contexts, int count,
                       tryst_op *op)
{
    while (tryst_op_test(op) == TRYST_IN_PROGRESS)
        loop_step(loop, contexts, count);
    CHECK_STATUS(tryst_op_test(op), TRYST_OK);
    tryst_op_release(op);
}

/* ---- the host's signals ------------------------------------------------------------ */

static _Atomic(uint32_t) alarms; /* relaxed: only a counter */

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add_explicit(&alarms, 1, memory_order_relaxed);
}

static const int handled[] = {SIGALRM, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD,
                              SIGSEGV, SIGBUS,  SIGINT,  SIGTERM};

/* Install handlers without SA_RESTART, so that kernel calls return EINTR. */
static void handlers_set(struct sigaction *before)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGHUP);
    for (size_t i = 0; i < COUNT_OF(handled); i++)
        CHECK(sigaction(handled[i], &action, &before[i]) == 0);
}

static void handlers_restore(const struct sigaction *before)
{
    for (size_t i = 0; i < COUNT_OF(handled); i++)
        CHECK(sigaction(handled[i], &before[i], NULL) == 0);
}

/* ---- what belongs to the program --------------------------------------------------- */

/* SA_RESTORER, which libc adds whenever an action is set. */
enum { RESTORER = 0x04000000 };

struct belongings {
    struct sigaction actions[NSIG];
    sigset_t mask;
    stack_t stack;
    struct itimerval timer;
    mode_t umask;
    char folder[512];
    char **environment;
    size_t environment_count;
};

static void belongings_read(struct belongings *own)
{
    memset(own, 0, sizeof *own);
    for (int i = 1; i < NSIG; i++)
        /* fails for libc's own signals, which stay zero */
        sigaction(i, NULL, &own->actions[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &own->mask);
    CHECK(sigaltstack(NULL, &own->stack) == 0);
    CHECK(getitimer(ITIMER_REAL, &own->timer) == 0);
    own->umask = umask(0);
    umask(own->umask);
    CHECK(getcwd(own->folder, sizeof own->folder) != NULL);
    own->environment = environ;
    while (environ[own->environment_count])
        own->environment_count++;
}

static bool action_is_same(const struct sigaction *a, const struct sigaction *b)
{
    /* TSan does not report the masks of handlers */
    bool masks = a->sa_handler == on_signal && !harness_is_sanitized();
    return a->sa_handler == b->sa_handler && !((a->sa_flags ^ b->sa_flags) & ~RESTORER) &&
           (!masks ||
            sigismember(&a->sa_mask, SIGHUP) == sigismember(&b->sa_mask, SIGHUP));
}

/* Return the first signal whose action differs, or 0. */
static int signal_changed(const struct belongings *before)
{
    struct sigaction now;
    for (int i = 1; i < NSIG; i++) {
        memset(&now, 0, sizeof now);
        sigaction(i, NULL, &now);
        if (!action_is_same(&before->actions[i], &now))
            return i;
    }
    return 0;
}

/* Compare the signal actions. While a thread of the library starts a fabric, the fabric's
 * handlers may be installed (tryst.h); they are gone when the start has ended. */
static void signals_compare(const struct belongings *before)
{
    uint64_t most_ns = 10000000000;
    struct patience patience = patience_begin();
    int changed;
    while ((changed = signal_changed(before)) != 0 &&
           patience_spent_ns(&patience) < most_ns)
        harness_sleep_ms(1);
    if (changed)
        harness_fail(__FILE__, __LINE__, "signal %d has another handler now", changed);
}

static void belongings_compare(const struct belongings *before)
{
    struct belongings now;
    signals_compare(before);
    belongings_read(&now);
    for (int i = 1; i < NSIG; i++)
        CHECK_EQ(sigismember(&now.mask, i), sigismember(&before->mask, i));
    CHECK(now.stack.ss_sp == before->stack.ss_sp);
    CHECK_EQ(now.timer.it_interval.tv_usec, before->timer.it_interval.tv_usec);
    CHECK_EQ(now.umask, before->umask);
    CHECK(strcmp(now.folder, before->folder) == 0);
    CHECK(now.environment == before->environment);
    CHECK_EQ(now.environment_count, before->environment_count);
}

/* ---- threads ----------------------------------------------------------------------- */

struct host {
    struct loop loop;
    _Atomic(bool) ending;
    pthread_t threads[HOST_THREADS];
    /* threads of the program, the main thread last */
    _Atomic(pid_t) ids[HOST_THREADS + 1];
};

/* Run a thread of the program that writes to the loop's eventfd and blocks some
 * signals. */
static void *host_thread(void *arg)
{
    struct host *host = arg;
    sigset_t wanted, now;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR2);
    CHECK(pthread_sigmask(SIG_SETMASK, &wanted, NULL) == 0);
    for (int i = 0; i < HOST_THREADS; i++) {
        pid_t none = 0;
        if (atomic_compare_exchange_strong(&host->ids[i], &none,
                                           (pid_t)syscall(SYS_gettid)))
            break;
    }
    while (!atomic_load(&host->ending)) {
        uint64_t one = 1;
        CHECK(write(host->loop.event_fd, &one, sizeof one) == (ssize_t)sizeof one);
        harness_sleep_ms(2);
    }
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
    for (int i = 1; i < NSIG; i++)
        CHECK_EQ(sigismember(&now, i), sigismember(&wanted, i));
    return NULL;
}

/* Return the signals that thread `id` of this process blocks, read from /proc. Return all
 * signals for a thread that has ended or is ending, because such a thread has no mask. */
static uint64_t blocked_mask(const char *id)
{
    char path[64], line[256];
    uint64_t mask = UINT64_MAX;
    bool ended = false;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", id);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "State:", 6) == 0)
            ended = strpbrk(line, "ZX") != NULL;
        else if (strncmp(line, "SigBlk:", 7) == 0 && !ended)
            mask = strtoull(line + 7, NULL, 16);
    if (file)
        fclose(file);
    return mask;
}

static bool is_own(const struct host *host, pid_t id)
{
    for (int i = 0; i <= HOST_THREADS; i++)
        if (atomic_load(&host->ids[i]) == id)
            return true;
    return false;
}

/* Fail unless the library's threads block all of the program's signals that can be
 * blocked. `before`: threads that ran before, such as the harness's watchdog. Return the
 * number of threads that are not the program's. */
static int guests_count(const struct host *host, int before)
{
    uint64_t catchable = (1ull << (SIGALRM - 1)) | (1ull << (SIGUSR1 - 1)) |
                         (1ull << (SIGUSR2 - 1)) | (1ull << (SIGINT - 1)) |
                         (1ull << (SIGTERM - 1)) | (1ull << (SIGCHLD - 1));
    int count = 0, open = 0;
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    CHECK(dir != NULL);
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || is_own(host, (pid_t)atol(entry->d_name)))
            continue;
        count++;
        open += (blocked_mask(entry->d_name) & catchable) != catchable;
    }
    closedir(dir);
    if (open > before)
        harness_fail(__FILE__, __LINE__,
                     "%d threads of the library accept the program's signals",
                     open - before);
    return count;
}

static void host_open(struct host *host)
{
    memset(host, 0, sizeof *host);
    loop_open(&host->loop);
    atomic_store(&host->ids[HOST_THREADS], (pid_t)syscall(SYS_gettid));
    for (int i = 0; i < HOST_THREADS; i++)
        CHECK(pthread_create(&host->threads[i], NULL, host_thread, host) == 0);
    for (int i = 0; i < HOST_THREADS; i++)
        while (!atomic_load(&host->ids[i]))
            sched_yield();
}

static void host_close(struct host *host)
{
    atomic_store(&host->ending, true);
    for (int i = 0; i < HOST_THREADS; i++)
        pthread_join(host->threads[i], NULL);
    loop_close(&host->loop);
}

/* ---- a guest ----------------------------------------------------------------------- */

static uint64_t fill_seed(int round, int context, int process)
{
    return ((uint64_t)round * 2 + (uint64_t)context) * 2 + (uint64_t)process;
}

/* Exchange small and large tensors both ways, and wait in the program's own loop. */
static void talk(struct host *host, struct harness_rank *ranks, int count,
                 uint64_t step_id)
{
    tryst_ctx *contexts[2] = {NULL, NULL};
    tryst_step *steps[2];
    tryst_op *ops[2][2];
    /* by rank and by context, because ranks may be threads */
    static char out[2][2][LARGE], in[2][2][LARGE];
    int me = ranks[0].rank;
    for (int c = 0; c < count; c++) {
        contexts[c] = ranks[c].ctx;
        steps[c] = harness_step(&ranks[c], step_id);
    }
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = i % 50 == 49 ? LARGE : 64;
        for (int c = 0; c < count; c++) {
            harness_fill(out[me][c], bytes, fill_seed(i, c, me));
            ops[c][0] = harness_recv(&ranks[c], steps[c], 1 - ranks[c].rank, "t",
                                     in[me][c], bytes);
            ops[c][1] = harness_send(&ranks[c], steps[c], 1 - ranks[c].rank, "t",
                                     out[me][c], bytes);
        }
        for (int c = count - 1; c >= 0; c--) {
            loop_until(&host->loop, contexts, count, ops[c][0]);
            loop_until(&host->loop, contexts, count, ops[c][1]);
            CHECK_EQ(harness_mismatch(in[me][c], bytes, fill_seed(i, c, 1 - me)),
                     SIZE_MAX);
        }
    }
    for (int c = 0; c < count; c++) {
        tryst_op *closed;
        CHECK_STATUS(tryst_step_close(steps[c], &closed), TRYST_OK);
        loop_until(&host->loop, contexts, count, closed);
    }
}

static void guest_main(struct harness_rank *rank)
{
    const struct itimerval often = {.it_interval.tv_usec = 2000,
                                    .it_value.tv_usec = 2000};
    const struct itimerval never = {.it_interval.tv_usec = 0};
    struct sigaction actions[COUNT_OF(handled)];
    static char stack[2][1 << 16];
    const stack_t own = {.ss_sp = stack[rank->rank], .ss_size = sizeof stack[0]};
    stack_t old;
    struct belongings before;
    struct host host;
    CHECK(sigaltstack(&own, &old) == 0);
    handlers_set(actions);
    host_open(&host);
    int strangers = guests_count(&host, 9);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    belongings_read(&before);
    harness_open(rank);
    belongings_compare(&before);
    host.loop.passive = rank->params->config != NULL;
    if (!host.loop.passive)
        loop_add(&host.loop, tryst_event_fd(rank->ctx));
    talk(&host, rank, 1, 1);
    belongings_compare(&before);
    (void)guests_count(&host, strangers);
    harness_close(rank);
    belongings_compare(&before);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(host.loop.ticks > 0 && host.loop.pokes > 0);
    CHECK(atomic_load(&alarms) > 0);
    /* No thread of the library is left. The kernel lists a thread for a moment after its
     * join. */
    for (int i = 0; i < LOST_MS && guests_count(&host, strangers) > strangers; i++)
        harness_sleep_ms(1);
    CHECK_EQ(guests_count(&host, strangers), strangers);
    host_close(&host);
    handlers_restore(actions);
    CHECK(sigaltstack(&old, NULL) == 0);
}

/* Skipped for ranks as threads, which would share the program's state. */
static void test_guest(void **state)
{
    if (!harness_has_processes())
        skip();
    run_two(guest_main, NULL);
}

static void test_guest_with_a_progress_thread(void **state)
{
    static const char *const config[] = {"progress_thread", "1", NULL};
    if (!harness_has_processes())
        skip();
    run_two(guest_main, config);
}

/* ---- a program that signals itself all the time ------------------------------------ */

/* Nearly every kernel call of the library is interrupted by a signal, also calls that do
 * not wait: poll returns EINTR even with a timeout of 0. */
static void stormed_main(struct harness_rank *rank)
{
    const struct itimerval storm = {.it_interval.tv_usec = 100, .it_value.tv_usec = 100};
    const struct itimerval never = {.it_interval.tv_usec = 0};
    static char out[LARGE], in[LARGE];
    struct sigaction actions[COUNT_OF(handled)];
    handlers_set(actions);
    CHECK(setitimer(ITIMER_REAL, &storm, NULL) == 0);
    harness_open(rank);
    for (int i = 0; i < ROUNDS; i++) {
        tryst_step *step = harness_step(rank, (uint64_t)i);
        harness_fill(out, LARGE, fill_seed(i, 0, rank->rank));
        tryst_op *recv = harness_recv(rank, step, 1 - rank->rank, "t", in, LARGE);
        harness_end(harness_send(rank, step, 1 - rank->rank, "t", out, LARGE), TRYST_OK);
        harness_end(recv, TRYST_OK);
        CHECK_EQ(harness_mismatch(in, LARGE, fill_seed(i, 0, 1 - rank->rank)), SIZE_MAX);
        harness_step_close(step);
    }
    harness_close(rank);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(atomic_load(&alarms) > 0);
    handlers_restore(actions);
}

static void test_storm_of_signals(void **state)
{
    if (!harness_has_processes())
        skip();
    run_two(stormed_main, NULL);
}

/* ---- two contexts of one process --------------------------------------------------- */

/* Return the port of the second job. Rank 1 listens at its own socket and passes the port
 * in shared memory. */
static int other_port(const struct harness_rank *rank, int *listen_fd_p)
{
    _Atomic(uint32_t) *port = (_Atomic(uint32_t) *)rank->arg + 1;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    if (rank->rank == 1) {
        *listen_fd_p = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(bind(*listen_fd_p, (struct sockaddr *)&at, sizeof at) == 0);
        CHECK(listen(*listen_fd_p, 2) == 0);
        CHECK(getsockname(*listen_fd_p, (struct sockaddr *)&at, &bytes) == 0);
        atomic_store(port, ntohs(at.sin_port));
    }
    while (!atomic_load(port))
        harness_sleep_ms(1);
    return (int)atomic_load(port);
}

/* Open a second job of the same two processes with the ranks exchanged. */
static void other_open(const struct harness_rank *rank, struct harness_rank *other)
{
    char text[16], address[32];
    int listen_fd = -1;
    snprintf(address, sizeof address, "127.0.0.1:%d", other_port(rank, &listen_fd));
    *other = *rank;
    other->rank = 1 - rank->rank;
    tryst_config *config = harness_config(rank);
    snprintf(text, sizeof text, "%d", other->rank);
    CHECK_STATUS(tryst_config_set(config, "rank", text), TRYST_OK);
    CHECK_STATUS(tryst_config_set(config, "bootstrap", address), TRYST_OK);
    snprintf(text, sizeof text, "%d", other->rank == 0 ? listen_fd : -1);
    CHECK_STATUS(tryst_config_set(config, "bootstrap_fd", text), TRYST_OK);
    tryst_open_params params = {.struct_size = sizeof params, .config = config};
    tryst_group_params group = {.struct_size = sizeof group};
    if (tryst_open(&params, &other->ctx) != TRYST_OK ||
        tryst_group_open(other->ctx, &group, &other->group) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "the second job: %s", tryst_last_error());
    tryst_config_close(config);
}

/* Wait until both processes call this function, with progress on all contexts. A process
 * that leaves one context waits until its peers have received the leave, while these
 * peers may still need answers from the other context. */
static void contexts_meet(struct harness_rank *ranks, int count)
{
    _Atomic(uint32_t) *come = (_Atomic(uint32_t) *)ranks[0].arg + 2;
    atomic_fetch_add(come, 1);
    while (atomic_load(come) < 2) {
        for (int c = 0; c < count; c++)
            tryst_progress(ranks[c].ctx);
        harness_sleep_ms(1);
    }
}

static void two_jobs_main(struct harness_rank *rank)
{
    struct host host = {.ending = false};
    struct harness_rank ranks[2];
    loop_open(&host.loop);
    harness_open(rank);
    ranks[0] = *rank;
    other_open(rank, &ranks[1]);
    CHECK_EQ(tryst_group_rank(ranks[0].group) + tryst_group_rank(ranks[1].group), 1);
    for (int i = 0; i < 2; i++)
        loop_add(&host.loop, tryst_event_fd(ranks[i].ctx));
    talk(&host, ranks, 2, 1);
    contexts_meet(ranks, 2);
    harness_close(rank); /* the other context goes on */
    talk(&host, &ranks[1], 1, 2);
    tryst_group_close(ranks[1].group);
    tryst_close(ranks[1].ctx);
    loop_close(&host.loop);
}

static void test_two_contexts_in_two_jobs(void **state)
{
    run_two(two_jobs_main, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guest),
        cmocka_unit_test(test_guest_with_a_progress_thread),
        cmocka_unit_test(test_storm_of_signals),
        cmocka_unit_test(test_two_contexts_in_two_jobs),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
