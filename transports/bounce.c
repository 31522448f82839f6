/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk of device memory through bounce buffers, which are pinned slots (bounce.h).
 *
 * Idea: the bulk of the layer above stays unchanged; the rail gets an inner bulk with the
 * bytes of a slot. Memory that the rail moves by itself is offered to the rail first. If
 * the rail then refuses it (TRYST_E_UNSUPPORTED: nothing was sent), the bulk goes through
 * a slot.
 *
 *   send:     copying ── wanted? ──▶ at the rail ──▶ done
 *                │                        ▲ AGAIN: first in line in the next turn
 *                └── failed, not wanted, lane closed ──▶ done (never sent)
 *   receive:  at the rail ──▶ copying ──▶ done
 *
 * Invariant: lane->busy counts the items that were taken and are not done, and the copies
 * of the layer above. An item keeps its slot until it is done.
 */
#include "transports/bounce.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "transports/module.h"

struct bounce_item {
    struct bulk inner; /* the bulk that the rail gets */
    struct bulk *outer;
    struct bounce *bounce;
    struct bounce_lane *lane;
    struct endpoint *ep; /* not used once the lane is closed */
    struct slot *slot;   /* NULL: the rail moves the bulk by itself */
    struct copy copy;
    struct list_node node; /* in lane->sends, bounce->unslotted or bounce->items */
    tryst_status status; /* status of the copy; TRYST_IN_PROGRESS while it is under way */
    bool at_rail;
};

static struct bounce_item **item_place(struct bulk *outer)
{
    return (struct bounce_item **)(void *)&outer->scratch.pointers[0];
}

static struct bounce_item *item_get(struct bounce *bounce, struct bounce_lane *lane,
                                    struct endpoint *ep, struct bulk *outer)
{
    struct list_node *node = list_pop_front(&bounce->items);
    struct bounce_item *item =
        node ? container_of(node, struct bounce_item, node) : mem_alloc(sizeof *item);
    if (!item)
        return NULL;
    memset(item, 0, sizeof *item);
    item->bounce = bounce;
    item->lane = lane;
    item->ep = ep;
    item->outer = outer;
    item->inner.tag = outer->tag;
    item->inner.bytes = outer->bytes;
    *item_place(outer) = item;
    return item;
}

static void slot_drop(struct bounce_item *item, enum copy_way way)
{
    struct bounce *bounce = item->bounce;
    if (!item->slot)
        return;
    slots_put(&bounce->slots, way, item->slot);
    item->slot = NULL;
    if (way == COPY_OUT)
        bounce->out_used--;
    else
        item->lane->in_bytes -= item->outer->bytes;
}

/* Free the item and complete the outer bulk. */
static void item_end(struct bounce_item *item, enum copy_way way, tryst_status status,
                     size_t bytes)
{
    struct bounce *bounce = item->bounce;
    struct bounce_lane *lane = item->lane;
    struct bulk *outer = item->outer;
    slot_drop(item, way);
    bounce->room |= way == COPY_IN; /* a withdrawn receive, too, gives its slot back */
    list_push_front(&bounce->items, &item->node);
    outer->done(outer, status, bytes);
    bounce_lane_leave(bounce, lane);
}

void bounce_lane_init(struct bounce_lane *lane)
{
    list_init(&lane->sends);
}

void bounce_lane_enter(struct bounce_lane *lane)
{
    lane->busy++;
}

void bounce_lane_leave(struct bounce *bounce, struct bounce_lane *lane)
{
    if (--lane->busy == 0 && lane->closed)
        bounce->events->idle(bounce->arg);
}

void bounce_lane_close(struct bounce_lane *lane)
{
    lane->closed = true;
}

/* ---- sends ---- */

static void send_done(struct bulk *inner, tryst_status status, size_t bytes)
{
    struct bounce_item *item = container_of(inner, struct bounce_item, inner);
    item_end(item, COPY_OUT, status, bytes);
}

static void bounce_refusal_log(struct bounce_item *item)
{
    const struct tryst_host *host = item->bounce->host;
    char text[TRANSPORT_TEXT_MAX];
    if (item->lane->refused || !host)
        return;
    item->lane->refused = true;
    snprintf(
        text, sizeof text,
        "%s cannot move %s memory to a peer by itself: using pinned slots from now on",
        item->ep->rail->ops->name, item->outer->memory->name);
    host->log(host, TRYST_LOG_INFO, text);
}

/* Hand a send to the rail. TRYST_AGAIN: the rail has no room. TRYST_OK: the rail has the
 * send, or the send has ended. */
static tryst_status send_start_inner(struct bounce_item *item)
{
    struct bounce *bounce = item->bounce;
    struct bulk *inner = &item->inner;
    tryst_status status = item->status;
    if (status == TRYST_OK &&
        (item->lane->closed || !bounce->events->wanted(bounce->arg, item->outer)))
        status = TRYST_E_CANCELED;
    if (status == TRYST_OK) {
        inner->done = send_done;
        status = item->ep->rail->ops->bulk_send(item->ep, inner);
        if (status == TRYST_OK || status == TRYST_AGAIN)
            return status;
    }
    item_end(item, COPY_OUT, status, 0);
    return TRYST_OK;
}

