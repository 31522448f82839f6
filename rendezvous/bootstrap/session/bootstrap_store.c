/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value store of a bootstrap session: see bootstrap_store.h.
 * A list is enough: it holds a few names per rank, for the moments of coming together. */
#include "bootstrap_store.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

void store_init(struct store *store)
{
    list_init(&store->entries);
    store->entries_count = store->bytes = 0;
}

void store_wipe(struct store *store)
{
    struct list_node *node;
    while ((node = list_pop_front(&store->entries)))
        mem_free(container_of(node, struct store_entry, node));
    store_init(store);
}

const struct store_entry *store_get(const struct store *store, const char *name)
{
    list_for_each_safe (&store->entries, node, after) {
        const struct store_entry *entry = container_of(node, struct store_entry, node);
        if (strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

tryst_status store_put(struct store *store, const char *name, const void *value,
                       size_t bytes)
{
    if (store_get(store, name) || bytes > BOOTSTRAP_VALUE_MAX ||
        store->entries_count == STORE_ENTRIES_MAX ||
        store->bytes + bytes > STORE_BYTES_MAX)
        return TRYST_E_INVALID;
    struct store_entry *entry = mem_alloc(sizeof *entry + bytes);
    if (!entry)
        return TRYST_E_NOMEM;
    list_node_init(&entry->node);
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->bytes = bytes;
    if (bytes)
        memcpy(entry->value, value, bytes);
    list_push_back(&store->entries, &entry->node);
    store->entries_count++;
    store->bytes += bytes;
    return TRYST_OK;
}
