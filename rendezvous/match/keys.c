/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most recently used keys; see keys.h.
 *
 * Invariant: a key is in the index while its place holds a reference to the key.
 */
#include "keys.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/list.h"
#include "core/text/hash.h"

struct key_place {
    struct hash_node node; /* in keys->index, while `key` is set */
    tryst_key *key;
};

void keys_init(struct keys *keys)
{
    pthread_mutex_init(&keys->lock, NULL);
    hash_table_init(&keys->index);
    keys->places = NULL;
    keys->next = 0;
}

void keys_forget(struct keys *keys)
{
    pthread_mutex_lock(&keys->lock);
    for (uint32_t i = 0; keys->places && i < KEYS_MAX; i++)
        prepared_unref(keys->places[i].key);
    mem_free(keys->places);
    keys->places = NULL;
    hash_table_close(&keys->index);
    pthread_mutex_unlock(&keys->lock);
}

void keys_close(struct keys *keys)
{
    keys_forget(keys);
    pthread_mutex_destroy(&keys->lock);
}

static tryst_key *key_find(const struct keys *keys, const char *string, size_t bytes,
                           uint64_t hash)
{
    hash_table_for_each (&keys->index, hash, node) {
        tryst_key *key = container_of(node, struct key_place, node)->key;
        if (key->bytes == bytes && memcmp(key->string, string, bytes) == 0)
            return prepared_ref(key);
    }
    return NULL;
}

/* Store a reference in the oldest place. */
static void key_keep(struct keys *keys, tryst_key *key)
{
    if (!keys->places)
        keys->places = mem_zalloc_array(KEYS_MAX, sizeof *keys->places);
    if (!keys->places)
        return;
    struct key_place *place = &keys->places[keys->next++ & (KEYS_MAX - 1)];
    if (place->key) {
        hash_table_remove(&keys->index, &place->node);
        prepared_unref(place->key);
    }
    place->key = prepared_ref(key);
    hash_table_add(&keys->index, &place->node, key->table_hash);
}

tryst_key *keys_find(struct keys *keys, const char *string, size_t bytes, uint64_t hash)
{
    pthread_mutex_lock(&keys->lock);
    tryst_key *key = key_find(keys, string, bytes, hash);
    pthread_mutex_unlock(&keys->lock);
    return key;
}

void keys_keep(struct keys *keys, tryst_key *key)
{
    pthread_mutex_lock(&keys->lock);
    /* Two threads that prepare a key at once store it twice; the older entry is replaced
     * first. */
    key_keep(keys, key);
    pthread_mutex_unlock(&keys->lock);
}

tryst_status keys_get(struct keys *keys, const struct roster *roster, const char *string,
                      size_t bytes, struct err *err, tryst_key **key_p)
{
    tryst_key *key = NULL;
    if (bytes <= TRYST_KEY_MAX)
        key = keys_find(keys, string, bytes, hash_keyed(string, bytes));
    if (!key) {
        tryst_status status = prepared_open(roster, string, bytes, err, &key);
        if (status != TRYST_OK)
            return status;
        keys_keep(keys, key);
    }
    *key_p = key;
    return TRYST_OK;
}
