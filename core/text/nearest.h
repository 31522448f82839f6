/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions of a known name for a mistyped one ("did you mean"). */
#ifndef TRYST_CORE_TEXT_NEAREST_H
#define TRYST_CORE_TEXT_NEAREST_H

#include <stddef.h>

/** Characters of a name that are compared; the rest is ignored. */
#define NEAREST_NAME_MAX 63

/** Find the candidate that `name` most likely means; returns its index, or `count` if no
 *  candidate is near. A candidate that begins with `name` comes first, the shortest of
 *  several. Otherwise the fewest edits decide, relative to the length, between `name` and
 *  a candidate, or the part of a candidate before an underscore; 2 edits of 5 characters
 *  are too many. Upper and lower case are equal. */
size_t name_nearest(const char *name, const char *(*candidate)(size_t index),
                    size_t count);

#endif
