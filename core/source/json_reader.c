/* SPDX-License-Identifier: Apache-2.0 */
#include "json_reader.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- places ------------------------------------------------------------------------ */

/* Report a syntax error in jansson's words, at the last character that it read. */
static tryst_status syntax_refuse(const struct source *source, const json_error_t *error)
{
    size_t behind = error->position > 0 ? (size_t)error->position : 1;
    if (json_error_code(error) == json_error_out_of_memory)
        return source_no_memory(source);
    return source_refuse(source, text_place_at(source->text, source->bytes, behind - 1),
                         "invalid JSON: %s", error->text);
}

tryst_status reader_parse(const struct source *source, json_t **root_p)
{
    json_error_t error;
    json_t *root =
        json_loadb(source->text, source->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return syntax_refuse(source, &error);
    *root_p = root;
    return TRYST_OK;
}

void reader_enter(struct json_reader *reader, const char *name, size_t index)
{
    assert(reader->path_count < JSON_READER_STEPS_MAX);
    reader->path[reader->path_count++] = (struct json_step){name, index};
}

json_t *reader_enter_member(struct json_reader *reader, json_t *object, const char *name)
{
    reader_enter(reader, name, 0);
    return json_object_get(object, name);
}

void reader_leave(struct json_reader *reader)
{
    reader->path_count--;
}

struct text_place reader_place(const struct json_reader *reader)
{
    return json_place(reader->source->text, reader->source->bytes, reader->path,
                      reader->path_count);
}

tryst_status reader_judge(const struct json_reader *reader, tryst_status status,
                          const struct err *why)
{
    if (status == TRYST_OK)
        return status;
    return source_judge(reader->source, reader_place(reader), status, why);
}

/* ---- values ------------------------------------------------------------------------ */

tryst_status reader_members(struct json_reader *reader, json_t *object, const char *what,
                            const char *const *names)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return reader_refuse(reader, "%s must be an object, {…}", what);
    json_object_foreach(object, name, value)
    {
        const char *const *known = names;
        while (*known && strcmp(*known, name) != 0)
            known++;
        if (!*known)
            return reader_refuse_member(reader, name, "%s has no member \"%.60s\"", what,
                                        name);
    }
    return TRYST_OK;
}

tryst_status reader_string(struct json_reader *reader, json_t *object, const char *name,
                           bool needed, const char **string_p)
{
    json_t *value = json_object_get(object, name);
    if (!value && needed)
        return reader_refuse(reader, "\"%s\" is missing: a string", name);
    if (value && !json_is_string(value))
        return reader_refuse_member(reader, name, "\"%s\" must be a string", name);
    *string_p = json_string_value(value);
    return TRYST_OK;
}

tryst_status reader_number(struct json_reader *reader, json_t *object, const char *name,
                           double min, double max, double *number_p)
{
    json_t *value = json_object_get(object, name);
    double number = json_number_value(value);
    if (!json_is_number(value))
        return reader_refuse_member(reader, name, "\"%s\" must be a number", name);
    if (!(number >= min && number <= max))
        return reader_refuse_member(reader, name,
                                    "\"%s\" is %g: it must be %s, and at most %g", name,
                                    number, min > 0 ? "above 0" : "0 or more", max);
    *number_p = number;
    return TRYST_OK;
}

tryst_status reader_whole(struct json_reader *reader, json_t *object, const char *name,
                          uint64_t max, uint64_t *number_p)
{
    json_t *value = json_object_get(object, name);
    json_int_t number = json_integer_value(value);
    if (!value)
        return TRYST_OK;
    if (!json_is_integer(value) || number < 0 || (uint64_t)number > max)
        return reader_refuse_member(
            reader, name, "\"%s\" must be a whole number from 0 to %" PRIu64, name, max);
    *number_p = (uint64_t)number;
    return TRYST_OK;
}

tryst_status reader_list(struct json_reader *reader, json_t *object, const char *name,
                         bool needed,
                         tryst_status (*item_read)(struct json_reader *reader,
                                                   json_t *item, void *arg),
                         void *arg)
{
    json_t *list = json_object_get(object, name), *item;
    size_t i;
    if (!list && needed)
        return reader_refuse(reader, "\"%s\" is missing: a list, […]", name);
    if (!list)
        return TRYST_OK;
    reader_enter(reader, name, 0);
    if (!json_is_array(list))
        return reader_refuse(reader, "\"%s\" must be a list, […]", name);
    json_array_foreach(list, i, item)
    {
        reader_enter(reader, NULL, i);
        tryst_status status = item_read(reader, item, arg);
        if (status != TRYST_OK)
            return status;
        reader_leave(reader);
    }
    reader_leave(reader);
    return TRYST_OK;
}
