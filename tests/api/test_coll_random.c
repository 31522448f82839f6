/* SPDX-License-Identifier: Apache-2.0 */
/* Random collectives, mixed with sends and receives, between 4 ranks that disturb each
 * other. A rank stays outside the library, is stopped, closes a step early, aborts or
 * skips it, cancels its part, has a deadline shorter than a round trip, never submits its
 * part, or gives another count.
 *
 * Idea: unruly.h draws windows of steps with pairs; this program draws collectives into
 * the same steps. Each rank has the whole plan and writes its outcomes into shared
 * memory; support/outcomes.h and support/coll_outcomes.h judge all ranks together. A
 * callback checks a result and then overwrites the memory. From then on the memory must
 * not change, and its old contents must affect no rank.
 *
 * TRYST_TEST_SEED replays a run. TRYST_TEST_OPS (pairs and collectives of one life),
 * TRYST_TEST_STALL_MS (the longest stall), TRYST_TEST_STALLS (of 1000 windows of a rank)
 * and TRYST_TEST_SECONDS (of one life) set its size. */
#include "coll_items.h"
#include "unruly.h"

#include "support/child.h"
#include "support/coll_outcomes.h"
#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = UNRULY_RANKS, PAIRS = 60, COLLS = 60, STEPS_MAX = 24, NAMES = 5 };
enum { SEND = UNRULY_SEND, RECV = UNRULY_RECV, SENTINEL = 0xEE };

/* One collective of a window. */
struct drawn {
    struct coll_item item;
    int step;
    uint64_t index; /* index of the collective in the run */
    int differing;  /* rank that gives another count; -1: none */
    struct unruly_end ends[RANKS];
};

struct coll_seen {
    _Atomic(int32_t) status[RANKS], origin_rank[RANKS], origin_status[RANKS];
    _Atomic(uint32_t) submitted[RANKS], calls[RANKS];
};

struct run {
    struct unruly_plan plan;
    uint64_t windows;
    double stall_ms;
    int stalls; /* stalls in 1000 windows of a rank */
    _Atomic(uint32_t) counter;
    size_t bytes;
    struct unruly_seen *pairs;
    struct coll_seen *colls;
};

/* ---- drawing ----------------------------------------------------------------------- */

static uint64_t count_draw(uint64_t *random, size_t element)
{
    int at = unruly_below(random, 100);
    uint64_t bytes = at < 8    ? 0
                     : at < 40 ? element
                     : at < 75 ? (uint64_t)unruly_below(random, 4096)
                     : at < 85 ? 4096
                     : at < 97 ? (uint64_t)unruly_below(random, 20000)
                               : 100000 + (uint64_t)unruly_below(random, 200000);
    return bytes / element;
}

static void coll_end_draw(uint64_t *random, struct unruly_end *end)
{
    int at = unruly_below(random, 1000);
    if (at < 15)
        end->cancel = UNRULY_CANCEL_AT_ONCE + unruly_below(random, 2);
    else if (at < 30)
        end->deadline_ns = (uint64_t)unruly_between(random, 1e3, 4e6);
}

/* Draw a collective that one rank never submits and the others give up. The collective
 * has a name that is used once: the absent rank would shift the numbers of a shared
 * name. */
static void coll_absent_draw(uint64_t *random, int place, struct drawn *drawn)
{
    int absent = unruly_below(random, RANKS);
    for (int i = 0; i < RANKS; i++)
        drawn->ends[i] = (struct unruly_end){
            .absent = i == absent,
            .deadline_ns = i == absent ? 0 : (uint64_t)unruly_between(random, 1e5, 2e7)};
    snprintf(drawn->item.name, sizeof drawn->item.name, "own%d", place);
}

