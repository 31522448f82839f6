/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of single moments of a log; see checks.h. The check against an ideal schedule is
 * in check_order.c. */
#include "checks.h"

#include "commsched/sched/sched.h"
#include "replay.h"

static void report(struct finding *finding, const struct sim_entry *entry,
                   const char *text, int64_t a, int64_t b)
{
    if (finding->found)
        return;
    finding->found = true;
    (void)snprintf(finding->text, sizeof finding->text,
                   "at %llu ns, rank %d, transfer %d: %s (%lld, %lld)",
                   (unsigned long long)entry->at_ns, entry->rank, entry->which, text,
                   (long long)a, (long long)b);
}

/* ---- 1: inversions ----------------------------------------------------------------- */

/* Return the rank's most urgent other transfer of the class that could start a slice, or
 * NULL. */
static const struct replayed *rival(const struct replay *replay,
                                    const struct replayed *transfer,
                                    enum urgency_class kind)
{
    const struct replayed *first = NULL;
    for (int i = 0; i < replay->count; i++) {
        const struct replayed *other = &replay->transfers[i];
        if (other != transfer && other->active && other->from == transfer->from &&
            urgency_class(&other->urgency) == kind &&
            (!first || urgency_before(&other->urgency, &first->urgency)) &&
            replay_may_start(replay, other))
            first = other;
    }
    return first;
}

static bool class_is_posted(const struct replay *replay, int rank,
                            enum urgency_class kind, const struct replayed *but)
{
    for (int i = 0; i < replay->count; i++) {
        const struct replayed *transfer = &replay->transfers[i];
        if (transfer->from == rank && urgency_class(&transfer->urgency) == kind &&
            transfer != but && replayed_is_posted(transfer))
            return true;
    }
    return false;
}

/* Fail if background starts before training, unless training has started fifteen times
 * background's bytes since. */
static void deficit_check(const struct replay *replay, const struct sim_entry *entry,
                          int64_t *owed, struct finding *finding)
{
    const struct replayed *transfer = &replay->transfers[entry->which];
    int64_t bytes = (int64_t)replayed_slice_bytes(transfer, transfer->next);
    if (urgency_class(&transfer->urgency) == URGENCY_TRAINING) {
        if (class_is_posted(replay, entry->rank, URGENCY_BACKGROUND, NULL))
            *owed += bytes;
        return;
    }
    const struct replayed *first = rival(replay, transfer, URGENCY_TRAINING);
    if (!first)
        return;
    *owed -= bytes * (BACKGROUND_SHARE - 1);
    if (*owed < 0)
        report(finding, entry,
               "background started out of its turn; its deficit before transfer",
               first - replay->transfers, *owed);
}

void check_inversions(const struct sim *sim, struct finding *finding)
{
    struct replay replay;
    int64_t owed[WORLD_RANKS_MAX] = {0};
    replay_open(&replay, sim);
    for (size_t i = 0; i < sim->log.count; i++) {
        const struct sim_entry *entry = &sim->log.entries[i];
        replay.now_ns = entry->at_ns;
        if (entry->event == SIM_START) {
            const struct replayed *transfer = &replay.transfers[entry->which];
            const struct replayed *first =
                rival(&replay, transfer, urgency_class(&transfer->urgency));
            finding->looked += class_is_posted(
                &replay, entry->rank, urgency_class(&transfer->urgency), transfer);
            if (first && urgency_before(&first->urgency, &transfer->urgency))
                report(finding, entry, "started before a more urgent transfer",
                       first - replay.transfers, 0);
            deficit_check(&replay, entry, &owed[entry->rank], finding);
        }
        replay_apply(&replay, entry);
    }
    replay_close(&replay);
}

/* ---- 2: waits ---------------------------------------------------------------------- */

