/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport over pipes, written from transports/transport.h alone: an example of a
 * foreign transport, and the proof that the contract is enough. Ranks of one host.
 *
 * Idea: an endpoint makes two pipes, one for frames and one for bulk, so that no frame
 * queues behind bulk, and passes their read ends to the peer in its two connect messages.
 * The endpoint is ready when it has the peer's two read ends. A message in either pipe is
 * a head and a body. A frame is sent as an internal bulk.
 * Invariants: the peer's pipes are reopened, so their flags are private and no read
 * blocks. The endpoint keeps the read ends of the pipes that it writes to, so no write
 * raises SIGPIPE; the end of the peer is detected by reading. Events and completions come
 * from `progress` alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/os/poller.h"
#include "transports/module.h"

enum { FRAMES, BULK, PIPES };
enum { OPENING, REFUSED, READY, BROKEN, CLOSING };
enum { PASS_BYTES = 1 << 18, HELLO_MAGIC = 0x70697065 };

struct head {
    uint64_t tag, bytes;
};

/* In bulk->scratch while the transport owns the bulk. */
struct slot {
    struct bulk *next;
    struct head head;
    size_t at; /* bytes of head and body that were sent or received */
    tryst_status status;
};

/* The input from one pipe of the peer. */
struct inlet {
    struct poller_source source; /* fd -1: not received yet, or at end of file */
    struct head head;
    size_t at;         /* of head and body */
    struct bulk *into; /* NULL: the body is discarded */
};

struct pipe_ep {
    struct endpoint base;
    struct pipe_ep *next;
    uint64_t cookie;
    int state, out[PIPES][2]; /* out: made here; [0] is the peer's end */
    /* reason; OPENING: refuse the peer, READY: the endpoint is broken */
    const char *why;
    tryst_status how;
    struct inlet in[PIPES];
    struct bulk *sends[PIPES], *posted, *finished;
    struct bulk sent, got; /* the frame being sent, and the frame being received */
    uint64_t sent_frame[TRANSPORT_FRAME_BYTES / 8], got_frame[TRANSPORT_FRAME_BYTES / 8];
};

struct pipe_rail {
    struct rail base;
    const struct tryst_host *host;
    struct poller *poller;
    struct pipe_ep *eps;
};

static struct slot *slot_of(struct bulk *bulk)
{
    return (struct slot *)(void *)&bulk->scratch;
}

static struct pipe_ep *ep_of(struct endpoint *base)
{
    return (struct pipe_ep *)(void *)base;
}

static struct pipe_rail *rail_of(struct rail *base)
{
    return (struct pipe_rail *)(void *)base;
}

static void append(struct bulk **list, struct bulk *bulk)
{
    while (*list)
        list = &slot_of(*list)->next;
    slot_of(bulk)->next = NULL;
    *list = bulk;
}

/* Remove `bulk`, or (NULL) the bulk with this tag, from `list`; NULL: not found. */
static struct bulk *take(struct bulk **list, const struct bulk *bulk, uint64_t tag)
{
    while (*list && (bulk ? *list != bulk : (*list)->tag != tag))
        list = &slot_of(*list)->next;
    struct bulk *found = *list;
    if (found)
        *list = slot_of(found)->next;
    return found;
}

static void finish(struct pipe_ep *ep, struct bulk *bulk, tryst_status status)
{
    if (bulk == &ep->sent || bulk == &ep->got)
        return; /* a frame has no completion */
    slot_of(bulk)->status = status;
    append(&ep->finished, bulk);
}

/* Stop reading pipe `which`. */
static void in_close(struct pipe_ep *ep, int which)
{
    struct pipe_rail *rail = rail_of(ep->base.rail);
    struct poller_source *source = &ep->in[which].source;
    if (source->fd < 0)
        return;
    rail->host->poller_remove(rail->poller, source);
    close(source->fd);
    source->fd = -1;
}

/* Shut the endpoint down: all bulk ends, all descriptors are closed. */
static void shut(struct pipe_ep *ep, int state, tryst_status status)
{
    ep->state = state;
    for (int i = 0; i < PIPES; i++) {
        struct bulk **lists[] = {&ep->in[i].into, &ep->sends[i], &ep->posted};
        for (int k = 0; k < 3; k++)
            while (*lists[k] && (k || ep->in[i].into != &ep->got)) {
                struct bulk *bulk = *lists[k];
                *lists[k] = k ? slot_of(bulk)->next : NULL;
                finish(ep, bulk, status);
            }
        in_close(ep, i);
        for (int end = 0; end < 2 && ep->out[i][end] >= 0; end++)
            close(ep->out[i][end]);
        ep->out[i][0] = ep->out[i][1] = -1;
    }
}

