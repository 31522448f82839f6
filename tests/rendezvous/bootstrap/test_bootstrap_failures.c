/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that do not come together: which rank the error names, at which end, and how
 * soon. */
#include "bootstrap_job.h"

#include <signal.h>
#include <sys/wait.h>

#include "rendezvous/bootstrap/session/bootstrap_net.h"
#include "rendezvous/bootstrap/session/bootstrap_text.h"
#include "support/fake_clock.h"
#include "support/patience.h"

/* Return the time since `began_ns`, divided by how much slower this machine is. */
static uint64_t since_ns(uint64_t began_ns)
{
    return (uint64_t)((double)(clock_monotonic_ns() - began_ns) / patience_slower());
}

static void timeout_set(struct job *job, uint64_t ns)
{
    for (int i = 0; i < job->size; i++)
        job->ranks[i].params.timeout_ns = ns;
}

/* Put all ranks of the job on the clock `fake`, which only the test advances. */
static void clock_set(struct job *job, struct clock_fake *fake)
{
    clock_fake_init(fake, 1000);
    for (int i = 0; i < job->size; i++)
        job->ranks[i].params.clock = &fake->clock;
}

/* Advance the clock by `ns` while all ranks wait, then by as long as rank 0's server
 * stays for late ranks. */
static void job_pass(struct job *job, struct clock_fake *fake, uint64_t ns)
{
    clock_fake_advance(fake, ns);
    for (int i = 1; i < job->size; i++)
        if (!job->ranks[i].absent)
            pthread_join(job->ranks[i].thread, NULL);
    assert_true(threads_asleep());
    do
        clock_fake_advance(fake, 3600 * NS_PER_S);
    while (pthread_tryjoin_np(job->ranks[0].thread, NULL) != 0 && threads_asleep());
}

/* The warnings of a job. */
struct lines {
    struct job *job;
    _Atomic int count;
    char last[1024];
};

static void lines_note(void *arg, tryst_log_level level, const char *line)
{
    struct lines *lines = arg;
    job_note(lines->job, level, line);
    if (level != TRYST_LOG_WARN)
        return;
    snprintf(lines->last, sizeof lines->last, "%s", line);
    atomic_fetch_add(&lines->count, 1);
}

/* ---- ranks that do not come -------------------------------------------------------- */

/* The time-out of missing ranks starts when the other ranks have arrived, however long
 * that takes. */
static void missing_ranks_are_named(void **state)
{
    struct job job;
    struct clock_fake fake;
    job_init(&job, 9, AF_INET);
    clock_set(&job, &fake);
    timeout_set(&job, 400 * NS_PER_MS);
    job.ranks[2].absent = job.ranks[5].absent = true;
    job.ranks[6].absent = job.ranks[7].absent = true;
    job_start(&job);
    job_settle(&job, 5);
    job_pass(&job, &fake, 401 * NS_PER_MS);
    job_expect(&job, TRYST_E_BOOTSTRAP,
               "ranks 2, 5..7 did not arrive at rank 0 (127.0.0.1:");
    job_expect(&job, TRYST_E_BOOTSTRAP, "within 400 ms");
    job_expect(&job, TRYST_E_BOOTSTRAP, "TRYST_BOOTSTRAP_TIMEOUT");
}

static void one_missing_rank_is_named(void **state)
{
    struct job job;
    job_init(&job, 2, AF_INET);
    timeout_set(&job, 200 * NS_PER_MS);
    job.ranks[1].absent = true;
    job_run(&job);
    job_expect(&job, TRYST_E_BOOTSTRAP, "rank 1 did not arrive");
}

static void missing_rank_0_is_named(void **state)
{
    struct job job;
    uint64_t began_ns = clock_monotonic_ns();
    job_init(&job, 3, AF_INET);
    close(job.listen_fd);
    timeout_set(&job, 300 * NS_PER_MS);
    job.ranks[0].absent = true;
    job_run(&job);
    job_expect(&job, TRYST_E_BOOTSTRAP, "rank 0 was not reached at 127.0.0.1:");
    job_expect(&job, TRYST_E_BOOTSTRAP, "within 300 ms (Connection refused)");
    assert_true(since_ns(began_ns) < 10 * NS_PER_S);
}

