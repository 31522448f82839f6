/* SPDX-License-Identifier: Apache-2.0 */
/* Read the interfaces from the kernel; functions over addresses. See netif.h. */
#include "netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "netif_scan.h"

/* Tries for a dump that a change of the tables interrupts; such changes are rare. */
#define DUMP_TRIES 5

struct dump_request {
    struct nlmsghdr header;
    union {
        struct rtgenmsg any;
        struct ifinfomsg link;
        struct ifaddrmsg address;
        struct rtmsg route;
    } fixed;
};

static tryst_status dump(struct netlink *netlink, uint16_t type, uint8_t family,
                         struct netif_scan *scan, struct err *err, int *error_p)
{
    struct dump_request request = {.header = {.nlmsg_len = sizeof request,
                                              .nlmsg_type = type,
                                              .nlmsg_flags = NLM_F_DUMP}};
    request.fixed.any.rtgen_family = family;
    return netlink_request(netlink, &request.header, netif_scan_message, scan, err,
                           error_p);
}

/* Read an interface's speed from its driver, by ethtool's old command, which the kernel
 * answers for all drivers; 0 where unknown. */
static uint64_t speed_read(int fd, const char *name)
{
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    struct ifreq request = {.ifr_data = (void *)&command};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0)
        return 0;
    uint32_t mega = (uint32_t)command.speed_hi << 16 | command.speed;
    return mega == (uint32_t)SPEED_UNKNOWN ? 0 : (uint64_t)mega * 1000000;
}

static void speeds_read(struct netif_scan *scan)
{
    int fd = FD_MAKE(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return;
    for (size_t i = 0; i < scan->links_count; i++)
        if (!scan->links[i].loopback)
            scan->links[i].speed_bits_per_s = speed_read(fd, scan->links[i].name);
    close(fd);
}

static tryst_status scan_once(struct netlink *netlink, struct netif_scan *scan,
                              struct err *err, int *error_p)
{
    static const struct {
        uint16_t type;
        uint8_t family;
    } dumps[] = {{RTM_GETLINK, AF_UNSPEC},
                 {RTM_GETADDR, AF_UNSPEC},
                 {RTM_GETROUTE, AF_INET},
                 {RTM_GETROUTE, AF_INET6}};
    tryst_status status = TRYST_OK;
    for (size_t i = 0; i < sizeof dumps / sizeof dumps[0] && status == TRYST_OK; i++) {
        status = dump(netlink, dumps[i].type, dumps[i].family, scan, err, error_p);
        /* a kernel without IPv6 returns an error for its routes; the list is complete
         * without them */
        bool refused = status == TRYST_E_SYSTEM && *error_p != 0 && *error_p != EINTR;
        if (refused && dumps[i].type == RTM_GETROUTE)
            status = TRYST_OK;
    }
    return status;
}

static tryst_status scan_all(struct netlink *netlink, struct netif_scan *scan,
                             struct err *err)
{
    int error = 0;
    tryst_status status = TRYST_E_SYSTEM;
    for (int i = 0; i < DUMP_TRIES; i++) {
        netif_scan_wipe(scan);
        status = scan_once(netlink, scan, err, &error);
        if (error != EINTR)
            break;
        /* so that the rest of the interrupted dump is not read as the next one */
        netlink_close(netlink);
        tryst_status opened = netlink_open(err, netlink);
        if (opened != TRYST_OK)
            return opened;
    }
    if (status == TRYST_E_NOMEM)
        return err_set(err, status, "cannot list the interfaces: out of memory");
    if (status != TRYST_OK && error != 0)
        return err_set(err, status, "cannot list the interfaces: the kernel reports: %s",
                       strerror(error));
    return status;
}

tryst_status netif_list_open(struct err *err, struct netif_list **list_p)
{
    struct netlink netlink;
    struct netif_scan scan = {0};
    tryst_status status = netlink_open(err, &netlink);
    if (status != TRYST_OK)
        return status;
    status = scan_all(&netlink, &scan, err);
    if (status == TRYST_OK) {
        speeds_read(&scan);
        status = netif_scan_list(&scan, list_p);
        if (status != TRYST_OK)
            err_set(err, status, "cannot list the interfaces: out of memory");
    }
    netif_scan_wipe(&scan);
    netlink_close(&netlink);
    return status;
}

void netif_list_close(struct netif_list *list)
{
    mem_free(list);
}

/* Return the bytes of an address and their number; NULL if it is neither IPv4 nor
 * IPv6. */
static const uint8_t *address_bytes(const struct sockaddr *address, size_t *bytes_p)
{
    if (address->sa_family == AF_INET) {
        *bytes_p = 4;
        return (const uint8_t *)&((const struct sockaddr_in *)(const void *)address)
            ->sin_addr;
    }
    if (address->sa_family != AF_INET6)
        return NULL;
    *bytes_p = 16;
    return (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)address)
        ->sin6_addr;
}

