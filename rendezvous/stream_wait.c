/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that wait for operations.
 *
 * Idea: the stream waits for a word in pinned memory, which the operation's completion
 * sets: no thread waits for the device, and the device waits for no thread. The
 * completion runs as the operation's callback, in front of the user's, so operations
 * without a waiting stream cost nothing.
 *
 * A collective on device memory completes by calls of the driver, which may wait for this
 * stream. So this thread takes it over (takeover.h), where it can: not under the progress
 * lock, for which the thread that makes those calls may wait.
 *
 * Invariants: An operation that a stream waits for by a gate is not taken over later: the
 * end of the take-over could wait behind the gate. A word is used again, and
 * its page freed, only when every stream that waits
 * for it has passed it: an event queued behind the wait reports so.
 */
#include "stream_wait.h"

#include <errno.h>
#include <time.h>

#include "core/memory/alloc.h"
#include "core/text/refuse.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/progress/progress.h"
#include "rendezvous/progress/submission.h"
#include "rendezvous/protocol/op_device.h"

/* One word a cache line: the device polls it. */
enum { GATE_STRIDE = 64, GATES_PER_PAGE = 64 };
/* Time at the close for streams to pass words that have been set. */
#define GATES_CLOSE_NS (2 * NS_PER_S)

struct gate {
    struct list_node node; /* in gates->free */
    struct submission submit;
    tryst_op *op;
    tryst_op_fn callback; /* the user's */
    void *callback_arg;
    struct gate_page *page;
    uint32_t *word;
    void *event; /* queued behind the wait; opened at the first use */
    bool has_event;
    bool is_coll; /* of a collective, in gates->closed */
};

struct gate_page {
    struct list_node node;
    const struct memory_ops *memory;
    int32_t device;
    void *data;
    /* no event could be recorded: a stream may wait for a word of this page forever */
    bool lost;
    struct gate gates[GATES_PER_PAGE];
};

void gates_open(struct gates *gates)
{
    pthread_mutex_init(&gates->lock, NULL);
    list_init(&gates->free);
    list_init(&gates->pages);
    closed_gates_open(&gates->closed);
    atomic_init(&gates->prepared, 0);
}

static bool gate_passed(const struct gate *gate)
{
    const struct gate_page *page = gate->page;
    return !gate->has_event ||
           page->memory->event_query(page->device, gate->event) == TRYST_OK;
}

/* ---- pages ------------------------------------------------------------------------- */

static bool page_passed(const struct gate_page *page)
{
    for (int i = 0; i < GATES_PER_PAGE; i++)
        if (!gate_passed(&page->gates[i]))
            return false;
    return !page->lost;
}

static void page_close(struct gate_page *page)
{
    for (int i = 0; i < GATES_PER_PAGE; i++) {
        list_remove(&page->gates[i].node);
        if (page->gates[i].has_event)
            page->memory->event_close(page->device, page->gates[i].event);
    }
    page->memory->pinned_free(page->device, page->data, GATE_STRIDE * GATES_PER_PAGE);
    mem_free(page);
}

/* Open a page, and put all but its first gate into the free list. Without the lock:
 * pinning may wait for the device, and so for a word that is set under the lock. */
static tryst_status page_open(struct gates *gates, const struct memory_ops *memory,
                              int32_t device, struct gate **first_p)
{
    struct gate_page *page = mem_zalloc(sizeof *page);
    if (!page)
        return TRYST_E_NOMEM;
    tryst_status status =
        memory->pinned_alloc(device, GATE_STRIDE * GATES_PER_PAGE, &page->data);
    if (status != TRYST_OK) {
        mem_free(page);
        return status;
    }
    page->memory = memory;
    page->device = device;
    pthread_mutex_lock(&gates->lock);
    for (int i = 0; i < GATES_PER_PAGE; i++) {
        struct gate *gate = &page->gates[i];
        gate->page = page;
        gate->word = (uint32_t *)(void *)((char *)page->data + i * GATE_STRIDE);
        if (i)
            list_push_front(&gates->free, &gate->node);
    }
    list_push_back(&gates->pages, &page->node);
    pthread_mutex_unlock(&gates->lock);
    *first_p = &page->gates[0];
    return TRYST_OK;
}

