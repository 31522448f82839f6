/* SPDX-License-Identifier: Apache-2.0 */
#include "netif_scan.h"

#include <linux/if_addr.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"

static void link_attribute(void *arg, const struct rtattr *attribute)
{
    struct netif_link *link = arg;
    size_t bytes = RTA_PAYLOAD(attribute);
    if (attribute->rta_type == IFLA_MTU)
        netlink_copy(attribute, &link->mtu, 4);
    if (attribute->rta_type == IFLA_IFNAME && bytes > 0 && bytes <= sizeof link->name) {
        memcpy(link->name, RTA_DATA(attribute), bytes);
        link->name[sizeof link->name - 1] = '\0';
    }
}

static tryst_status link_note(struct netif_scan *scan, const struct nlmsghdr *message)
{
    struct netif_link link = {.metric4 = NETIF_NO_DEFAULT, .metric6 = NETIF_NO_DEFAULT};
    struct ifinfomsg fixed;
    if (!netlink_attributes(message, sizeof fixed, link_attribute, &link))
        return TRYST_OK;
    memcpy(&fixed, NLMSG_DATA(message), sizeof fixed);
    link.index = (uint32_t)fixed.ifi_index;
    link.up = (fixed.ifi_flags & IFF_UP) && (fixed.ifi_flags & IFF_RUNNING);
    link.loopback = (fixed.ifi_flags & IFF_LOOPBACK) != 0;
    link.tunnel = (fixed.ifi_flags & IFF_POINTOPOINT) != 0;
    if (!mem_reserve(&scan->links, &scan->links_capacity, scan->links_count + 1,
                     sizeof link))
        return TRYST_E_NOMEM;
    scan->links[scan->links_count++] = link;
    return TRYST_OK;
}

/* The attributes of an address message. On a point-to-point link `address` is the peer's,
 * `local` this machine's. */
struct address_attributes {
    uint8_t address[16], local[16];
    size_t bytes;
    uint32_t flags;
    bool has_address, has_local;
};

static void address_attribute(void *arg, const struct rtattr *attribute)
{
    struct address_attributes *found = arg;
    if (attribute->rta_type == IFA_ADDRESS)
        found->has_address = netlink_copy(attribute, found->address, found->bytes);
    if (attribute->rta_type == IFA_LOCAL)
        found->has_local = netlink_copy(attribute, found->local, found->bytes);
    if (attribute->rta_type == IFA_FLAGS)
        netlink_copy(attribute, &found->flags, 4);
}

static void address_fill(struct netif *item, const uint8_t *bytes)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (item->family == AF_INET) {
        memcpy(&v4.sin_addr, bytes, sizeof v4.sin_addr);
        memcpy(&item->address, &v4, sizeof v4);
        return;
    }
    memcpy(&v6.sin6_addr, bytes, sizeof v6.sin6_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr))
        v6.sin6_scope_id = item->index;
    memcpy(&item->address, &v6, sizeof v6);
}

/* Add an address, unless it is tentative or a duplicate, since such an address cannot be
 * bound. */
static tryst_status address_note(struct netif_scan *scan, const struct nlmsghdr *message)
{
    struct ifaddrmsg fixed;
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof fixed))
        return TRYST_OK;
    memcpy(&fixed, NLMSG_DATA(message), sizeof fixed);
    struct address_attributes found = {.bytes = fixed.ifa_family == AF_INET ? 4 : 16,
                                       .flags = fixed.ifa_flags};
    if (fixed.ifa_family != AF_INET && fixed.ifa_family != AF_INET6)
        return TRYST_OK;
    if (!netlink_attributes(message, sizeof fixed, address_attribute, &found))
        return TRYST_OK;
    if (!found.has_address && !found.has_local)
        return TRYST_OK;
    if (found.flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
        return TRYST_OK;
    if (fixed.ifa_prefixlen > 8 * found.bytes)
        return TRYST_OK;
    struct netif item = {.index = fixed.ifa_index,
                         .family = fixed.ifa_family,
                         .prefix_bits = fixed.ifa_prefixlen};
    address_fill(&item, found.has_local ? found.local : found.address);
    if (!mem_reserve(&scan->items, &scan->items_capacity, scan->items_count + 1,
                     sizeof item))
        return TRYST_E_NOMEM;
    scan->items[scan->items_count++] = item;
    return TRYST_OK;
}

static struct netif_link *link_find(struct netif_scan *scan, uint32_t index)
{
    for (size_t i = 0; i < scan->links_count; i++)
        if (scan->links[i].index == index)
            return &scan->links[i];
    return NULL;
}

