/* SPDX-License-Identifier: Apache-2.0 */
/* Transports with one known fault each (sabotage.h). */
#include "sabotage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "harness.h"

static const struct transport_ops *good;
static struct transport_ops bad;
static unsigned calls;
static uint8_t *watched;  /* the buffer of the last receive */
static uint64_t since_ns; /* time of the last event, or of the close */

/* The frame as the layer above builds it; the fault decides what is sent. */
static _Alignas(8) uint8_t begun[1 << 16];

static tryst_status frame_begin(struct endpoint *ep, size_t max, void **frame_p)
{
    tryst_status status = good->frame_begin(ep, max, frame_p);
    *frame_p = begun;
    return status;
}

static bool begun_send(struct endpoint *ep, const void *data, size_t bytes)
{
    return transport_frame_send(good, ep, data, bytes) == TRYST_OK;
}

static void frame_lost(struct endpoint *ep, size_t bytes)
{
    if (++calls % 1000)
        (void)begun_send(ep, begun, bytes);
}

static void frame_twice(struct endpoint *ep, size_t bytes)
{
    if (begun_send(ep, begun, bytes) && ++calls % 1000 == 0)
        (void)begun_send(ep, begun, bytes);
}

static void frame_changed(struct endpoint *ep, size_t bytes)
{
    begun[bytes / 2] ^= ++calls % 1000 == 0;
    (void)begun_send(ep, begun, bytes);
}

/* Swap two frames. */
static void frames_swapped(struct endpoint *ep, size_t bytes)
{
    static uint8_t held[sizeof begun];
    static size_t held_bytes;
    if (++calls == 1000) {
        memcpy(held, begun, bytes);
        held_bytes = bytes;
        return;
    }
    if (begun_send(ep, begun, bytes) && held_bytes && begun_send(ep, held, held_bytes))
        held_bytes = 0;
}

/* Queue control behind payload. */
static tryst_status frame_behind(struct endpoint *ep, size_t max, void **frame_p)
{
    const struct conf_peer *peer = ep->arg;
    return peer->bulk_live ? TRYST_AGAIN : good->frame_begin(ep, max, frame_p);
}

static tryst_status bulk_changed(struct endpoint *ep, struct bulk *bulk)
{
    if (bulk->bytes > 5000)
        ((uint8_t *)bulk->data)[4999] ^= 1;
    return good->bulk_send(ep, bulk);
}

static tryst_status bulk_beyond(struct endpoint *ep, struct bulk *bulk)
{
    ((uint8_t *)bulk->data)[bulk->bytes] = 0;
    return good->bulk_recv(ep, bulk);
}

/* Send device memory from eight bytes further on. */
static tryst_status device_shifted(struct endpoint *ep, struct bulk *bulk)
{
    if (bulk->memory)
        bulk->data = (uint8_t *)bulk->data + 8;
    return good->bulk_send(ep, bulk);
}

static tryst_status has_passed(int32_t device, void *event)
{
    return TRYST_OK;
}

/* Complete a receive without waiting for the device. */
static tryst_status device_early(struct endpoint *ep, struct bulk *bulk)
{
    static struct memory_ops hasty;
    if (bulk->memory) {
        hasty = *bulk->memory;
        hasty.event_query = has_passed;
        bulk->memory = &hasty;
    }
    return good->bulk_recv(ep, bulk);
}

/* Accept device memory of a kind that the rail does not list. */
static tryst_status device_taken(struct endpoint *ep, struct bulk *bulk)
{
    return bulk->memory ? TRYST_OK : good->bulk_recv(ep, bulk);
}

static tryst_status rail_without_devices(const struct rail_params *params,
                                         struct rail **rail_p)
{
    tryst_status status = good->rail_open(params, rail_p);
    if (status == TRYST_OK)
        (*rail_p)->memory_kinds = 0;
    return status;
}

/* A send that its caller takes for done, while the peer may still read the bytes. */
static struct bulk *early, early_sent;

static void early_ended(struct bulk *bulk, tryst_status status, size_t bytes)
{
}

static tryst_status send_early(struct endpoint *ep, struct bulk *bulk)
{
    early_sent = *bulk;
    early_sent.done = early_ended;
    tryst_status status = good->bulk_send(ep, &early_sent);
    early = status == TRYST_OK ? bulk : NULL;
    return status;
}

static int progress_early(struct rail *rail)
{
    struct bulk *bulk = early;
    early = NULL;
    if (bulk)
        bulk->done(bulk, TRYST_OK, bulk->bytes);
    return good->progress(rail);
}

static tryst_status read_shifted(struct endpoint *ep, struct bulk *bulk, size_t at,
                                 size_t bytes, bulk_use use, void *arg)
{
    return good->bulk_read(ep, bulk, at >= 8 ? at - 8 : at, bytes, use, arg);
}

static tryst_status read_not(struct endpoint *ep, struct bulk *bulk, size_t at,
                             size_t bytes, bulk_use use, void *arg)
{
    return TRYST_OK;
}

/* Count what was read though the sender has revoked it. */
static tryst_status return_counts(struct endpoint *ep, struct bulk *bulk)
{
    (void)good->bulk_return(ep, bulk);
    return TRYST_OK;
}

static tryst_status bulk_watched(struct endpoint *ep, struct bulk *bulk)
{
    watched = bulk->data;
    return good->bulk_recv(ep, bulk);
}

static void close_noted(struct endpoint *ep)
{
    since_ns = clock_monotonic_ns();
    good->ep_close(ep);
}