/* ---- connecting -------------------------------------------------------------------- */

static void readable(struct poller_source *source, uint32_t events)
{
    (void)source; /* the progress call that follows reads */
    (void)events;
}

/* Open the peer's pipe with private flags; the caller keeps `fd`. */
static bool in_open(struct pipe_ep *ep, uint64_t which, int fd)
{
    struct pipe_rail *rail = rail_of(ep->base.rail);
    struct stat info;
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (which >= PIPES || ep->in[which].source.fd >= 0 || fstat(fd, &info) != 0 ||
        !S_ISFIFO(info.st_mode))
        return false;
    struct poller_source *source = &ep->in[which].source;
    int mine = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    *source = (struct poller_source){mine, EPOLLIN, readable};
    if (mine >= 0 && rail->host->poller_add(rail->poller, source) != TRYST_OK) {
        close(mine);
        source->fd = -1;
    }
    return source->fd >= 0;
}

static bool connect_begin(struct pipe_ep *ep, bool loopback)
{
    const struct rail_events *events = ep->base.rail->events;
    for (uint64_t i = 0; i < PIPES; i++) {
        uint64_t hello[] = {ep->cookie, HELLO_MAGIC, i};
        int *out = ep->out[i];
        if (pipe2(out, O_NONBLOCK | O_CLOEXEC) != 0)
            return false;
        if (loopback ? !in_open(ep, i, out[0])
                     : events->connect_send(&ep->base, hello, sizeof hello, out[0]) !=
                           TRYST_OK)
            return false;
    }
    return true;
}

static tryst_status ep_open(struct rail *base, const struct ep_params *params,
                            struct endpoint **ep_p)
{
    struct pipe_rail *rail = rail_of(base);
    struct pipe_ep *ep = rail->host->alloc(sizeof *ep);
    if (!ep)
        return TRYST_E_NOMEM;
    ep->base = (struct endpoint){.rail = base, .arg = params->arg};
    ep->cookie = params->cookie;
    ep->sent.data = ep->sent_frame;
    ep->got.data = ep->got_frame;
    ep->got.bytes = sizeof ep->got_frame;
    for (int i = 0; i < PIPES; i++)
        ep->in[i].source.fd = ep->out[i][0] = ep->out[i][1] = -1;
    if (!connect_begin(ep, params->loopback)) {
        shut(ep, CLOSING, TRYST_OK);
        rail->host->free(ep);
        return TRYST_E_UNREACHABLE;
    }
    ep->next = rail->eps;
    rail->eps = ep;
    *ep_p = &ep->base;
    return TRYST_OK;
}

static void broken(struct pipe_ep *ep, tryst_status how, const char *why)
{
    ep->how = how;
    ep->why = why;
}

static void ep_message(struct endpoint *base, const void *data, size_t bytes, int fd)
{
    struct pipe_ep *ep = ep_of(base);
    uint64_t hello[3] = {0};
    memcpy(hello, data, bytes == sizeof hello ? bytes : 0);
    bool right = hello[0] == ep->cookie && hello[1] == HELLO_MAGIC && fd >= 0;
    if (!right || ep->state != OPENING || !in_open(ep, hello[2], fd))
        broken(ep, TRYST_E_PROTOCOL, "a connect message without a pipe");
    if (fd >= 0)
        close(fd);
}

static void ep_close(struct endpoint *base)
{
    shut(ep_of(base), CLOSING, TRYST_E_CANCELED);
}

/* ---- output ------------------------------------------------------------------------ */

/* Write the queue of pipe `which`, as far as there is room. */
static int out_flush(struct pipe_ep *ep, int which)
{
    struct bulk *bulk;
    size_t moved = 0;
    while ((bulk = ep->sends[which]) != NULL && moved < PASS_BYTES) {
        struct slot *slot = slot_of(bulk);
        size_t head = slot->at < sizeof slot->head ? sizeof slot->head - slot->at : 0;
        size_t body = slot->at - (sizeof slot->head - head);
        struct iovec parts[] = {{(char *)(&slot->head + 1) - head, head},
                                {(char *)bulk->data + body, bulk->bytes - body}};
        ssize_t n = writev(ep->out[which][1], parts, 2);
        slot->at += n > 0 ? (size_t)n : 0;
        moved += n > 0 ? (size_t)n : 0;
        if (slot->at == sizeof slot->head + bulk->bytes)
            finish(ep, take(&ep->sends[which], bulk, 0), TRYST_OK);
        else if (n <= 0)
            break;
    }
    return moved > 0;
}