static void coll_draw(const struct unruly_window *window, uint64_t *random, int place,
                      struct drawn *drawn)
{
    tryst_dtype dtype;
    tryst_reduce_op reduce;
    do {
        dtype = (tryst_dtype)(1 + unruly_below(random, TRYST_DTYPE_U64));
        reduce = (tryst_reduce_op)(1 + unruly_below(random, TRYST_REDUCE_XOR));
    } while (!reference_allows(dtype, reduce));
    *drawn = (struct drawn){
        .item = {.kind = &coll_kinds[unruly_below(random, coll_kinds_count)],
                 .reference = {.dtype = dtype,
                               .reduce = reduce,
                               .size = RANKS,
                               .seed = harness_random(random),
                               .factors = {1.5, 1, 0.3, -2}},
                 .root = unruly_below(random, RANKS),
                 .in_place = unruly_below(random, 2)},
        .step = unruly_below(random, window->steps_count),
        .differing = -1};
    if (drawn->item.kind->source)
        drawn->item.count = count_draw(random, tryst_dtype_bytes(dtype));
    snprintf(drawn->item.name, sizeof drawn->item.name, "c%d",
             unruly_below(random, NAMES));
    for (int i = 0; i < RANKS; i++)
        coll_end_draw(random, &drawn->ends[i]);
    if (drawn->item.kind->source && unruly_below(random, 40) == 0)
        drawn->differing = unruly_below(random, RANKS);
    if (unruly_below(random, 30) == 0)
        coll_absent_draw(random, place, drawn);
}

static void colls_draw(const struct run *run, const struct unruly_window *window,
                       uint64_t number, struct drawn *drawn)
{
    uint64_t random = (run->plan.seed * 1000003 + number) * 0xD1B54A32D192ED03ull | 1;
    for (int i = 0; i < 8; i++)
        harness_random(&random);
    for (int i = 0; i < COLLS; i++) {
        coll_draw(window, &random, i, &drawn[i]);
        drawn[i].index = number * COLLS + (uint64_t)i;
    }
}

/* ---- one rank ---------------------------------------------------------------------- */

/* One end of a pair, or the part of one rank in a collective. */
struct side {
    struct rank_run *self;
    const struct unruly_pair *pair; /* the pair, or NULL if `drawn` is set */
    struct drawn *drawn;
    const struct unruly_end *end;
    struct coll_item item; /* the collective with this rank's own count */
    struct coll_part part;
    bool is_send;
    int step;
    double place;
    uint8_t *data;
    size_t bytes;
    tryst_op *op;
};

enum { SIDES_MAX = 2 * PAIRS + COLLS };

struct rank_run {
    struct harness_rank *rank;
    struct run *run;
    struct unruly_window window;
    struct drawn drawn[COLLS];
    uint64_t random;
    struct side sides[SIDES_MAX];
    struct unruly_actions actions;
    int sides_count;
    tryst_step *steps[STEPS_MAX];
    tryst_op *closes[STEPS_MAX];
    int stopper; /* the pipe of the stopper; -1: none */
};

/* The places in shared memory where a side reports. */
struct report {
    _Atomic(int32_t) *status;
    _Atomic(uint32_t) *submitted, *calls;
};

static struct report side_report(const struct side *side)
{
    struct run *run = side->self->run;
    int rank = side->self->rank->rank, which = side->is_send ? SEND : RECV;
    if (side->drawn) {
        struct coll_seen *seen = &run->colls[side->drawn->index];
        return (struct report){&seen->status[rank], &seen->submitted[rank],
                               &seen->calls[rank]};
    }
    struct unruly_seen *seen = &run->pairs[side->pair->index];
    return (struct report){&seen->status[which], &seen->submitted[which],
                           &seen->calls[which]};
}

static void coll_done(struct side *side, tryst_op *op, tryst_status status)
{
    struct coll_seen *seen = &side->self->run->colls[side->drawn->index];
    int rank = side->self->rank->rank;
    tryst_error error = {.struct_size = sizeof error, .origin_rank = -1};
    if (status != TRYST_OK)
        CHECK_STATUS(tryst_op_error(op, &error), status);
    atomic_store(&seen->origin_rank[rank], error.origin_rank);
    atomic_store(&seen->origin_status[rank], error.origin_status);
    coll_part_check_around(&side->part);
    if (status == TRYST_OK && side->item.kind->source && side->drawn->differing < 0)
        coll_part_check(&side->part);
    coll_part_poison(&side->part);
}

