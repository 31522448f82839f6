/* SPDX-License-Identifier: Apache-2.0 */
/* Random traffic between 4 ranks that disturb each other. Ranks stay outside the library,
 * run ahead by many steps, close steps with unread DATA and pending operations, abort or
 * skip steps, give operations deadlines shorter than a round trip, cancel earlier numbers
 * of a key, and close the group at any moment, also right after the first contact.
 *
 * Idea: unruly.h draws the facts that both ends share, and this program draws the times.
 * Each end writes its outcome into shared memory, and support/outcomes.h judges both ends
 * together.
 * A rank that waits while no rank completes anything reports a hang, and all ranks dump
 * their pending operations.
 *
 * TRYST_TEST_SEED replays a run. TRYST_TEST_OPS (of one life), TRYST_TEST_LIVES (seeds,
 * from that one on), TRYST_TEST_STALL_MS (the longest stall; the shortest is a thirtieth
 * of it), TRYST_TEST_STALLS (of 1000 windows of a rank), TRYST_TEST_AHEAD (steps of a
 * window) and TRYST_TEST_BYTES set its size. */
#include "unruly.h"

#include "harness.h"

#include "support/patience.h"
#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW_PAIRS = 120, SENTINEL = 0xEE, PAUSE_MS = 2 };
enum { SEND = UNRULY_SEND, RECV = UNRULY_RECV };

struct unruly_run {
    struct unruly_plan plan;
    uint64_t windows;
    bool leaves;     /* each rank closes its group in each window, at its own moment */
    double stall_ms; /* milliseconds of the longest stall */
    int stalls;      /* stalls in 1000 windows of a rank */
    uint64_t patience_ns;
    _Atomic(uint32_t) counter, hung, told;
    _Atomic(uint64_t) ticks; /* operations and steps that have ended, on all ranks */
    size_t bytes;
    struct unruly_seen seen[];
};

/* ---- one rank ---------------------------------------------------------------------- */

struct side {
    struct rank_run *self;
    const struct unruly_pair *pair;
    bool is_send;
    double place; /* position in the order of the rank's actions */
    uint8_t *data;
    size_t bytes;
    struct side *victim; /* operation that this one's callback cancels */
    _Atomic(tryst_op *) op;
};

struct rank_run {
    struct harness_rank *rank;
    struct unruly_run *run;
    struct unruly_window window;
    uint64_t number; /* number of the window */
    uint64_t state;
    struct side *sides;
    struct unruly_actions actions;
    int sides_count;
    tryst_step **steps; /* NULL for a step that is not open */
    tryst_op **closes;
    int aborted; /* step whose abort the rank waits for; -1: none */
    uint64_t ticks;
    struct patience idle;
};

static int32_t side_status(const struct side *side)
{
    const struct unruly_seen *seen = &side->self->run->seen[side->pair->index];
    return atomic_load(&seen->status[side->is_send ? SEND : RECV]);
}

static void end_state_print(const struct unruly_seen *seen, int which)
{
    int32_t status = atomic_load(&seen->status[which]);
    dprintf(2, "  %s: %s, %u callbacks\n", which == SEND ? "send" : "recv",
            !atomic_load(&seen->submitted[which]) ? "not submitted"
            : status == OUTCOME_UNSEEN            ? "pending"
                                                  : tryst_status_name(status),
            atomic_load(&seen->calls[which]));
}

static void pending_print(const struct rank_run *self)
{
    int told = 0;
    dprintf(2, "\nrank %d, window %llu, steps from %llu, waits for\n", self->rank->rank,
            (unsigned long long)self->number, (unsigned long long)self->window.first_id);
    if (self->aborted >= 0)
        dprintf(2, "the abort of step %llu\n",
                (unsigned long long)self->window.first_id + (unsigned)self->aborted);
    for (int i = 0; i < self->sides_count && told < 3; i++) {
        const struct side *side = &self->sides[i];
        if (!atomic_load(&side->op) || side_status(side) != OUTCOME_UNSEEN)
            continue;
        dprintf(2, "the %s of ", side->is_send ? "send" : "receive");
        unruly_pair_print(2, &self->window, side->pair);
        end_state_print(&self->run->seen[side->pair->index], SEND);
        end_state_print(&self->run->seen[side->pair->index], RECV);
        told++;
    }
    tryst_dump(self->rank->ctx, 2);
}

