/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting: two processes share a segment and agree on how bulk moves between them.
 *
 * One idea: a message only records the next step; progress takes the step, and all events
 * come from progress.
 * Invariant: an endpoint becomes ready only with a segment that carries both nonces, and
 * uses process_vm_readv only after it has read the peer's nonce with it.
 *
 *   initiator  START ─ HELLO ─▶ WAIT ── ACCEPT ──▶ VERIFY ─ CONFIRM ─▶ ready
 *   responder  START ─────────▶ WAIT ── HELLO ───▶ ANSWER ─ segment, ACCEPT ─▶ WAIT
 *                                    ── CONFIRM ─▶ DONE ─────────────▶ ready
 *   either     a failure here: REFUSING ─ REFUSE ─▶ refused
 *              REFUSE comes:   REFUSED ─▶ refused
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/os/foreign_fd.h"
#include "shm_connect.h"
#include "shm_copy.h"
#include "shm_region.h"
#include "transports/memory/memfd.h"

tryst_status shm_send(struct shm_ep *ep, enum shm_type type,
                      const struct shm_message *model, int fd)
{
    struct endpoint *base = &ep->pair.base;
    struct shm_message message = {0};
    if (model)
        message = *model;
    message.type = type;
    message.version = SHM_VERSION;
    message.cookie = ep->pair.params.cookie;
    message.nonce = ep->nonce;
    return base->rail->events->connect_send(base, &message, sizeof message, fd);
}

static void step_set(struct shm_ep *ep, enum shm_step step)
{
    ep->step = step;
    ep->pair.due = true;
}

/* Record a failure of this side: the next progress reports it to the peer and the layer
 * above. */
static void refuse(struct shm_ep *ep, const char *what, int error)
{
    char reason[64];
    if (error)
        snprintf(ep->pair.text, sizeof ep->pair.text, "shm: %s: %s", what,
                 strerror_r(error, reason, sizeof reason));
    else
        snprintf(ep->pair.text, sizeof ep->pair.text, "shm: %s", what);
    step_set(ep, SHM_REFUSING);
}

/* --- the segment --- */

static bool segment_map(struct shm_ep *ep, int fd, uint64_t ring_bytes)
{
    size_t bytes = pair_area_bytes(ring_bytes);
    void *area =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (area == MAP_FAILED)
        return false;
    /* A forked child must neither keep the segment alive nor write to it. */
    (void)madvise(area, bytes, MADV_DONTFORK);
    ep->pair.area = area;
    ep->area_bytes = bytes;
    return true;
}

/* Make the segment. Returns its descriptor, or -1 after a refusal. */
static int segment_make(struct shm_ep *ep)
{
    uint64_t ring_bytes = ep->ring_bytes;
    int fd = -1;
    if (memfd_create_sealed("tryst-pair", pair_area_bytes(ring_bytes), &fd) != TRYST_OK) {
        refuse(ep, "cannot create a shared segment", errno);
        return -1;
    }
    if (!segment_map(ep, fd, ring_bytes)) {
        refuse(ep, "cannot map the shared segment", errno);
        close(fd);
        return -1;
    }
    pair_area_init(ep->pair.area, ring_bytes, ep->pair.params.peer_nonce, ep->nonce);
    pair_attach(&ep->pair, ep->pair.area, ring_bytes);
    return fd;
}

static bool ring_bytes_valid(uint64_t bytes)
{
    return bytes >= PAIR_RING_BYTES_MIN && bytes <= PAIR_RING_BYTES_MAX &&
           bytes % PAIR_LINE_BYTES == 0;
}

/* Handle HELLO. The rings get the smaller of the two settings, so neither rank makes the
 * other populate more memory than that rank's own setting. */
static void hello_handle(struct shm_ep *ep, const struct shm_message *message)
{
    uint64_t own = pair_ep_rail(&ep->pair)->ring_bytes;
    if (!ring_bytes_valid(message->bytes)) {
        refuse(ep, "the ring size of the peer's HELLO is not valid", 0);
        return;
    }
    ep->ring_bytes = message->bytes < own ? message->bytes : own;
    ep->peer_nonce_address = message->address;
    step_set(ep, SHM_ANSWER);
}

