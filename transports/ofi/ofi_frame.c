/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between rails: the handshake, records, and frames.
 *
 * Idea: records about bulk wait at their endpoint and go in front of the next frame. So
 * an announcement always arrives before the frame that depends on it, and mostly costs no
 * message of its own. The head is checked (endpoint and cookie, then order) before the
 * rest of a message is read.
 * Invariant: a packet is held by the fabric, is an endpoint's `unsent`, or is in a list.
 */
#include "ofi_frame.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ofi_bulk.h"
#include "ofi_ep.h"
#include "ofi_memory.h"

/* ---- records ---- */

static tryst_status records_grow(struct ofi_ep *ep)
{
    const struct tryst_host *host = ep_rail(ep)->fabric.host;
    uint32_t capacity = ep->records_capacity ? 2 * ep->records_capacity : 32;
    struct ofi_record *records;
    if (capacity > OFI_RECORDS_LIMIT)
        return TRYST_E_PROTOCOL;
    records = host->alloc(capacity * sizeof *records);
    if (!records)
        return TRYST_E_NOMEM;
    for (uint32_t i = 0; i < ep->records_count; i++)
        records[i] = ep->records[(ep->records_head + i) % ep->records_capacity];
    host->free(ep->records);
    ep->records = records;
    ep->records_capacity = capacity;
    ep->records_head = 0;
    return TRYST_OK;
}

void ofi_record_add(struct ofi_ep *ep, enum ofi_record_kind kind, uint64_t tag,
                    uint64_t value)
{
    tryst_status status = TRYST_OK;
    if (ep->records_count == ep->records_capacity)
        status = records_grow(ep);
    if (status == TRYST_E_PROTOCOL)
        fabric_ep_fail(
            &ep->fabric, status,
            "protocol error: the peer sends requests faster than it reads the replies");
    else if (status != TRYST_OK)
        fabric_ep_fail(&ep->fabric, status, "cannot add a record: out of memory");
    if (status != TRYST_OK)
        return;
    ep->records[(ep->records_head + ep->records_count) % ep->records_capacity] =
        ofi_record_make(kind, tag, value);
    ep->records_count++;
    fabric_ep_due(&ep->fabric, FABRIC_DUE_PUMP);
}

static uint32_t records_pack(const struct ofi_ep *ep, void *data)
{
    uint32_t count =
        ep->records_count < OFI_RECORDS_MAX ? ep->records_count : OFI_RECORDS_MAX;
    for (uint32_t i = 0; i < count; i++)
        memcpy((unsigned char *)data + i * sizeof(struct ofi_record),
               &ep->records[(ep->records_head + i) % ep->records_capacity],
               sizeof(struct ofi_record));
    return count;
}

static void records_pop(struct ofi_ep *ep, uint32_t count)
{
    if (!count)
        return;
    ep->records_head = (ep->records_head + count) % ep->records_capacity;
    ep->records_count -= count;
}

/* ---- sending ---- */

/* Give a message in `packet` to the fabric. A short one is injected, and the packet is
 * free again; a long one keeps the packet until the fabric has sent it. 0 or -FI_E…. */
static int message_start(struct ofi_ep *ep, struct ofi_packet *packet, size_t bytes)
{
    struct ofi_rail *rail = ep_rail(ep);
    ssize_t rc;
    if (bytes <= rail->info->tx_attr->inject_size) {
        rc = fi_inject(rail->messages, packet->data, bytes, ep->peer_messages);
        if (rc == 0)
            ofi_packet_put(rail, packet);
        return (int)rc;
    }
    packet->work.what = OFI_WHAT_TX;
    packet->ep = ep;
    rc = fi_send(rail->messages, packet->data, bytes, packet->desc, ep->peer_messages,
                 &packet->work.context);
    if (rc == 0) {
        list_push_back(&ep->packets, &packet->node);
        ep->packets_active++;
        rail->live++;
    }
    return (int)rc;
}

static bool no_room(int rc)
{
    return rc == -FI_EAGAIN || rc == -FI_ENOMEM;
}

/* Fail the endpoint: the fabric has refused a message for a reason other than lack of
 * room. */
static tryst_status message_refused(struct ofi_ep *ep, struct ofi_packet *packet, int rc)
{
    ofi_packet_put(ep_rail(ep), packet);
    fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "libfabric refused a message: %s",
                   fi_strerror(-rc));
    return fabric_ep_usable(&ep->fabric);
}

/* Send the frame for which the fabric had no room when it was committed. It must leave
 * before any later message. TRYST_AGAIN: still no room. */
static tryst_status unsent_start(struct ofi_ep *ep)
{
    struct ofi_packet *packet = ep->unsent;
    int rc = packet ? message_start(ep, packet, ep->unsent_bytes) : 0;
    if (no_room(rc))
        return TRYST_AGAIN;
    ep->unsent = NULL;
    return rc == 0 ? TRYST_OK : message_refused(ep, packet, rc);
}

