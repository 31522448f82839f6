/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which rank of a job waits for which, and writes one sentence about it.
 *
 * Idea: a blocked rank points at the rank that it waits for. These arrows are followed
 * from the rank that has waited longest. They end at a rank that does something else (it
 * computes, is stopped, is gone, is on another host), which is the answer; or they close
 * a circle. */
#include "live_job.h"
#include "live_compare.h"
#include "live_print.h"
#include "live_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN_MAX = 64, JOBS_SHOWN = 8 };

struct text {
    char *at;
    size_t capacity, used;
};

__attribute__((format(printf, 2, 3))) static void job_text_add(struct text *text,
                                                               const char *format, ...)
{
    va_list args;
    if (text->used >= text->capacity)
        return;
    va_start(args, format);
    int bytes =
        vsnprintf(text->at + text->used, text->capacity - text->used, format, args);
    va_end(args);
    if (bytes > 0)
        text->used += (size_t)bytes;
}

/* ---- which job --------------------------------------------------------------------- */

static bool sessions_differ(const struct live_ranks *ranks, char *error, size_t capacity)
{
    struct text text = {error, capacity, 0};
    uint64_t last = 0;
    int jobs = 0;
    for (size_t i = 0; i < ranks->count; i++) {
        const struct live_rank *rank = &ranks->items[i];
        if (i && rank->header.session == last)
            continue;
        last = rank->header.session;
        if (!jobs++)
            job_text_add(
                &text, "several jobs run here; give the PID of one of their processes:");
        if (jobs <= JOBS_SHOWN)
            job_text_add(&text, "%s %s, %d rank%s%s, pid %d", jobs > 1 ? ";" : "",
                         rank->proc.command, rank->header.size,
                         rank->header.size == 1 ? "" : "s",
                         last ? "" : " still in tryst_group_open", (int)rank->pid);
    }
    return jobs > 1;
}

bool live_job_choose(struct live_ranks *ranks, uint64_t session, char *error,
                     size_t capacity)
{
    size_t kept = 0;
    if (!session && sessions_differ(ranks, error, capacity))
        return false;
    for (size_t i = 0; i < ranks->count && session; i++) {
        if (ranks->items[i].header.session == session)
            ranks->items[kept++] = ranks->items[i];
        else
            live_rank_free(&ranks->items[i]);
    }
    if (session)
        ranks->count = kept;
    return true;
}

/* ---- arrows ------------------------------------------------------------------------ */

static const struct live_rank *rank_find(const struct live_ranks *ranks, int32_t number)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].header.rank == number)
            return &ranks->items[i];
    return NULL;
}

/* Find the other half of `op` on its peer: same key, step and number. NULL: not there. */
static const struct live_op *counterpart(const struct live_rank *peer,
                                         const struct live_op *op)
{
    for (size_t i = 0; i < peer->ops_count; i++) {
        const struct tryst_live_op *other = &peer->ops[i].record;
        if (other->key_hash == op->record.key_hash && other->step == op->record.step &&
            other->number == op->record.number && other->kind != op->record.kind)
            return &peer->ops[i];
    }
    return NULL;
}

struct chain {
    const struct live_rank *ranks[CHAIN_MAX];
    const struct live_op *ops[CHAIN_MAX]; /* the operation that ranks[i] waits for */
    int count;
    int circle; /* index of the first rank of the circle; -1: none */
    /* rank at the end of the chain; NULL: not on this host */
    const struct live_rank *last;
    int32_t last_rank;
    /* the other half of the last operation, which `last` has posted; NULL: it has not */
    const struct live_op *met;
};

static int chain_find(const struct chain *chain, const struct live_rank *rank)
{
    for (int i = 0; i < chain->count; i++)
        if (chain->ranks[i] == rank)
            return i;
    return -1;
}