/* Print the pending operations of the ranks one after the other, and exit once all have
 * printed. A rank that no longer checks is skipped after a time-out. */
static _Noreturn void hang_report(struct rank_run *self)
{
    struct unruly_run *run = self->run;
    for (int i = 0; i < 100 && (int)atomic_load(&run->told) < self->rank->rank; i++)
        harness_sleep_ms(10);
    pending_print(self);
    atomic_fetch_add(&run->told, 1);
    for (int i = 0; i < 200 && atomic_load(&run->told) < UNRULY_RANKS; i++)
        harness_sleep_ms(10);
    dprintf(2, "rank %d: hang: no rank has completed an operation for %llu ms\n",
            self->rank->rank, (unsigned long long)(run->patience_ns / 1000000));
    _exit(1);
}

/* Check for a hang. Each waiting rank calls this at least every 100 ms; time in which the
 * whole machine was stopped does not count. */
static void watch(struct rank_run *self)
{
    struct unruly_run *run = self->run;
    uint64_t ticks = atomic_load(&run->ticks);
    if (ticks != self->ticks)
        self->idle = patience_begin();
    self->ticks = ticks;
    if (patience_spent_ns(&self->idle) > run->patience_ns)
        atomic_store(&run->hung, 1);
    if (atomic_load(&run->hung))
        hang_report(self);
}

static void op_wait(struct rank_run *self, tryst_op *op)
{
    if (unruly_below(&self->state, 8) == 0)
        while (tryst_op_test(op) == TRYST_IN_PROGRESS) {
            tryst_progress(self->rank->ctx);
            watch(self);
        }
    while (tryst_wait(op, 50000000) == TRYST_E_TIMEOUT)
        watch(self);
}

/* ---- operations -------------------------------------------------------------------- */

static void on_done(void *arg, tryst_op *op, tryst_status status)
{
    struct side *side = arg;
    struct unruly_seen *seen = &side->self->run->seen[side->pair->index];
    int which = side->is_send ? SEND : RECV;
    tryst_op *victim = side->victim ? atomic_load(&side->victim->op) : NULL;
    CHECK_STATUS(tryst_op_test(op), status);
    if (!side->is_send && status != TRYST_OK && side->bytes)
        /* the buffer belongs to the caller again */
        memset(side->data, SENTINEL, side->bytes);
    if (victim)
        CHECK_STATUS(tryst_op_cancel(victim), TRYST_OK);
    atomic_store(&seen->status[which], status);
    atomic_fetch_add(&seen->calls[which], 1);
    atomic_fetch_add(&side->self->run->ticks, 1);
}

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    struct side *side = arg;
    CHECK_EQ(tensor->count, side->pair->bytes);
    CHECK_EQ(tensor->dtype, TRYST_DTYPE_U8);
    if (side->pair->met == TRYST_E_UNSUPPORTED)
        return TRYST_E_UNSUPPORTED;
    tensor->data = side->data;
    return TRYST_OK;
}

static void side_submit(struct side *side)
{
    const struct unruly_pair *pair = side->pair;
    struct rank_run *self = side->self;
    const struct unruly_end *end = side->is_send ? &pair->send : &pair->recv;
    bool alloc = !side->is_send && pair->alloc;
    struct unruly_seen *seen = &self->run->seen[pair->index];
    char edge[24];
    tryst_op *op;
    tryst_tensor tensor = harness_tensor(side->data, side->bytes);
    tryst_op_params params = {.struct_size = sizeof params,
                              .callback = on_done,
                              .arg = side,
                              .deadline_ns = end->deadline_ns};
    if (side->is_send && pair->met == TRYST_E_DEAD)
        params.flags = TRYST_OP_DEAD;
    if (alloc) {
        params.alloc = on_alloc;
        params.alloc_arg = side;
    }
    snprintf(edge, sizeof edge, "e%d", pair->edge);
    struct harness_key key = harness_key(self->rank, pair->src, pair->dst, edge);
    tryst_step *step = self->steps[pair->step];
    tryst_status status =
        side->is_send ? tryst_send(step, key.text, &tensor, &params, &op)
                      : tryst_recv(step, key.text, alloc ? NULL : &tensor, &params, &op);
    if (status == TRYST_E_ABORTED && self->window.steps[pair->step].aborted)
        return;
    CHECK_STATUS(status, TRYST_OK);
    atomic_store(&seen->submitted[side->is_send ? SEND : RECV], 1);
    atomic_store(&side->op, op);
    if (end->cancel == UNRULY_CANCEL_AT_ONCE)
        CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
}

