/* SPDX-License-Identifier: Apache-2.0 */
/* Suggest a known name for a mistyped one ("did you mean"). */
#ifndef TRYST_CORE_NEAREST_H
#define TRYST_CORE_NEAREST_H

#include <stddef.h>

/* Longer names are compared up to here. */
#define NEAREST_NAME_MAX 63

/* Find the candidate that `name` is most likely to mean; returns its index, or `count`: none of them is near. A
 * candidate that begins with `name` counts first, of several the shortest. Then the least number of
 * edits, relative to the length, between `name` and a candidate, or the beginning of one up to an underscore;
 * 2 edits of 5 characters are too many. Upper and lower case are equal. */
size_t name_nearest(const char *name, const char *(*candidate)(size_t index),
                    size_t count);

#endif
