/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames and bulks that the script holds back.
 *
 * Idea: the sender gets OK, and the inner transport gets the frame or bulk later. A frame
 * is copied. A bulk stays the caller's until it is done, and the wrapper keeps its state
 * in bulk->scratch, which the inner transport does not use yet. Frames leave in the order
 * of their start, and so do bulks, except those that were drawn to let later ones pass.
 * Invariant: a held bulk ends once: by the inner transport, or here, from inside
 * progress.
 */
#include "fault_private.h"

#include <assert.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/fd.h"

enum { FRAMES_MAX = 64, PASSED_MAX = 4 };

/* How long a bulk waits for later bulks to pass it. */
#define PASSED_WAIT_NS (1 * NS_PER_MS)

struct held_frame {
    struct list_node node;
    uint64_t due_ns;
    size_t bytes;
    _Alignas(8) uint8_t data[];
};

/* In bulk->scratch. */
struct held_bulk {
    struct list_node node;
    uint64_t due_ns;
    uint64_t until_ns; /* when the bulk stops waiting for later ones */
    uint32_t to_pass;  /* number of later bulks that still have to pass it */
};

_Static_assert(sizeof(struct held_bulk) <= sizeof((struct bulk *)0)->scratch, "fits");

static struct held_bulk *bulk_held(struct bulk *bulk)
{
    return (struct held_bulk *)&bulk->scratch;
}

static struct bulk *held_bulk_of(struct list_node *node)
{
    return (struct bulk *)((char *)node - offsetof(struct bulk, scratch));
}

static uint64_t hold_now(const struct fault_rail *rail)
{
    return rail->host->now_ns(rail->host);
}

/* ---- opening and closing ---- */

static void timer_fired(struct poller_source *source, uint32_t events)
{
    uint64_t count;
    ssize_t got = read(source->fd, &count, sizeof count);
    (void)events;
    (void)got; /* progress comes next, and reads the clock */
}