static void pair_done(struct side *side, tryst_status status)
{
    if (!side->is_send && status == TRYST_OK) {
        size_t at = harness_mismatch(side->data, side->bytes, side->pair->index);
        if (at != SIZE_MAX)
            harness_fail(__FILE__, __LINE__, "pair %llu: byte %zu of %zu is wrong",
                         (unsigned long long)side->pair->index, at, side->bytes);
    }
    memset(side->data, SENTINEL, side->bytes);
}

static void on_done(void *arg, tryst_op *op, tryst_status status)
{
    struct side *side = arg;
    struct report report = side_report(side);
    CHECK_STATUS(tryst_op_test(op), status);
    if (side->drawn)
        coll_done(side, op, status);
    else
        pair_done(side, status);
    atomic_store(report.status, status);
    atomic_fetch_add(report.calls, 1);
}

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    struct side *side = arg;
    CHECK_EQ(tensor->count, side->pair->bytes);
    if (side->pair->met == TRYST_E_UNSUPPORTED)
        return TRYST_E_UNSUPPORTED;
    tensor->data = side->data;
    return TRYST_OK;
}

static tryst_status pair_start(struct side *side, tryst_step *step,
                               tryst_op_params *params)
{
    const struct unruly_pair *pair = side->pair;
    tryst_tensor tensor = harness_tensor(side->data, side->bytes);
    bool alloc = !side->is_send && pair->alloc;
    char edge[24];
    if (side->is_send && pair->met == TRYST_E_DEAD)
        params->flags |= TRYST_OP_DEAD;
    if (alloc) {
        params->alloc = on_alloc;
        params->alloc_arg = side;
    }
    snprintf(edge, sizeof edge, "e%d", pair->edge);
    struct harness_key key = harness_key(side->self->rank, pair->src, pair->dst, edge);
    return side->is_send
               ? tryst_send(step, key.text, &tensor, params, &side->op)
               : tryst_recv(step, key.text, alloc ? NULL : &tensor, params, &side->op);
}

static void side_submit(struct side *side)
{
    struct rank_run *self = side->self;
    tryst_step *step = self->steps[side->step];
    int urgency = unruly_below(&self->random, 4);
    int priority = unruly_below(&self->random, 7) - 3;
    tryst_op_params params = {.struct_size = sizeof params,
                              .callback = on_done,
                              .arg = side,
                              .priority = urgency == 1 ? priority : 0,
                              .deadline_ns = side->end->deadline_ns,
                              .flags = urgency == 0   ? TRYST_OP_BACKGROUND
                                       : urgency == 1 ? TRYST_OP_PRIORITY
                                                      : 0};
    tryst_status status = side->drawn ? coll_part_start(&side->part, step, &params)
                                      : pair_start(side, step, &params);
    if (status == TRYST_E_ABORTED && self->window.steps[side->step].aborted)
        return;
    if (status != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s: %s", tryst_status_name(status),
                     tryst_last_error());
    if (side->drawn)
        side->op = side->part.op;
    atomic_store(side_report(side).submitted, 1);
    if (side->end->cancel == UNRULY_CANCEL_AT_ONCE)
        CHECK_STATUS(tryst_op_cancel(side->op), TRYST_OK);
    if (unruly_below(&self->random, 16) == 0)
        CHECK_STATUS(tryst_op_reprioritize(side->op, params.priority - 2), TRYST_OK);
}

/* ---- the actions of a rank in a window --------------------------------------------- */

static struct side *side_new(struct rank_run *self, int step,
                             const struct unruly_end *end)
{
    struct side *side = &self->sides[self->sides_count];
    if (end->absent || self->window.steps[step].manner[self->rank->rank] == UNRULY_SKIPS)
        return NULL;
    *side = (struct side){.self = self,
                          .end = end,
                          .step = step,
                          .place = unruly_place(&self->actions, step)};
    self->sides_count++;
    return side;
}

