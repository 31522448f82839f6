/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions; see nearest.h. The restricted edit distance (an insertion, a deletion, a
 * change, or two neighbours swapped), one row of the matrix at a time. The last row holds
 * the distance to each prefix of the candidate. */
#include "core/text/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Distance between a name and the nearest prefix of a candidate. */
struct nearness {
    size_t edits;
    size_t length; /* length that `edits` is relative to; 0: the candidate is not near */
    size_t rest;   /* characters of the candidate after that prefix */
};

typedef size_t edit_row[NEAREST_NAME_MAX + 1];

static bool same(char a, char b)
{
    return toupper((unsigned char)a) == toupper((unsigned char)b);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Compute the next row, for a[i], from the row before, `row`, and the row before that,
 * `older`. */
static void row_next(const char *a, size_t i, const char *b, size_t b_length,
                     const edit_row older, const edit_row row, edit_row next)
{
    next[0] = i + 1;
    for (size_t j = 0; j < b_length; j++) {
        size_t least =
            smaller(smaller(row[j + 1] + 1, next[j] + 1), row[j] + !same(a[i], b[j]));
        if (i > 0 && j > 0 && same(a[i], b[j - 1]) && same(a[i - 1], b[j]))
            least = smaller(least, older[j - 1] + 1);
        next[j + 1] = least;
    }
}

/* Compute edits[j], the distance from `a` to the first j characters of `b`. */
static void edits_count(const char *a, size_t a_length, const char *b, size_t b_length,
                        edit_row edits)
{
    edit_row older = {0}, row;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 0; i < a_length; i++) {
        row_next(a, i, b, b_length, older, row, edits);
        memcpy(older, row, sizeof older);
        memcpy(row, edits, sizeof row);
    }
    memcpy(edits, row, sizeof row);
}

static bool is_nearer(const struct nearness *a, const struct nearness *b)
{
    size_t mine = a->edits * b->length, theirs = b->edits * a->length;
    return a->length &&
           (!b->length || mine < theirs || (mine == theirs && a->rest < b->rest));
}

static struct nearness nearness_of(const char *name, const char *candidate)
{
    size_t length = strnlen(name, NEAREST_NAME_MAX);
    size_t whole = strnlen(candidate, NEAREST_NAME_MAX);
    struct nearness best = {.length = 0};
    edit_row edits;
    edits_count(name, length, candidate, whole, edits);
    for (size_t j = 1; j <= whole; j++) {
        bool ends = j == whole || candidate[j] == '_' || edits[j] == 0;
        struct nearness at = {edits[j], length > j ? length : j, whole - j};
        if (ends && 5 * at.edits < 2 * at.length && is_nearer(&at, &best))
            best = at;
    }
    return best;
}

size_t name_nearest(const char *name, const char *(*candidate)(size_t index),
                    size_t count)
{
    struct nearness best = {.length = 0};
    size_t nearest = count;
    for (size_t i = 0; i < count; i++) {
        struct nearness at = nearness_of(name, candidate(i));
        if (!is_nearer(&at, &best))
            continue;
        best = at;
        nearest = i;
    }
    return nearest;
}