struct route_attributes {
    struct netif_scan *scan;
    uint32_t metric, table;
    int family;
    uint32_t hops[8]; /* interfaces of a multipath route; further ones are ignored */
    size_t hops_count;
};

static void hop_note(struct route_attributes *found, uint32_t index)
{
    if (found->hops_count < sizeof found->hops / sizeof found->hops[0])
        found->hops[found->hops_count++] = index;
}

static void hops_note(struct route_attributes *found, const struct rtattr *attribute)
{
    const char *at = RTA_DATA(attribute);
    size_t left = RTA_PAYLOAD(attribute);
    struct rtnexthop hop;
    while (left >= sizeof hop) {
        memcpy(&hop, at, sizeof hop);
        if (hop.rtnh_len < sizeof hop || hop.rtnh_len > left)
            return;
        hop_note(found, (uint32_t)hop.rtnh_ifindex);
        size_t step = NLMSG_ALIGN(hop.rtnh_len);
        at += step;
        left = step < left ? left - step : 0;
    }
}

static void route_attribute(void *arg, const struct rtattr *attribute)
{
    struct route_attributes *found = arg;
    uint32_t index;
    if (attribute->rta_type == RTA_PRIORITY)
        netlink_copy(attribute, &found->metric, 4);
    if (attribute->rta_type == RTA_TABLE)
        netlink_copy(attribute, &found->table, 4);
    if (attribute->rta_type == RTA_OIF && netlink_copy(attribute, &index, 4))
        hop_note(found, index);
    if (attribute->rta_type == RTA_MULTIPATH)
        hops_note(found, attribute);
}

/* Set the metrics of the links of a default route of the main table; other routes are
 * ignored. Links are dumped before routes. */
static tryst_status route_note(struct netif_scan *scan, const struct nlmsghdr *message)
{
    struct rtmsg fixed;
    struct route_attributes found = {.scan = scan};
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof fixed))
        return TRYST_OK;
    memcpy(&fixed, NLMSG_DATA(message), sizeof fixed);
    if (fixed.rtm_dst_len != 0 || fixed.rtm_type != RTN_UNICAST)
        return TRYST_OK;
    found.table = fixed.rtm_table;
    if (!netlink_attributes(message, sizeof fixed, route_attribute, &found))
        return TRYST_OK;
    if (found.table != RT_TABLE_MAIN)
        return TRYST_OK;
    for (size_t i = 0; i < found.hops_count; i++) {
        struct netif_link *link = link_find(scan, found.hops[i]);
        if (!link)
            continue;
        uint32_t *metric = fixed.rtm_family == AF_INET ? &link->metric4 : &link->metric6;
        if (found.metric < *metric)
            *metric = found.metric;
    }
    return TRYST_OK;
}

tryst_status netif_scan_message(void *scan, const struct nlmsghdr *message)
{
    switch (message->nlmsg_type) {
    case RTM_NEWLINK: return link_note(scan, message);
    case RTM_NEWADDR: return address_note(scan, message);
    case RTM_NEWROUTE: return route_note(scan, message);
    default: return TRYST_OK;
    }
}

static int item_compare(const void *left, const void *right)
{
    const struct netif *a = left, *b = right;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    if (a->family != b->family)
        return a->family == AF_INET ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

tryst_status netif_scan_list(struct netif_scan *scan, struct netif_list **list_p)
{
    struct netif_list *list =
        mem_zalloc(sizeof *list + scan->items_count * sizeof list->items[0]);
    if (!list)
        return TRYST_E_NOMEM;
    for (size_t i = 0; i < scan->items_count; i++) {
        struct netif item = scan->items[i];
        item.order = (uint32_t)i;
        const struct netif_link *link = link_find(scan, item.index);
        if (!link)
            continue;
        memcpy(item.name, link->name, sizeof item.name);
        item.mtu = link->mtu;
        item.speed_bits_per_s = link->speed_bits_per_s;
        item.default_metric = item.family == AF_INET ? link->metric4 : link->metric6;
        item.up = link->up;
        item.loopback = link->loopback;
        item.tunnel = link->tunnel;
        list->items[list->count++] = item;
    }
    qsort(list->items, list->count, sizeof list->items[0], item_compare);
    *list_p = list;
    return TRYST_OK;
}

void netif_scan_wipe(struct netif_scan *scan)
{
    mem_free(scan->links);
    mem_free(scan->items);
    *scan = (struct netif_scan){0};
}
