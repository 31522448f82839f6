/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that come together without a fault: all sizes, both address families, all launch
 * methods. */
#include "bootstrap_job.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

/* Run three all-gathers of different sizes and check every byte. */
static tryst_status gather_thrice(struct job *job, struct bootstrap *bootstrap, int rank,
                                  struct err *err)
{
    static const size_t sizes[] = {1, 70000, 24};
    tryst_status status = TRYST_OK;
    for (size_t i = 0; i < COUNT_OF(sizes) && status == TRYST_OK; i++) {
        size_t bytes = sizes[i];
        uint8_t *mine = malloc(bytes), *all = malloc(bytes * (size_t)job->size);
        memset(mine, 10 * (int)i + rank, bytes);
        status = bootstrap_allgather(bootstrap, mine, bytes, all, err);
        for (size_t at = 0; status == TRYST_OK && at < bytes * (size_t)job->size; at++)
            if (all[at] != 10 * i + at / bytes)
                status = err_set(err, TRYST_E_MISMATCH, "bytes");
        free(mine);
        free(all);
    }
    if (status == TRYST_OK)
        status = bootstrap_allgather(bootstrap, NULL, 0, NULL, err);
    return status;
}

static void come_together(int size, int family)
{
    struct job job;
    job_init(&job, size, family);
    job.body = gather_thrice;
    job_run(&job);
    job_expect(&job, TRYST_OK, NULL);
    for (int rank = 1; rank < size; rank++)
        assert_memory_equal(job.ranks[rank].cookie, job.ranks[0].cookie,
                            BOOTSTRAP_COOKIE_BYTES);
}

static void threads_come_together(void **state)
{
    static const int sizes[] = {2, 4, 16};
    uint64_t live = alloc_live_count();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        come_together(sizes[i], AF_INET);
    assert_int_equal(alloc_live_count(), live);
}

static void threads_come_together_over_ipv6(void **state)
{
    char address[64];
    int fd = job_listen(AF_INET6, address);
    if (fd < 0) {
        print_message("skipped: no IPv6 loopback here\n");
        skip();
    }
    close(fd);
    come_together(4, AF_INET6);
}

static void cookies_differ_between_sessions(void **state)
{
    struct job a, b;
    job_init(&a, 2, AF_INET);
    job_run(&a);
    job_init(&b, 2, AF_INET);
    job_run(&b);
    assert_memory_not_equal(a.ranks[0].cookie, b.ranks[0].cookie, BOOTSTRAP_COOKIE_BYTES);
}

static void processes_come_together(void **state)
{
    static const int sizes[] = {2, 4, 16};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct job job;
        pid_t pids[JOB_RANKS_MAX];
        job_init(&job, sizes[i], AF_INET);
        job.body = gather_thrice;
        for (int rank = 0; rank < sizes[i]; rank++) {
            pids[rank] = fork();
            assert_true(pids[rank] >= 0);
            if (pids[rank] > 0)
                continue;
            if (rank != 0)
                close(job.listen_fd);
            job_rank_main(&job.ranks[rank]);
            if (job.ranks[rank].status != TRYST_OK)
                print_error("rank %d: %s\n", rank, job.ranks[rank].err.text);
            _exit(job.ranks[rank].status == TRYST_OK ? 0 : 1);
        }
        close(job.listen_fd);
        for (int rank = 0; rank < sizes[i]; rank++) {
            int status;
            assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
            assert_int_equal(status, 0);
        }
    }
}

/* Rank 0 comes last and opens the port itself. The others retry the connection until
 * then. */
static void late_rank_0_listens_at_its_address(void **state)
{
    struct job job;
    job_init(&job, 3, AF_INET);
    close(job.listen_fd);
    job.ranks[0].params.listen_fd = -1;
    for (int rank = 2; rank >= 0; rank--) {
        if (rank == 0)
            usleep(100000);
        pthread_create(&job.ranks[rank].thread, NULL, job_rank_main, &job.ranks[rank]);
    }
    job_join(&job);
    job_expect(&job, TRYST_OK, NULL);
}

static tryst_status two_sessions(struct job *job, struct bootstrap *bootstrap, int rank,
                                 struct err *err)
{
    (void)bootstrap;
    /* Some ranks leave the first session long before the others. */
    if (rank % 2)
        usleep(50000);
    (void)job;
    (void)err;
    return TRYST_OK;
}

/* The same processes come together again at the same address, as a second context does. A
 * rank that is early for the second session meets the server of the first one. */
static void second_session_at_the_same_address(void **state)
{
    struct job job;
    job_init(&job, 4, AF_INET);
    job.body = two_sessions;
    job_run(&job);
    job_expect(&job, TRYST_OK, NULL);
    /* closed long ago: rank 0 ignores it */
    job.ranks[0].params.listen_fd = job.listen_fd;
    job_run(&job);
    job_expect(&job, TRYST_OK, NULL);
}