/* ---- the actions of a rank in a window --------------------------------------------- */

static void side_add(struct rank_run *self, const struct unruly_pair *pair, bool is_send)
{
    const struct unruly_end *end = is_send ? &pair->send : &pair->recv;
    struct side *side = &self->sides[self->sides_count];
    if ((is_send ? pair->src : pair->dst) != self->rank->rank || end->absent)
        return;
    if (self->window.steps[pair->step].manner[self->rank->rank] == UNRULY_SKIPS)
        return;
    *side =
        (struct side){.self = self,
                      .pair = pair,
                      .is_send = is_send,
                      .place = unruly_place(&self->actions, pair->step),
                      .bytes = pair->bytes + (!is_send && pair->met == TRYST_E_MISMATCH)};
    side->data = malloc(side->bytes + 1);
    CHECK(side->data);
    if (is_send)
        harness_fill(side->data, side->bytes, pair->index);
    else
        memset(side->data, SENTINEL, side->bytes);
    self->sides_count++;
}

static bool same_key(const struct side *a, const struct side *b)
{
    return a->is_send == b->is_send && a->pair->step == b->pair->step &&
           a->pair->edge == b->pair->edge && a->pair->src == b->pair->src &&
           a->pair->dst == b->pair->dst;
}

/* Sort the uses of each key into the plan's order, because that order numbers them. */
static void places_order(struct rank_run *self)
{
    for (int i = 0; i < self->sides_count; i++)
        for (int j = i + 1; j < self->sides_count; j++) {
            struct side *a = &self->sides[i], *b = &self->sides[j];
            if (same_key(a, b) && a->place > b->place) {
                double place = a->place;
                a->place = b->place;
                b->place = place;
            }
        }
}

static void actions_plan(struct rank_run *self)
{
    const struct unruly_window *window = &self->window;
    unruly_actions_begin(&self->actions);
    self->sides_count = 0;
    for (int i = 0; i < self->run->plan.window_pairs; i++) {
        side_add(self, &window->pairs[i], true);
        side_add(self, &window->pairs[i], false);
    }
    places_order(self);
    for (int i = 0; i < self->sides_count; i++) {
        struct side *side = &self->sides[i];
        enum unruly_cancel cancel =
            side->is_send ? side->pair->send.cancel : side->pair->recv.cancel;
        unruly_submit_add(&self->actions, side->place, i, cancel == UNRULY_CANCEL_LATER);
        if (cancel == UNRULY_CANCEL_IN_CALLBACK)
            self->sides[unruly_below(&self->state, self->sides_count)].victim = side;
    }
    unruly_actions_end(&self->actions, window, self->rank->rank, self->run->stalls);
}

static void stall(struct rank_run *self, double ms)
{
    uint64_t until_ns = harness_now_ns() + (uint64_t)(ms * 1e6);
    bool spins = unruly_below(&self->state, 2);
    atomic_fetch_add(&self->run->ticks, 1);
    while (harness_now_ns() < until_ns && !atomic_load(&self->run->hung))
        if (!spins)
            harness_sleep_ms(1);
    atomic_fetch_add(&self->run->ticks, 1);
}

static void step_abort(struct rank_run *self, int step)
{
    char reason[32];
    snprintf(reason, sizeof reason, "rank %d is fed up", self->rank->rank);
    CHECK_STATUS(tryst_step_abort(self->steps[step], TRYST_E_IO, reason), TRYST_OK);
    CHECK_STATUS(tryst_step_status(self->steps[step], NULL), TRYST_E_ABORTED);
}

static void step_close(struct rank_run *self, int step)
{
    bool asks = unruly_below(&self->state, 4) != 0;
    CHECK_STATUS(tryst_step_close(self->steps[step], asks ? &self->closes[step] : NULL),
                 TRYST_OK);
    self->steps[step] = NULL;
}

