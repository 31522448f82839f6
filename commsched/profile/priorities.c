/* SPDX-License-Identifier: Apache-2.0 */
#include "priorities.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "profile.h"

/* The head of a vector: the digest of the names and its complement, of which the maxima
 * are complements if and only if all ranks have one digest; and the place of the period
 * that has begun. */
enum { DIGEST, DIGEST_NOT, BEGUN, HEAD };

/* An operation of the draft, and its place in the vector behind the head. */
struct drafted {
    const char *text; /* the name of its node */
    uint32_t node;
};

struct draft {
    struct tryst_profile *profile; /* NULL: the period was not whole */
    struct drafted *ops;
    uint64_t *vector; /* [HEAD + count] */
    uint32_t count;
};

/* The uses of a name in the table: priorities[first] is that of the first use. */
struct entry {
    uint32_t first, uses;
};

struct table {
    uint64_t from; /* the place of the period in which it comes into force */
    uint32_t names_count;
    struct entry *names; /* by number of the recorder */
    int32_t *priorities;
};

struct priorities {
    pthread_mutex_t lock;
    uint64_t count; /* the place of the newest period; 0: none yet */
    struct recorder_period newest;
    uint32_t drafts; /* under way */
    struct draft *arrived;
    struct table *next, *now;
};

/* ---- drafts ------------------------------------------------------------------------ */

static int drafted_compare(const void *one, const void *other)
{
    return strcmp(((const struct drafted *)one)->text,
                  ((const struct drafted *)other)->text);
}

/* True if the operation is one of the subgroup, or of the group for "". */
static bool is_of(const struct profile_node *node, const char *suffix)
{
    const char *subgroup = strstr(node->name, ";subgroup ");
    size_t bytes = strlen(suffix);
    if (!node->is_operation || !subgroup || !bytes)
        return node->is_operation && !subgroup && !bytes;
    return strncmp(subgroup, suffix, bytes) == 0 &&
           (!subgroup[bytes] || subgroup[bytes] == ';');
}

static bool ops_list(struct draft *draft, const char *suffix)
{
    const struct tryst_profile *profile = draft->profile;
    draft->ops = mem_zalloc_array(profile->nodes_count + 1u, sizeof *draft->ops);
    if (!draft->ops)
        return false;
    for (uint32_t i = 0; i < profile->nodes_count; i++)
        if (is_of(&profile->nodes[i], suffix))
            draft->ops[draft->count++] =
                (struct drafted){.text = profile->nodes[i].name, .node = i};
    qsort(draft->ops, draft->count, sizeof *draft->ops, drafted_compare);
    return true;
}

/* FNV-1a over names with their terminators: equal on all ranks, which hash_bytes with its
 * secret is not. */
static uint64_t digest_add(uint64_t digest, const char *text)
{
    do
        digest = (digest ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return digest;
}

static void vector_fill(struct draft *draft, const double *tails, uint64_t begun)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < draft->count; i++) {
        digest = digest_add(digest, draft->ops[i].text);
        draft->vector[HEAD + i] = (uint64_t)(tails[draft->ops[i].node] * 1e9);
    }
    draft->vector[DIGEST] = digest;
    draft->vector[DIGEST_NOT] = ~digest;
    draft->vector[BEGUN] = begun;
}

/* Compute the time from the end of each node to the end of the profile. Only computation
 * counts, so operations take no time. Nodes come after those with smaller numbers
 * (period_graph.c). */
static void tails_compute(const struct tryst_profile *profile, double *tails)
{
    for (uint32_t i = profile->nodes_count; i-- > 0;) {
        const struct profile_node *node = &profile->nodes[i];
        for (uint32_t a = 0; a < node->after_count; a++) {
            double *before = &tails[profile->after[node->after_first + a]];
            *before = fmax(*before, node->seconds + tails[i]);
        }
    }
}

static bool draft_fill(struct draft *draft, const char *suffix, uint64_t begun)
{
    double *tails = mem_zalloc_array(draft->profile->nodes_count + 1u, sizeof *tails);
    bool filled = tails && ops_list(draft, suffix);
    if (filled)
        draft->vector =
            mem_zalloc_array(HEAD + (size_t)draft->count, sizeof *draft->vector);
    filled = filled && draft->vector;
    if (filled) {
        tails_compute(draft->profile, tails);
        vector_fill(draft, tails, begun);
    }
    mem_free(tails);
    return filled;
}