uint64_t wait_bound_ns(const struct sim *sim, int from, int to, double more_bytes)
{
    int there[WORLD_RANKS_MAX], back[WORLD_RANKS_MAX];
    const struct sim_params *params = &sim->params;
    const struct net *net = &sim->net;
    int there_count = net_route(net, from, to, there, WORLD_RANKS_MAX);
    int back_count = net_route(net, to, from, back, WORLD_RANKS_MAX);
    double rate = 1e300;
    double packets_ns = 0;
    uint64_t latency_ns = 0;
    for (int i = 0; i < there_count + back_count; i++) {
        const struct net_link *link =
            &net->links[i < there_count ? there[i] : back[i - there_count]];
        if (i < there_count && (double)link->bytes_per_s < rate)
            rate = (double)link->bytes_per_s;
        latency_ns += link->latency_ns;
        packets_ns += (double)net->packet_bytes / (double)link->bytes_per_s * 1e9;
    }
    double bytes = (double)(params->window_bytes + params->slice_bytes) + more_bytes;
    return latency_ns + (uint64_t)(packets_ns + bytes / rate * 1e9);
}

static bool routes_meet(const struct net *net, int from, int to, int from2, int to2)
{
    int a[WORLD_RANKS_MAX], b[WORLD_RANKS_MAX];
    int a_count = net_route(net, from, to, a, WORLD_RANKS_MAX);
    int b_count = net_route(net, from2, to2, b, WORLD_RANKS_MAX);
    for (int i = 0; i < a_count; i++)
        for (int j = 0; j < b_count; j++)
            if (a[i] == b[j])
                return true;
    return false;
}

/* Return the number of other lanes with transfers in this run that share a link with the
 * given lane. */
static int lanes_beside(const struct sim *sim, int from, int to)
{
    bool seen[WORLD_RANKS_MAX][WORLD_RANKS_MAX] = {{false}};
    int count = 0;
    for (int i = 0; i < sim->transfers_count; i++) {
        const struct sim_transfer *transfer = &sim->transfers[i];
        bool *is_seen = &seen[transfer->from][transfer->to];
        bool is_itself = transfer->from == from && transfer->to == to;
        if (!*is_seen && !is_itself &&
            routes_meet(&sim->net, from, to, transfer->from, transfer->to))
            count++;
        *is_seen = true;
    }
    return count;
}

/* True if the transfer is the most urgent of its rank among those with slices left to
 * start. */
static bool is_rank_first(const struct replay *replay, const struct replayed *transfer)
{
    for (int i = 0; i < replay->count; i++) {
        const struct replayed *other = &replay->transfers[i];
        if (other->active && other->from == transfer->from &&
            other->next < other->slices &&
            urgency_before(&other->urgency, &transfer->urgency))
            return false;
    }
    return true;
}

struct wait {
    bool is_first;   /* the transfer has been the rank's first since it was ready */
    bool background; /* background also waited, and may have its turn next */
};

struct waits {
    struct replay replay;
    struct wait *transfers;
    int *beside;
    uint64_t disturbed_ns; /* time after the last action of the script */
};

static void waits_update(struct waits *waits, int rank)
{
    struct replay *replay = &waits->replay;
    for (int i = 0; i < replay->count; i++) {
        struct replayed *transfer = &replay->transfers[i];
        if (transfer->from == rank && waits->transfers[i].is_first && !transfer->next &&
            !is_rank_first(replay, transfer))
            waits->transfers[i].is_first = false;
    }
}

static void wait_begin(struct waits *waits, const struct sim_entry *entry)
{
    const struct replayed *transfer = &waits->replay.transfers[entry->which];
    struct wait *wait = &waits->transfers[entry->which];
    wait->is_first = transfer->active && transfer->ready_ns == entry->at_ns &&
                     urgency_class(&transfer->urgency) == URGENCY_TRAINING &&
                     is_rank_first(&waits->replay, transfer);
    wait->background =
        class_is_posted(&waits->replay, transfer->from, URGENCY_BACKGROUND, NULL);
}

