/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/hash_table.h"
#include "core/memory/list.h"
#include "core/os/ticks.h"
#include "core/text/hash.h"
#include "period_graph.h"

/* The periods that are kept, and the present one. */
enum { PERIODS = 4 };
/* The most names: a program that draws a new one for each operation has no steady
 * state. */
enum { NAMES_MAX = 1 << 16 };

struct thread {
    uint64_t number; /* of thread_number */
    uint64_t blocked;
    uint64_t wait_since; /* 0: outside of waits */
    uint32_t named;      /* the name of its computation; PERIOD_NONE: none */
};

struct name {
    struct hash_node by_text;
    uint32_t index;
    char text[];
};

/* How often a name was used in a period. */
struct uses {
    uint64_t serial; /* of the period */
    uint32_t count;
};

struct recorder {
    const struct clock *clock;     /* NULL: ticks */
    uint64_t id;                   /* of all recorders of the process */
    pthread_mutex_t lock;          /* guards all below */
    uint64_t serial;               /* of the present period; 0: none */
    bool runs;                     /* a period has begun since the last reset */
    struct recorder_period newest; /* the number of the present period */
    uint64_t begins;               /* of periods by the program, since the last reset */
    uint64_t count;                /* of periods since the last reset */
    struct origin origin;          /* of the profiles */
    void (*ended)(void *arg, uint64_t count); /* at the end of a period; NULL: none */
    void *ended_arg;
    bool has_too_many_threads;
    uint32_t threads_count;
    struct thread threads[PERIOD_THREADS_MAX];
    struct period periods[PERIODS];
    struct hash_table by_text;
    const char **names;
    struct uses *uses; /* by name */
    size_t names_room, uses_room;
    uint32_t names_count;
};

/* ---- open and close ---------------------------------------------------------------- */

static uint64_t machine_now_ns(void *arg)
{
    (void)arg;
    return clock_monotonic_ns();
}

struct recorder *recorder_open(const struct clock *clock)
{
    static const struct clock machine = {.now_ns = machine_now_ns};
    static _Atomic(uint64_t) ids;
    struct recorder *recorder = mem_zalloc(sizeof *recorder);
    if (!recorder)
        return NULL;
    recorder->clock = clock || ticks_are_steady() ? clock : &machine;
    /* relaxed: only the uniqueness counts. */
    recorder->id = atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
    pthread_mutex_init(&recorder->lock, NULL);
    hash_table_init(&recorder->by_text);
    return recorder;
}

void recorder_close(struct recorder *recorder)
{
    struct hash_node *node;
    if (!recorder)
        return;
    while ((node = hash_table_next(&recorder->by_text, NULL)) != NULL) {
        hash_table_remove(&recorder->by_text, node);
        mem_free(container_of(node, struct name, by_text));
    }
    hash_table_close(&recorder->by_text);
    for (int i = 0; i < PERIODS; i++)
        period_close(&recorder->periods[i]);
    pthread_mutex_destroy(&recorder->lock);
    mem_free(recorder->names);
    mem_free(recorder->uses);
    mem_free(recorder);
}

void recorder_reset(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    for (int i = 0; i < PERIODS; i++)
        recorder->periods[i].is_whole = false;
    recorder->runs = false;
    recorder->begins = recorder->count = 0;
    pthread_mutex_unlock(&recorder->lock);
}

void recorder_origin_set(struct recorder *recorder, const struct origin *origin)
{
    pthread_mutex_lock(&recorder->lock);
    recorder->origin = *origin;
    pthread_mutex_unlock(&recorder->lock);
}

void recorder_watch(struct recorder *recorder, void (*fn)(void *arg, uint64_t count),
                    void *arg)
{
    pthread_mutex_lock(&recorder->lock);
    recorder->ended = fn;
    recorder->ended_arg = arg;
    pthread_mutex_unlock(&recorder->lock);
}

/* ---- time and threads -------------------------------------------------------------- */