static void action_run(struct rank_run *self, const struct unruly_action *action)
{
    int i = action->index;
    struct side *side = &self->sides[i];
    switch (action->kind) {
    case UNRULY_OPEN:
        self->steps[i] = harness_step(self->rank, self->window.first_id + (uint64_t)i);
        break;
    case UNRULY_SUBMIT:
        if (self->steps[side->pair->step])
            side_submit(side);
        break;
    case UNRULY_CANCEL:
        if (atomic_load(&side->op))
            CHECK_STATUS(tryst_op_cancel(atomic_load(&side->op)), TRYST_OK);
        break;
    case UNRULY_ABORT: step_abort(self, i); break;
    case UNRULY_CLOSE:
        if (unruly_below(&self->state, 4) == 0)
            stall(self, PAUSE_MS); /* messages that arrive meanwhile are not read */
        step_close(self, i);
        break;
    case UNRULY_PROGRESS:
        for (int n = unruly_below(&self->state, 20); n >= 0; n--)
            tryst_progress(self->rank->ctx);
        break;
    case UNRULY_STALL:
        stall(self, unruly_between(&self->state, self->run->stall_ms / 30,
                                   self->run->stall_ms));
        break;
    }
}

/* ---- the end of a window ----------------------------------------------------------- */

static void abort_check(struct rank_run *self, int step)
{
    tryst_error error = {.struct_size = sizeof error, .origin_rank = -1};
    char reason[32];
    if (!self->window.steps[step].aborted) {
        CHECK_STATUS(tryst_step_status(self->steps[step], NULL), TRYST_OK);
        return;
    }
    self->aborted = step;
    while (tryst_step_status(self->steps[step], &error) == TRYST_OK ||
           error.origin_rank < 0) {
        tryst_progress(self->rank->ctx);
        watch(self);
    }
    self->aborted = -1;
    CHECK(error.origin_rank < UNRULY_RANKS);
    enum unruly_manner manner = self->window.steps[step].manner[error.origin_rank];
    CHECK(manner == UNRULY_ABORTS || manner == UNRULY_ABORTS_AND_CLOSES);
    snprintf(reason, sizeof reason, "rank %d is fed up", error.origin_rank);
    CHECK_STATUS(error.status, TRYST_E_ABORTED);
    CHECK_STATUS(error.origin_status, TRYST_E_IO);
    CHECK(strstr(error.text, reason) != NULL);
}

static void step_finish(struct rank_run *self, int step)
{
    for (int i = 0; i < self->sides_count; i++)
        if (self->sides[i].pair->step == step && atomic_load(&self->sides[i].op))
            op_wait(self, atomic_load(&self->sides[i].op));
    abort_check(self, step);
    step_close(self, step);
}

static void close_finish(struct rank_run *self, int step)
{
    if (!self->closes[step])
        return;
    op_wait(self, self->closes[step]);
    CHECK_STATUS(tryst_op_test(self->closes[step]), TRYST_OK);
    tryst_op_release(self->closes[step]);
    self->closes[step] = NULL;
    for (int i = 0; i < self->sides_count; i++)
        if (self->sides[i].pair->step == step && atomic_load(&self->sides[i].op))
            CHECK(tryst_op_test(atomic_load(&self->sides[i].op)) != TRYST_IN_PROGRESS);
}

static void side_check(struct side *side, tryst_op *op)
{
    int32_t status = side_status(side);
    CHECK_STATUS(tryst_op_test(op), status);
    if (side->is_send)
        return;
    size_t at = SIZE_MAX;
    if (status == TRYST_OK)
        at = harness_mismatch(side->data, side->bytes, side->pair->index);
    for (size_t i = 0; status != TRYST_OK && i < side->bytes && at == SIZE_MAX; i++)
        if (side->data[i] != SENTINEL)
            at = i;
    if (at != SIZE_MAX)
        harness_fail(__FILE__, __LINE__, "pair %llu, %s: byte %zu of %zu is wrong",
                     (unsigned long long)side->pair->index, tryst_status_name(status), at,
                     side->bytes);
}

/* Finish the sides after all callbacks have run, so that no callback cancels another
 * operation. */
static void sides_finish(struct rank_run *self)
{
    for (int i = 0; i < self->sides_count; i++) {
        struct side *side = &self->sides[i];
        const struct unruly_seen *seen = &self->run->seen[side->pair->index];
        if (atomic_load(&side->op))
            op_wait(self, atomic_load(&side->op));
        while (atomic_load(&side->op) &&
               !atomic_load(&seen->calls[side->is_send ? SEND : RECV])) {
            tryst_progress(self->rank->ctx);
            watch(self);
        }
    }
    for (int i = 0; i < self->sides_count; i++) {
        tryst_op *op = atomic_load(&self->sides[i].op);
        if (op)
            side_check(&self->sides[i], op);
        tryst_op_release(op);
        free(self->sides[i].data);
    }
}