static void wait_end(const struct sim *sim, struct waits *waits,
                     const struct sim_entry *entry, struct finding *finding)
{
    const struct replayed *transfer = &waits->replay.transfers[entry->which];
    const struct wait *wait = &waits->transfers[entry->which];
    if (!wait->is_first || entry->a ||
        (waits->disturbed_ns && waits->disturbed_ns + NS_PER_S > transfer->ready_ns))
        return;
    int *beside = &waits->beside[transfer->from * WORLD_RANKS_MAX + transfer->to];
    bool background = wait->background || class_is_posted(&waits->replay, transfer->from,
                                                          URGENCY_BACKGROUND, NULL);
    if (*beside < 0)
        *beside = lanes_beside(sim, transfer->from, transfer->to);
    double more_bytes = 2.0 * *beside * (double)sim->params.window_bytes +
                        (background ? (double)sim->params.slice_bytes : 0);
    uint64_t bound_ns = wait_bound_ns(sim, transfer->from, transfer->to, more_bytes);
    uint64_t wait_ns = entry->at_ns - transfer->ready_ns;
    double part = (double)wait_ns / (double)bound_ns;
    finding->looked++;
    if (*beside == 0 && part > finding->worst)
        finding->worst = part;
    if (wait_ns > bound_ns)
        report(finding, entry, "waited longer than the bound", (int64_t)wait_ns,
               (int64_t)bound_ns);
}

void check_waits(const struct sim *sim, struct finding *finding)
{
    static struct waits waits;
    size_t lanes = (size_t)WORLD_RANKS_MAX * WORLD_RANKS_MAX;
    memset(&waits, 0, sizeof waits);
    replay_open(&waits.replay, sim);
    waits.transfers = calloc((size_t)sim->transfers_count + 1, sizeof *waits.transfers);
    waits.beside = malloc(lanes * sizeof *waits.beside);
    assert_true(waits.transfers && waits.beside);
    memset(waits.beside, -1, lanes * sizeof *waits.beside);
    for (size_t i = 0; i < sim->log.count; i++) {
        const struct sim_entry *entry = &sim->log.entries[i];
        if (entry->event == SIM_SCRIPT)
            waits.disturbed_ns = entry->at_ns + 1;
        if (entry->event == SIM_SLICE)
            wait_end(sim, &waits, entry, finding);
        replay_apply(&waits.replay, entry);
        if (entry->event == SIM_ADD || entry->event == SIM_RAISE)
            waits_update(&waits, entry->rank);
        if (entry->event == SIM_ADD || entry->event == SIM_POSTED)
            wait_begin(&waits, entry);
    }
    replay_close(&waits.replay);
    free(waits.transfers);
    free(waits.beside);
}

/* ---- 4: background's share --------------------------------------------------------- */

/* With fewer slices than these, two slices more or less exceed the tolerated
 * difference. */
#define SHARE_SLICES 32

void check_share(const struct sim *sim, struct finding *finding)
{
    struct replay replay;
    double bytes[WORLD_RANKS_MAX][URGENCY_CLASSES] = {{0}};
    replay_open(&replay, sim);
    for (size_t i = 0; i < sim->log.count; i++) {
        const struct sim_entry *entry = &sim->log.entries[i];
        replay.now_ns = entry->at_ns;
        if (entry->event == SIM_START) {
            const struct replayed *transfer = &replay.transfers[entry->which];
            enum urgency_class kind = urgency_class(&transfer->urgency);
            enum urgency_class other =
                kind == URGENCY_TRAINING ? URGENCY_BACKGROUND : URGENCY_TRAINING;
            if (replay_lane_first(&replay, transfer->from, transfer->to, other) ||
                rival(&replay, transfer, other))
                bytes[entry->rank][kind] +=
                    (double)replayed_slice_bytes(transfer, transfer->next);
        }
        replay_apply(&replay, entry);
    }
    for (int rank = 0; rank < sim->params.ranks; rank++) {
        double slice = (double)sim->params.slice_bytes;
        double training = bytes[rank][URGENCY_TRAINING];
        double background = bytes[rank][URGENCY_BACKGROUND];
        double share = (training + background) / BACKGROUND_SHARE;
        const struct sim_entry entry = {.rank = rank, .which = -1};
        finding->looked += (uint64_t)(share / slice);
        double slack = share < SHARE_SLICES * slice ? 2 * slice : 0;
        if (background > 1.1 * share + slack || background < 0.9 * share - slack)
            report(finding, &entry,
                   "while both classes had work, background's bytes of all",
                   (int64_t)background, (int64_t)(training + background));
    }
    replay_close(&replay);
}