/* A connection that came before rank 0 took the inherited socket over, and that the
 * server closes first, must not keep the port from the second session. */
static void early_connection_leaves_the_port(void **state)
{
    struct job job;
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int stranger = socket(AF_INET, SOCK_STREAM, 0);
    job_init(&job, 2, AF_INET);
    assert_int_equal(getsockname(job.listen_fd, (struct sockaddr *)&at, &bytes), 0);
    assert_int_equal(connect(stranger, (struct sockaddr *)&at, bytes), 0);
    job_run(&job);
    job_expect(&job, TRYST_OK, NULL);
    job.ranks[0].params.listen_fd = -1;
    job_run(&job);
    job_expect(&job, TRYST_OK, NULL);
    close(stranger);
}

static void *twice_main(void *arg)
{
    struct job_rank *rank = arg;
    job_rank_main(rank);
    if (rank->status == TRYST_OK)
        job_rank_main(rank);
    return NULL;
}

static void early_ranks_wait_for_the_next_session(void **state)
{
    struct job job;
    job_init(&job, 4, AF_INET);
    job.body = two_sessions;
    for (int rank = 0; rank < 4; rank++)
        pthread_create(&job.ranks[rank].thread, NULL, twice_main, &job.ranks[rank]);
    job_join(&job);
    job_expect(&job, TRYST_OK, NULL);
}

/* ---- broadcast --------------------------------------------------------------------- */

enum { BROADCAST_BYTES = 200000 };

/* Check bytes of rank 0 at every rank, between two all-gathers. */
static tryst_status broadcast_check(struct bootstrap *bootstrap, int rank, size_t bytes,
                                    struct err *err)
{
    static const uint8_t expected = 0xa5;
    uint8_t *data = malloc(bytes + 1);
    memset(data, rank == 0 ? expected : 0, bytes + 1);
    tryst_status status = bootstrap_broadcast(bootstrap, data, bytes, err);
    for (size_t i = 0; i < bytes && status == TRYST_OK; i++)
        if (data[i] != expected)
            status = err_set(err, TRYST_E_MISMATCH, "byte %zu of %zu", i, bytes);
    if (status == TRYST_OK && rank != 0 && data[bytes] != 0)
        status = err_set(err, TRYST_E_MISMATCH, "more than %zu bytes", bytes);
    free(data);
    return status;
}

static tryst_status broadcasts(struct job *job, struct bootstrap *bootstrap, int rank,
                               struct err *err)
{
    static const size_t sizes[] = {1, 0, 4097, BROADCAST_BYTES};
    int32_t mine = rank, all[JOB_RANKS_MAX];
    tryst_status status = TRYST_OK;
    (void)job;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && status == TRYST_OK; i++) {
        status = broadcast_check(bootstrap, rank, sizes[i], err);
        if (status == TRYST_OK)
            status = bootstrap_allgather(bootstrap, &mine, sizeof mine, all, err);
        if (status == TRYST_OK && all[1] != 1)
            status = err_set(err, TRYST_E_MISMATCH, "an all-gather after a broadcast");
    }
    return status;
}

static void broadcasts_reach_all(void **state)
{
    struct job job;
    job_init(&job, 4, AF_INET);
    job.body = broadcasts;
    job_run(&job);
    job_expect(&job, TRYST_OK, NULL);
}

static tryst_status mixed(struct job *job, struct bootstrap *bootstrap, int rank,
                          struct err *err)
{
    uint8_t mine = 1, all[JOB_RANKS_MAX];
    (void)job;
    return rank == 1 ? bootstrap_allgather(bootstrap, &mine, 1, all, err)
                     : bootstrap_broadcast(bootstrap, &mine, 1, err);
}

static void broadcast_and_all_gather_do_not_mix(void **state)
{
    struct job job;
    job_init(&job, 3, AF_INET);
    job.body = mixed;
    job_run(&job);
    job_expect(&job, TRYST_E_GROUP, "run the same program");
}

/* ---- the caller's own all-gather --------------------------------------------------- */

struct caller {
    pthread_barrier_t barrier;
    int size, fail_with;
    uint8_t bytes[JOB_RANKS_MAX * 256];
    bool swap;
};

struct caller_rank {
    struct caller *caller;
    int rank;
};

static int caller_allgather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct caller_rank *rank = arg;
    struct caller *caller = rank->caller;
    if (caller->fail_with)
        return caller->fail_with;
    int place = caller->swap ? caller->size - 1 - rank->rank : rank->rank;
    memcpy(caller->bytes + (size_t)place * bytes, mine, bytes);
    pthread_barrier_wait(&caller->barrier);
    memcpy(all, caller->bytes, bytes * (size_t)caller->size);
    pthread_barrier_wait(&caller->barrier);
    return 0;
}