static tryst_status list_add(struct endpoint *base, struct bulk *bulk, struct bulk **list)
{
    int state = ep_of(base)->state;
    if (!rail_takes(base->rail, bulk))
        return TRYST_E_UNSUPPORTED;
    if (state != READY)
        return state == OPENING ? TRYST_AGAIN : TRYST_E_PEER;
    *slot_of(bulk) = (struct slot){.head = {bulk->tag, bulk->bytes}};
    append(list, bulk);
    return TRYST_OK;
}

static tryst_status frame_begin(struct endpoint *base, size_t max, void **frame_p)
{
    struct pipe_ep *ep = ep_of(base);
    (void)max;
    *frame_p = ep->sent_frame;
    if (ep->state != READY)
        return ep->state == OPENING ? TRYST_AGAIN : TRYST_E_PEER;
    (void)out_flush(ep, FRAMES);
    return ep->sends[FRAMES] ? TRYST_AGAIN : TRYST_OK;
}

static void frame_commit(struct endpoint *base, size_t bytes)
{
    struct pipe_ep *ep = ep_of(base);
    ep->sent.bytes = bytes;
    (void)list_add(base, &ep->sent, &ep->sends[FRAMES]);
    (void)out_flush(ep, FRAMES);
}

static tryst_status bulk_send(struct endpoint *base, struct bulk *bulk)
{
    return list_add(base, bulk, &ep_of(base)->sends[BULK]);
}

static tryst_status bulk_recv(struct endpoint *base, struct bulk *bulk)
{
    return list_add(base, bulk, &ep_of(base)->posted);
}

static void bulk_cancel(struct endpoint *base, struct bulk *bulk)
{
    struct bulk *found = take(&ep_of(base)->posted, bulk, 0);
    if (found) /* otherwise its message is arriving, or its completion is */
        finish(ep_of(base), found, TRYST_E_CANCELED);
}

/* ---- input ------------------------------------------------------------------------- */

/* After a head, choose the destination of its body. */
static void in_begin(struct pipe_ep *ep, int which)
{
    struct inlet *in = &ep->in[which];
    in->into = which == FRAMES ? &ep->got : take(&ep->posted, NULL, in->head.tag);
    if (which == FRAMES && (in->head.bytes == 0 || in->head.bytes > ep->got.bytes)) {
        broken(ep, TRYST_E_PROTOCOL, "a frame of an invalid size");
    } else if (!in->into) {
        ep->base.rail->events->unexpected(&ep->base, in->head.tag,
                                          (size_t)in->head.bytes);
    } else if (in->head.bytes > in->into->bytes) {
        finish(ep, in->into, TRYST_E_MISMATCH);
        in->into = NULL;
    }
}

static void in_end(struct pipe_ep *ep, int which)
{
    struct inlet *in = &ep->in[which];
    struct bulk *bulk = in->into;
    in->at = 0;
    in->into = NULL;
    if (which == FRAMES) {
        ep->base.rail->events->frame(&ep->base, ep->got_frame, (size_t)in->head.bytes);
    } else if (bulk) {
        slot_of(bulk)->at = (size_t)in->head.bytes;
        finish(ep, bulk, TRYST_OK);
    }
}

static int in_read(struct pipe_ep *ep, int which)
{
    static char drained[1 << 16];
    struct inlet *in = &ep->in[which];
    size_t moved = 0;
    while (moved < PASS_BYTES && ep->state == READY && !ep->why && in->source.fd >= 0) {
        bool is_head = in->at < sizeof in->head;
        size_t body = in->at - sizeof in->head;
        size_t left = is_head ? sizeof in->head - in->at : (size_t)in->head.bytes - body;
        char *to = is_head ? (char *)&in->head + in->at : drained;
        if (!is_head && in->into)
            to = (char *)in->into->data + body;
        else if (left > sizeof drained)
            left = sizeof drained;
        ssize_t n = left ? read(in->source.fd, to, left) : 0;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            broken(ep, TRYST_E_PEER, "cannot read from a pipe");
            break;
        }
        if (n == 0 &&
            left) { /* the peer has closed its end or died: the link reports which */
            in_close(ep, which);
            break;
        }
        in->at += (size_t)n;
        moved += (size_t)n;
        if (is_head && in->at == sizeof in->head)
            in_begin(ep, which);
        if (!ep->why && in->at == sizeof in->head + in->head.bytes)
            in_end(ep, which);
    }
    return moved > 0;
}

/* ---- rail -------------------------------------------------------------------------- */