/* Begin a message in the rail's first free packet, which stays in the free list until
 * message_end. *at_p receives the address behind the head and the records. */
static tryst_status message_begin(struct ofi_ep *ep, enum ofi_kind kind,
                                  unsigned char **at_p)
{
    struct ofi_rail *rail = ep_rail(ep);
    struct ofi_head head = {.cookie = ep->fabric.cookie,
                            .ep_id = ep->fabric.peer_id,
                            .sequence = ep->fabric.send_sequence,
                            .kind = (uint16_t)kind};
    struct ofi_packet *packet;
    tryst_status status = unsent_start(ep);
    if (status != TRYST_OK)
        return status;
    if (ep->packets_active >= OFI_EP_PACKETS_MAX || rail->live >= OFI_CQ_SIZE ||
        !(packet = ofi_packet_get(rail)))
        return TRYST_AGAIN;
    ofi_packet_put(rail, packet);
    if (kind == OFI_DATA)
        head.records = (uint16_t)records_pack(ep, packet->data + sizeof head);
    memcpy(packet->data, &head, sizeof head);
    *at_p = packet->data + sizeof head + head.records * sizeof(struct ofi_record);
    return TRYST_OK;
}

/* Give the message that was begun, with `bytes` behind its records, to the fabric. If the
 * fabric has no room: TRYST_AGAIN, or, with `keeps`, the message becomes ep->unsent and
 * counts as sent. */
static tryst_status message_end(struct ofi_ep *ep, size_t bytes, bool keeps)
{
    /* the same packet as in message_begin */
    struct ofi_packet *packet = ofi_packet_get(ep_rail(ep));
    struct ofi_head head;
    memcpy(&head, packet->data, sizeof head);
    bytes += sizeof head + head.records * sizeof(struct ofi_record);
    int rc = message_start(ep, packet, bytes);
    if (no_room(rc) && !keeps) {
        ofi_packet_put(ep_rail(ep), packet);
        return TRYST_AGAIN;
    }
    if (no_room(rc)) {
        ep->unsent = packet;
        ep->unsent_bytes = bytes;
        fabric_ep_due(&ep->fabric, FABRIC_DUE_PUMP);
    } else if (rc != 0) {
        return message_refused(ep, packet, rc);
    }
    ep->fabric.send_sequence++;
    records_pop(ep, head.records);
    return TRYST_OK;
}

tryst_status ofi_message_send(struct ofi_ep *ep, enum ofi_kind kind, const void *data,
                              size_t bytes)
{
    unsigned char *at;
    tryst_status status = message_begin(ep, kind, &at);
    if (status != TRYST_OK)
        return status;
    if (bytes)
        memcpy(at, data, bytes);
    return message_end(ep, bytes, false);
}

void ofi_message_sent(struct ofi_rail *rail, struct ofi_packet *packet, int error)
{
    struct ofi_ep *ep = packet->ep;
    ofi_packet_put(rail, packet);
    if (!ep)
        return; /* its endpoint closed before */
    ep->packets_active--;
    if (error)
        fabric_ep_fail(&ep->fabric, TRYST_E_PEER, "a message could not be sent: %s",
                       fi_strerror(error));
}

tryst_status ofi_records_send(struct ofi_ep *ep)
{
    struct ofi_rail *rail = ep_rail(ep);
    tryst_status status = unsent_start(ep);
    /* post the greeting's receive first: the peer may greet once it has the address */
    if (status == TRYST_OK && ep->place_due && !ep->initiator)
        status = ofi_bulk_greet(ep);
    if (status != TRYST_OK)
        return status;
    if (ep->place_due) {
        unsigned char address[OFI_ADDRESS_MAX];
        size_t bytes = sizeof address;
        int rc = fi_getname(&ep->bulk->fid, address, &bytes);
        if (rc != 0) {
            fabric_ep_fail(&ep->fabric, TRYST_E_SYSTEM,
                           "cannot read the address of the bulk endpoint on %s: %s",
                           rail->fabric.name, fi_strerror(-rc));
            return TRYST_E_PEER;
        }
        status = ofi_message_send(ep, OFI_PLACE, address, bytes);
        if (status != TRYST_OK)
            return status;
        ep->place_due = false;
    }
    while (status == TRYST_OK && ep->records_count > 0)
        status = ofi_message_send(ep, OFI_DATA, NULL, 0);
    return status;
}

tryst_status ofi_frame_begin(struct endpoint *base, size_t max, void **frame_p)
{
    struct ofi_ep *ep = (struct ofi_ep *)base;
    unsigned char *at = NULL;
    tryst_status status = fabric_ep_usable(&ep->fabric);
    assert(max > 0 && max <= OFI_FRAME_MAX);
    if (status != TRYST_OK)
        return status;
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    if (ep->place_due || ep->records_count > OFI_RECORDS_MAX)
        status = ofi_records_send(ep);
    if (status == TRYST_OK)
        status = message_begin(ep, OFI_DATA, &at);
    *frame_p = at;
    return status;
}