uint64_t recorder_now(const struct recorder *recorder)
{
    return recorder->clock ? clock_now_ns(recorder->clock) : ticks_read();
}

/* Return a number that no other thread of the process has. */
static uint64_t thread_number(void)
{
    static _Thread_local uint64_t number __attribute__((tls_model("initial-exec")));
    static _Atomic(uint64_t) last;
    /* relaxed: only the uniqueness counts. */
    if (!number)
        number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return number;
}

static uint32_t thread_find(struct recorder *recorder)
{
    uint64_t number = thread_number();
    for (uint32_t i = 0; i < recorder->threads_count; i++)
        if (recorder->threads[i].number == number)
            return i;
    if (recorder->threads_count == PERIOD_THREADS_MAX) {
        recorder->has_too_many_threads = true;
        return PERIOD_NONE;
    }
    recorder->threads[recorder->threads_count] =
        (struct thread){.number = number, .named = PERIOD_NONE};
    return recorder->threads_count++;
}

/* Return the index of the calling thread, found in its own memory mostly; PERIOD_NONE:
 * there are too many. */
static uint32_t thread_index(struct recorder *recorder)
{
    static _Thread_local struct {
        uint64_t recorder;
        uint32_t index;
    } mine __attribute__((tls_model("initial-exec")));
    if (mine.recorder != recorder->id) {
        mine.index = thread_find(recorder);
        mine.recorder = recorder->id;
    }
    return mine.index;
}

/* Return the thread's time inside waits until now. */
static uint64_t thread_blocked(const struct thread *thread, uint64_t now)
{
    return thread->blocked + (thread->wait_since ? now - thread->wait_since : 0);
}

void recorder_wait_begin(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    uint32_t index = thread_index(recorder);
    if (index != PERIOD_NONE)
        recorder->threads[index].wait_since = recorder_now(recorder);
    pthread_mutex_unlock(&recorder->lock);
}

void recorder_wait_end(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    uint32_t index = thread_index(recorder);
    if (index != PERIOD_NONE) {
        struct thread *thread = &recorder->threads[index];
        thread->blocked = thread_blocked(thread, recorder_now(recorder));
        thread->wait_since = 0;
    }
    pthread_mutex_unlock(&recorder->lock);
}

/* ---- names ------------------------------------------------------------------------- */

static struct name *name_find(struct recorder *recorder, const char *text, uint64_t hash)
{
    hash_table_for_each (&recorder->by_text, hash, node) {
        struct name *name = container_of(node, struct name, by_text);
        if (strcmp(name->text, text) == 0)
            return name;
    }
    return NULL;
}

static uint32_t name_add(struct recorder *recorder, const char *text, uint64_t hash)
{
    size_t bytes = strlen(text) + 1;
    if (recorder->names_count == NAMES_MAX ||
        !mem_reserve(&recorder->names, &recorder->names_room,
                     (size_t)recorder->names_count + 1, sizeof *recorder->names) ||
        !mem_reserve(&recorder->uses, &recorder->uses_room,
                     (size_t)recorder->names_count + 1, sizeof *recorder->uses))
        return PERIOD_NONE;
    struct name *name = mem_alloc(sizeof *name + bytes);
    if (!name)
        return PERIOD_NONE;
    memcpy(name->text, text, bytes);
    name->index = recorder->names_count++;
    recorder->names[name->index] = name->text;
    recorder->uses[name->index] = (struct uses){0};
    hash_table_add(&recorder->by_text, &name->by_text, hash);
    return name->index;
}

static uint32_t name_index(struct recorder *recorder, const char *text)
{
    uint64_t hash = hash_bytes(text, strlen(text));
    const struct name *name = name_find(recorder, text, hash);
    return name ? name->index : name_add(recorder, text, hash);
}

uint32_t recorder_name(struct recorder *recorder, const char *text)
{
    pthread_mutex_lock(&recorder->lock);
    uint32_t index = name_index(recorder, text);
    pthread_mutex_unlock(&recorder->lock);
    return index;
}

