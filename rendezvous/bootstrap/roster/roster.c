/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roster as it is kept; see roster.h.
 *
 * Callers: roster_gather.c makes it; match/key.c looks ranks up; peers connect by it.
 */
#include "roster.h"

#include <string.h>

#include "core/alloc.h"
#include "core/hash.h"
#include "device_name.h"

/* ---- hosts -------------------------------------------------------------------------------- */

/** Hosts that were seen, by open addressing: 1 + their index, 0 nothing. */
struct seen {
    uint32_t *slots;
    size_t mask;
    uint32_t count;
};

static bool seen_open(struct seen *seen, int size)
{
    size_t slots = 2;
    while (slots < 2 * (size_t)size)
        slots *= 2;
    *seen =
        (struct seen){.slots = mem_zalloc(slots * sizeof(uint32_t)), .mask = slots - 1};
    return seen->slots != NULL;
}

/** The index of this host among `hosts`, where it is added if it is new. */
static uint32_t host_index(struct seen *seen, struct host_identity *hosts,
                           const struct host_identity *host)
{
    size_t at = hash_bytes(host, sizeof *host) & seen->mask;
    for (; seen->slots[at]; at = (at + 1) & seen->mask)
        if (memcmp(&hosts[seen->slots[at] - 1], host, sizeof *host) == 0)
            return seen->slots[at] - 1;
    memcpy(&hosts[seen->count], host,
           sizeof *host); /* with its padding, which is compared */
    seen->slots[at] = ++seen->count;
    return seen->count - 1;
}

/** Fills roster->hosts and each rank's `host`. */
static tryst_status hosts_keep(struct roster *roster, const struct roster_entry *entries)
{
    struct seen seen;
    struct host_identity *hosts = mem_alloc((size_t)roster->size * sizeof *hosts);
    if (!hosts || !seen_open(&seen, roster->size)) {
        mem_free(hosts);
        return TRYST_E_NOMEM;
    }
    for (int i = 0; i < roster->size; i++) {
        struct host_identity host;
        memcpy(&host, &entries[i].host, sizeof host);
        host.process_id = 0;
        host.pid = 0;
        memset(&host.link, 0, sizeof host.link);
        roster->ranks[i].host = host_index(&seen, hosts, &host);
    }
    mem_free(seen.slots);
    roster->hosts = mem_resize(hosts, seen.count * sizeof *hosts);
    if (roster->hosts)
        return TRYST_OK;
    mem_free(hosts);
    return TRYST_E_NOMEM;
}

/* ---- keep --------------------------------------------------------------------------------- */

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
    for (int i = 0; i < roster->size; i++)
        roster->ranks[i] =
            (struct roster_rank){.incarnation = entries[i].incarnation,
                                 .process_id = entries[i].host.process_id,
                                 .link = entries[i].host.link,
                                 .pid = entries[i].host.pid,
                                 .by_prefix = (uint32_t)(by_prefix[i] - entries)};
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

/* ---- questions ---------------------------------------------------------------------------- */

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