static void window_run(struct rank_run *self, uint64_t number)
{
    self->number = number;
    unruly_window_draw(&self->run->plan, number, &self->window);
    actions_plan(self);
    for (int i = 0; i < self->actions.count; i++)
        action_run(self, &self->actions.list[i]);
    int count = self->window.steps_count;
    int first = unruly_below(&self->state, count);
    self->idle = patience_begin();
    for (int i = 0; i < count; i++)
        if (self->steps[(first + i) % count])
            step_finish(self, (first + i) % count);
    for (int i = 0; i < count; i++)
        close_finish(self, i);
    sides_finish(self);
}

/* Fail unless the operation has ended with its group, or before. */
static void side_left(struct side *side)
{
    tryst_op *op = atomic_load(&side->op);
    const struct unruly_seen *seen = &side->self->run->seen[side->pair->index];
    if (op && tryst_op_test(op) == TRYST_IN_PROGRESS)
        harness_fail(__FILE__, __LINE__, "an operation outlives its group");
    if (op && !atomic_load(&seen->calls[side->is_send ? SEND : RECV]))
        harness_fail(__FILE__, __LINE__, "the group is closed, and a callback never ran");
    if (op)
        side_check(side, op);
    tryst_op_release(op);
    free(side->data);
}

/* Run a window in its own group, which the rank closes after a random one of its actions,
 * mostly an early one. */
static void window_leave(struct rank_run *self, uint64_t number)
{
    self->number = number;
    unruly_window_draw(&self->run->plan, number, &self->window);
    harness_open(self->rank);
    actions_plan(self);
    int last = unruly_below(&self->state, self->actions.count + 1);
    for (int i = 0; i < last; i++)
        action_run(self, &self->actions.list[i]);
    if (unruly_below(&self->state, 2))
        usleep((useconds_t)unruly_below(&self->state, 40000));
    harness_close(self->rank);
    for (int i = 0; i < self->window.steps_count; i++) {
        self->steps[i] = NULL; /* closed together with the group */
        if (self->closes[i])
            CHECK_STATUS(tryst_op_test(self->closes[i]), TRYST_OK);
        tryst_op_release(self->closes[i]);
        self->closes[i] = NULL;
    }
    for (int i = 0; i < self->sides_count; i++)
        side_left(&self->sides[i]);
    uint32_t turn = atomic_fetch_add(&self->run->counter, 1) / UNRULY_RANKS;
    while (atomic_load(&self->run->counter) < (turn + 1) * UNRULY_RANKS)
        harness_sleep_ms(1);
}

static void unruly_main(struct harness_rank *rank)
{
    struct unruly_run *run = rank->arg;
    size_t pairs = (size_t)run->plan.window_pairs, steps = (size_t)run->plan.steps_max;
    struct rank_run self = {.rank = rank,
                            .run = run,
                            .state = run->plan.seed ^ ((uint64_t)rank->rank + 1) << 32,
                            .sides = calloc(2 * pairs, sizeof(struct side)),
                            .steps = calloc(steps, sizeof(tryst_step *)),
                            .closes = calloc(steps, sizeof(tryst_op *))};
    CHECK(self.sides && self.steps && self.closes);
    unruly_actions_open(&run->plan, (int)(2 * pairs), &self.state, &self.actions);
    unruly_window_open(&run->plan, &self.window);
    for (uint64_t i = 0; i < run->windows; i++)
        run->leaves ? window_leave(&self, i) : window_run(&self, i);
    if (!run->leaves)
        harness_barrier(rank, &run->counter);
    unruly_window_close(&self.window);
    free(self.sides);
    unruly_actions_close(&self.actions);
    free(self.steps);
    free(self.closes);
}

/* ---- both ends together ------------------------------------------------------------ */

static int pair_check(const struct unruly_window *window, const struct unruly_pair *pair,
                      const struct unruly_seen *seen, bool leaves, int *met_p)
{
    struct outcome_pair both = unruly_outcome(window, pair, seen);
    const char *fault = leaves ? outcome_left_fault(&both) : outcome_fault(&both);
    *met_p += both.send.status == pair->met;
    if (!fault)
        return 0;
    print_error("%s:\n", fault);
    unruly_pair_print(2, window, pair);
    end_state_print(seen, SEND);
    end_state_print(seen, RECV);
    return 1;
}

