/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of a recorded period.
 *
 * Idea: each thread is a chain of actions, which marks cut. An operation comes after the
 * action before its submission, and the action after its first use comes after it. An
 * operation that a callback submitted comes after the operation of the callback.
 *
 * Time between two marks that is shorter than an action joins the next one. So operations
 * that are submitted together come after one action, unless one was used in between.
 * Where a thread names its computation, an action ends.
 *
 * Invariant: a node comes only after nodes with smaller numbers.
 */
#include "period_graph.h"

#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"

/* Less computation than this between two marks makes no action of its own: most of it is
 * the library's calls. */
#define ACTION_LEAST_S 2e-6

/* The actions of one thread so far. */
struct chain {
    bool runs;      /* the thread has a mark in this period */
    uint32_t last;  /* node of its last action; PERIOD_NONE: none */
    uint32_t named; /* the name of its computation now; PERIOD_NONE: none */
    uint32_t actions;
    uint32_t used; /* operations used since then: a list by `next_used` */
    uint64_t from_at, from_blocked; /* end of the last action */
};

struct graph {
    const struct period *period;
    const char *const *names;
    struct tryst_profile *profile;
    double tick_s;
    struct chain chains[PERIOD_THREADS_MAX];
    uint32_t *node_of;   /* [operations] */
    uint32_t *next_used; /* [operations] */
    uint32_t *uses;      /* [names]: operations of the name so far */
    uint32_t *runs;      /* [names]: actions of the name so far */
};

/* ---- actions ----------------------------------------------------------------------- */

static struct chain *chain_of(struct graph *graph, uint32_t thread)
{
    struct chain *chain = &graph->chains[thread];
    if (!chain->runs)
        *chain = (struct chain){.runs = true,
                                .last = PERIOD_NONE,
                                .named = graph->period->named_begin[thread],
                                .used = PERIOD_NONE,
                                .from_at = graph->period->begin_at,
                                .from_blocked = graph->period->blocked_begin[thread]};
    return chain;
}

/* Return the computation of the chain since its last action. */
static double chain_seconds(const struct graph *graph, const struct chain *chain,
                            uint64_t at, uint64_t blocked)
{
    uint64_t time = at - chain->from_at, waited = blocked - chain->from_blocked;
    return time > waited ? (double)(time - waited) * graph->tick_s : 0;
}

/* Write the name of the chain's next action. */
static void action_name(struct graph *graph, uint32_t thread, char *text, size_t bytes)
{
    struct chain *chain = chain_of(graph, thread);
    uint32_t number = chain->actions++, run;
    if (chain->named == PERIOD_NONE) {
        snprintf(text, bytes, "thread %u;action %u", thread, number);
        return;
    }
    const char *name = graph->names[chain->named];
    run = ++graph->runs[chain->named];
    snprintf(text, bytes, run > 1 ? "thread %u;%s;%u" : "thread %u;%s", thread, name,
             run);
}

/* Add the action that ends now. False: no memory. */
static bool action_add(struct graph *graph, uint32_t thread, uint64_t at,
                       uint64_t blocked)
{
    char name[TRYST_PROFILE_ACTION_MAX + 40];
    struct chain *chain = chain_of(graph, thread);
    struct tryst_profile *profile = graph->profile;
    uint32_t index = profile->nodes_count;
    action_name(graph, thread, name, sizeof name);
    struct profile_node *node = profile_node_add(profile, name);
    if (!node)
        return false;
    node->seconds = chain_seconds(graph, chain, at, blocked);
    if (chain->last != PERIOD_NONE && !profile_after_add(profile, index, chain->last))
        return false;
    for (uint32_t op = chain->used; op != PERIOD_NONE; op = graph->next_used[op])
        if (!profile_after_add(profile, index, graph->node_of[op]))
            return false;
    chain->last = index;
    chain->used = PERIOD_NONE;
    chain->from_at = at;
    chain->from_blocked = blocked;
    return true;
}

static bool is_long(const struct graph *graph, const struct chain *chain, uint64_t at,
                    uint64_t blocked)
{
    return chain_seconds(graph, chain, at, blocked) >= ACTION_LEAST_S;
}

/* ---- operations -------------------------------------------------------------------- */

/* Add the node of an operation; the second use of a name is "name;2". A name has no ';'
 * before a digit (recorder.h). */
