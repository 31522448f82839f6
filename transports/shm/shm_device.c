/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory between processes.
 *
 * Idea: as for regions that peers map (shm_region.c): a registered region's handle goes to a peer once,
 * with the first bulk from it, and offers name it by id and offset. The receiver imports it for the
 * device that it copies to, when it first does, and lets go at DROP or at the end.
 * Invariant: an import that a copy reads is not closed: the region is kept, out of all lists, until
 * the last of them has ended.
 * Callers: shm.c (choose), shm_region.c, pair_device.c.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "shm_connect.h"
#include "shm_copy.h"
#include "shm_device.h"
#include "shm_region.h"

static_assert(sizeof(struct memory_ipc) == sizeof(((struct shm_message *)0)->text),
              "a handle fits into a message");

/* --- ours --- */

tryst_status shm_device_tell(struct shm_ep *ep, struct shm_region *region)
{
    const struct tryst_mem *mem = region->mem;
    struct shm_message message = {.region = region->id, .bytes = mem->bytes};
    struct memory_ipc ipc;
    int fd = -1;
    if (region->unsharable)
        return TRYST_E_UNSUPPORTED;
    tryst_status status =
        mem->ops->ipc_export(mem->device, mem->data, mem->bytes, &ipc, &fd);
    region->unsharable = status != TRYST_OK;
    if (status != TRYST_OK)
        return status;
    memcpy(message.text, &ipc, sizeof ipc);
    status = shm_tell(ep, SHM_DEVICE, &message, fd);
    if (fd >= 0)
        close(fd);
    return status;
}

/* --- theirs --- */

void shm_device_take(struct shm_mapped *mapped, const struct shm_message *message, int fd)
{
    mapped->device = true;
    memcpy(&mapped->ipc, message->text, sizeof mapped->ipc);
    if (fd >= 0) /* the message's own is closed behind it */
        mapped->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* Is all of the region there? The driver knows how long it is; the peer has only said so. */
static bool import_is_whole(const struct shm_import *import,
                            const struct shm_mapped *mapped)
{
    int32_t device;
    return mapped->bytes > 0 &&
           import->memory->locate((const char *)import->data + mapped->bytes - 1,
                                  &device) == TRYST_OK;
}

static struct shm_import *import_make(struct shm_mapped *mapped,
                                      const struct memory_ops *memory, int32_t device)
{
    const struct memory_ipc *ipc = &mapped->ipc;
    if (ipc->offset > ipc->bytes || mapped->bytes > ipc->bytes - ipc->offset)
        return NULL;
    struct shm_import *import = mem_zalloc(sizeof *import);
    if (!import)
        return NULL;
    import->memory = memory;
    import->device = device;
    if (memory->ipc_import(device, ipc, mapped->fd, &import->data) != TRYST_OK) {
        mem_free(import);
        return NULL;
    }
    if (!import_is_whole(import, mapped)) {
        memory->ipc_close(device, import->data, ipc);
        mem_free(import);
        return NULL;
    }
    list_push_front(&mapped->imports, &import->node);
    return import;
}

static struct shm_import *import_get(struct shm_mapped *mapped,
                                     const struct memory_ops *memory, int32_t device)
{
    list_for_each_safe (&mapped->imports, node, after) {
        struct shm_import *import = container_of(node, struct shm_import, node);
        if (import->memory == memory && import->device == device)
            return import;
    }
    return import_make(mapped, memory, device);
}

enum pair_copy shm_device_read(struct pair_ep *pair, struct pair_job *job)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    const struct pair_op *op = pair_op_of(job->bulk);
    if (!(ep->in_mechs & SHM_CAN_DEVICE))
        return PAIR_COPY_DENIED;
    struct shm_mapped *mapped = shm_mapped_find(ep, op->region);
    if (!mapped)
        return PAIR_COPY_LATER;
    if (!mapped->device || op->where > mapped->bytes ||
        op->bytes > mapped->bytes - op->where)
        return PAIR_COPY_BAD;
    const struct shm_import *import =
        import_get(mapped, job->copy.memory, job->copy.device);
    if (!import)
        return PAIR_COPY_DENIED;
    job->copy.src = (const char *)import->data + op->where;
    job->region = mapped;
    mapped->users++;
    copies_start(&pair_ep_rail(pair)->copies, &job->copy);
    return PAIR_COPY_OK;
}

bool shm_device_read_end(struct pair_ep *pair, struct pair_job *job)
{
    struct shm_ep *ep = (struct shm_ep *)pair;
    struct shm_mapped *mapped = job->region;
    if (--mapped->users == 0 && mapped->dropped)
        shm_mapped_free(ep, mapped);
    return shm_read_confirm(ep) == PAIR_COPY_OK;
}