/* ---- periods ----------------------------------------------------------------------- */

void recorder_period_begin(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    recorder->begins++;
    pthread_mutex_unlock(&recorder->lock);
}

/* Return the number of the period of a submission in `step`. */
static struct recorder_period period_number(const struct recorder *recorder,
                                            uint64_t step)
{
    return (struct recorder_period){.begins = recorder->begins,
                                    .step = recorder->begins ? 0 : step};
}

static struct period *present(struct recorder *recorder)
{
    return &recorder->periods[recorder->serial % PERIODS];
}

/* End the present period, and begin the next one. */
static void period_cut(struct recorder *recorder, uint64_t now)
{
    struct period *ended = present(recorder);
    uint64_t ns = recorder->clock ? now : clock_monotonic_ns();
    ended->end_at = now;
    ended->end_ns = ns;
    ended->is_whole &= !recorder->has_too_many_threads;
    recorder->serial++;
    recorder->count++;
    struct period *next = present(recorder);
    period_begin(next, recorder->serial, now, ns);
    for (uint32_t i = 0; i < recorder->threads_count; i++) {
        const struct thread *thread = &recorder->threads[i];
        ended->blocked_end[i] = next->blocked_begin[i] = thread_blocked(thread, now);
        next->named_begin[i] = thread->named;
    }
    if (recorder->ended && recorder->count > 1) /* the first cut ends no period */
        recorder->ended(recorder->ended_arg, recorder->count - 1);
}

/* Operations are numbered by period and index. */
static uint64_t op_number(const struct period *period, uint32_t index)
{
    return period->serial * PERIOD_OPS_MAX + index;
}

/* Return the period of an operation, if it is kept, and its index; else NULL. */
static struct period *op_find(struct recorder *recorder, uint64_t op, uint32_t *index_p)
{
    uint64_t serial = op / PERIOD_OPS_MAX;
    struct period *period = &recorder->periods[serial % PERIODS];
    *index_p = (uint32_t)(op % PERIOD_OPS_MAX);
    return op && period->serial == serial && period->is_whole ? period : NULL;
}

/* Return the index of the operation if it is of the present period. */
static uint32_t cause_index(struct recorder *recorder, uint64_t op)
{
    uint32_t index;
    return op_find(recorder, op, &index) == present(recorder) ? index : PERIOD_NONE;
}

static uint32_t mark(struct recorder *recorder, enum period_mark_kind kind, uint64_t now,
                     uint32_t thread, uint32_t what)
{
    bool known = thread != PERIOD_NONE;
    return period_mark_add(
        present(recorder),
        &(struct period_mark){
            .at = now,
            .blocked = known ? thread_blocked(&recorder->threads[thread], now) : 0,
            .what = what,
            .thread = known ? (uint16_t)thread : PERIOD_NO_THREAD,
            .kind = (uint16_t)kind});
}

/* ---- operations -------------------------------------------------------------------- */

/* Count a use of the name in the present period. */
static uint32_t use_count(struct recorder *recorder, uint32_t name)
{
    if (name == PERIOD_NONE)
        return 0;
    struct uses *uses = &recorder->uses[name];
    if (uses->serial != recorder->serial)
        *uses = (struct uses){.serial = recorder->serial};
    return ++uses->count;
}

static struct recorder_submitted submit(struct recorder *recorder,
                                        const struct recorder_submission *submission)
{
    uint64_t now = recorder_now(recorder);
    uint32_t thread = submission->by_callback ? PERIOD_NONE : thread_index(recorder);
    struct recorder_period number = period_number(recorder, submission->step);
    if (!recorder->runs || recorder_period_is_newer(number, recorder->newest)) {
        period_cut(recorder, now);
        recorder->runs = true;
        recorder->newest = number;
    }
    struct period *period = present(recorder);
    if (submission->name == PERIOD_NONE)
        period->is_whole = false;
    struct period_op op = {.name = submission->name,
                           .thread = thread,
                           .cause = cause_index(recorder, submission->cause),
                           .callback_mark = PERIOD_NONE,
                           .step = submission->step,
                           .bytes = submission->bytes,
                           .at[PROFILE_READY] = now};
    uint32_t index = period_op_add(period, &op);
    if (index != PERIOD_NONE)
        mark(recorder, PERIOD_SUBMITTED, now, thread, index);
    return (struct recorder_submitted){
        .op = index == PERIOD_NONE ? 0 : op_number(period, index),
        .use = use_count(recorder, submission->name),
        .period = number};
}

