/* SPDX-License-Identifier: Apache-2.0 */
#include "json_reader.h"

#include <inttypes.h>
#include <string.h>

struct text_place reader_place(const struct source *source, const struct json *value)
{
    return text_place_at(source->text, source->bytes, value->offset);
}

const struct json *reader_at(const struct json *object, const char *name)
{
    const struct json *member = json_member(object, name);
    return member ? member : object;
}

tryst_status reader_judge(const struct source *source, const struct json *value,
                          tryst_status status, const struct err *why)
{
    if (status == TRYST_OK)
        return status;
    return source_judge(source, reader_place(source, value), status, why);
}

tryst_status reader_members(const struct source *source, const struct json *object,
                            const char *what, const char *const *names)
{
    if (!json_is(object, JSON_OBJECT))
        return reader_refuse(source, object, "%s must be an object, {…}", what);
    json_for_each (object, member) {
        const char *const *known = names;
        while (*known && strcmp(*known, member->name) != 0)
            known++;
        if (!*known)
            return reader_refuse(source, member, "%s has no member \"%.60s\"", what,
                                 member->name);
    }
    return TRYST_OK;
}

tryst_status reader_string(const struct source *source, const struct json *object,
                           const char *name, bool needed, const char **string_p)
{
    const struct json *value = json_member(object, name);
    if (!value && needed)
        return reader_refuse(source, object, "\"%s\" is missing: a string", name);
    if (value && value->kind != JSON_STRING)
        return reader_refuse(source, value, "\"%s\" must be a string", name);
    *string_p = json_string_of(value);
    return TRYST_OK;
}

tryst_status reader_number(const struct source *source, const struct json *object,
                           const char *name, double min, double max, double *number_p)
{
    const struct json *value = json_member(object, name);
    double number = json_number_of(value);
    if (!json_is_number(value))
        return reader_refuse_member(source, object, name, "\"%s\" must be a number",
                                    name);
    if (!(number >= min && number <= max))
        return reader_refuse(source, value, "\"%s\" is %g: it must be %s, and at most %g",
                             name, number, min > 0 ? "above 0" : "0 or more", max);
    *number_p = number;
    return TRYST_OK;
}

tryst_status reader_whole(const struct source *source, const struct json *object,
                          const char *name, uint64_t max, uint64_t *number_p)
{
    const struct json *value = json_member(object, name);
    if (!value)
        return TRYST_OK;
    if (value->kind != JSON_WHOLE || value->whole < 0 || (uint64_t)value->whole > max)
        return reader_refuse(
            source, value, "\"%s\" must be a whole number from 0 to %" PRIu64, name, max);
    *number_p = (uint64_t)value->whole;
    return TRYST_OK;
}

tryst_status reader_list(const struct source *source, const struct json *object,
                         const char *name, bool needed,
                         tryst_status (*item_read)(const struct source *source,
                                                   const struct json *item, void *arg),
                         void *arg)
{
    const struct json *list = json_member(object, name);
    if (!list && needed)
        return reader_refuse(source, object, "\"%s\" is missing: a list, […]", name);
    if (list && list->kind != JSON_LIST)
        return reader_refuse(source, list, "\"%s\" must be a list, […]", name);
    json_for_each (list, item) {
        tryst_status status = item_read(source, item, arg);
        if (status != TRYST_OK)
            return status;
    }
    return TRYST_OK;
}
