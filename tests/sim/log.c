/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a simulation; see log.h. */
#include "log.h"

#include <stdlib.h>

#include "support/unit.h"

void sim_log_add(struct sim_log *log, const struct sim_entry *entry)
{
    if (log->count == log->room) {
        log->room = 2 * log->room + 1024;
        log->entries = realloc(log->entries, log->room * sizeof *log->entries);
        assert_non_null(log->entries);
    }
    log->entries[log->count++] = *entry;
}

void sim_log_clear(struct sim_log *log)
{
    free(log->entries);
    *log = (struct sim_log){0};
}

/* Mix a word into the hash (FNV-1a, a word at a time). */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 0x100000001b3u;
}

uint64_t sim_log_hash(const struct sim_log *log)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < log->count; i++) {
        const struct sim_entry *entry = &log->entries[i];
        const uint64_t words[] = {entry->at_ns,
                                  entry->event,
                                  (uint64_t)entry->which,
                                  (uint64_t)entry->rank,
                                  (uint64_t)entry->peer,
                                  entry->a,
                                  entry->b,
                                  entry->urgency.sort_key,
                                  entry->urgency.step,
                                  entry->urgency.number};
        for (size_t j = 0; j < COUNT_OF(words); j++)
            hash = mix(hash ^ hash >> 29, words[j]);
    }
    return hash;
}

void sim_log_write(const struct sim_log *log, FILE *file)
{
    static const char *const names[] = {"submit",
                                        "done",
                                        "cancel",
                                        "raised",
                                        "lane",
                                        "add",
                                        "posted",
                                        "raise",
                                        "credit",
                                        "remove",
                                        "start",
                                        "refused",
                                        "slice",
                                        "frame",
                                        "script",
                                        "collective",
                                        "collective done",
                                        "collective canceled"};
    for (size_t i = 0; i < log->count; i++) {
        const struct sim_entry *entry = &log->entries[i];
        (void)fprintf(file,
                      "%llu %s %d rank %d peer %d: %llu %llu class %d priority %d\n",
                      (unsigned long long)entry->at_ns, names[entry->event], entry->which,
                      entry->rank, entry->peer, (unsigned long long)entry->a,
                      (unsigned long long)entry->b, (int)urgency_class(&entry->urgency),
                      (int)urgency_priority(&entry->urgency));
    }
}