struct recorder_submitted recorder_submit(struct recorder *recorder,
                                          const struct recorder_submission *submission)
{
    pthread_mutex_lock(&recorder->lock);
    struct recorder_submitted submitted = submit(recorder, submission);
    pthread_mutex_unlock(&recorder->lock);
    return submitted;
}

void recorder_done(struct recorder *recorder, uint64_t op, uint64_t matched_at,
                   uint64_t first_slice_at)
{
    uint32_t index;
    pthread_mutex_lock(&recorder->lock);
    struct period *period = op_find(recorder, op, &index);
    if (period) {
        uint64_t *at = period->ops[index].at;
        at[PROFILE_MATCHED] = matched_at;
        at[PROFILE_FIRST_SLICE] = first_slice_at;
        at[PROFILE_DONE] = recorder_now(recorder);
    }
    pthread_mutex_unlock(&recorder->lock);
}

/* Record the first use, by a callback for the thread that submitted the operation, or by
 * the calling thread. A use in a later period has no mark: that period's computation does
 * not depend on its own operations there. */
static void use(struct recorder *recorder, struct period *period, uint32_t index,
                bool by_callback)
{
    struct period_op *op = &period->ops[index];
    uint32_t thread = by_callback ? op->thread : thread_index(recorder), at = PERIOD_NONE;
    op->at[PROFILE_FIRST_USE] = recorder_now(recorder);
    if (period == present(recorder) && thread != PERIOD_NONE)
        at = mark(recorder, PERIOD_USED, op->at[PROFILE_FIRST_USE], thread, index);
    op->callback_mark = by_callback ? at : PERIOD_NONE;
}

/* Drop the use by the callback of an operation that a thread waits for: the callback took
 * note of the end alone. */
static void callback_use_drop(struct period *period, uint32_t index)
{
    struct period_op *op = &period->ops[index];
    if (op->callback_mark == PERIOD_NONE)
        return;
    period->marks[op->callback_mark].kind = PERIOD_DROPPED;
    op->callback_mark = PERIOD_NONE;
    op->at[PROFILE_FIRST_USE] = 0;
}

void recorder_use(struct recorder *recorder, uint64_t op, bool by_callback)
{
    uint32_t index;
    pthread_mutex_lock(&recorder->lock);
    struct period *period = op_find(recorder, op, &index);
    if (period && !by_callback)
        callback_use_drop(period, index);
    if (period && !period->ops[index].at[PROFILE_FIRST_USE])
        use(recorder, period, index, by_callback);
    pthread_mutex_unlock(&recorder->lock);
}

void recorder_use_step(struct recorder *recorder, uint64_t step, bool by_callback)
{
    pthread_mutex_lock(&recorder->lock);
    struct period *period = present(recorder);
    for (uint32_t i = 0; i < period->ops_count; i++)
        if (period->ops[i].step == step && !period->ops[i].at[PROFILE_FIRST_USE])
            use(recorder, period, i, by_callback);
    pthread_mutex_unlock(&recorder->lock);
}

/* ---- names of the computation ------------------------------------------------------ */

void recorder_action(struct recorder *recorder, const char *text)
{
    pthread_mutex_lock(&recorder->lock);
    uint32_t index = thread_index(recorder);
    uint32_t named = text ? name_index(recorder, text) : PERIOD_NONE;
    if (index != PERIOD_NONE && recorder->threads[index].named != named) {
        recorder->threads[index].named = named;
        mark(recorder, PERIOD_NAMED, recorder_now(recorder), index, named);
    }
    pthread_mutex_unlock(&recorder->lock);
}