static void pair_side_add(struct rank_run *self, const struct unruly_pair *pair,
                          bool is_send)
{
    if ((is_send ? pair->src : pair->dst) != self->rank->rank)
        return;
    struct side *side = side_new(self, pair->step, is_send ? &pair->send : &pair->recv);
    if (!side)
        return;
    side->pair = pair;
    side->is_send = is_send;
    side->bytes = pair->bytes + (!is_send && pair->met == TRYST_E_MISMATCH);
    side->data = malloc(side->bytes + 1);
    CHECK(side->data);
    harness_fill(side->data, side->bytes, is_send ? pair->index : ~pair->index);
}

static void coll_side_add(struct rank_run *self, struct drawn *drawn)
{
    int rank = self->rank->rank;
    struct side *side = side_new(self, drawn->step, &drawn->ends[rank]);
    if (!side)
        return;
    side->drawn = drawn;
    side->item = drawn->item;
    side->item.count += drawn->differing == rank;
    coll_part_open(&side->part, &side->item, self->rank, &self->random);
    if (unruly_below(&self->random, 4) == 0)
        coll_part_prepare(&side->part, self->rank->group);
}

static bool is_one_name(const struct side *a, const struct side *b)
{
    if (a->step != b->step || !a->drawn != !b->drawn)
        return false;
    if (a->drawn)
        return strcmp(a->item.name, b->item.name) == 0;
    return a->is_send == b->is_send && a->pair->edge == b->pair->edge &&
           a->pair->src == b->pair->src && a->pair->dst == b->pair->dst;
}

/* Sort the uses of each name into the plan's order, because that order numbers them. */
static void places_order(struct rank_run *self)
{
    for (int i = 0; i < self->sides_count; i++)
        for (int j = i + 1; j < self->sides_count; j++) {
            struct side *a = &self->sides[i], *b = &self->sides[j];
            if (is_one_name(a, b) && a->place > b->place) {
                double place = a->place;
                a->place = b->place;
                b->place = place;
            }
        }
}

static void actions_plan(struct rank_run *self)
{
    unruly_actions_begin(&self->actions);
    self->sides_count = 0;
    for (int i = 0; i < PAIRS; i++) {
        pair_side_add(self, &self->window.pairs[i], true);
        pair_side_add(self, &self->window.pairs[i], false);
    }
    for (int i = 0; i < COLLS; i++)
        coll_side_add(self, &self->drawn[i]);
    places_order(self);
    for (int i = 0; i < self->sides_count; i++)
        unruly_submit_add(&self->actions, self->sides[i].place, i,
                          self->sides[i].end->cancel > UNRULY_CANCEL_AT_ONCE);
    unruly_actions_end(&self->actions, &self->window, self->rank->rank,
                       self->run->stalls);
}

/* Stall the rank: compute, sleep, or stop by the stopper. */
static void stall(struct rank_run *self)
{
    double ms =
        unruly_between(&self->random, self->run->stall_ms / 30, self->run->stall_ms);
    uint32_t us = (uint32_t)(ms * 1000);
    uint64_t until_ns = harness_now_ns() + us * UINT64_C(1000);
    int how = unruly_below(&self->random, 3);
    if (how == 0 && self->stopper >= 0)
        CHECK(write(self->stopper, &us, sizeof us) == sizeof us);
    else if (how == 1)
        usleep(us);
    else
        while (harness_now_ns() < until_ns)
            continue;
}

static void step_close(struct rank_run *self, int step)
{
    CHECK_STATUS(tryst_step_close(self->steps[step], &self->closes[step]), TRYST_OK);
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
        if (self->steps[side->step])
            side_submit(side);
        break;
    case UNRULY_CANCEL:
        if (side->op)
            CHECK_STATUS(tryst_op_cancel(side->op), TRYST_OK);
        break;
    case UNRULY_ABORT:
        CHECK_STATUS(tryst_step_abort(self->steps[i], TRYST_E_IO, "drawn"), TRYST_OK);
        break;
    case UNRULY_CLOSE: step_close(self, i); break;
    case UNRULY_PROGRESS: tryst_progress(self->rank->ctx); break;
    case UNRULY_STALL: stall(self); break;
    }
}