/* Return the number of wrong pairs. Also fail if less than a third of the pairs have
 * met. */
static int seen_check(const struct unruly_run *run)
{
    struct unruly_window window;
    int wrong = 0, met = 0, pairs = (int)run->windows * run->plan.window_pairs;
    unruly_window_open(&run->plan, &window);
    for (uint64_t number = 0; number < run->windows && wrong < 5; number++) {
        unruly_window_draw(&run->plan, number, &window);
        for (int i = 0; i < run->plan.window_pairs && wrong < 5; i++)
            wrong += pair_check(&window, &window.pairs[i],
                                &run->seen[window.pairs[i].index], run->leaves, &met);
    }
    unruly_window_close(&window);
    if (wrong || run->leaves || met * 3 > pairs)
        return wrong;
    print_error("%d of %d pairs have met: the plan tests too little\n", met, pairs);
    return 1;
}

/* ---- lives ------------------------------------------------------------------------- */

enum bounds { WIDE, TIGHT, DRAWN };

/* Draw the bounds of the protocol: default, medium or minimum values. */
static void bounds_draw(enum bounds bounds, uint64_t seed, const char **config)
{
    static const char *const rows[][4] = {
        {"eager_credit", "64K", "8K", "4K"}, {"wants_max", "256", "3", "1"},
        {"parked_max", "65536", "8", "1"},   {"early_max", "4096", "4", "1"},
        {"frame_credits", "64", "4", "2"},   {"posted_slices", "4", "2", "1"},
        {"slice_bytes", "1M", "64K", "16K"}};
    uint64_t state = seed * 0x9E3779B97F4A7C15ull + 7;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int drawn = unruly_below(&state, 3);
        config[2 * i] = rows[i][0];
        config[2 * i + 1] = rows[i][bounds == WIDE ? 1 : bounds == TIGHT ? 3 : 1 + drawn];
    }
    config[2 * COUNT_OF(rows)] = NULL;
}

static struct unruly_run *run_open(uint64_t seed, bool leaves)
{
    int ahead = (int)harness_setting("TRYST_TEST_AHEAD", 40);
    int window_pairs = ahead > WINDOW_PAIRS ? ahead : WINDOW_PAIRS;
    uint64_t ops = harness_setting("TRYST_TEST_OPS", leaves ? 4800 : 960);
    uint64_t windows = ops / (2 * (uint64_t)window_pairs) + 1;
    size_t pairs = (size_t)windows * (size_t)window_pairs;
    size_t bytes = sizeof(struct unruly_run) + pairs * sizeof(struct unruly_seen);
    struct unruly_run *run = harness_share(bytes);
    run->plan =
        (struct unruly_plan){.seed = seed,
                             .steps_max = ahead,
                             .window_pairs = window_pairs,
                             .bytes_max = harness_setting("TRYST_TEST_BYTES", 1 << 20)};
    run->windows = windows;
    run->leaves = leaves;
    run->bytes = bytes;
    run->stall_ms = (double)harness_setting("TRYST_TEST_STALL_MS", 60);
    run->stalls = (int)harness_setting("TRYST_TEST_STALLS", 300);
    run->patience_ns = 5000000000 + (uint64_t)(run->stall_ms * 1e6);
    if (harness_is_sanitized())
        run->patience_ns *= 5;
    for (size_t i = 0; i < pairs; i++)
        unruly_seen_init(&run->seen[i]);
    return run;
}

static int life(uint64_t seed, bool progress_thread, enum bounds bounds, bool leaves)
{
    struct unruly_run *run = run_open(seed, leaves);
    const char *config[32] = {"progress_thread", progress_thread ? "1" : "0"};
    bounds_draw(bounds, seed, config + 2);
    struct harness_params params = {
        .size = UNRULY_RANKS,
        .main = unruly_main,
        .arg = run,
        .config = config,
        .no_group = leaves,
        .timeout_s = (unsigned)harness_setting("TRYST_TEST_SECONDS", 60)};
    int failed = harness_run(&params);
    if (!failed)
        failed = seen_check(run);
    if (failed) {
        print_error("replay: TRYST_TEST_SEED=%llu TRYST_TEST_LIVES=1, with",
                    (unsigned long long)seed);
        for (int i = 0; config[i]; i += 2)
            print_error(" %s=%s", config[i], config[i + 1]);
        print_error("\n");
    }
    harness_unshare(run, run->bytes);
    return failed;
}