/* Make the vector that agrees with none. */
static bool draft_poison(struct draft *draft, uint64_t begun)
{
    draft->vector = mem_zalloc_array(HEAD, sizeof *draft->vector);
    if (!draft->vector)
        return false;
    draft->vector[DIGEST] = draft->vector[DIGEST_NOT] = UINT64_MAX;
    draft->vector[BEGUN] = begun;
    return true;
}

struct draft *draft_open(struct recorder *recorder, const char *suffix, uint64_t begun)
{
    struct draft *draft = mem_zalloc(sizeof *draft);
    if (!draft)
        return NULL;
    draft->profile = recorder_profile_last(recorder);
    if (draft->profile ? draft_fill(draft, suffix, begun) : draft_poison(draft, begun))
        return draft;
    draft_close(draft);
    return NULL;
}

void draft_close(struct draft *draft)
{
    if (!draft)
        return;
    profile_close(draft->profile);
    mem_free(draft->ops);
    mem_free(draft->vector);
    mem_free(draft);
}

uint64_t *draft_vector(struct draft *draft, size_t *count_p)
{
    *count_p = HEAD + (size_t)draft->count;
    return draft->vector;
}

/* ---- tables ------------------------------------------------------------------------ */

static void table_close(struct table *table)
{
    if (!table)
        return;
    mem_free(table->names);
    mem_free(table->priorities);
    mem_free(table);
}

/* An operation with the computation that is left after its first use. */
struct ranked {
    uint64_t left_ns;
    uint32_t index; /* in the draft, which is in the order of names */
};