static void chain_follow(const struct live_ranks *ranks, const struct live_rank *from,
                         struct chain *chain)
{
    const struct live_op *op = live_blocker(from);
    *chain = (struct chain){.circle = -1, .last_rank = from->header.rank, .last = from};
    while (op && chain->count < CHAIN_MAX) {
        chain->ranks[chain->count] = chain->last;
        chain->ops[chain->count++] = op;
        chain->last_rank = op->record.peer;
        chain->last = rank_find(ranks, chain->last_rank);
        if (!chain->last)
            return;
        chain->met = counterpart(chain->last, op);
        chain->circle = chain->met ? -1 : chain_find(chain, chain->last);
        op = chain->met || chain->circle >= 0 ? NULL : live_blocker(chain->last);
    }
}

/* ---- the sentence ------------------------------------------------------------------ */

static void wait_describe(struct text *text, const struct live_op *op)
{
    char key[400];
    bool send = op->record.kind == TRYST_LIVE_SEND;
    live_key_short(op, key, sizeof key);
    if (op->record.kind == TRYST_LIVE_COLL && op->record.peer < 0)
        job_text_add(text,
                     "has waited %.1f s for other ranks to join %s of step %" PRIu64,
                     op->age_s, key, op->record.step);
    else if (op->record.kind == TRYST_LIVE_COLL)
        job_text_add(text, "has waited %.1f s for rank %d in %s of step %" PRIu64,
                     op->age_s, op->record.peer, key, op->record.step);
    else
        job_text_add(text, "has waited %.1f s for rank %d to %s %s of step %" PRIu64,
                     op->age_s, op->record.peer, send ? "receive" : "send", key,
                     op->record.step);
}

/* True if rank `peer` has submitted its part of the collective `op`. */
static bool has_joined(const struct live_rank *peer, const struct live_op *op)
{
    for (size_t i = 0; i < peer->ops_count; i++)
        if (peer->ops[i].record.kind == TRYST_LIVE_COLL &&
            peer->ops[i].record.key_hash == op->record.key_hash &&
            peer->ops[i].record.step == op->record.step)
            return true;
    return false;
}

/* Write what rank `peer`, which is on this host, has not done for `op`. */
static void missing_describe(struct text *text, const struct live_rank *peer,
                             const struct live_op *op)
{
    const char *done =
        op->record.kind == TRYST_LIVE_SEND ? "posted that receive" : "sent it";
    if (op->record.step >= peer->header.steps_end)
        job_text_add(text, ", which has not opened step %" PRIu64 " yet",
                     op->record.step);
    else if (op->record.kind == TRYST_LIVE_COLL)
        job_text_add(text, ", which has %sjoined it", has_joined(peer, op) ? "" : "not ");
    else
        job_text_add(text, ", which has not %s", done);
}

static void absent_describe(struct text *text, const struct chain *chain)
{
    const struct live_rank *asks = chain->ranks[chain->count - 1];
    int32_t number = chain->last_rank;
    char loss[320];
    if (number < 0)
        return;
    bool shown = (uint32_t)number < asks->header.peers_count;
    const struct tryst_live_peer *peer = shown ? &asks->peers[number] : NULL;
    if (peer && !peer->life && (peer->lost_to_mtu || peer->lost_from_mtu)) {
        live_loss_text(asks->header.rank, peer, loss, sizeof loss);
        job_text_add(text, "; %s", loss);
    } else if (peer && peer->life)
        job_text_add(text, "; rank %d %s", number,
                     peer->life == 1 ? "has left the group" : "is gone");
    else if (peer && peer->pid)
        job_text_add(
            text, "; rank %d was process %d of this host and has no live page any more",
            number, peer->pid);
    else
        job_text_add(
            text,
            "; rank %d is not on this host: run tryst-info --live --job where it is",
            number);
}

/* Count the frames that `from` has sent and `to` has not read. */
static uint64_t frames_unread(const struct live_rank *from, const struct live_rank *to)
{
    if ((uint32_t)to->header.rank >= from->header.peers_count ||
        (uint32_t)from->header.rank >= to->header.peers_count)
        return 0;
    uint64_t sent = from->peers[to->header.rank].frames_sent;
    uint64_t read = to->peers[from->header.rank].frames_read;
    return sent > read ? sent - read : 0;
}

