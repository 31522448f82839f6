/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job that a launcher has started: join, pass a number around the ring,
 * leave; three times, with new contexts. Prints "rank 2 of 4, local 2 of 4, by pmix".
 * Signals, mask, threads and descriptors must be as before after each time. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tryst/tryst.h>

enum { TIMES = 3, WAIT_S = 30 };

static void die(const char *what, const char *why)
{
    fprintf(stderr, "launched: %s: %s\n", what, why);
    exit(1);
}

static void check(tryst_status status, const char *what)
{
    if (status != TRYST_OK)
        die(what, *tryst_last_error() ? tryst_last_error() : tryst_status_str(status));
}

/* State that the library must leave unchanged. */
struct process {
    struct sigaction actions[NSIG];
    sigset_t mask;
    int threads, descriptors;
};

static int entries_count(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    if (!dir)
        die(path, "cannot be read");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void process_record(struct process *process)
{
    memset(process, 0, sizeof *process);
    for (int i = 1; i < NSIG; i++)
        sigaction(i, NULL, &process->actions[i]);
    sigprocmask(SIG_SETMASK, NULL, &process->mask);
    process->threads = entries_count("/proc/self/task");
    process->descriptors = entries_count("/proc/self/fd");
}

/* The first time, a socket that the launcher passed on is closed. */
static void process_compare(const struct process *before, int closed)
{
    struct process now;
    process_record(&now);
    for (int i = 1; i < NSIG; i++)
        if (now.actions[i].sa_handler != before->actions[i].sa_handler ||
            sigismember(&now.mask, i) != sigismember(&before->mask, i))
            die("a signal is handled otherwise now", strsignal(i));
    if (now.threads != before->threads)
        die("threads", "more or fewer than before");
    if (now.descriptors + closed != before->descriptors)
        die("descriptors", "more or fewer than before");
}

static void ring(tryst_group *group)
{
    char key[TRYST_KEY_MAX + 1];
    tryst_op *ops[2];
    tryst_step *step;
    int me = tryst_group_rank(group), size = tryst_group_size(group);
    int before = (me + size - 1) % size;
    int32_t out = me, in = -1;
    tryst_tensor send = {
        .struct_size = sizeof send, .data = &out, .count = 1, .dtype = TRYST_DTYPE_I32};
    tryst_tensor recv = send;
    recv.data = &in;
    check(tryst_step_open(group, 1, &step), "step");
    check(tryst_key_build(group, me, (me + 1) % size, "r", 0, 0, key, sizeof key), "key");
    check(tryst_send(step, key, &send, NULL, &ops[0]), "send");
    check(tryst_key_build(group, before, me, "r", 0, 0, key, sizeof key), "key");
    check(tryst_recv(step, key, &recv, NULL, &ops[1]), "recv");
    check(tryst_wait_all(ops, 2, WAIT_S * 1000000000ull), "the ring");
    if (in != before)
        die("the ring", "another number came");
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
    check(tryst_step_close(step, NULL), "step");
}

static void meet(const tryst_launch *launch)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_open_params open = {.struct_size = sizeof open};
    tryst_group_params params = {.struct_size = sizeof params};
    check(tryst_open(&open, &ctx), "tryst_open");
    check(tryst_group_open(ctx, &params, &group), "tryst_group_open");
    if (tryst_group_rank(group) != launch->rank ||
        (launch->size >= 0 && tryst_group_size(group) != launch->size))
        die("the group", "has another rank or size than tryst_launch_find returned");
    ring(group);
    printf("rank %d of %d, local %d of %d, by %s\n", tryst_group_rank(group),
           tryst_group_size(group), tryst_group_local_rank(group),
           tryst_group_local_size(group), launch->launcher);
    fflush(stdout);
    tryst_group_close(group);
    tryst_close(ctx);
}

int main(void)
{
    tryst_launch launch = {.struct_size = sizeof launch};
    struct process before;
    check(tryst_launch_find(NULL, &launch), "tryst_launch_find");
    for (int i = 0; i < TIMES; i++) {
        const char *pause = getenv("TRYST_TEST_PAUSE_MS"); /* before each join */
        struct timespec time = {.tv_nsec = pause ? atol(pause) * 1000000 : 0};
        nanosleep(&time, NULL);
        process_record(&before);
        meet(&launch);
        process_compare(&before, i == 0 && getenv("TRYST_BOOTSTRAP_FD") != NULL);
    }
    const char *stay = getenv("TRYST_TEST_STAY_MS"); /* rank 0, after the others' end */
    if (stay && launch.rank == 0) {
        nanosleep(&(struct timespec){.tv_nsec = atol(stay) * 1000000}, NULL);
        puts("rank 0 is the last");
    }
    return 0;
}