void ofi_frame_commit(struct endpoint *base, size_t bytes)
{
    struct ofi_ep *ep = (struct ofi_ep *)base;
    FABRIC_LOG_SCOPE(ep_rail(ep)->fabric.host);
    (void)message_end(ep, bytes, true); /* a refused frame has broken the endpoint */
}

/* ---- receiving ---- */

void ofi_message_post(struct ofi_rail *rail, struct ofi_packet *packet)
{
    ssize_t rc;
    packet->work.what = OFI_WHAT_RX;
    rc = fi_recv(rail->messages, packet->data, sizeof packet->data, packet->desc,
                 FI_ADDR_UNSPEC, &packet->work.context);
    if (rc == 0) {
        rail->live++;
        return;
    }
    list_push_back(&rail->unposted, &packet->node); /* progress tries again */
    if (rc != -FI_EAGAIN)
        fabric_rail_log(&rail->fabric, TRYST_LOG_ERROR, "libfabric refused a receive: %s",
                        fi_strerror((int)-rc));
}

static void data_handle(struct ofi_ep *ep, const struct ofi_head *head,
                        const unsigned char *data, size_t bytes)
{
    size_t records_bytes = head->records * sizeof(struct ofi_record);
    if (head->records > OFI_RECORDS_MAX || records_bytes > bytes ||
        bytes - records_bytes > OFI_FRAME_MAX) {
        fabric_ep_fail(&ep->fabric, TRYST_E_PROTOCOL,
                       "protocol error: a message of %u records in %zu bytes",
                       head->records, bytes);
        return;
    }
    for (uint32_t i = 0; i < head->records && ep->fabric.state == FABRIC_READY; i++) {
        struct ofi_record record;
        memcpy(&record, data + i * sizeof record, sizeof record);
        ofi_bulk_record(ep, &record);
    }
    if (bytes > records_bytes && ep->fabric.state == FABRIC_READY)
        ep->fabric.base.rail->events->frame(&ep->fabric.base, data + records_bytes,
                                            bytes - records_bytes);
}

static void place_handle(struct ofi_ep *ep, const void *data, size_t bytes)
{
    if (!ofi_address_insert(ep, data, bytes, &ep->peer_bulk))
        return;
    (void)ofi_bulk_open(ep);
    fabric_ep_due(&ep->fabric, FABRIC_DUE_PUMP); /* for the greeting */
}

/* Handle a message. The endpoint's state determines which kinds may come; a message out
 * of turn fails the endpoint. */
static void ofi_message_handle(struct ofi_ep *ep, const struct ofi_head *head,
                               const unsigned char *data, size_t bytes)
{
    bool opening = ep->fabric.state == FABRIC_OPENING;
    if (!fabric_ep_sequence_advance(&ep->fabric, head->sequence))
        return;
    if (head->kind == OFI_HELLO && opening && !ep->hello_seen) {
        ep->hello_seen = true;
        fabric_ep_due(&ep->fabric, FABRIC_DUE_CONNECT);
        return;
    }
    if (head->kind == OFI_CONFIRM && opening && ep->hello_seen &&
        !ep->fabric.confirm_seen) {
        ep->fabric.confirm_seen = true;
        fabric_ep_due(&ep->fabric, FABRIC_DUE_CONNECT);
        return;
    }
    /* The peer sent this after CONFIRM, which may have come in this same call of
     * progress. */
    if (opening && ep->fabric.confirm_sent && ep->fabric.confirm_seen)
        ofi_ep_ready_report(ep);
    if (ep->fabric.state == FABRIC_READY && head->kind == OFI_DATA)
        data_handle(ep, head, data, bytes);
    else if (ep->fabric.state == FABRIC_READY && head->kind == OFI_PLACE)
        place_handle(ep, data, bytes);
    else
        fabric_ep_fail(&ep->fabric, TRYST_E_PROTOCOL,
                       "protocol error: a message of kind %u out of turn", head->kind);
}

void ofi_message_received(struct ofi_rail *rail, struct ofi_packet *packet, size_t bytes)
{
    struct ofi_head head;
    struct ofi_ep *ep;
    if (bytes < sizeof head || bytes > sizeof packet->data) {
        rail->fabric.unauthenticated++;
        return;
    }
    memcpy(&head, packet->data, sizeof head);
    ep = fabric_ep_receiver(&rail->fabric, head.ep_id, head.cookie);
    if (ep && fabric_ep_is_live(&ep->fabric))
        ofi_message_handle(ep, &head, packet->data + sizeof head, bytes - sizeof head);
}