static void step_finish(struct rank_run *self, int step)
{
    for (int i = 0; i < self->sides_count; i++)
        if (self->sides[i].step == step && self->sides[i].op)
            tryst_wait(self->sides[i].op, TRYST_FOREVER);
    step_close(self, step);
}

static void side_finish(struct side *side)
{
    if (side->op) {
        CHECK(tryst_wait(side->op, TRYST_FOREVER) != TRYST_E_FORKED);
        while (!atomic_load(side_report(side).calls))
            tryst_progress(side->self->rank->ctx);
    }
    bool whole = true;
    if (side->op && side->drawn)
        whole = coll_part_is_poisoned(&side->part);
    for (size_t i = 0; side->op && side->pair && i < side->bytes; i++)
        whole &= side->data[i] == SENTINEL;
    if (!whole)
        harness_fail(__FILE__, __LINE__, "memory of %s was written after its completion",
                     side->drawn ? side->item.name : "a pair");
    tryst_op_release(side->op);
    free(side->data);
    if (side->drawn)
        coll_part_close(&side->part);
}

static void window_run(struct rank_run *self, uint64_t number)
{
    unruly_window_draw(&self->run->plan, number, &self->window);
    colls_draw(self->run, &self->window, number, self->drawn);
    actions_plan(self);
    for (int i = 0; i < self->actions.count; i++)
        action_run(self, &self->actions.list[i]);
    int count = self->window.steps_count, first = unruly_below(&self->random, count);
    for (int i = 0; i < count; i++)
        if (self->steps[(first + i) % count])
            step_finish(self, (first + i) % count);
    for (int i = 0; i < count; i++)
        if (self->closes[i]) {
            harness_end(self->closes[i], TRYST_OK);
            self->closes[i] = NULL;
        }
    for (int i = 0; i < self->sides_count; i++)
        side_finish(&self->sides[i]);
}

/* Fork a child that reads microseconds from a pipe and stops this process for that
 * long. */
static int stopper_start(pid_t *pid_p)
{
    int ends[2];
    pid_t parent = getpid();
    uint32_t us;
    CHECK(pipe(ends) == 0);
    *pid_p = child_fork();
    CHECK(*pid_p >= 0);
    if (*pid_p == 0) {
        close(ends[1]);
        while (read(ends[0], &us, sizeof us) == sizeof us) {
            kill(parent, SIGSTOP);
            usleep(us);
            kill(parent, SIGCONT);
        }
        _exit(0);
    }
    close(ends[0]);
    return ends[1];
}

static void random_main(struct harness_rank *rank)
{
    struct run *run = rank->arg;
    struct rank_run *self = calloc(1, sizeof *self);
    pid_t stopper = -1;
    CHECK(self);
    self->rank = rank;
    self->run = run;
    self->random = run->plan.seed ^ ((uint64_t)rank->rank + 1) << 32;
    self->stopper = harness_has_processes() ? stopper_start(&stopper) : -1;
    harness_open(rank);
    unruly_window_open(&run->plan, &self->window);
    unruly_actions_open(&run->plan, SIDES_MAX, &self->random, &self->actions);
    for (uint64_t i = 0; i < run->windows; i++)
        window_run(self, i);
    harness_barrier(rank, &run->counter);
    unruly_window_close(&self->window);
    unruly_actions_close(&self->actions);
    harness_close(rank);
    if (self->stopper >= 0) {
        close(self->stopper);
        waitpid(stopper, NULL, 0);
    }
    free(self);
}

/* ---- all ranks together ------------------------------------------------------------ */