static int ranked_compare(const void *one, const void *other)
{
    const struct ranked *a = one, *b = other;
    if (a->left_ns != b->left_ns)
        return a->left_ns > b->left_ns ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Return the number of the name of an operation, and which use of it the operation is. */
static uint32_t name_of(struct recorder *recorder, const char *text, uint32_t *use_p)
{
    char name[512];
    const char *mark = strrchr(text, ';');
    bool numbered = mark && mark[1] >= '0' && mark[1] <= '9';
    size_t bytes = numbered ? (size_t)(mark - text) : strlen(text);
    if (bytes >= sizeof name)
        return UINT32_MAX;
    memcpy(name, text, bytes);
    name[bytes] = 0;
    *use_p = numbered ? (uint32_t)strtoul(mark + 1, NULL, 10) : 1;
    return recorder_name(recorder, name);
}

/* The place of an operation in the table. */
struct place {
    uint32_t name, use;
};

/* Find the place of each operation, and count the uses of each name. False: a name is not
 * known to the recorder, or no memory. */
static bool places_find(struct table *table, const struct draft *draft,
                        struct recorder *recorder, struct place *places)
{
    for (uint32_t i = 0; i < draft->count; i++) {
        struct place *place = &places[i];
        place->name = name_of(recorder, draft->ops[i].text, &place->use);
        if (place->name == UINT32_MAX)
            return false;
        if (place->name >= table->names_count)
            table->names_count = place->name + 1;
    }
    table->names = mem_zalloc_array(table->names_count + 1u, sizeof *table->names);
    if (!table->names)
        return false;
    for (uint32_t i = 0; i < draft->count; i++)
        table->names[places[i].name].uses++;
    for (uint32_t n = 1; n < table->names_count; n++)
        table->names[n].first = table->names[n - 1].first + table->names[n - 1].uses;
    return true;
}

/* Return the priority of an operation, which is above `before`, that of the one before
 * it in the order of urgency. */
static int32_t priority_of(uint64_t left_ns, int32_t before)
{
    uint64_t left_us = left_ns / 1000;
    int32_t priority = left_us < PRIORITY_LEAST ? PRIORITY_LEAST - (int32_t)left_us : 0;
    return priority > before ? priority : before + 1;
}

static bool table_fill(struct table *table, const struct draft *draft,
                       struct recorder *recorder, struct place *places,
                       struct ranked *ranked)
{
    if (!table->priorities || !places_find(table, draft, recorder, places))
        return false;
    for (uint32_t i = 0; i < draft->count; i++)
        ranked[i] = (struct ranked){.left_ns = draft->vector[HEAD + i], .index = i};
    qsort(ranked, draft->count, sizeof *ranked, ranked_compare);
    int32_t priority = -1;
    for (uint32_t i = 0; i < draft->count; i++) {
        const struct place *place = &places[ranked[i].index];
        priority = priority_of(ranked[i].left_ns, priority);
        table->priorities[table->names[place->name].first + place->use - 1] = priority;
    }
    return true;
}

static struct table *table_make(const struct draft *draft, struct recorder *recorder)
{
    struct table *table = mem_zalloc(sizeof *table);
    struct place *places = mem_zalloc_array(draft->count + 1u, sizeof *places);
    struct ranked *ranked = mem_zalloc_array(draft->count + 1u, sizeof *ranked);
    if (table)
        table->priorities =
            mem_zalloc_array(draft->count + 1u, sizeof *table->priorities);
    bool made =
        table && places && ranked && table_fill(table, draft, recorder, places, ranked);
    if (made)
        table->from = draft->vector[BEGUN] + 1;
    mem_free(places);
    mem_free(ranked);
    if (made)
        return table;
    table_close(table);
    return NULL;
}

/* ---- the tables in turn ------------------------------------------------------------ */

struct priorities *priorities_open(void)
{
    struct priorities *priorities = mem_zalloc(sizeof *priorities);
    if (priorities)
        pthread_mutex_init(&priorities->lock, NULL);
    return priorities;
}

void priorities_reset(struct priorities *priorities)
{
    draft_close(priorities->arrived);
    table_close(priorities->next);
    table_close(priorities->now);
    priorities->arrived = NULL;
    priorities->next = priorities->now = NULL;
    priorities->count = 0;
    priorities->newest = (struct recorder_period){0};
}

void priorities_close(struct priorities *priorities)
{
    if (!priorities)
        return;
    priorities_reset(priorities);
    pthread_mutex_destroy(&priorities->lock);
    mem_free(priorities);
}

bool priorities_draft_begin(struct priorities *priorities)
{
    pthread_mutex_lock(&priorities->lock);
    bool begins = priorities->drafts < PRIORITIES_DRAFTS_MAX;
    priorities->drafts += begins;
    pthread_mutex_unlock(&priorities->lock);
    return begins;
}

void priorities_draft_end(struct priorities *priorities)
{
    pthread_mutex_lock(&priorities->lock);
    priorities->drafts--;
    pthread_mutex_unlock(&priorities->lock);
}

void priorities_arrive(struct priorities *priorities, struct draft *draft)
{
    pthread_mutex_lock(&priorities->lock);
    struct draft *earlier = priorities->arrived;
    priorities->arrived = draft;
    pthread_mutex_unlock(&priorities->lock);
    draft_close(earlier);
}

/* Turn the arrived draft into the next table. Returns why that is not possible. */
static const char *next_make(struct priorities *priorities, struct recorder *recorder,
                             struct draft *draft)
{
    if (draft->vector[DIGEST] != ~draft->vector[DIGEST_NOT])
        return "the ranks' last steps have different collectives, or one was not "
               "recorded whole";
    struct table *table = table_make(draft, recorder);
    if (!table)
        return "out of memory";
    table_close(priorities->next);
    priorities->next = table;
    return NULL;
}

/* Bring the next table into force if its period has begun. */
static const char *next_begin(struct priorities *priorities, struct recorder *recorder,
                              uint64_t begun)
{
    if (!priorities->next || begun < priorities->next->from)
        return NULL;
    bool steady = recorder_is_steady(recorder);
    table_close(priorities->now);
    priorities->now = steady ? priorities->next : NULL;
    if (!steady)
        table_close(priorities->next);
    priorities->next = NULL;
    return steady ? NULL : "the last two steps have different collectives";
}

uint64_t priorities_count(struct priorities *priorities, struct recorder_period number)
{
    uint64_t begun = 0;
    pthread_mutex_lock(&priorities->lock);
    if (!priorities->count || recorder_period_is_newer(number, priorities->newest)) {
        if (number.begins && !priorities->newest.begins)
            priorities->count = PRIORITIES_AGAIN;
        priorities->newest = number;
        begun = ++priorities->count;
    }
    pthread_mutex_unlock(&priorities->lock);
    return begun;
}

const char *priorities_begin(struct priorities *priorities, struct recorder *recorder,
                             uint64_t begun)
{
    const char *why = NULL;
    pthread_mutex_lock(&priorities->lock);
    struct draft *draft = priorities->arrived;
    priorities->arrived = NULL;
    if (draft)
        why = next_make(priorities, recorder, draft);
    if (!why)
        why = next_begin(priorities, recorder, begun);
    pthread_mutex_unlock(&priorities->lock);
    draft_close(draft);
    return why;
}

bool priorities_get(struct priorities *priorities, uint32_t name, uint32_t use,
                    int32_t *priority_p)
{
    bool found = false;
    pthread_mutex_lock(&priorities->lock);
    const struct table *table = priorities->now;
    if (table && name < table->names_count && use >= 1 &&
        use <= table->names[name].uses) {
        *priority_p = table->priorities[table->names[name].first + use - 1];
        found = true;
    }
    pthread_mutex_unlock(&priorities->lock);
    return found;
}