/* The earliest deadline ends the wait for all ranks, whichever rank has it. */
static void earliest_deadline_counts(void **state)
{
    struct job job;
    uint64_t began_ns = clock_monotonic_ns();
    job_init(&job, 4, AF_INET);
    job.ranks[2].params.timeout_ns = 2 * NS_PER_S;
    job.ranks[3].absent = true;
    job_run(&job);
    job_expect(&job, TRYST_E_BOOTSTRAP, "rank 3 did not arrive");
    assert_true(since_ns(began_ns) < 10 * NS_PER_S);
}

static atomic_int gave_up; /* ranks that have waited for the late one */

static tryst_status one_lags(struct job *job, struct bootstrap *bootstrap, int rank,
                             struct err *err)
{
    while (rank == 2 && atomic_load(&gave_up) < job->size - 1)
        usleep(20000);
    tryst_status status = bootstrap_allgather(bootstrap, NULL, 0, NULL, err);
    atomic_fetch_add(&gave_up, 1);
    return status;
}

static void rank_that_lags_is_named(void **state)
{
    struct job job;
    struct clock_fake fake;
    atomic_store(&gave_up, 0);
    job_init(&job, 4, AF_INET);
    clock_set(&job, &fake);
    timeout_set(&job, 300 * NS_PER_MS);
    job.body = one_lags;
    job_start(&job);
    job_settle(&job, 4);
    job_pass(&job, &fake, 301 * NS_PER_MS);
    job_expect(&job, TRYST_E_BOOTSTRAP, "rank 2 arrived, but did not take part");
}

/* An hour passes on a fake clock within an instant of real time. */
static void deadlines_count_on_the_given_clock(void **state)
{
    struct job job;
    struct clock_fake fake;
    uint64_t began_ns = clock_monotonic_ns();
    job_init(&job, 3, AF_INET);
    clock_set(&job, &fake);
    timeout_set(&job, 3600 * NS_PER_S);
    job.ranks[2].absent = true;
    job_start(&job);
    job_settle(&job, 2);
    job_pass(&job, &fake, 3601 * NS_PER_S);
    job_expect(&job, TRYST_E_BOOTSTRAP, "rank 2 did not arrive");
    job_expect(&job, TRYST_E_BOOTSTRAP, "within 3600 s");
    assert_true(since_ns(began_ns) < 20 * NS_PER_S);
}

static void cancel_ends_it(void **state)
{
    for (int rank = 0; rank < 2; rank++) {
        struct job job;
        atomic_bool cancel = false;
        uint64_t began_ns = clock_monotonic_ns();
        job_init(&job, 3, AF_INET);
        job.ranks[rank].params.cancel = &cancel;
        job.ranks[2].absent = true;
        job_start(&job);
        job_await(&job, 2);
        atomic_store_explicit(&cancel, true, memory_order_relaxed);
        job_join(&job);
        /* The cancelled rank reports the cancel; the other rank's error names the
         * cancelled one. */
        job_expect(&job, TRYST_E_CANCELED, "cancelled");
        char who[32];
        snprintf(who, sizeof who, "rank %d (pid", rank);
        assert_non_null(strstr(job.ranks[1 - rank].err.text, who));
        assert_true(since_ns(began_ns) < 10 * NS_PER_S);
    }
}

static void cancel_ends_the_knocking(void **state)
{
    struct job job;
    atomic_bool cancel = true;
    job_init(&job, 2, AF_INET);
    close(job.listen_fd);
    job.ranks[0].absent = true;
    job.ranks[1].params.cancel = &cancel;
    job_run(&job);
    job_expect(&job, TRYST_E_CANCELED, "rank 1 was cancelled");
}