static void lives(bool progress_thread, enum bounds bounds, bool leaves)
{
    uint64_t seed = unit_seed(), count = harness_setting("TRYST_TEST_LIVES", 1);
    int failed = 0;
    for (uint64_t i = 0; i < count; i++)
        failed += life(seed + i, progress_thread, bounds, leaves) != 0;
    assert_int_equal(failed, 0);
}

static void test_wide(void **state)
{
    lives(false, WIDE, false);
}

static void test_tight(void **state)
{
    lives(false, TIGHT, false);
}

static void test_drawn_progress_thread(void **state)
{
    lives(true, DRAWN, false);
}

static void test_leaving(void **state)
{
    lives(false, DRAWN, true);
}

/* Test the judge itself: the outcomes that it accepts, and those that it must reject. */
static void test_judge(void **state)
{
    enum { S = OUTCOME_SUBMITTED, C = OUTCOME_CANCEL, D = OUTCOME_DEADLINE };
    enum { X = OUTCOME_CLOSE | OUTCOME_PASSED, P = OUTCOME_PASSED, A = OUTCOME_ABORT };
    int ok = TRYST_OK, canceled = TRYST_E_CANCELED, late = TRYST_E_DEADLINE;
    int closed = TRYST_E_CLOSED, aborted = TRYST_E_ABORTED, dead = TRYST_E_DEAD;
    int none = OUTCOME_UNSEEN;
    const struct {
        uint32_t send_facts, recv_facts;
        int send, recv, met;
        bool legal;
    } rows[] = {
        {S, S, ok, ok, ok, true},
        {S, S, dead, dead, dead, true},
        {S, S, ok, ok, dead, false},
        {S, S, canceled, canceled, ok, false},
        {S | C, S, canceled, canceled, ok, true},
        {S | C, S, ok, ok, ok, true},
        {S | C, S, canceled, ok, ok, false},
        {S | C, S, ok, canceled, ok, false},
        {S, S | D, canceled, late, ok, false},
        {S, S | D, late, late, ok, true},
        {S, S | C, late, canceled, ok, false},
        {S, S | C, late, late, ok, false},
        {S | D, S, late, ok, ok, false},
        {S | D, S | D, late, late, ok, true},
        {S | D, S | D, canceled, canceled, ok, false},
        {S | C, S | D, canceled, canceled, ok, true},
        {S | C, S | D, late, late, ok, true},
        {S | C, S | D, canceled, late, ok, true},
        {S | X, S, canceled, closed, ok, true},
        {S | X, S, canceled, canceled, ok, true},
        {S | X, S, closed, closed, ok, false},
        {S | C, S, canceled, closed, ok, false},
        {S | C | P, S, canceled, closed, ok, true},
        {P, S, none, closed, ok, true},
        {0, S, none, closed, ok, false},
        {0, S | D, none, late, ok, true},
        {0, S, none, ok, ok, false},
        {S | A, S | A, aborted, aborted, ok, true},
        {S | A, S | A, aborted, ok, ok, true},
        {S | A, S | A, ok, aborted, ok, false},
        {S | A | C, S | A, canceled, ok, ok, false},
        {S | A | C, S | A, canceled, aborted, ok, true},
        {S | A, S | A, canceled, aborted, ok, false},
        {S, S, TRYST_IN_PROGRESS, ok, ok, false},
        {S, S, ok, none, ok, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint32_t sends = rows[i].send_facts & S, recvs = rows[i].recv_facts & S;
        struct outcome_pair pair = {{rows[i].send_facts, rows[i].send, sends},
                                    {rows[i].recv_facts, rows[i].recv, recvs},
                                    .met = rows[i].met};
        if ((outcome_fault(&pair) == NULL) != rows[i].legal)
            fail_msg("row %zu: the judge's verdict is wrong", i);
        pair.send.calls = sends ? 2 : 1;
        assert_non_null(outcome_fault(&pair));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge),   cmocka_unit_test(test_wide),
        cmocka_unit_test(test_tight),   cmocka_unit_test(test_drawn_progress_thread),
        cmocka_unit_test(test_leaving),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
