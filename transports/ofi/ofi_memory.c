/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a rail gives to the fabric: packets, operations, registrations.
 *
 * Idea: all of it belongs to the rail, so memory that the fabric keeps when an endpoint
 * closes (a message to a stopped peer) stays valid until the fabric itself is gone.
 * Invariant: where the fabric needs host memory registered (FI_MR_LOCAL), a chunk of
 * packets has one registration, a region of the caller's has one per rail, and any other
 * bulk has its own. The same holds for device memory where the fabric needs it registered
 * (FI_MR_HMEM). Device memory that cannot be registered is refused before the fabric gets
 * it, so that it goes through a pinned slot (bounce.h).
 */
#include "ofi_memory.h"

static tryst_status device_mr_open(struct ofi_rail *rail, const void *data, size_t bytes,
                                   int32_t device, struct fid_mr **mr_p)
{
    const struct iovec range = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    const struct fi_mr_attr attr = {.mr_iov = &range,
                                    .iov_count = 1,
                                    .access = FI_SEND | FI_RECV,
                                    .requested_key = ++rail->mr_key,
                                    .iface = FI_HMEM_CUDA,
                                    .device.cuda = device};
    int rc = fi_mr_regattr(rail->domain, &attr, 0, mr_p);
    if (rc == 0)
        return TRYST_OK;
    if (!rail->mr_failure_logged)
        fabric_rail_log(&rail->fabric, TRYST_LOG_INFO,
                        "cannot register %zu bytes of cuda memory (%s): using pinned "
                        "slots for such memory",
                        bytes, fi_strerror(-rc));
    rail->mr_failure_logged = true;
    return TRYST_E_UNSUPPORTED;
}

/* Register memory. `memory` NULL: host memory. */
static tryst_status mr_open(struct ofi_rail *rail, const void *data, size_t bytes,
                            const struct memory_ops *memory, int32_t device,
                            struct fid_mr **mr_p)
{
    int rc;
    if (memory && memory->on_device)
        return device_mr_open(rail, data, bytes, device, mr_p);
    rc = fi_mr_reg(rail->domain, data, bytes, FI_SEND | FI_RECV, 0, ++rail->mr_key, 0,
                   mr_p, NULL);
    if (rc == 0)
        return TRYST_OK;
    fabric_rail_log(&rail->fabric, TRYST_LOG_WARN, "cannot register %zu bytes: %s", bytes,
                    fi_strerror(-rc));
    return rc == -FI_ENOMEM || rc == -FI_EAGAIN ? TRYST_E_NOMEM : TRYST_E_SYSTEM;
}

static struct ofi_chunk *chunk_new(struct ofi_rail *rail)
{
    struct ofi_chunk *chunk = rail->fabric.host->alloc(sizeof *chunk);
    if (!chunk)
        return NULL;
    if (rail->mr_local && mr_open(rail, chunk->packets, sizeof chunk->packets, NULL, 0,
                                  &chunk->mr) != TRYST_OK) {
        rail->fabric.host->free(chunk);
        return NULL;
    }
    for (int i = 0; i < OFI_CHUNK_PACKETS; i++) {
        chunk->packets[i].desc = chunk->mr ? fi_mr_desc(chunk->mr) : NULL;
        list_push_back(&rail->packets, &chunk->packets[i].node);
    }
    chunk->next = rail->chunks;
    rail->chunks = chunk;
    return chunk;
}

struct ofi_packet *ofi_packet_get(struct ofi_rail *rail)
{
    struct list_node *node;
    if (list_empty(&rail->packets) && !chunk_new(rail))
        return NULL;
    node = list_pop_front(&rail->packets);
    return container_of(node, struct ofi_packet, node);
}

void ofi_packet_put(struct ofi_rail *rail, struct ofi_packet *packet)
{
    packet->ep = NULL;
    (void)list_remove(&packet->node);
    list_push_front(&rail->packets, &packet->node);
}

struct ofi_op *ofi_op_get(struct ofi_rail *rail)
{
    struct list_node *node = list_pop_front(&rail->ops);
    struct ofi_op *op = node ? container_of(node, struct ofi_op, node)
                             : rail->fabric.host->alloc(sizeof *op);
    if (op)
        *op = (struct ofi_op){.number = ++rail->numbers};
    return op;
}

void ofi_op_put(struct ofi_rail *rail, struct ofi_op *op)
{
    if (op->mr)
        (void)fi_close(&op->mr->fid);
    op->mr = NULL;
    (void)list_remove(&op->node);
    list_push_front(&rail->ops, &op->node);
}

/* Free packets and operations, after the rail's fabric endpoint was closed, and before
 * its domain is. */
void ofi_memory_free(struct ofi_rail *rail)
{
    struct list_node *node;
    while ((node = list_pop_front(&rail->ops)) != NULL)
        rail->fabric.host->free(container_of(node, struct ofi_op, node));
    while (rail->chunks) {
        struct ofi_chunk *chunk = rail->chunks;
        rail->chunks = chunk->next;
        if (chunk->mr)
            (void)fi_close(&chunk->mr->fid);
        rail->fabric.host->free(chunk);
    }
}

tryst_status ofi_mem_register(struct rail *base, struct tryst_mem *mem, void **handle_p)
{
    struct ofi_rail *rail = (struct ofi_rail *)base;
    FABRIC_LOG_SCOPE(rail->fabric.host);
    struct fid_mr *mr = NULL;
    tryst_status status = TRYST_OK;
    if (mem->ops->on_device ? rail->mr_device : rail->mr_local)
        status = mr_open(rail, mem->data, mem->bytes, mem->ops, mem->device, &mr);
    if (status == TRYST_OK)
        *handle_p = mr;
    return status;
}

void ofi_mem_unregister(struct rail *base, void *handle)
{
    struct fid_mr *mr = handle;
    FABRIC_LOG_SCOPE(((struct ofi_rail *)base)->fabric.host);
    if (mr)
        (void)fi_close(&mr->fid);
}

tryst_status ofi_op_desc(struct ofi_op *op, void **desc_p)
{
    struct ofi_rail *rail = ep_rail(op->ep);
    struct bulk *bulk = op->bulk;
    void *handle = NULL;
    tryst_status status = TRYST_OK;
    *desc_p = NULL;
    if (!(bulk->memory ? rail->mr_device : rail->mr_local) || bulk->bytes == 0)
        return TRYST_OK;
    if (bulk->mem &&
        rail->fabric.host->mem_handle(bulk->mem, &rail->fabric.base, &handle) ==
            TRYST_OK &&
        handle) {
        *desc_p = fi_mr_desc((struct fid_mr *)handle);
        return TRYST_OK;
    }
    if (!op->mr)
        status =
            mr_open(rail, bulk->data, bulk->bytes, bulk->memory, bulk->device, &op->mr);
    if (status == TRYST_OK)
        *desc_p = fi_mr_desc(op->mr);
    return status;
}