static uint32_t coll_facts(const struct unruly_window *window, const struct drawn *drawn,
                           int rank)
{
    const struct unruly_step *step = &window->steps[drawn->step];
    enum unruly_manner manner = step->manner[rank];
    bool aborts = manner == UNRULY_ABORTS || manner == UNRULY_ABORTS_AND_CLOSES;
    return OUTCOME_PASSED | (drawn->ends[rank].cancel ? OUTCOME_CANCEL : 0) |
           (drawn->ends[rank].deadline_ns ? OUTCOME_DEADLINE : 0) |
           (manner == UNRULY_CLOSES || manner == UNRULY_ABORTS_AND_CLOSES ? OUTCOME_CLOSE
                                                                          : 0) |
           (step->aborted ? OUTCOME_ABORT : 0) | (aborts ? COLL_OUTCOME_ABORTS : 0);
}

static const char *coll_fault(const struct unruly_window *window,
                              const struct drawn *drawn, const struct coll_seen *seen,
                              struct coll_outcome *coll, int *rank_p)
{
    *coll = (struct coll_outcome){.kind = drawn->item.kind->kind,
                                  .size = RANKS,
                                  .root = drawn->item.root,
                                  .differs = drawn->differing >= 0,
                                  .differing = drawn->differing};
    for (int i = 0; i < RANKS; i++) {
        bool submitted = atomic_load(&seen->submitted[i]);
        coll->ends[i] = (struct outcome_end){.facts = coll_facts(window, drawn, i) |
                                                      (submitted ? OUTCOME_SUBMITTED : 0),
                                             .status = atomic_load(&seen->status[i]),
                                             .calls = atomic_load(&seen->calls[i])};
        coll->origin_rank[i] = atomic_load(&seen->origin_rank[i]);
        coll->origin_status[i] = atomic_load(&seen->origin_status[i]);
        if (!submitted && i == drawn->differing)
            coll->differs = false;
    }
    return coll_outcome_fault(coll, rank_p);
}

static void coll_print(const struct drawn *drawn, const struct coll_outcome *coll,
                       int rank, const char *fault)
{
    print_error(
        "collective %llu, %s \"%s\" of %llu %s, root %d, rank %d differs: rank %d: %s\n",
        (unsigned long long)drawn->index, drawn->item.kind->name, drawn->item.name,
        (unsigned long long)drawn->item.count,
        tryst_dtype_name(drawn->item.reference.dtype), drawn->item.root, drawn->differing,
        rank, fault);
    for (int i = 0; i < RANKS; i++)
        print_error("  rank %d: facts 0x%x, %s, %u callbacks, origin %d (%s)\n", i,
                    coll->ends[i].facts,
                    coll->ends[i].status < 0 ? "unseen"
                                             : tryst_status_name(coll->ends[i].status),
                    coll->ends[i].calls, coll->origin_rank[i],
                    tryst_status_name(coll->origin_status[i]));
}

static int seen_check(const struct run *run)
{
    struct unruly_window window;
    struct drawn *drawn = calloc(COLLS, sizeof *drawn);
    struct coll_outcome coll;
    int wrong = 0, good = 0, ended = 0, rank = 0;
    unruly_window_open(&run->plan, &window);
    for (uint64_t number = 0; number < run->windows && wrong < 5; number++) {
        unruly_window_draw(&run->plan, number, &window);
        colls_draw(run, &window, number, drawn);
        for (int i = 0; i < PAIRS && wrong < 5; i++) {
            struct outcome_pair both = unruly_outcome(&window, &window.pairs[i],
                                                      &run->pairs[window.pairs[i].index]);
            const char *fault = outcome_fault(&both);
            wrong += fault != NULL;
            if (fault)
                print_error("%s:\n", fault),
                    unruly_pair_print(2, &window, &window.pairs[i]);
        }
        for (int i = 0; i < COLLS && wrong < 5; i++) {
            const char *fault =
                coll_fault(&window, &drawn[i], &run->colls[drawn[i].index], &coll, &rank);
            for (int j = 0; j < RANKS; j++) {
                ended += coll.ends[j].status >= 0;
                good += coll.ends[j].status == TRYST_OK;
            }
            wrong += fault != NULL;
            if (fault)
                coll_print(&drawn[i], &coll, rank, fault);
        }
    }
    print_message("%d parts of collectives, %d ended well\n", ended, good);
    unruly_window_close(&window);
    free(drawn);
    if (wrong || good * 4 > ended)
        return wrong;
    print_error("too few collectives ended with TRYST_OK: the plan tests too little\n");
    return 1;
}

