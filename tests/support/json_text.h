/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that a program has written, read by core/source. An error ends the test. */
#ifndef TRYST_TESTS_SUPPORT_JSON_TEXT_H
#define TRYST_TESTS_SUPPORT_JSON_TEXT_H

#include <stdio.h>
#include <stdlib.h>

#include "core/memory/alloc.h"
#include "core/source/json.h"

/** Parse a text. The caller frees the values by mem_free; the text may go before. */
static inline struct json *json_of_text(const char *text, size_t bytes)
{
    struct err err = ERR_INIT;
    const struct source source = {text, bytes, "text", &err};
    struct json *root;
    if (json_parse(&source, &root) == TRYST_OK)
        return root;
    fprintf(stderr, "%s in\n%.*s\n", err.text, (int)bytes, text);
    exit(1);
}

/** Parse a file, as json_of_text. */
static inline struct json *json_of_file(const char *path)
{
    struct err err = ERR_INIT;
    const char *name;
    char *text;
    size_t bytes;
    if (source_load(path, &err, &name, &text, &bytes) != TRYST_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    struct json *root = json_of_text(text, bytes);
    mem_free(text);
    return root;
}

static inline int64_t json_integer_of(const struct json *value)
{
    return (int64_t)json_number_of(value);
}

#endif
