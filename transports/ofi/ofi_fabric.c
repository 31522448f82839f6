/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests to libfabric, and the destination of libfabric's log lines.
 *
 * Idea: request every reliable datagram endpoint with tags, and take the best that fits
 * the rail's interface (ofi_choose.c). The user decides by FI_PROVIDER, which libfabric
 * itself reads. This module never writes the environment.
 */
#include "ofi_fabric.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/fi_ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ofi_choose.h"
#include "transports/signal_guard.h"

#define API_VERSION FI_VERSION(1, 17)

/* True if the user has named providers. ("^shm" names none, but excludes one.) */
static bool user_names_providers(void)
{
    const char *text = getenv("FI_PROVIDER");
    return text && *text && *text != '^';
}

static struct fi_info *hints_new(bool device)
{
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return NULL;
    hints->caps = FI_MSG | FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (device) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    return hints;
}

/* List the fabrics that could work. `address` limits the list to those that can bind to
 * it, `device` to those that claim to move device memory. NULL: none, and *rc_p has the
 * reason. */
static struct fi_info *infos_get(const struct sockaddr *address, bool device, int *rc_p)
{
    struct fi_info *hints = hints_new(device), *list = NULL;
    char node[NI_MAXHOST];
    socklen_t bytes = address && address->sa_family == AF_INET6
                          ? sizeof(struct sockaddr_in6)
                          : sizeof(struct sockaddr_in);
    *rc_p = -FI_ENOMEM;
    if (!hints)
        return NULL;
    if (!address)
        *rc_p = fi_getinfo(API_VERSION, NULL, NULL, 0, hints, &list);
    else if (getnameinfo(address, bytes, node, sizeof node, NULL, 0, NI_NUMERICHOST) == 0)
        *rc_p =
            fi_getinfo(API_VERSION, node, NULL, FI_SOURCE | FI_NUMERICHOST, hints, &list);
    fi_freeinfo(hints);
    return *rc_p == 0 ? list : NULL;
}

/* Find the fabric of `plain` among those that claim device memory. NULL: it does not, or
 * out of memory. */
static struct fi_info *device_info_find(const struct fi_info *plain,
                                        const struct rail_params *params)
{
    int rc;
    bool bound = params->interface_address && ofi_info_has_ip(plain);
    struct fi_info *claims =
        infos_get(bound ? params->interface_address : NULL, true, &rc);
    const struct fi_info *found = ofi_info_device(plain, claims);
    struct fi_info *copy = found ? fi_dupinfo(found) : NULL;
    fi_freeinfo(claims);
    return copy;
}

/* Copy the description that was chosen. */
static tryst_status info_copy(const struct fi_info *best,
                              const struct rail_params *params, struct fi_info **info_p,
                              struct fi_info **device_p, char *text)
{
    struct fi_info *info = fi_dupinfo(best);
    if (!info) {
        (void)snprintf(text, TRANSPORT_TEXT_MAX, "out of memory");
        return TRYST_E_NOMEM;
    }
    *device_p = device_info_find(best, params);
    *info_p = info;
    return TRYST_OK;
}

tryst_status ofi_info_choose(const struct rail_params *params, struct fi_info **info_p,
                             struct fi_info **device_p, char *text)
{
    int rc_all, rc_bound = 0;
    bool named = user_names_providers();
    struct fi_info *all = infos_get(NULL, false, &rc_all), *bound = NULL;
    const struct fi_info *best = NULL, *best_ip = NULL;
    tryst_status status = TRYST_E_UNSUPPORTED;
    if (params->interface_address)
        bound = infos_get(params->interface_address, false, &rc_bound);
    best = ofi_info_best(all, params, named, false);
    best_ip = ofi_info_best(params->interface_address ? bound : all, params, named, true);
    if (!best || (best_ip && ofi_info_score(best_ip, params, named) >
                                 ofi_info_score(best, params, named)))
        best = best_ip;
    if (best) {
        status = info_copy(best, params, info_p, device_p, text);
    } else {
        (void)snprintf(text, TRANSPORT_TEXT_MAX,
                       "no libfabric provider supports this interface (%s)%s",
                       rc_all ? fi_strerror(-rc_all) : "none fits",
                       params->own_shm_allowed ? "" : ", and TRYST_HOST_ID forbids shm");
    }
    fi_freeinfo(all);
    fi_freeinfo(bound);
    return status;
}

