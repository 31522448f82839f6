/* SPDX-License-Identifier: Apache-2.0 */
/* Random traffic between 4 ranks; each rank submits its part in a different order.
 *
 * Idea: one seed gives the whole plan (the pairs of ranks, and which operations are
 * cancelled, dead or do not fit), so both ends of a key compute the allowed outcomes
 * without communication. Each end writes its outcome into shared memory, and all outcomes
 * are compared at the end.
 * Keys are used several times: number i meets number i, whatever the order of the keys.
 * In the runs where ranks leave early, each step has its own group: the group is opened,
 * all operations are submitted, and the group is closed a random time after the first
 * contact, with operations under way.
 *
 * TRYST_TEST_SEED replays a run. TRYST_TEST_OPS, TRYST_TEST_STEP_PAIRS, TRYST_TEST_BYTES
 * and TRYST_TEST_LEAST (bytes of the smallest tensor) set its size.
 * TRYST_TEST_FABRIC_BYTES: allowed growth of a fabric's pools in the second half.
 * TRYST_TEST_DEVICE (0): tensors of 100 that are on a device, drawn for each end; some of
 * those that are sent from a device are written late, behind an event. */
#include "rooms.h"

#include "support/outcomes.h"
#include "support/patience.h"
#include "support/unit.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, SUBMITTERS = 3, STEP_PAIRS = 400, LEAVING_PAIRS = 30, UNSEEN = -1 };

/* The treatment of a pair, besides a send and a receive. */
enum fate {
    PLAIN,
    CANCEL_SEND,
    CANCEL_RECV,
    CANCEL_BOTH,
    DEADLINE_SEND,
    DEADLINE_RECV,
    DEAD,
    MISMATCH,
    NO_SEND, /* only a receive, with a deadline */
    NO_RECV, /* only a send, which is cancelled */
    FATES
};

/* The memory of one end's tensor. */
struct lies {
    int device; /* device number; -1: host */
    enum room_how how;
    bool late; /* written behind an event */
};

struct pair {
    int src, dst, edge; /* several pairs of one step share an edge */
    uint64_t index;     /* index in the run, from which the bytes are drawn */
    uint64_t bytes;
    int fate;
    bool alloc;
    uint64_t deadline_ns;
    struct lies send, recv;
};

struct outcome {
    _Atomic(int32_t) send, recv;
    _Atomic(uint32_t) send_calls, recv_calls;
};

struct random_run {
    uint64_t seed;
    uint64_t ops;
    uint64_t bytes_least, bytes_max;
    /* bytes by which a fabric's pools may grow in the second half */
    uint64_t fabric_bytes;
    int step_pairs;   /* pairs of one step, at most STEP_PAIRS */
    int device_share; /* tensors of 100 that are on a device */
    bool threads, progress_thread, tight;
    bool leaves; /* each step has its own group, which each rank closes early */
    _Atomic(uint32_t) counter;
    size_t outcomes_bytes;
    struct outcome outcomes[];
};

/* ---- the plan ---------------------------------------------------------------------- */

static uint64_t steps_count(const struct random_run *run)
{
    return run->ops / (2 * (uint64_t)run->step_pairs) + 1;
}

static double random_unit(uint64_t *state)
{
    return (double)(harness_random(state) >> 11) / 9007199254740992.0;
}

static int random_below(uint64_t *state, int n)
{
    return (int)(harness_random(state) % (uint64_t)n);
}

static int fate_draw(uint64_t *state)
{
    int at = random_below(state, 100);
    return at < 80 ? PLAIN : at < 98 ? 1 + (at - 80) / 2 : PLAIN;
}

static struct lies lies_draw(const struct random_run *run, uint64_t *state)
{
    if (random_below(state, 100) >= run->device_share)
        return (struct lies){.device = -1};
    int how = random_below(state, 8);
    return (struct lies){.device = random_below(state, GPU_DEVICES),
                         .how = how == 0  ? ROOM_REGION
                                : how < 3 ? ROOM_STRANGE
                                          : ROOM_POOL,
                         .late = random_below(state, 3) == 0};
}

