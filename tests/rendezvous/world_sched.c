/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler of a world: first come, first served; every byte of window is accounted
 * for. It defines all of sched.h that rendezvous calls, so the linker never needs
 * sched.c. A side is its own `struct sched`. */
#include "commsched/sched/sched.h"
#include "world.h"

static struct side *side_of(const struct sched *sched)
{
    return (struct side *)(void *)sched;
}

void sched_lane_init(struct sched *sched, struct sched_lane *lane)
{
}

void sched_lane_ready(struct sched *sched, struct sched_lane *lane, uint32_t rail,
                      uint64_t window_bytes, uint64_t rail_bytes_per_s)
{
    lane->rail = rail;
}

void sched_add(struct sched *sched, struct transfer *transfer)
{
    struct side *side = side_of(sched);
    transfer->node.urgency = &transfer->urgency;
    list_push_back(&side->transfers, &transfer->node.node);
}

/* As in the scheduler, a transfer that lacks posted or ready slices starts none until
 * this call. Its node, which this scheduler does not sort, has no urgency meanwhile. */
void sched_posted(struct sched *sched, struct transfer *transfer)
{
    transfer->node.urgency = &transfer->urgency;
}

void sched_raise(struct sched *sched, struct transfer *transfer, uint64_t sort_key)
{
    if (sort_key < transfer->urgency.sort_key)
        transfer->urgency.sort_key = sort_key;
}

void sched_credit(struct sched *sched, struct transfer *transfer, uint64_t bytes)
{
    struct side *side = side_of(sched);
    assert_true(side->in_flight_bytes >= bytes);
    side->in_flight_bytes -= bytes;
    transfer->lane->in_flight_bytes -= bytes;
}

void sched_remove(struct sched *sched, struct transfer *transfer)
{
    list_remove(&transfer->node.node);
    for (uint32_t i = transfer->upto; i < transfer->next; i++)
        sched_credit(sched, transfer, transfer_slice_bytes(transfer, i));
}

static bool transfer_step(struct side *side, struct transfer *transfer)
{
    uint64_t bytes = transfer_slice_bytes(transfer, transfer->next);
    bool room = !side->in_flight_bytes || !side->window_bytes ||
                side->in_flight_bytes + bytes <= side->window_bytes;
    if (!transfer_may_start(transfer))
        transfer->node.urgency = NULL;
    if (!transfer->node.urgency || !room || rendezvous_slice_start(transfer) != TRYST_OK)
        return false;
    side->in_flight_bytes += bytes;
    transfer->lane->in_flight_bytes += bytes;
    if (side->in_flight_bytes > side->in_flight_high_bytes)
        side->in_flight_high_bytes = side->in_flight_bytes;
    if (++transfer->next < transfer->slices)
        return true;
    list_remove(&transfer->node.node);
    return false;
}

int sched_run(struct sched *sched)
{
    struct side *side = side_of(sched);
    int count = 0;
    if (side->hold_sched)
        return 0;
    list_for_each_safe (&side->transfers, node, after) {
        struct transfer *transfer = container_of(node, struct transfer, node.node);
        bool more = true;
        while (more) {
            uint32_t before = transfer->next;
            more = transfer_step(side, transfer);
            count += transfer->next != before;
        }
    }
    return count + side->busy_sched;
}

void sched_pause(struct sched *sched, struct sched_lane *lane)
{
    struct side *side = side_of(sched);
    side->pauses_here += lane == NULL;
    side->pauses_there += lane != NULL;
}

enum transfer_hold sched_held_by(struct sched *sched, const struct transfer *transfer,
                                 const struct transfer **before_p)
{
    *before_p = NULL;
    return transfer->next == transfer->ready && transfer->next < transfer->slices
               ? HOLD_UNREADY
               : HOLD_NONE;
}

uint64_t sched_rail_window(const struct sched *sched, uint32_t rail)
{
    const struct side *side = side_of(sched);
    uint64_t bytes = config_bytes(side->rdv->config, CONFIG_RAIL_WINDOW_BYTES);
    return bytes ? bytes : UINT64_MAX;
}

void sched_timer(struct sched *sched, uint64_t now_ns)
{
}

uint64_t sched_next_ns(const struct sched *sched)
{
    return 0;
}