/* Map the segment that came with ACCEPT. False after a refusal. */
static bool segment_take(struct shm_ep *ep, const struct shm_message *message, int fd)
{
    const struct ep_params *params = &ep->pair.params;
    if (fd == TRANSPORT_FD_LOST) {
        refuse(
            ep,
            "cannot receive the segment: no descriptor left; raise the limit (ulimit -n)",
            0);
        return false;
    }
    if (fd < 0 || !ring_bytes_valid(message->bytes)) {
        refuse(ep, "the peer's ACCEPT lacks its segment, or the ring size is not valid",
               0);
        return false;
    }
    if (message->bytes > pair_ep_rail(&ep->pair)->ring_bytes) {
        refuse(ep, "the peer's ring is larger than this rank's TRYST_SHM_RING_BYTES", 0);
        return false;
    }
    const char *wrong = memfd_refusal(fd, pair_area_bytes(message->bytes));
    if (!wrong && !segment_map(ep, fd, message->bytes)) {
        refuse(ep, "cannot map the peer's segment", errno);
        return false;
    }
    if (!wrong)
        wrong =
            pair_area_check(ep->pair.area, message->bytes, ep->nonce, params->peer_nonce);
    if (wrong) {
        refuse(ep, wrong, 0);
        return false;
    }
    pair_attach(&ep->pair, ep->pair.area, message->bytes);
    return true;
}

/* --- mechanisms for bulk --- */

static void mechs_find(struct shm_ep *ep)
{
    uint32_t allowed = shm_ep_rail(ep)->mechs_allowed;
    ep->in_mechs = allowed & ~(uint32_t)SHM_CAN_READ;
    if (!(allowed & SHM_CAN_READ))
        snprintf(ep->in_why, sizeof ep->in_why, "as TRYST_SHM_MECH requires");
    else if (shm_read_verify(ep, ep->in_why))
        ep->in_mechs |= SHM_CAN_READ;
}

static tryst_status mechs_send(struct shm_ep *ep, enum shm_type type, int fd)
{
    struct shm_message message = {.address = (uint64_t)(uintptr_t)&ep->nonce,
                                  .bytes = ep->ring_bytes,
                                  .mechs = ep->in_mechs};
    memcpy(message.text, ep->in_why, sizeof message.text);
    return shm_send(ep, type, &message, fd);
}

static void mechs_read(struct shm_ep *ep, const struct shm_message *message)
{
    uint32_t allowed = shm_ep_rail(ep)->mechs_allowed;
    memcpy(ep->out_why, message->text, sizeof ep->out_why);
    ep->out_why[sizeof ep->out_why - 1] = '\0';
    ep->out_mechs = message->mechs & allowed;
    if ((message->mechs & SHM_CAN_READ) && !(allowed & SHM_CAN_READ))
        snprintf(ep->out_why, sizeof ep->out_why, "as TRYST_SHM_MECH requires");
}

static const char *mechs_name(uint32_t mechs)
{
    static const char *const names[2][3] = {{"ring", "stage", "cma"},
                                            {"map+ring", "map+stage", "map+cma"}};
    unsigned plain = mechs & SHM_CAN_READ ? 2 : mechs & SHM_CAN_STAGE ? 1 : 0;
    return names[(mechs & SHM_CAN_MAP) != 0][plain];
}

/* Report ready, with a text such as "map+cma: process_vm_readv verified", or with one for
 * each direction if their mechanisms differ. */
static void connected(struct shm_ep *ep)
{
    char text[TRANSPORT_TEXT_MAX];
    const char *in = mechs_name(ep->in_mechs), *out = mechs_name(ep->out_mechs);
    if (ep->in_mechs == ep->out_mechs)
        snprintf(text, sizeof text, "%s: %s", in, ep->in_why);
    else
        snprintf(text, sizeof text, "in %s: %.55s; out %s: %.55s", in, ep->in_why, out,
                 ep->out_why);
    ep->pair.base.borrows = ep->in_mechs & ~(uint32_t)SHM_CAN_DEVICE;
    pair_connected(&ep->pair, text);
}

/* --- steps, in progress --- */

static void step_hello(struct shm_ep *ep)
{
    struct shm_message hello = {.address = (uint64_t)(uintptr_t)&ep->nonce,
                                .bytes = pair_ep_rail(&ep->pair)->ring_bytes};
    if (shm_send(ep, SHM_HELLO, &hello, -1) != TRYST_OK)
        refuse(ep, "cannot send HELLO over the link", 0);
}

static void step_answer(struct shm_ep *ep)
{
    ep->step = SHM_WAIT;
    int fd = segment_make(ep);
    if (fd < 0)
        return;
    mechs_find(ep);
    if (mechs_send(ep, SHM_ACCEPT, fd) != TRYST_OK)
        refuse(ep, "cannot send the segment's descriptor over the link", 0);
    close(fd);
}

