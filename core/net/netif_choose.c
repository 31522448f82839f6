/* SPDX-License-Identifier: Apache-2.0 */
/* See netif_choose.h.
 *
 * Invariant: by default, a link-local address is chosen only if the machine has no other
 * address but loopback addresses, and a loopback address only if it has no other one. */
#include "netif_choose.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"

/* Bridges that container and VM managers create with the same private subnet on every
 * host: two hosts seem to share this subnet but do not. TRYST_NET can name these bridges;
 * by default they are used only if no other interface fits. */
static const char *const host_only_prefixes[] = {"docker",  "virbr",  "br-",   "cni",
                                                 "podman",  "lxcbr",  "lxdbr", "vmnet",
                                                 "vboxnet", "nerdctl"};

static const struct sockaddr *item_address(const struct netif *item)
{
    return (const struct sockaddr *)&item->address;
}

static bool is_link_local6(const struct netif *item)
{
    const struct sockaddr_in6 *v6 = (const void *)&item->address;
    return item->family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

static bool is_link_local(const struct netif *item)
{
    const struct sockaddr_in *v4 = (const void *)&item->address;
    return item->family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 16 == 0xa9fe
                                   : is_link_local6(item);
}

/* True for the addresses that each host has. A routed host may have its only global
 * address on the loopback interface. */
static bool is_loopback(const struct netif *item)
{
    const struct sockaddr_in *v4 = (const void *)&item->address;
    const struct sockaddr_in6 *v6 = (const void *)&item->address;
    return item->family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
                                   : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static bool is_host_only(const struct netif *item)
{
    for (size_t i = 0; i < sizeof host_only_prefixes / sizeof host_only_prefixes[0]; i++)
        if (strncmp(item->name, host_only_prefixes[i], strlen(host_only_prefixes[i])) ==
            0)
            return true;
    return false;
}

struct block {
    struct sockaddr_storage address;
    uint32_t prefix_bits;
};

/* Parse "10.0.0.0/8" or "fd00::1". Returns false if `item` is neither, and so a name. */
static bool block_parse(const char *item, struct block *block_p)
{
    char text[NETIF_TEXT_BYTES];
    struct block block = {.prefix_bits = 0};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    size_t head = strcspn(item, "/");
    if (head >= sizeof text)
        return false;
    memcpy(text, item, head);
    text[head] = '\0';
    uint32_t most = 32;
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(&block.address, &v4, sizeof v4);
    } else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(&block.address, &v6, sizeof v6);
        most = 128;
    } else {
        return false;
    }
    block.prefix_bits = most;
    if (item[head] == '/') {
        const char *digits = item + head + 1;
        size_t count = strspn(digits, "0123456789");
        if (count == 0 || count > 3 || digits[count] != '\0')
            return false;
        block.prefix_bits = (uint32_t)strtoul(digits, NULL, 10);
    }
    if (block.prefix_bits > most)
        return false;
    *block_p = block;
    return true;
}

static bool name_has_global(const struct netif_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0 && list->items[i].up &&
            !is_link_local6(&list->items[i]))
            return true;
    return false;
}

/* Mark the entries that `item` names, and return their number; `*down_p` counts named
 * entries that are down. */
static size_t item_mark(const struct netif_list *list, const char *item, bool *marks,
                        size_t *down_p)
{
    struct block block;
    bool is_block = block_parse(item, &block);
    bool has_global = !is_block && name_has_global(list, item);
    size_t found = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct netif *entry = &list->items[i];
        bool names = is_block ? netif_prefix_holds((struct sockaddr *)&block.address,
                                                   block.prefix_bits, item_address(entry))
                              : strcmp(entry->name, item) == 0;
        if (!names || (has_global && is_link_local6(entry)))
            continue;
        if (!entry->up) {
            (*down_p)++;
            continue;
        }
        marks[i] = true;
        found++;
    }
    return found;
}

/* Write "lo 127.0.0.1/8, eth0 10.0.0.2/24 (down)", cut at the end of the room. */
static void list_text(const struct netif_list *list, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < list->count && used < bytes; i++) {
        char address[NETIF_TEXT_BYTES];
        const struct netif *item = &list->items[i];
        int wrote = snprintf(text + used, bytes - used, "%s%s %s/%u%s", i ? ", " : "",
                             item->name, netif_address_text(item_address(item), address),
                             item->prefix_bits, item->up ? "" : " (down)");
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (list->count == 0)
        snprintf(text, bytes, "no interface with an address");
}

static tryst_status item_refuse(const struct netif_list *list, const char *item,
                                size_t down_count, struct err *err)
{
    char have[384];
    struct block block;
    list_text(list, have, sizeof have);
    bool slash = strchr(item, '/') != NULL;
    const char *why = slash && !block_parse(item, &block)
                          ? "is not a CIDR block such as 10.0.0.0/8 or fd00::/8"
                      : down_count ? "names only interfaces that are down"
                                   : "matches no interface";
    return err_set(err, TRYST_E_CONFIG, "TRYST_NET: '%.64s' %s; this machine has: %s",
                   item, why, have);
}