/* Write what is in flight between two ranks that have both posted the operation. */
static void under_way_describe(struct text *text, const struct live_rank *a,
                               const struct live_rank *b, const struct live_op *op)
{
    const struct tryst_live_peer *path = &a->peers[op->record.peer];
    char loss[320];
    uint64_t there = frames_unread(a, b);
    const struct live_rank *from = there ? a : b;
    const struct live_rank *to = there ? b : a;
    uint64_t frames = there ? there : frames_unread(b, a);
    if (path->lost_to_mtu || path->lost_from_mtu) {
        live_loss_text(a->header.rank, path, loss, sizeof loss);
        job_text_add(text, "but %s", loss);
    } else if (frames)
        job_text_add(text,
                     "but %" PRIu64
                     " frame%s from rank %d to rank %d %s not been read there",
                     frames, frames == 1 ? "" : "s", from->header.rank, to->header.rank,
                     frames == 1 ? "has" : "have");
    else if (a->peers[op->record.peer].endpoint != 2)
        job_text_add(text, "but there is no connection between them yet");
    else
        job_text_add(text, "and the bytes are on their way over %s",
                     a->peers[op->record.peer].transport);
}

static void posted_describe(struct text *text, const struct chain *chain)
{
    const struct live_rank *asks = chain->ranks[chain->count - 1];
    char place[512];
    live_place_text(chain->last, place, sizeof place);
    job_text_add(text, "; both sides have posted it (rank %d %.1f s ago), ",
                 chain->last_rank, chain->met->age_s);
    if ((uint32_t)chain->last_rank < asks->header.peers_count)
        under_way_describe(text, asks, chain->last, chain->ops[chain->count - 1]);
    else
        job_text_add(text, "and the bytes are on their way");
    job_text_add(text, "; rank %d (pid %d) %s", chain->last_rank, (int)chain->last->pid,
                 place);
}

static void circle_describe(struct text *text, const struct chain *chain)
{
    int members = chain->count - chain->circle;
    if (members == 1)
        job_text_add(text, "rank %d waits for itself: it ",
                     chain->ranks[chain->circle]->header.rank);
    else if (members == 2)
        job_text_add(text, "ranks %d and %d wait for each other: ",
                     chain->ranks[chain->circle]->header.rank,
                     chain->ranks[chain->circle + 1]->header.rank);
    else
        job_text_add(text, "%d ranks wait for each other in a circle: ", members);
    for (int i = chain->circle; i < chain->count; i++) {
        if (members > 1)
            job_text_add(text, "%srank %d ", i == chain->circle ? "" : ", and ",
                         chain->ranks[i]->header.rank);
        wait_describe(text, chain->ops[i]);
    }
    job_text_add(text,
                 members == 1 ? ", which it has not done" : "; none of them has done it");
    for (int i = chain->circle; i < chain->count; i++)
        if (!live_sleeps(chain->ranks[i]))
            job_text_add(
                text,
                "; rank %d serves its operations in a loop, so it may also be computing",
                chain->ranks[i]->header.rank);
}

static void chain_describe(struct text *text, const struct chain *chain)
{
    char place[512];
    for (int i = 0; i < chain->count; i++) {
        const struct live_rank *next =
            i + 1 < chain->count ? chain->ranks[i + 1] : chain->last;
        if (i == 0)
            job_text_add(text, "rank %d ", chain->ranks[i]->header.rank);
        wait_describe(text, chain->ops[i]);
        if (next && !(chain->met && i + 1 == chain->count))
            missing_describe(text, next, chain->ops[i]);
        if (i + 1 < chain->count)
            job_text_add(text, " and itself ");
    }
    if (!chain->last) {
        absent_describe(text, chain);
    } else if (chain->met) {
        posted_describe(text, chain);
    } else {
        live_place_text(chain->last, place, sizeof place);
        job_text_add(text, ": rank %d (pid %d) %s", chain->last_rank,
                     (int)chain->last->pid, place);
    }
}

