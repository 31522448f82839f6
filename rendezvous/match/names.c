/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of short names for keys, at both ends; see names.h. */
#include "names.h"

#include "core/memory/alloc.h"

/* ---- the consumer ------------------------------------------------------------------ */

static void name_forget(struct name *name)
{
    if (name->entry)
        name->entry->name = NULL;
    prepared_unref(name->key);
    *name = (struct name){0};
}

tryst_status names_in_open(struct names_in *names)
{
    names->places = mem_zalloc_array(NAMES_FIRST, sizeof *names->places);
    names->mask = NAMES_FIRST - 1;
    return names->places ? TRYST_OK : TRYST_E_NOMEM;
}

void names_in_close(struct names_in *names)
{
    for (uint32_t i = 0; names->places && i <= names->mask; i++)
        if (names->places[i].hash)
            name_forget(&names->places[i]);
    mem_free(names->places);
    names->places = NULL;
}

/* Move the names to the large table. Out of memory: the newest NAMES_FIRST names stay
 * valid. */
static void names_in_grow(struct names_in *names)
{
    struct name *places = mem_zalloc_array(NAMES_MAX, sizeof *places);
    if (!places)
        return;
    for (uint32_t i = 0; i <= names->mask; i++) {
        const struct name *old = &names->places[i];
        struct name *place = &places[old->name & (NAMES_MAX - 1)];
        if (!old->hash)
            continue;
        *place = *old;
        if (place->entry)
            place->entry->name = place;
    }
    mem_free(names->places);
    names->places = places;
    names->mask = NAMES_MAX - 1;
}

struct name *name_declare(struct names_in *names, uint32_t name, uint64_t hash,
                          const struct name_terms *terms)
{
    if (++names->count % NAMES_FIRST == 0 && !names_in_many(names))
        names_in_grow(names);
    struct name *place = &names->places[name & names->mask];
    name_forget(place);
    place->name = name;
    place->hash = hash;
    place->step_high = terms->step_high;
    place->seq_base = (uint64_t)terms->seq_high << 32;
    place->shaped = terms->shape;
    if (terms->shape)
        place->shape = *terms->shape;
    return place;
}

void name_bind(struct name *name, struct entry *entry)
{
    if (name->entry)
        name->entry->name = NULL; /* the entry of an earlier step */
    if (entry->name)
        entry->name->entry = NULL; /* the key was declared anew: the old name is unused */
    name->entry = entry;
    name->step = (uint32_t)entry->scope->id;
    entry->name = name;
}

/* ---- the producer ------------------------------------------------------------------ */

tryst_status names_out_open(struct names_out *names)
{
    hash_table_init(&names->index);
    names->places = mem_zalloc_array(NAMES_FIRST, sizeof *names->places);
    names->mask = NAMES_FIRST - 1;
    return names->places ? TRYST_OK : TRYST_E_NOMEM;
}

static struct declared *place_of(const struct names_out *names, uint64_t count)
{
    return &names->places[count & names->mask];
}

static void place_clear(struct names_out *names, struct declared *place)
{
    if (!place->count)
        return;
    hash_table_remove(&names->index, &place->node);
    prepared_unref(place->key);
    *place = (struct declared){0};
}

void names_out_close(struct names_out *names)
{
    for (uint64_t i = 0; names->places && i <= names->mask && i <= names->count; i++)
        place_clear(names, &names->places[i]);
    if (names->places)
        hash_table_close(&names->index);
    mem_free(names->places);
    mem_free(names->first);
    names->places = names->first = NULL;
}

void names_out_grow(struct names_out *names)
{
    struct declared *places = mem_zalloc_array(NAMES_MAX, sizeof *places);
    if (!places)
        return;
    for (uint64_t i = 0; i <= names->mask; i++) {
        struct declared *old = &names->places[i];
        struct declared *place = &places[old->count & (NAMES_MAX - 1)];
        if (!old->count)
            continue;
        *place = *old;
        hash_table_remove(&names->index, &old->node);
        hash_table_add(&names->index, &place->node, place->key->table_hash);
        /* Entries that point here find the new place by key. */
        *old = (struct declared){0};
    }
    names->first = names->places;
    names->places = places;
    names->mask = NAMES_MAX - 1;
}

static struct declared *place_find(const struct names_out *names, const tryst_key *key)
{
    hash_table_for_each (&names->index, key->table_hash, node) {
        struct declared *place = container_of(node, struct declared, node);
        if (place->key == key ||
            (place->key->bytes == key->bytes &&
             memcmp(place->key->string, key->string, key->bytes) == 0))
            return place;
    }
    return NULL;
}

static bool terms_hold(const struct declared *place, const struct name_terms *terms)
{
    const struct flow_shape *shape =
        place->plain_high == PLAIN_NONE ? &place->shape : NULL;
    return place->step_high == terms->step_high && place->seq_high == terms->seq_high &&
           flow_shapes_equal(shape, terms->shape);
}

struct declared *name_valid(const struct names_out *names, const struct entry *entry,
                            const struct name_terms *terms)
{
    struct declared *place = place_find(names, entry->key);
    return place && terms_hold(place, terms) ? place : NULL;
}

void name_add(struct names_out *names, struct entry *entry,
              const struct name_terms *terms)
{
    struct declared *old = place_find(names, entry->key);
    struct declared *place = place_of(names, ++names->count);
    if (old)
        place_clear(names, old);
    place_clear(names, place);
    place->key = prepared_ref(entry->key);
    place->count = names->count;
    place->step_high = terms->step_high;
    place->seq_high = terms->seq_high;
    place->plain_high = terms->shape ? PLAIN_NONE : terms->seq_high;
    if (terms->shape)
        place->shape = *terms->shape;
    hash_table_add(&names->index, &place->node, place->key->table_hash);
    name_adopt(entry, place);
}

void name_withdraw(struct names_out *names, struct entry *entry)
{
    struct declared *place = entry->declared ? place_of(names, entry->declared) : NULL;
    if (place && place->count == entry->declared)
        place_clear(names, place);
    entry->declared_at = NULL;
}
