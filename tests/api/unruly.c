/* SPDX-License-Identifier: Apache-2.0 */
/* See unruly.h. */
#include "unruly.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { EDGES = 6, OWN_EDGE = 1000, PROGRESSES = 8 };

int unruly_below(uint64_t *state, int n)
{
    return (int)(harness_random(state) % (uint64_t)n);
}

double unruly_between(uint64_t *state, double least, double most)
{
    double unit = (double)(harness_random(state) >> 11) / 9007199254740992.0;
    return least * exp(unit * log(most / least));
}

void unruly_window_open(const struct unruly_plan *plan, struct unruly_window *window)
{
    *window = (struct unruly_window){
        .steps = calloc((size_t)plan->steps_max, sizeof(struct unruly_step)),
        .pairs = calloc((size_t)plan->window_pairs, sizeof(struct unruly_pair))};
    CHECK(window->steps && window->pairs);
}

void unruly_window_close(struct unruly_window *window)
{
    free(window->steps);
    free(window->pairs);
}

/* ---- drawing ----------------------------------------------------------------------- */

static enum unruly_manner manner_draw(uint64_t *state)
{
    int at = unruly_below(state, 100);
    return at < 74   ? UNRULY_STAYS
           : at < 90 ? UNRULY_CLOSES
           : at < 93 ? UNRULY_ABORTS
           : at < 95 ? UNRULY_ABORTS_AND_CLOSES
                     : UNRULY_SKIPS;
}

/* Draw how each rank treats a step. The last step of a window is skipped by no rank, so
 * that every rank learns of the skipped steps before it. */
static void step_draw(uint64_t *state, bool last, struct unruly_step *step)
{
    bool calm = unruly_below(state, 3) == 0; /* no rank ends its part of the step early */
    step->aborted = false;
    for (int i = 0; i < UNRULY_RANKS; i++) {
        enum unruly_manner manner = manner_draw(state);
        if (calm || (last && manner == UNRULY_SKIPS))
            manner = UNRULY_STAYS;
        step->manner[i] = manner;
        step->aborted |= manner == UNRULY_ABORTS || manner == UNRULY_ABORTS_AND_CLOSES;
    }
}

static uint64_t bytes_draw(const struct unruly_plan *plan, uint64_t *state)
{
    int at = unruly_below(state, 100);
    uint64_t bytes = at < 10   ? 0
                     : at < 45 ? 8
                     : at < 65 ? 1 + (uint64_t)unruly_below(state, 4096)
                     : at < 70 ? 4096
                     : at < 80 ? 4097 + (uint64_t)unruly_below(state, 2000)
                     : at < 97 ? 100000
                               : 1 + harness_random(state) % plan->bytes_max;
    return bytes <= plan->bytes_max ? bytes : plan->bytes_max;
}

static void end_draw(uint64_t *state, struct unruly_end *end)
{
    int at = unruly_below(state, 100);
    *end = (struct unruly_end){0};
    if (at < 12)
        end->cancel = UNRULY_CANCEL_AT_ONCE + unruly_below(state, 3);
    else if (at < 24)
        end->deadline_ns = (uint64_t)unruly_between(state, 1e3, 4e6);
}

static int32_t met_draw(uint64_t *state, bool *alloc_p)
{
    int at = unruly_below(state, 100);
    *alloc_p = at < 12;
    return at < 2    ? TRYST_E_UNSUPPORTED /* the status that the allocation returns */
           : at < 90 ? TRYST_OK
           : at < 95 ? TRYST_E_DEAD
                     : TRYST_E_MISMATCH;
}

/* Draw a pair of which one end is never submitted, and the other end gives up. The pair
 * has its own key, because an absent end would shift the numbers of a shared key. */
static void absent_draw(uint64_t *state, int place, struct unruly_pair *pair)
{
    bool is_send = unruly_below(state, 2);
    struct unruly_end *away = is_send ? &pair->send : &pair->recv;
    struct unruly_end *left = is_send ? &pair->recv : &pair->send;
    *away = (struct unruly_end){.absent = true};
    *left = (struct unruly_end){.cancel = UNRULY_CANCEL_LATER};
    if (unruly_below(state, 2))
        *left =
            (struct unruly_end){.deadline_ns = (uint64_t)unruly_between(state, 1e3, 4e6)};
    pair->edge = OWN_EDGE + place;
}

