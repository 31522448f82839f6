/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_wait, tryst_wait_all and tryst_wait_any. How a thread waits is in progress.c.
 *
 * Invariant: a call uses its time-out once, however often the driving thread changes.
 */
#include "commsched/profile/recorder.h"
#include "core/text/refuse.h"
#include "progress.h"
#include "rendezvous/op/engine.h"
#include "submission.h"

/* Refuse a wait with TRYST_E_INVALID: its argument `name` is NULL or, where it is
 * not, the call came from a callback. */
static tryst_status refuse_wait(const void *argument, const char *name)
{
    if (!argument)
        return refuse_null("wait", name);
    return refuse(TRYST_E_INVALID,
                  "cannot wait: a callback of an operation runs; submit, "
                  "cancel or release there, and wait outside");
}

/* True if the operation `arg` is complete. The outcome is stored after the callback
 * has run. */
static bool op_is_done(void *arg)
{
    const tryst_op *op = arg;
    /* acquire: partner of the store in op_complete_all. */
    return atomic_load_explicit(&op->outcome, memory_order_acquire) != TRYST_IN_PROGRESS;
}

/* Wait as progress_await does. The recorder of steps gets the time, in which the program
 * does not compute. */
static void await_recorded(struct rendezvous *rdv, struct wait *wait)
{
    if (__builtin_expect(!rdv->recorder, 1)) {
        progress_await(rdv, wait);
        return;
    }
    recorder_wait_begin(rdv->recorder);
    progress_await(rdv, wait);
    recorder_wait_end(rdv->recorder);
}

/* Wait as tryst_wait does; TRYST_IN_PROGRESS: the time-out has passed. */
static inline tryst_status op_await(tryst_op *op, uint64_t timeout_ns)
{
    tryst_status status = op_outcome(op);
    if (status != TRYST_IN_PROGRESS)
        return status;
    struct wait wait = {
        .done = op_is_done, .arg = op, .op = op, .timeout_ns = timeout_ns};
    await_recorded(op->rdv, &wait);
    return op_outcome(op);
}

/* Set this thread's text to the failure of the wait for `op`, and return the status of
 * the call. */
static __attribute__((cold, noinline)) tryst_status wait_failed(const tryst_op *op,
                                                                tryst_status status,
                                                                uint64_t timeout_ns)
{
    char title[OP_TITLE_BYTES];
    if (status != TRYST_IN_PROGRESS)
        return op_refuse_failed(op, status);
    op_title(op, title);
    return refuse(TRYST_E_TIMEOUT,
                  "%s: not complete after %.3f s, and goes on; wait again, or call "
                  "tryst_dump, which writes what is missing",
                  title, (double)timeout_ns / 1e9);
}

tryst_status tryst_wait(tryst_op *op, uint64_t timeout_ns)
{
    if (!op || op_callback_runs())
        return refuse_wait(op, "op");
    tryst_status status = op_await(op, timeout_ns);
    return __builtin_expect(status == TRYST_OK, 1) ? status
                                                   : wait_failed(op, status, timeout_ns);
}

/* Return how much is left of a time-out that began at `begin_ns`. */
static uint64_t timeout_left_ns(uint64_t timeout_ns, uint64_t begin_ns)
{
    if (timeout_ns == TRYST_FOREVER)
        return timeout_ns;
    uint64_t spent_ns = clock_since_ns(begin_ns, clock_monotonic_ns());
    return spent_ns < timeout_ns ? timeout_ns - spent_ns : 0;
}

tryst_status tryst_wait_all(tryst_op *const *ops, size_t ops_count, uint64_t timeout_ns)
{
    uint64_t begin_ns = timeout_ns == TRYST_FOREVER ? 0 : clock_monotonic_ns();
    const tryst_op *failed = NULL;
    if (ops_count && (!ops || op_callback_runs()))
        return refuse_wait(ops, "ops");
    for (size_t i = 0; i < ops_count; i++) {
        if (!ops[i])
            continue;
        tryst_status status = op_outcome(ops[i]);
        if (status == TRYST_IN_PROGRESS)
            status = op_await(ops[i], timeout_left_ns(timeout_ns, begin_ns));
        if (status == TRYST_IN_PROGRESS || status == TRYST_E_FORKED)
            return wait_failed(ops[i], status, timeout_ns);
        if (status != TRYST_OK && !failed)
            failed = ops[i];
    }
    return failed ? op_refuse_failed(failed, op_outcome(failed)) : TRYST_OK;
}

/* The operations of one tryst_wait_any. A pass scans them only if an operation of the
 * context has completed since the last scan, so a pass costs the same for one
 * operation and for thousands. */
struct any {
    tryst_op *const *ops;
    size_t count;
    const struct rendezvous *rdv;
    uint64_t completions; /**< of the context, at the last scan of `ops` */
    size_t index;         /**< the first complete operation; `count`: none */
};

/* Set `index` to the first operation that is complete, or to `count`. */
static void any_scan(struct any *any)
{
    for (any->index = 0; any->index < any->count; any->index++)
        if (any->ops[any->index] && op_is_done(any->ops[any->index]))
            return;
}

static bool any_is_done(void *arg)
{
    struct any *any = arg;
    /* Read before the scan: an operation that completes during the scan raises the
     * counter. */
    /* acquire: pairs with the store in op_complete_all. */
    uint64_t completions =
        atomic_load_explicit(&any->rdv->completions, memory_order_acquire);
    if (completions != any->completions)
        any_scan(any);
    any->completions = completions;
    return any->index < any->count;
}

/* Find the engine that all of `ops` belong to, NULL if `ops` has no operation.
 * False: two engines. */
static bool ops_engine(tryst_op *const *ops, size_t count, struct rendezvous **rdv_p)
{
    struct rendezvous *rdv = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!ops[i])
            continue;
        if (rdv && ops[i]->rdv != rdv)
            return false;
        rdv = ops[i]->rdv;
    }
    *rdv_p = rdv;
    return true;
}

tryst_status tryst_wait_any(tryst_op *const *ops, size_t ops_count, uint64_t timeout_ns,
                            size_t *index_p)
{
    struct any any = {.ops = ops, .count = ops_count};
    struct rendezvous *rdv;
    if (!index_p)
        return refuse_null("wait", "index_p");
    *index_p = ops_count;
    if (ops_count && (!ops || op_callback_runs()))
        return refuse_wait(ops, "ops");
    if (!ops_engine(ops, ops_count, &rdv))
        return refuse(TRYST_E_INVALID,
                      "cannot wait for any: the operations belong to several contexts");
    any_scan(&any);
    if (any.index == ops_count && rdv) {
        struct wait wait = {.done = any_is_done, .arg = &any, .timeout_ns = timeout_ns};
        if (rendezvous_usable(rdv) == TRYST_E_FORKED)
            return refuse_unusable("wait", TRYST_E_FORKED);
        any.rdv = rdv;
        any.completions = UINT64_MAX;
        await_recorded(rdv, &wait);
    }
    *index_p = any.index;
    if (any.index < ops_count)
        return tryst_op_test(ops[any.index]);
    if (!rdv)
        return TRYST_OK;
    return refuse(TRYST_E_TIMEOUT,
                  "cannot wait for any: none of %zu operations is complete after %.3f s; "
                  "wait again, or call tryst_dump, which writes what is missing",
                  ops_count, (double)timeout_ns / 1e9);
}
