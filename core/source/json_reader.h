/* SPDX-License-Identifier: Apache-2.0 */
/** @file json_reader.h
 *  Read a JSON text that a person may have written.
 *
 *  One idea: every error is reported at the value that is wrong; and each object has a
 *  table of its valid members, so a typing mistake is an error and not a default.
 *
 *  A function that fails has written its error to source->err. `source` is what `object`
 *  was parsed from.
 */
#ifndef TRYST_CORE_SOURCE_JSON_READER_H
#define TRYST_CORE_SOURCE_JSON_READER_H

#include "json.h"

struct text_place reader_place(const struct source *source, const struct json *value);
/** Reject `value`. */
#define reader_refuse(source, value, ...) \
    source_refuse((source), reader_place((source), (value)), __VA_ARGS__)
/** Reject the member `name` of `object`; where it is missing, `object`. */
#define reader_refuse_member(source, object, name, ...) \
    reader_refuse((source), reader_at((object), (name)), __VA_ARGS__)
/** Return the member `name` of `object`; where it is missing, `object`. */
const struct json *reader_at(const struct json *object, const char *name);
/** Return `status`; where it is a failure, report `why` at `value`. */
tryst_status reader_judge(const struct source *source, const struct json *value,
                          tryst_status status, const struct err *why);

/** Check that `object` is an object with members of `names` alone, which ends with NULL;
 *  `what` names it in messages: "a link". */
tryst_status reader_members(const struct source *source, const struct json *object,
                            const char *what, const char *const *names);

/** Read the string `name` of `object`. *string_p lives as long as `object`; it is NULL if
 *  the member is missing and not `needed`. */
tryst_status reader_string(const struct source *source, const struct json *object,
                           const char *name, bool needed, const char **string_p);
/** Read the number `name` of `object`, which has it. */
tryst_status reader_number(const struct source *source, const struct json *object,
                           const char *name, double min, double max, double *number_p);
/** Read a whole number up to `max`; *number_p is unchanged where the member is
 *  missing. */
tryst_status reader_whole(const struct source *source, const struct json *object,
                          const char *name, uint64_t max, uint64_t *number_p);

/** Call `item_read` for each item of the list `name` of `object`, until one fails. */
tryst_status reader_list(const struct source *source, const struct json *object,
                         const char *name, bool needed,
                         tryst_status (*item_read)(const struct source *source,
                                                   const struct json *item, void *arg),
                         void *arg);

#endif