void unruly_window_draw(const struct unruly_plan *plan, uint64_t number,
                        struct unruly_window *window)
{
    uint64_t state =
        plan->seed * 0x9E3779B97F4A7C15ull + number * 0xD1B54A32D192ED03ull + 1;
    for (int i = 0; i < 16; i++)
        harness_random(&state);
    int most = plan->steps_max < UNRULY_STEPS ? plan->steps_max : UNRULY_STEPS;
    window->first_id = number * (uint64_t)plan->steps_max + 1;
    window->steps_count =
        unruly_below(&state, 4) ? 1 + unruly_below(&state, most) : plan->steps_max;
    for (int i = 0; i < window->steps_count; i++)
        step_draw(&state, i == window->steps_count - 1, &window->steps[i]);
    for (int i = 0; i < plan->window_pairs; i++) {
        struct unruly_pair *pair = &window->pairs[i];
        *pair = (struct unruly_pair){.src = unruly_below(&state, UNRULY_RANKS),
                                     .dst = unruly_below(&state, UNRULY_RANKS),
                                     .edge = unruly_below(&state, EDGES),
                                     .step = unruly_below(&state, window->steps_count),
                                     .index = number * (uint64_t)plan->window_pairs +
                                              (uint64_t)i,
                                     .bytes = bytes_draw(plan, &state)};
        pair->met = met_draw(&state, &pair->alloc);
        end_draw(&state, &pair->send);
        end_draw(&state, &pair->recv);
        if (unruly_below(&state, 50) == 0)
            absent_draw(&state, i, pair);
    }
}

/* ---- the actions of a rank --------------------------------------------------------- */

void unruly_actions_open(const struct unruly_plan *plan, int submits, uint64_t *random,
                         struct unruly_actions *actions)
{
    int room = 2 * submits + 3 * plan->steps_max + PROGRESSES + 1;
    *actions = (struct unruly_actions){
        .random = random,
        .list = calloc((size_t)room, sizeof(struct unruly_action)),
        .room = room};
    CHECK(actions->list);
}

void unruly_actions_close(struct unruly_actions *actions)
{
    free(actions->list);
}

void unruly_actions_begin(struct unruly_actions *actions)
{
    static const double gaps[] = {0, 0.1, 1, 5}, spreads[] = {0, 1, 4, 20};
    actions->gap = gaps[unruly_below(actions->random, 4)];
    actions->spread = spreads[unruly_below(actions->random, 4)];
    actions->count = 0;
}

static double unit_draw(const struct unruly_actions *actions)
{
    return (double)harness_random(actions->random) / (double)UINT64_MAX;
}

static double opens_at(const struct unruly_actions *actions, int step)
{
    return step * actions->gap;
}

double unruly_place(const struct unruly_actions *actions, int step)
{
    return opens_at(actions, step) + unit_draw(actions) * actions->spread;
}

static void action_add(struct unruly_actions *actions, enum unruly_action_kind kind,
                       double place, int index)
{
    CHECK(actions->count < actions->room);
    actions->list[actions->count++] =
        (struct unruly_action){.place = place, .kind = kind, .index = index};
}

void unruly_submit_add(struct unruly_actions *actions, double place, int index,
                       bool cancels)
{
    action_add(actions, UNRULY_SUBMIT, place, index);
    if (cancels)
        action_add(actions, UNRULY_CANCEL, place + unit_draw(actions) * actions->spread,
                   index);
}

static void step_actions_add(struct unruly_actions *actions, enum unruly_manner manner,
                             int step)
{
    double leaves = unruly_place(actions, step);
    if (manner == UNRULY_SKIPS)
        return;
    action_add(actions, UNRULY_OPEN, opens_at(actions, step), step);
    if (manner == UNRULY_ABORTS || manner == UNRULY_ABORTS_AND_CLOSES)
        action_add(actions, UNRULY_ABORT, leaves, step);
    if (manner == UNRULY_CLOSES || manner == UNRULY_ABORTS_AND_CLOSES)
        action_add(actions, UNRULY_CLOSE, leaves, step);
}