/* ---- lives ------------------------------------------------------------------------- */

static struct run *run_open(uint64_t seed)
{
    uint64_t ops = harness_setting("TRYST_TEST_OPS", harness_is_sanitized() ? 240 : 1200);
    uint64_t windows = ops / (PAIRS + COLLS) + 1;
    size_t bytes = sizeof(struct run) + windows * (PAIRS * sizeof(struct unruly_seen) +
                                                   COLLS * sizeof(struct coll_seen));
    struct run *run = harness_share(bytes);
    *run = (struct run){.plan = {.seed = seed,
                                 .steps_max = STEPS_MAX,
                                 .window_pairs = PAIRS,
                                 .bytes_max = 200000},
                        .windows = windows,
                        .stall_ms = (double)harness_setting("TRYST_TEST_STALL_MS", 40),
                        .stalls = (int)harness_setting("TRYST_TEST_STALLS", 300),
                        .bytes = bytes,
                        .pairs = (struct unruly_seen *)(run + 1)};
    run->colls = (struct coll_seen *)(run->pairs + windows * PAIRS);
    for (uint64_t i = 0; i < windows * PAIRS; i++)
        unruly_seen_init(&run->pairs[i]);
    for (uint64_t i = 0; i < windows * COLLS; i++)
        for (int rank = 0; rank < RANKS; rank++)
            atomic_init(&run->colls[i].status[rank], OUTCOME_UNSEEN);
    return run;
}

static void life(const char *const *bounds, bool progress_thread)
{
    uint64_t seed = unit_seed();
    struct run *run = run_open(seed);
    char *network = coll_network_write(RANKS, seed);
    const char *config[32] = {"progress_thread", progress_thread ? "1" : "0", "topology",
                              network ? network : ""};
    for (int i = 0; bounds && bounds[i]; i++)
        config[4 + i] = bounds[i];
    struct harness_params params = {
        .size = RANKS,
        .main = random_main,
        .opened = twins_open,
        .closing = twins_close,
        .arg = run,
        .config = config,
        .no_group = true,
        .timeout_s = (unsigned)harness_setting("TRYST_TEST_SECONDS", 40)};
    uint64_t begin_ns = harness_now_ns();
    int failed = harness_run(&params);
    double seconds = (double)(harness_now_ns() - begin_ns) * 1e-9;
    print_message("%.0f operations per second\n",
                  (double)run->windows * (PAIRS + COLLS) / seconds);
    if (!failed)
        failed = seen_check(run);
    if (failed)
        print_error("replay: TRYST_TEST_SEED=%llu\n", (unsigned long long)seed);
    coll_network_remove(network);
    harness_unshare(run, run->bytes);
    assert_int_equal(failed, 0);
}

static void test_wide(void **state)
{
    life(NULL, false);
}

static void test_tight(void **state)
{
    static const char *const tight[] = {"eager_credit",
                                        "4K",
                                        "wants_max",
                                        "1",
                                        "parked_max",
                                        "1",
                                        "early_max",
                                        "1",
                                        "frame_credits",
                                        "2",
                                        "posted_slices",
                                        "1",
                                        "slice_bytes",
                                        "16K",
                                        "scratch_bytes",
                                        "4K",
                                        NULL};
    life(tight, false);
}

static void test_progress_thread(void **state)
{
    life(NULL, true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wide),
                                       cmocka_unit_test(test_tight),
                                       cmocka_unit_test(test_progress_thread)};
    return HARNESS_MAIN(argc, argv, tests);
}