/* ---- ranks that contradict each other ---------------------------------------------- */

static void sizes_that_differ(void **state)
{
    struct job job;
    job_init(&job, 3, AF_INET);
    job.ranks[2].params.size = 5;
    job_run(&job);
    job_expect(&job, TRYST_E_GROUP, "rank 2 (pid");
    job_expect(&job, TRYST_E_GROUP, "a job of 5 ranks, rank 0 to one of 3");
}

static void rank_beyond_the_size(void **state)
{
    struct job job;
    job_init(&job, 2, AF_INET);
    job.ranks[1].params.rank = 6;
    job.ranks[1].params.size = 7;
    job_run(&job);
    job_expect(&job, TRYST_E_GROUP, "rank 6 (pid");
}

static void one_rank_claimed_twice(void **state)
{
    struct job job;
    job_init(&job, 4, AF_INET);
    job.ranks[3].params.rank = 1;
    job_run(&job);
    job_expect(&job, TRYST_E_GROUP, "two processes claim one rank: rank 1 (pid");
    job_expect(&job, TRYST_E_GROUP, "TRYST_RANK");
}

static void rank_0_claimed_twice(void **state)
{
    struct job job;
    job_init(&job, 2, AF_INET);
    /* The second rank 0 must find the port in use. */
    job.ranks[1].params = job.ranks[0].params;
    job.ranks[1].params.listen_fd = -1;
    timeout_set(&job, 500 * NS_PER_MS);
    job_run(&job);
    assert_int_equal(job.ranks[1].status, TRYST_E_BOOTSTRAP);
    assert_non_null(strstr(job.ranks[1].err.text, "the port is in use"));
    assert_int_equal(job.ranks[0].status, TRYST_E_BOOTSTRAP);
}

static void *leave_port(void *arg)
{
    usleep(300000);
    close(*(int *)arg);
    return NULL;
}

/* The last job's port stays in use for a moment after rank 0 starts. */
static void port_that_comes_free(void **state)
{
    struct job job;
    pthread_t thread;
    job_init(&job, 2, AF_INET);
    int fd = job.listen_fd;
    job.ranks[0].params.listen_fd = -1;
    assert_int_equal(pthread_create(&thread, NULL, leave_port, &fd), 0);
    job_run(&job);
    pthread_join(thread, NULL);
    job_expect(&job, TRYST_OK, NULL);
}

/* No process listens on the port. Sooner or later the kernel assigns that very port to
 * the connecting socket, which must not connect to itself. */
static void never_connected_to_itself(void **state)
{
    enum { TRIES = 60000 };
    struct bootstrap_wait wait = {.deadline_ns = UINT64_MAX};
    struct sockaddr_in at = {.sin_family = AF_INET};
    char address[64];
    int fd = job_listen(AF_INET, address), error;
    socklen_t bytes = sizeof at;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    close(fd);
    struct addrinfo to = {.ai_family = AF_INET,
                          .ai_socktype = SOCK_STREAM,
                          .ai_addr = (struct sockaddr *)&at,
                          .ai_addrlen = sizeof at};
    for (int i = 0; i < TRIES; i++) {
        struct sockaddr_in own = {.sin_port = 0};
        fd = bootstrap_connect(&wait, &to, UINT64_MAX, &error);
        if (fd < 0)
            continue;
        /* The only other end possible is a program of this machine that was just given
         * the port. */
        bytes = sizeof own;
        assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &bytes), 0);
        assert_int_not_equal(own.sin_port, at.sin_port);
        close(fd);
    }
}

static tryst_status gather_own_size(struct job *job, struct bootstrap *bootstrap,
                                    int rank, struct err *err)
{
    uint8_t mine[64] = {0}, all[64 * JOB_RANKS_MAX];
    (void)job;
    return bootstrap_allgather(bootstrap, mine, rank == 1 ? 48 : 40, all, err);
}