void gates_close(struct gates *gates, const struct log *log)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t until_ns = clock_monotonic_ns() + GATES_CLOSE_NS;
    list_for_each_safe (&gates->pages, node, after) {
        struct gate_page *page = container_of(node, struct gate_page, node);
        while (!page_passed(page) && !page->lost && clock_monotonic_ns() < until_ns)
            nanosleep(&nap, NULL);
        list_remove(node);
        if (page_passed(page))
            page_close(page);
        else
            LOG_WARN(
                log,
                "a stream still waits for completed operations: 4 KiB of "
                "pinned memory, which the stream polls, stay until the process ends");
    }
    closed_gates_close(&gates->closed);
    pthread_mutex_destroy(&gates->lock);
}

/* ---- words ------------------------------------------------------------------------- */

/* Take the free gate of this device that was set longest ago. NULL: there is none, or its
 * stream has not passed it. */
static struct gate *free_gate_get(struct gates *gates, int32_t device)
{
    struct gate *found = NULL;
    pthread_mutex_lock(&gates->lock);
    list_for_each_safe (&gates->free, node, after) {
        struct gate *gate = container_of(node, struct gate, node);
        if (gate->page->device != device)
            continue;
        if (gate_passed(gate)) {
            list_remove(node);
            found = gate;
        }
        break;
    }
    pthread_mutex_unlock(&gates->lock);
    return found;
}

static void free_put(struct gates *gates, struct gate *gate)
{
    pthread_mutex_lock(&gates->lock);
    list_push_back(&gates->free, &gate->node);
    pthread_mutex_unlock(&gates->lock);
}

static tryst_status gate_get(struct gates *gates, const struct memory_ops *memory,
                             int32_t device, struct gate **gate_p)
{
    struct gate *gate = free_gate_get(gates, device);
    tryst_status status = gate ? TRYST_OK : page_open(gates, memory, device, &gate);
    if (status != TRYST_OK)
        return status;
    if (!gate->has_event)
        status = memory->event_open(device, &gate->event);
    if (status != TRYST_OK) {
        free_put(gates, gate);
        return status;
    }
    gate->has_event = true;
    *gate->word = 0; /* no stream waits for it */
    *gate_p = gate;
    return TRYST_OK;
}

/* Set the word, so that the stream continues. Another operation may take the word at
 * once. */
static void gate_open(struct gates *gates, struct gate *gate)
{
    /* release: the operation's results come before the word. Pairs with the stream's
     * read. */
    __atomic_store_n(gate->word, 1, __ATOMIC_RELEASE);
    closed_gates_remove(&gates->closed, gate->is_coll);
    free_put(gates, gate);
}

/* ---- operations -------------------------------------------------------------------- */

/* Open the gate, as the operation's callback, and call the user's. */
static void gate_called(void *arg, tryst_op *op, tryst_status status)
{
    struct gate *gate = arg;
    tryst_op_fn callback = gate->callback;
    void *callback_arg = gate->callback_arg;
    gate_open(&op->rdv->gates, gate);
    if (callback)
        callback(callback_arg, op, status);
}

static void gate_run(struct rendezvous *rdv, struct submission *submission)
{
    struct gate *gate = container_of(submission, struct gate, submit);
    tryst_op *op = gate->op;
    /* relaxed: only the progress domain writes it. */
    if (atomic_load_explicit(&op->outcome, memory_order_relaxed) != TRYST_IN_PROGRESS) {
        gate_open(&rdv->gates, gate);
    } else {
        gate->callback = op->callback;
        gate->callback_arg = op->callback_arg;
        op->callback = gate_called;
        op->callback_arg = gate;
    }
    op_unref(op);
}

static tryst_status stream_failure_log(struct rendezvous *rdv,
                                       const struct memory_ops *memory, int32_t device,
                                       tryst_status status)
{
    LOG_WARN_LIMITED(rdv->log, &rdv->limits.devices, DEVICES_LOG_NS,
                     "a stream of %s device %d cannot wait for an operation: %s",
                     memory->name, (int)device, memory->error_text());
    return status;
}

/* Make the work that is queued in `stream` after this call wait, by a gate, until `op` is
 * complete. Some thread must make progress. */
