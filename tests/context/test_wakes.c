/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads drive and which are woken.
 *
 * 1. A waiter gets the signal of a free progress lock, and its time-out passes at the
 * same moment. This waiter does not take the lock, so it must signal the next waiter;
 * else the next waiter sleeps for WAIT_MAX_NS while no thread drives the engine. The
 * program's pthread_cond_timedwait (--wrap) makes that moment: of a chosen thread the
 * wait ends with ETIMEDOUT when the signal has come.
 *
 * 2. Where the background thread runs, it leaves the engine to a thread that waits, and
 * drives again after the wait. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include "context/context.h"
#include "core/os/clock.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/progress/progress.h"
#include "support/unit.h"

/* Longer than any pause of a busy machine. */
enum { LONG_S = 20, ROUNDS = 20 };

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *at);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *at);

static _Thread_local bool expires, *unsignalled_p;

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *at)
{
    struct timespec later = *at;
    if (!unsignalled_p)
        return __real_pthread_cond_timedwait(cond, mutex, at);
    later.tv_sec += LONG_S;
    int rc = __real_pthread_cond_timedwait(cond, mutex, &later);
    *unsignalled_p |= rc == ETIMEDOUT;
    return expires ? ETIMEDOUT : rc;
}

static int gather(void *arg, const void *mine, void *all, size_t bytes)
{
    (void)arg;
    memcpy(all, mine, bytes);
    return 0;
}

struct waiting {
    tryst_op *op;
    bool expires;
    bool unsignalled; /* a wait ended without a signal */
    tryst_status status;
    pthread_t thread;
};

static void *wait_run(void *arg)
{
    struct waiting *waiting = arg;
    expires = waiting->expires;
    unsignalled_p = &waiting->unsignalled;
    waiting->status = tryst_wait(waiting->op, expires ? 1 : TRYST_FOREVER);
    return NULL;
}

/* Start the thread, and return once it is the waiter number `count`. */
static void waiting_begin(tryst_ctx *ctx, struct waiting *waiting, uint32_t count)
{
    assert_int_equal(pthread_create(&waiting->thread, NULL, wait_run, waiting), 0);
    while (atomic_load(&ctx->rdv->progress->lock.waiters_count) < count)
        sched_yield();
}

static tryst_op *self_op(tryst_group *group, tryst_step *step, bool send,
                         const char *edge, uint8_t *byte, const tryst_op_params *params)
{
    char key[TRYST_KEY_MAX + 1];
    tryst_tensor tensor = {
        .struct_size = sizeof tensor, .dtype = TRYST_DTYPE_U8, .count = 1, .data = byte};
    tryst_op *op;
    assert_int_equal(tryst_key_build(group, 0, 0, edge, 0, 0, key, sizeof key), TRYST_OK);
    assert_int_equal(send ? tryst_send(step, key, &tensor, params, &op)
                          : tryst_recv(step, key, &tensor, params, &op),
                     TRYST_OK);
    return op;
}

/* Let two threads wait while this one holds the lock: the first one's time-out passes
 * with the signal, the second one's operation needs a thread that drives. */
static void round_run(tryst_ctx *ctx, tryst_group *group, tryst_step *step)
{
    static uint8_t bytes[3];
    struct waiting first = {.op = self_op(group, step, false, "never", &bytes[0], NULL),
                            .expires = true};
    struct waiting second = {.op = self_op(group, step, false, "met", &bytes[1], NULL)};
    assert_true(progress_lock_take(ctx->rdv, 0));
    waiting_begin(ctx, &first, 1);
    waiting_begin(ctx, &second, 2);
    tryst_op *send = self_op(group, step, true, "met", &bytes[2], NULL);
    progress_lock_put(ctx->rdv);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    assert_int_equal(first.status, TRYST_E_TIMEOUT);
    assert_int_equal(second.status, TRYST_OK);
    assert_false(first.unsignalled || second.unsignalled);
    assert_int_equal(tryst_op_cancel(first.op), TRYST_OK);
    assert_int_equal(tryst_wait(first.op, TRYST_FOREVER), TRYST_E_CANCELED);
    assert_int_equal(tryst_wait(send, TRYST_FOREVER), TRYST_OK);
    tryst_op_release(first.op);
    tryst_op_release(second.op);
    tryst_op_release(send);
}

/* Run `rounds` in a group of this process alone. `thread`: TRYST_PROGRESS_THREAD. */
static void rounds_run(const char *thread,
                       void (*round)(tryst_ctx *ctx, tryst_group *group,
                                     tryst_step *step))
{
    tryst_group_params params = {
        .struct_size = sizeof params, .allgather = gather, .rank = 0, .size = 1};
    tryst_open_params open = {.struct_size = sizeof open};
    tryst_config *config;
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    assert_int_equal(tryst_config_open(&config), TRYST_OK);
    assert_int_equal(tryst_config_set(config, "progress_thread", thread), TRYST_OK);
    open.config = config;
    assert_int_equal(tryst_open(&open, &ctx), TRYST_OK);
    tryst_config_close(config);
    assert_int_equal(tryst_group_open(ctx, &params, &group), TRYST_OK);
    assert_int_equal(tryst_step_open(group, 1, &step), TRYST_OK);
    for (int i = 0; i < ROUNDS; i++)
        round(ctx, group, step);
    assert_int_equal(tryst_step_close(step, NULL), TRYST_OK);
    tryst_group_close(group);
    tryst_close(ctx);
}

static void test_handed_on(void **state)
{
    (void)state;
    rounds_run("0", round_run);
}

static void thread_note(void *arg, tryst_op *op, tryst_status status)
{
    (void)op, (void)status;
    *(pthread_t *)arg = pthread_self();
}

/* True if a thread of the program drives. */
static bool wait_drives(struct progress *progress)
{
    return atomic_load(&progress->thread.waits_open) &&
           atomic_load(&progress->lock.held) && !atomic_load(&progress->thread.drives);
}

/* Sleep a little, and fail after LONG_S. */
static void until_nap(uint64_t begin_ns)
{
    assert_true(clock_monotonic_ns() - begin_ns < LONG_S * NS_PER_S);
    usleep(100);
}

/* The thread that waits for a receive runs the callback; a later receive ends without a
 * wait. */
static void displaced_run(tryst_ctx *ctx, tryst_group *group, tryst_step *step)
{
    static uint8_t bytes[4];
    pthread_t driver;
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = thread_note, .arg = &driver};
    struct waiting waiting = {
        .op = self_op(group, step, false, "waited for", &bytes[0], &params)};
    uint64_t begin_ns = clock_monotonic_ns();
    assert_int_equal(pthread_create(&waiting.thread, NULL, wait_run, &waiting), 0);
    while (!wait_drives(ctx->rdv->progress))
        until_nap(begin_ns);
    tryst_op_release(self_op(group, step, true, "waited for", &bytes[1], NULL));
    pthread_join(waiting.thread, NULL);
    assert_int_equal(waiting.status, TRYST_OK);
    assert_true(pthread_equal(driver, waiting.thread));
    tryst_op *op = self_op(group, step, false, "polled", &bytes[2], NULL);
    tryst_op_release(self_op(group, step, true, "polled", &bytes[3], NULL));
    while (tryst_op_test(op) == TRYST_IN_PROGRESS)
        until_nap(begin_ns);
    assert_int_equal(tryst_op_test(op), TRYST_OK);
    tryst_op_release(waiting.op);
    tryst_op_release(op);
}

static void test_displaced(void **state)
{
    (void)state;
    rounds_run("1", displaced_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handed_on),
        cmocka_unit_test(test_displaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