static void all_gathers_of_different_size(void **state)
{
    struct job job;
    job_init(&job, 3, AF_INET);
    job.body = gather_own_size;
    job_run(&job);
    job_expect(&job, TRYST_E_GROUP, "bytes to step 1 of the bootstrap");
    job_expect(&job, TRYST_E_GROUP, "48");
    job_expect(&job, TRYST_E_GROUP, "40");
}

static tryst_status one_leaves_early(struct job *job, struct bootstrap *bootstrap,
                                     int rank, struct err *err)
{
    (void)job;
    if (rank == 1)
        return err_set(err, TRYST_E_BOOTSTRAP, "(rank 1 left the bootstrap)");
    return bootstrap_allgather(bootstrap, NULL, 0, NULL, err);
}

static void rank_that_leaves_early_is_named(void **state)
{
    struct job job;
    job_init(&job, 3, AF_INET);
    job.body = one_leaves_early;
    job_run(&job);
    job_expect(&job, TRYST_E_BOOTSTRAP, "rank 1 left the bootstrap");
}

/* ---- two jobs ---------------------------------------------------------------------- */

/* With one address, one token and one size, a rank of another job is refused at once by
 * a sentence with both identities, and the job comes together all the same. */
static void rank_of_another_job(void **state)
{
    static const char *const identities[][2] = {
        {"SLURM_JOB_ID=101", "SLURM_JOB_ID=102"},
        {"SLURM_JOB_ID=101, SLURM_STEP_ID=0", "SLURM_JOB_ID=101, SLURM_STEP_ID=1"},
        {"TRYST_JOB=\x1b[31m", ""},
        {"", "TRYST_JOB=b"},
    };
    for (size_t i = 0; i < 2 * COUNT_OF(identities); i++) {
        const char *const *identity = identities[i / 2];
        struct job job;
        struct job_rank other;
        uint64_t began_ns = clock_monotonic_ns();
        job_init(&job, 3, AF_INET);
        for (int rank = 0; rank < 3; rank++) {
            job.ranks[rank].params.job = identity[0];
            job.ranks[rank].params.insecure = i % 2;
            if (i % 2)
                job.ranks[rank].params.token_bytes = 0;
        }
        pthread_create(&job.ranks[0].thread, NULL, job_rank_main, &job.ranks[0]);
        pthread_create(&job.ranks[2].thread, NULL, job_rank_main, &job.ranks[2]);
        other = job.ranks[1];
        other.params.job = identity[1];
        (void)job_rank_main(&other);
        assert_true(since_ns(began_ns) < 5 * NS_PER_S);
        pthread_create(&job.ranks[1].thread, NULL, job_rank_main, &job.ranks[1]);
        job_join(&job);
        job_expect(&job, TRYST_OK, NULL);
        assert_int_equal(other.status, TRYST_E_GROUP);
        assert_non_null(strstr(other.err.text, "belongs to another job"));
        assert_non_null(
            strstr(other.err.text, *identity[1] ? identity[1] : "no identity"));
        assert_non_null(strstr(other.err.text, i / 2 == 2     ? "TRYST_JOB=\\x1b[31m"
                                               : *identity[0] ? identity[0]
                                                              : "no identity"));
    }
}

/* ---- long waits -------------------------------------------------------------------- */

static void long_wait_names_who_has_come(void **state)
{
    struct job job;
    struct clock_fake fake;
    struct lines lines = {.count = 0};
    job_init(&job, 5, AF_INET);
    lines.job = &job;
    job.log.sink = lines_note;
    job.log.arg = &lines;
    clock_set(&job, &fake);
    timeout_set(&job, 60 * NS_PER_S);
    job.ranks[1].absent = job.ranks[3].absent = true;
    job_start(&job);
    job_settle(&job, 3);
    clock_fake_advance(&fake, 9 * NS_PER_S);
    assert_true(threads_asleep());
    assert_int_equal(atomic_load(&lines.count), 0);
    for (int i = 0; i < 3; i++) {
        clock_fake_advance(&fake, 11 * NS_PER_S);
        assert_true(threads_asleep());
        while (atomic_load(&lines.count) == 0)
            usleep(1000);
        assert_int_equal(atomic_load(&lines.count), 1);
    }
    assert_non_null(strstr(lines.last, "10 s have passed: arrived: ranks 0, 2, 4 of 5; "
                                       "missing: ranks 1, 3; the time-out is 60 s"));
    job_pass(&job, &fake, 19 * NS_PER_S);
    job_expect(&job, TRYST_E_BOOTSTRAP, "ranks 1, 3 did not arrive");
}

