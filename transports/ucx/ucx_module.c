/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ucx module's entry and ops table.
 */
#include <stdio.h>
#include <string.h>

#include "ucx_bulk.h"
#include "ucx_ep.h"
#include "ucx_frame.h"
#include "ucx_log.h"
#include "ucx_rail.h"

static tryst_status ucx_probe(const struct tryst_host *host, char *text)
{
    unsigned major, minor, release;
    (void)host;
    ucp_get_version(&major, &minor, &release);
    (void)snprintf(text, TRANSPORT_TEXT_MAX, "UCX %u.%u.%u, built for %u.%u", major,
                   minor, release, UCP_API_MAJOR, UCP_API_MINOR);
    return TRYST_OK;
}

const struct transport_ops ucx_ops = {
    .name = "ucx",
    .struct_size = sizeof(struct transport_ops),
    .probe = ucx_probe,
    .rail_open = ucx_rail_open,
    .rail_close = ucx_rail_close,
    .progress = ucx_rail_progress,
    .arm = ucx_rail_arm,
    .ep_open = ucx_ep_open,
    .ep_message = ucx_ep_message,
    .ep_close = ucx_ep_close,
    .frame_begin = ucx_frame_begin,
    .frame_commit = ucx_frame_commit,
    .bulk_recv = ucx_bulk_recv,
    .bulk_send = ucx_bulk_send,
    .bulk_cancel = ucx_bulk_cancel,
    .mem_register = ucx_mem_register,
    .mem_unregister = ucx_mem_unregister,
};

static tryst_module module = {
    .abi_id = TRYST_MODULE_ABI_ID, .name = "ucx", .ops = &ucx_ops};

const tryst_module *tryst_module_v1(const tryst_host *host)
    __attribute__((visibility("default")));

const tryst_module *tryst_module_v1(const tryst_host *host)
{
    module.version = ucp_get_version_string();
    if (strcmp(host->abi_id, module.abi_id) == 0)
        ucx_log_setup();
    return &module;
}
