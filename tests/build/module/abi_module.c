/* SPDX-License-Identifier: Apache-2.0 */
/* A test module in place of tryst_ucx.so, without a fabric: it calls the functions of the
 * host table and reports the result in its probe. */
#include "transports/module.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define AVAILABLE "abi-test: all calls answered"

static const char *first_fault(const struct tryst_host *host)
{
    unsigned char *data = host->alloc(100);
    if (!data)
        return "alloc";
    for (int i = 0; i < 100; i++)
        if (data[i] != 0)
            return "alloc: memory is not zeroed";
    host->free(data);
    data = host->alloc_aligned(4096, 4096);
    if (!data || (uintptr_t)data % 4096 != 0)
        return "alloc_aligned";
    host->free(data);
    if (host->now_ns(host) == 0 || host->now_ns(host) > host->now_ns(host))
        return "now_ns";
    if (!host->config(host, "transport") || host->config(host, "no_such_name"))
        return "config";
    uint64_t secret = 0;
    if (host->random_secret(&secret, sizeof secret) != TRYST_OK || !secret)
        return "random_secret";
    host->log(host, TRYST_LOG_WARN, "abi-test: a line from the module");
    return NULL;
}

static tryst_status probe(const struct tryst_host *host, char *text)
{
    const char *fault = first_fault(host);
    snprintf(text, TRANSPORT_TEXT_MAX, "%s", fault ? fault : AVAILABLE);
    return fault ? TRYST_E_UNSUPPORTED : TRYST_OK;
}

static tryst_status rail_open(const struct rail_params *params, struct rail **rail_p)
{
    (void)params, (void)rail_p;
    return TRYST_E_UNSUPPORTED;
}

static const struct transport_ops ops = {
    .name = "ucx",
    .struct_size = sizeof(struct transport_ops),
    .probe = probe,
    .rail_open = rail_open,
};

TRYST_API const struct tryst_module *tryst_module_v1(const struct tryst_host *host);

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
{
    static const struct tryst_module module = {
        .abi_id = TRYST_MODULE_ABI_ID, .name = "ucx", .version = "0", .ops = &ops};
    return host->abi_version == TRYST_MODULE_ABI_VERSION ? &module : NULL;
}