/* Draw the pairs of one step from the seed and the step alone. */
static void plan_step(const struct random_run *run, uint64_t step, struct pair *pairs)
{
    uint64_t state = run->seed * 0x9E3779B97F4A7C15ull + step * 0xD1B54A32D192ED03ull + 1;
    for (int i = 0; i < 16; i++)
        harness_random(&state);
    for (int i = 0; i < run->step_pairs; i++) {
        struct pair *pair = &pairs[i];
        pair->src = random_below(&state, RANKS);
        pair->dst = random_below(&state, RANKS);
        pair->edge = random_below(&state, 20);
        pair->index = (step - 1) * (uint64_t)run->step_pairs + (uint64_t)i;
        pair->bytes =
            (uint64_t)exp(random_unit(&state) * log((double)run->bytes_max + 1)) - 1;
        if (pair->bytes < run->bytes_least)
            pair->bytes = run->bytes_least;
        pair->fate = fate_draw(&state);
        pair->alloc = random_below(&state, 10) == 0;
        pair->deadline_ns = 1 + (uint64_t)(random_unit(&state) * 4e6);
        pair->send = pair->recv = (struct lies){.device = -1};
        if (run->device_share) {
            pair->send = lies_draw(run, &state);
            pair->recv = lies_draw(run, &state);
        }
        if (pair->fate == NO_SEND || pair->fate == NO_RECV)
            /* an unmatched operation would shift the numbers of a shared key */
            pair->edge = 1000 + i;
    }
}

/* ---- one rank ---------------------------------------------------------------------- */

struct side {
    struct rank_run *owner;
    const struct pair *pair;
    bool is_send;
    bool cancel;
    int place; /* position in the order of submission */
    struct room room;
    _Atomic(tryst_op *) op;
};

struct rank_run {
    struct harness_rank *rank;
    struct random_run *run;
    struct gpu gpu;
    struct pair pairs[STEP_PAIRS];
    struct side sides[2 * STEP_PAIRS];
    struct side *order[2 * STEP_PAIRS];
    int count;
    tryst_step *step;
    uint64_t state;
    pthread_barrier_t start;
};

static void on_done(void *arg, tryst_op *op, tryst_status status)
{
    struct side *side = arg;
    struct outcome *outcome = &side->owner->run->outcomes[side->pair->index];
    CHECK_STATUS(tryst_op_test(op), status);
    atomic_fetch_add(side->is_send ? &outcome->send_calls : &outcome->recv_calls, 1);
    atomic_store(side->is_send ? &outcome->send : &outcome->recv, status);
}

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    struct side *side = arg;
    CHECK_EQ(tensor->count, side->pair->bytes);
    CHECK_EQ(tensor->dtype, TRYST_DTYPE_U8);
    *tensor = room_tensor(&side->room, NULL);
    return TRYST_OK;
}

static void side_add(struct rank_run *self, const struct pair *pair, bool is_send)
{
    struct side *side = &self->sides[self->count];
    const struct lies *lies = is_send ? &pair->send : &pair->recv;
    uint64_t bytes = pair->bytes + (pair->fate == MISMATCH && !is_send);
    *side = (struct side){.owner = self,
                          .pair = pair,
                          .is_send = is_send,
                          .place = (int)(harness_random(&self->state) >> 33)};
    side->cancel = pair->fate == CANCEL_BOTH ||
                   pair->fate == (is_send ? CANCEL_SEND : CANCEL_RECV) ||
                   pair->fate == NO_RECV;
    side->room = room_open(&self->gpu, lies->device, lies->how, bytes);
    if (is_send && lies->late)
        room_fill_late(&self->gpu, &side->room, pair->index);
    else if (is_send)
        room_fill(&self->gpu, &side->room, pair->index);
    self->order[self->count++] = side;
}

static int by_place(const void *a, const void *b)
{
    const struct side *x = *(struct side *const *)a, *y = *(struct side *const *)b;
    return (x->place > y->place) - (x->place < y->place);
}

static bool same_key(const struct side *a, const struct side *b)
{
    return a->is_send == b->is_send && a->pair->src == b->pair->src &&
           a->pair->dst == b->pair->dst && a->pair->edge == b->pair->edge;
}

/* Sort the sides by place, but keep the uses of each key in the plan's order, because
 * that order numbers them. */
