/* SPDX-License-Identifier: Apache-2.0 */
/* The consumer's table of short names for keys; see names.h. Callers: eager.c, records.c, peer.c. */
#include "names.h"

static void name_forget(struct name *name)
{
    if (name->entry)
        name->entry->name = NULL;
    *name = (struct name){0};
}

struct name *name_declare(struct name *names, uint32_t name, uint64_t step, uint64_t hash)
{
    struct name *place = &names[name & (NAMES_MAX - 1)];
    name_forget(place);
    place->name = name;
    place->step = step;
    place->hash = hash;
    return place;
}

void name_bind(struct name *name, struct entry *entry)
{
    if (entry->name)
        entry->name->entry = NULL; /* declared anew: the old name has no use */
    name->entry = entry;
    entry->name = name;
}

void names_forget(struct name *names)
{
    for (unsigned i = 0; i < NAMES_MAX; i++)
        name_forget(&names[i]);
}