static tryst_status gate_wait(tryst_op *op, const struct memory_ops *memory,
                              int32_t device, void *stream)
{
    struct rendezvous *rdv = op->rdv;
    struct gate *gate;
    tryst_status status = gate_get(&rdv->gates, memory, device, &gate);
    if (status != TRYST_OK)
        return stream_failure_log(rdv, memory, device, status);
    gate->is_coll = op->kind == OP_COLL;
    closed_gates_add(&rdv->gates.closed, gate->is_coll);
    status = memory->stream_wait_word(device, stream, gate->word, 1);
    if (status != TRYST_OK) {
        gate_open(&rdv->gates, gate);
        return stream_failure_log(rdv, memory, device, status);
    }
    if (memory->event_record(device, stream, gate->event) != TRYST_OK)
        gate->page->lost = true;
    op_ref(op);
    gate->op = op;
    gate->submit.run = gate_run;
    rendezvous_submit(rdv, &gate->submit);
    return TRYST_OK;
}

/* Interval at which a waiting thread polls what the progress domain has done. */
enum { NAP_NS = 50000 };

static void take_nap(void)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    (void)nanosleep(&nap, NULL);
}

/* ---- what transfers need ----------------------------------------------------------- */

struct preparation {
    struct submission submit;
    const struct memory_ops *memory;
    int32_t device;
    _Atomic(bool) done;
};

static void device_prepare(struct rendezvous *rdv, const struct memory_ops *memory,
                           int32_t device)
{
    if (!pinning_begin(&rdv->gates.closed))
        return;
    op_device_prepare(rdv, memory, device);
    pinning_end(&rdv->gates.closed);
    /* relaxed: a late view repeats this in vain. */
    atomic_fetch_or_explicit(&rdv->gates.prepared, UINT64_C(1) << device % 64,
                             memory_order_relaxed);
}

static void preparation_run(struct rendezvous *rdv, struct submission *submission)
{
    struct preparation *preparation =
        container_of(submission, struct preparation, submit);
    device_prepare(rdv, preparation->memory, preparation->device);
    atomic_store_explicit(&preparation->done, true, memory_order_release);
}

/* Before the first stream waits, open the streams of transfers: a later transfer would
 * open them while a stream waits, and the driver might wait for that one. */
static void transfers_prepare(struct rendezvous *rdv, const struct memory_ops *memory,
                              int32_t device)
{
    uint64_t prepared = atomic_load_explicit(&rdv->gates.prepared, memory_order_relaxed);
    if (prepared >> device % 64 & 1)
        return;
    if (progress_is_mine(rdv)) {
        device_prepare(rdv, memory, device);
        return;
    }
    struct preparation preparation = {
        .submit.run = preparation_run, .memory = memory, .device = device};
    rendezvous_submit(rdv, &preparation.submit);
    while (!atomic_load_explicit(&preparation.done, memory_order_acquire))
        take_nap();
}

/* ---- collectives on device memory -------------------------------------------------- */

/* Time after which the stream waits by a gate instead. Either way may hang, for different
 * programs. A gate hangs where a kernel is loaded behind it: the copier goes on with the
 * copies, and its calls may wait for the stream. This thread hangs where ranks submit
 * collectives in crossing orders, each with its wait. takeover.c prepares so that a wait
 * for its turn is rare and short. */
#define TAKE_WAIT_NS (2 * NS_PER_S)

/* Let the stream wait for the copies of an operation. `state`: its streams, before they
 * were BUSY. Returns coll_calls.stream_wait. */
static tryst_status copies_wait(tryst_op *op, enum op_streams state,
                                const struct memory_ops *memory, int32_t device,
                                void *stream)
{
    const struct coll_calls *calls = &op->rdv->coll_calls;
    bool follows = state == OP_STREAMS_TAKEN;
    tryst_status status =
        calls->stream_wait(calls->arg, op, follows, memory, device, stream);
    enum op_streams next = status == TRYST_AGAIN           ? state
                           : status == TRYST_E_UNSUPPORTED ? OP_STREAMS_GATE
                                                           : OP_STREAMS_TAKEN;
    (void)op_streams_change(op, OP_STREAMS_BUSY, follows ? state : next);
    return status;
}