static void order_make(struct rank_run *self)
{
    for (int i = 0; i < self->count; i++)
        for (int j = i + 1; j < self->count; j++)
            if (same_key(&self->sides[i], &self->sides[j]) &&
                self->sides[i].place > self->sides[j].place) {
                int place = self->sides[i].place;
                self->sides[i].place = self->sides[j].place;
                self->sides[j].place = place;
            }
    qsort(self->order, (size_t)self->count, sizeof self->order[0], by_place);
}

/* Draw the priority of each end, independently of the other end. */
static void urgency_draw(const struct side *side, tryst_op_params *params)
{
    uint64_t drawn = side->pair->deadline_ns >> (side->is_send ? 4 : 8);
    params->flags |= drawn % 3 ? 0 : TRYST_OP_PRIORITY;
    params->flags |= drawn % 5 ? 0 : TRYST_OP_BACKGROUND;
    params->priority = drawn % 3 ? 0 : (int32_t)(drawn % 7) - 3;
}

static void side_submit(struct side *side)
{
    const struct pair *pair = side->pair;
    const struct harness_rank *rank = side->owner->rank;
    char edge[24];
    tryst_op *op;
    bool alloc = !side->is_send && pair->alloc && pair->fate != MISMATCH;
    tryst_tensor tensor = room_tensor(&side->room, side->room.ready);
    tryst_op_params params = {
        .struct_size = sizeof params, .callback = on_done, .arg = side};
    if (pair->fate == (side->is_send ? DEADLINE_SEND : DEADLINE_RECV) ||
        pair->fate == NO_SEND)
        params.deadline_ns = pair->deadline_ns;
    if (pair->fate == DEAD && side->is_send)
        params.flags = TRYST_OP_DEAD;
    urgency_draw(side, &params);
    if (alloc) {
        params.alloc = on_alloc;
        params.alloc_arg = side;
    }
    snprintf(edge, sizeof edge, "e%d", pair->edge);
    struct harness_key key = harness_key(rank, pair->src, pair->dst, edge);
    tryst_step *step = side->owner->step;
    CHECK_STATUS(side->is_send
                     ? tryst_send(step, key.text, &tensor, &params, &op)
                     : tryst_recv(step, key.text, alloc ? NULL : &tensor, &params, &op),
                 TRYST_OK);
    if (side->cancel && pair->deadline_ns % 2)
        CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
    if (pair->deadline_ns % 7 < 2)
        CHECK_STATUS(tryst_op_reprioritize(op, params.priority - 2), TRYST_OK);
    atomic_store(&side->op, op);
    if (side->cancel && pair->deadline_ns % 2 == 0)
        CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
}

struct submitter {
    struct rank_run *self;
    int index; /* index of the thread, 0 … SUBMITTERS − 1 */
};

/* Submit the operations of this thread's keys. All uses of a key are submitted by one
 * thread, because two threads would not agree on the numbers. */
static void *submitter_main(void *arg)
{
    const struct submitter *submitter = arg;
    struct rank_run *self = submitter->self;
    pthread_barrier_wait(&self->start);
    for (int i = 0; i < self->count; i++) {
        const struct pair *pair = self->order[i]->pair;
        if ((pair->edge + pair->src + pair->dst) % SUBMITTERS == submitter->index)
            side_submit(self->order[i]);
    }
    return NULL;
}

static void side_wait(struct side *side)
{
    struct outcome *outcome = &side->owner->run->outcomes[side->pair->index];
    tryst_op *op;
    while (!(op = atomic_load(&side->op)))
        harness_sleep_ms(1);
    tryst_status status = tryst_wait(op, TRYST_FOREVER);
    CHECK_EQ(atomic_load(side->is_send ? &outcome->send : &outcome->recv), status);
    if (!side->is_send && status == TRYST_OK) {
        size_t at = room_mismatch(&side->owner->gpu, &side->room, side->pair->index);
        if (at != SIZE_MAX)
            harness_fail(__FILE__, __LINE__, "pair %llu: byte %zu of %zu is wrong",
                         (unsigned long long)side->pair->index, at, side->room.bytes);
    }
    tryst_op_release(op);
    room_close(&side->owner->gpu, &side->room);
}