/* Write how many ranks are in tryst_group_open, and which ranks are not on this host. */
static void gathering_describe(struct text *text, const struct live_ranks *ranks)
{
    int size = ranks->items[0].header.size;
    double longest_s = 0;
    int missing = 0;
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].place_s > longest_s)
            longest_s = ranks->items[i].place_s;
    job_text_add(text, "%zu of %d ranks have waited up to %.1f s in tryst_group_open",
                 ranks->count, size, longest_s);
    for (int number = 0; number < size; number++) {
        if (rank_find(ranks, number) || missing++ >= 16)
            continue;
        job_text_add(text, "%s%d", missing == 1 ? "; not on this host: rank " : ", ",
                     number);
    }
    if (missing > 16)
        job_text_add(text, " and %d more", missing - 16);
    if (!missing)
        job_text_add(text, "; all of them are on this host and still connecting");
}

/* Write, where no rank waits, which rank has been away from the library longest. */
static void idle_describe(struct text *text, const struct live_ranks *ranks)
{
    const struct live_rank *odd = NULL;
    char place[512];
    for (size_t i = 0; i < ranks->count; i++) {
        const struct live_rank *rank = &ranks->items[i];
        bool away = rank->place == LIVE_STOPPED || rank->place == LIVE_TRACED ||
                    rank->place == LIVE_STUCK || rank->place == LIVE_OUTSIDE ||
                    rank->place == LIVE_ENDED;
        if (away && (!odd || rank->place_s > odd->place_s))
            odd = rank;
    }
    if (ranks->compared && !odd)
        job_text_add(
            text,
            "the job runs: no rank of this host has waited for another throughout the "
            "last %.1f s",
            ranks->apart_s);
    else
        job_text_add(text, "no rank of this host waits for another");
    if (!odd)
        return;
    live_place_text(odd, place, sizeof place);
    job_text_add(text, ": rank %d (pid %d) %s", odd->header.rank, (int)odd->pid, place);
}

static const struct live_rank *longest_wait(const struct live_ranks *ranks)
{
    const struct live_rank *longest = NULL;
    double longest_s = -1;
    for (size_t i = 0; i < ranks->count; i++) {
        const struct live_op *op = live_blocker(&ranks->items[i]);
        if (!op || op->age_s <= longest_s)
            continue;
        longest = &ranks->items[i];
        longest_s = op->age_s;
    }
    return longest;
}

bool live_job_is_clear(const struct live_ranks *ranks)
{
    struct chain chain;
    const struct live_rank *first = longest_wait(ranks);
    if (!first)
        return true;
    if (!ranks->compared)
        return false;
    chain_follow(ranks, first, &chain);
    for (int i = 0; i < chain.count && ranks->apart_s < LIVE_JOB_WAIT_S; i++)
        if (chain.ops[i]->age_s < LIVE_JOB_WAIT_S || !live_sleeps(chain.ranks[i]))
            return false;
    return true;
}

void live_job_sentence(const struct live_ranks *ranks, char *text_p, size_t capacity)
{
    struct text text = {text_p, capacity, 0};
    struct chain chain;
    const struct live_rank *first = longest_wait(ranks);
    bool gathering = true;
    for (size_t i = 0; i < ranks->count; i++)
        gathering = gathering && ranks->items[i].header.phase == TRYST_LIVE_GATHERING;
    text_p[0] = '\0';
    if (ranks->ended) {
        job_text_add(&text, "the job has ended since the first sample");
    } else if (gathering) {
        gathering_describe(&text, ranks);
    } else if (!first) {
        idle_describe(&text, ranks);
    } else {
        chain_follow(ranks, first, &chain);
        if (chain.circle >= 0)
            circle_describe(&text, &chain);
        else
            chain_describe(&text, &chain);
    }
    job_text_add(&text, ".");
}