static tryst_status wanted_mark(const struct netif_list *list, const char *wanted,
                                bool *marks, struct err *err)
{
    char item[NETIF_TEXT_BYTES + 8];
    while (*wanted) {
        wanted += strspn(wanted, ", \t");
        size_t length = strcspn(wanted, ", \t");
        if (length == 0)
            break;
        size_t kept = length < sizeof item ? length : sizeof item - 1;
        memcpy(item, wanted, kept);
        item[kept] = '\0';
        wanted += length;
        size_t down_count = 0;
        if (item_mark(list, item, marks, &down_count) == 0)
            return item_refuse(list, item, down_count, err);
    }
    return TRYST_OK;
}

/* True if an entry is in default group `rank`; the first group with an entry is
 * chosen. */
static bool default_rank_holds(int rank, const struct netif *item)
{
    bool local = is_link_local(item);
    if (!item->up)
        return false;
    if (rank == 0)
        return !is_loopback(item) && !local && !is_host_only(item);
    if (rank == 1)
        return !is_loopback(item) && !local;
    if (rank == 2)
        return local && !is_host_only(item);
    return is_loopback(item);
}

static void default_mark(const struct netif_list *list, bool *marks)
{
    size_t found = 0;
    for (int rank = 0; rank < 4 && found == 0; rank++)
        for (size_t i = 0; i < list->count; i++)
            if (default_rank_holds(rank, &list->items[i])) {
                marks[i] = true;
                found++;
            }
}

static tryst_status marked_items_copy(const struct netif_list *list, const bool *marks,
                                      struct netif_list **selected_p)
{
    struct netif_list *selected =
        mem_zalloc(sizeof *selected + list->count * sizeof selected->items[0]);
    if (!selected)
        return TRYST_E_NOMEM;
    for (size_t i = 0; i < list->count; i++)
        if (marks[i])
            selected->items[selected->count++] = list->items[i];
    *selected_p = selected;
    return TRYST_OK;
}

tryst_status netif_select(const struct netif_list *list, const char *wanted,
                          struct err *err, struct netif_list **selected_p)
{
    bool *marks = mem_zalloc(list->count + 1);
    if (!marks)
        return err_set(err, TRYST_E_NOMEM, "cannot choose interfaces: out of memory");
    bool asked = wanted && wanted[strspn(wanted, ", \t")] != '\0';
    tryst_status status = TRYST_OK;
    if (asked)
        status = wanted_mark(list, wanted, marks, err);
    else
        default_mark(list, marks);
    if (status == TRYST_OK) {
        status = marked_items_copy(list, marks, selected_p);
        if (status != TRYST_OK)
            err_set(err, status, "cannot choose interfaces: out of memory");
    }
    mem_free(marks);
    return status;
}

/* True if the list has a better entry of the same interface and family: an earlier one,
 * or one with an address that other hosts reach. */
static bool is_spare(const struct netif_list *list, size_t at)
{
    const struct netif *item = &list->items[at];
    bool local = is_link_local(item) || is_loopback(item);
    for (size_t i = 0; i < list->count; i++) {
        const struct netif *other = &list->items[i];
        bool other_local = is_link_local(other) || is_loopback(other);
        if (strcmp(other->name, item->name) != 0 || other->family != item->family)
            continue;
        if (local == other_local ? i < at : local)
            return true;
    }
    return false;
}

/* The order of rails: interfaces of networks, then tunnels, then the loopback interface;
 * of these the default route's first. */
static uint64_t rail_order(const struct netif *item)
{
    uint64_t group = item->loopback ? 2 : item->tunnel ? 1 : 0;
    return group << 32 | item->default_metric;
}

static void rails_sort(struct netif_list *list)
{
    for (size_t i = 1; i < list->count; i++) {
        struct netif item = list->items[i];
        size_t at = i;
        for (; at && rail_order(&item) < rail_order(&list->items[at - 1]); at--)
            list->items[at] = list->items[at - 1];
        list->items[at] = item;
    }
}

tryst_status netif_rails(const struct netif_list *list, struct err *err,
                         struct netif_list **rails_p)
{
    bool *marks = mem_zalloc(list->count + 1);
    tryst_status status = TRYST_E_NOMEM;
    for (size_t i = 0; marks && i < list->count; i++)
        marks[i] = !is_spare(list, i);
    if (marks)
        status = marked_items_copy(list, marks, rails_p);
    mem_free(marks);
    if (status != TRYST_OK)
        return err_set(err, status, "cannot choose interfaces: out of memory");
    rails_sort(*rails_p);
    return TRYST_OK;
}