static bool state_is_due(const struct pipe_ep *ep)
{
    bool both = ep->in[FRAMES].source.fd >= 0 && ep->in[BULK].source.fd >= 0;
    return ep->state == CLOSING || ep->finished || (ep->state == READY && ep->why) ||
           (ep->state == OPENING && (both || ep->why));
}

static int state_report(struct pipe_ep *ep)
{
    const struct rail_events *events = ep->base.rail->events;
    struct bulk *bulk;
    int count = state_is_due(ep);
    if (count && ep->state == OPENING) {
        ep->state = ep->why ? REFUSED : READY;
        events->ready(&ep->base, ep->why ? TRYST_E_UNREACHABLE : TRYST_OK,
                      ep->why ? ep->why : "through pipes");
    } else if (count && ep->state == READY && ep->why) {
        shut(ep, BROKEN, TRYST_E_PEER);
        events->failed(&ep->base, ep->how, ep->why);
    }
    while ((bulk = ep->finished) != NULL) {
        struct slot slot = *slot_of(bulk);
        ep->finished = slot.next;
        bulk->done(bulk, slot.status, slot.status == TRYST_OK ? slot.at : 0);
    }
    return count;
}

static int ep_progress(struct pipe_ep *ep)
{
    int count = 0;
    for (int i = PIPES - 1; i >= 0 && ep->state == READY;
         i--) /* bulk before the frame behind it */
        count += in_read(ep, i);
    for (int i = 0; i < PIPES && ep->state == READY; i++)
        count += out_flush(ep, i);
    return count + state_report(ep);
}

static int rail_progress(struct rail *base)
{
    struct pipe_rail *rail = rail_of(base);
    int count = 0;
    for (struct pipe_ep *ep = rail->eps; ep; ep = ep->next)
        count += ep_progress(ep);
    for (struct pipe_ep **at = &rail->eps, *ep; (ep = *at) != NULL;) {
        if (ep->state != CLOSING || ep->finished) {
            at = &ep->next;
            continue;
        }
        *at = ep->next;
        base->events->closed(&ep->base);
        rail->host->free(ep);
    }
    return count;
}

static tryst_status rail_arm(struct rail *base)
{
    tryst_status status = TRYST_OK;
    for (const struct pipe_ep *ep = rail_of(base)->eps; ep; ep = ep->next) {
        if (state_is_due(ep))
            return TRYST_AGAIN;
        if (ep->sends[FRAMES] || ep->sends[BULK])
            status =
                TRYST_E_UNSUPPORTED; /* no descriptor signals room: poll again soon */
    }
    return status;
}

static void rail_close(struct rail *base)
{
    rail_of(base)->host->free(base);
}

static tryst_status rail_open(const struct rail_params *params, struct rail **rail_p);

static tryst_status probe(const struct tryst_host *host, char *text)
{
    (void)host;
    (void)snprintf(text, TRANSPORT_TEXT_MAX, "pipes between the ranks of one host");
    return TRYST_OK;
}

static const struct transport_ops ops = {.name = "pipe",
                                         .struct_size = sizeof ops,
                                         .probe = probe,
                                         .rail_open = rail_open,
                                         .rail_close = rail_close,
                                         .progress = rail_progress,
                                         .arm = rail_arm,
                                         .ep_open = ep_open,
                                         .ep_message = ep_message,
                                         .ep_close = ep_close,
                                         .frame_begin = frame_begin,
                                         .frame_commit = frame_commit,
                                         .bulk_recv = bulk_recv,
                                         .bulk_send = bulk_send,
                                         .bulk_cancel = bulk_cancel};

static tryst_status rail_open(const struct rail_params *params, struct rail **rail_p)
{
    struct pipe_rail *rail = params->host->alloc(sizeof *rail);
    if (!rail)
        return TRYST_E_NOMEM;
    rail->base = (struct rail){.ops = &ops,
                               .events = params->events,
                               .index = params->index,
                               .tag_bits = 64,
                               .frame_max = TRANSPORT_FRAME_BYTES,
                               .bulk_max = SIZE_MAX / 2,
                               .posted_max = UINT32_MAX};
    rail->host = params->host;
    rail->poller = params->poller;
    *rail_p = &rail->base;
    return TRYST_OK;
}

static const struct tryst_module module = {
    .abi_id = TRYST_MODULE_ABI_ID, .name = "pipe", .version = "1", .ops = &ops};

__attribute__((visibility("default"))) const struct tryst_module *tryst_module_v1(
    const struct tryst_host *host);

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
{
    (void)host;
    return &module;
}
