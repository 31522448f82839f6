/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roster: gather every rank's announcement, and refuse a job if its ranks contradict.
 *
 * Idea: every rank checks all entries by the same rules, so all reach the same verdict
 * without a message.
 */
#include "roster_gather.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/text.h"
#include "device_name.h"
#include "rendezvous/bootstrap/session/bootstrap.h"

#define ROSTER_BYTE_ORDER 0x01020304u

/* The announcements, until they are checked. */
struct announced {
    int rank, size;
    struct roster_entry *entries;          /* by rank */
    const struct roster_entry **by_prefix; /* the same by device_name_compare */
};

/* ---- checks ------------------------------------------------------------------------ */

static tryst_status versions_check(const struct announced *roster, struct err *err)
{
    const struct roster_entry *mine = &roster->entries[roster->rank];
    for (int i = 0; i < roster->size; i++) {
        const struct roster_entry *theirs = &roster->entries[i];
        if (theirs->byte_order != ROSTER_BYTE_ORDER)
            return err_set(
                err, TRYST_E_HANDSHAKE,
                "rank %d has another byte order; all hosts must be little-endian", i);
        if (theirs->wire_version == mine->wire_version &&
            theirs->agreed_count != mine->agreed_count)
            return err_set(
                err, TRYST_E_HANDSHAKE,
                "rank %d (library %u.%u.%u) compares %u settings with the others', rank "
                "%d compares %u; install one version of tryst on all hosts",
                i, theirs->library_version >> 16, theirs->library_version >> 8 & 255,
                theirs->library_version & 255, theirs->agreed_count, roster->rank,
                mine->agreed_count);
        if (theirs->wire_version != mine->wire_version)
            return err_set(err, TRYST_E_HANDSHAKE,
                           "rank %d has wire version %u (library %u.%u.%u), rank %d has "
                           "%u; install one version of tryst on all hosts",
                           i, theirs->wire_version, theirs->library_version >> 16,
                           theirs->library_version >> 8 & 255,
                           theirs->library_version & 255, roster->rank,
                           mine->wire_version);
    }
    return TRYST_OK;
}

static tryst_status settings_check(const struct announced *roster, struct err *err)
{
    struct config_difference difference;
    const struct roster_entry *first = &roster->entries[0];
    for (int i = 1; i < roster->size; i++) {
        const struct roster_entry *other = &roster->entries[i];
        if (config_agreed_differ(first->agreed, other->agreed, first->agreed_count,
                                 &difference))
            return err_set(
                err, TRYST_E_HANDSHAKE,
                "%s must be equal on all ranks: it is %s on rank 0 and %s on rank %d",
                config_environment(difference.id), difference.mine, difference.theirs, i);
    }
    return TRYST_OK;
}

static tryst_view prefix_of(const struct roster_entry *entry)
{
    return (tryst_view){entry->device_prefix, strlen(entry->device_prefix)};
}

/* Compare prefixes for qsort; equal prefixes are in the order of ranks. */
static int entries_compare(const void *a, const void *b)
{
    const struct roster_entry *const *left = a;
    const struct roster_entry *const *right = b;
    int order = device_name_compare(prefix_of(*left), prefix_of(*right));
    return order ? order : (*left > *right) - (*left < *right);
}

static tryst_status prefixes_sort(struct announced *roster)
{
    roster->by_prefix = mem_alloc((size_t)roster->size * sizeof *roster->by_prefix);
    if (!roster->by_prefix)
        return TRYST_E_NOMEM;
    for (int i = 0; i < roster->size; i++)
        roster->by_prefix[i] = &roster->entries[i];
    qsort(roster->by_prefix, (size_t)roster->size, sizeof *roster->by_prefix,
          entries_compare);
    return TRYST_OK;
}

/* Return the lowest rank with a prefix that covers another rank's; the number of ranks:
 * there is none. Comparing neighbours is enough: the names that a prefix covers come
 * directly after it, and an equal prefix also before it. */
static int covering_first(const struct announced *roster)
{
    int first = roster->size;
    for (int i = 1; i < roster->size; i++) {
        const struct roster_entry *low = roster->by_prefix[i - 1];
        const struct roster_entry *high = roster->by_prefix[i];
        if (!device_name_covers(prefix_of(low), prefix_of(high)))
            continue;
        if (low - roster->entries < first)
            first = (int)(low - roster->entries);
        if (high - roster->entries < first &&
            device_name_covers(prefix_of(high), prefix_of(low)))
            first = (int)(high - roster->entries);
    }
    return first;
}

