/* SPDX-License-Identifier: Apache-2.0 */
/* Which interfaces to use: TRYST_NET, and what is chosen without it.
 *
 * One idea: a pure function over a list, so policy is tested as a table.
 * Callers: the context and bootstrap; tryst-info's preflight. */
#ifndef TRYST_TOPOLOGY_NETIF_CHOOSE_H
#define TRYST_TOPOLOGY_NETIF_CHOOSE_H

#include "netif.h"

/* The entries that `wanted` names: "eth0,10.0.0.0/8,fd00::/8,192.168.1.7" (the syntax of
 * TRYST_NET: interface names, CIDR blocks, single addresses). NULL or "" chooses for the
 * user: all that are up, without IPv6 link-local unless there is nothing else, and
 * without loopback unless there is not even that. A link-local address is chosen by its interface's name only where that has no
 * other, or by its own block. Order is the list's.
 * TRYST_E_CONFIG when an item is malformed or matches nothing that is up: the text names it
 * and lists what there is. TRYST_E_NOMEM. */
tryst_status netif_select(const struct netif_list *list, const char *wanted,
                          struct err *err, struct netif_list **selected_p);

/* The same of this machine's interfaces as they are now; netif_list_close undoes it. Besides,
 * TRYST_E_SYSTEM. */
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

/* The first entry of each interface: what a rail is made of. TRYST_OK or TRYST_E_NOMEM. */
tryst_status netif_first_each(const struct netif_list *list, struct err *err,
                              struct netif_list **firsts_p);

#endif
