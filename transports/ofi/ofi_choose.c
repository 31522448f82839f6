/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the best of libfabric's descriptions for a rail.
 *
 * Idea: the choice depends on fi_infos alone and keeps no state, so a test can invent
 * descriptions. `ranks` orders the providers, and excludes some unless the user names
 * them.
 *
 * Device memory does not influence the choice: the fabric is chosen as if there were no
 * devices, and then searched for among those that claim FI_HMEM. The provider's endpoint
 * shows whether the claim holds (ofi_rail.c).
 */
#include "ofi_choose.h"

#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

/* Providers by name. The first row counts with a name that is part of the provider's
 * name. A provider without a row is hardware of some kind. Rank 0: used only if
 * FI_PROVIDER names the provider. */
static const struct {
    const char *name;
    int rank;
} ranks[] = {
    {"shm", 0},         /* a killed peer can kill this process (README.md) */
    {"sm2", 0},         /* as shm, in newer versions */
    {"sockets", 0},     /* obsolete, by libfabric's manual */
    {"udp", 0},         /* unreliable below, slow */
    {"ofi_rxd", 0},     /* over an unreliable provider, slow */
    {"ofi_mrail", 0},   /* stripes by itself; rails do that here */
    {"ucx", 0},         /* Tryst has a transport for it */
    {"tcp;ofi_rxm", 1}, /* 33 MB for each pair that moves bulk, 1.17 (README.md) */
    {"net;ofi_rxm", 1}, /* as tcp;ofi_rxm */
    {"net", 2},         /* TCP without rxm, 1.16 and 1.17 */
    {"tcp", 2},         /* TCP without rxm, 1.18 and newer */
};
enum { RANK_HARDWARE = 3 };

int ofi_info_rank(const struct fi_info *info)
{
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (strstr(info->fabric_attr->prov_name, ranks[i].name))
            return ranks[i].rank;
    return RANK_HARDWARE;
}

/* True if shared memory moves the bytes of this provider. */
static bool is_shm(const struct fi_info *info)
{
    return strstr(info->fabric_attr->prov_name, "shm") ||
           strstr(info->fabric_attr->prov_name, "sm2");
}

bool ofi_info_is_rxm(const struct fi_info *info)
{
    return strstr(info->fabric_attr->prov_name, "ofi_rxm");
}

/* True for libfabric's own TCP and for rxm. TCP keeps accepted connections that have sent
 * nothing yet apart from their listener, and for such a connection uses the listener even
 * after the listener was closed and freed (xnet_pep_close, 1.16 to 2.6). An endpoint of
 * rxm adds its own queue to the descriptors for which this rail's queue waits
 * (rxm_ep_wait_fd_add) and never removes it: after rxm_ep_close the next fi_trywait reads
 * freed memory (1.17 to 2.6). */
bool ofi_info_parks(const struct fi_info *info)
{
    return ofi_info_rank(info) == 2 || ofi_info_is_rxm(info);
}

/* Get the least window. Over rxm and TCP each slice needs four transfers, one after
 * another: the window's return, a request, the receiver's read and the bytes. Each waits
 * while the sender is in the system call that sends another slice. With four slices of
 * 1 MiB in a window the wire is idle for a fifth of the time (tests/perf/RESULTS.md).
 * Hence smaller slices, and more of them. */
uint64_t ofi_info_window_bytes(const struct fi_info *info)
{
    return ofi_info_rank(info) == 1 ? 8 << 20 : 0;
}

uint32_t ofi_info_slice_bytes(const struct fi_info *info)
{
    return ofi_info_rank(info) == 1 ? 512 << 10 : 0;
}

bool ofi_info_has_ip(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6;
}

/* True for loopback addresses, which reach no other host, and IPv6 link-local ones, which
 * need a scope. */
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

/* True if tags, registrations and sizes are as this module needs them, which hints cannot
 * express. */
bool ofi_info_is_usable(const struct fi_info *info)
{
    uint64_t format = info->ep_attr->mem_tag_format;
    uint64_t mr_mode = info->domain_attr->mr_mode;
    /* tags of fewer than 48 bits */
    if (format && format >> (OFI_TAG_BITS - 1) == 0)
        return false;
    /* the provider needs each region registered for each endpoint: not implemented, and
     * no such provider is known */
    if (mr_mode & (FI_MR_LOCAL | FI_MR_HMEM) && mr_mode & FI_MR_ENDPOINT)
        return false;
    return info->ep_attr->max_msg_size >= OFI_MESSAGE_MAX;
}

static bool is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;
    if (address->sa_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Score `info` for a rail on this interface, 0: not usable. */
int ofi_info_score(const struct fi_info *info, const struct rail_params *params,
                   bool named)
{
    int rank = named ? RANK_HARDWARE : ofi_info_rank(info);
    bool loopback =
        params->interface_address
            ? is_loopback(params->interface_address)
            : params->interface_name && strcmp(params->interface_name, "lo") == 0;
    if (!ofi_info_is_usable(info) || (is_shm(info) && !params->own_shm_allowed))
        return 0;
    /* hardware without IP addresses does not serve the loopback interface */
    if (!ofi_info_has_ip(info))
        return loopback && !is_shm(info) ? 0 : 2 * rank;
    if (params->interface_address || !ip_is_local(info))
        return 2 * rank;
    return rank ? 1 : 0; /* local addresses: they join the ranks of this host at least */
}

/* Choose the best description. Among several devices without IP addresses (each is a
 * domain) the rail's index chooses. */
const struct fi_info *ofi_info_best(const struct fi_info *list,
                                    const struct rail_params *params, bool named, bool ip)
{
    const struct fi_info *best = NULL, *first = NULL;
    uint32_t turn = params->index;
    int best_score = 0;
    for (const struct fi_info *info = list; info; info = info->next) {
        int score = ofi_info_has_ip(info) == ip ? ofi_info_score(info, params, named) : 0;
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

/* True if both describe the same device of the same provider, with the same address. */
static bool is_same_fabric(const struct fi_info *a, const struct fi_info *b)
{
    return strcmp(a->fabric_attr->prov_name, b->fabric_attr->prov_name) == 0 &&
           strcmp(a->domain_attr->name, b->domain_attr->name) == 0 &&
           a->addr_format == b->addr_format &&
           (!ofi_info_has_ip(a) || !a->src_addr || !b->src_addr ||
            (a->src_addrlen == b->src_addrlen &&
             memcmp(a->src_addr, b->src_addr, a->src_addrlen) == 0));
}

bool ofi_info_claims_device(const struct fi_info *info)
{
    return info->caps & info->tx_attr->caps & info->rx_attr->caps & FI_HMEM;
}

bool ofi_info_registers_device(const struct fi_info *info)
{
    return info->domain_attr->mr_mode & (FI_MR_HMEM | FI_MR_LOCAL);
}

const struct fi_info *ofi_info_device(const struct fi_info *plain,
                                      const struct fi_info *claims)
{
    while (claims && !(is_same_fabric(plain, claims) && ofi_info_claims_device(claims) &&
                       ofi_info_is_usable(claims)))
        claims = claims->next;
    return claims;
}