static void step_verify(struct shm_ep *ep)
{
    mechs_find(ep);
    if (mechs_send(ep, SHM_CONFIRM, -1) != TRYST_OK)
        pair_refused(&ep->pair, "shm: the link closed while connecting");
    else
        connected(ep);
}

static void step_refusing(struct shm_ep *ep)
{
    struct shm_message message = {0};
    snprintf(message.text, sizeof message.text, "%.90s", ep->pair.text);
    (void)shm_send(ep, SHM_REFUSE, &message, -1);
    pair_refused(&ep->pair, ep->pair.text);
}

void shm_connect(struct pair_ep *pair)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    switch (ep->step) {
    case SHM_START:
        ep->step = SHM_WAIT;
        if (pair->loopback)
            pair_refused(pair, "shm: a context reaches itself by self, not by shm");
        else if (pair->params.initiator)
            step_hello(ep);
        break;
    case SHM_ANSWER: step_answer(ep); break;
    case SHM_VERIFY: step_verify(ep); break;
    case SHM_DONE: connected(ep); break;
    case SHM_REFUSING: step_refusing(ep); break;
    case SHM_REFUSED: pair_refused(pair, pair->text); break;
    case SHM_WAIT: break;
    }
}

/* --- messages --- */

static void refuse_handle(struct shm_ep *ep, const struct shm_message *message)
{
    snprintf(ep->pair.text, sizeof ep->pair.text, "%.*s (reported by the peer)",
             (int)sizeof message->text, message->text);
    step_set(ep, SHM_REFUSED);
}

/* Handle a message about a region. Such messages come after the peer's CONFIRM, maybe
 * before this side's next progress. False: the message is of another type. */
static bool region_message_handle(struct shm_ep *ep, const struct shm_message *message,
                                  int fd)
{
    if (message->type == SHM_REGION || message->type == SHM_DEVICE)
        shm_region_handle(ep, message, fd);
    else if (message->type == SHM_DROP)
        shm_region_drop(ep, message->region);
    else
        return false;
    return true;
}

static void opening_handle(struct shm_ep *ep, const struct shm_message *message, int fd)
{
    bool initiator = ep->pair.params.initiator;
    if (message->type == SHM_REFUSE) {
        refuse_handle(ep, message);
    } else if (message->type == SHM_HELLO && !initiator && ep->step <= SHM_WAIT &&
               !ep->pair.area) {
        hello_handle(ep, message);
    } else if (message->type == SHM_ACCEPT && initiator && ep->step == SHM_WAIT) {
        if (!segment_take(ep, message, fd))
            return;
        ep->peer_nonce_address = message->address;
        mechs_read(ep, message);
        step_set(ep, SHM_VERIFY);
    } else if (message->type == SHM_CONFIRM && !initiator && ep->step == SHM_WAIT &&
               ep->pair.area) {
        mechs_read(ep, message);
        step_set(ep, SHM_DONE);
    } else if (ep->step != SHM_DONE || !region_message_handle(ep, message, fd)) {
        refuse(ep, "the peer sent a message out of turn", 0);
    }
}

static void shm_message_handle(struct shm_ep *ep, const void *data, size_t bytes, int fd)
{
    const struct ep_params *params = &ep->pair.params;
    struct shm_message message = {0};
    const char *wrong = NULL;
    memcpy(&message, data, bytes < sizeof message ? bytes : sizeof message);
    if (bytes != sizeof message || message.version != SHM_VERSION)
        wrong = "shm: a connect message of another version";
    else if (message.cookie != params->cookie || message.nonce != params->peer_nonce)
        wrong = "shm: a connect message with a wrong cookie or nonce";
    if (ep->pair.state == PAIR_OPENING && wrong)
        refuse(ep, wrong + 5, 0);
    else if (ep->pair.state == PAIR_OPENING)
        opening_handle(ep, &message, fd);
    else if (ep->pair.state == PAIR_READY && wrong)
        pair_fail(&ep->pair, TRYST_E_PROTOCOL, "%s", wrong);
    else if (ep->pair.state == PAIR_READY && !region_message_handle(ep, &message, fd))
        pair_fail(&ep->pair, TRYST_E_PROTOCOL, "shm: a message of type %u when connected",
                  message.type);
}

void shm_message(struct endpoint *base, const void *data, size_t bytes, int fd)
{
    struct shm_ep *ep = (struct shm_ep *)base;
    shm_message_handle(ep, data, bytes, fd);
    foreign_fd_close(fd);
}

void shm_detach(struct pair_ep *pair)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    shm_regions_end(ep);
    if (pair->area)
        munmap(pair->area, ep->area_bytes);
}