/* List the providers' names, each once: "net, tcp;ofi_rxm". */
static void names_list(const struct fi_info *list, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct fi_info *info = list; info; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        const struct fi_info *before = list;
        while (before != info && strcmp(before->fabric_attr->prov_name, name) != 0)
            before = before->next;
        if (before != info || (!user_names_providers() && ofi_info_rank(info) == 0))
            continue;
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", name);
        if (used >= bytes)
            return;
    }
}

static pthread_once_t describe_once = PTHREAD_ONCE_INIT;
static char described[TRANSPORT_TEXT_MAX];
static bool described_usable;

/* Describe the providers, once: fi_getinfo starts every provider, which takes time (0.3 s
 * at first), and the result does not change. */
static void describe(void)
{
    char names[96];
    uint32_t version = fi_version();
    struct signal_guard guard;
    int rc;
    signal_guard_begin(&guard);
    struct fi_info *list = infos_get(NULL, false, &rc);
    (void)signal_guard_end(&guard);
    names_list(list, names, sizeof names);
    described_usable = names[0] != '\0';
    (void)snprintf(described, sizeof described, "libfabric %u.%u, %s%s",
                   FI_MAJOR(version), FI_MINOR(version),
                   described_usable ? "providers " : "no usable provider: ",
                   described_usable ? names
                   : rc             ? fi_strerror(-rc)
                                    : "see fi_info");
    fi_freeinfo(list);
}

tryst_status ofi_info_describe(char *text)
{
    (void)pthread_once(&describe_once, describe);
    memcpy(text, described, sizeof described);
    return described_usable ? TRYST_OK : TRYST_E_UNSUPPORTED;
}

/* ---- libfabric's log ---- */

static int log_enabled(const struct fi_provider *provider, enum fi_log_level level,
                       enum fi_log_subsys subsystem, uint64_t flags)
{
    (void)provider;
    (void)subsystem;
    (void)flags;
    return level <= FI_LOG_WARN;
}

static int log_ready(const struct fi_provider *provider, enum fi_log_level level,
                     enum fi_log_subsys subsystem, uint64_t flags, uint64_t *showtime)
{
    (void)showtime;
    return log_enabled(provider, level, subsystem, flags);
}

static void log_line(const struct fi_provider *provider, enum fi_log_level level,
                     enum fi_log_subsys subsystem, const char *function, int line,
                     const char *message)
{
    char text[512];
    size_t used;
    (void)level;
    (void)subsystem;
    (void)snprintf(text, sizeof text, "libfabric, %s: %s", provider->name, message);
    used = strcspn(text, "\n");
    (void)snprintf(text + used, sizeof text - used, " (%s:%d)", function, line);
    /* at level debug: most are warnings about peers that are gone, and this module
     * reports the failures that matter */
    if (fabric_log_host)
        fabric_log_host->log(fabric_log_host, TRYST_LOG_DEBUG, text);
    else
        (void)fprintf(stderr, "%s\n", text);
}

/* Install the log, unless FI_LOG_LEVEL is set: libfabric's lines then stay where
 * libfabric writes them. */
void ofi_log_setup(void)
{
    static struct fi_ops_log ops = {.size = sizeof(struct fi_ops_log),
                                    .enabled = log_enabled,
                                    .ready = log_ready,
                                    .log = log_line};
    static struct fi_ops fid_ops = {.size = sizeof(struct fi_ops)};
    static struct fid_logging log = {.fid = {.fclass = FI_CLASS_LOG, .ops = &fid_ops},
                                     .ops = &ops};
    if (!getenv("FI_LOG_LEVEL"))
        (void)fi_import_log(API_VERSION, 0, &log);
}