static void long_wait_for_rank_0_is_logged(void **state)
{
    struct job job;
    struct clock_fake fake;
    struct lines lines = {.count = 0};
    job_init(&job, 2, AF_INET);
    close(job.listen_fd);
    lines.job = &job;
    job.log.sink = lines_note;
    job.log.arg = &lines;
    clock_set(&job, &fake);
    job.ranks[0].absent = true;
    job_start(&job);
    for (int i = 0; i < 3; i++) {
        clock_fake_advance(&fake, 6 * NS_PER_S);
        usleep(50000);
    }
    clock_fake_advance(&fake, 60 * NS_PER_S);
    pthread_join(job.ranks[1].thread, NULL);
    assert_int_equal(atomic_load(&lines.count), 1);
    assert_non_null(strstr(lines.last, "rank 1 has not reached rank 0 at 127.0.0.1:"));
    assert_non_null(strstr(lines.last, "Connection refused"));
}

/* ---- the token --------------------------------------------------------------------- */

static void token_that_differs(void **state)
{
    struct job job;
    struct clock_fake fake;
    job_init(&job, 3, AF_INET);
    clock_set(&job, &fake);
    timeout_set(&job, 600 * NS_PER_MS);
    job.ranks[2].params.token = "another token, as long";
    job.ranks[2].params.token_bytes = 22;
    job_start(&job);
    job_settle(&job, 2);
    job_pass(&job, &fake, 601 * NS_PER_MS);
    assert_int_equal(job.ranks[2].status, TRYST_E_TOKEN);
    assert_non_null(strstr(job.ranks[2].err.text, "did not accept the token of rank 2"));
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(job.ranks[rank].status, TRYST_E_BOOTSTRAP);
        assert_non_null(strstr(job.ranks[rank].err.text, "rank 2 did not arrive"));
        assert_non_null(strstr(job.ranks[rank].err.text, "did not prove the token"));
    }
}

static void token_of_some_only(void **state)
{
    for (int without = 0; without < 2; without++) {
        struct job job;
        struct clock_fake fake;
        job_init(&job, 2, AF_INET);
        clock_set(&job, &fake);
        timeout_set(&job, 400 * NS_PER_MS);
        job.ranks[without].params.token_bytes = 0;
        job.ranks[without].params.insecure = true;
        job_start(&job);
        job_settle(&job, 1);
        job_pass(&job, &fake, 401 * NS_PER_MS);
        assert_int_equal(job.ranks[1].status, TRYST_E_TOKEN);
        assert_non_null(strstr(job.ranks[1].err.text, "TRYST_INSECURE=1 to all"));
        assert_int_equal(job.ranks[0].status, TRYST_E_BOOTSTRAP);
    }
}

static void no_token_is_an_error_and_insecure_is_not(void **state)
{
    struct job job;
    job_init(&job, 2, AF_INET);
    for (int i = 0; i < 2; i++) {
        job.ranks[i].params.token = NULL;
        job.ranks[i].params.token_bytes = 0;
    }
    job_run(&job);
    job_expect(&job, TRYST_E_TOKEN, "TRYST_TOKEN");
    for (int i = 0; i < 2; i++)
        job.ranks[i].params.insecure = true;
    job_run(&job);
    job_expect(&job, TRYST_OK, NULL);
}

/* ---- ranks that die ---------------------------------------------------------------- */

enum death { DEATH_BEFORE_BARRIER, DEATH_IN_BARRIER };