/* ---- 5: all ends ------------------------------------------------------------------- */

struct ends {
    bool submitted[2], done[2]; /* submitted and ended, by side: receive, send */
    tryst_status status[2];
    bool cancelled;
    uint32_t slices, came;
};

static void ends_note(struct ends *ends, const struct sim_entry *entry)
{
    int side = entry->a != 0;
    switch (entry->event) {
    case SIM_SUBMIT: ends->submitted[side] = true; break;
    case SIM_CANCEL: ends->cancelled = true; break;
    case SIM_DONE:
        ends->done[side] = true;
        ends->status[side] = (tryst_status)entry->b;
        break;
    case SIM_ADD:
        ends->slices = (uint32_t)((entry->a + (entry->b >> 32) - 1) / (entry->b >> 32));
        break;
    case SIM_SLICE: ends->came++; break;
    default: break;
    }
}

static bool end_is_right(const struct ends *ends, int side, bool killed)
{
    tryst_status status = ends->status[side];
    if (status == TRYST_OK)
        return ends->came == ends->slices;
    return (status == TRYST_E_CANCELED && ends->cancelled) ||
           (status == TRYST_E_PEER && killed);
}

/* True if an operation's end is legal where a rank has left. On the rank that has left,
 * any status is legal. On another rank: success, that rank's failure, or the status with
 * which the group's close ended the other side. */
static bool end_is_left(const struct ends *ends, int side, bool left_here,
                        bool left_there)
{
    tryst_status status = ends->status[side];
    return left_here ||
           (left_there && (status == TRYST_E_LEFT || status == TRYST_E_CLOSED));
}

static void ends_judge(const struct sim *sim, int which, const struct ends *ends,
                       struct finding *finding)
{
    const struct sim_transfer *transfer = &sim->transfers[which];
    const struct sim_entry entry = {.which = which, .rank = transfer->from};
    bool left[2] = {sim->ranks[transfer->to].left, sim->ranks[transfer->from].left};
    bool dead[2] = {sim->ranks[transfer->to].killed, sim->ranks[transfer->from].killed};
    for (int side = 0; side < 2; side++) {
        if (!ends->submitted[side] || dead[side])
            continue;
        finding->looked++;
        if (!ends->done[side])
            report(finding, &entry, "an operation has not ended; is it the send", side,
                   0);
        else if (!end_is_right(ends, side, dead[!side]) &&
                 !end_is_left(ends, side, left[side], left[!side]))
            report(finding, &entry, "ended with a wrong status; is it the send, status",
                   side, ends->status[side]);
    }
    if (!dead[0] && !dead[1] && !left[0] && !left[1] && ends->done[0] && ends->done[1] &&
        ends->status[0] != ends->status[1])
        report(finding, &entry, "its ends differ", ends->status[0], ends->status[1]);
}

void check_ends(const struct sim *sim, uint64_t deadline_ns, struct finding *finding)
{
    struct ends *ends = calloc((size_t)sim->transfers_count + 1, sizeof *ends);
    for (size_t i = 0; i < sim->log.count; i++) {
        const struct sim_entry *entry = &sim->log.entries[i];
        if (entry->which < 0 || entry->event == SIM_SCRIPT)
            continue;
        ends_note(&ends[entry->which], entry);
        if (entry->event == SIM_DONE && entry->at_ns > deadline_ns)
            report(finding, entry, "ended late; deadline", (int64_t)deadline_ns, 0);
    }
    for (int i = 0; i < sim->transfers_count; i++)
        ends_judge(sim, i, &ends[i], finding);
    free(ends);
}

void check_calm(const struct sim *sim, struct finding *finding)
{
    for (int i = 0; i < sim->params.ranks; i++) {
        const struct side *side = &sim->world.sides[i];
        const struct sim_entry entry = {.which = -1, .rank = i};
        finding->looked++;
        if (side->rdv->counters.peers_given_up || side->rdv->counters.protocol_errors)
            report(finding, &entry,
                   "the rank gave peers up; of these for protocol errors",
                   (int64_t)side->rdv->counters.peers_given_up,
                   (int64_t)side->rdv->counters.protocol_errors);
    }
}
