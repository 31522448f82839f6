/* SPDX-License-Identifier: Apache-2.0 */
/* See json_place.h. The text is valid JSON, so only brackets and strings are examined; in
 * any other text the walk stops at the end. Member names are compared as written: a name
 * with escapes is not found, and then the place is that of the enclosing object. */
#include "json_place.h"

#include <stdbool.h>
#include <string.h>

struct walk {
    const char *at, *end;
};

struct text_place text_place_at(const char *text, size_t bytes, size_t offset)
{
    struct text_place place = {1, 1};
    for (size_t i = 0; i < bytes && i < offset; i++) {
        if (text[i] == '\n')
            place = (struct text_place){place.line + 1, 1};
        else
            place.column += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return place;
}

static void blanks_skip(struct walk *walk)
{
    while (walk->at < walk->end && strchr(" \t\r\n,:", *walk->at) && *walk->at)
        walk->at++;
}

/* Skip a string that begins at walk->at. */
static void string_skip(struct walk *walk)
{
    for (walk->at++; walk->at < walk->end && *walk->at != '"'; walk->at++)
        if (*walk->at == '\\' && walk->at + 1 < walk->end)
            walk->at++;
    if (walk->at < walk->end)
        walk->at++;
}

static void value_skip(struct walk *walk)
{
    int depth = 0;
    do {
        char c = *walk->at;
        if (c == '"') {
            string_skip(walk);
            continue;
        }
        if (c == ']' || c == '}')
            depth--;
        depth += c == '[' || c == '{';
        walk->at++;
        if (depth == 0 && !strchr("[]{}", c)) /* a number or a word */
            while (walk->at < walk->end && !strchr(" \t\r\n,:]}", *walk->at))
                walk->at++;
    } while (depth > 0 && walk->at < walk->end);
}

/* Move from an array or an object to the value at `step`. Returns false, with walk->at
 * undefined, if that value does not exist. */
static bool step_into(struct walk *walk, const struct json_step *step)
{
    if (walk->at >= walk->end || *walk->at != (step->name ? '{' : '['))
        return false;
    walk->at++;
    for (size_t i = 0;; i++) {
        blanks_skip(walk);
        if (walk->at >= walk->end || *walk->at == ']' || *walk->at == '}')
            return false;
        bool found = !step->name && i == step->index;
        if (step->name) {
            const char *name = walk->at + 1;
            size_t length = strlen(step->name);
            string_skip(walk);
            found = (size_t)(walk->at - name) == length + 1 &&
                    memcmp(name, step->name, length) == 0;
            blanks_skip(walk);
        }
        if (found)
            return walk->at < walk->end;
        if (walk->at < walk->end)
            value_skip(walk);
    }
}

struct text_place json_place(const char *text, size_t bytes,
                             const struct json_step *steps, size_t steps_count)
{
    struct walk walk = {text, text + bytes};
    blanks_skip(&walk);
    const char *last = walk.at;
    for (size_t i = 0; i < steps_count && step_into(&walk, &steps[i]); i++)
        last = walk.at;
    return text_place_at(text, bytes, (size_t)(last - text));
}
