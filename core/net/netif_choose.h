/* SPDX-License-Identifier: Apache-2.0 */
/* Choose interfaces, by TRYST_NET or by default.
 *
 * One idea: a pure function over a list, so the policy is tested as a table. */
#ifndef TRYST_CORE_NET_NETIF_CHOOSE_H
#define TRYST_CORE_NET_NETIF_CHOOSE_H

#include "netif.h"

/** Select the entries that `wanted` names, in the list's order:
 *  "eth0,10.0.0.0/8,fd00::/8,192.168.1.7" (the syntax of TRYST_NET: interface names, CIDR
 *  blocks, single addresses). A name selects link-local addresses only if its interface
 *  has no other; a block selects every address inside.
 *  NULL or "" selects by default, of the interfaces that are up, the first group that has
 *  an entry: addresses other than link-local (169.254.0.0/16, fe80::/10) and loopback
 *  (127.0.0.0/8, ::1), without bridges of container and VM managers; these addresses with
 *  the bridges; link-local without the bridges; loopback. A global address of the
 *  loopback interface is the host's.
 *  TRYST_E_CONFIG: an item is malformed or matches no interface that is up; the message
 *  names the item and lists the interfaces. TRYST_E_NOMEM. */
tryst_status netif_select(const struct netif_list *list, const char *wanted,
                          struct err *err, struct netif_list **selected_p);

/** Select among this machine's current interfaces as netif_select; the caller closes the
 *  list by netif_list_close. Returns as netif_select, or TRYST_E_SYSTEM. */
static inline tryst_status netif_choose(const char *wanted, struct err *err,
                                        struct netif_list **chosen_p)
{
    struct netif_list *all = NULL;
    tryst_status status = netif_list_open(err, &all);
    if (status == TRYST_OK)
        status = netif_select(all, wanted, err, chosen_p);
    netif_list_close(all);
    return status;
}

/** Select the addresses of rails: of each interface the first of each family, in the
 *  order of preference; the first one is the host's own address. TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status netif_rails(const struct netif_list *list, struct err *err,
                         struct netif_list **rails_p);

#endif