tryst_status hold_open(struct fault_rail *rail)
{
    rail->due_ns = UINT64_MAX;
    rail->timer = (struct poller_source){.fd = -1, .events = EPOLLIN};
    if (rail->script.delay_us == 0 && rail->script.reorder == 0)
        rail->poller = NULL;
    if (!rail->poller)
        return TRYST_OK;
    rail->timer.fd = FD_MAKE(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    return rail->timer.fd >= 0 ? TRYST_OK : TRYST_E_SYSTEM;
}

/* Register the timer; timer.fn is set while it is registered. */
tryst_status hold_attach(struct fault_rail *rail)
{
    if (!rail->poller)
        return TRYST_OK;
    rail->timer.fn = timer_fired;
    tryst_status status = poller_add(rail->poller, &rail->timer);
    if (status != TRYST_OK)
        rail->timer.fn = NULL;
    return status;
}

void hold_close(struct fault_rail *rail)
{
    mem_free(rail->begun);
    if (rail->timer.fn)
        poller_remove(rail->poller, &rail->timer);
    if (rail->timer.fd >= 0)
        (void)close(rail->timer.fd);
}

/* ---- holding ---- */

/* Draw a due time, not before *newest_ns, and store it there. */
static uint64_t due_draw(struct fault_rail *rail, uint64_t *newest_ns)
{
    uint64_t now_ns = hold_now(rail), delay_ns = rail->script.delay_us * NS_PER_US;
    if (delay_ns > 0)
        delay_ns = random_range(&rail->random[STREAM_DELAY], delay_ns + 1);
    if (now_ns + delay_ns > *newest_ns)
        *newest_ns = now_ns + delay_ns;
    return *newest_ns;
}

static void due_note(struct fault_rail *rail, uint64_t due_ns)
{
    if (due_ns < rail->due_ns)
        rail->due_ns = due_ns;
}

static bool frames_are_held(const struct fault_ep *ep)
{
    return !ep->spared && ((const struct fault_rail *)ep->base.rail)->script.delay_us > 0;
}

tryst_status hold_frame_begin(struct fault_ep *ep, size_t max, void **frame_p)
{
    struct fault_rail *rail = ep_rail(ep);
    if (!frames_are_held(ep))
        return ep->inner->rail->ops->frame_begin(ep->inner, max, frame_p);
    if (ep->frames_count == FRAMES_MAX)
        return TRYST_AGAIN;
    mem_free(rail->begun);
    rail->begun = mem_alloc(sizeof *rail->begun + max);
    if (!rail->begun)
        return TRYST_AGAIN;
    *frame_p = rail->begun->data;
    return TRYST_OK;
}

void hold_frame_commit(struct fault_ep *ep, size_t bytes)
{
    struct fault_rail *rail = ep_rail(ep);
    struct held_frame *frame = rail->begun;
    if (!frames_are_held(ep)) {
        ep->inner->rail->ops->frame_commit(ep->inner, bytes);
        return;
    }
    rail->begun = NULL;
    list_node_init(&frame->node);
    frame->due_ns = due_draw(rail, &ep->frame_due_ns);
    frame->bytes = bytes;
    list_push_back(&ep->frames, &frame->node);
    ep->frames_count++;
    rail->held_count++;
    due_note(rail, frame->due_ns);
}

static uint32_t to_pass_draw(struct fault_rail *rail)
{
    struct random *random = &rail->random[STREAM_REORDER];
    if (rail->script.reorder == 0 || random_unit(random) >= rail->script.reorder)
        return 0;
    return 1 + (uint32_t)random_range(random, PASSED_MAX);
}

/* Send a bulk now, or hold it. The bulks of a silent endpoint are held until the endpoint
 * closes. */
tryst_status hold_bulk(struct fault_ep *ep, struct bulk *bulk)
{
    struct fault_rail *rail = ep_rail(ep);
    if (!ep->silent &&
        (ep->spared || (rail->script.delay_us == 0 && rail->script.reorder == 0)))
        return ep->inner->rail->ops->bulk_send(ep->inner, bulk);
    struct held_bulk *held = bulk_held(bulk);
    list_node_init(&held->node);
    held->due_ns = due_draw(rail, &ep->bulk_due_ns);
    held->until_ns = held->due_ns + PASSED_WAIT_NS;
    held->to_pass = to_pass_draw(rail);
    list_push_back(&ep->bulks, &held->node);
    rail->held_count++;
    due_note(rail, held->due_ns);
    return TRYST_OK;
}

/* ---- releasing ---- */

static void frame_drop(struct fault_ep *ep, struct held_frame *frame)
{
    (void)list_remove(&frame->node);
    ep->frames_count--;
    ep_rail(ep)->held_count--;
    mem_free(frame);
}

/* Hand down the frames that are due, until the inner transport has no room. The inner
 * transport wakes the poller when there is room again. */
static int frames_release(struct fault_ep *ep, uint64_t now_ns)
{
    int count = 0;
    list_for_each_safe (&ep->frames, node, after) {
        struct held_frame *frame = container_of(node, struct held_frame, node);
        if (frame->due_ns > now_ns) {
            due_note(ep_rail(ep), frame->due_ns);
            break;
        }
        if (transport_frame_send(ep->inner->rail->ops, ep->inner, frame->data,
                                 frame->bytes) == TRYST_AGAIN)
            break;
        frame_drop(ep, frame); /* sent, or lost: then events->failed has the reason */
        count++;
    }
    return count;
}

static void held_bulk_remove(struct fault_ep *ep, struct held_bulk *held)
{
    (void)list_remove(&held->node);
    ep_rail(ep)->held_count--;
}

/* Count a release: the bulk in front of `place` has left and has passed each bulk that is
 * still before `place`. */
static void passed_count(struct fault_ep *ep, const struct list_node *place)
{
    list_for_each_safe (&ep->bulks, node, after) {
        struct held_bulk *held = container_of(node, struct held_bulk, node);
        if (node == place)
            return;
        if (held->to_pass > 0)
            held->to_pass--;
    }
}

/* Get the first bulk that may leave now. NULL: none may; rail->due_ns then has the time
 * to try again. */
static struct held_bulk *bulk_next(struct fault_ep *ep, uint64_t now_ns)
{
    list_for_each_safe (&ep->bulks, node, after) {
        struct held_bulk *held = container_of(node, struct held_bulk, node);
        if (held->due_ns > now_ns) {
            due_note(ep_rail(ep), held->due_ns);
            return NULL;
        }
        if (held->to_pass == 0 || held->until_ns <= now_ns)
            return held;
        due_note(ep_rail(ep), held->until_ns);
    }
    return NULL;
}

/* Hand down the bulks that are due. `done` may start bulks and close the endpoint, so the
 * list is read anew each time. */
static int bulks_release(struct fault_ep *ep, uint64_t now_ns)
{
    struct held_bulk *held;
    int count = 0;
    while (!ep->closing && (held = bulk_next(ep, now_ns)) != NULL) {
        struct bulk *bulk = held_bulk_of(&held->node);
        struct held_bulk saved = *held; /* the inner transport overwrites the scratch */
        struct list_node *after = held->node.next;
        held_bulk_remove(ep, held);
        tryst_status status = ep->inner->rail->ops->bulk_send(ep->inner, bulk);
        if (status == TRYST_AGAIN) {
            *held = saved;
            list_node_init(&held->node);
            list_insert_before(after, &held->node);
            ep_rail(ep)->held_count++;
            break;
        }
        passed_count(ep, after);
        count++;
        if (status != TRYST_OK)
            bulk->done(bulk, status, 0);
    }
    return count;
}

int hold_bulks_withdraw(struct fault_ep *ep)
{
    struct list_node *node;
    int count = 0;
    while ((node = list_first(&ep->bulks)) != NULL) {
        struct bulk *bulk = held_bulk_of(node);
        held_bulk_remove(ep, bulk_held(bulk));
        bulk->done(bulk, TRYST_E_CANCELED, 0);
        count++;
    }
    return count;
}

static int ep_release(struct fault_ep *ep, uint64_t now_ns)
{
    if (ep->closing)
        return ep_rail(ep)->script.stuck ? 0 : hold_bulks_withdraw(ep);
    if (ep->broken)
        return 0;
    return frames_release(ep, now_ns) + (ep->silent ? 0 : bulks_release(ep, now_ns));
}

int hold_release(struct fault_rail *rail)
{
    int count = 0;
    if (rail->held_count == 0)
        return 0;
    uint64_t now_ns = hold_now(rail);
    rail->due_ns = UINT64_MAX;
    list_for_each_safe (&rail->eps, node, after)
        count += ep_release(container_of(node, struct fault_ep, node), now_ns);
    return count;
}

tryst_status hold_arm(struct fault_rail *rail)
{
    if (rail->held_count == 0 || rail->due_ns == UINT64_MAX)
        return TRYST_OK;
    if (rail->due_ns <= hold_now(rail))
        return TRYST_AGAIN;
    if (!rail->poller)
        return TRYST_E_UNSUPPORTED;
    struct itimerspec at = {.it_value = {.tv_sec = (time_t)(rail->due_ns / NS_PER_S),
                                         .tv_nsec = (long)(rail->due_ns % NS_PER_S)}};
    return timerfd_settime(rail->timer.fd, TFD_TIMER_ABSTIME, &at, NULL) == 0
               ? TRYST_OK
               : TRYST_E_UNSUPPORTED;
}

void hold_ep_close(struct fault_ep *ep)
{
    struct list_node *node;
    ep->closing = true;
    while ((node = list_first(&ep->frames)) != NULL)
        frame_drop(ep, container_of(node, struct held_frame, node));
    if (!list_empty(&ep->bulks) && !ep_rail(ep)->script.stuck)
        due_note(ep_rail(ep), 0);
}
