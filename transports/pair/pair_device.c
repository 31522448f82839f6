/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives into device memory.
 *
 * Idea: the receiver moves the bytes, as for host memory. Bytes in the sender's device
 * memory are copied from there in one piece, on a stream. Bytes that come as host memory,
 * by any mechanism, first go to a pinned slot, and are copied from the slot to the
 * device.
 *
 *   offer of device memory ── device_read ──▶ copying ──▶ confirmed? ──▶ done, TAKEN
 *   any other              ── into the slot ──▶ (TAKEN) copying ───────▶ done
 *
 * Invariant: while a job copies, its receive is in no list of pair_bulk.c. ep->copies
 * counts such jobs, and the endpoint does not end before they have.
 */
#include "pair_device.h"

#include "core/memory/alloc.h"
#include "pair_bulk.h"

static struct pair_job *job_new(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_rail *rail = pair_ep_rail(ep);
    struct list_node *node = list_pop_front(&rail->jobs);
    struct pair_job *job =
        node ? container_of(node, struct pair_job, node) : mem_alloc(sizeof *job);
    if (!job)
        return NULL;
    *job = (struct pair_job){.ep = ep, .bulk = bulk};
    job->copy.memory = bulk->memory;
    job->copy.device = bulk->device;
    job->copy.way = COPY_IN;
    job->copy.dst = bulk->data;
    job->copy.bytes = pair_op_of(bulk)->bytes;
    pair_op_of(bulk)->job = job;
    return job;
}

bool pair_slot_get(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_job *job = job_new(ep, bulk);
    if (!job)
        return false;
    job->slot = slots_get(&pair_ep_rail(ep)->slots, bulk->memory, bulk->device, COPY_IN,
                          pair_op_of(bulk)->bytes);
    if (job->slot) {
        job->copy.src = job->slot->data;
        return true;
    }
    pair_job_drop(bulk);
    return false;
}

void pair_job_drop(struct bulk *bulk)
{
    struct pair_op *op = pair_op_of(bulk);
    struct pair_job *job = op->job;
    if (!job)
        return;
    struct pair_rail *rail = pair_ep_rail(job->ep);
    op->job = NULL;
    if (job->slot)
        slots_put(&rail->slots, COPY_IN, job->slot);
    list_push_front(&rail->jobs, &job->node);
}

/* Complete the receive, after its copy has succeeded or failed. */
static void job_end(struct pair_job *job, tryst_status status)
{
    struct bulk *bulk = job->bulk;
    size_t bytes = pair_op_of(bulk)->bytes;
    job->ep->copies--;
    pair_job_drop(bulk);
    bulk->done(bulk, status, bytes);
}

static void placed(struct copy *copy, tryst_status status)
{
    job_end(container_of(copy, struct pair_job, copy), status);
}

void pair_slot_place(struct pair_ep *ep, struct bulk *bulk)
{
    struct pair_job *job = pair_op_of(bulk)->job;
    job->copy.done = placed;
    ep->copies++;
    copies_start(pair_ep_rail(ep)->copies, &job->copy);
}

static void read_done(struct copy *copy, tryst_status status)
{
    struct pair_job *job = container_of(copy, struct pair_job, copy);
    struct pair_ep *ep = job->ep;
    bool counts = pair_ep_rail(ep)->ops->device_read_end(ep, job);
    if (ep->state == PAIR_READY)
        pair_answer_send(ep, pair_op_of(job->bulk)->slot, PAIR_ANSWER_TAKEN);
    if (status == TRYST_OK && (!counts || ep->state == PAIR_BROKEN))
        status = TRYST_E_PEER;
    job_end(job, status);
}

enum pair_copy pair_device_read(struct pair_ep *ep, struct bulk *bulk)
{
    if (!bulk->memory) /* the sender gets RETRY: this receive is in host memory */
        return PAIR_COPY_RETRY;
    struct pair_job *job = job_new(ep, bulk);
    if (!job)
        return PAIR_COPY_RETRY;
    job->copy.done = read_done;
    enum pair_copy got = pair_ep_rail(ep)->ops->device_read(ep, job);
    if (got == PAIR_COPY_OK)
        ep->copies++;
    else
        pair_job_drop(bulk);
    return got;
}

void pair_devices_init(struct pair_rail *rail)
{
    copies_init(&rail->own_copies);
    rail->copies = rail->host->copies ? rail->host->copies : &rail->own_copies;
    /* Slots have no limit here: the senders' windows bound their bytes. */
    slots_init(&rail->slots, NULL, UINT64_MAX);
    rail->slots.closed = rail->host->closed;
    list_init(&rail->jobs);
}

void pair_devices_end(struct pair_rail *rail)
{
    struct list_node *node;
    copies_end(&rail->own_copies);
    slots_end(&rail->slots);
    while ((node = list_pop_front(&rail->jobs)) != NULL)
        mem_free(container_of(node, struct pair_job, node));
}