bool netif_prefix_holds(const struct sockaddr *block, uint32_t prefix_bits,
                        const struct sockaddr *address)
{
    size_t bytes = 0;
    const uint8_t *left = address_bytes(block, &bytes);
    const uint8_t *right = address_bytes(address, &bytes);
    if (!left || !right || block->sa_family != address->sa_family)
        return false;
    if (prefix_bits > 8 * bytes)
        return false;
    size_t whole = prefix_bits / 8, rest = prefix_bits % 8;
    if (memcmp(left, right, whole) != 0)
        return false;
    return rest == 0 || ((left[whole] ^ right[whole]) >> (8 - rest)) == 0;
}

/* True if a block in text, like 10.0.0.0, holds the address. */
static bool block_holds(int family, const char *block, uint32_t prefix_bits,
                        const struct sockaddr *address)
{
    struct sockaddr_storage storage = {.ss_family = (sa_family_t)family};
    void *bytes = family == AF_INET
                      ? (void *)&((struct sockaddr_in *)(void *)&storage)->sin_addr
                      : (void *)&((struct sockaddr_in6 *)(void *)&storage)->sin6_addr;
    return inet_pton(family, block, bytes) == 1 &&
           netif_prefix_holds((const struct sockaddr *)&storage, prefix_bits, address);
}

bool netif_address_is_public(const struct sockaddr *address)
{
    static const struct {
        int family;
        const char *block;
        uint32_t prefix_bits;
    } inside[] = {
        {AF_INET, "0.0.0.0", 8},      {AF_INET, "10.0.0.0", 8},
        {AF_INET, "100.64.0.0", 10},  {AF_INET, "127.0.0.0", 8},
        {AF_INET, "169.254.0.0", 16}, {AF_INET, "172.16.0.0", 12},
        {AF_INET, "192.168.0.0", 16}, {AF_INET6, "::", 127},
        {AF_INET6, "fc00::", 7},      {AF_INET6, "fe80::", 10},
    };
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return false;
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
        if (block_holds(inside[i].family, inside[i].block, inside[i].prefix_bits,
                        address))
            return false;
    return true;
}

char *netif_address_text(const struct sockaddr *address, char text[NETIF_TEXT_BYTES])
{
    size_t bytes = 0;
    const uint8_t *value = address_bytes(address, &bytes);
    if (!value || !inet_ntop(address->sa_family, value, text, NETIF_TEXT_BYTES))
        snprintf(text, NETIF_TEXT_BYTES, "(no address)");
    if (address->sa_family != AF_INET6)
        return text;
    uint32_t scope = ((const struct sockaddr_in6 *)(const void *)address)->sin6_scope_id;
    size_t used = strlen(text);
    char name[IF_NAMESIZE];
    if (scope && if_indextoname(scope, name))
        snprintf(text + used, NETIF_TEXT_BYTES - used, "%%%s", name);
    return text;
}

socklen_t netif_address_bytes(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return sizeof(struct sockaddr_in);
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}
