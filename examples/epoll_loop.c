/* SPDX-License-Identifier: Apache-2.0 */
/* A program with an event loop of its own: the library adds one descriptor to it, and no
 * call of the library waits (but for the start, where the ranks come together).
 *
 * A timer ticks every 5 ms. At each tick a rank sends the number of the tick to the next
 * rank. Numbers from the rank before arrive as callbacks. The loop ends when all have
 * been sent and received.
 *
 * Run:     tryst-run -n 3 ./epoll_loop
 * Prints:  epoll_loop: 3 ranks, 20 ticks sent, 20 received, in order */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <tryst/tryst.h>
#include <unistd.h>

enum { TICKS = 20, TICK_NS = 5000000 };

static int32_t outgoing[TICKS], incoming[TICKS];
static int sent, received, wrong;

static void must(tryst_status status)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "epoll_loop: %s\n", tryst_last_error());
    exit(1);
}

/* The same for system calls, which return -1. */
static int must_call(int result, const char *name)
{
    if (result >= 0)
        return result;
    perror(name);
    exit(1);
}

static tryst_tensor number(int32_t *data)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = 1,
                          .dtype = TRYST_DTYPE_I32};
}

/* Count a number that has been sent, or has been received at its place in `incoming`.
 * Callbacks run inside tryst_progress, one at a time. */
static void on_sent(void *arg, tryst_op *op, tryst_status status)
{
    (void)arg, (void)op;
    must(status);
    sent++;
}

static void on_received(void *arg, tryst_op *op, tryst_status status)
{
    const int32_t *place = arg;
    (void)op;
    must(status);
    wrong += *place != place - incoming || received != place - incoming;
    received++;
}

/* Post all receives: the i-th send and the i-th receive of a key meet. */
static void receives_post(tryst_step *step, const tryst_key *key)
{
    for (int i = 0; i < TICKS; i++) {
        tryst_tensor tensor = number(&incoming[i]);
        tryst_op_params params = {
            .struct_size = sizeof params, .callback = on_received, .arg = &incoming[i]};
        /* No handle: the operation frees itself after its callback. */
        must(tryst_recv_key(step, key, &tensor, &params, NULL));
    }
}

/* Send one number for each tick since the last call. */
static void on_timer(int timer, tryst_step *step, const tryst_key *key)
{
    static int ticks;
    uint64_t expired = 0;
    if (read(timer, &expired, sizeof expired) != sizeof expired)
        return;
    for (; expired > 0 && ticks < TICKS; expired--, ticks++) {
        outgoing[ticks] = ticks;
        tryst_tensor tensor = number(&outgoing[ticks]);
        tryst_op_params params = {.struct_size = sizeof params, .callback = on_sent};
        must(tryst_send_key(step, key, &tensor, &params, NULL));
    }
}

static void loop(tryst_ctx *ctx, tryst_step *step, const tryst_key *next)
{
    int timer = must_call(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), "timerfd");
    int epoll = must_call(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    int ours = tryst_event_fd(ctx); /* the library's, until tryst_close */
    struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
    struct epoll_event on_tick = {.events = EPOLLIN, .data.fd = timer};
    struct epoll_event on_ours = {.events = EPOLLIN, .data.fd = ours};
    must_call(timerfd_settime(timer, 0, &every, NULL), "timerfd_settime");
    must_call(epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &on_tick), "epoll_ctl");
    must_call(epoll_ctl(epoll, EPOLL_CTL_ADD, ours, &on_ours), "epoll_ctl");
    while (sent < TICKS || received < TICKS) {
        /* Only once tryst_arm has returned TRYST_OK does the descriptor become readable
         * for all that happens afterwards. TRYST_AGAIN: there is something to do now. */
        struct epoll_event event;
        int timeout_ms = tryst_arm(ctx) == TRYST_OK ? -1 : 0;
        int count = epoll_wait(epoll, &event, 1, timeout_ms);
        if (count < 0 && errno != EINTR)
            must_call(count, "epoll_wait");
        if (count > 0 && event.data.fd == timer)
            on_timer(timer, step, next);
        tryst_progress(ctx); /* never blocks; does nothing if there is nothing to do */
    }
    close(epoll);
    close(timer);
}

int main(void)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    tryst_key *next, *previous;
    must(tryst_open(NULL, &ctx));
    must(tryst_group_open(ctx, NULL, &group));
    int me = tryst_group_rank(group), size = tryst_group_size(group);
    must(tryst_key_make(group, me, (me + 1) % size, "tick", 0, &next));
    must(tryst_key_make(group, (me + size - 1) % size, me, "tick", 0, &previous));
    must(tryst_step_open(group, 1, &step));
    receives_post(step, previous);
    loop(ctx, step, next);
    if (wrong)
        fprintf(stderr, "epoll_loop: rank %d: %d wrong numbers\n", me, wrong);
    else if (me == 0)
        printf("epoll_loop: %d ranks, %d ticks sent, %d received, in order\n", size, sent,
               received);
    tryst_key_release(next);
    tryst_key_release(previous);
    must(tryst_step_close(step, NULL));
    tryst_group_close(group);
    tryst_close(ctx);
    return wrong != 0;
}