/* Take one step towards a stream that waits without a gate. TRYST_AGAIN: another step
 * follows. TRYST_E_UNSUPPORTED: a gate is the only way. */
static tryst_status coll_wait_try(tryst_op *op, bool may_take,
                                  const struct memory_ops *memory, int32_t device,
                                  void *stream)
{
    enum op_streams state =
        (enum op_streams)atomic_load_explicit(&op->streams, memory_order_acquire);
    tryst_status status = TRYST_AGAIN;
    if (state == OP_STREAMS_GATE)
        return TRYST_E_UNSUPPORTED;
    if (!may_take && state <= OP_STREAMS_OPEN) {
        (void)op_streams_change(op, state, OP_STREAMS_GATE);
        return status;
    }
    if (state != OP_STREAMS_UNBEGUN && state != OP_STREAMS_BUSY &&
        op_streams_change(op, state, OP_STREAMS_BUSY))
        status = copies_wait(op, state, memory, device, stream);
    if (status == TRYST_AGAIN)
        take_nap();
    return status;
}

/* Wait until the copies of an operation have begun, in the progress domain. */
static void begin_await(const tryst_op *op)
{
    while (atomic_load_explicit(&op->streams, memory_order_acquire) ==
               OP_STREAMS_UNBEGUN &&
           atomic_load_explicit(&op->outcome, memory_order_acquire) == TRYST_IN_PROGRESS)
        take_nap();
}

/* Let the stream wait without a gate. TRYST_E_UNSUPPORTED: a gate is the only way. If the
 * operation cannot be taken over now, this thread waits until it can, until the operation
 * has ended, or for a limited time. */
static tryst_status coll_stream_wait(tryst_op *op, const struct memory_ops *memory,
                                     int32_t device, void *stream)
{
    tryst_status status = TRYST_AGAIN;
    /* acquire: pairs with the change to another state. */
    if (atomic_load_explicit(&op->streams, memory_order_acquire) == OP_STREAMS_GATE)
        return TRYST_E_UNSUPPORTED;
    bool in_progress = progress_is_mine(op->rdv);
    if (!in_progress)
        begin_await(op);
    uint64_t until_ns = clock_monotonic_ns() + TAKE_WAIT_NS;
    while (status == TRYST_AGAIN) {
        /* acquire: pairs with op_complete_all. */
        if (atomic_load_explicit(&op->outcome, memory_order_acquire) != TRYST_IN_PROGRESS)
            return TRYST_OK;
        bool may_take = !in_progress && clock_monotonic_ns() < until_ns;
        status = coll_wait_try(op, may_take, memory, device, stream);
    }
    return status;
}

static tryst_status stream_wait(tryst_op *op, int32_t device, void *stream)
{
    const struct memory_ops *memory;
    tryst_status status = op_device_row(op->rdv, TRYST_MEMORY_CUDA, &memory);
    if (status != TRYST_OK)
        return status;
    transfers_prepare(op->rdv, memory, device);
    status = coll_stream_wait(op, memory, device, stream);
    if (status == TRYST_E_UNSUPPORTED)
        return gate_wait(op, memory, device, stream);
    return status == TRYST_OK ? status
                              : stream_failure_log(op->rdv, memory, device, status);
}

/* Start the background thread, too: no thread of the program may wait while the
 * stream does. */
tryst_status tryst_op_stream_wait(tryst_op *op, int32_t device, void *stream)
{
    if (!op)
        return refuse_null("make a stream wait", "op");
    tryst_status status = rendezvous_usable(op->rdv);
    if (status != TRYST_OK)
        return refuse_unusable("make a stream wait", status);
    if (tryst_op_test(op) != TRYST_IN_PROGRESS)
        return TRYST_OK; /* the operation is complete already */
    status = progress_thread_start(op->rdv);
    if (status != TRYST_OK)
        return refuse(status, "cannot make a stream wait: cannot create a thread: %s",
                      err_reason(errno));
    status = stream_wait(op, device, stream);
    if (status == TRYST_OK && op->kind >= OP_STEP_CLOSE)
        op_used(op, false);
    if (status != TRYST_OK)
        return refuse(status,
                      "cannot make a stream of device %d wait: %s; the log has the "
                      "driver's error",
                      (int)device, tryst_status_str(status));
    return status;
}