static tryst_status gather_once(struct job *job, struct bootstrap *bootstrap, int rank,
                                struct err *err)
{
    int32_t mine = 100 + rank, all[JOB_RANKS_MAX];
    tryst_status status = bootstrap_allgather(bootstrap, &mine, sizeof mine, all, err);
    for (int i = 0; i < job->size && status == TRYST_OK; i++)
        if (all[i] != 100 + i)
            status = err_set(err, TRYST_E_MISMATCH, "place %d", i);
    return status == TRYST_OK ? broadcast_check(bootstrap, rank, 200, err) : status;
}

static void caller_job(struct job *job, struct caller *caller, struct caller_rank *ranks)
{
    job_init(job, 4, AF_INET);
    close(job->listen_fd);
    job->body = gather_once;
    pthread_barrier_init(&caller->barrier, NULL, 4);
    caller->size = 4;
    for (int i = 0; i < 4; i++) {
        ranks[i] = (struct caller_rank){caller, i};
        job->ranks[i].params = (struct bootstrap_params){
            .rank = i,
            .size = 4,
            .listen_fd = -1,
            .allgather = caller_allgather,
            .allgather_arg = &ranks[i],
        };
    }
    job_run(job);
    pthread_barrier_destroy(&caller->barrier);
}

static void over_the_callers_allgather(void **state)
{
    struct job job;
    struct caller caller = {.size = 0};
    struct caller_rank ranks[4];
    caller_job(&job, &caller, ranks);
    job_expect(&job, TRYST_OK, NULL);
    for (int rank = 1; rank < 4; rank++)
        assert_memory_equal(job.ranks[rank].cookie, job.ranks[0].cookie,
                            BOOTSTRAP_COOKIE_BYTES);
}

static void callers_allgather_that_fails_or_is_out_of_order(void **state)
{
    struct job job;
    struct caller caller = {.fail_with = 7};
    struct caller_rank ranks[4];
    caller_job(&job, &caller, ranks);
    job_expect(&job, TRYST_E_BOOTSTRAP, "failed with 7");
    caller = (struct caller){.swap = true};
    caller_job(&job, &caller, ranks);
    job_expect(&job, TRYST_E_GROUP, "in rank order");
}

/* ---- signals ----------------------------------------------------------------------- */

/* Return the mask of blocked signals of this process's thread named `name`; 0 if the list
 * has none. The kernel's list ends early when a thread of it ends meanwhile. */
static uint64_t task_blocked_once(const char *name)
{
    uint64_t blocked = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks)) && !blocked;) {
        char path[300], line[256];
        bool ours = false;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            if (strncmp(line, "Name:", 5) == 0)
                ours = strstr(line, name) != NULL;
            if (ours && strncmp(line, "SigBlk:", 7) == 0)
                blocked = strtoull(line + 7, NULL, 16);
        }
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return blocked;
}

static uint64_t task_blocked(const char *name)
{
    uint64_t blocked = task_blocked_once(name);
    for (int i = 0; i < 1000 && !blocked; i++) {
        usleep(1000);
        blocked = task_blocked_once(name);
    }
    return blocked;
}

static tryst_status look_at_server_thread(struct job *job, struct bootstrap *bootstrap,
                                          int rank, struct err *err)
{
    static const int asynchronous[] = {SIGHUP,  SIGINT,  SIGTERM, SIGCHLD,
                                       SIGUSR1, SIGUSR2, SIGALRM, SIGPROF};
    tryst_status status = bootstrap_allgather(bootstrap, NULL, 0, NULL, err);
    if (status != TRYST_OK || rank != 0)
        return status;
    uint64_t blocked = task_blocked("tryst-boot");
    for (size_t i = 0; i < COUNT_OF(asynchronous); i++)
        if (!(blocked >> (asynchronous[i] - 1) & 1))
            return err_set(err, TRYST_E_MISMATCH, "signal %d", asynchronous[i]);
    (void)job;
    return TRYST_OK;
}

static void threads_of_ours_take_no_signal(void **state)
{
    sigset_t before, after;
    struct job job;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    job_init(&job, 2, AF_INET);
    job.body = look_at_server_thread;
    job_run(&job);
    job_expect(&job, TRYST_OK, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_come_together),
        cmocka_unit_test(threads_come_together_over_ipv6),
        cmocka_unit_test(cookies_differ_between_sessions),
        cmocka_unit_test(processes_come_together),
        cmocka_unit_test(late_rank_0_listens_at_its_address),
        cmocka_unit_test(second_session_at_the_same_address),
        cmocka_unit_test(early_connection_leaves_the_port),
        cmocka_unit_test(early_ranks_wait_for_the_next_session),
        cmocka_unit_test(broadcasts_reach_all),
        cmocka_unit_test(broadcast_and_all_gather_do_not_mix),
        cmocka_unit_test(over_the_callers_allgather),
        cmocka_unit_test(callers_allgather_that_fails_or_is_out_of_order),
        cmocka_unit_test(threads_of_ours_take_no_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