static int by_place(const void *a, const void *b)
{
    const struct unruly_action *x = a, *y = b;
    if (x->place != y->place)
        return x->place > y->place ? 1 : -1;
    if (x->kind != y->kind)
        return x->kind > y->kind ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

void unruly_actions_end(struct unruly_actions *actions,
                        const struct unruly_window *window, int rank, int stalls)
{
    double end = opens_at(actions, window->steps_count) + actions->spread;
    for (int i = 0; i < window->steps_count; i++)
        step_actions_add(actions, window->steps[i].manner[rank], i);
    for (int i = 0; i < PROGRESSES; i++)
        action_add(actions, UNRULY_PROGRESS, end * unit_draw(actions), 0);
    if (unruly_below(actions->random, 1000) < stalls)
        action_add(actions, UNRULY_STALL, end * unit_draw(actions), 0);
    qsort(actions->list, (size_t)actions->count, sizeof actions->list[0], by_place);
}

/* ---- facts ------------------------------------------------------------------------- */

uint32_t unruly_facts(const struct unruly_window *window, const struct unruly_pair *pair,
                      bool is_send)
{
    const struct unruly_end *end = is_send ? &pair->send : &pair->recv;
    const struct unruly_step *step = &window->steps[pair->step];
    enum unruly_manner manner = step->manner[is_send ? pair->src : pair->dst];
    uint32_t facts = OUTCOME_PASSED;
    if (end->cancel)
        facts |= OUTCOME_CANCEL;
    if (end->deadline_ns)
        facts |= OUTCOME_DEADLINE;
    if (manner == UNRULY_CLOSES)
        facts |= OUTCOME_CLOSE;
    if (step->aborted)
        facts |= OUTCOME_ABORT;
    return facts;
}

void unruly_seen_init(struct unruly_seen *seen)
{
    for (int which = UNRULY_SEND; which <= UNRULY_RECV; which++)
        atomic_init(&seen->status[which], OUTCOME_UNSEEN);
}

static struct outcome_end end_outcome(const struct unruly_window *window,
                                      const struct unruly_pair *pair,
                                      const struct unruly_seen *seen, int which)
{
    struct outcome_end end = {.facts = unruly_facts(window, pair, which == UNRULY_SEND),
                              .status = atomic_load(&seen->status[which]),
                              .calls = atomic_load(&seen->calls[which])};
    if (atomic_load(&seen->submitted[which]))
        end.facts |= OUTCOME_SUBMITTED;
    return end;
}

struct outcome_pair unruly_outcome(const struct unruly_window *window,
                                   const struct unruly_pair *pair,
                                   const struct unruly_seen *seen)
{
    return (struct outcome_pair){.send = end_outcome(window, pair, seen, UNRULY_SEND),
                                 .recv = end_outcome(window, pair, seen, UNRULY_RECV),
                                 .met = pair->met,
                                 .refused = pair->met == TRYST_E_UNSUPPORTED};
}

static void end_print(int fd, const struct unruly_window *window,
                      const struct unruly_pair *pair, bool is_send)
{
    static const char *const manners[] = {"stays", "closes early", "aborts",
                                          "aborts and closes", "skips it"};
    static const char *const cancels[] = {"", ", cancelled at once", ", cancelled later",
                                          ", cancelled from a callback"};
    const struct unruly_end *end = is_send ? &pair->send : &pair->recv;
    int rank = is_send ? pair->src : pair->dst;
    dprintf(fd, "  %s by rank %d, which %s%s%s", is_send ? "send" : "recv", rank,
            manners[window->steps[pair->step].manner[rank]], cancels[end->cancel],
            end->absent ? ", absent" : "");
    if (end->deadline_ns)
        dprintf(fd, ", deadline %llu ns", (unsigned long long)end->deadline_ns);
    dprintf(fd, "\n");
}

void unruly_pair_print(int fd, const struct unruly_window *window,
                       const struct unruly_pair *pair)
{
    dprintf(fd, "pair %llu: step %llu%s, key e%d, %llu bytes, meets as %s%s\n",
            (unsigned long long)pair->index,
            (unsigned long long)window->first_id + (unsigned)pair->step,
            window->steps[pair->step].aborted ? " (aborted)" : "", pair->edge,
            (unsigned long long)pair->bytes, tryst_status_name(pair->met),
            pair->alloc ? ", receive by alloc" : "");
    end_print(fd, window, pair, true);
    end_print(fd, window, pair, false);
}