/* Let process `victim` be killed once it is a member (rank 0 too). */
static void death_is_told(int victim, enum death when)
{
    struct job job;
    int ready[2];
    char byte;
    pid_t pids[3];
    job_init(&job, 3, AF_INET);
    job.body = NULL;
    assert_int_equal(pipe(ready), 0);
    for (int rank = 0; rank < 3; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] > 0)
            continue;
        struct err err = ERR_INIT;
        struct bootstrap *bootstrap = NULL;
        if (rank != 0)
            close(job.listen_fd);
        if (bootstrap_open(&job.ranks[rank].params, &err, &bootstrap) != TRYST_OK)
            _exit(9);
        if (write(ready[1], "r", 1) != 1)
            _exit(9);
        if (rank == victim) {
            if (when == DEATH_IN_BARRIER)
                alarm(1); /* no handler: SIGALRM kills the process */
            if (when == DEATH_IN_BARRIER)
                bootstrap_allgather(bootstrap, NULL, 0, NULL, &err);
            pause();
        }
        /* The survivors of a death in the barrier enter it late, so that the victim waits
         * there. */
        if (when == DEATH_IN_BARRIER)
            sleep(2);
        tryst_status status = bootstrap_allgather(bootstrap, NULL, 0, NULL, &err);
        bool named = victim == 0 ? strstr(err.text, "rank 0") != NULL
                                 : strstr(err.text, "rank 2 (pid") != NULL;
        if (status != TRYST_E_BOOTSTRAP || !named)
            fprintf(stderr, "rank %d: %d %s\n", rank, status, err.text);
        bootstrap_close(bootstrap, NULL);
        _exit(status == TRYST_E_BOOTSTRAP && named ? 0 : 1);
    }
    close(job.listen_fd);
    for (int rank = 0; rank < 3; rank++) /* all are members before any dies */
        assert_int_equal(read(ready[0], &byte, 1), 1);
    if (when == DEATH_BEFORE_BARRIER)
        kill(pids[victim], SIGKILL);
    uint64_t began_ns = clock_monotonic_ns();
    for (int rank = 0; rank < 3; rank++) {
        int status;
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        if (rank != victim)
            assert_int_equal(status, 0);
    }
    assert_true(since_ns(began_ns) < job.ranks[0].params.timeout_ns);
    close(ready[0]);
    close(ready[1]);
}

static void killed_rank_is_named(void **state)
{
    death_is_told(2, DEATH_BEFORE_BARRIER);
    death_is_told(2, DEATH_IN_BARRIER);
}

static void killed_rank_0_is_named(void **state)
{
    death_is_told(0, DEATH_BEFORE_BARRIER);
    death_is_told(0, DEATH_IN_BARRIER);
}

static tryst_status one_aborts(struct job *job, struct bootstrap *bootstrap, int rank,
                               struct err *err)
{
    (void)job;
    if (rank != 1)
        return bootstrap_allgather(bootstrap, NULL, 0, NULL, err);
    return err_set(err, TRYST_E_MODULE, "the fabric is on fire");
}

static void *abort_main(void *arg)
{
    struct job_rank *rank = arg;
    struct bootstrap *bootstrap = NULL;
    rank->status = bootstrap_open(&rank->params, &rank->err, &bootstrap);
    if (rank->status != TRYST_OK)
        return NULL;
    rank->status = one_aborts(rank->job, bootstrap, rank->params.rank, &rank->err);
    bootstrap_close(bootstrap, rank->params.rank == 1 ? &rank->err : NULL);
    return NULL;
}

static void reason_of_one_is_told_to_all(void **state)
{
    struct job job;
    job_init(&job, 3, AF_INET);
    for (int rank = 0; rank < 3; rank++)
        pthread_create(&job.ranks[rank].thread, NULL, abort_main, &job.ranks[rank]);
    job_join(&job);
    job_expect(&job, TRYST_E_MODULE, "the fabric is on fire");
    assert_non_null(strstr(job.ranks[0].err.text, "rank 1 (pid"));
    assert_non_null(strstr(job.ranks[2].err.text, "gave up"));
}