static void sides_plan(struct rank_run *self, uint64_t step)
{
    int me = self->rank->rank;
    plan_step(self->run, step, self->pairs);
    self->count = 0;
    for (int i = 0; i < self->run->step_pairs; i++) {
        const struct pair *pair = &self->pairs[i];
        if (pair->src == me && pair->fate != NO_SEND)
            side_add(self, pair, true);
        if (pair->dst == me && pair->fate != NO_RECV)
            side_add(self, pair, false);
    }
    order_make(self);
}

static void step_run(struct rank_run *self, uint64_t step)
{
    pthread_t threads[SUBMITTERS];
    struct submitter submitters[SUBMITTERS];
    sides_plan(self, step);
    self->step = harness_step(self->rank, step);
    for (int i = 0; self->run->threads && i < SUBMITTERS; i++) {
        submitters[i] = (struct submitter){self, i};
        CHECK(pthread_create(&threads[i], NULL, submitter_main, &submitters[i]) == 0);
    }
    if (self->run->threads)
        pthread_barrier_wait(&self->start);
    else
        for (int i = 0; i < self->count; i++)
            side_submit(self->order[i]);
    for (int i = 0; i < self->count; i++)
        side_wait(&self->sides[i]);
    for (int i = 0; self->run->threads && i < SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    /* With deferred receives a close could remove the consumer before the OFFER for a
     * cancelled receive has arrived. */
    if (self->run->tight)
        harness_barrier(self->rank, &self->run->counter);
    harness_step_close(self->step);
}

/* Pause for up to 40 ms; the logarithm of the time is uniform. */
static void leave_pause(struct rank_run *self)
{
    double us = exp(random_unit(&self->state) * log(40000));
    usleep((useconds_t)us);
}

static void step_leave(struct rank_run *self, uint64_t step)
{
    harness_open(self->rank);
    sides_plan(self, step);
    self->step = harness_step(self->rank, 1);
    for (int i = 0; i < self->count; i++)
        side_submit(self->order[i]);
    leave_pause(self);
    harness_close(self->rank);
    for (int i = 0; i < self->count; i++)
        side_wait(&self->sides[i]); /* returns at once, because the operation has ended */
    uint32_t turn = atomic_fetch_add(&self->run->counter, 1) / RANKS;
    while (atomic_load(&self->run->counter) < (turn + 1) * RANKS)
        harness_sleep_ms(1);
}

static void leave_main(struct harness_rank *rank)
{
    struct random_run *run = rank->arg;
    struct rank_run *self = calloc(1, sizeof *self);
    CHECK(self);
    self->rank = rank;
    self->run = run;
    self->state = run->seed ^ ((uint64_t)rank->rank + 1) << 32;
    for (uint64_t step = 1; step <= steps_count(run); step++)
        step_leave(self, step);
    free(self);
}

static void random_main(struct harness_rank *rank)
{
    struct random_run *run = rank->arg;
    struct rank_run *self = calloc(1, sizeof *self);
    uint64_t steps = steps_count(run);
    size_t warm_bytes = 0;
    int warm_fds = 0;
    CHECK(self);
    self->rank = rank;
    self->run = run;
    self->state = run->seed ^ ((uint64_t)rank->rank + 1) << 32;
    if (run->device_share) {
        gpu_open(rank, &self->gpu);
        gpu_pools_open(&self->gpu);
    }
    pthread_barrier_init(&self->start, NULL, SUBMITTERS + 1);
    for (uint64_t step = 1; step <= steps; step++) {
        step_run(self, step);
        if (step == steps / 2 || step == steps) {
            harness_barrier(rank, &run->counter);
            if (step == steps / 2) {
                warm_bytes = harness_heap_bytes();
                warm_fds = harness_fds();
            }
        }
    }
    /* Pools keep their largest size; a leak would grow with the number of operations. */
    size_t grown = harness_heap_bytes() - warm_bytes;
    if (harness_has_processes() && !harness_is_sanitized() &&
        harness_heap_bytes() >
            warm_bytes + 64 * (run->ops / 8) / 10 + 512 * 1024 + run->fabric_bytes)
        harness_fail(__FILE__, __LINE__, "the heap has grown by %zu bytes in %llu steps",
                     grown, (unsigned long long)(steps - steps / 2));
    /* At the half-way count, two crossed links may have had a second socket open for a
     * moment, or an import of a peer's device memory may have waited for the notice that
     * this memory is gone. shm makes its stage, one memory file, at its first need. */
    for (uint64_t until = harness_now_ns() + patience_ns(5000000000);
         harness_has_processes() && harness_fds() > warm_fds + 1;) {
        tryst_progress(rank->ctx);
        if (harness_now_ns() > until)
            CHECK_EQ(harness_fds(), warm_fds + 1);
    }
    harness_barrier(rank, &run->counter);
    if (run->device_share)
        gpu_close(&self->gpu);
    pthread_barrier_destroy(&self->start);
    free(self);
}

/* ---- both ends together ------------------------------------------------------------ */

static bool is_given_up(int32_t status)
{
    return status == TRYST_E_CANCELED || status == TRYST_E_DEADLINE ||
           status == TRYST_E_CLOSED;
}

static struct outcome_end end_judged(const struct pair *pair, bool is_send,
                                     const struct outcome *outcome)
{
    struct outcome_end end = {
        .facts = OUTCOME_PASSED, /* each rank closes the step at the end */
        .status = atomic_load(is_send ? &outcome->send : &outcome->recv),
        .calls = atomic_load(is_send ? &outcome->send_calls : &outcome->recv_calls)};
    if (pair->fate != (is_send ? NO_SEND : NO_RECV))
        end.facts |= OUTCOME_SUBMITTED;
    if (pair->fate == CANCEL_BOTH ||
        pair->fate == (is_send ? CANCEL_SEND : CANCEL_RECV) || pair->fate == NO_RECV)
        end.facts |= OUTCOME_CANCEL;
    if (pair->fate == (is_send ? DEADLINE_SEND : DEADLINE_RECV) || pair->fate == NO_SEND)
        end.facts |= OUTCOME_DEADLINE;
    return end;
}

/* Return NULL if the outcomes of both ends are legal, else the reason why not. */
static const char *pair_fault(const struct pair *pair, const struct outcome *outcome,
                              bool leaves)
{
    struct outcome_pair both = {.send = end_judged(pair, true, outcome),
                                .recv = end_judged(pair, false, outcome),
                                .met = pair->fate == DEAD       ? TRYST_E_DEAD
                                       : pair->fate == MISMATCH ? TRYST_E_MISMATCH
                                                                : TRYST_OK};
    return leaves ? outcome_left_fault(&both) : outcome_fault(&both);
}

static int outcomes_check(const struct random_run *run)
{
    struct pair *pairs = calloc(STEP_PAIRS, sizeof *pairs);
    int wrong = 0, given_up = 0, on_device = 0;
    for (uint64_t step = 1; step <= steps_count(run); step++) {
        plan_step(run, step, pairs);
        for (int i = 0; i < run->step_pairs; i++) {
            const struct outcome *outcome = &run->outcomes[pairs[i].index];
            int32_t send = atomic_load(&outcome->send),
                    recv = atomic_load(&outcome->recv);
            uint32_t sends = atomic_load(&outcome->send_calls);
            uint32_t recvs = atomic_load(&outcome->recv_calls);
            given_up += is_given_up(send) || is_given_up(recv);
            if (recv == TRYST_OK)
                on_device += (pairs[i].send.device >= 0) + (pairs[i].recv.device >= 0);
            const char *fault = pair_fault(&pairs[i], outcome, run->leaves);
            if (!fault)
                continue;
            if (wrong++ < 5)
                print_error(
                    "%s: step %llu pair %d (%d to %d, %llu bytes, fate %d, alloc %d): "
                    "send %d (%u callbacks), recv %d (%u)\n",
                    fault, (unsigned long long)step, i, pairs[i].src, pairs[i].dst,
                    (unsigned long long)pairs[i].bytes, pairs[i].fate, pairs[i].alloc,
                    send, sends, recv, recvs);
        }
    }
    free(pairs);
    if (!given_up)
        print_error("nothing was cancelled: the plan tests too little\n");
    if (run->device_share)
        print_message("%d tensors on devices\n", on_device);
    return wrong + !given_up + (run->device_share && !on_device);
}

/* Print the bytes that must have crossed each pair of hosts in a lab, for comparison with
 * the counters of the hosts' interfaces. */
static void payload_print(const struct random_run *run)
{
    struct pair *pairs = calloc(STEP_PAIRS, sizeof *pairs);
    uint64_t bytes[RANKS][RANKS] = {{0}};
    for (uint64_t step = 1; step <= steps_count(run); step++) {
        plan_step(run, step, pairs);
        for (int i = 0; i < run->step_pairs; i++)
            if (atomic_load(&run->outcomes[pairs[i].index].recv) == TRYST_OK)
                bytes[pairs[i].src][pairs[i].dst] += pairs[i].bytes;
    }
    for (int src = 0; src < RANKS; src++)
        for (int dst = 0; dst < RANKS; dst++)
            if (src != dst)
                printf("payload %d %d %llu\n", src, dst,
                       (unsigned long long)bytes[src][dst]);
    free(pairs);
}

static void random_run(uint64_t seed, bool threads, bool progress_thread, bool leaves,
                       const char *const *more)
{
    uint64_t ops =
        harness_setting("TRYST_TEST_OPS", harness_is_sanitized() ? 4000 : 10000) / 4;
    uint64_t step_pairs =
        harness_setting("TRYST_TEST_STEP_PAIRS", leaves ? LEAVING_PAIRS : STEP_PAIRS);
    assert_in_range(step_pairs, 1, STEP_PAIRS);
    size_t pairs = (ops / (2 * step_pairs) + 1) * step_pairs;
    size_t bytes = sizeof(struct random_run) + pairs * sizeof(struct outcome);
    struct random_run *run = harness_share(bytes);
    const char *config[16] = {"progress_thread", progress_thread ? "1" : "0"};
    for (int i = 0; more && more[i]; i++)
        config[2 + i] = more[i];
    *run = (struct random_run){
        .seed = seed,
        .ops = ops,
        .step_pairs = (int)step_pairs,
        /* ranks that leave open no device */
        .device_share = leaves ? 0 : (int)harness_setting("TRYST_TEST_DEVICE", 0),
        .fabric_bytes = harness_setting("TRYST_TEST_FABRIC_BYTES", 0),
        .bytes_least = harness_setting("TRYST_TEST_LEAST", 0),
        .bytes_max = harness_setting("TRYST_TEST_BYTES", 1 << 20),
        .threads = threads,
        .progress_thread = progress_thread,
        .leaves = leaves,
        .tight = more != NULL};
    for (size_t i = 0; i < pairs; i++) {
        atomic_init(&run->outcomes[i].send, UNSEEN);
        atomic_init(&run->outcomes[i].recv, UNSEEN);
    }
    struct harness_params params = {
        .size = RANKS,
        .main = leaves ? leave_main : random_main,
        .no_group = leaves,
        .arg = run,
        .config = config,
        .timeout_s = (unsigned)harness_setting("TRYST_TEST_SECONDS", 30)};
    int failed = harness_run(&params);
    if (!failed)
        failed = outcomes_check(run);
    if (harness_in_lab())
        payload_print(run);
    harness_unshare(run, bytes);
    if (failed)
        print_error("replay: TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    assert_int_equal(failed, 0);
}

static void test_one_thread(void **state)
{
    random_run(unit_seed(), false, false, false, NULL);
}

static void test_one_thread_and_progress_thread(void **state)
{
    random_run(unit_seed(), false, true, false, NULL);
}

static void test_three_threads(void **state)
{
    random_run(unit_seed(), true, false, false, NULL);
}

/* Run also with every bound of the protocol at its minimum. */
static void test_three_threads_and_progress_thread(void **state)
{
    random_run(unit_seed(), true, true, false, NULL);
}

static void test_tight(void **state)
{
    static const char *const tight[] = {
        "wants_max", "1", "parked_max",   "2",  "frame_credits", "2",
        "early_max", "1", "eager_credit", "4K", "stage_bytes",   "64K",
        NULL};
    random_run(unit_seed(), false, false, false, tight);
}

static void test_leave_early(void **state)
{
    random_run(unit_seed(), false, false, true, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leave_early),
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_one_thread_and_progress_thread),
        cmocka_unit_test(test_three_threads),
        cmocka_unit_test(test_three_threads_and_progress_thread),
        cmocka_unit_test(test_tight),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
