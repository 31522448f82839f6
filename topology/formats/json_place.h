/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a JSON text a value stands.
 *
 * One idea: jansson says where the syntax is wrong, but not where a value stood that turned out to be wrong later.
 * Only then is the text, known to be JSON, walked again to find it, so a right file costs nothing.
 * Callers: readers of JSON (graph_json, the cluster).
 */
#ifndef TRYST_TOPOLOGY_JSON_PLACE_H
#define TRYST_TOPOLOGY_JSON_PLACE_H

#include <stddef.h>

/* One step from a value to a part of it: a member by name, or (name NULL) the item at `index`. */
struct json_step {
    const char *name;
    size_t index;
};

struct text_place {
    unsigned line, column; /* from 1; columns are characters */
};

/* The place of an offset in `text`. */
struct text_place text_place_at(const char *text, size_t bytes, size_t offset);

/* Where the value that `steps` lead to begins; of a path that ends early, the last value on it. `text` has been
 * read by jansson without an error. */
struct text_place json_place(const char *text, size_t bytes,
                             const struct json_step *steps, size_t steps_count);

#endif
