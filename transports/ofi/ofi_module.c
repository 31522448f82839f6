/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ofi module's entry and ops table.
 */
#include <stdio.h>
#include <string.h>

#include "ofi_bulk.h"
#include "ofi_ep.h"
#include "ofi_fabric.h"
#include "ofi_frame.h"
#include "ofi_memory.h"
#include "ofi_rail.h"

static tryst_status ofi_probe(const struct tryst_host *host, char *text)
{
    FABRIC_LOG_SCOPE(host);
    return ofi_info_describe(text);
}

const struct transport_ops ofi_ops = {
    .name = "ofi",
    .struct_size = sizeof(struct transport_ops),
    .probe = ofi_probe,
    .rail_open = ofi_rail_open,
    .rail_close = ofi_rail_close,
    .progress = ofi_rail_progress,
    .arm = ofi_rail_arm,
    .ep_open = ofi_ep_open,
    .ep_message = ofi_ep_message,
    .ep_close = ofi_ep_close,
    .frame_begin = ofi_frame_begin,
    .frame_commit = ofi_frame_commit,
    .bulk_recv = ofi_bulk_recv,
    .bulk_send = ofi_bulk_send,
    .bulk_cancel = ofi_bulk_cancel,
    .mem_register = ofi_mem_register,
    .mem_unregister = ofi_mem_unregister,
};

static char version[16];

static tryst_module module = {
    .abi_id = TRYST_MODULE_ABI_ID, .name = "ofi", .version = version, .ops = &ofi_ops};

const tryst_module *tryst_module_v1(const tryst_host *host)
    __attribute__((visibility("default")));

const tryst_module *tryst_module_v1(const tryst_host *host)
{
    uint32_t found = fi_version();
    (void)snprintf(version, sizeof version, "%u.%u", FI_MAJOR(found), FI_MINOR(found));
    if (strcmp(host->abi_id, module.abi_id) == 0)
        ofi_log_setup();
    return &module;
}