/* ---- memory ------------------------------------------------------------------------ */

static tryst_status walk_body(struct job *job, struct bootstrap *bootstrap, int rank,
                              struct err *err)
{
    uint8_t mine[256] = {0}, all[2 * 256];
    (void)job;
    (void)rank;
    tryst_status status = bootstrap_allgather(bootstrap, mine, sizeof mine, all, err);
    if (status == TRYST_OK)
        status = bootstrap_broadcast(bootstrap, mine, sizeof mine, err);
    return status == TRYST_OK ? bootstrap_allgather(bootstrap, NULL, 0, NULL, err)
                              : status;
}

/* Each allocation of a whole session, in whichever thread, fails once. No rank hangs or
 * succeeds alone, nothing leaks, and an error says why. (The last exchange of each
 * session needs both ranks.) */
static void every_allocation_may_fail(void **state)
{
    uint64_t live = alloc_live_count();
    bool came_to_pass = true;
    int walked = 0;
    for (uint64_t nth = 1; came_to_pass; nth++) {
        struct job job;
        job_init(&job, 2, AF_INET);
        timeout_set(&job, 200 * NS_PER_MS);
        job.body = walk_body;
        alloc_fail_at(nth);
        job_run(&job);
        came_to_pass = alloc_fail_off();
        assert_int_equal(alloc_live_count(), live);
        if (!came_to_pass) {
            job_expect(&job, TRYST_OK, NULL);
            break;
        }
        assert_true(job.ranks[0].status == TRYST_E_NOMEM ||
                    job.ranks[1].status == TRYST_E_NOMEM);
        assert_true(job.ranks[0].status != TRYST_OK && job.ranks[1].status != TRYST_OK);
        /* the test still owns the socket where rank 0 failed before taking it over */
        close(job.listen_fd);
        walked++;
    }
    print_message("walked over %d allocations\n", walked);
    assert_true(walked > 8);
}

/* ---- parameters -------------------------------------------------------------------- */