static tryst_status prefix_check(int rank, const char *prefix, struct err *err)
{
    size_t at;
    const char *reason =
        device_name_check((tryst_view){prefix, strlen(prefix)}, true, &at);
    if (!reason)
        return TRYST_OK;
    return err_set(err, TRYST_E_GROUP,
                   "rank %d has an invalid device prefix: \"%s\" (%s, at byte %zu); "
                   "set the beginning of a device name, by whole parts: "
                   "/job:NAME/replica:N/task:N",
                   rank, prefix, reason, at);
}

static tryst_status prefixes_check(struct announced *roster, struct err *err)
{
    const struct roster_entry *entries = roster->entries;
    tryst_status status = prefixes_sort(roster);
    if (status != TRYST_OK)
        return err_set(err, status, "cannot make the roster of %d ranks: out of memory",
                       roster->size);
    int first = covering_first(roster);
    for (int i = 0; i < roster->size && i <= first; i++) {
        status = prefix_check(i, entries[i].device_prefix, err);
        if (status != TRYST_OK)
            return status;
    }
    if (first == roster->size)
        return TRYST_OK;
    int other = 0;
    while (other == first ||
           !device_name_covers(prefix_of(&entries[first]), prefix_of(&entries[other])))
        other++;
    return err_set(err, TRYST_E_GROUP,
                   "ranks %d and %d have device prefixes of which one covers the "
                   "other: \"%s\" and \"%s\"; give each rank its own",
                   first, other, entries[first].device_prefix,
                   entries[other].device_prefix);
}

/* Escape a text. A rank escapes its own entry too, so that all ranks hold the same. */
static void string_clean(char *text, size_t capacity)
{
    char came[ROSTER_PREFIX_MAX];
    memcpy(came, text, capacity);
    text_escape(came, strnlen(came, capacity), text, capacity);
}

static void entries_clean(struct announced *roster)
{
    static_assert(sizeof roster->entries->host.host_name <= ROSTER_PREFIX_MAX, "fits");
    for (int i = 0; i < roster->size; i++) {
        struct roster_entry *entry = &roster->entries[i];
        string_clean(entry->device_prefix, sizeof entry->device_prefix);
        string_clean(entry->host.host_name, sizeof entry->host.host_name);
        if (entry->agreed_count > ROSTER_DIGESTS_MAX)
            entry->agreed_count = ROSTER_DIGESTS_MAX;
        if (entry->host.rails_count > HOST_RAILS_MAX)
            entry->host.rails_count = HOST_RAILS_MAX;
    }
}

static void locals_count(const struct announced *all, struct roster *roster)
{
    const struct host_identity *mine = &all->entries[all->rank].host;
    roster->local_rank = roster->local_size = 0;
    for (int i = 0; i < all->size; i++) {
        if (!identity_same_host(mine, &all->entries[i].host))
            continue;
        roster->local_size++;
        roster->local_rank += i < all->rank;
    }
}

/* ---- open -------------------------------------------------------------------------- */

static void entry_fill(struct roster_entry *mine, const struct config *config)
{
    mine->byte_order = ROSTER_BYTE_ORDER;
    mine->library_version =
        TRYST_VERSION_MAJOR << 16 | TRYST_VERSION_MINOR << 8 | TRYST_VERSION_PATCH;
    mine->agreed_count =
        (uint32_t)config_agreed(config, mine->agreed, ROSTER_DIGESTS_MAX);
}

/* Check the entries and sort by_prefix. */
static tryst_status announced_check(struct announced *all, struct err *err)
{
    entries_clean(all);
    tryst_status status = versions_check(all, err);
    if (status == TRYST_OK)
        status = settings_check(all, err);
    return status == TRYST_OK ? prefixes_check(all, err) : status;
}

tryst_status roster_open(struct bootstrap *bootstrap, int rank, int size,
                         const struct config *config, struct roster_entry *mine,
                         struct err *err, struct roster *roster_p)
{
    struct announced all = {.rank = rank, .size = size};
    struct roster roster = {.rank = rank, .size = size};
    tryst_status status = TRYST_OK;
    entry_fill(mine, config);
    all.entries = mem_zalloc((size_t)size * sizeof *all.entries);
    if (!all.entries)
        return err_set(err, TRYST_E_NOMEM,
                       "cannot make the roster of %d ranks: out of memory", size);
    all.entries[rank] = *mine;
    if (bootstrap)
        status = bootstrap_allgather(bootstrap, mine, sizeof *mine, all.entries, err);
    if (status == TRYST_OK)
        status = announced_check(&all, err);
    if (status == TRYST_OK) {
        locals_count(&all, &roster);
        status = roster_keep(&roster, all.entries, all.by_prefix);
        if (status != TRYST_OK)
            err_set(err, status, "cannot make the roster of %d ranks: out of memory",
                    size);
    }
    mem_free(all.by_prefix);
    mem_free(all.entries);
    if (status == TRYST_OK)
        *roster_p = roster;
    return status;
}