static bool op_add(struct graph *graph, uint32_t index, uint32_t after)
{
    const struct period *period = graph->period;
    const struct period_op *op = &period->ops[index];
    struct tryst_profile *profile = graph->profile;
    const char *name = graph->names[op->name];
    uint32_t use = ++graph->uses[op->name];
    size_t bytes = strlen(name) + 16;
    char *text = mem_alloc(bytes);
    if (!text)
        return false;
    snprintf(text, bytes, use > 1 ? "%s;%u" : "%s", name, use);
    graph->node_of[index] = profile->nodes_count;
    struct profile_node *node = profile_node_add(profile, text);
    mem_free(text);
    if (!node)
        return false;
    node->is_operation = true;
    node->bytes = op->bytes;
    for (int i = 0; i < PROFILE_TIMES; i++)
        if (op->at[i] >= period->begin_at)
            node->times_s[i] = (double)(op->at[i] - period->begin_at) * graph->tick_s;
    return after == PERIOD_NONE ||
           profile_after_add(profile, graph->node_of[index], after);
}

static bool submission_add(struct graph *graph, const struct period_mark *mark)
{
    uint32_t cause = graph->period->ops[mark->what].cause;
    if (mark->thread == PERIOD_NO_THREAD)
        return op_add(graph, mark->what,
                      cause == PERIOD_NONE ? PERIOD_NONE : graph->node_of[cause]);
    struct chain *chain = chain_of(graph, mark->thread);
    if ((chain->used != PERIOD_NONE || is_long(graph, chain, mark->at, mark->blocked)) &&
        !action_add(graph, mark->thread, mark->at, mark->blocked))
        return false;
    return op_add(graph, mark->what, chain->last);
}

static bool use_add(struct graph *graph, const struct period_mark *mark)
{
    struct chain *chain = chain_of(graph, mark->thread);
    if (is_long(graph, chain, mark->at, mark->blocked) &&
        !action_add(graph, mark->thread, mark->at, mark->blocked))
        return false;
    graph->next_used[mark->what] = chain->used;
    chain->used = mark->what;
    return true;
}

/* End the action before the name; a shorter time counts for the action that begins. */
static bool name_set(struct graph *graph, const struct period_mark *mark)
{
    struct chain *chain = chain_of(graph, mark->thread);
    if (is_long(graph, chain, mark->at, mark->blocked) &&
        !action_add(graph, mark->thread, mark->at, mark->blocked))
        return false;
    chain->named = mark->what;
    return true;
}

/* ---- the whole --------------------------------------------------------------------- */

static bool graph_open(struct graph *graph, uint32_t names_count)
{
    const struct period *period = graph->period;
    double seconds = (double)(period->end_ns - period->begin_ns) * 1e-9;
    uint64_t ticks = period->end_at - period->begin_at;
    graph->tick_s = ticks ? seconds / (double)ticks : 0;
    graph->profile = profile_open();
    graph->node_of = mem_zalloc_array(period->ops_count + 1u, sizeof *graph->node_of);
    graph->next_used = mem_zalloc_array(period->ops_count + 1u, sizeof *graph->next_used);
    graph->uses = mem_zalloc_array(names_count + 1u, sizeof *graph->uses);
    graph->runs = mem_zalloc_array(names_count + 1u, sizeof *graph->runs);
    return graph->profile && graph->node_of && graph->next_used && graph->uses &&
           graph->runs;
}

static bool marks_add(struct graph *graph)
{
    const struct period *period = graph->period;
    static bool (*const add[])(struct graph *, const struct period_mark *) = {
        [PERIOD_SUBMITTED] = submission_add,
        [PERIOD_USED] = use_add,
        [PERIOD_NAMED] = name_set};
    for (uint32_t i = 0; i < period->marks_count; i++) {
        const struct period_mark *mark = &period->marks[i];
        if (mark->kind != PERIOD_DROPPED && !add[mark->kind](graph, mark))
            return false;
    }
    return true;
}

/* Add the last action of each thread, which the end of the period cuts. */
static bool ends_add(struct graph *graph)
{
    const struct period *period = graph->period;
    for (uint32_t t = 0; t < PERIOD_THREADS_MAX; t++) {
        const struct chain *chain = &graph->chains[t];
        uint64_t blocked = period->blocked_end[t];
        if (chain->runs &&
            (chain->used != PERIOD_NONE ||
             is_long(graph, chain, period->end_at, blocked)) &&
            !action_add(graph, t, period->end_at, blocked))
            return false;
    }
    return true;
}

struct tryst_profile *period_profile(const struct period *period,
                                     const char *const *names, uint32_t names_count)
{
    struct graph graph = {.period = period, .names = names};
    bool made = graph_open(&graph, names_count) && marks_add(&graph) && ends_add(&graph);
    mem_free(graph.node_of);
    mem_free(graph.next_used);
    mem_free(graph.uses);
    mem_free(graph.runs);
    if (made)
        return graph.profile;
    profile_close(graph.profile);
    return NULL;
}