static void parameters_that_make_no_sense(void **state)
{
    static const struct {
        struct bootstrap_params params;
        tryst_status status;
        const char *text;
    } cases[] = {
        {{.rank = 0, .size = 0}, TRYST_E_INVALID, "rank 0 of 0"},
        {{.rank = 0, .size = 1}, TRYST_E_INVALID, "rank 0 of 1"},
        {{.rank = -1, .size = 2}, TRYST_E_INVALID, "rank -1 of 2"},
        {{.rank = 2, .size = 2}, TRYST_E_INVALID, "rank 2 of 2"},
        {{.rank = 1, .size = 2}, TRYST_E_CONFIG, "TRYST_BOOTSTRAP=host:port"},
        {{.rank = 1, .size = 2, .address = "127.0.0.1", .insecure = true},
         TRYST_E_CONFIG,
         "has no port"},
        {{.rank = 1, .size = 2, .address = "127.0.0.1:0", .insecure = true},
         TRYST_E_CONFIG,
         "between 1 and 65535"},
        {{.rank = 1, .size = 2, .address = "127.0.0.1:65536", .insecure = true},
         TRYST_E_CONFIG,
         "between 1 and 65535"},
        {{.rank = 1, .size = 2, .address = "::1:4711", .insecure = true},
         TRYST_E_CONFIG,
         "without brackets"},
        {{.rank = 1, .size = 2, .address = "[::1:4711", .insecure = true},
         TRYST_E_CONFIG,
         "bracket"},
        {{.rank = 1, .size = 2, .address = ":4711", .insecure = true},
         TRYST_E_CONFIG,
         "has no host"},
        {{.rank = 0, .size = 2, .address = "127.0.0.1:4711x", .insecure = true},
         TRYST_E_CONFIG,
         "between 1 and 65535"},
        {{.rank = 0, .size = 2, .address = "192.0.2.199:4711", .insecure = true},
         TRYST_E_BOOTSTRAP,
         "not an address of this machine"},
        {{.rank = 0,
          .size = 2,
          .address = "192.0.2.199:4711",
          .insecure = true,
          .bind_interface = "nosuchnet0"},
         TRYST_E_CONFIG,
         "'nosuchnet0' matches no interface"},
        {{.rank = 1,
          .size = 2,
          .address = "127.0.0.1:1",
          .token = "x",
          .token_bytes = 5000},
         TRYST_E_TOKEN,
         "longer than"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct bootstrap_params params = cases[i].params;
        struct bootstrap *bootstrap = NULL;
        struct err err = ERR_INIT;
        params.listen_fd = -1;
        tryst_status status = bootstrap_open(&params, &err, &bootstrap);
        if (status != cases[i].status || !strstr(err.text, cases[i].text))
            print_error("case %zu: status %d: %s\n", i, status, err.text);
        assert_int_equal(status, cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_null(bootstrap);
    }
    assert_int_equal(bootstrap_open(&cases[0].params, NULL, NULL), TRYST_E_INVALID);
}

/* ---- sentences --------------------------------------------------------------------- */

static bool in_mask(const void *arg, int rank)
{
    return *(const uint64_t *)arg >> rank & 1;
}

static void ranks_as_text(void **state)
{
    static const struct {
        uint64_t mask;
        const char *text;
        int count;
    } cases[] = {
        {0x0, "no rank", 0},
        {0x1, "rank 0", 1},
        {0x8, "rank 3", 1},
        {0x6, "ranks 1, 2", 2},
        {0xe, "ranks 1..3", 3},
        {0xe4, "ranks 2, 5..7", 4},
        {0xffffffff, "ranks 0..31", 32},
        {0x55555555, "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 8 more", 16},
        {0x80000001, "ranks 0, 31", 2},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[RANKS_TEXT_BYTES];
        int count = -1;
        assert_string_equal(ranks_text(32, in_mask, &cases[i].mask, text, &count),
                            cases[i].text);
        assert_int_equal(count, cases[i].count);
    }
    char text[SECONDS_TEXT_BYTES];
    assert_string_equal(seconds_text(60 * NS_PER_S, text), "60 s");
    assert_string_equal(seconds_text(1500 * NS_PER_MS, text), "1.5 s");
    assert_string_equal(seconds_text(250 * NS_PER_MS, text), "250 ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(one_missing_rank_is_named),
        cmocka_unit_test(missing_rank_0_is_named),
        cmocka_unit_test(earliest_deadline_counts),
        cmocka_unit_test(rank_that_lags_is_named),
        cmocka_unit_test(deadlines_count_on_the_given_clock),
        cmocka_unit_test(cancel_ends_it),
        cmocka_unit_test(cancel_ends_the_knocking),
        cmocka_unit_test(sizes_that_differ),
        cmocka_unit_test(rank_beyond_the_size),
        cmocka_unit_test(one_rank_claimed_twice),
        cmocka_unit_test(rank_0_claimed_twice),
        cmocka_unit_test(port_that_comes_free),
        cmocka_unit_test(never_connected_to_itself),
        cmocka_unit_test(all_gathers_of_different_size),
        cmocka_unit_test(rank_that_leaves_early_is_named),
        cmocka_unit_test(rank_of_another_job),
        cmocka_unit_test(long_wait_names_who_has_come),
        cmocka_unit_test(long_wait_for_rank_0_is_logged),
        cmocka_unit_test(token_that_differs),
        cmocka_unit_test(token_of_some_only),
        cmocka_unit_test(no_token_is_an_error_and_insecure_is_not),
        cmocka_unit_test(killed_rank_is_named),
        cmocka_unit_test(killed_rank_0_is_named),
        cmocka_unit_test(reason_of_one_is_told_to_all),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(parameters_that_make_no_sense),
        cmocka_unit_test(ranks_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
