/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of libfabric's providers a rail uses, and where libfabric's log lines go.
 *
 * Idea: ask libfabric for every reliable datagram endpoint with tags, and take the best that fits
 * the rail's interface; `ranks` says what is best and what is never taken unless the user names
 * it in FI_PROVIDER, which libfabric itself reads. The environment is written by nobody.
 * Callers: ofi_rail.c, ofi_module.c.
 */
#include "ofi_private.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/fi_ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transports/signal_guard.h"

#define API_VERSION FI_VERSION(1, 17)

/* Providers by name, in order; the first row whose name is a part of it counts. What no row names
 * is hardware of some kind. Rank 0: only when FI_PROVIDER names it. */
static const struct {
    const char *name;
    int rank;
} ranks[] = {
    {"shm", 0},         /* a killed peer can take us along (README.md); ours is better */
    {"sm2", 0},         /* the same, of newer versions */
    {"sockets", 0},     /* obsolete, says libfabric */
    {"udp", 0},         /* unreliable below, slow */
    {"ofi_rxd", 0},     /* the same */
    {"ofi_mrail", 0},   /* stripes by itself; rails are ours */
    {"ucx", 0},         /* there is a transport of its own for it */
    {"tcp;ofi_rxm", 1}, /* 33 MB for each pair that moves bulk, 1.17 (README.md) */
    {"net;ofi_rxm", 1}, /* the same */
    {"net", 2},         /* TCP without rxm, 1.16 and 1.17 */
    {"tcp", 2},         /* the same, 1.18 and newer */
};
enum { RANK_HARDWARE = 3 };

static int rank_of(const struct fi_info *info)
{
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (strstr(info->fabric_attr->prov_name, ranks[i].name))
            return ranks[i].rank;
    return RANK_HARDWARE;
}

/* The user has said which providers, by name ("^shm" only says which not). */
static bool user_names_providers(void)
{
    const char *text = getenv("FI_PROVIDER");
    return text && *text && *text != '^';
}

bool ofi_info_is_shm(const struct fi_info *info)
{
    return strstr(info->fabric_attr->prov_name, "shm") ||
           strstr(info->fabric_attr->prov_name, "sm2");
}

/* libfabric's own TCP keeps what it has accepted and not heard of yet apart from the listener, and
 * uses the listener for it when that is closed and freed (xnet_pep_close, 1.16 to 2.6). */
bool ofi_info_parks(const struct fi_info *info)
{
    return rank_of(info) == 2;
}

static struct fi_info *hints_new(void)
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
    return hints;
}