static int lane_sends_start(struct bounce_lane *lane)
{
    struct list_node *node;
    int count = 0;
    while ((node = list_first(&lane->sends)) != NULL) {
        struct bounce_item *item = container_of(node, struct bounce_item, node);
        if (item->status == TRYST_IN_PROGRESS)
            return count;
        list_remove(node);
        if (send_start_inner(item) == TRYST_AGAIN) {
            list_push_front(&lane->sends, node);
            return count;
        }
        count++;
    }
    list_remove(&lane->node);
    return count;
}

static void send_copied(struct copy *copy, tryst_status status)
{
    struct bounce_item *item = container_of(copy, struct bounce_item, copy);
    item->status = status; /* lane_sends_start takes it later in this progress */
}

/* Copy between the slot and the device. */
static void item_copy(struct bounce_item *item, enum copy_way way,
                      void (*done)(struct copy *copy, tryst_status status), size_t bytes)
{
    struct bulk *outer = item->outer;
    void *slot = item->slot->data;
    item->copy = (struct copy){.done = done,
                               .memory = outer->memory,
                               .device = outer->device,
                               .way = way,
                               .dst = way == COPY_OUT ? slot : outer->data,
                               .src = way == COPY_OUT ? outer->data : slot,
                               .bytes = bytes};
    copies_start(&item->bounce->copies, &item->copy);
}

/* Copy a send into a slot. TRYST_AGAIN: other sends hold all slots. TRYST_OK: the send is
 * in lane->sends, being copied or failed for want of memory. */
static tryst_status send_bounce(struct bounce_item *item)
{
    struct bounce *bounce = item->bounce;
    struct bulk *outer = item->outer;
    item->slot =
        slots_get(&bounce->slots, outer->memory, outer->device, COPY_OUT, outer->bytes);
    if (!item->slot && bounce->out_used)
        return TRYST_AGAIN;
    bounce->out_used += item->slot != NULL;
    list_push_back(&item->lane->sends, &item->node);
    if (!list_linked(&item->lane->node))
        list_push_back(&bounce->lanes, &item->lane->node);
    if (!item->slot) { /* no send holds a slot that could come back */
        item->status = TRYST_E_NOMEM;
        return TRYST_OK;
    }
    item->status = TRYST_IN_PROGRESS;
    item->inner.data = item->slot->data;
    item->inner.mem = item->slot->mem;
    item_copy(item, COPY_OUT, send_copied, outer->bytes);
    return TRYST_OK;
}

/* Complete a send that the rail took directly. If the rail refuses it only now, send it
 * through a slot. */
static void direct_done(struct bulk *inner, tryst_status status, size_t bytes)
{
    struct bounce_item *item = container_of(inner, struct bounce_item, inner);
    if (status != TRYST_E_UNSUPPORTED || item->lane->closed) {
        item_end(item, COPY_OUT, status, bytes);
        return;
    }
    bounce_refusal_log(item);
    item->inner.memory = NULL;
    list_node_init(&item->node);
    if (send_bounce(item) == TRYST_AGAIN)
        list_push_back(&item->bounce->unslotted, &item->node);
}

static tryst_status send_direct(struct bounce_item *item)
{
    struct bulk *inner = &item->inner;
    *inner = *item->outer;
    inner->done = direct_done;
    return item->ep->rail->ops->bulk_send(item->ep, inner);
}

tryst_status bounce_send(struct bounce *bounce, struct bounce_lane *lane,
                         struct endpoint *ep, struct bulk *bulk, bool direct)
{
    struct bounce_item *item = item_get(bounce, lane, ep, bulk);
    tryst_status status = TRYST_E_UNSUPPORTED;
    if (!item)
        return TRYST_AGAIN;
    if (direct && !bounce_is_needed(ep, bulk->memory))
        status = send_direct(item);
    if (status == TRYST_E_UNSUPPORTED) {
        item->inner.memory = NULL;
        status = send_bounce(item);
    }
    if (status == TRYST_OK)
        bounce_lane_enter(lane);
    else
        list_push_front(&bounce->items, &item->node);
    return status;
}

/* ---- receives ---- */

static void recv_copied(struct copy *copy, tryst_status status)
{
    struct bounce_item *item = container_of(copy, struct bounce_item, copy);
    size_t bytes = item->copy.bytes;
    item_end(item, COPY_IN, status, bytes);
}

static void recv_done(struct bulk *inner, tryst_status status, size_t bytes)
{
    struct bounce_item *item = container_of(inner, struct bounce_item, inner);
    item->at_rail = false;
    if (status != TRYST_OK || bytes == 0)
        item_end(item, COPY_IN, status, bytes);
    else
        item_copy(item, COPY_IN, recv_copied, bytes);
}

