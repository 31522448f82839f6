/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roster: gather what every rank announces, and refuse a job that does not fit together.
 *
 * Idea: every rank checks all entries by the same rules, so all come to the same verdict and
 * nobody has to be told.
 * Callers: tryst_group_open (commsched/context.c); rendezvous/match/key.c looks ranks up.
 */
#include "rendezvous/bootstrap/roster.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/alloc.h"
#include "core/text.h"
#include "rendezvous/bootstrap/bootstrap.h"
#include "rendezvous/bootstrap/device_name.h"

#define ROSTER_BYTE_ORDER 0x01020304u

/* ---- checks ------------------------------------------------------------------------------- */

static tryst_status versions_check(const struct roster *roster, struct err *err)
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
            return err_set(
                err, TRYST_E_HANDSHAKE,
                "rank %d speaks wire version %u (library %u.%u.%u), rank %d speaks "
                "%u; install one version of tryst on all hosts",
                i, theirs->wire_version, theirs->library_version >> 16,
                theirs->library_version >> 8 & 255, theirs->library_version & 255,
                roster->rank, mine->wire_version);
    }
    return TRYST_OK;
}

static tryst_status settings_check(const struct roster *roster, struct err *err)
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

/** Whether `prefix` covers `device` by whole path components. */
static bool prefix_covers(const char *prefix, const char *device, size_t bytes)
{
    size_t length = strlen(prefix);
    return bytes >= length && memcmp(prefix, device, length) == 0 &&
           (bytes == length || device[length] == '/');
}

static tryst_status prefix_check(int rank, const char *prefix, struct err *err)
{
    size_t at;
    const char *reason =
        device_name_check((tryst_view){prefix, strlen(prefix)}, true, &at);
    if (!reason)
        return TRYST_OK;
    return err_set(
        err, TRYST_E_GROUP,
        "no key can name rank %d by the device prefix \"%s\" (%s, at byte %zu); "
        "give it the beginning of a device name, by whole parts: "
        "/job:NAME/replica:N/task:N",
        rank, prefix, reason, at);
}

static tryst_status prefixes_check(const struct roster *roster, struct err *err)
{
    for (int i = 0; i < roster->size; i++) {
        const char *mine = roster->entries[i].device_prefix;
        tryst_status status = prefix_check(i, mine, err);
        if (status != TRYST_OK)
            return status;
        for (int j = 0; j < roster->size; j++) {
            const char *theirs = roster->entries[j].device_prefix;
            if (i != j && prefix_covers(mine, theirs, strlen(theirs)))
                return err_set(
                    err, TRYST_E_GROUP,
                    "ranks %d and %d have device prefixes of which one covers the "
                    "other: \"%s\" and \"%s\"; give each rank its own",
                    i, j, mine, theirs);
        }
    }
    return TRYST_OK;
}

/** Every rank's own as well, so that all hold the same. */
static void string_clean(char *text, size_t capacity)
{
    char came[ROSTER_PREFIX_MAX];
    memcpy(came, text, capacity);
    text_escape(came, strnlen(came, capacity), text, capacity);
}

static void entries_clean(struct roster *roster)
{
    static_assert(sizeof roster->entries->host.host_name <= ROSTER_PREFIX_MAX, "fits");
    for (int i = 0; i < roster->size; i++) {
        struct roster_entry *entry = &roster->entries[i];
        string_clean(entry->device_prefix, sizeof entry->device_prefix);
        string_clean(entry->host.host_name, sizeof entry->host.host_name);
        if (entry->agreed_count > ROSTER_DIGESTS_MAX)
            entry->agreed_count = ROSTER_DIGESTS_MAX;
        if (entry->host.rails_count > 8)
            entry->host.rails_count = 8;
    }
}

static void locals_count(struct roster *roster)
{
    const struct host_identity *mine = &roster->entries[roster->rank].host;
    for (int i = 0; i < roster->size; i++) {
        if (!identity_same_host(mine, &roster->entries[i].host))
            continue;
        roster->local_size++;
        roster->local_rank += i < roster->rank;
    }
}

/* ---- open --------------------------------------------------------------------------------- */

static void entry_fill(struct roster_entry *mine, const struct config *config)
{
    mine->byte_order = ROSTER_BYTE_ORDER;
    mine->library_version =
        TRYST_VERSION_MAJOR << 16 | TRYST_VERSION_MINOR << 8 | TRYST_VERSION_PATCH;
    mine->agreed_count = (uint32_t)config_agreed_count();
    if (mine->agreed_count <= ROSTER_DIGESTS_MAX)
        config_agreed_values(config, mine->agreed);
}

tryst_status roster_open(struct bootstrap *bootstrap, int rank, int size,
                         const struct config *config, struct roster_entry *mine,
                         struct err *err, struct roster *roster_p)
{
    struct roster roster = {.rank = rank, .size = size};
    tryst_status status = TRYST_OK;
    entry_fill(mine, config);
    roster.entries = mem_zalloc((size_t)size * sizeof *roster.entries);
    if (!roster.entries)
        return err_set(err, TRYST_E_NOMEM, "no memory for the roster of %d ranks", size);
    roster.entries[rank] = *mine;
    if (bootstrap)
        status = bootstrap_allgather(bootstrap, mine, sizeof *mine, roster.entries, err);
    if (status == TRYST_OK) {
        entries_clean(&roster);
        status = versions_check(&roster, err);
    }
    if (status == TRYST_OK)
        status = settings_check(&roster, err);
    if (status == TRYST_OK)
        status = prefixes_check(&roster, err);
    if (status != TRYST_OK) {
        roster_close(&roster);
        return status;
    }
    locals_count(&roster);
    *roster_p = roster;
    return TRYST_OK;
}

void roster_close(struct roster *roster)
{
    mem_free(roster->entries);
    roster->entries = NULL;
}

int roster_rank_of(const struct roster *roster, const char *device, size_t bytes)
{
    for (int i = 0; i < roster->size; i++)
        if (prefix_covers(roster->entries[i].device_prefix, device, bytes))
            return i;
    return -1;
}
