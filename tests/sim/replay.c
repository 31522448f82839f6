/* SPDX-License-Identifier: Apache-2.0 */
/* The replay of a log; see replay.h. */
#include "replay.h"

#include <stdlib.h>

void replay_open(struct replay *replay, const struct sim *sim)
{
    memset(replay, 0, sizeof *replay);
    replay->sim = sim;
    replay->count = sim->transfers_count;
    replay->transfers = calloc((size_t)replay->count + 1, sizeof *replay->transfers);
    assert_non_null(replay->transfers);
}

void replay_close(struct replay *replay)
{
    free(replay->transfers);
}

uint64_t replayed_slice_bytes(const struct replayed *transfer, uint32_t slice)
{
    uint64_t left = transfer->bytes - slice * transfer->slice_bytes;
    return left < transfer->slice_bytes ? left : transfer->slice_bytes;
}

static void added(struct replayed *transfer, const struct sim_entry *entry)
{
    uint64_t slice_bytes = entry->b >> 32;
    *transfer = (struct replayed){
        .active = true,
        .was_added = true,
        .from = entry->rank,
        .to = entry->peer,
        .urgency = entry->urgency,
        .bytes = entry->a,
        .slice_bytes = slice_bytes,
        .slices = (uint32_t)((entry->a + slice_bytes - 1) / slice_bytes),
        .posted = (uint32_t)entry->b};
}

static void removed(struct replay *replay, struct replayed *transfer)
{
    if (!transfer->active)
        return;
    for (uint32_t i = transfer->upto; i < transfer->next; i++)
        replay->in_flight[transfer->from][transfer->to] -=
            replayed_slice_bytes(transfer, i);
    transfer->active = false;
}

void replay_apply(struct replay *replay, const struct sim_entry *entry)
{
    if (entry->which < 0 || entry->event == SIM_SCRIPT)
        return;
    struct replayed *transfer = &replay->transfers[entry->which];
    uint64_t *in_flight = &replay->in_flight[transfer->from][transfer->to];
    switch (entry->event) {
    case SIM_ADD: added(transfer, entry); break;
    case SIM_POSTED: transfer->posted = (uint32_t)entry->a; break;
    case SIM_RAISE:
        if (entry->urgency.sort_key < transfer->urgency.sort_key)
            transfer->urgency.sort_key = entry->urgency.sort_key;
        break;
    case SIM_START: *in_flight += replayed_slice_bytes(transfer, transfer->next++); break;
    case SIM_CREDIT:
        *in_flight -= entry->a;
        transfer->active = ++transfer->upto < transfer->slices;
        break;
    case SIM_REFUSED:
        replay->refused_ns[transfer->from][transfer->to] = entry->at_ns + 1;
        break;
    case SIM_REMOVE: removed(replay, transfer); break;
    default: return;
    }
    if (!transfer->ready_ns && transfer->active && transfer->posted)
        transfer->ready_ns = entry->at_ns;
}

bool replayed_is_posted(const struct replayed *transfer)
{
    return transfer->active && transfer->next < transfer->posted;
}

bool replay_fits(const struct replay *replay, const struct replayed *transfer)
{
    uint64_t in_flight = replay->in_flight[transfer->from][transfer->to];
    return !in_flight || in_flight + replayed_slice_bytes(transfer, transfer->next) <=
                             replay->sim->params.window_bytes;
}

const struct replayed *replay_lane_first(const struct replay *replay, int from, int to,
                                         enum urgency_class kind)
{
    const struct replayed *first = NULL;
    for (int i = 0; i < replay->count; i++) {
        const struct replayed *transfer = &replay->transfers[i];
        if (transfer->from == from && transfer->to == to &&
            replayed_is_posted(transfer) && urgency_class(&transfer->urgency) == kind &&
            (!first || urgency_before(&transfer->urgency, &first->urgency)))
            first = transfer;
    }
    return first;
}

bool replay_may_start(const struct replay *replay, const struct replayed *transfer)
{
    if (!replayed_is_posted(transfer) || !replay_fits(replay, transfer) ||
        replay->refused_ns[transfer->from][transfer->to] == replay->now_ns + 1)
        return false;
    for (int kind = 0; kind < URGENCY_CLASSES; kind++) {
        const struct replayed *first = replay_lane_first(
            replay, transfer->from, transfer->to, (enum urgency_class)kind);
        if (!first)
            continue;
        if (kind == (int)urgency_class(&transfer->urgency) ? first != transfer
                                                           : !replay_fits(replay, first))
            return false;
    }
    return true;
}
