/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store of a bootstrap session: names to small values.
 *
 * One idea: a value is put once and never changes or goes, so a reply may point at it.
 * Invariant: at most STORE_ENTRIES_MAX entries and STORE_BYTES_MAX bytes of values.
 * Callers: bootstrap_serve.c. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_STORE_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_STORE_H

#include "bootstrap_wire.h"
#include "core/list.h"

#define STORE_ENTRIES_MAX 16384
#define STORE_BYTES_MAX   (16u << 20)

struct store_entry {
    struct list_node node;
    size_t bytes;
    char name[BOOTSTRAP_WIRE_KEY_BYTES];
    uint8_t value[];
};

struct store {
    struct list entries;
    size_t entries_count, bytes;
};

void store_init(struct store *store);
void store_wipe(struct store *store);

/* Copies. TRYST_E_INVALID (put twice, over a limit) or TRYST_E_NOMEM. */
tryst_status store_put(struct store *store, const char *name, const void *value,
                       size_t bytes);

/* NULL when nobody has put it yet. */
const struct store_entry *store_get(const struct store *store, const char *name);

#endif