/* Everything that could work, or NULL; an address limits it to what can bind to that. */
static struct fi_info *infos_get(const struct sockaddr *address, int *rc_p)
{
    struct fi_info *hints = hints_new(), *list = NULL;
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

static bool has_ip(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6;
}

/* Loopback and link-local addresses reach no other host, or need a scope. */
static bool ip_is_local(const struct fi_info *info)
{
    if (!info->src_addr)
        return false;
    if (info->addr_format == FI_SOCKADDR_IN) {
        const struct sockaddr_in *ip = info->src_addr;
        return ntohl(ip->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *ip = info->src_addr;
    return IN6_IS_ADDR_LOOPBACK(&ip->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&ip->sin6_addr);
}

/* What we need and no hint can ask for. */
static bool info_is_usable(const struct fi_info *info)
{
    uint64_t format = info->ep_attr->mem_tag_format;
    uint64_t mr_mode = info->domain_attr->mr_mode;
    if (format && format >> (OFI_TAG_BITS - 1) == 0)
        return false; /* tags of fewer than 48 bits */
    /* a registration of each region for each endpoint: not built, and not known to exist */
    if (mr_mode & FI_MR_LOCAL && mr_mode & FI_MR_ENDPOINT)
        return false;
    return info->ep_attr->max_msg_size >= OFI_MESSAGE_MAX;
}

/* How well `info` serves a rail on this interface, 0: not at all. */
static int info_score(const struct fi_info *info, const struct rail_params *params)
{
    int rank = user_names_providers() ? RANK_HARDWARE : rank_of(info);
    bool loopback = params->interface_name && strcmp(params->interface_name, "lo") == 0;
    if (!info_is_usable(info) || (ofi_info_is_shm(info) && !params->own_shm_allowed))
        return 0;
    if (!has_ip(info)) /* hardware with addresses of its own leaves the host */
        return loopback && !ofi_info_is_shm(info) ? 0 : 2 * rank;
    if (params->interface_address || !ip_is_local(info))
        return 2 * rank;
    return rank ? 1 : 0; /* nothing but loopback: ranks of this host at least */
}

/* The best one; of several devices without IP addresses (each a domain) the rail's index picks. */
static const struct fi_info *info_best(const struct fi_info *list,
                                       const struct rail_params *params, bool ip)
{
    const struct fi_info *best = NULL, *first = NULL;
    uint32_t turn = params->index;
    int best_score = 0;
    for (const struct fi_info *info = list; info; info = info->next) {
        int score = has_ip(info) == ip ? info_score(info, params) : 0;
        if (score > best_score) {
            best = first = info;
            best_score = score;
            turn = params->index;
        } else if (best && score == best_score && !ip && turn > 0 &&
                   strcmp(info->fabric_attr->prov_name, first->fabric_attr->prov_name) ==
                       0 &&
                   strcmp(info->domain_attr->name, best->domain_attr->name) != 0) {
            best = info;
            turn--;
        }
    }
    return best;
}

tryst_status ofi_info_choose(const struct rail_params *params, struct fi_info **info_p,
                             char *text)
{
    int rc_all, rc_bound = 0;
    struct fi_info *all = infos_get(NULL, &rc_all), *bound = NULL;
    const struct fi_info *best = NULL, *best_ip = NULL;
    if (params->interface_address)
        bound = infos_get(params->interface_address, &rc_bound);
    best = info_best(all, params, false);
    best_ip = info_best(params->interface_address ? bound : all, params, true);
    if (!best || (best_ip && info_score(best_ip, params) > info_score(best, params)))
        best = best_ip;
    if (best)
        *info_p = fi_dupinfo(best);
    else
        (void)snprintf(text, TRANSPORT_TEXT_MAX,
                       "no provider of libfabric serves this interface (%s)%s",
                       rc_all ? fi_strerror(-rc_all) : "none fits",
                       params->own_shm_allowed ? "" : ", and TRYST_HOST_ID forbids shm");
    fi_freeinfo(all);
    fi_freeinfo(bound);
    if (!best)
        return TRYST_E_UNSUPPORTED;
    return *info_p ? TRYST_OK : TRYST_E_NOMEM;
}

/* The providers' names, each once: "net, tcp;ofi_rxm". */
static void names_list(const struct fi_info *list, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct fi_info *info = list; info; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        const struct fi_info *before = list;
        while (before != info && strcmp(before->fabric_attr->prov_name, name) != 0)
            before = before->next;
        if (before != info || (!user_names_providers() && rank_of(info) == 0))
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

/* fi_getinfo asks every provider, which takes milliseconds; what there is does not change. */
static void describe(void)
{
    char names[96];
    uint32_t version = fi_version();
    struct signal_guard guard;
    int rc;
    signal_guard_begin(&guard);
    struct fi_info *list = infos_get(NULL, &rc);
    (void)signal_guard_end(&guard);
    names_list(list, names, sizeof names);
    described_usable = names[0] != '\0';
    (void)snprintf(described, sizeof described, "libfabric %u.%u, %s%s",
                   FI_MAJOR(version), FI_MINOR(version),
                   described_usable ? "providers " : "no provider that serves us: ",
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

/* The context in whose call this thread is, or NULL: libfabric has one log per process, and lines
 * of another user of it are not ours. */
static __thread const tryst_host *log_host;

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
    if (log_host) /* its warnings are about peers that went; what matters we say ourselves */
        log_host->log(log_host, TRYST_LOG_DEBUG, text);
    else
        (void)fprintf(stderr, "%s\n", text);
}

const tryst_host *ofi_log_begin(const tryst_host *host)
{
    const tryst_host *previous = log_host;
    log_host = host;
    return previous;
}

void ofi_log_end(const tryst_host *previous)
{
    log_host = previous;
}

/* Who sets FI_LOG_LEVEL wants libfabric's lines where libfabric puts them. */
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