/* Get a slot for a receive of this lane. A lane holds at most half of the limit, since
 * its peer may be stopped, but one slot in any case. NULL: none now. */
static struct slot *slot_for_recv(struct bounce *bounce, struct bounce_lane *lane,
                                  const struct bulk *bulk)
{
    struct slot *slot = NULL;
    if (lane->in_bytes == 0 ||
        lane->in_bytes + bulk->bytes <= bounce->slots.limit_bytes / 2)
        slot =
            slots_get(&bounce->slots, bulk->memory, bulk->device, COPY_IN, bulk->bytes);
    if (slot) {
        lane->in_bytes += bulk->bytes;
        return slot;
    }
    bounce->recv_starved = true;
    bounce->room = false; /* slots that came back earlier did not help */
    return NULL;
}

tryst_status bounce_recv(struct bounce *bounce, struct bounce_lane *lane,
                         struct endpoint *ep, struct bulk *bulk)
{
    struct bounce_item *item = item_get(bounce, lane, ep, bulk);
    lane->awaits_slot = false;
    if (!item)
        return TRYST_AGAIN;
    tryst_status status = TRYST_AGAIN;
    item->slot = slot_for_recv(bounce, lane, bulk);
    lane->awaits_slot = !item->slot;
    if (item->slot) {
        item->inner.data = item->slot->data;
        item->inner.mem = item->slot->mem;
        item->inner.done = recv_done;
        item->at_rail = true;
        status = ep->rail->ops->bulk_recv(ep, &item->inner);
    }
    if (status == TRYST_OK) {
        bounce_lane_enter(lane);
        return TRYST_OK;
    }
    slot_drop(item, COPY_IN);
    list_push_front(&bounce->items, &item->node);
    return status;
}

void bounce_cancel(struct endpoint *ep, struct bulk *bulk)
{
    struct bounce_item *item = *item_place(bulk);
    if (item->at_rail) /* else its message has come and is being copied */
        ep->rail->ops->bulk_cancel(ep, &item->inner);
}

/* ---- the rail ---------------------------------------------------------------------- */

/* Retry the sends that the rail gave back while no slot was free. */
static int unslotted_try(struct bounce *bounce)
{
    struct list now;
    struct list_node *node;
    int count = 0;
    list_init(&now);
    list_append(&now, &bounce->unslotted);
    while ((node = list_pop_front(&now)) != NULL) {
        struct bounce_item *item = container_of(node, struct bounce_item, node);
        if (item->lane->closed)
            item_end(item, COPY_OUT, TRYST_E_CANCELED, 0);
        else if (send_bounce(item) == TRYST_AGAIN)
            list_push_back(&bounce->unslotted, node);
        else
            count++;
    }
    return count;
}

static int bounce_progress(struct rail *base)
{
    struct bounce *bounce = (struct bounce *)base;
    int count = copies_poll(&bounce->copies);
    list_for_each_safe (&bounce->lanes, node, after)
        count += lane_sends_start(container_of(node, struct bounce_lane, node));
    if (!list_empty(&bounce->unslotted))
        count += unslotted_try(bounce);
    if (bounce->recv_starved && bounce->room) {
        bounce->recv_starved = bounce->room = false;
        bounce->events->room(bounce->arg);
        count++;
    }
    return count;
}

static tryst_status bounce_arm(struct rail *base)
{
    struct bounce *bounce = (struct bounce *)base;
    bool busy = !list_empty(&bounce->lanes) || !list_empty(&bounce->unslotted);
    if (bounce->recv_starved && bounce->room)
        return TRYST_AGAIN;
    base->copies_busy = bounce->copies.count;
    return busy || base->copies_busy ? TRYST_E_UNSUPPORTED : TRYST_OK;
}

static const struct transport_ops bounce_ops = {.name = "bounce",
                                                .struct_size =
                                                    sizeof(struct transport_ops),
                                                .progress = bounce_progress,
                                                .arm = bounce_arm};

void bounce_init(struct bounce *bounce, const struct bounce_events *events, void *arg,
                 const struct tryst_host *host, struct memory_cache *cache,
                 uint64_t limit_bytes)
{
    memset(bounce, 0, sizeof *bounce);
    bounce->rail.ops = &bounce_ops;
    bounce->events = events;
    bounce->arg = arg;
    bounce->host = host;
    copies_init(&bounce->copies);
    slots_init(&bounce->slots, cache, limit_bytes);
    list_init(&bounce->lanes);
    list_init(&bounce->items);
    list_init(&bounce->unslotted);
}

void bounce_end(struct bounce *bounce)
{
    struct list_node *node;
    copies_end(&bounce->copies);
    slots_end(&bounce->slots);
    while ((node = list_pop_front(&bounce->items)) != NULL)
        mem_free(container_of(node, struct bounce_item, node));
}