/* ---- the profile ------------------------------------------------------------------- */

static bool is_kept(const struct recorder *recorder, const struct period *period)
{
    return period->serial && period->is_whole && period->serial < recorder->serial &&
           recorder->serial - period->serial < PERIODS;
}

/* Return the number of kept periods that are like this one and are not longer; `like_p`
 * is the number of those that are like it. */
static int period_rank(const struct recorder *recorder, const struct period *period,
                       int *like_p)
{
    int shorter = 0;
    *like_p = 0;
    for (int i = 0; i < PERIODS; i++) {
        const struct period *other = &recorder->periods[i];
        if (!is_kept(recorder, other) || !period_is_like(period, other))
            continue;
        ++*like_p;
        uint64_t time = period->end_ns - period->begin_ns,
                 others = other->end_ns - other->begin_ns;
        shorter += others < time || (others == time && other->serial < period->serial);
    }
    return shorter;
}

/* Return the median of the periods that are alike; of several kinds that which occurs
 * most, or last. NULL: no period is kept. */
static const struct period *period_choose(const struct recorder *recorder)
{
    const struct period *chosen = NULL;
    int most = 0;
    for (int i = 0; i < PERIODS; i++) {
        const struct period *period = &recorder->periods[i];
        int like, shorter;
        if (!is_kept(recorder, period))
            continue;
        shorter = period_rank(recorder, period, &like);
        if (shorter != (like - 1) / 2 || like < most ||
            (like == most && chosen && chosen->serial > period->serial))
            continue;
        chosen = period;
        most = like;
    }
    return chosen;
}

static tryst_status no_period(const struct recorder *recorder, struct err *err)
{
    if (recorder->has_too_many_threads)
        return err_set(err, TRYST_E_INVALID,
                       "more than %d threads wait or submit collectives",
                       PERIOD_THREADS_MAX);
    return err_set(err, TRYST_E_INVALID,
                   "no whole step was recorded: at least two steps must have "
                   "collectives, at most %d each, and memory must suffice; a program "
                   "that trains in one tryst_step must call tryst_period_begin",
                   PERIOD_OPS_MAX);
}

tryst_status recorder_profile(struct recorder *recorder, struct err *err,
                              struct tryst_profile **profile_p)
{
    tryst_status status = TRYST_OK;
    pthread_mutex_lock(&recorder->lock);
    const struct period *period = period_choose(recorder);
    struct tryst_profile *profile =
        period ? period_profile(period, recorder->names, recorder->names_count) : NULL;
    if (!period)
        status = no_period(recorder, err);
    else if (!profile)
        status = err_set(err, TRYST_E_NOMEM, "out of memory");
    else
        profile->origin = recorder->origin;
    pthread_mutex_unlock(&recorder->lock);
    if (status == TRYST_OK)
        *profile_p = profile;
    return status;
}

/* Return the period that ended `back` periods ago, 1 on; NULL: it is not whole. */
static const struct period *period_before(const struct recorder *recorder, uint64_t back)
{
    uint64_t serial = recorder->serial - back;
    const struct period *period = &recorder->periods[serial % PERIODS];
    return recorder->count > back && period->serial == serial && period->is_whole ? period
                                                                                  : NULL;
}

struct tryst_profile *recorder_profile_last(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    const struct period *last = period_before(recorder, 1);
    struct tryst_profile *profile =
        last ? period_profile(last, recorder->names, recorder->names_count) : NULL;
    pthread_mutex_unlock(&recorder->lock);
    return profile;
}

bool recorder_is_steady(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    const struct period *last = period_before(recorder, 1),
                        *before = period_before(recorder, 2);
    bool steady = last && before && period_is_like(last, before);
    pthread_mutex_unlock(&recorder->lock);
    return steady;
}