static int progress_writing(struct rail *rail)
{
    if (since_ns && watched && clock_monotonic_ns() > since_ns + 15 * NS_PER_MS) {
        *watched ^= 1;
        watched = NULL;
    }
    return good->progress(rail);
}

static struct endpoint *broken_ep;

static tryst_status recv_noted(struct endpoint *ep, struct bulk *bulk)
{
    broken_ep = ep;
    return good->bulk_recv(ep, bulk);
}

/* Give up a peer that is silent for one second. */
static int progress_impatient(struct rail *rail)
{
    int events = good->progress(rail);
    if (events || !since_ns)
        since_ns = clock_monotonic_ns();
    if (broken_ep && clock_monotonic_ns() > since_ns + NS_PER_S) {
        struct endpoint *ep = broken_ep;
        broken_ep = NULL;
        rail->events->failed(ep, TRYST_E_PEER, "silent");
    }
    return events;
}

static void cancel_inside(struct endpoint *ep, struct bulk *bulk)
{
    bulk->done(bulk, TRYST_E_CANCELED, 0);
}

static void cancel_ignored(struct endpoint *ep, struct bulk *bulk)
{
    (void)ep;
    (void)bulk;
}

static void close_ignored(struct endpoint *ep)
{
    (void)ep;
}

static void close_inside(struct endpoint *ep)
{
    ep->rail->events->closed(ep);
}

static tryst_status arm_not(struct rail *rail)
{
    (void)rail;
    return TRYST_OK;
}

static tryst_status rail_leaking(const struct rail_params *params, struct rail **rail_p)
{
    return mem_alloc(10) ? good->rail_open(params, rail_p) : TRYST_E_NOMEM;
}

static tryst_status rail_leaking_fd(const struct rail_params *params,
                                    struct rail **rail_p)
{
    return dup(STDERR_FILENO) >= 0 ? good->rail_open(params, rail_p) : TRYST_E_SYSTEM;
}

/* Allocate memory that the library's counter does not count. */
static tryst_status rail_growing(const struct rail_params *params, struct rail **rail_p)
{
    static uint8_t *volatile kept;
    kept = malloc(20000);
    memset(kept, 1, 20000);
    return good->rail_open(params, rail_p);
}

const struct transport_ops *sabotage_ops(const struct transport_ops *ops,
                                         const char *fault)
{
    static const struct {
        const char *fault;
        struct transport_ops with;
    } faults[] = {
        {"frame_lost", {.frame_begin = frame_begin, .frame_commit = frame_lost}},
        {"frame_twice", {.frame_begin = frame_begin, .frame_commit = frame_twice}},
        {"frame_changed", {.frame_begin = frame_begin, .frame_commit = frame_changed}},
        {"frames_swapped", {.frame_begin = frame_begin, .frame_commit = frames_swapped}},
        {"frame_behind", {.frame_begin = frame_behind}},
        {"bulk_changed", {.bulk_send = bulk_changed}},
        {"bulk_beyond", {.bulk_recv = bulk_beyond}},
        {"device_shifted", {.bulk_send = device_shifted}},
        {"device_early", {.bulk_recv = device_early}},
        {"device_taken", {.rail_open = rail_without_devices, .bulk_recv = device_taken}},
        {"borrow_early", {.bulk_send = send_early, .progress = progress_early}},
        {"borrow_shifted", {.bulk_read = read_shifted}},
        {"borrow_unread", {.bulk_read = read_not}},
        {"borrow_revoked", {.bulk_return = return_counts}},
        {"borrow_kept", {.bulk_cancel = cancel_ignored}},
        {"written_after_close",
         {.bulk_recv = bulk_watched,
          .ep_close = close_noted,
          .progress = progress_writing}},
        {"impatient", {.bulk_recv = recv_noted, .progress = progress_impatient}},
        {"cancel_inside", {.bulk_cancel = cancel_inside}},
        {"cancel_ignored", {.bulk_cancel = cancel_ignored}},
        {"close_ignored", {.ep_close = close_ignored}},
        {"close_inside", {.ep_close = close_inside}},
        {"arm_not", {.arm = arm_not}},
        {"leak", {.rail_open = rail_leaking}},
        {"leak_fd", {.rail_open = rail_leaking_fd}},
        {"leak_unseen", {.rail_open = rail_growing}},
    };
    if (!fault)
        return ops;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const struct transport_ops *with = &faults[i].with;
        if (strcmp(faults[i].fault, fault) != 0)
            continue;
        good = ops;
        bad = *ops;
        bad.frame_begin = with->frame_begin ? with->frame_begin : ops->frame_begin;
        bad.frame_commit = with->frame_commit ? with->frame_commit : ops->frame_commit;
        bad.bulk_send = with->bulk_send ? with->bulk_send : ops->bulk_send;
        bad.bulk_recv = with->bulk_recv ? with->bulk_recv : ops->bulk_recv;
        bad.bulk_cancel = with->bulk_cancel ? with->bulk_cancel : ops->bulk_cancel;
        bad.bulk_read = with->bulk_read ? with->bulk_read : ops->bulk_read;
        bad.bulk_return = with->bulk_return ? with->bulk_return : ops->bulk_return;
        bad.ep_close = with->ep_close ? with->ep_close : ops->ep_close;
        bad.progress = with->progress ? with->progress : ops->progress;
        bad.arm = with->arm ? with->arm : ops->arm;
        bad.rail_open = with->rail_open ? with->rail_open : ops->rail_open;
        return &bad;
    }
    abort();
}
