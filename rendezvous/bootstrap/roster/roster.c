/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roster in memory; see roster.h.
 */
#include "roster.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/hash_table.h"
#include "core/text/hash.h"
#include "device_name.h"

/* ---- hosts ------------------------------------------------------------------------- */

/* Return the index of this host in `hosts`; a host that is not there is added. `seen`
 * indexes `hosts` by hash; its nodes are `nodes`, parallel to `hosts`. */
static uint32_t host_index(struct hash_table *seen, struct hash_node *nodes,
                           struct host_identity *hosts, const struct host_identity *host)
{
    uint64_t hash = hash_bytes(host, sizeof *host);
    hash_table_for_each (seen, hash, node)
        if (memcmp(&hosts[node - nodes], host, sizeof *host) == 0)
            return (uint32_t)(node - nodes);
    size_t index = seen->count;
    /* with its padding, which is compared */
    memcpy(&hosts[index], host, sizeof *host);
    hash_table_add(seen, &nodes[index], hash);
    return (uint32_t)index;
}

/* Fill roster->hosts and each rank's `host`. */
static tryst_status hosts_keep(struct roster *roster, const struct roster_entry *entries)
{
    size_t size = (size_t)roster->size;
    struct hash_table seen;
    struct host_identity *hosts = mem_alloc(size * sizeof *hosts);
    struct hash_node *nodes = mem_alloc(size * sizeof *nodes);
    hash_table_init(&seen);
    for (size_t i = 0; hosts && nodes && i < size; i++) {
        struct host_identity host;
        memcpy(&host, &entries[i].host, sizeof host);
        host.process_id = 0;
        host.pid = 0;
        memset(&host.link, 0, sizeof host.link);
        roster->ranks[i].host = host_index(&seen, nodes, hosts, &host);
    }
    if (hosts && nodes)
        roster->hosts = mem_resize(hosts, seen.count * sizeof *hosts);
    if (!roster->hosts)
        mem_free(hosts);
    mem_free(nodes);
    hash_table_close(&seen);
    return roster->hosts ? TRYST_OK : TRYST_E_NOMEM;
}

/* ---- keep -------------------------------------------------------------------------- */

static tryst_status prefixes_keep(struct roster *roster,
                                  const struct roster_entry *entries)
{
    size_t bytes = 0;
    for (int i = 0; i < roster->size; i++)
        bytes += strlen(entries[i].device_prefix) + 1;
    roster->text = mem_alloc(bytes);
    if (!roster->text)
        return TRYST_E_NOMEM;
    char *at = roster->text;
    for (int i = 0; i < roster->size; i++) {
        size_t length = strlen(entries[i].device_prefix) + 1;
        roster->ranks[i].prefix = (uint32_t)(at - roster->text);
        memcpy(at, entries[i].device_prefix, length);
        at += length;
    }
    return TRYST_OK;
}

tryst_status roster_keep(struct roster *roster, const struct roster_entry *entries,
                         const struct roster_entry *const *by_prefix)
{
    roster->hosts = NULL;
    roster->text = NULL;
    roster->ranks = mem_alloc((size_t)roster->size * sizeof *roster->ranks);
    if (!roster->ranks)
        return TRYST_E_NOMEM;
    for (int i = 0; i < roster->size; i++) {
        roster->ranks[i] =
            (struct roster_rank){.incarnation = entries[i].incarnation,
                                 .process_id = entries[i].host.process_id,
                                 .link = entries[i].host.link,
                                 .pid = entries[i].host.pid,
                                 .by_prefix = (uint32_t)(by_prefix[i] - entries)};
        memcpy(roster->ranks[i].key, entries[i].key, sizeof entries[i].key);
    }
    tryst_status status = hosts_keep(roster, entries);
    if (status == TRYST_OK)
        status = prefixes_keep(roster, entries);
    if (status != TRYST_OK)
        roster_close(roster);
    return status;
}

void roster_close(struct roster *roster)
{
    mem_free(roster->ranks);
    mem_free(roster->hosts);
    mem_free(roster->text);
    roster->ranks = NULL;
    roster->hosts = NULL;
    roster->text = NULL;
}

/* ---- look-up ----------------------------------------------------------------------- */

struct host_identity roster_host(const struct roster *roster, int rank)
{
    const struct roster_rank *own = &roster->ranks[rank];
    struct host_identity host = roster->hosts[own->host];
    host.process_id = own->process_id;
    host.pid = own->pid;
    host.link = own->link;
    return host;
}

int roster_rank_of(const struct roster *roster, const char *device, size_t bytes)
{
    tryst_view name = {device, bytes};
    int begin = 0;
    int end = roster->size;
    while (begin < end) {
        int middle = begin + (end - begin) / 2;
        int rank = (int)roster->ranks[middle].by_prefix;
        const char *text = roster_prefix(roster, rank);
        tryst_view prefix = {text, strlen(text)};
        if (device_name_covers(prefix, name))
            return rank;
        if (device_name_compare(prefix, name) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return -1;
}
